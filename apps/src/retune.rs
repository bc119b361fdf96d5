//! A program that changes its own tickets many times, as one does that adapts them to its work, and reports what that costs.

use anyhow::Result;
use clap::Parser;
use std::process;
use std::time::Instant;
use tombola_kernel::calls::Client;

/// Change this process's tickets many times, and print how long one change takes
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Number of changes
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    changes: u32,
}

/// Set in turn: to set what is set already would be cheaper.
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
