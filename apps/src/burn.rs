//! A CPU-bound program: uses all the CPU time it is given.

use clap::Parser;
use std::thread;
use tombola_apps::{process_cpu_time, work_unit};

/// Burn CPU time, for ever or for a number of work units
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Exit after this many units of work (20000 multiplications each) in every thread; 0: never
    #[arg(long, default_value_t = 0)]
    units: u64,
    /// Threads that burn
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: u32,
    /// Give the CPU away after every unit of work, as a badly written program does
    #[arg(long)]
    yielding: bool,
}

fn burn(units: u64, yielding: bool) {
    let mut sum = 1;
    let mut done = 0;
    while units == 0 || done < units {
        sum = work_unit(sum);
        done += 1;
        if yielding {
            thread::yield_now();
        }
    }
    std::hint::black_box(sum);
}

fn main() {
    let args = Args::parse();
    let others: Vec<_> = (1..args.threads)
        .map(|_| thread::spawn(move || burn(args.units, args.yielding)))
        .collect();
    burn(args.units, args.yielding);
    for other in others {
        other.join().expect("a burning thread does not panic");
    }
    println!("{:.6}", process_cpu_time().as_secs_f64());
}
