//! Several queues: where a task wakes up, what an idle CPU takes, and what a queue gives to another one.

use super::{Tombola, Waker};
use crate::machine::{ANYWHERE, Machine, TaskId};
use crate::queues::{Balance, Queues};
use tombola_core::queues::{self, Place};

/// Of the waiting tasks of a queue, so many are looked at before one moves.
const CANDIDATES: usize = 32;

impl Tombola {
    fn several(&self) -> &Queues {
        self.queues.as_ref().expect("there are several")
    }

    fn may_run_on(&self, machine: &Machine, task: TaskId, queue: usize) -> bool {
        self.mask(machine, task, queue) != 0
    }

    /// Of these queues, the one with the least load among those where a task may run.
    fn least(
        &self,
        machine: &Machine,
        task: TaskId,
        of: impl Iterator<Item = usize>,
    ) -> Option<usize> {
        of.filter(|&queue| self.may_run_on(machine, task, queue))
            .min_by_key(|&queue| self.several().load_for(machine.task(task).group, queue))
    }

    /// A task is about to wake up, maybe on another queue than its own.
    pub(super) fn place(&mut self, machine: &Machine, task: TaskId) {
        let Some(queues) = &self.queues else {
            return;
        };
        let own = self.accounts[task].queue;
        let is_new = machine.ran_ns(task) == 0;
        let may_run_here = self.may_run_on(machine, task, own);
        let idle_here = machine.idle_cpu_of(task, queues.cpus(own)).is_some();
        let idle = machine.idle_cpu(task).map(|cpu| queues.of(cpu));
        let to = match queues::waking_place(may_run_here, idle_here, idle.is_some(), is_new) {
            Place::Own => own,
            Place::Idle => idle.expect("a CPU idles"),
            Place::Least => {
                let near = std::iter::once(own).chain(queues.neighbours(own));
                self.least(machine, task, near)
                    .or_else(|| self.least(machine, task, 0..queues.count()))
                    .unwrap_or(own)
            }
        };
        self.put_on(machine, task, to);
    }

    /// A task that sleeps leaves its queue.
    pub(super) fn count_no_more(&mut self, machine: &Machine, task: TaskId) {
        if let Some(queues) = &mut self.queues {
            let account = &mut self.accounts[task];
            if account.counts.slept > 0 {
                let at = (machine.task(task).group, account.queue);
                let counts = &mut account.counts;
                (queues.groups).follow(&mut self.economy, at, counts, (0, 0), true);
            }
        }
    }

    /// A task that is not runnable belongs to this queue from now on.
    pub(super) fn put_on(&mut self, machine: &Machine, task: TaskId, queue: usize) {
        if self.queues.is_none() || self.accounts[task].queue == queue {
            return;
        }
        self.count_no_more(machine, task);
        if let Some(queues) = &mut self.queues {
            let group = machine.task(task).group;
            let (leaf, from) = (self.accounts[task].leaf, self.accounts[task].queue);
            (queues.groups).bring(&mut self.economy, group, leaf, from, queue);
            self.accounts[task].queue = queue;
        }
    }

    /// A waiting task goes to another queue.
    fn migrate(&mut self, machine: &mut Machine, task: TaskId, to: usize) {
        let (leaf, from) = (self.leaf(task), self.accounts[task].queue);
        let group = machine.task(task).group;
        let mut counts = self.accounts[task].counts;
        let usable = counts.usable;
        let groups = &mut self.queues.as_mut().expect("there are several").groups;
        groups.look_at_clocks_on(&self.economy, group, to);
        let passes = groups.take(&mut self.economy, group, from, leaf, &mut counts);
        groups.bring(&mut self.economy, group, leaf, from, to);
        groups.come(&mut self.economy, group, to, &mut counts, usable, &passes);
        self.accounts[task].counts = counts;
        self.accounts[task].queue = to;
        let mask = self.mask(machine, task, to);
        self.of(task).join(leaf, mask);
        self.wait(machine, task, Some(Waker::Other));
    }

    /// A waiting task that may run on no CPU of its queue any more.
    pub(super) fn leave_forbidden(&mut self, machine: &mut Machine, task: TaskId) {
        let Some(queues) = &self.queues else {
            return;
        };
        if self.may_run_on(machine, task, self.accounts[task].queue) {
            return;
        }
        if let Some(to) = self.least(machine, task, 0..queues.count()) {
            self.migrate(machine, task, to);
        }
    }

    /// A CPU would idle: a task that waits elsewhere comes, from a neighbour if one has some. Under MQS's rule none does.
    pub(super) fn pull(&mut self, machine: &mut Machine, cpu: usize) {
        let Some(queues) = &self.queues else {
            return;
        };
        if queues.balance == Balance::Mqs {
            return;
        }
        let (own, count) = (queues.of(cpu), queues.count());
        let near = queues.neighbours(own);
        let found = self
            .pull_from(machine, own, near)
            .or_else(|| self.pull_from(machine, own, 0..count));
        if let Some(task) = found {
            self.migrate(machine, task, own);
        }
    }

    /// The task that a queue takes from the one of these that has most load.
    fn pull_from(
        &mut self,
        machine: &Machine,
        own: usize,
        from: impl Iterator<Item = usize>,
    ) -> Option<TaskId> {
        let mut best = (0, None);
        for queue in from.filter(|&queue| queue != own) {
            let load = self.several().load(queue);
            // The tasks that wait are looked at last: that takes longest.
            if queues::pulls_from(true, load, best.0) {
                let waiting = self.candidates(queue);
                let task = self.best_fit(machine, &waiting, own, u64::MAX);
                if queues::pulls_from(task.is_some(), load, best.0) {
                    best = (load, task);
                }
            }
        }
        best.1.map(|(task, _)| task)
    }

    /// The tasks that have waited longest on a queue.
    fn candidates(&mut self, queue: usize) -> Vec<TaskId> {
        let leaves = self.economy.on(queue).waiting().take(CANDIDATES);
        leaves.map(|leaf| self.by_leaf[leaf as usize]).collect()
    }

    /// Of these tasks of one queue, the one that fits a gap to another queue best, and what it is worth.
    fn best_fit(
        &self,
        machine: &Machine,
        waiting: &[TaskId],
        to: usize,
        gap: u64,
    ) -> Option<(TaskId, u64)> {
        let mut best = None;
        for &task in waiting {
            if !self.may_run_on(machine, task, to) {
                continue;
            }
            let account = &self.accounts[task];
            let group = machine.task(task).group;
            let worth = (self.several().groups).worth(group, account.queue, account.counts.usable);
            let best_worth = best.map_or(0, |(_, worth)| worth);
            if queues::fits_better(gap, worth, best_worth) {
                best = Some((task, worth));
            }
        }
        best
    }

    /// Prices, and the queue whose clock is ahead of all others.
    pub(super) fn renew(&mut self, now: u64) {
        let queues = self.queues.as_mut().expect("there are several");
        if now < queues.renews_ns {
            return;
        }
        let period_ns = queues.bound_ns / 2;
        queues.renews_ns = now + period_ns;
        queues.groups.renew(&self.economy, period_ns);
        queues.fastest = queues.fastest(&self.economy);
    }

    /// A slice ends on a queue where tasks wait, and the queue has not looked at the clocks of others for long enough.
    pub(super) fn is_time_to_look(&mut self, machine: &mut Machine, own: usize) -> bool {
        let Some(queues) = &mut self.queues else {
            return false;
        };
        let is_time =
            machine.now >= queues.look_ns[own] && self.economy.on(own).counters().waiting > 0;
        if is_time {
            let seed = machine.random.bits();
            queues.look_ns[own] = queues::next_look(machine.now, queues.bound_ns, seed);
        }
        is_time
    }

    /// By a rule that is the machine's, a queue gives a waiting task to another one, if it should.
    pub(super) fn balance(&mut self, machine: &mut Machine, own: usize, rule: Balance) {
        if self.several().balance != rule {
            return;
        }
        let waiting = self.candidates(own);
        if waiting.is_empty() {
            return;
        }
        let moving = match rule {
            Balance::Clock => self
                .balance_clocks(machine, own, &waiting)
                .or_else(|| self.balance_bound(machine, own, &waiting)),
            Balance::Mqs => self.balance_like_mqs(machine, own, &waiting),
        };
        if let Some((task, to)) = moving {
            self.migrate(machine, task, to);
            self.moves += 1;
        }
    }

    /// If another queue's clock is too far ahead, and it has less load, a task goes there.
    fn balance_clocks(
        &mut self,
        machine: &Machine,
        own: usize,
        waiting: &[TaskId],
    ) -> Option<(TaskId, usize)> {
        for &task in waiting {
            self.count_tickets(machine, task, true, false);
        }
        let queues = self.queues.as_mut().expect("there are several");
        let others = queues.others(own);
        let queues = self.several();
        let (clock, load) = (queues.clock(&self.economy, own), queues.load(own));
        let (mean, bound_ns) = (queues.groups.mean_load(), queues.bound_ns);
        let cpus = queues.cpus(own).len() as u64;
        let lead_ns = |other| queues::lead_ns(clock, queues.clock(&self.economy, other), mean);
        let gap = |other| queues::gap(load, queues.load(other), cpus, mean, lead_ns(other));
        let ahead = |other| queues::ahead(lead_ns(other), gap(other), bound_ns);
        let is_partner = |&(ahead, other): &(u64, usize)| {
            ahead > 0 && (waiting.iter()).any(|&task| self.may_run_on(machine, task, other))
        };
        let best = |of: &mut dyn Iterator<Item = usize>| {
            let partners = of.map(|other| (ahead(other), other)).filter(is_partner);
            partners.max_by_key(|&(ahead, _)| ahead)
        };
        let (_, to) = best(&mut queues.neighbours(own))
            .or_else(|| best(&mut std::iter::once(queues.fastest)))
            .or_else(|| best(&mut { others }))?;
        let (task, worth) = self.best_fit(machine, waiting, to, gap(to))?;
        let is_far = queues::is_far(lead_ns(to), bound_ns);
        queues::may_move(gap(to), worth, is_far).then_some((task, to))
    }

    /// Tasks bound to some of a queue's CPUs starve: one that is bound there goes, if fewer are bound to its CPUs elsewhere.
    fn balance_bound(
        &mut self,
        machine: &Machine,
        own: usize,
        waiting: &[TaskId],
    ) -> Option<(TaskId, usize)> {
        let mut starved = 0;
        for &task in waiting {
            let leaf = self.leaf(task);
            if self.economy.on(own).starves(leaf) {
                starved |= self.mask(machine, task, own);
            }
        }
        for &task in waiting {
            let here = self.mask(machine, task, own);
            if here == ANYWHERE || here & starved == 0 {
                continue;
            }
            let crowd = self.economy.on(own).crowd(here);
            for to in 0..self.several().count() {
                let there = self.mask(machine, task, to);
                if to != own
                    && there != 0
                    && queues::is_crowded(crowd, self.economy.on(to).crowd(there))
                {
                    return Some((task, to));
                }
            }
        }
        None
    }

    /// MQS's rule; the head of its best list is here the task that has waited longest.
    fn balance_like_mqs(
        &mut self,
        machine: &Machine,
        own: usize,
        waiting: &[TaskId],
    ) -> Option<(TaskId, usize)> {
        let near = queues::mqs_neighbours(own as u32, self.several().count() as u32);
        let near = near.map(|other| other as usize);
        let own = self.mqs_load(machine, own);
        let push = queues::mqs_push(own, near.map(|other| self.mqs_load(machine, other)))?;
        let to = near[push];
        let task = *(waiting.iter()).find(|&&task| self.may_run_on(machine, task, to))?;
        let waited_ns = machine.now - self.economy.client(self.leaf(task)).sum;
        (waited_ns >= queues::MQS_WAIT_NS).then_some((task, to))
    }

    fn mqs_load(&mut self, machine: &Machine, queue: usize) -> u64 {
        let cpus = self.several().cpus(queue);
        let running = cpus.clone().filter(|&cpu| machine.running(cpu).is_some());
        let waiting = self.economy.on(queue).counters().waiting;
        queues::mqs_load(
            u64::from(waiting),
            running.count() as u64,
            cpus.len() as u64,
        )
    }
}
