//! How many decisions the simulation takes in a second of real time, on one core.
//!
//!   cargo run --release -p tombola-sim --example speed

use std::time::Instant;
use tombola_core::Rules;
use tombola_sim::{
    Balance, Costs, MS, Random, RunQueues, Scheduler, Simulation, Tombola, Topology, hog,
};

const CPUS_A_CACHE: usize = 8;
/// More users would have more tickets than several run queues can count.
const USERS_MAX: usize = 3000;

fn main() {
    println!(
        "{:>6} {:>8} {:>8} {:>12} {:>14} {:>14}",
        "CPUs", "queues", "tasks", "simulated s", "decisions", "decisions/s"
    );
    let balance = Balance::Clock;
    for (cpus, tasks, ms, queues) in [
        (1, 10, 60_000, RunQueues::Machine),
        (4, 100, 20_000, RunQueues::Machine),
        (64, 1000, 5000, RunQueues::Machine),
        (64, 1000, 5000, RunQueues::PerCache(balance)),
        (64, 1000, 5000, RunQueues::PerCpu(balance)),
        (4096, 100_000, 500, RunQueues::PerCache(balance)),
        (4096, 100_000, 500, RunQueues::PerCpu(balance)),
    ] {
        let topology = Topology {
            cpus,
            cpus_per_cache: CPUS_A_CACHE,
            cpus_per_node: cpus,
        };
        let scheduler = Tombola::with_run_queues(Rules::stride(MS), topology, queues);
        let mut simulation = Simulation::new(scheduler, topology, Costs::default(), 1);
        let mut random = Random(1);
        let users: Vec<u32> = (0..(tasks / 3 + 1).min(USERS_MAX))
            .map(|_| simulation.scheduler.user(100 + random.below(9900) as u32))
            .collect();
        for i in 0..tasks {
            simulation.task(users[i % users.len()], 1 + random.below(100) as u32, hog());
        }
        let begun = Instant::now();
        simulation.run_until(ms * MS);
        let slices = simulation.scheduler.slices;
        let each_second = slices as f64 / begun.elapsed().as_secs_f64();
        println!(
            "{cpus:>6} {:>8} {tasks:>8} {:>12} {slices:>14} {each_second:>14.0}",
            queues.count(topology),
            ms as f64 / 1e3
        );
    }
}
