//! What a scheduler decides.

use crate::machine::{Machine, TaskId};
use serde::Serialize;

/// What the run queues of a scheduler did, or its only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunQueueCounts {
    /// How many there are.
    pub count: usize,
    /// Tasks that the balancer has moved from one to another.
    pub moves: u64,
    /// Slices begun on all of them: decisions which task a CPU runs next.
    pub slices: u64,
}

/// A scheduler of a simulated machine. It learns of each task when it is made, becomes runnable, and stops; and it chooses what a
/// CPU runs. The machine calls it in the order of simulated time, and each call sees what the calls before have changed.
pub trait Scheduler {
    /// The time between two clock ticks of a CPU, in ns. `None`: the machine has no ticks.
    fn tick_ns(&self) -> Option<u64> {
        None
    }

    /// The run queue from which a CPU takes tasks.
    fn queue_of_cpu(&self, _cpu: usize) -> usize {
        0
    }

    /// The run queue on which a task waits, or waited last.
    fn queue_of_task(&self, _machine: &Machine, _task: TaskId) -> usize {
        0
    }

    /// What its run queues have done so far, if it counts that.
    fn run_queues(&self) -> Option<RunQueueCounts> {
        None
    }

    /// A user with these base tickets. The number names the group of its tasks. Without users, all are in one group.
    fn user(&mut self, _base_tickets: u32) -> u32 {
        0
    }

    /// A currency with so many tickets of the group `parent`. Without currencies, its tasks are in that group.
    fn currency(&mut self, parent: u32, _tickets: u32) -> u32 {
        parent
    }

    /// A user has other base tickets, or a currency other tickets.
    fn set_group_tickets(&mut self, _group: u32, _tickets: u32) {}

    /// A task has other tickets ([`Machine::task`]).
    fn tickets_changed(&mut self, _machine: &mut Machine, _task: TaskId) {}

    /// A task was made, by `forker` if that is a task; it is not runnable yet.
    fn made(&mut self, machine: &mut Machine, task: TaskId, forker: Option<TaskId>);

    /// A task becomes runnable. `waker` is the CPU whose running task has woken it, if one has.
    fn wake(&mut self, machine: &mut Machine, task: TaskId, waker: Option<usize>);

    /// The task that `cpu` is to run now; `None`: it idles. The running task, if there is one, could go on.
    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId>;

    /// A task that ran on `cpu` is runnable, but another one has the CPU now.
    fn put_back(&mut self, machine: &mut Machine, task: TaskId, cpu: usize);

    /// The running task of `cpu` goes to sleep, or exits after this ([`Scheduler::exited`]).
    fn slept(&mut self, machine: &mut Machine, task: TaskId, cpu: usize);

    /// A sleeping task waits for `holder` to free a lock. It has just gone to sleep, or another task held the lock before.
    fn waits_for(&mut self, _machine: &mut Machine, _task: TaskId, _holder: TaskId) {}

    /// A task has ended, after it slept.
    fn exited(&mut self, _machine: &mut Machine, _task: TaskId) {}

    /// The CPUs have changed on which a task may run that does not run now ([`Machine::may_run`]). It waits or sleeps.
    fn mask_changed(&mut self, _machine: &mut Machine, _task: TaskId) {}

    /// The running task of `cpu` yields: it calls [`Scheduler::pick`] next.
    fn yielded(&mut self, _machine: &mut Machine, _task: TaskId, _cpu: usize) {}

    /// A clock tick of `cpu`.
    fn tick(&mut self, _machine: &mut Machine, _cpu: usize) {}
}
