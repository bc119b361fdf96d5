//! A program that works and naps, as interactive ones do, and reports how late it got the CPU.

use clap::Parser;
use std::thread;
use std::time::{Duration, Instant};
use tombola_apps::{monotonic, work_for};

/// Work, nap, and again
#[derive(Parser)]
#[command(version)]
struct Args {
    /// CPU time of one piece of work, in microseconds
    #[arg(long, default_value_t = 3000)]
    work_us: u64,
    /// Length of a nap, in microseconds
    #[arg(long, default_value_t = 100)]
    nap_us: u64,
    /// A pseudo-random part of the nap on top, at most this many microseconds
    #[arg(long, default_value_t = 0)]
    jitter_us: u64,
    /// Exit after this many naps and print, for each, how many microseconds after its end the work began; 0: never
    #[arg(long, default_value_t = 0)]
    naps: u64,
    /// Instead, work until just before each tick of so many microseconds, and nap over it: no tick finds the program running
    #[arg(long, conflicts_with = "naps")]
    tick_us: Option<u64>,
}

/// Pseudo-random numbers are the same in every run (Knuth's MMIX generator).
struct Jitter(u64);

impl Jitter {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        if below == 0 {
            0
        } else {
            (self.0 >> 33) % below
        }
    }
}

/// How long before a tick the nap begins, and how long after it the nap ends.
const TICK_MARGIN: Duration = Duration::from_micros(200);

/// Ticks are at multiples of their period on the monotonic clock.
fn nap_over_ticks(tick: Duration) -> ! {
    let in_tick = || Duration::from_nanos((monotonic().as_nanos() % tick.as_nanos()) as u64);
    loop {
        let past = in_tick();
        if past >= TICK_MARGIN && past < tick - TICK_MARGIN {
            (0..1000).for_each(|i| _ = std::hint::black_box(i));
        } else {
            thread::sleep((tick + TICK_MARGIN - past).min(2 * TICK_MARGIN));
        }
    }
}

fn main() {
    let args = Args::parse();
    if let Some(tick_us) = args.tick_us {
        nap_over_ticks(Duration::from_micros(tick_us));
    }
    let mut jitter = Jitter(1);
    let mut late_us = Vec::new();
    while args.naps == 0 || (late_us.len() as u64) < args.naps {
        work_for(Duration::from_micros(args.work_us));
        let nap = Duration::from_micros(args.nap_us + jitter.next(args.jitter_us + 1));
        let before = Instant::now();
        thread::sleep(nap);
        if args.naps > 0 {
            late_us.push(before.elapsed().saturating_sub(nap).as_micros());
        }
    }
    for late in late_us {
        println!("{late}");
    }
}
