//! Tombola as the kernel's scheduler uses the economy, with one run queue for all CPUs or with several.
//!
//! At a slice's end the run is settled and compared with the pick. A waking task takes an idle CPU on which it may run, or
//! challenges the task that runs where it ran last: it preempts at once, or shortens the slice to the moment when it will be the
//! better choice (`crossing_ns`). Slices are shorter for clients of few tickets, and longer while no task waits, as in
//! `hosts/kernel/bpf/slice.h`. Left out: time spent in the scheduler itself, but for locks; turns for overdue tasks; a waking
//! task that waits on its waker's CPU; the rule that a client woken by another of its currency gets no credit; shorter slices of
//! a user with many tasks; reservations.

mod loans;
mod several;

use crate::groups::{Groups, Reach};
use crate::machine::{ANYWHERE, Machine, TaskId, Topology};
use crate::program::MS;
use crate::queues::{Balance, Queues, RunQueues};
use crate::scheduler::{RunQueueCounts, Scheduler};
use tombola_core::queues::{Counts, MQS_TICK_NS};
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
    /// The leaf that is charged while it runs: its own, or that of a task that lends to it.
    payer: u32,
    queue: usize,
    /// Several queues: its tickets that count there.
    counts: Counts,
    /// Where it might go when that was last counted.
    reach: Reach,
    /// CPU time that is charged, ns.
    settled_ns: u64,
    precharge_ns: u64,
    /// What it had consumed when it forked last, ns.
    forked_ns: u64,
}

/// Tombola's scheduler.
pub struct Tombola {
    /// The trees of currencies.
    pub economy: Economy,
    /// `None`: one queue for all CPUs.
    queues: Option<Queues>,
    accounts: Vec<Account>,
    /// Of each leaf, its task.
    by_leaf: Vec<TaskId>,
    /// Slices begun.
    pub slices: u64,
    /// Tasks that the balancer has moved.
    pub moves: u64,
    /// Some slices are longer than a quantum.
    long_slices: bool,
    /// Tasks that wait for locks lend to the holders.
    transfers: bool,
}

impl Tombola {
    /// Stride or lottery scheduling, as the rules say.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self::of_economy(Economy::new(rules), None)
    }

    fn of_economy(economy: Economy, queues: Option<Queues>) -> Self {
        Self {
            economy,
            queues,
            accounts: Vec::new(),
            by_leaf: Vec::new(),
            slices: 0,
            moves: 0,
            long_slices: false,
            transfers: false,
        }
    }

    /// With these run queues on a machine.
    #[must_use]
    pub fn with_run_queues(rules: Rules, topology: Topology, run_queues: RunQueues) -> Self {
        let cpus_each = run_queues.cpus_each(topology);
        let (bound_ns, balance) = (run_queues.bound_ns(), run_queues.balance());
        Self::balanced(rules, topology, cpus_each, bound_ns, balance)
    }

    /// With a run queue for each `cpus_each` CPUs of a machine; if that is all of them, with one. Clocks of queues may be
    /// `bound_ns` apart.
    #[must_use]
    pub fn with_queues(rules: Rules, topology: Topology, cpus_each: usize, bound_ns: u64) -> Self {
        Self::balanced(rules, topology, cpus_each, bound_ns, Balance::Clock)
    }

    fn balanced(
        rules: Rules,
        topology: Topology,
        cpus_each: usize,
        bound_ns: u64,
        balance: Balance,
    ) -> Self {
        if cpus_each >= topology.cpus {
            return Self::new(rules);
        }
        let rules = match cpus_each {
            1 => rules.of_one_cpu(),
            _ => rules,
        };
        let count = topology.cpus.div_ceil(cpus_each);
        let mut economy = Economy::with_queues(rules, count);
        let groups = Groups::new(&mut economy, count, topology.cpus as u64, bound_ns);
        let queues = Queues::new(groups, topology, cpus_each, bound_ns, balance);
        Self::of_economy(economy, Some(queues))
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

    /// The CPUs of a queue on which a task may run, from the queue's first one on. If that is all of them, the task counts as not
    /// bound, as in the kernel.
    fn mask(&self, machine: &Machine, task: TaskId, queue: usize) -> u64 {
        let mask = machine.task(task).mask;
        let cpus = self.cpus(machine, queue);
        let all = if cpus.len() < 64 {
            (1 << cpus.len()) - 1
        } else {
            ANYWHERE
        };
        let mask = mask.rotate_right(cpus.start as u32 % 64);
        if mask & all == all {
            ANYWHERE
        } else {
            mask & all
        }
    }

    fn cpus(&self, machine: &Machine, queue: usize) -> std::ops::Range<usize> {
        match &self.queues {
            Some(queues) => queues.cpus(queue),
            None => 0..machine.cpus(),
        }
    }

    /// The economy, at the queue of a task.
    fn of(&mut self, task: TaskId) -> &mut Economy {
        self.economy.on(self.accounts[task].queue)
    }

    /// So many tickets of a runnable task count on its queue now: as many as it can use, or 0 if it sleeps. `settled`: what it
    /// has used was just charged.
    fn count_tickets(&mut self, machine: &Machine, task: TaskId, is_runnable: bool, settled: bool) {
        let Some(queues) = &mut self.queues else {
            return;
        };
        let t = machine.task(task);
        let account = &mut self.accounts[task];
        let counted = match is_runnable {
            true => (queues.groups.of_thread(t.group, t.tickets).1, 0),
            false => (0, account.counts.usable),
        };
        if account.counts.usable > 0 {
            queues.groups.count_thread(t.group, account.reach, false);
        }
        if is_runnable {
            account.reach = queues.reach(t.mask);
            queues.groups.count_thread(t.group, account.reach, true);
            queues.groups.note_reach(t.group, account.reach);
        }
        let at = (t.group, account.queue);
        let counts = &mut account.counts;
        (queues.groups).follow(&mut self.economy, at, counts, counted, settled);
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
        let (payer, queue) = (account.payer, account.queue);
        self.of(task).charge(payer, &bill);
        if let Some(queues) = &mut self.queues {
            let ns = (bill.used_ns + bill.next_ns) as i64 - bill.precharge_ns as i64;
            let group = machine.task(task).group;
            queues.groups.charged(&mut self.economy, group, queue, ns);
        }
    }

    /// A task waits. An idle CPU takes it; otherwise, if it was woken, it challenges the task that runs on its CPU.
    fn wait(&mut self, machine: &mut Machine, task: TaskId, woken: Option<Waker>) {
        let queue = self.accounts[task].queue;
        let (leaf, mask) = (self.leaf(task), self.mask(machine, task, queue));
        self.of(task).wait_accounts(leaf, mask, machine.now);
        let cpus = self.cpus(machine, queue);
        let idle = machine.idle_cpu_of(task, cpus.clone());
        if let Some(idle) = idle.or_else(|| machine.idle_cpu(task)) {
            machine.reschedule(idle);
        } else if let Some(by) = woken {
            let own = machine.task(task).cpu;
            let cpu = if machine.may_run(task, own) && cpus.contains(&own) {
                own
            } else {
                cpus.start + mask.trailing_zeros() as usize
            };
            self.challenge(machine, task, cpu, by);
        }
    }

    fn challenge(&mut self, machine: &mut Machine, task: TaskId, cpu: usize, by: Waker) {
        let Some(runner) = machine.running(cpu) else {
            return; // A decision was put off there.
        };
        let run = self.run(machine, runner, by == Waker::Runner);
        let (leaf, payer) = (self.leaf(task), self.payer(runner));
        let economy = self.of(task);
        let accounts = economy.accounts(leaf).into_iter();
        let crossings = accounts.map(|account| economy.crossing_ns(account, payer, &run));
        let crossing_ns = crossings.min().expect("its own is one");
        let end = if crossing_ns == 0 {
            machine.now
        } else {
            // At most a quantum: if no task waited before, the slice may be a long one.
            machine.begins(cpu) + crossing_ns.clamp(SLICE_MIN_NS, self.economy.rules().quantum_ns)
        };
        if end < machine.slice_end(cpu) {
            machine.set_slice_end(cpu, end);
        }
    }

    /// A task waits at a slice's end: all long slices end, and what was used of them is charged at once. Without that, the task
    /// whose slice has ended would seem to be ahead of those.
    fn share_slices(&mut self, machine: &mut Machine, cpus: std::ops::Range<usize>) {
        // With several queues, others may have long slices.
        self.long_slices = self.queues.is_some();
        let quantum_ns = self.economy.rules().quantum_ns;
        for cpu in cpus {
            let soon = machine.begins(cpu) + quantum_ns;
            if let Some(running) = machine.running(cpu)
                && machine.slice_end(cpu) > soon
            {
                self.settle(machine, running, self.accounts[running].precharge_ns);
                machine.set_slice_end(cpu, machine.now);
            }
        }
    }

    /// A client with few tickets among its active siblings has shorter slices, and so runs more often.
    fn slice_ns(&self, leaf: u32, displaces: bool) -> u64 {
        let rules = self.economy.rules();
        // The economy is at the leaf's queue.
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
        self.count_tickets(machine, task, true, true);
        self.economy.on(self.accounts[task].queue); // for slice_ns
        let slice_ns = self.slice_ns(self.payer(task), displaces);
        let quantum_ns = self.economy.rules().quantum_ns;
        self.long_slices |= slice_ns > quantum_ns;
        self.slices += 1;
        if self.cpus(machine, self.accounts[task].queue).len() > 1 {
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
    fn queue_of_cpu(&self, cpu: usize) -> usize {
        self.queues.as_ref().map_or(0, |queues| queues.of(cpu))
    }

    fn queue_of_task(&self, _machine: &Machine, task: TaskId) -> usize {
        self.accounts[task].queue
    }

    fn run_queues(&self) -> Option<RunQueueCounts> {
        Some(RunQueueCounts {
            count: self.queues.as_ref().map_or(1, Queues::count),
            moves: self.moves,
            slices: self.slices,
        })
    }

    fn tick_ns(&self) -> Option<u64> {
        self.queues.as_ref().map(|queues| match queues.balance {
            Balance::Clock => queues.bound_ns / 2,
            Balance::Mqs => MQS_TICK_NS,
        })
    }

    fn user(&mut self, base_tickets: u32) -> u32 {
        if let Some(queues) = &mut self.queues {
            return queues.groups.add(0, base_tickets);
        }
        self.economy
            .new_client(Kind::User, BEST_EFFORT, base_tickets)
            .expect("there are more clients than the core takes")
    }

    fn currency(&mut self, parent: u32, tickets: u32) -> u32 {
        if let Some(queues) = &mut self.queues {
            return queues.groups.add(parent, tickets);
        }
        self.economy
            .new_client(Kind::Currency, parent, tickets)
            .expect("there are more clients than the core takes")
    }

    fn set_group_tickets(&mut self, group: u32, tickets: u32) {
        match &mut self.queues {
            Some(queues) => queues.groups.set_tickets(group, tickets),
            None => self.economy.set_tickets(group, tickets),
        }
    }

    fn tickets_changed(&mut self, machine: &mut Machine, task: TaskId) {
        let (t, leaf) = (machine.task(task), self.leaf(task));
        let tickets = match &self.queues {
            Some(queues) => queues.groups.of_thread(t.group, t.tickets).0,
            None => t.tickets,
        };
        self.of(task).set_tickets(leaf, tickets);
    }

    fn made(&mut self, machine: &mut Machine, task: TaskId, forker: Option<TaskId>) {
        let t = machine.task(task);
        let queue = self.queue_of_cpu(forker.map_or(t.cpu, |forker| machine.task(forker).cpu));
        let (parent, tickets) = match &mut self.queues {
            None => (t.group, t.tickets),
            Some(queues) => {
                queues.groups.make_room(&mut self.economy);
                let parent = queues.groups.client(&mut self.economy, t.group, queue);
                (parent, queues.groups.of_thread(t.group, t.tickets).0)
            }
        };
        let leaf = self
            .economy
            .on(queue)
            .new_client(Kind::Thread, parent, tickets)
            .expect("there are more clients than the core takes");
        self.accounts.push(Account {
            leaf,
            payer: leaf,
            queue,
            ..Account::default()
        });
        if self.by_leaf.len() <= leaf as usize {
            self.by_leaf.resize(leaf as usize + 1, TaskId::MAX);
        }
        self.by_leaf[leaf as usize] = task;
        if let Some(forker) = forker {
            let run = self.run(machine, forker, false);
            let of_forker = self.leaf(forker);
            self.of(forker).fork(leaf, of_forker, &run);
            self.accounts[forker].forked_ns = self.economy.client(of_forker).young_ns + run.ran_ns;
        }
    }

    fn wake(&mut self, machine: &mut Machine, task: TaskId, waker: Option<usize>) {
        self.reclaim(machine, task);
        self.place(machine, task);
        let queue = self.accounts[task].queue;
        if let Some(queues) = &mut self.queues {
            let group = machine.task(task).group;
            queues.groups.before_join(&mut self.economy, group, queue);
        }
        let (leaf, mask) = (self.leaf(task), self.mask(machine, task, queue));
        self.of(task).join_accounts(leaf, mask, None);
        self.count_tickets(machine, task, true, false);
        let by = match waker {
            Some(cpu) if self.cpus(machine, queue).contains(&cpu) => Waker::Runner,
            _ => Waker::Other,
        };
        self.wait(machine, task, Some(by));
    }

    fn pick(&mut self, machine: &mut Machine, cpu: usize) -> Option<TaskId> {
        let queue = self.queue_of_cpu(cpu);
        let cpus = self.cpus(machine, queue);
        let held = machine.running(cpu);
        if held.is_some() && self.is_time_to_look(machine, queue) {
            self.balance(machine, queue, Balance::Clock);
        }
        if held.is_some() && self.long_slices && self.economy.on(queue).counters().waiting > 0 {
            self.share_slices(machine, cpus.clone());
        }
        if let Some(held) = held {
            self.settle(machine, held, 0);
            self.count_tickets(machine, held, true, true);
        }
        let mask = 1 << ((cpu - cpus.start) % 64);
        let mut best = self.economy.on(queue).pick_account(mask);
        let held = held.filter(|&held| machine.may_run(held, cpu));
        if best.is_none() && held.is_none() {
            self.pull(machine, cpu);
            best = self.economy.on(queue).pick_account(mask);
        }
        let displaces = machine.running(cpu).is_some();
        if let Some(held) = held {
            self.choose_payer(held);
        }
        let of_held = held.map(|held| self.payer(held));
        let economy = self.economy.on(queue);
        let kept = of_held.filter(|&payer| best.is_none_or(|best| economy.keeps(payer, best)));
        let drawn = kept.or(best);
        economy.runs(drawn, mask);
        let drawn = drawn?;
        let thread = economy.borrower(drawn);
        if kept.is_none() {
            economy.withdraw_accounts(thread);
        }
        let next = self.task(thread);
        self.accounts[next].payer = drawn;
        self.begin(machine, next, cpu, displaces && kept.is_none());
        Some(next)
    }

    fn put_back(&mut self, machine: &mut Machine, task: TaskId, cpu: usize) {
        let woken = (!machine.may_run(task, cpu)).then_some(Waker::Other);
        self.wait(machine, task, woken);
        self.leave_forbidden(machine, task);
    }

    fn slept(&mut self, machine: &mut Machine, task: TaskId, _cpu: usize) {
        if machine.cpu_of(task).is_some() {
            self.settle(machine, task, 0);
        }
        let leaf = self.leaf(task);
        let economy = self.of(task);
        economy.withdraw_accounts(leaf);
        economy.leave_accounts(leaf);
        self.count_tickets(machine, task, false, false);
    }

    fn waits_for(&mut self, machine: &mut Machine, task: TaskId, holder: TaskId) {
        self.lend(machine, task, holder);
    }

    fn exited(&mut self, machine: &mut Machine, task: TaskId) {
        let leaf = self.leaf(task);
        self.end_loans(task);
        let heir = match (machine.child(task), machine.parent(task)) {
            (Some(child), _) => Some((child, self.accounts[task].forked_ns)),
            (None, Some(parent)) => Some((parent, 0)),
            (None, None) => None,
        };
        if let Some((heir, forked_ns)) = heir {
            let (of_heir, queue) = (self.leaf(heir), self.accounts[heir].queue);
            // A task's children are in its group, which so has a part there.
            self.put_on(machine, task, queue);
            self.of(task).charge_heir(leaf, of_heir, forked_ns);
        }
        self.count_no_more(machine, task);
        self.of(task).free(leaf);
    }

    fn mask_changed(&mut self, machine: &mut Machine, task: TaskId) {
        let leaf = self.leaf(task);
        if self.economy.client(leaf).state & QUEUED != 0 {
            self.of(task).withdraw_accounts(leaf);
            self.wait(machine, task, Some(Waker::Other));
            self.leave_forbidden(machine, task);
        }
    }

    fn tick(&mut self, machine: &mut Machine, cpu: usize) {
        if cpu == 0 {
            self.renew(machine.now);
        }
        let queue = self.queue_of_cpu(cpu);
        if self.cpus(machine, queue).start == cpu {
            self.balance(machine, queue, Balance::Mqs);
        }
    }
}
