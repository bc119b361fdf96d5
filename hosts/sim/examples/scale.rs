//! Several run queues on machines of 4 to 1024 CPUs: how far hogs are from what is due to them, and how often they move.
//!
//!   cargo run --release -p tombola-sim --example scale [SEED]

#[path = "../tests/several/mod.rs"]
mod several;

use several::Economy;
use std::time::Instant;

const SECONDS: u64 = 12;

fn main() {
    let seed = std::env::args()
        .nth(1)
        .map_or(1, |seed| seed.parse().expect("the seed is a whole number"));
    println!(
        "{:>5} {:>8} {:>12} {:>12} {:>12} {:>12} {:>8} {:>12} {:>8}",
        "CPUs",
        "a queue",
        "1 s mean %",
        "worst %",
        "10 s mean %",
        "worst %",
        "lag ms",
        "moves/s/CPU",
        "seconds"
    );
    for cpus in [4, 16, 64, 256, 1024] {
        for (cpus_each, bound_ms) in [(cpus, 10), (8, 10), (1, 20)] {
            // One queue for many CPUs is as slow as it is on a real machine.
            if cpus_each > 64 || (cpus_each == 8 && cpus < 16) {
                continue;
            }
            let begun = Instant::now();
            let outcome = Economy::new(cpus, cpus_each, bound_ms, seed).run(SECONDS);
            let [one, ten] = [10, 100].map(|window| outcome.error(window));
            println!(
                "{cpus:>5} {cpus_each:>8} {:>12.3} {:>12.2} {:>12.3} {:>12.2} {:>8.1} {:>12.2} {:>8.1}",
                100.0 * one.0,
                100.0 * one.1,
                100.0 * ten.0,
                100.0 * ten.1,
                1000.0 * outcome.lag(),
                outcome.moves,
                begun.elapsed().as_secs_f64()
            );
        }
    }
}
