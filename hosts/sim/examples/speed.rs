//! How many decisions the simulation takes in a second of real time, on one core.
//!
//!   cargo run --release -p tombola-sim --example speed

use std::time::Instant;
use tombola_core::Rules;
use tombola_sim::{Costs, MS, Random, SECOND, Scheduler, Simulation, Tombola, hog};

fn main() {
    println!(
        "{:>6} {:>8} {:>12} {:>14} {:>14}",
        "CPUs", "clients", "simulated s", "decisions", "decisions/s"
    );
    for (cpus, clients, seconds) in [(1, 10, 60), (4, 100, 20), (64, 1000, 5)] {
        let scheduler = Tombola::new(Rules::stride(MS));
        let mut simulation = Simulation::new(scheduler, cpus, Costs::default(), 1);
        let mut random = Random(1);
        let users: Vec<u32> = (0..clients / 3 + 1)
            .map(|_| simulation.scheduler.user(100 + random.below(9900) as u32))
            .collect();
        for i in 0..clients {
            simulation.task(users[i % users.len()], 1 + random.below(100) as u32, hog());
        }
        let begun = Instant::now();
        simulation.run_until(seconds * SECOND);
        let slices = simulation.scheduler.slices;
        let each_second = slices as f64 / begun.elapsed().as_secs_f64();
        println!("{cpus:>6} {clients:>8} {seconds:>12} {slices:>14} {each_second:>14.0}");
    }
}
