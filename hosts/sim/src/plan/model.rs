//! The parts of a plan.

use crate::historic::{Plan9Rules, Sharing};
use crate::machine::{Costs, Topology};
use crate::queues::RunQueues;
use tombola_core::{Rules, limits};

/// The most currencies and living tasks together: what Tombola's run queue takes beside its own clients. It holds for all
/// schedulers, so that each runs the same plans. With several run queues, a currency may need a client on each
/// ([`Plan::tasks_max`]).
pub const CLIENTS_MAX: usize = limits::CLIENTS as usize - 1 - ROOTS;
/// Clients of a run queue itself.
const ROOTS: usize = 3;

/// Which scheduler the machine has.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Tombola, by stride or lottery scheduling, with these run queues.
    Tombola(Rules, RunQueues),
    /// Linux 2.4, or `FairSched`.
    Linux24(Sharing),
    /// The thesis's lottery, for machines of one CPU; `enhanced`: with its I/O enhancement.
    Thesis {
        /// With more tickets for tasks that used little of their quantum.
        enhanced: bool,
    },
    /// Mach's timesharing.
    Mach,
    /// Plan 9, with one queue or one for each CPU.
    Plan9(Plan9Rules),
    /// Round robin with slices of so many ns.
    RoundRobin(u64),
}

/// Tasks, currencies and changes on a machine.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The CPUs.
    pub topology: Topology,
    /// What switches cost.
    pub costs: Costs,
    /// Which scheduler runs.
    pub scheduler: Kind,
    /// How long the machine runs, ns; at least 1.
    pub span_ns: u64,
    /// The same plan and seed give the same result.
    pub seed: u64,
    /// Users and the currencies in them; parents precede their children.
    pub currencies: Vec<Currency>,
    /// What tasks and their children do.
    pub programs: Vec<Program>,
    /// In the order in which they are made.
    pub tasks: Vec<Task>,
    /// In the order of time.
    pub changes: Vec<(u64, Change)>,
}

impl Plan {
    /// How many run queues of Tombola's there are; 1 for other schedulers.
    #[must_use]
    pub fn run_queues(&self) -> usize {
        match self.scheduler {
            Kind::Tombola(_, run_queues) => run_queues.count(self.topology),
            _ => 1,
        }
    }

    /// The most living tasks. With several run queues a currency has a client on each one on which it has tasks: at most on all
    /// of them, or on one for each task that is in it or in its currencies. In the second case an eighth of all clients is spare,
    /// so that those without tasks are rarely looked for.
    #[must_use]
    pub fn tasks_max(&self) -> usize {
        let (queues, clients) = (self.run_queues(), limits::CLIENTS as usize - 1);
        let left = clients.saturating_sub(queues * ROOTS);
        let on_all = left.saturating_sub(queues * self.currencies.len());
        if queues == 1 {
            return on_all;
        }
        on_all.max(left / 8 * 7 / (1 + self.depth()))
    }

    /// The most currencies in one another.
    fn depth(&self) -> usize {
        let mut depths = Vec::with_capacity(self.currencies.len());
        for currency in &self.currencies {
            depths.push(1 + currency.parent.map_or(0, |parent| depths[parent]));
        }
        depths.into_iter().max().unwrap_or(0)
    }
}

/// A user, or a currency.
#[derive(Clone, Debug)]
pub struct Currency {
    /// For the report.
    pub name: String,
    /// `None`: it is a user.
    pub parent: Option<usize>,
    /// Its base tickets if it is a user, else its tickets in the parent.
    pub tickets: u32,
}

/// Alike tasks, each a process with one thread.
#[derive(Clone, Debug)]
pub struct Task {
    /// For the report.
    pub name: String,
    /// How many; at least 1.
    pub count: usize,
    /// The user or currency that it is in.
    pub currency: usize,
    /// At least 1.
    pub tickets: u32,
    /// For schedulers that have no tickets: -20 to 19.
    pub nice: i32,
    /// CPUs on which it may run; bit = CPU. All bits ([`crate::ANYWHERE`]) on a machine of more than 64 CPUs.
    pub mask: u64,
    /// When it starts, ns.
    pub starts_ns: u64,
    /// When it is ended, with its children, ns; `None`: with its program, or with the plan.
    pub ends_ns: Option<u64>,
    /// The index of its program; `None`: it computes for ever.
    pub program: Option<usize>,
}

/// What a task does: its phases, one after the other.
#[derive(Clone, Debug)]
pub struct Program {
    /// At least one.
    pub phases: Vec<Phase>,
    /// How often all phases are repeated; `None`: for ever. Then the task ends.
    pub times: Option<u64>,
}

/// Steps that are repeated.
#[derive(Clone, Debug)]
pub struct Phase {
    /// How often; at least 1.
    pub times: u64,
    /// At least one.
    pub steps: Vec<Step>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Computes for so many ns.
    Run(u64),
    /// Sleeps for so many ns.
    Sleep(u64),
    /// Sleeps until the period of so many ns is over ([`crate::Act::Timer`]).
    Timer(u64),
    /// Takes a lock, by its number.
    Lock(usize),
    /// Frees a lock.
    Unlock(usize),
    /// Gives up the CPU, but remains runnable.
    Yield,
    /// Starts a child with the program of this index, in the same currency and with as many tickets.
    Fork(usize),
    /// Sleeps until no child lives.
    Await,
    /// Sleeps until fewer children than this number live, which is at least 1.
    AwaitFewer(u32),
}

/// What changes while the machine runs.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// Tickets of tasks and their children, by the tasks' index.
    Task(usize, u32),
    /// Tickets of a currency, or base tickets of a user, by its index.
    Currency(usize, u32),
}
