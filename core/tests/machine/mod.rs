//! A machine in virtual time that uses the economy as the kernel's scheduler does.
//!
//! Events are a wake-up or the end of what a CPU runs. At a slice's end the run is settled and compared with the pick; a
//! waking task takes an idle CPU, or challenges the one where it ran last: it preempts at once, or cuts the slice to the
//! moment when it will be the better choice (`crossing_ns`). It models less than the kernel: no tick, no migration cost,
//! no time spent in the scheduler itself.

// Each test file uses a part of it.
#![allow(dead_code)]

use crate::random::Random;
use std::collections::BTreeMap;
use std::rc::Rc;
use tombola_core::{BEST_EFFORT, Bill, Economy, Kind, Rules, Run, limits};

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
/// The shortest slice, as in the kernel.
const SLICE_MIN_NS: u64 = MS / 10;

/// What a task does next.
pub enum Act {
    Run(u64),
    Nap(u64),
    /// A child in the same currency, with as many tickets.
    Fork(Program),
    /// Sleep until no child lives.
    Await,
    Exit,
}

/// From the number of acts so far, what next.
pub type Program = Rc<dyn Fn(u64, &mut Random) -> Act>;

pub fn hog() -> Program {
    Rc::new(|_, _| Act::Run(1 << 50))
}

struct Task {
    leaf: u32,
    program: Program,
    acts: u64,
    left_ns: u64,
    parent: Option<usize>,
    /// The child it forked last, and how many live.
    child: Option<usize>,
    children: u32,
    awaits: bool,
    alive: bool,
    cpu: usize,
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

#[derive(Clone, Copy)]
enum Event {
    Wake(usize),
    Cpu(usize, u64),
}

pub struct Machine {
    pub economy: Economy,
    pub now: u64,
    pub random: Random,
    pub slices: u64,
    tasks: Vec<Task>,
    by_leaf: BTreeMap<u32, usize>,
    cpus: Vec<Option<Running>>,
    events: BTreeMap<(u64, u64), Event>,
    serial: u64,
}

impl Machine {
    pub fn new(rules: Rules, cpus: usize, seed: u64) -> Self {
        Self {
            economy: Economy::new(rules),
            now: 0,
            random: Random(seed),
            slices: 0,
            tasks: Vec::new(),
            by_leaf: BTreeMap::new(),
            cpus: vec![None; cpus],
            events: BTreeMap::new(),
            serial: 0,
        }
    }

    pub fn user(&mut self, tickets: u32) -> u32 {
        self.economy
            .new_client(Kind::User, BEST_EFFORT, tickets)
            .unwrap()
    }

    /// A task in `currency`; it wakes when the machine goes on.
    pub fn task(&mut self, currency: u32, tickets: u32, program: Program) -> u32 {
        let task = self.new_task(currency, tickets, program, None);
        self.at(self.now, Event::Wake(task));
        self.tasks[task].leaf
    }

    /// A task that already waits; nobody runs before `go`.
    pub fn ready(&mut self, currency: u32, tickets: u32, program: Program) -> u32 {
        let task = self.new_task(currency, tickets, program, None);
        let leaf = self.tasks[task].leaf;
        self.economy.join(leaf);
        self.economy.wait(leaf, u64::MAX, self.now);
        leaf
    }

    /// Every idle CPU looks for somebody.
    pub fn go(&mut self) {
        for cpu in 0..self.cpus.len() {
            if self.cpus[cpu].is_none() {
                self.dispatch(cpu);
            }
        }
    }

    /// The task of `leaf` ends as soon as it next has a CPU.
    pub fn end(&mut self, leaf: u32) {
        let task = self.by_leaf[&leaf];
        self.tasks[task].program = Rc::new(|_, _| Act::Exit);
        self.tasks[task].left_ns = 0;
        if let Some(cpu) = self.running_on(task) {
            self.cut(cpu, self.now);
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

    pub fn run_until(&mut self, end: u64) {
        while self.step(end) {}
        self.now = end;
    }

    pub fn run_for(&mut self, ns: u64) {
        self.run_until(self.now + ns);
    }

    /// The next event before `end`, if there is one.
    pub fn step(&mut self, end: u64) -> bool {
        let Some((&(at, serial), &event)) = self
            .events
            .first_key_value()
            .filter(|((at, _), _)| *at < end)
        else {
            return false;
        };
        self.events.remove(&(at, serial));
        self.now = at;
        match event {
            Event::Wake(task) => self.wake(task),
            Event::Cpu(cpu, serial) if self.cpus[cpu].is_some_and(|r| r.serial == serial) => {
                self.cpu_ends(cpu)
            }
            Event::Cpu(..) => {}
        }
        true
    }

    fn at(&mut self, time: u64, event: Event) {
        self.serial += 1;
        self.events.insert((time, self.serial), event);
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
            program,
            acts: 0,
            left_ns: 0,
            parent,
            child: None,
            children: 0,
            awaits: false,
            alive: true,
            cpu: self.tasks.len() % self.cpus.len(),
        };
        self.tasks.push(task);
        self.by_leaf.insert(leaf, self.tasks.len() - 1);
        self.tasks.len() - 1
    }

    fn running_on(&self, task: usize) -> Option<usize> {
        self.cpus
            .iter()
            .position(|r| r.is_some_and(|r| r.task == task))
    }

    fn wake(&mut self, task: usize) {
        let (leaf, cpu) = (self.tasks[task].leaf, self.tasks[task].cpu);
        self.economy.join(leaf);
        self.economy.wait(leaf, u64::MAX, self.now);
        match self.cpus.iter().position(Option::is_none) {
            Some(idle) => self.dispatch(idle),
            None => self.challenge(leaf, cpu),
        }
    }

    fn challenge(&mut self, leaf: u32, cpu: usize) {
        let r = self.cpus[cpu].unwrap();
        let run = Run {
            ran_ns: self.now - r.since,
            precharge_ns: r.precharge_ns,
        };
        let crossing_ns = self
            .economy
            .crossing_ns(leaf, self.tasks[r.task].leaf, &run);
        if crossing_ns == 0 {
            self.cut(cpu, self.now);
        } else if crossing_ns != limits::NEVER {
            self.cut(cpu, self.now + crossing_ns.max(SLICE_MIN_NS));
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

    fn slice_ends(&mut self, cpu: usize) {
        let task = self.cpus[cpu].unwrap().task;
        let leaf = self.tasks[task].leaf;
        self.settle(cpu, 0);
        match self.economy.pick(1 << cpu) {
            Some(best) if !self.economy.keeps(leaf, best) => {
                self.cpus[cpu] = None;
                self.economy.wait(leaf, u64::MAX, self.now);
                self.start(cpu, best);
            }
            _ => self.begin(cpu, task),
        }
    }

    fn dispatch(&mut self, cpu: usize) {
        if let Some(best) = self.economy.pick(1 << cpu) {
            self.start(cpu, best);
        }
    }

    fn start(&mut self, cpu: usize, leaf: u32) {
        self.economy.withdraw(leaf);
        self.begin(cpu, self.by_leaf[&leaf]);
    }

    fn begin(&mut self, cpu: usize, task: usize) {
        let quantum_ns = self.economy.rules().quantum_ns;
        let end = self.now + quantum_ns;
        self.slices += 1;
        self.tasks[task].cpu = cpu;
        self.cpus[cpu] = Some(Running {
            task,
            since: self.now,
            seen: self.now,
            end,
            precharge_ns: 0,
            serial: 0,
        });
        if self.cpus.len() > 1 {
            self.settle(cpu, quantum_ns);
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
        self.cpus[cpu] = None;
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
        };
        self.economy.born(self.tasks[child].leaf, leaf, &run);
        self.tasks[child].cpu = cpu;
        self.wake(child);
    }

    /// What it owes goes to its youngest child if that lives, else to its parent.
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
            self.economy.died(leaf, self.tasks[heir].leaf);
        }
        self.by_leaf.remove(&leaf);
        self.economy.free(leaf);
        let Some(parent) = parent else { return };
        self.tasks[parent].children -= 1;
        if self.tasks[parent].awaits && self.tasks[parent].children == 0 {
            self.tasks[parent].awaits = false;
            self.at(self.now, Event::Wake(parent));
        }
    }
}
