//! Runs in the guest, as root: puts the scheduler under stress and says whether everybody got on.

mod restarts;
mod steps;
mod turmoil;

use clap::Parser;
use std::process::exit;

#[derive(Parser)]
enum Stress {
    Turmoil(turmoil::Args),
    Restarts(restarts::Args),
}

fn main() {
    let result = match Stress::parse() {
        Stress::Turmoil(args) => turmoil::run(&args),
        Stress::Restarts(args) => restarts::run(&args),
    };
    if let Err(error) = result {
        println!("robust-probe: {error}");
        exit(1);
    }
}
