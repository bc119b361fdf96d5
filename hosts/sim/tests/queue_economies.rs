//! Random economies of users on a machine with several run queues: does everybody get what is due?
//!
//! An economy has ten users and forty processes, a quarter of these with several threads, and in half of the economies a quarter
//! of the processes is bound to some CPUs; as lab/tests/machine/economies.rs runs them on the kernel, with the same bars.
//!
//! Not all accounts are within the bars yet. As many of the first forty economies of each kind may be off as were off when the
//! mechanism was last changed (`OFF_MAX`): the test keeps what has been reached. Of any other economies none may be.
//!
//!   cargo test --release -p tombola-sim --test queue_economies -- --nocapture
//!
//! | environment | |
//! |---|---|
//! | TOMBOLA_ECONOMIES | how many of each kind |
//! | TOMBOLA_ECONOMIES_FROM | the first seed; with TOMBOLA_ECONOMIES=1 each account that is off is printed |

#[path = "../../../core/tests/environment/mod.rs"]
mod environment;

use environment::from_environment;
use tombola_sim::entitlement::{Client, all_cpus, rates};
use tombola_sim::{
    ANYWHERE, Costs, MS, Random, Rules, RunQueues, SECOND, Scheduler, Simulation, TaskId, Tombola,
    Topology, hog,
};

/// CPUs, in two caches.
const MACHINES: [usize; 2] = [4, 8];
const USERS: usize = 10;
const PROCESSES: usize = 40;
const WARM_UP_NS: u64 = 10 * SECOND;
const SPAN_NS: u64 = 20 * SECOND;

/// A user or a process.
struct Account {
    name: String,
    is_user: bool,
    client: usize,
    tasks: Vec<TaskId>,
}

struct Economy {
    cpus: usize,
    simulation: Simulation<Tombola>,
    accounts: Vec<Account>,
    clients: Vec<Client>,
}

impl Economy {
    fn new(cpus: usize, run_queues: RunQueues, bound: bool, seed: u64) -> Self {
        let mut topology = Topology::from(cpus);
        topology.cpus_per_cache = cpus / 2;
        let scheduler = Tombola::with_run_queues(Rules::stride(MS), topology, run_queues);
        let simulation = Simulation::new(scheduler, topology, Costs::default(), seed);
        let mut economy = Self {
            cpus,
            simulation,
            accounts: Vec::new(),
            clients: vec![Client::currency(None, 1)],
        };
        let mut random = Random(seed);
        let users: Vec<u32> = (0..USERS)
            .map(|user| {
                let tickets = random.log_uniform(100.0, 10_000.0);
                economy.account(format!("user {user}, {tickets}"), true);
                economy.clients.push(Client::currency(Some(0), tickets));
                economy.simulation.scheduler.user(tickets)
            })
            .collect();
        for process in 0..PROCESSES {
            let user = match process < USERS {
                true => process,
                false => random.below(USERS as u64) as usize,
            };
            economy.process(&mut random, user, users[user], bound);
        }
        economy
    }

    fn account(&mut self, name: String, is_user: bool) {
        self.accounts.push(Account {
            name,
            is_user,
            client: self.clients.len(),
            tasks: Vec::new(),
        });
    }

    fn process(&mut self, random: &mut Random, user: usize, group: u32, bound: bool) {
        let tickets = random.log_uniform(1.0, 10_000.0);
        let threads = match random.below(4) {
            0 => 2 + random.below(3),
            _ => 1,
        };
        let some = 1 + random.below(all_cpus(self.cpus));
        let mask = match random.below(4) {
            0 if bound && some != all_cpus(self.cpus) => some,
            _ => ANYWHERE,
        };
        self.account(
            format!("process of user {user}, {tickets}, {threads} threads, mask {mask:x}"),
            false,
        );
        let process = self.clients.len();
        let (group, of, tickets) = if threads == 1 {
            (group, user + 1, tickets)
        } else {
            self.clients.push(Client::currency(Some(user + 1), tickets));
            let group = self.simulation.scheduler.currency(group, tickets);
            (group, process, 100)
        };
        for _ in 0..threads {
            let task = self.simulation.task(group, tickets, hog());
            self.simulation.set_mask(task, mask);
            self.clients.push(Client::leaf(of, tickets, mask));
            self.accounts[user].tasks.push(task);
            let own = self.accounts.last_mut().expect("it was just added");
            own.tasks.push(task);
        }
    }

    /// Runs it; how many users and accounts are further off than a part of what is due, or ns; and the time that was given to
    /// the wrong processes, in seconds.
    fn off(mut self, (part, least_ns): (f64, f64), prints: bool) -> (usize, usize, f64) {
        let ran = |s: &Simulation<Tombola>| -> Vec<u64> {
            let tasks = 0..s.machine.tasks().len();
            tasks.map(|task| s.machine.ran_ns(task)).collect()
        };
        self.simulation.run_until(WARM_UP_NS);
        let before = ran(&self.simulation);
        self.simulation.run_for(SPAN_NS);
        let after = ran(&self.simulation);
        let rates = rates(&self.clients, self.cpus);
        let mut off = (0, 0, 0.0);
        for account in &self.accounts {
            let tasks = account.tasks.iter();
            let received: u64 = tasks.map(|&task| after[task] - before[task]).sum();
            let due = rates[account.client] * SPAN_NS as f64;
            let by_ns = (received as f64 - due).abs();
            if !account.is_user {
                off.2 += by_ns / 2.0 / SECOND as f64;
            }
            if by_ns > least_ns.max(part * due) {
                off.0 += usize::from(account.is_user);
                off.1 += 1;
                if prints {
                    let seconds = |ns: f64| ns / SECOND as f64;
                    let (due, received) = (seconds(due), seconds(received as f64));
                    println!("  {}: due {due:.4} s, received {received:.4}", account.name);
                }
            }
        }
        off
    }
}

const ECONOMIES: u64 = 40;

/// On each machine, with a queue for each cache and for each CPU, without bound threads and with: how many users, and accounts of
/// both kinds, of the first forty economies may be off, and how many of their 3200 or 6400 seconds may go to the wrong processes.
/// To be lowered with each fault that is corrected.
const OFF_MAX: [[[(usize, usize, f64); 2]; 2]; 2] = [
    [[(0, 6, 0.5), (12, 65, 46.7)], [(0, 0, 0.6), (11, 37, 3.9)]],
    [[(0, 13, 1.6), (1, 56, 14.0)], [(0, 0, 0.9), (0, 1, 1.4)]],
];

#[test]
fn accounts_get_what_is_due_on_several_queues() {
    let from = from_environment("TOMBOLA_ECONOMIES_FROM", 0);
    let economies = from_environment("TOMBOLA_ECONOMIES", ECONOMIES);
    let kinds = [
        (RunQueues::PerCache(Default::default()), (0.01, 3e6)),
        (RunQueues::PerCpu(Default::default()), (0.02, 5e6)),
    ];
    let mut failed = Vec::new();
    for (cpus, most) in MACHINES.into_iter().zip(OFF_MAX) {
        for ((run_queues, bar), most) in kinds.into_iter().zip(most) {
            for (bound, most) in [false, true].into_iter().zip(most) {
                let (mut users, mut all, mut wrong_s) = (0, 0, 0.0);
                for seed in from..from + economies {
                    let economy = Economy::new(cpus, run_queues, bound, seed);
                    let off = economy.off(bar, economies == 1);
                    users += off.0;
                    all += off.1;
                    wrong_s += off.2;
                }
                let of = economies as usize * (USERS + PROCESSES);
                let text = format!(
                    "{cpus} CPUs, {run_queues:?}, threads bound: {bound}: {users} users and {all} of {of} accounts off, \
                     {wrong_s:.2} s"
                );
                println!("{text}");
                let most = match (from, economies) {
                    (0, ECONOMIES) => most,
                    _ => (0, 0, 0.0),
                };
                if users > most.0 || all > most.1 || wrong_s > most.2 {
                    failed.push(format!("{text}; {most:?} may be"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
