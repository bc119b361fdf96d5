//! Tombola with one run queue for all CPUs, as the kernel's scheduler uses the economy.
//!
//! At a slice's end the run is settled and compared with the pick. A waking task takes an idle CPU on which it may run, or
//! challenges the task that runs where it ran last: it preempts at once, or shortens the slice to the moment when it will be the
//! better choice (`crossing_ns`). Slices are shorter for clients of few tickets, and longer while no task waits, as in
//! `hosts/kernel/bpf/slice.h`. Left out: time spent in the scheduler itself, and turns for overdue tasks.

use crate::machine::{ANYWHERE, Machine, TaskId};
use crate::program::MS;
use crate::scheduler::Scheduler;
use tombola_core::{BEST_EFFORT, Bill, Economy, Kind, QUEUED, Rules, Run};

/// The shortest slice, as in the kernel.
const SLICE_MIN_NS: u64 = MS / 10;
/// How often a slice is halved at most, as in the kernel.
const SLICE_HALVINGS_MAX: u32 = 2;
/// A slice while no other task waits, as in the kernel.
const SLICE_ALONE_NS: u64 = 20 * MS;

#[derive(Clone, Copy, Default)]
struct Account {
    leaf: u32,
    /// CPU time that is charged, ns.
    settled_ns: u64,
    precharge_ns: u64,
    /// What it had consumed when it forked last, ns.
    forked_ns: u64,
}

/// Tombola's scheduler, with one run queue.
pub struct Tombola {
    /// The tree of currencies.
    pub economy: Economy,
    accounts: Vec<Account>,
    /// Of each leaf, its task.
    by_leaf: Vec<TaskId>,
    /// Slices begun.
    pub slices: u64,
    /// Some slices are longer than a quantum.
    long_slices: bool,
}

impl Tombola {
    /// Stride or lottery scheduling, as the rules say.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            economy: Economy::new(rules),
            accounts: Vec::new(),
            by_leaf: Vec::new(),
            slices: 0,
            long_slices: false,
        }
    }

    /// A task's leaf.
    #[must_use]
    pub fn leaf(&self, task: TaskId) -> u32 {
        self.accounts[task].leaf
    }

    /// A leaf's task.
    #[must_use]
    pub fn task(&self, leaf: u32) -> TaskId {
        self.by_leaf[leaf as usize]
    }

    /// CPU time that a task has used and that is not charged yet, ns.
    #[must_use]
    pub fn unsettled_ns(&self, machine: &Machine, task: TaskId) -> u64 {
        machine.ran_ns(task) - self.accounts[task].settled_ns
    }

    /// A task that may run on all CPUs counts as not bound, as in the kernel.
    fn mask(machine: &Machine, task: TaskId) -> u64 {
        let all = if machine.cpus() < 64 {
            (1 << machine.cpus()) - 1
        } else {
            ANYWHERE
        };
        let mask = machine.task(task).mask;
        if mask & all == all { ANYWHERE } else { mask }
    }

    fn run(&self, machine: &Machine, task: TaskId, woke: bool) -> Run {
        let account = &self.accounts[task];
        Run {
            ran_ns: self.unsettled_ns(machine, task),
            precharge_ns: account.precharge_ns,
            woke: u64::from(woke),
        }
    }

    /// Charges what a task has used, and so much of its next run in advance.
    fn settle(&mut self, machine: &mut Machine, task: TaskId, next_ns: u64) {
        let run = self.run(machine, task, false);
        let bill = Bill {
            used_ns: run.ran_ns,
            precharge_ns: run.precharge_ns,
            next_ns,
            seed: machine.random.bits(),
        };
        let account = &mut self.accounts[task];
        account.settled_ns += bill.used_ns;
        account.precharge_ns = next_ns;
        self.economy.charge(account.leaf, &bill);
    }

    /// A task waits. An idle CPU takes it; otherwise, if it was woken, it challenges the task that runs on its CPU.
    fn wait(&mut self, machine: &mut Machine, task: TaskId, woken: Option<Waker>) {
        self.economy
            .wait(self.leaf(task), Self::mask(machine, task), machine.now);
        if let Some(idle) = machine.idle_cpu(task) {
            machine.reschedule(idle);
        } else if let Some(by) = woken {
            let own = machine.task(task).cpu;
            let cpu = if machine.may_run(task, own) {
                own
            } else {
                machine.task(task).mask.trailing_zeros() as usize
            };
            self.challenge(machine, task, cpu, by);
        }
    }

    fn challenge(&mut self, machine: &mut Machine, task: TaskId, cpu: usize, by: Waker) {
        let runner = machine.running(cpu).expect("the CPU is not idle");
        let run = self.run(machine, runner, by == Waker::Runner);
        let (leaf, of_runner) = (self.leaf(task), self.leaf(runner));
        let crossing_ns = self.economy.crossing_ns(leaf, of_runner, &run);
        let end = if crossing_ns == 0 {
            machine.now
        } else {
            // At most a quantum: if no task waited before, the slice may be a long one.
            machine.now + crossing_ns.clamp(SLICE_MIN_NS, self.economy.rules().quantum_ns)
        };
        if end < machine.slice_end(cpu) {
            machine.set_slice_end(cpu, end);
        }
    }

    /// A task waits at a slice's end: all long slices end.
    fn share_slices(&mut self, machine: &mut Machine) {
        self.long_slices = false;
        let soon = machine.now + self.economy.rules().quantum_ns;
        for cpu in 0..machine.cpus() {
            if machine.running(cpu).is_some() && machine.slice_end(cpu) > soon {
                machine.set_slice_end(cpu, machine.now);
            }
        }
    }

    /// A client with few tickets among its active siblings has shorter slices, and so runs more often.
    fn slice_ns(&self, leaf: u32, displaces: bool) -> u64 {
        let rules = self.economy.rules();
        if self.economy.counters().waiting == 0 && !displaces {
            return SLICE_ALONE_NS.max(rules.quantum_ns);
        }
        if rules.lottery != 0 {
            return rules.quantum_ns;
        }
        let (mut halvings, mut i) = (0, leaf);
        while halvings < SLICE_HALVINGS_MAX {
            let client = self.economy.client(i);
            if client.parent == 0 {
                break;
            }
            let parent = self.economy.client(client.parent);
            let beside_mean = u64::from(client.tickets) * u64::from(parent.active);
            let weight = u64::from(parent.weight);
            if beside_mean * 2 <= weight {
                halvings = if beside_mean * 4 <= weight { 2 } else { 1 };
            }
            i = client.parent;
        }
        (rules.quantum_ns >> halvings).max(SLICE_MIN_NS)
    }

    fn begin(&mut self, machine: &mut Machine, task: TaskId, cpu: usize, displaces: bool) {
        let slice_ns = self.slice_ns(self.leaf(task), displaces);
        let quantum_ns = self.economy.rules().quantum_ns;
        self.long_slices |= slice_ns > quantum_ns;
        self.slices += 1;
        if machine.cpus() > 1 {
            self.settle(machine, task, slice_ns.min(quantum_ns));
        }
        machine.set_slice_end(cpu, machine.now + slice_ns);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waker {
    /// The task that runs on the CPU where it wakes up.
    Runner,
    Other,
}

impl Scheduler for Tombola {
    fn user(&mut self, base_tickets: u32) -> u32 {
        self.economy
            .new_client(Kind::User, BEST_EFFORT, base_tickets)
            .expect("there are more clients than one queue takes")
    }

    fn currency(&mut self, parent: u32, tickets: u32) -> u32 {
        self.economy
            .new_client(Kind::Currency, parent, tickets)
            .expect("there are more clients than one queue takes")
    }

    fn set_group_tickets(&mut self, group: u32, tickets: u32) {
        self.economy.set_tickets(group, tickets);
    }

    fn tickets_changed(&mut self, machine: &mut Machine, task: TaskId) {
        let tickets = machine.task(task).tickets;
        self.economy.set_tickets(self.leaf(task), tickets);
    }

    fn made(&mut self, machine: &mut Machine, task: TaskId, forker: Option<TaskId>) {
        let t = machine.task(task);
        let leaf = self
            .economy
            .new_client(Kind::Thread, t.group, t.tickets)
            .expect("there are more clients than one queue takes");
        self.accounts.push(Account {
            leaf,
            ..Account::default()
        });
        if self.by_leaf.len() <= leaf as usize {
            self.by_leaf.resize(leaf as usize + 1, TaskId::MAX);
        }
        self.by_leaf[leaf as usize] = task;
        if let Some(forker) = forker {
            let run = self.run(machine, forker, false);
            self.economy.fork(leaf, self.leaf(forker), &run);
            self.accounts[forker].forked_ns =
                self.economy.client(self.leaf(forker)).young_ns + run.ran_ns;
        }
    }

    fn wake(&mut self, machine: &mut Machine, task: TaskId, waker: Option<usize>) {
        self.economy
            .join(self.leaf(task), Self::mask(machine, task));
        let by = if waker.is_some() {
            Waker::Runner
        } else {
            Waker::Other
        };
        self.wait(machine, task, Some(by));
    }

    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
        let held = machine.running(cpu);
        if held.is_some() && self.long_slices && self.economy.counters().waiting > 0 {
            self.share_slices(machine);
        }
        if let Some(held) = held {
            self.settle(machine, held, 0);
        }
        let best = self.economy.pick(1 << (cpu % 64));
        let held = held.filter(|&held| machine.may_run(held, cpu));
        let displaces = machine.running(cpu).is_some();
        match (held, best) {
            (Some(held), best)
                if best.is_none_or(|best| self.economy.keeps(self.leaf(held), best)) =>
            {
                self.begin(machine, held, cpu, false);
                Some(held)
            }
            (_, Some(best)) => {
                self.economy.withdraw(best);
                let next = self.task(best);
                self.begin(machine, next, cpu, displaces);
                Some(next)
            }
            (_, None) => None,
        }
    }

    fn put_back(&mut self, machine: &mut Machine, task: TaskId, cpu: usize) {
        let woken = (!machine.may_run(task, cpu)).then_some(Waker::Other);
        self.wait(machine, task, woken);
    }

    fn slept(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        if machine.cpu_of(task).is_some() {
            self.settle(machine, task, 0);
        }
        let leaf = self.leaf(task);
        self.economy.withdraw(leaf);
        self.economy.leave(leaf);
    }

    fn exited(&mut self, machine: &mut Machine, task: TaskId) {
        let leaf = self.leaf(task);
        if let Some(child) = machine.child(task) {
            let forked_ns = self.accounts[task].forked_ns;
            self.economy.charge_heir(leaf, self.leaf(child), forked_ns);
        } else if let Some(parent) = machine.parent(task) {
            self.economy.charge_heir(leaf, self.leaf(parent), 0);
        }
        self.economy.free(leaf);
    }

    fn mask_changed(&mut self, machine: &mut Machine, task: TaskId) {
        if self.economy.client(self.leaf(task)).state & QUEUED != 0 {
            self.economy.withdraw(self.leaf(task));
            self.wait(machine, task, Some(Waker::Other));
        }
    }
}
