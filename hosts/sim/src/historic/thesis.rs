//! The lotteries of David Zepp's thesis, "Lottery Scheduling in the Linux Kernel: A Closer Look" (2012), for Linux 2.4.31 on one
//! CPU: the plain one, and the one that is "enhanced" for tasks that wait for input and output.
//!
//! At each decision a ticket is drawn among the runnable tasks. A task's value is its user's base tickets times its part of the
//! tickets of the user's runnable tasks, in whole numbers, at least 1. The winner has six ticks of 10 ms. What it leaves of them
//! is compensated: it has more tickets until its next win. The enhanced lottery adds many more to that.
//!
//! The text does not say whether a woken task preempts. Here it does as in 2.4, which compares counters; so a woken task may take
//! part in a new lottery at once.

use crate::machine::{Machine, NO_END, TaskId};
use crate::program::MS;
use crate::scheduler::Scheduler;

/// The clock tick of Linux 2.4 on x86, ns.
const TICK_NS: u64 = 10 * MS;
/// A win is for so many ticks.
const QUANTUM_TICKS: u64 = 6;

/// More tickets for a task of this value that has used so many of its six ticks, until its next win.
#[must_use]
pub fn compensation(value: u64, used_ticks: u64) -> u64 {
    match used_ticks {
        0 => 59 * value,
        QUANTUM_TICKS.. => 0,
        _ => value * QUANTUM_TICKS / used_ticks - value,
    }
}

/// What the enhanced lottery adds to that.
#[must_use]
pub fn enhancement(used_ticks: u64) -> u64 {
    5_u64.pow(7 - used_ticks.min(QUANTUM_TICKS) as u32)
}

#[derive(Clone, Copy, Default)]
struct Account {
    compensation: u64,
    /// Ticks that are left of its win.
    counter: u64,
}

/// The thesis's lottery scheduler.
pub struct Thesis {
    enhanced: bool,
    /// Base tickets of each user.
    users: Vec<u64>,
    accounts: Vec<Account>,
    queue: Vec<TaskId>,
    random: u32,
    /// Lotteries so far.
    pub lotteries: u64,
}

impl Thesis {
    /// The plain or the enhanced lottery.
    #[must_use]
    pub fn new(enhanced: bool, seed: u32) -> Self {
        Self {
            enhanced,
            users: Vec::new(),
            accounts: Vec::new(),
            queue: Vec::new(),
            random: seed,
            lotteries: 0,
        }
    }

    /// The generator that the thesis names: a linear congruential one of 32 bits.
    fn random(&mut self) -> u64 {
        self.random = self
            .random
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        u64::from(self.random)
    }

    /// Of each user, the tickets of its runnable tasks.
    fn runnable_tickets(&self, machine: &Machine) -> Vec<u64> {
        let mut tickets = vec![0; self.users.len()];
        for task in self.queue.iter().map(|&task| machine.task(task)) {
            tickets[task.group as usize] += u64::from(task.tickets);
        }
        tickets
    }

    /// A task's value in base tickets, without its compensation.
    fn value(&self, machine: &Machine, task: TaskId, runnable: &[u64]) -> u64 {
        let (t, tickets) = (machine.task(task), u64::from(machine.task(task).tickets));
        let user = t.group as usize;
        (self.users[user] * tickets / runnable[user].max(tickets)).max(1)
    }

    /// What has run is compensated for what it left of its win.
    fn compensate(&mut self, machine: &Machine, task: TaskId) {
        let used = QUANTUM_TICKS - self.accounts[task].counter.min(QUANTUM_TICKS);
        let value = self.value(machine, task, &self.runnable_tickets(machine));
        let mut more = compensation(value, used);
        if self.enhanced {
            more += enhancement(used);
        }
        self.accounts[task].compensation = more;
    }
}

impl Scheduler for Thesis {
    fn tick_ns(&self) -> Option<u64> {
        Some(TICK_NS)
    }

    fn user(&mut self, base_tickets: u32) -> u32 {
        self.users.push(u64::from(base_tickets));
        self.users.len() as u32 - 1
    }

    fn set_group_tickets(&mut self, group: u32, tickets: u32) {
        self.users[group as usize] = u64::from(tickets);
    }

    fn made(&mut self, machine: &mut Machine, _task: TaskId, _forker: Option<TaskId>) {
        assert!(
            machine.cpus() == 1,
            "the thesis's lotteries are for one CPU, and this machine has {}",
            machine.cpus()
        );
        self.accounts.push(Account::default());
    }

    fn wake(&mut self, machine: &mut Machine, task: TaskId, _waker: Option<usize>) {
        self.queue.push(task);
        match machine.running(0) {
            Some(running) if self.accounts[task].counter <= self.accounts[running].counter => {}
            _ => machine.reschedule(0),
        }
    }

    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
        if let Some(held) = machine.running(cpu) {
            self.compensate(machine, held);
        }
        machine.set_slice_end(cpu, NO_END);
        let runnable = self.runnable_tickets(machine);
        let worth = |&task: &TaskId| {
            self.value(machine, task, &runnable) + self.accounts[task].compensation
        };
        let worths: Vec<u64> = self.queue.iter().map(worth).collect();
        let total: u64 = worths.iter().sum();
        if total == 0 {
            return None;
        }
        self.lotteries += 1;
        let mut drawn = 1 + self.random() % total;
        let mut winner = *self.queue.last()?;
        for (&task, &worth) in self.queue.iter().zip(&worths) {
            if drawn <= worth {
                winner = task;
                break;
            }
            drawn -= worth;
        }
        self.accounts[winner] = Account {
            compensation: 0,
            counter: QUANTUM_TICKS,
        };
        Some(winner)
    }

    fn put_back(&mut self, _machine: &mut Machine, _task: TaskId, _cpu: usize) {}

    fn slept(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        self.compensate(machine, task);
        self.queue.retain(|&other| other != task);
    }

    fn tick(&mut self, machine: &mut Machine, cpu: usize) {
        let Some(task) = machine.running(cpu) else {
            return;
        };
        let account = &mut self.accounts[task];
        account.counter = account.counter.saturating_sub(1);
        if account.counter == 0 {
            machine.reschedule(cpu);
        }
    }
}
