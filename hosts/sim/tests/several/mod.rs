//! Hogs of random users on a machine with several run queues, and how far they are from what is due to them.

use tombola_sim::entitlement::{Client, rates};
use tombola_sim::{
    ANYWHERE, Costs, MS, Random, Rules, SECOND, Scheduler, Simulation, TaskId, Tombola, Topology,
    hog,
};

const WARM_NS: u64 = 2 * SECOND;
const STEP_NS: u64 = SECOND / 10;
/// Shares of tasks that are due less than this are told by few slices.
const DUE_LEAST: f64 = 0.05;

/// Four hogs for each CPU; users for a third as many, with base tickets of 100 to 10000 and tickets of 1 to 100, small ones as
/// often as large ones.
pub struct Economy {
    pub simulation: Simulation<Tombola>,
    tasks: Vec<TaskId>,
    /// What is due to each task, in CPUs.
    due: Vec<f64>,
}

/// What happened in some seconds after the first two.
pub struct Outcome {
    /// CPU time received by each task at each tenth of a second, s.
    samples: Vec<Vec<f64>>,
    due: Vec<f64>,
    /// Tasks that a slow queue gave away, a second and CPU.
    pub moves: f64,
}

impl Economy {
    pub fn new(cpus: usize, cpus_each: usize, bound_ms: u64, seed: u64) -> Self {
        let topology = Topology::from(cpus);
        let scheduler = Tombola::with_queues(Rules::stride(MS), topology, cpus_each, bound_ms * MS);
        let mut simulation = Simulation::new(scheduler, topology, Costs::default(), seed);
        let mut random = Random(seed);
        let hogs = 4 * cpus;
        let mut clients = vec![Client::currency(None, 1)];
        let mut users = Vec::new();
        for _ in 0..hogs / 3 {
            let tickets = random.log_uniform(100.0, 10_000.0);
            clients.push(Client::currency(Some(0), tickets));
            users.push(simulation.scheduler.user(tickets));
        }
        let mut tasks = Vec::new();
        for _ in 0..hogs {
            let user = random.below(users.len() as u64) as usize;
            let tickets = random.log_uniform(1.0, 100.0);
            tasks.push(simulation.task(users[user], tickets, hog()));
            clients.push(Client::leaf(user + 1, tickets, ANYWHERE));
        }
        let due = rates(&clients, cpus).split_off(users.len() + 1);
        Self {
            simulation,
            tasks,
            due,
        }
    }

    pub fn run(mut self, seconds: u64) -> Outcome {
        self.simulation.run_until(WARM_NS);
        let before = self.simulation.scheduler.moves;
        let mut samples = vec![self.sample()];
        for step in 1..=seconds * SECOND / STEP_NS {
            self.simulation.run_until(WARM_NS + step * STEP_NS);
            samples.push(self.sample());
        }
        let cpus = self.simulation.machine.cpus() as f64;
        let moves = (self.simulation.scheduler.moves - before) as f64;
        Outcome {
            samples,
            due: self.due,
            moves: moves / seconds as f64 / cpus,
        }
    }

    fn sample(&self) -> Vec<f64> {
        let machine = &self.simulation.machine;
        let ran_s = |&task: &TaskId| machine.ran_ns(task) as f64 / SECOND as f64;
        self.tasks.iter().map(ran_s).collect()
    }
}

impl Outcome {
    /// The mean and the largest error of a task in windows of so many tenths of a second, as a part of what is due.
    pub fn error(&self, window: usize) -> (f64, f64) {
        let (mut worst, mut sum, mut count) = (0.0f64, 0.0, 0.0);
        for ends in self.samples.windows(window + 1) {
            for (i, &rate) in self.due.iter().enumerate() {
                if rate >= DUE_LEAST {
                    let due = rate * window as f64 / 10.0;
                    let error = (ends[window][i] - ends[0][i] - due).abs() / due;
                    worst = worst.max(error);
                    sum += error;
                    count += 1.0;
                }
            }
        }
        (sum / count, worst)
    }

    /// The largest lag since the beginning, s of CPU time.
    pub fn lag(&self) -> f64 {
        let mut lag = 0.0f64;
        for (at, sample) in self.samples.iter().enumerate() {
            for (i, &rate) in self.due.iter().enumerate() {
                let due = rate * at as f64 / 10.0;
                lag = lag.max((sample[i] - self.samples[0][i] - due).abs());
            }
        }
        lag
    }
}
