//! Runs in the guest, as root: puts the scheduler under stress and checks that every process makes progress.

mod restarts;
mod steps;
mod stress;

use clap::Parser;
use std::process::exit;

#[derive(Parser)]
enum Probe {
    Stress(stress::Args),
    Restarts(restarts::Args),
}

fn main() {
    let result = match Probe::parse() {
        Probe::Stress(args) => stress::run(&args),
        Probe::Restarts(args) => restarts::run(&args),
    };
    if let Err(error) = result {
        println!("robust-probe: {error}");
        exit(1);
    }
}
