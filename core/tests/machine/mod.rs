//! A machine in virtual time that uses the economy as the kernel's scheduler does.
//!
//! Events are a wake-up or the end of what a CPU runs. At a slice's end the run is settled and compared with the pick; a
//! waking task takes an idle CPU of its mask, or challenges the one where it ran last: it preempts at once, or cuts the slice
//! to the moment when it will be the better choice (`crossing_ns`). Slices are shorter for clients of few tickets, as in the
//! kernel (`hosts/kernel/bpf/slice.h`), and longer while no task waits. The machine models less than the kernel: no tick, no
//! migration cost, no time spent in the scheduler itself, no turns for overdue tasks.

// Each test file uses a part of it.
#![allow(dead_code)]

use crate::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use tombola_core::{BEST_EFFORT, Bill, Economy, Kind, QUEUED, Rules, Run};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
/// The shortest slice, as in the kernel.
const SLICE_MIN_NS: u64 = MS / 10;
/// How often a slice is halved at most, as in the kernel.
const SLICE_HALVINGS_MAX: u32 = 2;
/// A slice while no other task waits, as in the kernel.
const SLICE_ALONE_NS: u64 = 20 * MS;
/// Any CPU.
pub const ANYWHERE: u64 = u64::MAX;

/// What a task does next.
pub enum Act {
    Run(u64),
    Nap(u64),
    /// Sleep until this time; not at all if it is past.
    Until(u64),
    /// A child in the same currency, with as many tickets.
    Fork(Program),
    /// Sleep until no child lives.
    Await,
    Exit,
}

/// The next act, from the number of the act, 1 at first.
pub type Program = Rc<dyn Fn(u64, &mut Random) -> Act>;

pub fn hog() -> Program {
    Rc::new(|_, _| Act::Run(1 << 50))
}

struct Task {
    leaf: u32,
    mask: u64,
    program: Program,
    acts: u64,
    left_ns: u64,
    parent: Option<usize>,
    /// The child that it forked last, and how many children live.
    child: Option<usize>,
    children: u32,
    awaits: bool,
    alive: bool,
    /// The CPU where it ran last, and whether it runs there now.
    cpu: usize,
    runs: bool,
}

#[derive(Clone, Copy)]
struct Running {
    task: usize,
    /// Settled up to here.
    since: u64,
    /// The burst is counted up to here.
    seen: u64,
    end: u64,
    precharge_ns: u64,
    serial: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Waker {
    /// The task that runs on the CPU where it wakes up.
    Runner,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Wake(usize),
    Cpu(usize, u64),
}

pub struct Machine {
    pub economy: Economy,
    pub now: u64,
    pub random: Random,
    pub slices: u64,
    /// Some slices are longer than a quantum.
    long_slices: bool,
    tasks: Vec<Task>,
    /// Of each leaf, its task.
    by_leaf: Vec<usize>,
    cpus: Vec<Option<Running>>,
    /// The CPUs that run nothing.
    idle: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    serial: u64,
}

impl Machine {
    pub fn new(rules: Rules, cpus: usize, seed: u64) -> Self {
        Self {
            economy: Economy::new(rules),
            now: 0,
            random: Random(seed),
            slices: 0,
            long_slices: false,
            tasks: Vec::new(),
            by_leaf: Vec::new(),
            cpus: vec![None; cpus],
            idle: u64::MAX >> (64 - cpus),
            events: BinaryHeap::new(),
            serial: 0,
        }
    }

    pub fn user(&mut self, tickets: u32) -> u32 {
        self.economy
            .new_client(Kind::User, BEST_EFFORT, tickets)
            .unwrap()
    }

    /// A task in `currency`; it wakes up when the machine next runs.
    pub fn task(&mut self, currency: u32, tickets: u32, program: Program) -> u32 {
        self.task_on(currency, tickets, ANYWHERE, program)
    }

    /// A task that may run on all CPUs counts as not bound, as in the kernel.
    fn mask_of(&self, mask: u64) -> u64 {
        let all = ANYWHERE >> (64 - self.cpus.len());
        if mask & all == all { ANYWHERE } else { mask }
    }

    /// The same for a task that may run on the CPUs of `mask` only.
    pub fn task_on(&mut self, currency: u32, tickets: u32, mask: u64, program: Program) -> u32 {
        let task = self.new_task(currency, tickets, program, None);
        self.tasks[task].mask = self.mask_of(mask);
        self.at(self.now, Event::Wake(task));
        self.tasks[task].leaf
    }

    /// A task that already waits; it does not run before `go`.
    pub fn ready(&mut self, currency: u32, tickets: u32, program: Program) -> u32 {
        let task = self.new_task(currency, tickets, program, None);
        let leaf = self.tasks[task].leaf;
        self.economy.join(leaf, ANYWHERE);
        self.economy.wait(leaf, ANYWHERE, self.now);
        leaf
    }

    /// Every idle CPU picks a task.
    pub fn go(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].is_none() {
                self.dispatch(cpu);
            }
        }
    }

    /// The task of `leaf` exits as soon as it next has a CPU.
    pub fn end(&mut self, leaf: u32) {
        let task = self.by_leaf[leaf as usize];
        self.tasks[task].program = Rc::new(|_, _| Act::Exit);
        self.tasks[task].left_ns = 0;
        if self.tasks[task].runs {
            self.cut(self.tasks[task].cpu, self.now);
        }
    }

    /// The task of `leaf` changes to another scheduling class at once, without sleep.
    pub fn leave(&mut self, leaf: u32) {
        let task = self.by_leaf[leaf as usize];
        let cpu = self.tasks[task].cpu;
        if self.tasks[task].runs {
            self.catch_up(cpu);
            self.give_up(cpu, task);
            self.dispatch(cpu);
        } else {
            self.economy.withdraw(leaf);
            self.economy.leave(leaf);
        }
    }

    /// The task of `leaf` changes back from another class.
    pub fn come_back(&mut self, leaf: u32) {
        self.wake(self.by_leaf[leaf as usize], Waker::Other);
    }

    /// The task of `leaf` may run on these CPUs only, from now on.
    pub fn set_mask(&mut self, leaf: u32, mask: u64) {
        let task = self.by_leaf[leaf as usize];
        self.tasks[task].mask = self.mask_of(mask);
        let cpu = self.tasks[task].cpu;
        if self.tasks[task].runs && mask >> cpu & 1 == 0 {
            self.cut(cpu, self.now);
        } else if self.economy.client(leaf).state & QUEUED != 0 {
            self.economy.withdraw(leaf);
            self.wait(task, Some(Waker::Other));
        }
    }

    /// Service that a client has received, the present runs included.
    pub fn used_ns(&self, i: u32) -> u64 {
        let mut used = self.economy.client(i).used_ns;
        for r in self.cpus.iter().flatten() {
            let mut k = self.tasks[r.task].leaf;
            while k != 0 && k != i {
                k = self.economy.client(k).parent;
            }
            if k == i {
                used += self.now - r.since;
            }
        }
        used
    }

    /// The same for many clients at once.
    pub fn all_used_ns(&self, clients: &[u32]) -> Vec<f64> {
        clients.iter().map(|&i| self.used_ns(i) as f64).collect()
    }

    pub fn run_until(&mut self, end: u64) {
        while self.step(end) {}
        self.now = end;
    }

    pub fn run_for(&mut self, ns: u64) {
        self.run_until(self.now + ns);
    }

    /// The next event before `end`, if there is one.
    pub fn step(&mut self, end: u64) -> bool {
        if self.events.peek().is_none_or(|next| next.0.0 >= end) {
            return false;
        }
        let Reverse((at, _, event)) = self.events.pop().expect("an event was seen");
        self.now = at;
        match event {
            Event::Wake(task) => self.wake(task, Waker::Other),
            Event::Cpu(cpu, serial) if self.cpus[cpu].is_some_and(|r| r.serial == serial) => {
                self.cpu_ends(cpu)
            }
            Event::Cpu(..) => {}
        }
        true
    }

    fn at(&mut self, time: u64, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((time, self.serial, event)));
    }

    fn new_task(
        &mut self,
        currency: u32,
        tickets: u32,
        program: Program,
        parent: Option<usize>,
    ) -> usize {
        let leaf = self
            .economy
            .new_client(Kind::Thread, currency, tickets)
            .expect("a client");
        let task = Task {
            leaf,
            mask: ANYWHERE,
            program,
            acts: 0,
            left_ns: 0,
            parent,
            child: None,
            children: 0,
            awaits: false,
            alive: true,
            cpu: self.tasks.len() % self.cpus.len(),
            runs: false,
        };
        self.tasks.push(task);
        if self.by_leaf.len() <= leaf as usize {
            self.by_leaf.resize(leaf as usize + 1, usize::MAX);
        }
        self.by_leaf[leaf as usize] = self.tasks.len() - 1;
        self.tasks.len() - 1
    }

    fn wake(&mut self, task: usize, by: Waker) {
        self.economy
            .join(self.tasks[task].leaf, self.tasks[task].mask);
        self.wait(task, Some(by));
    }

    /// An idle CPU of the task's mask takes it. Otherwise, if it was woken, it challenges the task that runs on its CPU.
    fn wait(&mut self, task: usize, woken: Option<Waker>) {
        let Task {
            leaf, mask, cpu, ..
        } = self.tasks[task];
        self.economy.wait(leaf, mask, self.now);
        let idle = self.idle & mask;
        if idle != 0 {
            self.dispatch(idle.trailing_zeros() as usize);
        } else if let Some(by) = woken {
            let allowed = mask >> cpu & 1 != 0;
            let cpu = if allowed {
                cpu
            } else {
                mask.trailing_zeros() as usize
            };
            self.challenge(leaf, cpu, by);
        }
    }

    fn challenge(&mut self, leaf: u32, cpu: usize, by: Waker) {
        let r = self.cpus[cpu].unwrap();
        let run = Run {
            ran_ns: self.now - r.since,
            precharge_ns: r.precharge_ns,
            woke: u64::from(by == Waker::Runner),
        };
        let crossing_ns = self
            .economy
            .crossing_ns(leaf, self.tasks[r.task].leaf, &run);
        if crossing_ns == 0 {
            self.cut(cpu, self.now);
        } else {
            // At most a quantum: if no task waited before, the slice may be a long one.
            let quantum_ns = self.economy.rules().quantum_ns;
            self.cut(cpu, self.now + crossing_ns.clamp(SLICE_MIN_NS, quantum_ns));
        }
    }

    /// The slice on `cpu` ends at `end`, if not before.
    fn cut(&mut self, cpu: usize, end: u64) {
        let Some(mut r) = self.cpus[cpu].filter(|r| end <= r.end) else {
            return;
        };
        r.end = end;
        self.cpus[cpu] = Some(r);
        self.plan(cpu);
    }

    /// An event at the end of the slice, or of the burst if that is sooner.
    fn plan(&mut self, cpu: usize) {
        self.catch_up(cpu);
        let r = self.cpus[cpu].unwrap();
        let burst_end = self.now + self.tasks[r.task].left_ns;
        self.at(r.end.min(burst_end), Event::Cpu(cpu, self.serial + 1));
        self.cpus[cpu] = Some(Running {
            serial: self.serial,
            ..r
        });
    }

    fn catch_up(&mut self, cpu: usize) {
        let r = self.cpus[cpu].as_mut().unwrap();
        let task = &mut self.tasks[r.task];
        task.left_ns = task.left_ns.saturating_sub(self.now - r.seen);
        r.seen = self.now;
    }

    fn settle(&mut self, cpu: usize, next_ns: u64) {
        let r = self.cpus[cpu].unwrap();
        let seed = self.random.next();
        let bill = Bill {
            used_ns: self.now - r.since,
            precharge_ns: r.precharge_ns,
            next_ns,
            seed,
        };
        self.economy.charge(self.tasks[r.task].leaf, &bill);
        self.cpus[cpu] = Some(Running {
            since: self.now,
            precharge_ns: next_ns,
            ..r
        });
    }

    /// A burst or a slice ends.
    fn cpu_ends(&mut self, cpu: usize) {
        self.catch_up(cpu);
        let r = self.cpus[cpu].unwrap();
        while self.tasks[r.task].left_ns == 0 {
            if !self.act(cpu, r.task) {
                return self.dispatch(cpu);
            }
        }
        // A fork may have cut the slice meanwhile.
        if self.cpus[cpu].unwrap().end > self.now {
            return self.plan(cpu);
        }
        self.slice_ends(cpu);
    }

    /// A task waits at a slice's end: all long slices end.
    fn share_slices(&mut self) {
        self.long_slices = false;
        let soon = self.now + self.economy.rules().quantum_ns;
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].is_some_and(|r| r.end > soon) {
                self.cut(cpu, self.now);
            }
        }
    }

    fn slice_ends(&mut self, cpu: usize) {
        if self.long_slices && self.economy.counters().waiting > 0 {
            self.share_slices();
        }
        let task = self.cpus[cpu].unwrap().task;
        let leaf = self.tasks[task].leaf;
        self.settle(cpu, 0);
        let best = self.economy.pick(1 << cpu);
        if self.tasks[task].mask >> cpu & 1 == 0 {
            self.stop(cpu);
            self.dispatch(cpu);
            return self.wait(task, Some(Waker::Other));
        }
        match best {
            Some(best) if !self.economy.keeps(leaf, best) => {
                self.stop(cpu);
                self.start(cpu, best, true);
                self.wait(task, None);
            }
            _ => self.begin(cpu, task, false),
        }
    }

    fn dispatch(&mut self, cpu: usize) {
        if let Some(best) = self.economy.pick(1 << cpu) {
            self.start(cpu, best, false);
        }
    }

    /// `displaces`: the task that had the CPU is about to wait.
    fn start(&mut self, cpu: usize, leaf: u32, displaces: bool) {
        self.economy.withdraw(leaf);
        self.begin(cpu, self.by_leaf[leaf as usize], displaces);
    }

    fn stop(&mut self, cpu: usize) {
        let r = self.cpus[cpu].take().expect("a task that runs");
        self.tasks[r.task].runs = false;
        self.idle |= 1 << cpu;
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

    fn begin(&mut self, cpu: usize, task: usize, displaces: bool) {
        let slice_ns = self.slice_ns(self.tasks[task].leaf, displaces);
        let (end, quantum_ns) = (self.now + slice_ns, self.economy.rules().quantum_ns);
        self.long_slices |= slice_ns > quantum_ns;
        self.slices += 1;
        self.tasks[task].cpu = cpu;
        self.tasks[task].runs = true;
        self.idle &= !(1 << cpu);
        self.cpus[cpu] = Some(Running {
            task,
            since: self.now,
            seen: self.now,
            end,
            precharge_ns: 0,
            serial: 0,
        });
        if self.cpus.len() > 1 {
            self.settle(cpu, slice_ns.min(quantum_ns));
        }
        self.plan(cpu);
    }

    /// The task on `cpu` does its next act; false if it gave the CPU up.
    fn act(&mut self, cpu: usize, task: usize) -> bool {
        let t = &mut self.tasks[task];
        t.acts += 1;
        match (t.program.clone())(t.acts, &mut self.random) {
            Act::Run(ns) => self.tasks[task].left_ns = ns,
            Act::Fork(program) => self.fork(cpu, task, program),
            Act::Nap(ns) => {
                self.give_up(cpu, task);
                self.at(self.now + ns, Event::Wake(task));
                return false;
            }
            Act::Until(time) if time > self.now => {
                self.give_up(cpu, task);
                self.at(time, Event::Wake(task));
                return false;
            }
            Act::Until(_) => {}
            Act::Await if self.tasks[task].children > 0 => {
                self.give_up(cpu, task);
                self.tasks[task].awaits = true;
                return false;
            }
            Act::Await => {}
            Act::Exit => {
                self.give_up(cpu, task);
                self.exit(task);
                return false;
            }
        }
        true
    }

    fn give_up(&mut self, cpu: usize, task: usize) {
        self.settle(cpu, 0);
        self.stop(cpu);
        self.economy.leave(self.tasks[task].leaf);
    }

    fn fork(&mut self, cpu: usize, task: usize, program: Program) {
        let (leaf, r) = (self.tasks[task].leaf, self.cpus[cpu].unwrap());
        let (parent, tickets) = (
            self.economy.client(leaf).parent,
            self.economy.client(leaf).tickets,
        );
        let child = self.new_task(parent, tickets, program, Some(task));
        self.tasks[task].child = Some(child);
        self.tasks[task].children += 1;
        let run = Run {
            ran_ns: self.now - r.since,
            precharge_ns: r.precharge_ns,
            woke: 0,
        };
        self.economy.fork(self.tasks[child].leaf, leaf, &run);
        self.tasks[child].cpu = cpu;
        self.wake(child, Waker::Runner);
    }

    /// What an exiting task owes is charged to its last child if that lives, else to its parent.
    fn exit(&mut self, task: usize) {
        let (leaf, parent, child) = (
            self.tasks[task].leaf,
            self.tasks[task].parent,
            self.tasks[task].child,
        );
        self.tasks[task].alive = false;
        if let Some(heir) = child
            .filter(|&c| self.tasks[c].alive)
            .or(parent.filter(|&p| self.tasks[p].alive))
        {
            self.economy.charge_heir(leaf, self.tasks[heir].leaf);
        }
        self.economy.free(leaf);
        let Some(parent) = parent else { return };
        self.tasks[parent].children -= 1;
        if self.tasks[parent].awaits && self.tasks[parent].children == 0 {
            self.tasks[parent].awaits = false;
            self.at(self.now, Event::Wake(parent));
        }
    }
}
