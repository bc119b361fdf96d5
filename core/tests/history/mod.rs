//! Random histories: the C economy and the naive model side by side, on a small machine.
//!
//! A history is a list of steps. What a step's numbers mean depends on the state it finds (the third idle leaf, the
//! second busy CPU), so every list is a legal history and a failing one can be made shorter by leaving steps out. After
//! each step the two must agree on every client, and the C's structures must be sound.

use crate::model::Model;
use crate::random::Random;
use std::collections::BTreeMap;
use tombola_core::{
    ACTIVE, BASE, BEHIND, BEST_EFFORT, Bill, Client, Economy, FROZEN, Kind, QUEUED, Rules, Run,
    limits,
};

/// One step. The state that it finds gives its numbers their meaning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    pub what: u8,
    pub x: u32,
    pub y: u32,
    pub z: u64,
}

/// What a history runs on.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub rules: Rules,
    pub cpus: u32,
    /// The vnow at which all currencies begin.
    pub clock: u64,
    /// How many leaves there may be.
    pub leaves: usize,
    /// Mostly slices end, and little else happens: long enough for a client that cannot use its tickets to fall behind.
    pub steady: bool,
    /// One in so many leaves is bound to some of the CPUs.
    pub bound_each: u64,
    /// Check everything each so many steps.
    pub check_every: u64,
}

#[derive(Clone, Copy)]
struct Running {
    thread: u32,
    /// Which of the thread's accounts is charged.
    payer: u32,
    precharge_ns: u64,
}

pub struct History {
    pub economy: Economy,
    pub model: Model,
    setting: Setting,
    now: u64,
    running: Vec<Option<Running>>,
    leaves: Vec<u32>,
    /// Accounts of some of a leaf's tickets, with that leaf.
    accounts: Vec<(u32, u32)>,
    currencies: Vec<u32>,
    steps: u64,
    pub picks: u64,
    pub loans: u64,
    /// Loans of some of a leaf's tickets.
    pub parts: u64,
    /// Runs that another than the thread has paid for.
    pub lent_runs: u64,
}

/// Enough for twelve users with two nested currencies each.
const CURRENCIES_MAX: usize = 36;
/// Currencies that always exist.
const ROOTS: [u32; 2] = [BEST_EFFORT, FROZEN];
/// The most levels of currencies below base.
const CURRENCY_DEPTH_MAX: usize = 10;

impl History {
    pub fn new(setting: Setting) -> Self {
        let mut history = Self {
            economy: Economy::new(setting.rules),
            model: Model::new(setting.rules),
            setting,
            now: 1_000_000_000,
            running: vec![None; setting.cpus as usize],
            leaves: Vec::new(),
            accounts: Vec::new(),
            currencies: ROOTS.to_vec(),
            steps: 0,
            picks: 0,
            loans: 0,
            parts: 0,
            lent_runs: 0,
        };
        history.set_clock(BASE);
        history.economy.set_pass(BEST_EFFORT, setting.clock);
        history
            .model
            .set_pass(BEST_EFFORT, i128::from(setting.clock));
        ROOTS.into_iter().for_each(|root| history.set_clock(root));
        history
    }

    pub fn play(setting: Setting, steps: impl IntoIterator<Item = Step>) -> Self {
        let mut history = Self::new(setting);
        for step in steps {
            history.step(step);
        }
        history.end();
        history
    }

    fn set_clock(&mut self, currency: u32) {
        self.economy.start_at(currency, self.setting.clock);
        self.model.nodes.get_mut(&currency).unwrap().idle_vnow = i128::from(self.setting.clock);
    }

    pub fn step(&mut self, s: Step) {
        let what = s.what % 32;
        let steady = self.setting.steady && s.x >> 8 & 7 != 0;
        match what {
            17..=20 | 22..=30 if steady => self.tick(s),
            0 => self.new_currency(s),
            1 | 2 => drop(self.new_leaf(s)),
            3..=7 => self.wake(s),
            8..=12 => self.tick(s),
            13..=16 => self.turn(s),
            17..=19 => self.sleep(s),
            20 => self.cancel(s),
            21 | 22 => self.fork(s),
            23 => self.die(s),
            24 => self.set_tickets(s),
            25 => self.lend_some(s),
            26 | 27 => self.move_leaf(s),
            28 => self.move_currency(s),
            29 => self.retire_currency(s),
            30 => self.bind(s),
            _ => self.ask(s),
        }
        self.steps += 1;
        if self.steps.is_multiple_of(self.setting.check_every) {
            self.check();
        }
    }

    /// All leaves and currencies are removed; then only base, best effort and the frozen root may be left.
    fn end(&mut self) {
        self.check();
        for cpu in 0..self.running.len() {
            self.put_off(cpu, 12_345, 1);
        }
        while let Some((account, lender)) = self.accounts.pop() {
            self.give_back(account, lender, 1);
        }
        for leaf in self.leaves.clone() {
            self.reclaim(leaf, 1);
        }
        while let Some(leaf) = self.leaves.pop() {
            self.withdraw(leaf);
            self.leave(leaf);
            self.free(leaf);
        }
        while self.currencies.len() > ROOTS.len() {
            self.retire_currency(Step::default());
        }
        self.check();
        let counters = self.economy.counters();
        assert_eq!(
            (3, 0, 0, 0),
            (
                counters.used,
                counters.waiting,
                counters.oldest,
                counters.newest
            )
        );
        assert_eq!(
            0,
            self.economy.client(BASE).active + self.economy.client(BASE).root
        );
    }

    // What the steps find out about the state.

    fn running_on(&self, leaf: u32) -> Option<usize> {
        self.running
            .iter()
            .position(|r| r.is_some_and(|r| r.thread == leaf))
    }

    fn state(&self, i: u32) -> u8 {
        self.economy.client(i).state
    }

    /// The x-th thread whose bits ACTIVE and QUEUED are those of `state`. A lender sleeps, whatever its account does.
    fn thread_in(&self, state: u8, x: u32) -> Option<u32> {
        let of_thread = |l: u32| match self.model.lends_to(l) {
            Some(_) => 0,
            None => self.state(l) & (ACTIVE | QUEUED),
        };
        let in_state = |l: &u32| of_thread(*l) == state;
        let leaves: Vec<u32> = self.leaves.iter().copied().filter(in_state).collect();
        one_of(&leaves, x)
    }

    /// The x-th CPU that runs a leaf.
    fn busy(&self, x: u32) -> Option<(usize, Running)> {
        let busy: Vec<_> = self
            .running
            .iter()
            .enumerate()
            .filter_map(|(cpu, r)| r.map(|r| (cpu, r)))
            .collect();
        one_of(&busy, x)
    }

    /// Every CPU, or a few. Bits beyond the machine's CPUs do no harm.
    fn mask(&self, z: u64) -> u64 {
        let all = (1 << self.setting.cpus) - 1;
        match z >> 8 & all {
            0 => u64::MAX,
            _ if !z.is_multiple_of(self.setting.bound_each) => u64::MAX,
            some if z >> 16 & 15 == 0 => some | z << 32,
            some => some,
        }
    }

    /// A leaf's last mask; sometimes another.
    fn mask_of(&self, leaf: u32, z: u64) -> u64 {
        let own = self.economy.client(leaf).mask;
        if own == 0 || z >> 20 & 31 == 0 {
            self.mask(z)
        } else {
            own
        }
    }

    /// From 0 over about a slice to seconds; sometimes more than CHARGE_MAX_NS.
    fn used(&self, z: u64) -> u64 {
        let quantum = self.setting.rules.quantum_ns;
        match z % 64 {
            0 => 0,
            1 => z % 4_000_000_000,
            2 => 1 << ((z >> 8) % 42),
            3..=20 => z % quantum,
            _ => quantum + z % 10_000,
        }
    }

    // The C and the model do the same.

    fn join(&mut self, thread: u32, mask: u64, waker: Option<u32>) {
        self.economy.join_accounts(thread, mask, waker);
        let seen = seen(&self.economy);
        self.model.join_accounts(thread, mask, waker, &seen);
    }

    fn wait(&mut self, thread: u32, mask: u64) {
        self.economy.wait_accounts(thread, mask, self.now);
        let seen = seen(&self.economy);
        self.model.wait_accounts(thread, mask, self.now, &seen);
    }

    fn move_to(&mut self, i: u32, to: u32) {
        self.economy.move_to(i, to);
        self.model.move_to(i, to, &seen(&self.economy));
    }

    fn withdraw(&mut self, thread: u32) {
        self.economy.withdraw_accounts(thread);
        self.model.withdraw_accounts(thread, &seen(&self.economy));
    }

    fn leave(&mut self, thread: u32) {
        self.economy.leave_accounts(thread);
        self.model.leave_accounts(thread, &seen(&self.economy));
    }

    fn best_account(&mut self, thread: u32) -> u32 {
        let best = self.economy.best_account(thread);
        assert_eq!(
            self.model.best_account(thread),
            best,
            "who pays for {thread}?"
        );
        best
    }

    fn lend(&mut self, lender: u32, to: u32) -> bool {
        let lends = self.economy.lend(lender, to, self.now);
        let seen = seen(&self.economy);
        let legal = self.model.lend(lender, to, self.now, &seen);
        assert_eq!(legal, lends, "may {lender} lend to {to}?");
        self.loans += u64::from(lends);
        lends
    }

    /// If it pays for a run, the run is settled, and another account pays from now on.
    fn reclaim(&mut self, lender: u32, z: u64) {
        if self.model.lends_to(lender).is_none() {
            return;
        }
        let paid = |r: &Running| self.model.accounts(lender).contains(&r.payer);
        let cpu = (self.running.iter()).position(|r| r.as_ref().is_some_and(paid));
        let thread = cpu.map(|cpu| self.put_off(cpu, z, z).unwrap());
        self.economy.reclaim(lender);
        self.model.reclaim(lender, &seen(&self.economy));
        if let (Some(cpu), Some(thread)) = (cpu, thread) {
            let payer = self.best_account(thread);
            self.start(cpu, thread, payer);
        }
    }

    /// All that lend to a thread directly call their loans back.
    fn end_loans(&mut self, to: u32, z: u64) {
        for lender in self.model.lenders_to(to).to_vec() {
            self.reclaim(lender, z);
            self.leave(lender);
        }
    }

    fn free(&mut self, i: u32) {
        self.economy.free(i);
        self.model.remove(i);
    }

    fn charge(&mut self, i: u32, bill: Bill) {
        let vnow = self.economy.client(self.economy.client(i).parent).vnow;
        let before = self.economy.client(i).state & BEHIND != 0;
        self.economy.charge(i, &bill);
        self.model.charge(i, &bill);
        let c = self.economy.client(i);
        let alone = self.economy.client(c.parent).active == 1;
        if c.state & (ACTIVE | BEHIND) == ACTIVE && !before && !alone && bill.next_ns == 0 {
            let lag = i128::from(c.pass.wrapping_sub(vnow) as i64);
            let ahead_ns = (lag * i128::from(c.tickets)) >> limits::PASS_SHIFT;
            assert!(
                ahead_ns <= i128::from(limits::AHEAD_MAX_NS),
                "leaf {i} is {ahead_ns} ns ahead of where vnow was before its charge"
            );
        }
    }

    /// The rounds of `pick_account`, one at a time.
    fn pick(&mut self, mask: u64) -> Option<u32> {
        loop {
            let picked = self.economy.pick(mask);
            self.picks += 1;
            let model = self.model.pick(mask, picked);
            self.model = model.unwrap_or_else(|| panic!("picked {picked:?}; the model does not"));
            let Some(i) = picked.filter(|&i| self.model.rests(i)) else {
                assert_eq!(picked, self.economy.pick_account(mask));
                return picked;
            };
            self.economy.withdraw(i);
            self.economy.leave(i);
        }
    }

    // The steps.

    fn new_currency(&mut self, s: Step) {
        if self.currencies.len() >= CURRENCIES_MAX {
            return;
        }
        let (parent, kind) = match one_of(&self.currencies, s.x).unwrap() {
            _ if s.y.is_multiple_of(8) => (BASE, Kind::Reservation),
            BEST_EFFORT => (BEST_EFFORT, Kind::User),
            other => (other, Kind::Currency),
        };
        if self.model.line(parent).len() >= CURRENCY_DEPTH_MAX {
            return;
        }
        let i = self.economy.new_client(kind, parent, tickets(s.z)).unwrap();
        self.model.insert(i, kind, parent, tickets(s.z));
        self.set_clock(i);
        self.currencies.push(i);
    }

    fn new_leaf(&mut self, s: Step) -> Option<u32> {
        if self.leaves.len() >= self.setting.leaves {
            return None;
        }
        self.new_leaf_in(one_of(&self.currencies, s.y)?, tickets(s.z))
    }

    fn new_leaf_in(&mut self, parent: u32, tickets: u32) -> Option<u32> {
        let i = self.economy.new_client(Kind::Thread, parent, tickets)?;
        self.model.insert(i, Kind::Thread, parent, tickets);
        self.leaves.push(i);
        Some(i)
    }

    fn wake(&mut self, s: Step) {
        let Some(leaf) = self.thread_in(0, s.x) else {
            return;
        };
        self.now += s.z % 10_000;
        self.reclaim(leaf, s.z);
        let mask = self.mask_of(leaf, s.z);
        let waker = self.busy((s.z >> 8) as u32).map(|(_, r)| r.thread);
        self.join(leaf, mask, waker.filter(|_| s.y & 2 == 2));
        let idle = |cpu: &usize| self.running[*cpu].is_none() && mask >> *cpu & 1 == 1;
        if let Some(cpu) = (0..self.running.len()).find(idle).filter(|_| s.y & 1 == 1) {
            // It runs at once, without a pick.
            let payer = self.best_account(leaf);
            return self.start(cpu, leaf, payer);
        }
        self.wait(leaf, mask);
        if let Some((_, runner)) = self.busy(s.y) {
            self.compare_crossing(leaf, runner, s.z % 5_000_000);
        }
    }

    fn bill(&self, r: Running, z: u64, next_ns: u64) -> Bill {
        Bill {
            used_ns: self.used(z),
            precharge_ns: r.precharge_ns,
            next_ns,
            seed: z,
        }
    }

    fn precharge(&self) -> u64 {
        if self.setting.cpus > 1 {
            self.setting.rules.quantum_ns
        } else {
            0
        }
    }

    /// A slice ends: settle, compare with the pick, go on or give way.
    fn tick(&mut self, s: Step) {
        let Some((cpu, r)) = self.busy(s.x) else {
            return self.turn(s);
        };
        let bill = self.bill(r, s.z, 0);
        self.now += bill.used_ns;
        self.charge(r.payer, bill);
        self.running[cpu] = Some(Running {
            precharge_ns: 0,
            ..r
        });
        let frozen = self.economy.frozen(r.thread);
        let best = self.pick(1 << cpu);
        let held = self.best_account(r.thread);
        assert_eq!(
            self.model.frozen(r.thread),
            frozen,
            "is {} frozen?",
            r.thread
        );
        let keeps = best.is_none_or(|best| {
            let keeps = self.economy.keeps(held, best);
            assert_eq!(
                self.model.keeps(held, best),
                keeps,
                "does {held} keep its CPU from {best}?"
            );
            keeps
        });
        if keeps && !frozen {
            return self.start(cpu, r.thread, held);
        }
        self.running[cpu] = None;
        self.wait(r.thread, self.mask_of(r.thread, s.z));
        if let Some(best) = best {
            self.start_drawn(cpu, best);
        }
    }

    /// The thread of a waiting account begins to run.
    fn start_drawn(&mut self, cpu: usize, account: u32) {
        let thread = self.model.borrower(account);
        assert_eq!(thread, self.economy.borrower(account));
        self.withdraw(thread);
        self.start(cpu, thread, account);
    }

    fn start(&mut self, cpu: usize, thread: u32, payer: u32) {
        let next_ns = self.precharge();
        self.lent_runs += u64::from(payer != thread);
        self.runs(cpu, Some(payer));
        self.charge(
            payer,
            Bill {
                next_ns,
                ..Bill::default()
            },
        );
        self.running[cpu] = Some(Running {
            thread,
            payer,
            precharge_ns: next_ns,
        });
    }

    /// A CPU, idle or just made so, picks a leaf.
    fn turn(&mut self, s: Step) {
        let cpu = s.x as usize % self.running.len();
        let before = self.put_off(cpu, s.z, s.z);
        if let Some(leaf) = before {
            self.wait(leaf, self.mask_of(leaf, s.z));
        }
        // An overdue leaf is next, also a frozen one.
        let overdue = self.economy.overdue(self.now, 50_000_000, 1 << cpu);
        let drawn = overdue.or_else(|| self.pick(1 << cpu));
        let Some(leaf) = drawn else {
            return self.runs(cpu, None);
        };
        self.start_drawn(cpu, leaf);
    }

    fn runs(&mut self, cpu: usize, leaf: Option<u32>) {
        self.economy.runs(leaf, 1 << cpu);
        self.model.runs(leaf, 1 << cpu);
    }

    fn put_off(&mut self, cpu: usize, z: u64, seed: u64) -> Option<u32> {
        let r = self.running[cpu].take()?;
        let bill = Bill {
            seed,
            ..self.bill(r, z, 0)
        };
        self.now += bill.used_ns;
        self.charge(r.payer, bill);
        Some(r.thread)
    }

    /// A running thread goes to sleep. Perhaps it waits for another one, and lends to it; or else it may keep its lenders.
    fn sleep(&mut self, s: Step) {
        let Some((cpu, _)) = self.busy(s.x) else {
            return;
        };
        let thread = self.put_off(cpu, s.z, s.z).unwrap();
        if s.y & 2 == 2 && self.lend(thread, one_of(&self.leaves, s.y >> 2).unwrap()) {
            return;
        }
        self.leave(thread);
        if s.y & 1 == 1 {
            self.end_loans(thread, s.z);
        }
    }

    /// A waiting leaf is killed, or stopped.
    fn cancel(&mut self, s: Step) {
        let Some(leaf) = self.thread_in(ACTIVE | QUEUED, s.x) else {
            return;
        };
        self.withdraw(leaf);
        self.leave(leaf);
    }

    fn fork(&mut self, s: Step) {
        let Some((_, r)) = self.busy(s.x) else { return };
        if self.leaves.len() >= self.setting.leaves {
            return;
        }
        let parent = self.economy.client(r.thread).parent;
        let currency = if s.y.is_multiple_of(3) {
            self.economy.client(parent).parent
        } else {
            parent
        };
        if currency == BASE || currency == 0 {
            return;
        }
        let child = self.new_leaf_in(currency, tickets(s.z)).unwrap();
        let mut run = Run::default();
        if r.payer == r.thread {
            run.ran_ns = self.used(s.z);
            run.precharge_ns = r.precharge_ns;
        }
        self.economy.fork(child, r.thread, &run);
        self.model.fork(child, r.thread, &run);
        let mask = if s.y & 1 == 0 {
            self.economy.client(r.thread).mask
        } else {
            self.mask(s.z)
        };
        self.join(child, mask, None);
        self.wait(child, mask);
    }

    fn die(&mut self, s: Step) {
        let Some(leaf) = one_of(&self.leaves, s.x) else {
            return;
        };
        self.end_loans_of(leaf, s.z);
        if let Some(cpu) = self.running_on(leaf) {
            self.put_off(cpu, s.z, s.z);
        }
        self.reclaim(leaf, s.z);
        self.withdraw(leaf);
        self.leave(leaf);
        self.end_loans(leaf, s.z);
        let heir = one_of(&self.leaves, s.y).unwrap();
        let young_ns = self.economy.client(leaf).young_ns;
        let forked_ns = [0, young_ns / 2, young_ns, young_ns + 1000][s.z as usize % 4];
        self.economy.charge_heir(leaf, heir, forked_ns);
        self.model.charge_heir(leaf, heir, forked_ns);
        self.leaves.retain(|&l| l != leaf);
        self.free(leaf);
    }

    fn set_tickets(&mut self, s: Step) {
        let all: Vec<u32> = self
            .leaves
            .iter()
            .chain(&self.currencies)
            .copied()
            .filter(|&i| i != FROZEN)
            .collect();
        let i = one_of(&all, s.x).unwrap();
        self.economy.set_tickets(i, tickets(s.z));
        self.model.set_tickets(i, tickets(s.z));
    }

    /// A leaf lends some of its tickets, and goes on as before; or an account of such a loan gives them back.
    fn lend_some(&mut self, s: Step) {
        if s.y & 1 == 1 && !self.accounts.is_empty() {
            let place = s.x as usize % self.accounts.len();
            let (account, lender) = self.accounts.swap_remove(place);
            return self.give_back(account, lender, s.z);
        }
        let (Some(lender), Some(to)) = (one_of(&self.leaves, s.x), one_of(&self.leaves, s.y >> 1))
        else {
            return;
        };
        let c = self.economy.client(lender);
        let (parent, all) = (c.parent, c.tickets);
        if all == 1 || self.leaves.len() + self.accounts.len() >= self.setting.leaves {
            return;
        }
        let lent = 1 + (s.z >> 8) as u32 % (all - 1);
        let account = self.economy.split(lender, lent).unwrap();
        self.model.insert(account, Kind::Thread, parent, lent);
        self.model.set_tickets(lender, all - lent);
        self.parts += 1;
        if self.lend(account, to) {
            self.accounts.push((account, lender));
        } else {
            self.give_back(account, lender, s.z);
        }
    }

    /// Tickets that were lent by an account of their own are the lender's again, up to the most that it may have.
    fn give_back(&mut self, account: u32, lender: u32, z: u64) {
        self.reclaim(account, z);
        self.leave(account);
        let most = self.economy.client(lender).tickets.max(tickets(z));
        self.economy.merge(account, lender, most);
        self.model.merge(account, lender, most);
    }

    /// Before a leaf moves or exits, what it has lent comes back.
    fn end_loans_of(&mut self, leaf: u32, z: u64) {
        let of_leaf = |&(_, lender): &(u32, u32)| lender == leaf;
        while let Some(place) = self.accounts.iter().position(of_leaf) {
            let (account, lender) = self.accounts.swap_remove(place);
            self.give_back(account, lender, z);
        }
    }

    fn move_leaf(&mut self, s: Step) {
        let Some(leaf) = one_of(&self.leaves, s.x) else {
            return;
        };
        self.end_loans_of(leaf, s.z);
        let to = one_of(&self.currencies, s.y).unwrap();
        self.move_to(leaf, to);
    }

    /// A currency moves, with its running and waiting leaves; not into itself, and not too deep.
    fn move_currency(&mut self, s: Step) {
        let Some(i) = one_of(&self.currencies[ROOTS.len()..], s.x) else {
            return;
        };
        let below = self.currencies.iter().map(|&c| self.model.line(c));
        let above = |line: &Vec<u32>| line.iter().position(|&c| c == i);
        let height = below.filter_map(|line| above(&line)).max().unwrap();
        let targets: Vec<u32> = self
            .currencies
            .iter()
            .copied()
            .filter(|&c| {
                let line = self.model.line(c);
                !line.contains(&i) && line.len() + 1 + height <= CURRENCY_DEPTH_MAX
            })
            .collect();
        if let Some(to) = one_of(&targets, s.y) {
            self.move_to(i, to);
        }
    }

    fn retire_currency(&mut self, s: Step) {
        let empty = |&c: &u32| self.model.children(c).next().is_none();
        let made = self.currencies[ROOTS.len()..].iter().copied();
        let empty: Vec<u32> = made.filter(empty).collect();
        if let Some(i) = one_of(&empty, s.x) {
            self.currencies.retain(|&c| c != i);
            self.free(i);
        }
    }

    /// The CPUs that a waiting leaf may run on change.
    fn bind(&mut self, s: Step) {
        let Some(leaf) = self.thread_in(ACTIVE | QUEUED, s.x) else {
            return;
        };
        self.now += 1;
        self.wait(leaf, self.mask(s.z));
    }

    fn ask(&mut self, s: Step) {
        let (mask, patience) = (1 << (s.x % self.setting.cpus), s.z % 1_000_000);
        assert_eq!(
            self.model.overdue(self.now, patience, mask),
            self.economy.overdue(self.now, patience, mask)
        );
        if let (Some(waking), Some((_, r))) = (self.thread_in(ACTIVE | QUEUED, s.x), self.busy(s.y))
        {
            self.compare_crossing(waking, r, s.z % 5_000_000);
            assert_eq!(
                self.model.meet(waking, r.payer),
                self.economy.meet(waking, r.payer)
            );
        }
    }

    fn compare_crossing(&mut self, waking: u32, r: Running, ran_ns: u64) {
        let run = Run {
            ran_ns,
            precharge_ns: r.precharge_ns,
            woke: ran_ns & 1,
        };
        let ours = i128::from(self.economy.crossing_ns(waking, r.payer, &run));
        assert_eq!(
            self.model.crossing_ns(waking, r.payer, &run),
            ours,
            "crossing of {waking} and {}",
            r.payer
        );
    }

    // What must hold after every step.

    pub fn check(&self) {
        let none = self.economy.none();
        assert_eq!(
            (0, 0, 0, 0, [0, 0]),
            (
                none.pass,
                none.height,
                none.low_pass,
                none.low_mask,
                none.child
            ),
            "client 0 was written to, and not only its `up`"
        );
        assert_eq!(
            self.model.nodes.len(),
            self.economy.counters().used as usize,
            "clients in use"
        );
        assert_eq!(
            self.model.tally.clamped,
            self.economy.counters().clamped,
            "clamped charges"
        );
        self.check_counters();
        for &i in self.model.nodes.keys() {
            self.check_client(i);
            self.check_currency(i);
        }
        self.check_waiting();
    }

    fn check_counters(&self) {
        let counters = self.economy.counters();
        let behind = self.model.nodes.values().filter(|n| n.behind).count();
        assert_eq!(behind, counters.behind as usize, "how many are behind");
        assert_eq!(
            self.model.bound_leaves().count(),
            counters.bound_leaves as usize,
            "bound leaves"
        );
        for (cpu, &bound) in (0..).zip(&counters.bound) {
            assert_eq!(self.model.bound(cpu), usize::from(bound), "bound to {cpu}");
        }
        let mut precharged = BTreeMap::new();
        for r in self.running.iter().flatten() {
            for i in self.model.line(r.payer) {
                *precharged.entry(i).or_default() += r.precharge_ns;
            }
        }
        for &i in self.model.nodes.keys() {
            assert_eq!(
                precharged.get(&i).copied().unwrap_or(0),
                self.economy.client(i).precharged_ns,
                "precharges of {i} and of the leaves that run below it"
            );
        }
    }

    fn check_client(&self, i: u32) {
        let (c, n) = (self.economy.client(i), self.model.at(i));
        assert_eq!(n.kind as u8, c.kind, "kind of {i}");
        assert_eq!(n.parent, c.parent, "parent of {i}");
        assert_eq!(n.tickets, i128::from(c.tickets), "tickets of {i}");
        assert_eq!(n.pass as u64, c.pass, "pass of {i}");
        assert_eq!(
            (n.used_ns as u64, n.young_ns as u64),
            (c.used_ns, c.young_ns),
            "service of {i}"
        );
        if n.parent == 0 {
            return;
        }
        let waits = self.model.waits(i);
        let state =
            u8::from(n.active) * ACTIVE + u8::from(waits) * QUEUED + u8::from(n.behind) * BEHIND;
        assert_eq!(state, c.state, "state of {i}");
        assert!(
            state & ACTIVE != 0 || state == 0,
            "{i} is idle in state {state}"
        );
        assert_eq!(n.mask, c.mask, "mask of {i}");
        assert_eq!(
            self.model.level(i) as u64,
            c.level,
            "level of {i}, state {state}"
        );
        assert_eq!(n.precharged_ns as u64, c.precharged_ns, "precharge of {i}");
        if n.behind {
            assert_eq!(n.epoch, c.epoch, "epoch of {i}");
        }
        if waits {
            assert_eq!(
                self.model.waiting_mask(i),
                c.mask,
                "mask of {i}, which waits"
            );
            assert_eq!(self.model.key(i) as u64, c.key, "key of {i}");
        }
    }

    fn check_currency(&self, i: u32) {
        if self.model.at(i).kind == Kind::Thread {
            return self.check_loans(i);
        }
        let c = self.economy.client(i);
        assert_eq!(self.model.weight(i), i128::from(c.weight), "weight of {i}");
        assert_eq!(self.model.active(i), c.active as usize, "active of {i}");
        let behind = self.model.active_tickets(i) - self.model.weight(i);
        assert_eq!(behind, i128::from(c.behind), "behind in {i}");
        assert_eq!(self.model.at(i).served as u64, c.served, "served of {i}");
        assert_eq!(self.model.vnow(i) as u64, c.vnow, "vnow of {i}");
        assert!(
            c.sum < u64::from(c.weight.max(1)),
            "sum {} of {i}, weight {}",
            c.sum,
            c.weight
        );
        let vnow = self.model.vnow(i);
        let sum: i128 = self
            .model
            .children(i)
            .filter(|(_, n)| n.active && !n.behind)
            .map(|(_, n)| (n.pass - vnow) * n.tickets)
            .sum();
        assert_eq!(sum, i128::from(c.sum), "sum of {i}");
        let mut order = Vec::new();
        self.check_subtree(i, c.root, 0, &mut order);
        let in_order = |w: &[u32]| {
            (self.model.key(w[0]), self.model.at(w[0]).arrival)
                < (self.model.key(w[1]), self.model.at(w[1]).arrival)
        };
        assert!(order.windows(2).all(in_order), "order of {i}: {order:?}");
        let queued = self
            .model
            .children(i)
            .filter(|&(k, _)| self.model.waits(k))
            .count();
        assert_eq!(queued, order.len(), "how many wait in {i}");
    }

    fn check_loans(&self, leaf: u32) {
        let c = self.economy.client(leaf);
        assert_eq!((0, 0), (c.root, c.active), "leaf {leaf} as a currency");
        let to = self.model.lends_to(leaf);
        let first = |of: &[u32]| of.first().copied().unwrap_or(0);
        let others = to.map_or(&[][..], |to| self.model.lenders_to(to));
        let next = others.iter().skip_while(|&&i| i != leaf).nth(1);
        let links = [
            to.unwrap_or(0),
            first(self.model.lenders_to(leaf)),
            next.copied().unwrap_or(0),
        ];
        assert_eq!(
            links,
            [c.vnow as u32, (c.vnow >> 32) as u32, c.weight],
            "loans of {leaf}"
        );
        assert_eq!(
            self.model.accounts(leaf).len() - 1,
            c.behind as usize,
            "lent to {leaf}"
        );
        let thread = self.model.borrower(leaf);
        // The reverse does not hold for a thread that is frozen, or was and has not run since.
        assert!(
            self.state(leaf) & !self.state(thread) & ACTIVE == 0,
            "{leaf} is runnable, and {thread} is not"
        );
    }

    /// Heights, links and what each node stores of its subtree; lists the nodes in order. Returns (height, low_pass, low_mask).
    fn check_subtree(
        &self,
        owner: u32,
        i: u32,
        up: u32,
        order: &mut Vec<u32>,
    ) -> (u8, Option<i128>, u64) {
        if i == 0 {
            return (0, None, 0);
        }
        let c: &Client = self.economy.client(i);
        assert_eq!((owner, up), (c.parent, c.up), "{i} in the order of {owner}");
        let left = self.check_subtree(owner, c.child[0], i, order);
        order.push(i);
        let right = self.check_subtree(owner, c.child[1], i, order);
        assert!(
            left.0.abs_diff(right.0) <= 1,
            "{i} is out of balance: {} and {}",
            left.0,
            right.0
        );
        let height = left.0.max(right.0) + 1;
        let pass = [Some(self.model.at(i).pass), left.1, right.1]
            .into_iter()
            .flatten()
            .min();
        let mask = c.mask | left.2 | right.2;
        assert_eq!(
            (height, pass.unwrap() as u64, mask),
            (c.height, c.low_pass, c.low_mask),
            "subtree of {i}"
        );
        assert!(u32::from(height) <= limits::HEIGHT);
        (height, pass, mask)
    }

    fn check_waiting(&self) {
        let counters = self.economy.counters();
        assert_eq!(
            self.model.waiting.len(),
            counters.waiting as usize,
            "how many wait"
        );
        let (mut i, mut older) = (counters.oldest, 0);
        for &k in &self.model.waiting {
            assert_eq!(k, i, "the list of waiting leaves");
            let c = self.economy.client(i);
            assert_eq!(
                (older, self.model.at(k).waits.unwrap()),
                (c.older, c.sum),
                "{k} in the list of waiting leaves"
            );
            (older, i) = (i, c.served as u32);
        }
        assert_eq!(
            (0, older),
            (i, counters.newest),
            "end of the list of waiting leaves"
        );
    }
}

fn seen(economy: &Economy) -> impl Fn(u32) -> (u64, u8) {
    |i| (economy.client(i).pass, economy.client(i).state)
}

fn one_of<T: Copy>(of: &[T], x: u32) -> Option<T> {
    (!of.is_empty()).then(|| of[x as usize % of.len()])
}

/// From 1 to 10000, every order of magnitude alike.
fn tickets(z: u64) -> u32 {
    let most = [1, 10, 100, 1000, 10_000][(z >> 40) as usize % 5];
    1 + (z >> 44) as u32 % most
}

/// The next step of a random history.
pub fn random_step(random: &mut Random) -> Step {
    let (a, z) = (random.next(), random.next());
    Step {
        what: (a >> 56) as u8,
        x: a as u32 & 0xffff,
        y: (a >> 16) as u32 & 0xffff,
        z,
    }
}

/// What differs between histories, from a seed.
pub fn setting(seed: u64) -> Setting {
    let mut random = Random(seed);
    let quantum_ns = 1_000_000 + random.next() % 3_000_001;
    let lottery = random.next().is_multiple_of(2);
    let clocks = [0, 1 << 63, u64::MAX, 1 << 62, 1_000_000_000];
    let clock = clocks[random.next() as usize % clocks.len()];
    Setting {
        rules: if lottery {
            Rules::lottery(quantum_ns)
        } else {
            Rules::stride(quantum_ns)
        },
        cpus: 1 + (random.next() % 8) as u32,
        clock: clock.wrapping_sub(random.next() % (1 << 40)),
        leaves: [4, 12, 40, 80][random.next() as usize % 4],
        steady: random.next().is_multiple_of(2),
        bound_each: [1, 2, 4, 1 << 40][random.next() as usize % 4],
        check_every: 1,
    }
}
