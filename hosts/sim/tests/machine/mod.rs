//! A machine under Tombola, by the clients of its economy.

// Each test file uses a part of it.
#![allow(dead_code, unused_imports)]

use std::ops::{Deref, DerefMut};
use tombola_core::{Economy, Rules};
pub use tombola_sim::{ANYWHERE, Act, MS, Program, SECOND, hog};
use tombola_sim::{Costs, Scheduler, Simulation, Tombola};

pub struct Machine(Simulation<Tombola>);

impl Deref for Machine {
    type Target = Simulation<Tombola>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Machine {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Machine {
    pub fn new(rules: Rules, cpus: usize, seed: u64) -> Self {
        let scheduler = Tombola::new(rules);
        Self(Simulation::new(scheduler, cpus, Costs::default(), seed))
    }

    pub fn economy(&mut self) -> &mut Economy {
        &mut self.0.scheduler.economy
    }

    pub fn now(&self) -> u64 {
        self.0.machine.now
    }

    pub fn slices(&self) -> u64 {
        self.0.scheduler.slices
    }

    pub fn user(&mut self, tickets: u32) -> u32 {
        self.0.scheduler.user(tickets)
    }

    /// A task in `currency`, of which this is the leaf; it wakes up when the machine next runs.
    pub fn task(&mut self, currency: u32, tickets: u32, program: Program) -> u32 {
        self.task_on(currency, tickets, ANYWHERE, program)
    }

    /// The same for a task that may run on the CPUs of `mask` only.
    pub fn task_on(&mut self, currency: u32, tickets: u32, mask: u64, program: Program) -> u32 {
        let task = self.0.make(currency, tickets, 0, program);
        self.0.set_mask(task, mask);
        self.0.wake_at(self.0.machine.now, task);
        self.0.scheduler.leaf(task)
    }

    /// A task that already waits; it does not run before `go`.
    pub fn ready(&mut self, currency: u32, tickets: u32, program: Program) -> u32 {
        let task = self.0.make(currency, tickets, 0, program);
        let (leaf, now) = (self.0.scheduler.leaf(task), self.now());
        self.economy().join(leaf, ANYWHERE);
        self.economy().wait(leaf, ANYWHERE, now);
        leaf
    }

    /// Hogs with these tickets wait, and every idle CPU picks one. Returns their leaves.
    pub fn start_hogs(&mut self, currency: u32, tickets: &[u32]) -> Vec<u32> {
        let hogs = tickets.iter().map(|&t| self.ready(currency, t, hog()));
        let leaves = hogs.collect();
        self.go();
        leaves
    }

    /// Every idle CPU picks a task.
    pub fn go(&mut self) {
        for cpu in 0..self.0.machine.cpus() {
            self.0.machine.reschedule(cpu);
        }
        self.0.decide();
    }

    fn task_of(&self, leaf: u32) -> usize {
        self.0.scheduler.task(leaf)
    }

    pub fn end(&mut self, leaf: u32) {
        let task = self.task_of(leaf);
        self.0.end(task);
    }

    pub fn leave(&mut self, leaf: u32) {
        let task = self.task_of(leaf);
        self.0.leave(task);
    }

    pub fn come_back(&mut self, leaf: u32) {
        let task = self.task_of(leaf);
        self.0.wake(task);
    }

    pub fn set_mask(&mut self, leaf: u32, mask: u64) {
        let task = self.task_of(leaf);
        self.0.set_mask(task, mask);
    }

    /// Service that a client has received, the present runs included.
    pub fn used_ns(&self, i: u32) -> u64 {
        let Simulation { machine, scheduler } = &self.0;
        let running = (0..machine.cpus()).filter_map(|cpu| machine.running(cpu));
        let below =
            running.filter(|&task| scheduler.economy.line(scheduler.leaf(task)).any(|k| k == i));
        let unsettled: u64 = below
            .map(|task| scheduler.unsettled_ns(machine, task))
            .sum();
        scheduler.economy.client(i).used_ns + unsettled
    }

    /// The same for many clients at once.
    pub fn all_used_ns(&self, clients: &[u32]) -> Vec<f64> {
        clients.iter().map(|&i| self.used_ns(i) as f64).collect()
    }
}
