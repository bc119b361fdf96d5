//! Private calls, repeated without end.

use crate::setup::{Never, ready};
use clap::ValueEnum;
use nix::unistd::Uid;
use std::process;
use tombola_kernel::calls::Client;

#[derive(clap::Args)]
pub struct RaiseBase {
    #[arg(default_value_t = 1000)]
    tickets: u32,
}

pub fn raise_base(args: &RaiseBase) -> Never {
    let client = Client::open()?;
    ready();
    loop {
        // A refusal is expected.
        let _ = client.set_base_tickets(Uid::current().as_raw(), args.tickets);
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    /// Read the tree
    Tree,
    /// Move a currency into another and out again
    Move,
    /// Make and retire a currency
    Retire,
}

#[derive(clap::Args)]
pub struct Call {
    #[arg(value_enum)]
    what: What,
}

pub fn call(args: &Call) -> Never {
    let client = Client::open()?;
    let (uid, own) = (Uid::current().as_raw(), process::id());
    let outer = client.make_currency(uid, &format!("outer-{own}"), 100, None)?;
    let inner = client.make_currency(uid, &format!("inner-{own}"), 100, None)?;
    ready();
    loop {
        // Other processes change currencies at the same time: a call that failed for that is made again.
        match args.what {
            What::Tree => drop(client.tree()?),
            What::Move => {
                let _ = client.move_currency(&inner, Some(&outer));
                let _ = client.move_currency(&inner, None);
            }
            What::Retire => {
                let made = client.make_currency(uid, &format!("made-{own}"), 100, None);
                let _ = made.and_then(|made| client.retire_currency(&made));
            }
        }
    }
}
