//! The schedulers of the simulated machine, by name; and what a command line sets instead of the plan.

use super::file;
use clap::ValueEnum;
use std::time::Duration;
use tombola_sim::historic::{Plan9Rules, Sharing};
use tombola_sim::plan::{Kind, Plan};
use tombola_sim::{Rules, RunQueues};

/// The names of the schedulers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Scheduler {
    /// Tombola with stride scheduling
    #[default]
    Stride,
    /// Tombola with lottery scheduling
    Lottery,
    /// Linux 2.4: by nice values
    #[value(name = "linux-2.4")]
    Linux24,
    /// Linux 2.4 with FairSched: all users are equal
    Fairsched,
    /// The lottery of Zepp's thesis; for one CPU
    Thesis,
    /// The same with more tickets for tasks that mostly sleep
    ThesisEnhanced,
    /// Mach's timesharing
    Mach,
    /// Plan 9, with one queue
    Plan9,
    /// Plan 9 with a queue for each CPU (MQS)
    Mqs,
    /// Equal slices in turn
    RoundRobin,
}

impl Scheduler {
    /// `run_queues`: those of Tombola; `parts`: of Plan 9.
    pub(super) fn kind(
        self,
        quantum: Duration,
        run_queues: RunQueues,
        parts: &file::Plan9,
    ) -> Kind {
        let quantum_ns = nanos(quantum);
        match self {
            Self::Stride => Kind::Tombola(Rules::stride(quantum_ns), run_queues),
            Self::Lottery => Kind::Tombola(Rules::lottery(quantum_ns), run_queues),
            Self::Linux24 => Kind::Linux24(Sharing::Tasks),
            Self::Fairsched => Kind::Linux24(Sharing::Users),
            Self::Thesis => Kind::Thesis { enhanced: false },
            Self::ThesisEnhanced => Kind::Thesis { enhanced: true },
            Self::Mach => Kind::Mach,
            Self::Plan9 => Kind::Plan9(parts.of(Plan9Rules::ONE_QUEUE)),
            Self::Mqs => Kind::Plan9(parts.of(Plan9Rules::MQS)),
            Self::RoundRobin => Kind::RoundRobin(quantum_ns),
        }
    }

    pub(super) fn is_for_one_cpu(self) -> bool {
        matches!(self, Self::Thesis | Self::ThesisEnhanced)
    }

    /// The queues of a historic scheduler; `None`: they can be chosen.
    pub(super) fn own_run_queue(self) -> Option<RunQueue> {
        match self {
            Self::Stride | Self::Lottery => None,
            Self::Mqs => Some(RunQueue::Cpu),
            _ => Some(RunQueue::Machine),
        }
    }

    /// As it is written in a plan.
    #[must_use]
    pub fn name(self) -> String {
        name(self)
    }
}

/// Which CPUs share a run queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RunQueue {
    /// Those of a last-level cache, if the machine has several and is not too small for that (on a real one up to 16 CPUs); else
    /// all. A historic scheduler's own
    #[default]
    Auto,
    /// All of the machine
    Machine,
    /// Those of a last-level cache
    Llc,
    /// None, each CPU has its own
    Cpu,
}

/// By which rule tasks move between several run queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Balance {
    /// From a queue with a slow clock to one with a fast clock; the default
    Clock,
    /// To one of the next queues with a quarter less tasks, as in MQS
    Mqs,
}

impl Balance {
    pub(super) fn rule(self) -> tombola_sim::Balance {
        match self {
            Self::Clock => tombola_sim::Balance::Clock,
            Self::Mqs => tombola_sim::Balance::Mqs,
        }
    }
}

impl file::Plan9 {
    /// These rules, but for what the plan switches.
    fn of(&self, rules: Plan9Rules) -> Plan9Rules {
        Plan9Rules {
            wakes_idle: self.wake_idle.unwrap_or(rules.wakes_idle),
            readied_first: self.readied_first.unwrap_or(rules.readied_first),
            pushes: rules.queue_per_cpu && self.push.unwrap_or(rules.pushes),
            ..rules
        }
    }
}

/// As it is written in a plan.
pub(super) fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no name is hidden");
    value.get_name().to_owned()
}

/// A plan that was read.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub scheduler: Scheduler,
    pub plan: Plan,
}

/// What is set for one run, whatever the plan says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    pub cpus: Option<usize>,
    pub scheduler: Option<Scheduler>,
    pub run_queue: Option<RunQueue>,
    pub balance: Option<Balance>,
    pub seed: Option<u64>,
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
