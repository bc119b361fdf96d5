//! A machine with its scheduler: what happens, event by event.

use crate::machine::{ANYWHERE, Costs, Event, Lock, Machine, Task, TaskId, Topology};
use crate::program::{Act, Program};
use crate::scheduler::Scheduler;
use std::cmp::Reverse;
use std::rc::Rc;
use tombola_core::limits::LENT_MAX;

/// A machine with its scheduler.
pub struct Simulation<S> {
    /// CPUs and tasks.
    pub machine: Machine,
    /// What decides.
    pub scheduler: S,
}

impl<S: Scheduler> Simulation<S> {
    /// A machine of these CPUs, or of so many. The same seed gives the same history.
    pub fn new(scheduler: S, cpus: impl Into<Topology>, costs: Costs, seed: u64) -> Self {
        let mut machine = Machine::new(cpus.into(), costs, seed);
        if let Some(tick_ns) = scheduler.tick_ns() {
            // The ticks of different CPUs never coincide.
            for cpu in 0..machine.cpus() {
                let phase = machine.random.below(tick_ns);
                machine.at(phase, Event::Tick(cpu));
            }
        }
        Self { machine, scheduler }
    }

    /// Forks fail while so many tasks live.
    pub fn limit_tasks(&mut self, living_max: usize) {
        self.machine.living_max = living_max;
    }

    /// A task that is not runnable yet.
    ///
    /// # Panics
    ///
    /// If there are more tasks than the scheduler takes.
    pub fn make(&mut self, group: u32, tickets: u32, nice: i32, program: Program) -> TaskId {
        self.make_child(None, group, tickets, nice, program)
    }

    fn make_child(
        &mut self,
        forker: Option<TaskId>,
        group: u32,
        tickets: u32,
        nice: i32,
        program: Program,
    ) -> TaskId {
        let machine = &mut self.machine;
        let task = machine.tasks.len();
        machine.tasks.push(Task {
            group,
            tickets,
            nice,
            mask: ANYWHERE,
            cpu: task % machine.cpus.len(),
            program,
            acts: 0,
            left_ns: 0,
            ran_ns: 0,
            parent: forker,
            child: None,
            children: 0,
            awaits_fewer: None,
            alive: true,
            ended_ns: None,
            runs: false,
            runnable_since: None,
            runnable_ns: 0,
            is_fresh: false,
            period_began: None,
            waited_before_ns: 0,
            sleep_lost_ns: 0,
            latencies: Vec::new(),
            switches: 0,
            migrations: 0,
        });
        machine.living += 1;
        if let Some(forker) = forker {
            machine.tasks[task].cpu = machine.tasks[forker].cpu;
            machine.tasks[task].mask = machine.tasks[forker].mask;
            machine.tasks[forker].child = Some(task);
            machine.tasks[forker].children += 1;
        }
        self.scheduler.made(&mut self.machine, task, forker);
        task
    }

    /// A task that becomes runnable as soon as the machine runs.
    pub fn task(&mut self, group: u32, tickets: u32, program: Program) -> TaskId {
        let task = self.make(group, tickets, 0, program);
        self.wake_at(self.machine.now, task);
        task
    }

    /// A task that was made, or left ([`Simulation::leave`]), becomes runnable at this time.
    pub fn wake_at(&mut self, time: u64, task: TaskId) {
        self.machine.at(time, Event::Wake(task));
    }

    /// A task becomes runnable now.
    pub fn wake(&mut self, task: TaskId) {
        self.wake_by(task, None);
        self.decide();
    }

    fn wake_by(&mut self, task: TaskId, waker: Option<usize>) {
        self.machine.becomes_runnable(task);
        self.scheduler.wake(&mut self.machine, task, waker);
        // The timer of a sleep fires where the task fell asleep.
        let cpu = waker.unwrap_or(self.machine.task(task).cpu);
        let queue = self.scheduler.queue_of_task(&self.machine, task);
        self.machine.take_queue_lock(cpu, queue);
        if self.machine.is_deciding(cpu) {
            self.machine.plan(cpu);
        }
    }

    /// A task is not runnable any more, until it is woken; it did not go to sleep itself.
    pub fn leave(&mut self, task: TaskId) {
        let cpu = self.machine.task(task).cpu;
        if self.machine.cpu_of(task).is_some() {
            self.give_up(cpu, task);
        } else {
            self.machine.sleeps(task);
            self.scheduler.slept(&mut self.machine, task, cpu);
        }
        self.decide();
    }

    /// A task ends as soon as it next has a CPU, for which a sleeping one is woken.
    pub fn end(&mut self, task: TaskId) {
        let t = &mut self.machine.tasks[task];
        t.program = Rc::new(|_, _| Act::Exit);
        t.left_ns = 0;
        if let Some(cpu) = self.machine.cpu_of(task) {
            self.machine.plan(cpu);
        } else if self.machine.is_asleep(task) {
            for lock in &mut self.machine.locks {
                lock.waiting.retain(|&other| other != task);
            }
            self.wake(task);
        }
    }

    /// A task has so many tickets from now on.
    pub fn set_tickets(&mut self, task: TaskId, tickets: u32) {
        self.machine.tasks[task].tickets = tickets;
        self.scheduler.tickets_changed(&mut self.machine, task);
        self.decide();
    }

    /// A task may run on these CPUs only, from now on.
    pub fn set_mask(&mut self, task: TaskId, mask: u64) {
        self.machine.tasks[task].mask = mask;
        match self.machine.cpu_of(task) {
            Some(cpu) if self.machine.may_run(task, cpu) => {}
            Some(cpu) => self.machine.reschedule(cpu),
            None => self.scheduler.mask_changed(&mut self.machine, task),
        }
        self.decide();
    }

    /// All events before `end` happen.
    pub fn run_until(&mut self, end: u64) {
        while self.step(end) {}
        self.machine.now = end;
    }

    /// All events of the next `ns` happen.
    pub fn run_for(&mut self, ns: u64) {
        self.run_until(self.machine.now + ns);
    }

    /// The next event before `end` happens, if there is one.
    pub fn step(&mut self, end: u64) -> bool {
        let machine = &mut self.machine;
        if machine.events.peek().is_none_or(|next| next.0.0 >= end) {
            return false;
        }
        let Reverse((at, _, event)) = machine.events.pop().expect("an event was seen");
        machine.now = at;
        match event {
            // One that was ended may have been woken before, or live no more.
            Event::Wake(task) if machine.is_asleep(task) => {
                let cpu = machine.task(task).cpu;
                match machine.is_deciding(cpu) {
                    true => machine.at(machine.cpus[cpu].seen, event),
                    false => self.wake_by(task, None),
                }
            }
            Event::Wake(_) => {}
            Event::Cpu(cpu, serial) if machine.cpus[cpu].serial == serial => self.cpu_event(cpu),
            Event::Cpu(..) => {}
            Event::Decide(cpu) => machine.decide_now(cpu),
            Event::Tick(cpu) => {
                let tick_ns = self.scheduler.tick_ns().expect("the machine has ticks");
                machine.at(at + tick_ns, Event::Tick(cpu));
                machine.count(cpu);
                self.scheduler.tick(machine, cpu);
            }
        }
        self.decide();
        true
    }

    /// The scheduler decides on all CPUs on which it is to ([`Machine::reschedule`]).
    pub fn decide(&mut self) {
        while let Some(cpu) = self.machine.pending.pop_front() {
            if self.machine.is_deciding(cpu) {
                self.machine.put_off(cpu);
            } else {
                self.machine.cpus[cpu].is_pending = false;
                self.decide_on(cpu);
            }
        }
    }

    fn decide_on(&mut self, cpu: usize) {
        self.machine.count(cpu);
        let held = self.machine.running(cpu);
        self.machine.deciding = Some(cpu);
        let next = self.scheduler.pick(&mut self.machine, cpu);
        self.machine.deciding = None;
        let queue = self.scheduler.queue_of_cpu(cpu);
        self.machine.take_queue_lock(cpu, queue);
        let decided = &mut self.machine.cpus[cpu];
        let took_ns = decided.seen - self.machine.now;
        decided.slice_end = decided.slice_end.saturating_add(took_ns);
        if next != held {
            if held.is_some() {
                self.machine.stop(cpu);
            }
            if let Some(next) = next {
                self.machine.start(cpu, next);
            }
            if let Some(held) = held {
                self.scheduler.put_back(&mut self.machine, held, cpu);
            }
        }
        self.machine.plan(cpu);
    }

    /// A burst or a slice ends.
    fn cpu_event(&mut self, cpu: usize) {
        self.machine.count(cpu);
        let task = self
            .machine
            .running(cpu)
            .expect("an event of a task that runs");
        while self.machine.tasks[task].left_ns == 0 && !self.machine.is_deciding(cpu) {
            if !self.act(cpu, task) {
                return;
            }
        }
        if self.machine.cpus[cpu].slice_end <= self.machine.now {
            self.machine.reschedule(cpu);
        } else {
            self.machine.plan(cpu);
        }
    }

    /// The task on `cpu` does its next act; false if it gave up the CPU.
    fn act(&mut self, cpu: usize, task: TaskId) -> bool {
        let machine = &mut self.machine;
        machine.tasks[task].acts += 1;
        let program = Rc::clone(&machine.tasks[task].program);
        match program(machine.tasks[task].acts, &mut machine.random) {
            Act::Run(ns) => machine.tasks[task].left_ns = ns,
            Act::Fork(program) => self.fork(cpu, task, program),
            Act::Nap(ns) => return self.sleep_until(cpu, task, self.machine.now + ns),
            Act::Until(time) if time > machine.now => return self.sleep_until(cpu, task, time),
            Act::Timer(period_ns) => return self.wait_for_timer(cpu, task, period_ns),
            Act::Lock(lock) => return self.lock(cpu, task, lock),
            Act::Unlock(lock) => self.unlock(cpu, task, lock),
            Act::Await => return self.await_fewer(cpu, task, 1),
            Act::AwaitFewer(children) => return self.await_fewer(cpu, task, children),
            Act::Until(_) => {}
            Act::Yield => {
                self.scheduler.yielded(machine, task, cpu);
                self.machine.reschedule(cpu);
                return false;
            }
            Act::Exit => {
                self.free_locks(cpu, task);
                self.give_up(cpu, task);
                self.exit(task);
                return false;
            }
        }
        true
    }

    fn sleep_until(&mut self, cpu: usize, task: TaskId, time: u64) -> bool {
        self.give_up(cpu, task);
        self.machine.at(time, Event::Wake(task));
        false
    }

    fn wait_for_timer(&mut self, cpu: usize, task: TaskId, period_ns: u64) -> bool {
        let (now, waited_ns) = (self.machine.now, self.machine.waited_ns(task));
        let t = &mut self.machine.tasks[task];
        let end = t.period_began.unwrap_or(now) + period_ns;
        let late_ns = now.saturating_sub(end);
        t.sleep_lost_ns += (waited_ns - t.waited_before_ns).saturating_sub(late_ns);
        t.waited_before_ns = waited_ns;
        t.period_began = Some(end.max(now));
        end <= now || self.sleep_until(cpu, task, end)
    }

    fn await_fewer(&mut self, cpu: usize, task: TaskId, children: u32) -> bool {
        let t = &mut self.machine.tasks[task];
        if t.children < children {
            return true;
        }
        t.awaits_fewer = Some(children);
        self.give_up(cpu, task);
        false
    }

    fn lock(&mut self, cpu: usize, task: TaskId, lock: usize) -> bool {
        let locks = &mut self.machine.locks;
        if locks.len() <= lock {
            locks.resize(lock + 1, Lock::default());
        }
        let lock = &mut locks[lock];
        let Some(holder) = lock.holder else {
            lock.holder = Some(task);
            return true;
        };
        lock.waiting.push_back(task);
        self.give_up(cpu, task);
        self.scheduler.waits_for(&mut self.machine, task, holder);
        false
    }

    fn unlock(&mut self, cpu: usize, task: TaskId, lock: usize) {
        let Some(lock) = self.machine.locks.get_mut(lock) else {
            return;
        };
        if lock.holder != Some(task) {
            return;
        }
        lock.holder = lock.waiting.pop_front();
        let Some(next) = lock.holder else {
            return;
        };
        // More do not lend to a task at once.
        let others: Vec<TaskId> = lock
            .waiting
            .iter()
            .copied()
            .take(LENT_MAX as usize)
            .collect();
        self.wake_by(next, Some(cpu));
        for other in others {
            self.scheduler.waits_for(&mut self.machine, other, next);
        }
    }

    fn free_locks(&mut self, cpu: usize, task: TaskId) {
        for lock in 0..self.machine.locks.len() {
            self.unlock(cpu, task, lock);
        }
    }

    fn give_up(&mut self, cpu: usize, task: TaskId) {
        self.machine.sleeps(task);
        self.scheduler.slept(&mut self.machine, task, cpu);
        self.machine.stop(cpu);
        self.machine.reschedule(cpu);
    }

    fn fork(&mut self, cpu: usize, task: TaskId, program: Program) {
        if self.machine.living >= self.machine.living_max {
            self.machine.failed_forks += 1;
            return;
        }
        let Task {
            group,
            tickets,
            nice,
            ..
        } = self.machine.tasks[task];
        let child = self.make_child(Some(task), group, tickets, nice, program);
        self.wake_by(child, Some(cpu));
    }

    fn exit(&mut self, task: TaskId) {
        let now = self.machine.now;
        self.machine.tasks[task].alive = false;
        self.machine.tasks[task].ended_ns = Some(now);
        self.machine.living -= 1;
        self.scheduler.exited(&mut self.machine, task);
        let Some(parent) = self.machine.tasks[task].parent else {
            return;
        };
        let p = &mut self.machine.tasks[parent];
        p.children -= 1;
        if p.awaits_fewer.is_some_and(|fewer| p.children < fewer) {
            p.awaits_fewer = None;
            self.machine.at(now, Event::Wake(parent));
        }
    }
}
