//! A program that changes its own tickets without end, as one does that adapts them to its work, and says what that costs.

use anyhow::Result;
use clap::Parser;
use std::process;
use std::time::Instant;
use tombola_kernel::calls::Client;

/// Change one's own tickets many times, and print how long one change takes
#[derive(Parser)]
#[command(version)]
struct Args {
    /// How many times
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
}

/// Between these two, in turn: a change to what it is already would be cheaper.
const TICKETS: [u32; 2] = [100, 200];

fn main() -> Result<()> {
    let args = Args::parse();
    let client = Client::open()?;
    let began = Instant::now();
    for tickets in TICKETS.into_iter().cycle().take(args.changes as usize) {
        client.set_tickets(process::id(), tickets)?;
    }
    let each = began.elapsed() / args.changes;
    println!("{} changes, {} ns each", args.changes, each.as_nanos());
    Ok(())
}
