//! What a plan gave.

use crate::queue_lock::QueueLock;
use crate::scheduler::RunQueueCounts;
use serde::Serialize;

/// What a plan gave, and what its clients were entitled to.
///
/// The entitlement is computed for each tenth of a second, or part of it between changes: the CPUs are shared by tickets among
/// the clients, each of which wants the part of the time that it would have computed if it had never waited for a CPU
/// ([`crate::entitlement`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// CPUs of the machine.
    pub cpus: usize,
    /// How long it ran, ns.
    pub span_ns: u64,
    /// The seed of all chance.
    pub seed: u64,
    /// Times that a CPU got another task.
    pub switches: u64,
    /// Those to a task that had last run on another CPU.
    pub migrations: u64,
    /// `None`: a historic scheduler, which does not count that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_queues: Option<RunQueueCounts>,
    /// Of the locks of all run queues, the one that was held longest. `None`: locks are not modelled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busiest_lock: Option<QueueLock>,
    /// The locks of all run queues.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<QueueLock>,
    /// Users and currencies, as in the plan.
    pub currencies: Vec<Row>,
    /// Tasks, as in the plan; with their children.
    pub tasks: Vec<Row>,
}

/// What tasks, or the clients of a currency, got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// As in the plan.
    pub name: String,
    /// The currency that it is in; `None`: it is a user.
    pub parent: Option<String>,
    /// CPU time that it was entitled to, ns.
    pub entitled_ns: u64,
    /// CPU time that it received, ns.
    pub received_ns: u64,
    /// The largest distance between the two at the end of a window, of one task or of the currency as a whole, ns.
    pub worst_ns: u64,
    /// How long its tasks waited for a CPU after each wake-up.
    pub latency: Latency,
    /// Times that its tasks got a CPU.
    pub switches: u64,
    /// Those on another CPU than before.
    pub migrations: u64,
    /// When the last of its tasks ended, ns; `None`: one lives, or there was none.
    pub ended_ns: Option<u64>,
}

/// Times between wake-ups and the first run after each, in ns, exact to a thousandth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// How many; if there are none, the others are 0.
    pub wakeups: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// 99 of 100 are at most this.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// CPU time up to a moment, ns: what each row of the tasks was entitled to, and what it received.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// The moment, ns.
    pub at_ns: u64,
    /// As in [`Report::tasks`].
    pub entitled_ns: Vec<u64>,
    /// As in [`Report::tasks`].
    pub received_ns: Vec<u64>,
}
