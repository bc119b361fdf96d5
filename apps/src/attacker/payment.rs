//! Attempts not to pay for CPU time: a run is charged when it ends, so a process moves or changes tickets before that.

use crate::setup::{Never, helper, ready};
use anyhow::Result;
use nix::unistd::Uid;
use std::process;
use std::thread;
use std::time::Duration;
use tombola_apps::work_for;
use tombola_kernel::calls::Client;
use tombola_kernel::currencies::Currency;

#[derive(clap::Args)]
pub struct Args {
    /// CPU time between two changes, in microseconds
    #[arg(long, default_value_t = 200)]
    work_us: u64,
    /// How often the second process undoes the change, in microseconds
    #[arg(long, default_value_t = 1000)]
    back_us: u64,
}

const TICKETS: u32 = 100;
const TICKETS_MOST: u32 = 10_000;

fn make(client: &Client, name: &str, tickets: u32) -> Result<Currency> {
    let name = format!("{name}-{}", process::id());
    Ok(client.make_currency(Uid::current().as_raw(), &name, tickets, None)?)
}

/// This process works, and changes something with `go`; a second one undoes that with `back`.
fn in_turn(
    args: &Args,
    go: impl Fn(u32) -> tombola_kernel::Result<()>,
    back: impl Fn(u32) -> tombola_kernel::Result<()>,
) -> Never {
    let worker = process::id();
    if helper()? {
        loop {
            back(worker)?;
            thread::sleep(Duration::from_micros(args.back_us));
        }
    }
    ready();
    loop {
        go(worker)?;
        work_for(Duration::from_micros(args.work_us));
    }
}

pub fn freeze_unpaid(args: &Args) -> Never {
    let client = Client::open()?;
    let go = |worker| client.set_tickets(worker, 0);
    let back = |worker| client.set_tickets(worker, TICKETS);
    in_turn(args, go, back)
}

pub fn enter_frozen(args: &Args) -> Never {
    let client = Client::open()?;
    let frozen = make(&client, "frozen", TICKETS)?;
    client.fund_currency(&frozen, 0)?;
    let go = |worker| client.move_process(worker, Some(&frozen));
    let back = |worker| client.move_process(worker, None);
    in_turn(args, go, back)
}

pub fn change_currency(args: &Args) -> Never {
    let client = Client::open()?;
    let currencies = [
        make(&client, "one", TICKETS)?,
        make(&client, "two", TICKETS_MOST)?,
    ];
    ready();
    for to in currencies.iter().cycle() {
        client.move_process(process::id(), Some(to))?;
        work_for(Duration::from_micros(args.work_us));
    }
    unreachable!("the cycle has no end")
}

/// A short sleep follows the increase, so that the next draw is won with many tickets.
fn timed(args: &Args, set: impl Fn(bool) -> tombola_kernel::Result<()>) -> Never {
    ready();
    loop {
        set(false)?;
        work_for(Duration::from_micros(args.work_us));
        set(true)?;
        thread::sleep(Duration::from_micros(1));
    }
}

pub fn timed_funding(args: &Args) -> Never {
    let client = Client::open()?;
    let currency = make(&client, "timed", TICKETS)?;
    client.move_process(process::id(), Some(&currency))?;
    let tickets = |many| if many { TICKETS_MOST } else { 1 };
    timed(args, |many| client.fund_currency(&currency, tickets(many)))
}

pub fn timed_base(args: &Args) -> Never {
    let client = Client::open()?;
    let own = Uid::current().as_raw();
    let base = |many| if many { 1000 } else { 100 };
    timed(args, |many| client.set_base_tickets(own, base(many)))
}
