//! Which chunk of which job is next. No threads, no clock: the caller says how long a chunk took.
//!
//! ```text
//!   submit ──> job ── pick ──> chunk ── settle ──┬─> going on
//!   join ─────> ^                                └─> ended: the clients of the job
//! ```
//!
//! A job is a number of units of work, taken in chunks from the first to the last. A client waits for it, with tickets in a
//! currency. Other clients may join, and their tickets add up: whichever client is picked, the common work goes on, and that
//! client pays for the chunk, even if it has left when the chunk ends.

use crate::order::{Order, Rank, Width};
use slotmap::{SlotMap, new_key_type};
use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use thiserror::Error;
use tombola_core::{BEST_EFFORT, Bill, Economy, Kind, Rules, limits, mix};

/// Tickets that a client or a currency may hold.
pub const TICKETS: RangeInclusive<u32> = 1..=10_000;

/// The range of the quantum, ns. The core bounds how far a client may be ahead or behind; a quantum is well within that bound.
pub const QUANTUM_NS: RangeInclusive<u64> = 1_000..=100_000_000;

new_key_type! {
    /// Identifies a job; never used again.
    pub struct JobId;
    /// Identifies a client that waits for a job; never used again.
    pub struct WaiterId;
    struct CurrencyNodeId;
}

/// A currency; valid in the queue that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Currency(Option<CurrencyNodeId>);

impl Currency {
    /// The currency of clients that have no other.
    pub const BASE: Self = Self(None);
}

/// Why a call is refused. It has changed nothing.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    #[error(
        "the queue is full: it holds as many unfinished jobs as it may; try again when one has ended"
    )]
    Full,
    #[error(
        "{} clients and currencies exist, and there is no room for more; try again when a job has ended",
        limits::CLIENTS - 4
    )]
    NoSlot,
    #[error("no currency of this queue: it was retired, or belongs to another queue")]
    NoSuchCurrency,
    #[error(
        "currencies are nested {} deep at most; make it inside one that is less deep",
        limits::NESTED_MAX
    )]
    TooDeep,
    #[error("the currency has clients or currencies in it; retire it when it is empty")]
    InUse,
    #[error("the base currency has no tickets to change, and cannot be retired")]
    Base,
    #[error("the queue is closed: it takes no more jobs")]
    Closed,
    #[error("the job has ended already; submit it again")]
    Ended,
}

/// A job to be submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// At least 1.
    pub units: u64,
    /// Units in a chunk, at least 1; the last chunk may have fewer.
    pub chunk: u64,
    pub tickets: u32,
    pub currency: Currency,
}

/// Units of a job that a worker has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub job: JobId,
    pub units: Range<u64>,
    /// The client that pays.
    waiter: WaiterId,
}

/// The state of a chunk's job after the chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Unfinished,
    /// It ended with this chunk. These clients waited for it.
    Ended(Vec<WaiterId>),
    /// It had ended before.
    EndedBefore,
}

struct Job {
    /// Its number in the order of submission.
    arrival: u64,
    units: u64,
    chunk: u64,
    /// The first unit that no worker has taken.
    next: u64,
    /// Chunks that workers have taken and not settled.
    out: u32,
    tickets: u64,
    waiters: Vec<WaiterId>,
    /// Its rank among the jobs that wait for a worker, if it does.
    rank: Option<Rank>,
}

impl Job {
    fn left(&self) -> u64 {
        self.units - self.next
    }
}

struct Waiter {
    /// None: it has left, and stays here until its last chunk is settled.
    job: Option<JobId>,
    tickets: u32,
    currency: Currency,
    leaf: u32,
    /// Chunks not settled yet, for which it pays.
    out: u32,
}

/// A currency, as a client of the one around it.
struct CurrencyNode {
    node: u32,
    inside: Currency,
    depth: u32,
    clients: u32,
}

pub struct RunQueue {
    order: Order,
    width: Width,
    /// The expected length of a chunk, charged in advance.
    quantum_ns: u64,
    seed: u64,
    draws: u32,
    arrivals: u64,
    jobs: SlotMap<JobId, Job>,
    waiters: SlotMap<WaiterId, Waiter>,
    currencies: SlotMap<CurrencyNodeId, CurrencyNode>,
    /// In orders by rank: jobs that wait for a worker, by rank and then in the order of submission.
    ranked: BTreeSet<(Rank, u64, JobId)>,
    /// The accounts of all clients. In proportional orders it picks one.
    economy: Economy,
    /// The client that each leaf of the economy stands for.
    by_leaf: Vec<WaiterId>,
}

impl RunQueue {
    /// `seed` is the lottery's: the same seed gives the same draws. Panics if the quantum is outside of [`QUANTUM_NS`].
    #[must_use]
    pub fn new(order: Order, width: Width, quantum_ns: u64, seed: u64) -> Self {
        check_quantum(quantum_ns);
        let rules = match order {
            Order::Lottery => Rules::lottery(quantum_ns),
            _ => Rules::stride(quantum_ns),
        };
        Self {
            order,
            width,
            quantum_ns,
            seed,
            draws: 0,
            arrivals: 0,
            jobs: SlotMap::with_key(),
            waiters: SlotMap::with_key(),
            currencies: SlotMap::with_key(),
            ranked: BTreeSet::new(),
            economy: Economy::new(rules),
            by_leaf: Vec::new(),
        }
    }

    /// A new currency inside another. In orders by rank, a client's tickets count as they are, whatever its currency. Panics if
    /// `tickets` is outside of [`TICKETS`].
    pub fn currency(&mut self, inside: Currency, tickets: u32) -> Result<Currency, Refused> {
        check(tickets);
        let (parent, depth) = (self.node(inside)?, self.depth(inside) + 1);
        if depth > limits::NESTED_MAX {
            return Err(Refused::TooDeep);
        }
        let node = self.economy.new_client(Kind::Currency, parent, tickets);
        let node = node.ok_or(Refused::NoSlot)?;
        self.count(inside, 1);
        let clients = 0;
        let made = self.currencies.insert(CurrencyNode {
            node,
            inside,
            depth,
            clients,
        });
        Ok(Currency(Some(made)))
    }

    /// Changes a currency's tickets, from the next pick on. Panics if `tickets` is outside of [`TICKETS`].
    pub fn fund(&mut self, currency: Currency, tickets: u32) -> Result<(), Refused> {
        check(tickets);
        let id = currency.0.ok_or(Refused::Base)?;
        self.economy
            .set_tickets(self.currency_node(id)?.node, tickets);
        Ok(())
    }

    /// Ends a currency. Refused while a client or a currency is in it.
    pub fn retire(&mut self, currency: Currency) -> Result<(), Refused> {
        let id = currency.0.ok_or(Refused::Base)?;
        if self.currency_node(id)?.clients > 0 {
            return Err(Refused::InUse);
        }
        let CurrencyNode { node, inside, .. } = self.currencies.remove(id).expect("it is there");
        self.economy.free(node);
        self.count(inside, -1);
        Ok(())
    }

    fn node(&self, currency: Currency) -> Result<u32, Refused> {
        match currency.0 {
            None => Ok(BEST_EFFORT),
            Some(id) => Ok(self.currency_node(id)?.node),
        }
    }

    fn currency_node(&self, id: CurrencyNodeId) -> Result<&CurrencyNode, Refused> {
        self.currencies.get(id).ok_or(Refused::NoSuchCurrency)
    }

    fn depth(&self, currency: Currency) -> u32 {
        currency.0.map_or(0, |id| self.currencies[id].depth)
    }

    fn count(&mut self, currency: Currency, by: i32) {
        if let Some(id) = currency.0 {
            let currency_node = &mut self.currencies[id];
            let clients = currency_node.clients.checked_add_signed(by);
            currency_node.clients = clients.expect("each client is counted once");
        }
    }

    /// A new job, with its first client. Panics if units or chunk are 0, or the tickets outside of [`TICKETS`].
    pub fn submit(&mut self, request: &Request) -> Result<(JobId, WaiterId), Refused> {
        assert!(request.units > 0, "a job of no units");
        assert!(request.chunk > 0, "a chunk of no units");
        self.arrivals += 1;
        let id = self.jobs.insert(Job {
            arrival: self.arrivals,
            units: request.units,
            chunk: request.chunk,
            next: 0,
            out: 0,
            tickets: 0,
            waiters: Vec::new(),
            rank: None,
        });
        let waiter = self.join(id, request.tickets, request.currency);
        if waiter.is_err() {
            self.jobs.remove(id);
        }
        Ok((id, waiter?))
    }

    /// One more client waits for a job. Panics if `tickets` is outside of [`TICKETS`].
    pub fn join(
        &mut self,
        job: JobId,
        tickets: u32,
        currency: Currency,
    ) -> Result<WaiterId, Refused> {
        check(tickets);
        if !self.contains(job) {
            return Err(Refused::Ended);
        }
        let node = self.node(currency)?;
        let leaf = self.economy.new_client(Kind::Thread, node, tickets);
        let leaf = leaf.ok_or(Refused::NoSlot)?;
        self.count(currency, 1);
        let id = self.waiters.insert(Waiter {
            job: Some(job),
            tickets,
            currency,
            leaf,
            out: 0,
        });
        let index = leaf as usize;
        self.by_leaf.resize(self.by_leaf.len().max(index + 1), id);
        self.by_leaf[index] = id;
        let joined = self.job(job);
        joined.waiters.push(id);
        joined.tickets += u64::from(tickets);
        let waits = joined.rank.is_some();
        if waits && self.order.is_proportional() {
            wait(&mut self.economy, leaf);
        } else {
            self.dequeue(job);
            self.enqueue(job);
        }
        Ok(id)
    }

    /// Is there such a job? Not after its end.
    #[must_use]
    pub fn contains(&self, job: JobId) -> bool {
        self.jobs.contains_key(job)
    }

    /// Jobs that have not ended.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// The chunk that a worker is to run next. The caller must settle it.
    pub fn pick(&mut self) -> Option<Chunk> {
        let (id, waiter) = if self.order.is_proportional() {
            let waiter = self.by_leaf[self.economy.pick(1)? as usize];
            let job = self.waiters[waiter].job;
            (job.expect("a picked client waits"), waiter)
        } else {
            let (.., id) = *self.ranked.first()?;
            (id, self.jobs[id].waiters[0])
        };
        // A rank may depend on the units that are left; a proportional order does not.
        let stays = self.order.is_proportional() && self.width == Width::All;
        if !stays {
            self.dequeue(id);
        }
        let job = self.job(id);
        let units = job.next..job.units.min(job.next.saturating_add(job.chunk));
        job.next = units.end;
        job.out += 1;
        let is_last = job.left() == 0;
        self.waiters[waiter].out += 1;
        if self.order.is_proportional() {
            let leaf = self.waiters[waiter].leaf;
            let bill = Bill {
                next_ns: self.quantum_ns,
                ..Bill::default()
            };
            self.economy.charge(leaf, &bill);
        }
        if !stays {
            self.enqueue(id);
        } else if is_last {
            self.dequeue(id);
        }
        Some(Chunk {
            job: id,
            units,
            waiter,
        })
    }

    /// Settles a chunk that took `used_ns`. `is_done`: the job ends with it, whatever is left.
    pub fn settle(&mut self, chunk: &Chunk, used_ns: u64, is_done: bool) -> Settled {
        self.charge(chunk.waiter, used_ns);
        self.waiters[chunk.waiter].out -= 1;
        self.forget(chunk.waiter);
        let Some(job) = self.jobs.get_mut(chunk.job) else {
            return Settled::EndedBefore;
        };
        job.out -= 1;
        if is_done || (job.left() == 0 && job.out == 0) {
            return Settled::Ended(self.end(chunk.job));
        }
        if self.width == Width::One && job.left() > 0 {
            self.enqueue(chunk.job);
        }
        Settled::Unfinished
    }

    /// A client leaves its job. The job ends with its last client: then true.
    pub fn leave(&mut self, waiter: WaiterId) -> bool {
        let Some(&Waiter {
            job: Some(id),
            tickets,
            ..
        }) = self.waiters.get(waiter)
        else {
            return false;
        };
        if self.jobs[id].waiters.len() == 1 {
            self.end(id);
            return true;
        }
        self.detach(waiter);
        let job = self.job(id);
        job.waiters.retain(|other| *other != waiter);
        job.tickets -= u64::from(tickets);
        if !self.order.is_proportional() && self.dequeue(id) {
            self.enqueue(id);
        }
        false
    }

    /// Ends a job, and returns the clients that waited for it.
    pub fn end(&mut self, id: JobId) -> Vec<WaiterId> {
        self.dequeue(id);
        let job = self.jobs.remove(id).expect("a job ends once");
        job.waiters.iter().for_each(|waiter| self.detach(*waiter));
        job.waiters
    }

    fn job(&mut self, id: JobId) -> &mut Job {
        self.jobs.get_mut(id).expect("the job has not ended")
    }

    /// The job, with its clients, waits for a worker, unless no unit is left or its only worker already has it.
    fn enqueue(&mut self, id: JobId) {
        let job = self.jobs.get_mut(id).expect("the job has not ended");
        if job.left() == 0 || (self.width == Width::One && job.out > 0) {
            return;
        }
        let rank = self.order.rank(job.tickets, job.units, job.left());
        job.rank = Some(rank);
        if !self.order.is_proportional() {
            self.ranked.insert((rank, job.arrival, id));
            return;
        }
        for waiter in &job.waiters {
            wait(&mut self.economy, self.waiters[*waiter].leaf);
        }
    }

    /// The job no longer waits for a worker. Returns whether it did.
    fn dequeue(&mut self, id: JobId) -> bool {
        let job = self.jobs.get_mut(id).expect("the job has not ended");
        let Some(rank) = job.rank.take() else {
            return false;
        };
        if self.order.is_proportional() {
            for waiter in &job.waiters {
                self.economy.withdraw(self.waiters[*waiter].leaf);
            }
        } else {
            self.ranked.remove(&(rank, job.arrival, id));
        }
        true
    }

    /// The client leaves its job.
    fn detach(&mut self, id: WaiterId) {
        let waiter = &mut self.waiters[id];
        waiter.job = None;
        self.economy.withdraw(waiter.leaf);
        self.forget(id);
    }

    /// Removes a client that has left its job and has paid for all of its chunks.
    fn forget(&mut self, id: WaiterId) {
        let &Waiter {
            job,
            currency,
            leaf,
            out,
            ..
        } = &self.waiters[id];
        if job.is_some() || out > 0 {
            return;
        }
        self.waiters.remove(id);
        self.economy.leave(leaf);
        self.economy.free(leaf);
        self.count(currency, -1);
    }

    fn charge(&mut self, waiter: WaiterId, used_ns: u64) {
        if !self.order.is_proportional() {
            return;
        }
        self.draws = self.draws.wrapping_add(1);
        let bill = Bill {
            used_ns: used_ns.min(limits::CHARGE_MAX_NS),
            precharge_ns: self.quantum_ns,
            seed: u64::from(mix(self.seed, self.draws)),
            ..Bill::default()
        };
        self.economy.charge(self.waiters[waiter].leaf, &bill);
    }
}

/// The client waits for any worker: all workers are one CPU to the economy. The time does not matter.
fn wait(economy: &mut Economy, leaf: u32) {
    economy.join(leaf, 1);
    economy.wait(leaf, 1, 0);
}

pub(crate) fn check_quantum(ns: u64) {
    assert!(
        QUANTUM_NS.contains(&ns),
        "a quantum of {ns} ns, must be between {} and {}",
        QUANTUM_NS.start(),
        QUANTUM_NS.end()
    );
}

pub(crate) fn check(tickets: u32) {
    assert!(
        TICKETS.contains(&tickets),
        "{tickets} tickets, must be between {} and {}",
        TICKETS.start(),
        TICKETS.end()
    );
}
