//! Plan 9's scheduler with one queue (9atom's kernel for many CPUs, `port/proc.c`), and MQS, the one with a queue for each CPU
//! that was made from it in 2014 (`mqs-nix`, bf80a24).
//!
//! Twenty lists by priority, 19 the best; a user process begins at 10. A process's use of the CPU is a running mean; with it, and
//! the load, its priority falls so that it gets its fair part. A process has the CPU for 100 ms, unless a better one is ready at
//! a tick. It is then found on the CPU where it ran last, if that looks for one.
//!
//! | | one queue | MQS |
//! |---|---|---|
//! | the mean of use decays in | 30 s | 1 s |
//! | a woken process | may be next where its waker runs; idle CPUs but CPU 0 see it at a tick | wakes the CPU of its last run |
//! | a child | runs at once, and its parent goes to the end | goes to the CPU with the smallest load of four |
//! | at each tick | | a CPU pushes a process to one of the next three with a quarter less load |
//!
//! The load is a mean over about a second of the processes that are ready or run, in thousandths. Its integer arithmetic loses
//! almost one process, as the source's does. In two places MQS does not what it was meant to do: its fork takes the neighbour's
//! place in its list for the number of a CPU, and the load that its priorities use is not initialised. Here it does what was
//! meant. Not modelled: real-time lists, wired processes, the time that locks take.

use crate::machine::{Machine, NO_END, TaskId};
use crate::program::{MS, SECOND};
use crate::scheduler::Scheduler;
use std::collections::VecDeque;

/// 9atom's clock, ns.
const TICK_NS: u64 = MS;
/// Ticks a second.
const HZ: i64 = 1000;
const LEVELS: usize = 20;
/// A user process's base priority (`PriNormal`).
const BASE: usize = 10;
/// Ticks in a quantum.
const QUANTUM_TICKS: u64 = 100;
/// MQS: a process is pushed when it has waited for so long (`Migratedelay`).
const PUSHED_AFTER_NS: u64 = MS / 2;
/// MQS: the neighbours of a CPU.
const NEIGHBOURS: usize = 3;

/// The load after a tick at which so many processes were ready or ran.
#[must_use]
pub fn next_load(load: i64, processes: i64, hz: i64) -> i64 {
    (load * (hz - 1) + 1000 * processes) / hz
}

#[derive(Clone, Copy, Default)]
struct Account {
    /// The mean of its use of a CPU, 0 to 1000.
    used: i64,
    /// When that was computed last, in half ticks.
    updated: i64,
    level: usize,
    queue: usize,
    /// It has run at all, so it belongs to a CPU.
    has_cpu: bool,
    ready_since: u64,
}

#[derive(Default)]
struct Queue {
    lists: Vec<VecDeque<TaskId>>,
    ready: usize,
    load: i64,
}

#[derive(Clone, Copy, Default)]
struct Cpu {
    /// Ticks that are left of its process's quantum.
    left: u64,
    /// The process that its process has made ready last.
    readied: Option<TaskId>,
    /// Its process is to give way at the next tick (MQS, after a fork).
    gives_way: bool,
}

/// What the schedulers differ in, as far as it can be switched here to see what each part does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan9Rules {
    /// A queue for each CPU, and all that the table above says of MQS and that is not named here.
    pub queue_per_cpu: bool,
    /// An idle CPU learns at once of a process that it may run. Without it, CPUs but CPU 0 learn of it at a tick.
    pub wakes_idle: bool,
    /// The process that a CPU's process has made ready last is next there. It applies to those of the CPU's own queue.
    pub readied_first: bool,
    /// MQS: CPUs push processes to their neighbours.
    pub pushes: bool,
}

impl Plan9Rules {
    /// Plan 9's scheduler, with one queue for all CPUs.
    pub const ONE_QUEUE: Self = Self {
        queue_per_cpu: false,
        wakes_idle: false,
        readied_first: true,
        pushes: false,
    };
    /// MQS.
    pub const MQS: Self = Self {
        queue_per_cpu: true,
        wakes_idle: true,
        readied_first: false,
        pushes: true,
    };
}

/// Plan 9's scheduler, with one queue or many.
pub struct Plan9 {
    rules: Plan9Rules,
    accounts: Vec<Account>,
    queues: Vec<Queue>,
    cpus: Vec<Cpu>,
}

impl Plan9 {
    /// A scheduler with these rules.
    #[must_use]
    pub fn new(rules: Plan9Rules) -> Self {
        Self {
            rules,
            accounts: Vec::new(),
            queues: Vec::new(),
            cpus: Vec::new(),
        }
    }

    fn queue_of(&self, cpu: usize) -> usize {
        if self.rules.queue_per_cpu { cpu } else { 0 }
    }

    fn set_up(&mut self, machine: &Machine) {
        let queues = if self.rules.queue_per_cpu {
            machine.cpus()
        } else {
            1
        };
        self.queues.resize_with(queues, || Queue {
            lists: vec![VecDeque::new(); LEVELS],
            ..Queue::default()
        });
        self.cpus.resize(machine.cpus(), Cpu::default());
    }

    /// Brings a process's use up to date (`updatecpu`).
    fn update(&mut self, machine: &Machine, task: TaskId, runs: bool) {
        let gain_s = if self.rules.queue_per_cpu { 1 } else { 30 };
        let decay = gain_s * HZ * 2;
        let now = (machine.now / TICK_NS) as i64 * 2 + 1;
        let account = &mut self.accounts[task];
        let elapsed = (now - account.updated).min(decay);
        account.updated = now;
        let keep = |distance: i64| distance * (decay - elapsed) / decay;
        account.used = if runs {
            1000 - keep(1000 - account.used)
        } else {
            keep(account.used)
        };
    }

    /// `reprioritize`.
    fn prioritize(&mut self, machine: &Machine, task: TaskId, queue: usize) {
        let (cpus, load) = if self.rules.queue_per_cpu {
            (1, self.queues[queue].load)
        } else {
            (machine.cpus(), self.queues[0].load)
        };
        self.accounts[task].level = BASE;
        if load > 0 {
            let fair = cpus as i64 * 1_000_000 / load;
            let used = self.accounts[task].used.max(1);
            self.accounts[task].level = BASE.min(((fair + used / 2) / used) as usize);
        }
    }

    fn ready(&mut self, machine: &Machine, task: TaskId, queue: usize) {
        self.prioritize(machine, task, queue);
        self.accounts[task].ready_since = machine.now;
        self.accounts[task].queue = queue;
        self.queues[queue].lists[self.accounts[task].level].push_back(task);
        self.queues[queue].ready += 1;
    }

    fn remove(&mut self, task: TaskId) -> bool {
        for queue in &mut self.queues {
            for list in &mut queue.lists {
                if let Some(place) = list.iter().position(|&other| other == task) {
                    list.remove(place);
                    queue.ready -= 1;
                    return true;
                }
            }
        }
        false
    }

    /// `runproc`: from the best list down, first those that ran here last, or nowhere yet.
    fn choose(&mut self, machine: &Machine, cpu: usize) -> Option<TaskId> {
        if let Some(readied) = self.cpus[cpu].readied.take()
            && machine.may_run(readied, cpu)
            && self.remove(readied)
        {
            return Some(readied);
        }
        self.cpus[cpu].left = QUANTUM_TICKS;
        for any in [false, true] {
            let found = self.queues[self.queue_of(cpu)]
                .lists
                .iter()
                .rev()
                .find_map(|list| {
                    list.iter().copied().find(|&task| {
                        let is_here = !self.accounts[task].has_cpu || machine.task(task).cpu == cpu;
                        (any || is_here) && machine.may_run(task, cpu)
                    })
                });
            if let Some(task) = found {
                self.remove(task);
                return Some(task);
            }
        }
        None
    }

    /// An idle CPU that learns at once of a process that was made ready in the queue of `cpu`, and looks for one to run.
    fn idle_to_wake(&self, machine: &Machine, task: TaskId, cpu: usize) -> Option<usize> {
        let own = cpu..cpu + 1;
        match (self.rules.queue_per_cpu, self.rules.wakes_idle) {
            (true, true) => machine.idle_cpu_of(task, own),
            (true, false) => machine.idle_cpu_of(task, own).filter(|&cpu| cpu == 0),
            (false, true) => machine.idle_cpu(task),
            (false, false) => machine.idle_cpu_of(task, 0..1),
        }
    }

    fn neighbours(machine: &Machine, cpu: usize) -> impl Iterator<Item = usize> + use<> {
        let cpus = machine.cpus();
        (1..=NEIGHBOURS.min(cpus - 1)).map(move |distance| (cpu + distance) % cpus)
    }

    /// MQS: where a child begins.
    fn place(&self, machine: &Machine, cpu: usize) -> usize {
        if self.queues[cpu].load == 0 || self.queues[cpu].ready == 0 {
            return cpu;
        }
        if let Some(idle) =
            Self::neighbours(machine, cpu).find(|&other| self.queues[other].load == 0)
        {
            return idle;
        }
        let least = Self::neighbours(machine, cpu).min_by_key(|&other| self.queues[other].load);
        least
            .filter(|&other| self.queues[other].load < self.queues[cpu].load)
            .unwrap_or(cpu)
    }

    /// MQS: pushes a process to a neighbour with less load, if there is one.
    fn push(&mut self, machine: &mut Machine, cpu: usize) {
        if !self.rules.pushes || self.queues[cpu].ready == 0 {
            return;
        }
        let own = self.queues[cpu].load;
        let idle = Self::neighbours(machine, cpu).find(|&other| self.queues[other].load == 0);
        let differs = |other: &usize| {
            let load = self.queues[*other].load;
            200 * (own - load).abs() >= 25 * (own + load)
        };
        let first = idle.or_else(|| Self::neighbours(machine, cpu).find(differs));
        // The first that differs, but with more load: it looks no further.
        let Some(to) = first.filter(|&other| self.queues[other].load < own) else {
            return;
        };
        let best = self.queues[cpu].lists.iter().rev().find_map(|list| {
            let head = list.front().copied()?;
            let waited_ns = machine.now - self.accounts[head].ready_since;
            (waited_ns >= PUSHED_AFTER_NS && machine.may_run(head, to)).then_some(head)
        });
        if let Some(task) = best {
            self.remove(task);
            self.accounts[task].has_cpu = false;
            self.ready(machine, task, to);
            if machine.running(to).is_none() {
                machine.reschedule(to);
            }
        }
    }

    /// The clock: loads, and once a second the priorities of the lists' heads.
    fn account(&mut self, machine: &Machine, cpu: usize) {
        let queue = self.queue_of(cpu);
        let runs = i64::from(machine.running(cpu).is_some());
        let q = &mut self.queues[queue];
        q.load = next_load(q.load, q.ready as i64 + runs, HZ);
        if !(machine.now / TICK_NS).is_multiple_of(SECOND / TICK_NS) {
            return;
        }
        let heads: Vec<TaskId> = q
            .lists
            .iter()
            .filter_map(|list| list.front().copied())
            .collect();
        for head in heads {
            let since = self.accounts[head].ready_since;
            self.remove(head);
            self.update(machine, head, false);
            self.ready(machine, head, queue);
            self.accounts[head].ready_since = since;
        }
    }
}

impl Scheduler for Plan9 {
    fn tick_ns(&self) -> Option<u64> {
        Some(TICK_NS)
    }

    fn queue_of_cpu(&self, cpu: usize) -> usize {
        self.queue_of(cpu)
    }

    fn queue_of_task(&self, _machine: &Machine, task: TaskId) -> usize {
        self.accounts[task].queue
    }

    fn made(&mut self, machine: &mut Machine, _task: TaskId, _forker: Option<TaskId>) {
        self.set_up(machine);
        let updated = (machine.now / TICK_NS) as i64 * 2;
        self.accounts.push(Account {
            updated,
            level: BASE,
            ..Account::default()
        });
    }

    fn wake(&mut self, machine: &mut Machine, task: TaskId, waker: Option<usize>) {
        self.update(machine, task, false);
        let is_new = !self.accounts[task].has_cpu;
        let last = machine.task(task).cpu;
        let cpu = match waker {
            Some(waker) if is_new && self.rules.queue_per_cpu => self.place(machine, waker),
            _ => last,
        };
        let queue = self.queue_of(cpu);
        self.ready(machine, task, queue);
        if let Some(waker) = waker {
            if self.rules.readied_first && self.queue_of(waker) == queue {
                self.cpus[waker].readied = Some(task);
            }
            if is_new && !self.rules.queue_per_cpu {
                machine.reschedule(waker);
            }
        }
        if let Some(idle) = self.idle_to_wake(machine, task, cpu) {
            machine.reschedule(idle);
        } else if is_new && self.rules.queue_per_cpu {
            self.cpus[cpu].gives_way = true;
        }
    }

    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
        if let Some(held) = machine.running(cpu) {
            self.update(machine, held, true);
            let queue = self.queue_of(cpu);
            self.ready(machine, held, queue);
        }
        self.cpus[cpu].gives_way = false;
        machine.set_slice_end(cpu, NO_END);
        let chosen = self.choose(machine, cpu)?;
        self.update(machine, chosen, machine.running(cpu) == Some(chosen));
        self.accounts[chosen].has_cpu = true;
        Some(chosen)
    }

    /// It is ready since the decision.
    fn put_back(&mut self, _machine: &mut Machine, _task: TaskId, _cpu: usize) {}

    fn slept(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        self.update(machine, task, machine.cpu_of(task).is_some());
        self.remove(task);
    }

    fn tick(&mut self, machine: &mut Machine, cpu: usize) {
        self.set_up(machine);
        if self.rules.queue_per_cpu || cpu == 0 {
            self.account(machine, cpu);
        }
        let queue = self.queue_of(cpu);
        if let Some(running) = machine.running(cpu) {
            let c = &mut self.cpus[cpu];
            c.left = c.left.saturating_sub(1);
            let better = &self.queues[queue].lists[self.accounts[running].level + 1..];
            let is_beaten = better.iter().any(|list| !list.is_empty());
            if is_beaten || (self.queues[queue].ready > 0 && (c.left == 0 || c.gives_way)) {
                c.readied = None;
                machine.reschedule(cpu);
            }
        } else if self.queues[queue].ready > 0 {
            machine.reschedule(cpu);
        }
        self.push(machine, cpu);
    }
}
