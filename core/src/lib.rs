//! The economy of one run queue: the C code that the kernel's scheduler runs, with a thin Rust interface.
//!
//! `include/tombola/economy.h` states the rules; [`Economy`] maps one to one to its functions. Times are nanoseconds,
//! passes are ns * 2^16 for one ticket and wrap, CPUs are bits of a mask (cpu mod 64). A broken precondition panics and
//! names it; nothing else fails, except that a queue may be full.
//!
//! ```
//! use tombola_core::{BEST_EFFORT, Bill, Economy, Kind, Rules};
//!
//! let mut economy = Economy::new(Rules::stride(1_000_000));
//! let alice = economy.new_client(Kind::User, BEST_EFFORT, 1000).unwrap();
//! let leaf = economy.new_client(Kind::Thread, alice, 100).unwrap();
//! economy.join(leaf, 1);
//! economy.wait(leaf, 1, 0);
//! assert_eq!(economy.pick(1), Some(leaf));
//! economy.withdraw(leaf);
//! economy.charge(leaf, &Bill { used_ns: 1_000_000, ..Bill::default() });
//! economy.leave(leaf);
//! assert_eq!(economy.client(alice).used_ns, 1_000_000);
//! ```

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod ffi;
pub mod limits;
pub mod queues;

pub use ffi::{ACTIVE, BEHIND, Bill, Client, QUEUED, Rules, Run};
use limits::{CLIENTS, DEPTH, MACHINE_TICKETS, TICKETS_LIMIT, TICKETS_MIN};

/// The root currency.
pub const BASE: u32 = 1;
/// The currency of all users.
pub const BEST_EFFORT: u32 = 2;
/// The second root, beside base: the currency of frozen clients.
pub const FROZEN: u32 = 3;

/// What a client is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The root currency.
    Base = 1,
    /// The currency of all users.
    BestEffort = 2,
    /// A user.
    User = 3,
    /// A process of several threads.
    Process = 4,
    /// A leaf.
    Thread = 5,
    /// A currency that a user makes.
    Currency = 6,
    /// A client of base that is guaranteed a part of the machine.
    Reservation = 7,
    /// The frozen root.
    Frozen = 8,
}

impl Rules {
    /// Stride scheduling with the usual lag of 50 ms, or four quanta if that is more, and a credit of two quanta.
    #[must_use]
    pub const fn stride(quantum_ns: u64) -> Self {
        Self {
            quantum_ns,
            lag_ns: max(50_000_000, 4 * quantum_ns),
            credit_ns: 2 * quantum_ns,
            behind_ns: 8 * quantum_ns,
            protect_ns: quantum_ns / 2,
            lottery: 0,
        }
    }

    /// Lottery scheduling with the usual lag of 500 ms: a smaller one would cut off the exponential's tail. The credit of
    /// fifty quanta, at most 500 ms, covers what others win by luck; with less, a client that naps beside many others loses by
    /// each nap.
    #[must_use]
    pub const fn lottery(quantum_ns: u64) -> Self {
        Self {
            quantum_ns,
            lag_ns: 500_000_000,
            credit_ns: min(500_000_000, 50 * quantum_ns),
            behind_ns: 200 * quantum_ns,
            protect_ns: quantum_ns / 2,
            lottery: 1,
        }
    }

    /// For run queues of one CPU: there no client is behind, as each can use all of its tickets. One that comes from another
    /// queue with much credit counts in vnow. If it did not, vnow would be the pass of what runs beside it, which may have few
    /// tickets and advance by the equivalent of seconds in a slice; and so much would be its credit then.
    #[must_use]
    pub const fn of_one_cpu(self) -> Self {
        Self {
            behind_ns: limits::AHEAD_MAX_NS,
            ..self
        }
    }
}

const fn max(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}

const fn min(a: u64, b: u64) -> u64 {
    if a < b { a } else { b }
}

/// How far `used_ns` of service move the pass of a client with `tickets` at `draw` (in units of 2^-20).
#[must_use]
pub fn advance(used_ns: u64, draw: u64, tickets: u32) -> u64 {
    ffi::advance(used_ns, draw, u64::from(tickets))
}

/// The part of an exited child's service that is charged to its parent, ns.
#[must_use]
pub fn returned_ns(service_ns: u64) -> u64 {
    ffi::returned_ns(service_ns)
}

/// Exp(1) in units of 2^-20 from 32 uniform random bits.
#[must_use]
pub fn draw_exp(r: u32) -> u64 {
    ffi::draw_exp(r)
}

/// One well-mixed word from a seed and a counter.
#[must_use]
pub fn mix(seed: u64, counter: u32) -> u32 {
    ffi::mix(seed, counter)
}

/// Entry `i` (0 to 256) of the draw's table: log2(1 + i/256) in Q31.
#[must_use]
pub fn log2_table(i: u32) -> u32 {
    assert!(
        i <= 256,
        "the table of logarithms ends at 256, asked for {i}"
    );
    ffi::log2_table(i)
}

/// Counters of a whole queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Clients in use, with base, best effort and the frozen root.
    pub used: u32,
    /// Leaves that wait.
    pub waiting: u32,
    /// Clients that are behind: they cannot use their tickets.
    pub behind: u32,
    /// Active leaves that may not run on all CPUs.
    pub bound_leaves: u32,
    /// How many of the bound leaves may run on each CPU.
    pub bound: [u16; 64],
    /// The leaf that has waited longest, 0 if none.
    pub oldest: u32,
    /// The leaf that began to wait last, 0 if none.
    pub newest: u32,
    /// Charges that were cut to [`limits::AHEAD_MAX_NS`].
    pub clamped: u64,
}

/// One or several run queues with their rules. 38 MB of address space, of which only clients that were used take memory.
///
/// With several queues, each client belongs to one of them, and every call is about clients of the current queue
/// ([`Economy::on`]).
pub struct Economy {
    pool: Box<ffi::Pool>,
    queues: Vec<ffi::Queue>,
    current: usize,
    rules: Rules,
}

impl Economy {
    /// A queue with base, the frozen root, and best effort, which holds the whole machine. Panics if `lag_ns` is not below 2^29.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self::with_queues(rules, 1)
    }

    /// So many such queues, at least 1.
    #[must_use]
    pub fn with_queues(rules: Rules, queues: usize) -> Self {
        assert!(
            rules.lag_ns < 1 << 29,
            "lag_ns is {}, must be below 2^29 ({})",
            rules.lag_ns,
            1 << 29
        );
        assert!(
            rules.lottery <= 1,
            "lottery is {}, must be 0 or 1",
            rules.lottery
        );
        let mut economy = Self {
            pool: ffi::Pool::boxed(),
            queues: (0..queues).map(|_| ffi::Queue::empty()).collect(),
            current: 0,
            rules,
        };
        for queue in 0..queues {
            ffi::queue_init(economy.on(queue).c().0, MACHINE_TICKETS);
        }
        economy.current = 0;
        economy
    }

    /// The next calls are about this queue, 0 at first.
    pub fn on(&mut self, queue: usize) -> &mut Self {
        self.current = queue;
        self
    }

    /// The roots of the current queue: base, best effort and the frozen root.
    #[must_use]
    pub fn roots(&self) -> [u32; 3] {
        let base = self.queues[self.current].base;
        [base, base + (BEST_EFFORT - BASE), base + (FROZEN - BASE)]
    }

    fn c(&mut self) -> (&mut ffi::Queue, &Rules) {
        let queue = &mut self.queues[self.current];
        queue.pool = &raw mut *self.pool;
        (queue, &self.rules)
    }

    /// Its rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Changes the rules from now on. The keys of waiting clients are not recomputed before their next charge.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// A client. Panics if it is not in use.
    #[must_use]
    pub fn client(&self, i: u32) -> &Client {
        assert!(
            (1..CLIENTS).contains(&i),
            "client {i} is not between 1 and {}",
            CLIENTS - 1
        );
        let client = &self.pool.client[i as usize];
        assert!(client.kind != 0, "client {i} is not in use");
        client
    }

    /// Is there such a client?
    #[must_use]
    pub fn exists(&self, i: u32) -> bool {
        (1..CLIENTS).contains(&i) && self.pool.client[i as usize].kind != 0
    }

    /// Client 0, "none", of which no operation may write any field but `up`.
    #[must_use]
    pub fn none(&self) -> &Client {
        &self.pool.client[0]
    }

    /// The queue's counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let q = &self.queues[self.current];
        Counters {
            used: self.pool.used,
            waiting: q.waiting,
            behind: q.behind,
            bound_leaves: q.bound_leaves,
            bound: q.bound,
            oldest: q.oldest,
            newest: q.newest,
            clamped: q.clamped,
        }
    }

    /// A new, idle client at its currency's vnow. `None` if all are in use.
    pub fn new_client(&mut self, kind: Kind, parent: u32, tickets: u32) -> Option<u32> {
        self.check_tickets(tickets);
        self.check_currency(parent);
        self.check_depth(parent);
        some(ffi::new(self.c().0, kind as u32, parent, tickets))
    }

    /// Frees an idle client without children.
    pub fn free(&mut self, i: u32) {
        self.check_below_base(i);
        assert!(
            self.client(i).state == 0,
            "client {i} is freed while active or waiting"
        );
        ffi::free(self.c().0, i);
    }

    /// A leaf that may run on the CPUs of `mask` becomes runnable.
    pub fn join(&mut self, leaf: u32, mask: u64) {
        self.check_leaf(leaf);
        let (queue, rules) = self.c();
        ffi::join(queue, rules, leaf, mask);
    }

    /// A settled leaf that does not wait goes to sleep.
    pub fn leave(&mut self, leaf: u32) {
        self.check_leave(leaf);
        let (queue, rules) = self.c();
        ffi::leave(queue, rules, leaf);
    }

    /// An active leaf waits, from `now` on, for a CPU of `mask`; or from before on, if it waits already.
    pub fn wait(&mut self, leaf: u32, mask: u64, now: u64) {
        self.check_wait(leaf, mask);
        let (queue, rules) = self.c();
        ffi::wait(queue, rules, leaf, mask, now);
    }

    /// A leaf stops waiting, if it waits.
    pub fn withdraw(&mut self, leaf: u32) {
        self.check_leaf(leaf);
        ffi::withdraw(self.c().0, leaf);
    }

    /// Charges a leaf's run, and its next run in advance, to the leaf and to each of its currencies.
    pub fn charge(&mut self, leaf: u32, bill: &Bill) {
        self.check_leaf(leaf);
        let (queue, rules) = self.c();
        ffi::charge(queue, rules, leaf, bill);
    }

    /// The waiting leaf that is next on a CPU of `mask`.
    pub fn pick(&mut self, mask: u64) -> Option<u32> {
        let (queue, rules) = self.c();
        some(ffi::pick(queue, rules, mask))
    }

    /// A leaf begins to run on the CPU of `mask`, or goes on there; `None`: the CPU idles.
    pub fn runs(&mut self, leaf: Option<u32>, mask: u64) {
        if let Some(leaf) = leaf {
            self.check_leaf(leaf);
        }
        ffi::runs(self.c().0, leaf.unwrap_or(0), mask);
    }

    /// The first of the four oldest waiting leaves that may run on `mask`, if it has waited for `patience_ns`.
    pub fn overdue(&mut self, now: u64, patience_ns: u64, mask: u64) -> Option<u32> {
        some(ffi::overdue(self.c().0, now, patience_ns, mask))
    }

    /// Where two leaves meet: the leaves themselves, or currencies of theirs, that are clients of one currency. If only one leaf
    /// is frozen, they are the two roots.
    pub fn meet(&mut self, a: u32, b: u32) -> (u32, u32) {
        self.check_leaf(a);
        self.check_leaf(b);
        let both = ffi::meet(self.c().0, a, b);
        ((both >> 32) as u32, both as u32)
    }

    /// Does `held`, settled and not waiting, go on rather than give way to `best`?
    pub fn keeps(&mut self, held: u32, best: u32) -> bool {
        self.check_leaf(held);
        self.check_leaf(best);
        let (queue, rules) = self.c();
        ffi::keeps(queue, rules, held, best) != 0
    }

    /// Is a waiting leaf bound to some CPUs, and it or one of its currencies owed more than what makes a client behind?
    pub fn starves(&mut self, leaf: u32) -> bool {
        self.check_leaf(leaf);
        let (queue, rules) = self.c();
        ffi::starves(queue, rules, leaf) != 0
    }

    /// How many bound leaves may run on the CPU of `mask` where fewest may.
    pub fn crowd(&mut self, mask: u64) -> u32 {
        ffi::crowd(self.c().0, mask)
    }

    /// For how many more ns `runner` may go on before `waking` is the better choice. 0: it preempts; [`limits::NEVER`]: not
    /// before another client is charged.
    pub fn crossing_ns(&mut self, waking: u32, runner: u32, run: &Run) -> u64 {
        self.check_leaf(waking);
        self.check_leaf(runner);
        let (queue, rules) = self.c();
        ffi::crossing_ns(queue, rules, waking, runner, run)
    }

    /// The thread that runs when this leaf is picked: itself, or the one to which it lends, directly or through others.
    pub fn borrower(&mut self, leaf: u32) -> u32 {
        self.check_leaf(leaf);
        ffi::borrower(self.c().0, leaf)
    }

    /// To which leaf a leaf lends.
    #[must_use]
    pub fn lends_to(&self, leaf: u32) -> Option<u32> {
        self.check_leaf(leaf);
        some(self.client(leaf).vnow as u32)
    }

    /// The accounts of a thread: its own leaf, and those of its lenders, of their lenders, and so on.
    pub fn accounts(&mut self, thread: u32) -> Vec<u32> {
        self.check_leaf(thread);
        let queue = self.c().0;
        let next = |&i: &u32| some(ffi::next_account(queue, thread, i));
        std::iter::successors(Some(thread), next).collect()
    }

    /// The waiting account that is next on a CPU of `mask`; its thread is not frozen, unless the account itself is.
    pub fn pick_account(&mut self, mask: u64) -> Option<u32> {
        let (queue, rules) = self.c();
        some(ffi::pick_account(queue, rules, mask))
    }

    /// The account that is to pay for the next run of a runnable, settled thread that does not wait.
    pub fn best_account(&mut self, thread: u32) -> u32 {
        self.check_leaf(thread);
        let (queue, rules) = self.c();
        ffi::best_account(queue, rules, thread)
    }

    /// The part of the machine that a client's tickets are worth now, of [`limits::VALUE_ONE`]; 0: it is frozen.
    pub fn base_value(&mut self, i: u32) -> u64 {
        self.check_leaf(i);
        ffi::base_value(self.c().0, i)
    }

    /// As [`Self::join`], with all accounts of the thread. If another, running leaf has woken it, its own leaf gets no credit in
    /// the currency where the two meet, unless it is owed all of it, or that currency is base or best effort.
    pub fn join_accounts(&mut self, thread: u32, mask: u64, waker: Option<u32>) {
        self.check_leaf(thread);
        if let Some(waker) = waker {
            self.check_leaf(waker);
        }
        let (queue, rules) = self.c();
        ffi::join_accounts(queue, rules, thread, mask, waker.unwrap_or(0));
    }

    /// As [`Self::wait`], with all accounts of the thread.
    pub fn wait_accounts(&mut self, thread: u32, mask: u64, now: u64) {
        self.check_wait(thread, mask);
        let (queue, rules) = self.c();
        ffi::wait_accounts(queue, rules, thread, mask, now);
    }

    /// As [`Self::withdraw`], with all accounts of the thread.
    pub fn withdraw_accounts(&mut self, thread: u32) {
        self.check_leaf(thread);
        let (queue, rules) = self.c();
        ffi::withdraw_accounts(queue, rules, thread);
    }

    /// As [`Self::leave`], with all accounts of the thread.
    pub fn leave_accounts(&mut self, thread: u32) {
        for account in self.accounts(thread) {
            self.check_leave(account);
        }
        let (queue, rules) = self.c();
        ffi::leave_accounts(queue, rules, thread);
    }

    /// A thread that goes to sleep, is settled, and lends to nobody, lends its account, and those of its lenders, to another one.
    /// `false`: that one would have more than [`limits::LENT_MAX`] beside its own, or the loan would close a circle; nothing was
    /// done.
    pub fn lend(&mut self, lender: u32, to: u32, now: u64) -> bool {
        self.check_leaf(to);
        for account in self.accounts(lender) {
            let state = self.client(account).state;
            assert!(
                state & QUEUED == 0,
                "leaf {account} is to be lent in state {state}"
            );
        }
        assert!(
            self.borrower(lender) == lender,
            "leaf {lender} lends already"
        );
        let (queue, rules) = self.c();
        ffi::lend(queue, rules, lender, to, now) != 0
    }

    /// A loan ends: the lender's accounts are its own again. They do not wait, and are active still if they were: a lender that
    /// wakes up has lost nothing by having slept. One that sleeps on is to leave. None of the accounts may be the payer of a run
    /// any more.
    pub fn reclaim(&mut self, lender: u32) {
        self.check_leaf(lender);
        let (queue, rules) = self.c();
        ffi::reclaim(queue, rules, lender);
    }

    /// An account for a loan of some of the lender's tickets, fewer than it has: a leaf beside the lender, which may go on
    /// running, and keeps its lag. `None`: there is no room for one more client. The account is then to be lent.
    pub fn split(&mut self, lender: u32, tickets: u32) -> Option<u32> {
        let (parent, all) = (self.client(lender).parent, self.client(lender).tickets);
        assert!(
            tickets < all,
            "client {lender} has {all} tickets, not more than {tickets}"
        );
        let account = self.new_client(Kind::Thread, parent, tickets)?;
        self.set_tickets(lender, all - tickets);
        Some(account)
    }

    /// The reverse: an account that is idle and lent to nobody is freed. The lender gets its tickets, up to `most`, and with
    /// them what the account has used beyond its due, or is owed.
    pub fn merge(&mut self, account: u32, lender: u32, most: u32) {
        assert_eq!(self.client(account).parent, self.client(lender).parent);
        assert_eq!(self.borrower(account), account, "leaf {account} is lent");
        let (queue, rules) = self.c();
        ffi::merge(queue, rules, account, lender, most);
        self.free(account);
    }

    /// Sets a client's pass, which must be within 2^45 of its currency's vnow.
    pub fn set_pass(&mut self, i: u32, pass: u64) {
        self.check_below_base(i);
        let (queue, rules) = self.c();
        ffi::set_pass(queue, rules, i, pass);
    }

    /// Sets a client's tickets, 1 to 2^14 - 1. Its lag in service stays.
    pub fn set_tickets(&mut self, i: u32, tickets: u32) {
        self.check_tickets(tickets);
        self.check_below_base(i);
        let (queue, rules) = self.c();
        ffi::set_tickets(queue, rules, i, tickets);
    }

    /// Sets an active or inactive client's tickets and its pass at once; a pass within 2^45 of its currency's vnow. An inactive
    /// client joins with all of its lag.
    pub fn set_share(&mut self, i: u32, tickets: u32, pass: u64) {
        self.check_below_base(i);
        let (queue, rules) = self.c();
        ffi::set_share(queue, rules, i, tickets, pass);
    }

    /// Takes a waiting leaf off the current queue. It is inactive then, and joins again with all of its lag.
    pub fn take(&mut self, leaf: u32) {
        self.check_leaf(leaf);
        let (queue, rules) = self.c();
        ffi::take(queue, rules, leaf);
    }

    /// An inactive client becomes one of `parent`, which may be on another queue, where the offset is larger by so much
    /// (`queues.h`; negative numbers wrap).
    pub fn put(&mut self, i: u32, parent: u32, offset: u64) {
        self.check_currency(parent);
        assert!(
            self.client(i).state == 0,
            "client {i} changes its queue while active or waiting"
        );
        ffi::put(self.c().0, i, parent, offset);
    }

    /// Holds a part that was just charged near the pass of its group, a client of a group with this price; clocks may be
    /// `bound_ns` apart. `true`: it was too far from that ([`queues::off`]).
    pub fn hold(&mut self, part: u32, group_pass: u64, price: u64, bound_ns: u64) -> bool {
        self.check_currency(part);
        let tickets = u64::from(self.client(part).tickets);
        let within = ffi::held_within(&self.rules, price, tickets, bound_ns);
        let (queue, rules) = self.c();
        ffi::hold(queue, rules, part, group_pass, within) != 0
    }

    /// Shifts the pass of a part, if it is active.
    pub fn shift(&mut self, part: u32, by: u64) {
        self.check_currency(part);
        let (queue, rules) = self.c();
        ffi::shift(queue, rules, part, by);
    }

    /// The leaves that wait on the current queue, from the one that has waited longest on.
    pub fn waiting(&self) -> impl Iterator<Item = u32> {
        let oldest = some(self.queues[self.current].oldest);
        std::iter::successors(oldest, |&i| some(self.client(i).served as u32))
    }

    /// Moves a client to another currency, with all that is in it; not into itself, and not deeper than the tree may be.
    pub fn move_to(&mut self, i: u32, parent: u32) {
        self.check_below_base(i);
        self.check_currency(parent);
        self.check_depth(parent);
        assert!(
            self.line(parent).all(|above| above != i),
            "client {i} would be inside itself"
        );
        let (queue, rules) = self.c();
        ffi::move_to(queue, rules, i, parent);
    }

    /// Is a leaf, or one of its currencies, a client of the frozen root?
    pub fn frozen(&mut self, i: u32) -> bool {
        self.check_leaf(i);
        ffi::frozen(self.c().0, i) != 0
    }

    /// `i`, or the one of its currencies that is a client of `parent`.
    pub fn child_of(&mut self, parent: u32, i: u32) -> Option<u32> {
        some(ffi::child_of(self.c().0, parent, i))
    }

    /// A new, idle leaf starts at the projected pass of the running leaf that forked it.
    pub fn fork(&mut self, child: u32, forker: u32, run: &Run) {
        self.check_leaf(child);
        self.check_leaf(forker);
        assert!(
            self.client(child).state == 0,
            "leaf {child} is a new child, but active"
        );
        ffi::fork(self.c().0, child, forker, run);
    }

    /// A client that is about to be freed leaves what it still owes to `heir`, if that is in the same currency: all of its
    /// `young_ns`, or what is beyond `forked_ns` if the heir is the child that it forked last, at that `young_ns`.
    pub fn charge_heir(&mut self, i: u32, heir: u32, forked_ns: u64) {
        self.check_below_base(i);
        self.check_leaf(heir);
        let (queue, rules) = self.c();
        ffi::charge_heir(queue, rules, i, heir, forked_ns);
    }

    /// Sets vnow of a currency without active clients, for tests that begin close to a wrap-around. Idle clients keep their
    /// passes, so do this before there are any.
    pub fn start_at(&mut self, currency: u32, vnow: u64) {
        self.check_currency(currency);
        assert!(
            self.client(currency).active == 0,
            "currency {currency} has active clients, so its vnow is their mean"
        );
        ffi::start_at(self.c().0, currency, vnow);
    }

    /// A client and the currencies that it is in, up to the root.
    pub fn line(&self, i: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(i), |&i| some(self.client(i).parent))
    }

    /// With several queues, tickets are multiplied by [`queues::SCALE`].
    fn check_tickets(&self, tickets: u32) {
        let most = match self.queues.len() {
            1 => TICKETS_LIMIT,
            _ => TICKETS_LIMIT * queues::SCALE,
        };
        assert!(
            (TICKETS_MIN..=most).contains(&tickets),
            "{tickets} tickets asked for, must be between {TICKETS_MIN} and {most}"
        );
    }

    fn check_depth(&self, parent: u32) {
        let levels = self.line(parent).count() as u32;
        assert!(
            levels < DEPTH,
            "client {parent} is on level {levels}, the tree has {DEPTH} levels"
        );
    }

    fn check_wait(&self, leaf: u32, mask: u64) {
        self.check_leaf(leaf);
        let state = self.client(leaf).state;
        assert!(
            state & ACTIVE != 0,
            "leaf {leaf} is to wait in state {state}: it must be active"
        );
        assert!(mask != 0, "leaf {leaf} would wait for no CPU");
    }

    fn check_leave(&self, leaf: u32) {
        self.check_leaf(leaf);
        assert!(
            self.client(leaf).state & QUEUED == 0,
            "leaf {leaf} leaves while it waits: withdraw it first"
        );
    }

    fn check_leaf(&self, i: u32) {
        let kind = self.client(i).kind;
        assert!(
            kind == Kind::Thread as u8,
            "client {i} is of kind {kind}, not a leaf"
        );
    }

    fn check_currency(&self, i: u32) {
        assert!(
            self.client(i).kind != Kind::Thread as u8,
            "client {i} is a leaf, not a currency"
        );
    }

    fn check_below_base(&self, i: u32) {
        assert!(
            self.client(i).parent != 0,
            "client {i} is a root, base or the frozen one"
        );
    }
}

fn some(i: u32) -> Option<u32> {
    (i != 0).then_some(i)
}
