//! The bound on lag across several run queues (docs/fairness.md), in random histories of busy tasks.
//!
//!   TOMBOLA_HISTORIES=1000000 cargo test --release -p tombola-sim --test lag -- --nocapture
//!
//! | environment | |
//! |---|---|
//! | TOMBOLA_HISTORIES | how many; `make test` takes 10,000 |
//! | TOMBOLA_HISTORIES_FROM | the first seed |

#[path = "../../../core/tests/environment/mod.rs"]
mod environment;

use environment::from_environment;
use tombola_core::limits::APART_MAX;
use tombola_sim::entitlement::{Client, rates};
use tombola_sim::{
    ANYWHERE, Costs, MS, Random, Rules, SECOND, Scheduler, Simulation, Tombola, Topology, hog,
};

const STEP_NS: u64 = SECOND / 20;
const SPAN_NS: u64 = SECOND;
/// Who is due more than this can hardly make up for what it has missed, and counts as one that cannot use its tickets.
const DUE_MOST: f64 = 0.9;

/// Busy tasks of some users on a machine with two to four queues of one or two CPUs.
struct History {
    simulation: Simulation<Tombola>,
    rules: Rules,
    bound_ns: f64,
    due: Vec<f64>,
}

impl History {
    /// `None` if tickets are not feasible.
    fn new(seed: u64) -> Option<Self> {
        let mut random = Random(seed);
        let cpus_each = 1 + random.below(2) as usize;
        let cpus = (2 + random.below(3) as usize) * cpus_each;
        let bound_ns = if cpus_each == 1 { 20 * MS } else { 10 * MS };
        let (topology, rules) = (Topology::from(cpus), Rules::stride(MS));
        let scheduler = Tombola::with_queues(rules, topology, cpus_each, bound_ns);
        let mut simulation = Simulation::new(scheduler, topology, Costs::default(), seed);
        let mut clients = vec![Client::currency(None, 1)];
        let tasks = cpus + 1 + random.below(3 * cpus as u64) as usize;
        let users = 1 + random.below(tasks as u64) as usize;
        let mut of_users = Vec::new();
        for _ in 0..users {
            let tickets = random.log_uniform(100.0, 10_000.0);
            clients.push(Client::currency(Some(0), tickets));
            of_users.push(tickets);
        }
        let mut of_tasks = Vec::new();
        for task in 0..tasks {
            let user = match task < users {
                true => task,
                false => random.below(users as u64) as usize,
            };
            let tickets = random.log_uniform(10.0, 1000.0);
            clients.push(Client::leaf(user + 1, tickets, ANYWHERE));
            of_tasks.push((user, tickets));
        }
        let due = rates(&clients, cpus).split_off(users + 1);
        if due.iter().any(|&due| due > DUE_MOST) {
            return None;
        }
        let of_users: Vec<u32> = (of_users.into_iter())
            .map(|tickets| simulation.scheduler.user(tickets))
            .collect();
        for (user, tickets) in of_tasks {
            simulation.task(of_users[user], tickets, hog());
        }
        Some(Self {
            simulation,
            rules,
            bound_ns: bound_ns as f64,
            due,
        })
    }

    /// The largest lag of a task at any moment looked at, ahead or behind, as a part of the bound.
    fn run(mut self) -> f64 {
        let mut worst = 0.0f64;
        // On two levels: in its user, and of the user on the machine.
        let on_queues = 2.0 * (self.rules.lag_ns + self.rules.quantum_ns) as f64;
        for at in 1..=SPAN_NS / STEP_NS {
            self.simulation.run_until(at * STEP_NS);
            for (task, &due) in self.due.iter().enumerate() {
                let received = self.simulation.machine.ran_ns(task) as f64;
                let lag = (due * (at * STEP_NS) as f64 - received).abs();
                let between = due * APART_MAX as f64 * self.bound_ns + self.bound_ns / 2.0;
                worst = worst.max(lag / (between + on_queues));
            }
        }
        worst
    }
}

#[test]
fn lags_stay_within_the_bound() {
    let from: u64 = from_environment("TOMBOLA_HISTORIES_FROM", 0);
    let histories: u64 = from_environment("TOMBOLA_HISTORIES", 10_000);
    let (mut seed, mut beyond, mut worst) = (from, 0, (0.0, from));
    for done in 1..=histories {
        let history = loop {
            seed += 1;
            if let Some(history) = History::new(seed) {
                break history;
            }
        };
        let lag = history.run();
        beyond += u64::from(lag > 1.0);
        if lag > worst.0 {
            worst = (lag, seed);
        }
        if done % 100_000 == 0 || done == histories {
            let (lag, seed) = worst;
            println!(
                "{done} histories, {beyond} beyond the bound, largest lag {lag:.3} of it, seed {seed}"
            );
        }
    }
    assert_eq!(beyond, 0, "of {histories}");
}
