//! The timesharing of Mach 3.0 (`kern/sched.h`, `priority.c`, `sched_prim.c`): 32 lists by priority, 0 the best.
//!
//! A task's usage is its CPU time times the load, and decays by five eighths each second. Its priority is its base priority plus
//! its usage, in units of 2^25; so one hog grows worse by 3.8 levels in a second, and settles where decay and growth are equal.
//! At the end of a quantum the task gives way to one that is as good or better. A woken task takes an idle CPU, or preempts its
//! waker's if it is better than what runs there.
//!
//! With fewer runnable tasks than CPUs the quantum is longer in proportion. Not modelled: bound threads' queues, the scan for
//! threads that wait too long, depressed and fixed priorities.

use crate::machine::{Machine, NO_END, TaskId};
use crate::program::{MS, SECOND};
use crate::scheduler::Scheduler;
use std::collections::VecDeque;

/// The clock tick, ns.
const TICK_NS: u64 = 10 * MS;
/// Lists.
const LEVELS: usize = 32;
/// A user task's base priority (`BASEPRI_USER`).
const BASE: u64 = 12;
/// Usage of 2^`SHIFT` us is one level (`PRI_SHIFT`).
const SHIFT: u32 = 25;
/// The load of one task for each CPU (`SCHED_SCALE`).
const LOAD_ONE: u64 = 128;
/// Ticks in a quantum (`min_quantum`: a tenth of a second).
const QUANTUM_TICKS: u64 = 10;
/// After so many seconds nothing is left of a usage.
const AGES_MAX: u64 = 30;

#[derive(Clone, Copy, Default)]
struct Account {
    usage: u64,
    /// CPU time that is in the usage, us.
    counted_us: u64,
    /// The second in which the usage was computed last.
    stamp: u64,
    level: usize,
}

/// Mach's timesharing.
pub struct Mach {
    accounts: Vec<Account>,
    lists: Vec<VecDeque<TaskId>>,
    waiting: usize,
    load: u64,
    /// The second in which the load was computed last.
    load_stamp: u64,
    /// Of each CPU: ticks that are left of its quantum.
    left: Vec<u64>,
}

impl Default for Mach {
    fn default() -> Self {
        Self {
            accounts: Vec::new(),
            lists: vec![VecDeque::new(); LEVELS],
            waiting: 0,
            load: LOAD_ONE,
            load_stamp: 0,
            left: Vec::new(),
        }
    }
}

impl Mach {
    /// Brings a task's usage and level up to date.
    fn update(&mut self, machine: &Machine, task: TaskId) {
        let second = machine.now / SECOND;
        let ran_us = machine.ran_ns(task) / 1000;
        let account = &mut self.accounts[task];
        account.usage += (ran_us - account.counted_us) * self.load;
        account.counted_us = ran_us;
        let ages = second - account.stamp;
        account.stamp = second;
        if ages > AGES_MAX {
            account.usage = 0;
        } else {
            for _ in 0..ages {
                account.usage = account.usage * 5 / 8;
            }
        }
        account.level = (BASE + (account.usage >> SHIFT)).min(LEVELS as u64 - 1) as usize;
    }

    /// About once a second the load becomes the mean of itself and the tasks for each CPU.
    fn update_load(&mut self, machine: &Machine) {
        let second = machine.now / SECOND;
        if second == self.load_stamp {
            return;
        }
        self.load_stamp = second;
        let cpus = machine.cpus();
        let running = (0..cpus)
            .filter(|&cpu| machine.running(cpu).is_some())
            .count();
        let tasks = (self.waiting + running) as u64;
        self.load = u64::midpoint(self.load, (LOAD_ONE * tasks / cpus as u64).max(LOAD_ONE));
    }

    fn enqueue(&mut self, machine: &Machine, task: TaskId) {
        self.update(machine, task);
        self.lists[self.accounts[task].level].push_back(task);
        self.waiting += 1;
    }

    /// The first task of the best list, if its level is not after `worst`.
    fn take(&mut self, machine: &Machine, cpu: usize, worst: usize) -> Option<TaskId> {
        for list in &mut self.lists[..=worst] {
            if let Some(first) = list.iter().position(|&task| machine.may_run(task, cpu)) {
                self.waiting -= 1;
                return list.remove(first);
            }
        }
        None
    }

    fn quantum(&self, machine: &Machine) -> u64 {
        let cpus = machine.cpus() as u64;
        let runnable = self.waiting as u64 + 1;
        QUANTUM_TICKS * (cpus / runnable).max(1)
    }
}

impl Scheduler for Mach {
    fn tick_ns(&self) -> Option<u64> {
        Some(TICK_NS)
    }

    fn made(&mut self, machine: &mut Machine, _task: TaskId, _forker: Option<TaskId>) {
        self.left.resize(machine.cpus(), 0);
        self.accounts.push(Account {
            stamp: machine.now / SECOND,
            ..Account::default()
        });
    }

    fn wake(&mut self, machine: &mut Machine, task: TaskId, waker: Option<usize>) {
        self.enqueue(machine, task);
        if let Some(idle) = machine.idle_cpu(task) {
            return machine.reschedule(idle);
        }
        // An event of the outside world interrupts the CPU where the task ran last.
        let cpu = waker.unwrap_or(machine.task(task).cpu);
        let Some(running) = machine.running(cpu).filter(|_| machine.may_run(task, cpu)) else {
            return;
        };
        if self.accounts[task].level < self.accounts[running].level {
            machine.reschedule(cpu);
        }
    }

    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
        let held = machine
            .running(cpu)
            .filter(|&held| machine.may_run(held, cpu));
        let worst = match held {
            None => LEVELS - 1,
            Some(held) => {
                self.update(machine, held);
                let level = self.accounts[held].level;
                // In the middle of its quantum it gives way to a better one only.
                let is_over = self.left[cpu] == 0;
                if is_over {
                    level
                } else {
                    level.saturating_sub(1)
                }
            }
        };
        machine.set_slice_end(cpu, NO_END);
        let chosen = self.take(machine, cpu, worst);
        if chosen.is_some() || self.left[cpu] == 0 {
            self.left[cpu] = self.quantum(machine);
        }
        if let Some(chosen) = chosen {
            self.update(machine, chosen);
        }
        chosen.or(held)
    }

    fn put_back(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        self.enqueue(machine, task);
        if let Some(idle) = machine.idle_cpu(task) {
            machine.reschedule(idle);
        }
    }

    fn slept(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        self.update(machine, task);
        for list in &mut self.lists {
            if let Some(place) = list.iter().position(|&other| other == task) {
                list.remove(place);
                self.waiting -= 1;
            }
        }
    }

    fn tick(&mut self, machine: &mut Machine, cpu: usize) {
        self.update_load(machine);
        let Some(running) = machine.running(cpu) else {
            return;
        };
        self.left[cpu] = self.left[cpu].saturating_sub(1);
        let level = self.accounts[running].level;
        if machine.now / SECOND != self.accounts[running].stamp {
            self.update(machine, running);
        }
        if self.left[cpu] == 0 || self.accounts[running].level > level {
            machine.reschedule(cpu);
        }
    }
}
