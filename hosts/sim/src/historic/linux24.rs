//! Linux 2.4 (2.4.22, `kernel/sched.c`), and `FairSched`, the patch of Rik van Riel for 2.4.19 (LKML, 24 September 2002).
//!
//! One list of all runnable tasks, the running ones too. Each has a counter of ticks that are left to it in this epoch. A CPU
//! runs the task with the largest goodness: its counter and its nice value, with a bonus if it ran here last. When all runnable
//! tasks have used up their counters, a new epoch begins: every task, also one that sleeps, keeps half of its counter and gets
//! the ticks of its nice value.
//!
//! `FairSched` changes the new epoch only: each user has ticks, too, and pays from them for what its tasks get. Who has none left
//! gets nothing for its other tasks in this epoch. The tasks that got something go to the end of the order in which they are
//! asked.
//!
//! Not modelled: memory contexts (each task has one of its own), real-time classes.

use crate::machine::{Machine, NO_END, TaskId};
use crate::program::MS;
use crate::scheduler::Scheduler;

/// The clock tick on x86, ns.
const TICK_NS: u64 = 10 * MS;
/// Linux's bonus for a task that ran on this CPU last, with several CPUs on x86 (`PROC_CHANGE_PENALTY`).
const SAME_CPU: i32 = 15;
/// A task's counter is not larger than this after it has inherited a child's.
const COUNTER_MAX: i32 = 20;
/// What a user begins with, and gets in each epoch (`FairSched`), in ticks.
const USER_TICKS: i32 = 6;

/// The ticks that a task of this nice value gets in each epoch, at 100 Hz (`NICE_TO_TICKS`).
#[must_use]
pub fn ticks_of(nice: i32) -> i32 {
    ((20 - nice) >> 2) + 1
}

/// Among whom the CPU is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Among tasks: Linux 2.4.
    Tasks,
    /// Among users: `FairSched`.
    Users,
}

#[derive(Clone, Copy, Default)]
struct Account {
    counter: i32,
    is_runnable: bool,
    /// It yields: it is the last choice of the next scan.
    yields: bool,
}

/// Linux 2.4's scheduler.
pub struct Linux24 {
    sharing: Sharing,
    accounts: Vec<Account>,
    /// The runnable tasks.
    queue: Vec<TaskId>,
    /// All tasks that live.
    all: Vec<TaskId>,
    /// The ticks of each user (`FairSched`).
    users: Vec<i32>,
    /// New epochs so far.
    pub epochs: u64,
}

impl Linux24 {
    /// Linux 2.4, or `FairSched`.
    #[must_use]
    pub fn new(sharing: Sharing) -> Self {
        Self {
            sharing,
            accounts: Vec::new(),
            queue: Vec::new(),
            all: Vec::new(),
            users: Vec::new(),
            epochs: 0,
        }
    }

    fn goodness(&self, machine: &Machine, task: TaskId, cpu: usize) -> i32 {
        let account = &self.accounts[task];
        if account.yields {
            return -1;
        }
        if account.counter == 0 {
            return 0;
        }
        let t = machine.task(task);
        let same_memory = i32::from(machine.running(cpu) == Some(task));
        let same_cpu = if machine.cpus() > 1 && t.cpu == cpu {
            SAME_CPU
        } else {
            0
        };
        account.counter + 20 - t.nice + same_memory + same_cpu
    }

    /// The first of the best tasks for a CPU, and how good it is.
    fn best(&self, machine: &Machine, cpu: usize) -> Option<(TaskId, i32)> {
        let mut best = None;
        for &task in &self.queue {
            let elsewhere = machine.cpu_of(task).is_some_and(|other| other != cpu);
            if elsewhere || !machine.may_run(task, cpu) {
                continue;
            }
            let goodness = self.goodness(machine, task, cpu);
            if best.is_none_or(|(_, most)| goodness > most) {
                best = Some((task, goodness));
            }
        }
        best
    }

    fn new_epoch(&mut self, machine: &Machine) {
        self.epochs += 1;
        if self.sharing == Sharing::Tasks {
            for &task in &self.all {
                let account = &mut self.accounts[task];
                account.counter = (account.counter >> 1) + ticks_of(machine.task(task).nice);
            }
            return;
        }
        for ticks in &mut self.users {
            *ticks = *ticks / 2 + USER_TICKS;
        }
        let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
        for &task in &self.all {
            let t = machine.task(task);
            let ticks = &mut self.users[t.group as usize];
            let old = self.accounts[task].counter;
            let new = (old >> 1) + ticks_of(t.nice);
            if *ticks > 0 && new != old {
                *ticks += old - new;
                self.accounts[task].counter = new;
                changed.push(task);
            } else {
                unchanged.push(task);
            }
        }
        unchanged.append(&mut changed);
        self.all = unchanged;
    }

    /// An idle CPU takes the task, or the CPU whose task is beaten by most (`reschedule_idle`).
    fn reschedule_idle(&mut self, machine: &mut Machine, task: TaskId) {
        let last = machine.task(task).cpu;
        if machine.running(last).is_none() && machine.may_run(task, last) {
            return machine.reschedule(last);
        }
        if let Some(idle) = machine.idle_cpu(task) {
            return machine.reschedule(idle);
        }
        let mut most = (0, None);
        for cpu in (0..machine.cpus()).filter(|&cpu| machine.may_run(task, cpu)) {
            let Some(running) = machine.running(cpu) else {
                continue;
            };
            let by = self.goodness(machine, task, cpu) - self.goodness(machine, running, cpu);
            if by > most.0 {
                most = (by, Some(cpu));
            }
        }
        if let Some(cpu) = most.1 {
            machine.reschedule(cpu);
        }
    }
}

impl Scheduler for Linux24 {
    fn tick_ns(&self) -> Option<u64> {
        Some(TICK_NS)
    }

    /// Tickets mean nothing here.
    fn user(&mut self, _base_tickets: u32) -> u32 {
        self.users.push(USER_TICKS);
        self.users.len() as u32 - 1
    }

    fn made(&mut self, machine: &mut Machine, task: TaskId, forker: Option<TaskId>) {
        let counter = match forker {
            Some(forker) => {
                let old = self.accounts[forker].counter;
                self.accounts[forker].counter = old >> 1;
                (old + 1) >> 1
            }
            None => ticks_of(machine.task(task).nice),
        };
        self.accounts.push(Account {
            counter,
            ..Account::default()
        });
        self.all.push(task);
        if let Some(cpu) = forker.and_then(|forker| machine.cpu_of(forker))
            && forker.is_some_and(|forker| self.accounts[forker].counter == 0)
        {
            machine.reschedule(cpu);
        }
    }

    fn wake(&mut self, machine: &mut Machine, task: TaskId, _waker: Option<usize>) {
        self.accounts[task].is_runnable = true;
        self.queue.push(task);
        self.reschedule_idle(machine, task);
    }

    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
        let chosen = loop {
            match self.best(machine, cpu) {
                Some((_, 0)) => self.new_epoch(machine),
                best => break best.map(|(task, _)| task),
            }
        };
        if let Some(running) = machine.running(cpu) {
            self.accounts[running].yields = false;
        }
        machine.set_slice_end(cpu, NO_END);
        chosen
    }

    fn put_back(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        if machine.cpus() > 1 {
            self.reschedule_idle(machine, task);
        }
    }

    fn slept(&mut self, _machine: &mut Machine, task: TaskId, _cpu: usize) {
        self.accounts[task].is_runnable = false;
        self.queue.retain(|&other| other != task);
    }

    fn exited(&mut self, machine: &mut Machine, task: TaskId) {
        self.all.retain(|&other| other != task);
        if let Some(parent) = machine.parent(task) {
            let left = self.accounts[task].counter;
            let account = &mut self.accounts[parent];
            account.counter = (account.counter + left).min(COUNTER_MAX.max(account.counter));
        }
    }

    fn mask_changed(&mut self, machine: &mut Machine, task: TaskId) {
        if self.accounts[task].is_runnable {
            self.reschedule_idle(machine, task);
        }
    }

    fn yielded(&mut self, _machine: &mut Machine, task: TaskId, _cpu: usize) {
        self.accounts[task].yields = true;
        self.queue.retain(|&other| other != task);
        self.queue.push(task);
    }

    fn tick(&mut self, machine: &mut Machine, cpu: usize) {
        let Some(task) = machine.running(cpu) else {
            return;
        };
        let account = &mut self.accounts[task];
        account.counter = (account.counter - 1).max(0);
        if account.counter == 0 {
            machine.reschedule(cpu);
        }
    }
}
