//! The simulated machine: CPUs, tasks, and the events that are to come.

use crate::program::Program;
use crate::queue_lock::{QueueLock, QueueLocks};
use crate::random::Random;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A task: its index among those of the machine.
pub type TaskId = usize;

/// A mask of all CPUs.
pub const ANYWHERE: u64 = u64::MAX;
/// A slice without an end.
pub const NO_END: u64 = u64::MAX;

/// What a switch costs, in CPU time of the task that gets the CPU; and what a decision costs, in time of its CPU that no task
/// gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Each switch to another task, ns.
    pub switch_ns: u64,
    /// A task that runs on another CPU than before, ns more.
    pub migration_ns: u64,
    /// If that CPU has another last-level cache, ns more.
    pub cache_ns: u64,
    /// If that CPU is of another node, ns more.
    pub node_ns: u64,
    /// Each decision holds its run queue's lock for so long, ns: a choice of what a CPU runs, or a wake-up. At 0 locks are not
    /// modelled.
    pub lock_hold_ns: u64,
}

/// The CPUs of a machine. Those of one cache have consecutive numbers, and so have those of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// At least 1.
    pub cpus: usize,
    /// CPUs that share a last-level cache; at least 1.
    pub cpus_per_cache: usize,
    /// CPUs of a node; at least 1.
    pub cpus_per_node: usize,
}

impl From<usize> for Topology {
    /// So many CPUs with one cache.
    fn from(cpus: usize) -> Self {
        Self {
            cpus,
            cpus_per_cache: cpus,
            cpus_per_node: cpus,
        }
    }
}

/// A task of the machine.
pub struct Task {
    /// Its user, or whatever group the scheduler has for it.
    pub group: u32,
    /// Its tickets.
    pub tickets: u32,
    /// Its nice value, for schedulers that have no tickets.
    pub nice: i32,
    /// CPUs on which it may run; bit = cpu mod 64.
    pub mask: u64,
    /// The CPU where it ran last.
    pub cpu: usize,
    pub(crate) program: Program,
    pub(crate) acts: u64,
    /// What is left of its burst, ns.
    pub(crate) left_ns: u64,
    /// Counted up to the `seen` of its CPU.
    pub(crate) ran_ns: u64,
    pub(crate) parent: Option<TaskId>,
    /// The child that it forked last.
    pub(crate) child: Option<TaskId>,
    pub(crate) children: u32,
    /// It sleeps until fewer children live.
    pub(crate) awaits_fewer: Option<u32>,
    pub(crate) alive: bool,
    /// When it ended, ns.
    pub(crate) ended_ns: Option<u64>,
    pub(crate) runs: bool,
    /// Since when it is runnable, ns.
    pub(crate) runnable_since: Option<u64>,
    pub(crate) runnable_ns: u64,
    /// It has woken up, and has not run since.
    pub(crate) is_fresh: bool,
    /// When the period of its timer began ([`crate::Act::Timer`]).
    pub(crate) period_began: Option<u64>,
    /// How long it had waited for a CPU when that was, ns.
    pub(crate) waited_before_ns: u64,
    /// By how much waiting has made the sleeps of its timer shorter, ns.
    pub(crate) sleep_lost_ns: u64,
    /// How long it waited for a CPU after each wake-up, ns.
    pub latencies: Vec<u64>,
    /// How often it got a CPU.
    pub switches: u64,
    /// How often that was another CPU than before.
    pub migrations: u64,
}

fn migration_ns(topology: Topology, costs: Costs, from: usize, to: usize) -> u64 {
    let mut cost = costs.migration_ns;
    if from / topology.cpus_per_cache != to / topology.cpus_per_cache {
        cost += costs.cache_ns;
    }
    if from / topology.cpus_per_node != to / topology.cpus_per_node {
        cost += costs.node_ns;
    }
    cost
}

/// A lock of the tasks' programs. Waiting tasks sleep, and get it in the order in which they asked.
#[derive(Clone, Default)]
pub(crate) struct Lock {
    pub(crate) holder: Option<TaskId>,
    pub(crate) waiting: VecDeque<TaskId>,
}

#[derive(Clone)]
pub(crate) struct Cpu {
    pub(crate) running: Option<TaskId>,
    /// The task's burst and CPU time are counted up to here. Later than now: until then the CPU waits for the lock of a run
    /// queue, or holds it.
    pub(crate) seen: u64,
    pub(crate) slice_end: u64,
    /// Of the last event that was planned for it: older ones mean nothing.
    pub(crate) serial: u64,
    /// It is in `Machine::pending`, or a decision is put off.
    pub(crate) is_pending: bool,
    /// A decision is put off until an earlier one is made.
    pub(crate) is_put_off: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    Wake(TaskId),
    /// A burst or a slice ends.
    Cpu(usize, u64),
    Tick(usize),
    /// The scheduler decides, after an earlier decision on the same CPU.
    Decide(usize),
}

/// CPUs and tasks, and the events that are to come. A scheduler sees it in each of its calls.
pub struct Machine {
    /// The time, ns.
    pub now: u64,
    /// The source of all chance.
    pub random: Random,
    /// Switches so far.
    pub switches: u64,
    /// Switches to a task on another CPU than before.
    pub migrations: u64,
    pub(crate) topology: Topology,
    pub(crate) costs: Costs,
    pub(crate) locks: Vec<Lock>,
    pub(crate) queue_locks: QueueLocks,
    pub(crate) cpus: Vec<Cpu>,
    /// Of the CPUs that run nothing and for which no decision is put off, bit = cpu mod 64 of word cpu / 64.
    pub(crate) idle: Vec<u64>,
    pub(crate) tasks: Vec<Task>,
    /// Tasks that live.
    pub(crate) living: usize,
    /// A fork beyond this number of living tasks fails.
    pub(crate) living_max: usize,
    pub(crate) failed_forks: u64,
    pub(crate) events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    pub(crate) serial: u64,
    /// CPUs on which the scheduler is to decide now.
    pub(crate) pending: VecDeque<usize>,
    /// The CPU on which it decides; its next event is planned afterwards.
    pub(crate) deciding: Option<usize>,
}

impl Machine {
    pub(crate) fn new(topology: Topology, costs: Costs, seed: u64) -> Self {
        let cpus = topology.cpus;
        assert!(cpus > 0, "a machine has at least one CPU");
        let cpu = Cpu {
            running: None,
            seen: 0,
            slice_end: NO_END,
            serial: 0,
            is_pending: false,
            is_put_off: false,
        };
        Self {
            now: 0,
            random: Random(seed),
            switches: 0,
            migrations: 0,
            topology,
            costs,
            locks: Vec::new(),
            queue_locks: QueueLocks::new(costs.lock_hold_ns),
            cpus: vec![cpu; cpus],
            idle: (0..cpus.div_ceil(64))
                .map(|word| ANYWHERE >> (64 - (cpus - 64 * word).min(64)))
                .collect(),
            tasks: Vec::new(),
            living: 0,
            living_max: usize::MAX,
            failed_forks: 0,
            events: BinaryHeap::new(),
            serial: 0,
            pending: VecDeque::new(),
            deciding: None,
        }
    }

    /// The number of CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// All tasks that were ever made.
    #[must_use]
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// A task.
    #[must_use]
    pub fn task(&self, task: TaskId) -> &Task {
        &self.tasks[task]
    }

    /// What runs on a CPU.
    #[must_use]
    pub fn running(&self, cpu: usize) -> Option<TaskId> {
        self.cpus[cpu].running
    }

    /// The CPU on which a task runs.
    #[must_use]
    pub fn cpu_of(&self, task: TaskId) -> Option<usize> {
        let task = &self.tasks[task];
        task.runs.then_some(task.cpu)
    }

    /// CPU time that a task has used up to now, ns.
    #[must_use]
    pub fn ran_ns(&self, task: TaskId) -> u64 {
        let t = &self.tasks[task];
        t.ran_ns
            + if t.runs {
                self.now.saturating_sub(self.cpus[t.cpu].seen)
            } else {
                0
            }
    }

    /// How long a task has been runnable up to now, running or waiting, ns.
    #[must_use]
    pub fn runnable_ns(&self, task: TaskId) -> u64 {
        let t = &self.tasks[task];
        t.runnable_ns + t.runnable_since.map_or(0, |since| self.now - since)
    }

    /// How long a task has waited for a CPU up to now, ns.
    #[must_use]
    pub fn waited_ns(&self, task: TaskId) -> u64 {
        self.runnable_ns(task) - self.ran_ns(task)
    }

    /// Has the task not ended?
    #[must_use]
    pub fn is_alive(&self, task: TaskId) -> bool {
        self.tasks[task].alive
    }

    /// It lives, and neither runs nor waits for a CPU.
    pub(crate) fn is_asleep(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        t.alive && t.runnable_since.is_none()
    }

    /// May a task run on this CPU?
    #[must_use]
    pub fn may_run(&self, task: TaskId, cpu: usize) -> bool {
        self.tasks[task].mask >> (cpu % 64) & 1 != 0
    }

    /// A CPU that runs nothing and on which a task may run: the one where it ran last, if it is such a CPU, else the first.
    #[must_use]
    pub fn idle_cpu(&self, task: TaskId) -> Option<usize> {
        let (last, mask) = (self.tasks[task].cpu, self.tasks[task].mask);
        if self.is_idle_for(task, last) {
            return Some(last);
        }
        let word = self.idle.iter().position(|idle| idle & mask != 0)?;
        Some(64 * word + (self.idle[word] & mask).trailing_zeros() as usize)
    }

    fn is_idle_for(&self, task: TaskId, cpu: usize) -> bool {
        self.is_idle(cpu) && self.may_run(task, cpu)
    }

    /// The same among these CPUs.
    #[must_use]
    pub fn idle_cpu_of(&self, task: TaskId, cpus: std::ops::Range<usize>) -> Option<usize> {
        if cpus.len() == self.cpus.len() {
            return self.idle_cpu(task);
        }
        let last = Some(self.tasks[task].cpu).filter(|cpu| cpus.contains(cpu));
        last.into_iter()
            .chain(cpus)
            .find(|&cpu| self.is_idle_for(task, cpu))
    }

    fn is_idle(&self, cpu: usize) -> bool {
        self.idle[cpu / 64] >> (cpu % 64) & 1 != 0
    }

    fn set_idle(&mut self, cpu: usize) {
        let c = &self.cpus[cpu];
        let idle = u64::from(c.running.is_none() && !c.is_put_off);
        self.idle[cpu / 64] &= !(1 << (cpu % 64));
        self.idle[cpu / 64] |= idle << (cpu % 64);
    }

    /// The child that a task forked last, if it lives.
    #[must_use]
    pub fn child(&self, task: TaskId) -> Option<TaskId> {
        self.tasks[task]
            .child
            .filter(|&child| self.tasks[child].alive)
    }

    /// A task's parent, if it lives.
    #[must_use]
    pub fn parent(&self, task: TaskId) -> Option<TaskId> {
        self.tasks[task]
            .parent
            .filter(|&parent| self.tasks[parent].alive)
    }

    /// The scheduler decides on this CPU again, as soon as it has returned.
    pub fn reschedule(&mut self, cpu: usize) {
        if !self.cpus[cpu].is_pending {
            self.cpus[cpu].is_pending = true;
            self.pending.push_back(cpu);
        }
    }

    /// When the slice on this CPU ends ([`NO_END`]: never by itself).
    #[must_use]
    pub fn slice_end(&self, cpu: usize) -> u64 {
        self.cpus[cpu].slice_end
    }

    /// Ends the slice on this CPU at a time that is not past.
    pub fn set_slice_end(&mut self, cpu: usize, end: u64) {
        self.cpus[cpu].slice_end = end;
        if self.cpus[cpu].running.is_some() && self.deciding != Some(cpu) {
            self.plan(cpu);
        }
    }

    pub(crate) fn becomes_runnable(&mut self, task: TaskId) {
        let now = self.now;
        let t = &mut self.tasks[task];
        t.runnable_since = Some(now);
        t.is_fresh = true;
        t.period_began.get_or_insert(now);
    }

    pub(crate) fn sleeps(&mut self, task: TaskId) {
        let now = self.now;
        let t = &mut self.tasks[task];
        t.runnable_ns += t.runnable_since.take().map_or(0, |since| now - since);
        t.is_fresh = false;
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, event)));
    }

    /// An event at the end of the slice, or of the burst if that is sooner.
    pub(crate) fn plan(&mut self, cpu: usize) {
        self.count(cpu);
        let Some(task) = self.cpus[cpu].running else {
            return;
        };
        let begins = self.cpus[cpu].seen;
        let burst_end = begins.saturating_add(self.tasks[task].left_ns);
        let end = self.cpus[cpu].slice_end.min(burst_end).max(begins);
        self.cpus[cpu].serial = self.serial + 1;
        self.at(end, Event::Cpu(cpu, self.serial + 1));
    }

    /// Counts what runs on a CPU up to now.
    pub(crate) fn count(&mut self, cpu: usize) {
        let now = self.now;
        let c = &mut self.cpus[cpu];
        if now < c.seen {
            return;
        }
        if let Some(task) = c.running {
            let task = &mut self.tasks[task];
            task.left_ns = task.left_ns.saturating_sub(now - c.seen);
            task.ran_ns += now - c.seen;
        }
        c.seen = now;
    }

    /// Is a CPU still busy with a decision?
    pub(crate) fn is_deciding(&self, cpu: usize) -> bool {
        self.cpus[cpu].seen > self.now
    }

    /// From when on the task on a CPU computes: now, or when the CPU's decision is made.
    #[must_use]
    pub fn begins(&self, cpu: usize) -> u64 {
        self.now.max(self.cpus[cpu].seen)
    }

    /// The scheduler decides on a CPU after what it decides there now. Until then the CPU does not idle, even if it runs nothing.
    pub(crate) fn put_off(&mut self, cpu: usize) {
        self.cpus[cpu].is_put_off = true;
        self.set_idle(cpu);
        self.at(self.cpus[cpu].seen, Event::Decide(cpu));
    }

    /// It is time for a decision that was put off.
    pub(crate) fn decide_now(&mut self, cpu: usize) {
        self.cpus[cpu].is_put_off = false;
        self.set_idle(cpu);
        self.pending.push_back(cpu);
    }

    /// A CPU makes a decision about a run queue, for which it needs the lock, and does nothing else meanwhile.
    pub(crate) fn take_queue_lock(&mut self, cpu: usize, queue: usize) {
        if self.queue_locks.are_modelled() {
            self.count(cpu);
            let asks = self.cpus[cpu].seen;
            self.cpus[cpu].seen = self.queue_locks.take(queue, asks);
        }
    }

    /// The lock of a run queue that was held longest; `None` if locks are not modelled ([`Costs::lock_hold_ns`]).
    #[must_use]
    pub fn busiest_lock(&self) -> Option<QueueLock> {
        self.queue_locks.busiest(self.now)
    }

    /// The locks of all run queues, up to the last one that was taken; none if locks are not modelled.
    pub fn used_locks(&self) -> impl Iterator<Item = QueueLock> {
        self.queue_locks.used(self.now)
    }

    pub(crate) fn stop(&mut self, cpu: usize) -> TaskId {
        self.count(cpu);
        let task = self.cpus[cpu].running.take().expect("a task that runs");
        self.tasks[task].runs = false;
        self.cpus[cpu].serial = 0;
        self.set_idle(cpu);
        task
    }

    pub(crate) fn start(&mut self, cpu: usize, task: TaskId) {
        assert!(
            self.may_run(task, cpu),
            "task {task} may not run on CPU {cpu}"
        );
        let costs = self.costs;
        let begins = self.cpus[cpu].seen;
        let t = &mut self.tasks[task];
        assert!(!t.runs, "task {task} runs on CPU {} already", t.cpu);
        assert!(t.alive, "task {task} has ended");
        t.left_ns = t.left_ns.saturating_add(costs.switch_ns);
        if t.cpu != cpu && t.ran_ns > 0 {
            let cost = migration_ns(self.topology, costs, t.cpu, cpu);
            t.left_ns = t.left_ns.saturating_add(cost);
            t.migrations += 1;
            self.migrations += 1;
        }
        if t.is_fresh {
            t.is_fresh = false;
            t.latencies
                .extend(t.runnable_since.map(|since| begins - since));
        }
        t.switches += 1;
        t.cpu = cpu;
        t.runs = true;
        self.switches += 1;
        self.cpus[cpu].running = Some(task);
        self.set_idle(cpu);
    }
}
