//! A CPU-bound program: uses all the CPU time it is given.

use anyhow::Result;
use clap::Parser;
use std::io::{Read, pipe};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use tombola_apps::{fork, process_cpu_time, work_unit};

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
    /// Processes that burn, forked from one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    processes: u32,
    /// Yield the CPU after every unit of work, as a badly written program does
    #[arg(long)]
    yielding: bool,
    /// First execute this program again from a second thread: the first one ends, and the second takes over its number
    #[arg(long)]
    succeed: bool,
}

/// Forks the other processes. None begins before all are there, since it would compete with the process that forks.
fn fork_all(children: u32) -> Result<()> {
    let (mut all_are_there, parent_end) = pipe()?;
    for _ in 0..children {
        if fork()? {
            drop(parent_end);
            all_are_there.read_to_end(&mut Vec::new())?;
            break;
        }
    }
    Ok(())
}

/// Does not return.
fn succeed() {
    let again = thread::spawn(|| {
        let own = std::env::args_os();
        Command::new("/proc/self/exe")
            .args(own.skip(1).filter(|argument| argument != "--succeed"))
            .exec()
    });
    panic!("cannot execute: {:?}", again.join());
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
    if args.succeed {
        succeed();
    }
    fork_all(args.processes - 1).expect("cannot start the other processes");
    let others: Vec<_> = (1..args.threads)
        .map(|_| thread::spawn(move || burn(args.units, args.yielding)))
        .collect();
    burn(args.units, args.yielding);
    for other in others {
        other.join().expect("a burning thread does not panic");
    }
    println!("{:.6}", process_cpu_time().as_secs_f64());
}
