//! Which chunk of which job is next. No threads, no clock: what is true is said by whoever uses it.
//!
//! ```text
//!   submit ──> job ── pick ──> chunk ── settle ──┬─> going on
//!   join ─────> ^                                └─> ended: all who waited for it
//! ```
//!
//! A job is so many units of work, taken in chunks from the first to the last. Who waits for it is a client with tickets in a
//! currency; who wants what another waits for already joins it, and their tickets add: whichever of them has its turn, the
//! common work goes on, and that one pays.

use crate::order::{Order, Rank};
use slotmap::{SlotMap, new_key_type};
use std::collections::BTreeSet;
use std::ops::Range;
use tombola_core::{BEST_EFFORT, Bill, Economy, Kind, Rules, limits, mix};

/// Tickets that a client may hold.
pub const TICKETS: std::ops::RangeInclusive<u32> = 1..=10_000;

/// How many workers may work on one job at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    One,
    #[default]
    All,
}

new_key_type! {
    /// Of one job, never of another.
    pub struct JobId;
    /// Of one who waits for a job.
    pub struct WaiterId;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Currency(u32);

impl Currency {
    /// That of all who have none of their own.
    pub const BASE: Self = Self(BEST_EFFORT);
}

/// What somebody wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// At least 1.
    pub units: u64,
    /// How many of them are done at a time, at least 1; the last chunk may have fewer.
    pub chunk: u64,
    pub tickets: u32,
    pub currency: Currency,
}

/// A part of a job that a worker has been given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub job: JobId,
    pub units: Range<u64>,
    /// Who pays.
    waiter: WaiterId,
}

/// What became of a chunk's job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    Going,
    /// With this chunk. These waited for it.
    Ended(Vec<WaiterId>),
    /// Before this chunk was done.
    Gone,
}

/// As many clients as there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPlace;

struct Job {
    /// How many came before it.
    arrival: u64,
    units: u64,
    chunk: u64,
    /// The first that nobody has been given.
    next: u64,
    /// Chunks that somebody has been given.
    out: u32,
    tickets: u64,
    waiters: Vec<WaiterId>,
    /// Its place among those that wait for a worker, if it is there.
    rank: Option<Rank>,
}

impl Job {
    fn left(&self) -> u64 {
        self.units - self.next
    }
}

struct Waiter {
    job: JobId,
    tickets: u32,
    leaf: u32,
}

pub struct RunQueue {
    order: Order,
    width: Width,
    /// What a chunk is expected to take, and is charged for in advance.
    quantum_ns: u64,
    seed: u64,
    draws: u32,
    arrivals: u64,
    jobs: SlotMap<JobId, Job>,
    waiters: SlotMap<WaiterId, Waiter>,
    /// Jobs that wait for a worker, in orders by rank: the first that came first among equals.
    ranked: BTreeSet<(Rank, u64, JobId)>,
    /// Clients; in proportional orders it chooses among those that wait.
    economy: Economy,
    /// Whose each of the economy's clients is.
    by_leaf: Vec<WaiterId>,
}

impl RunQueue {
    /// `seed`: the lottery's; the same seed draws the same.
    #[must_use]
    pub fn new(order: Order, width: Width, quantum_ns: u64, seed: u64) -> Self {
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
            ranked: BTreeSet::new(),
            economy: Economy::new(rules),
            by_leaf: Vec::new(),
        }
    }

    /// A new currency inside another. In orders by rank tickets count as they are, whatever currency they are in.
    pub fn currency(&mut self, inside: Currency, tickets: u32) -> Result<Currency, NoPlace> {
        check(tickets);
        let made = self.economy.new_client(Kind::Currency, inside.0, tickets);
        made.map(Currency).ok_or(NoPlace)
    }

    /// Other tickets for a currency, from the next pick on.
    pub fn fund(&mut self, currency: Currency, tickets: u32) {
        check(tickets);
        self.economy.set_tickets(currency.0, tickets);
    }

    /// Nobody may be in it.
    pub fn retire(&mut self, currency: Currency) {
        self.economy.free(currency.0);
    }

    pub fn submit(&mut self, request: &Request) -> Result<(JobId, WaiterId), NoPlace> {
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

    /// One more waits for a job that is there.
    pub fn join(
        &mut self,
        job: JobId,
        tickets: u32,
        currency: Currency,
    ) -> Result<WaiterId, NoPlace> {
        check(tickets);
        let leaf = self
            .economy
            .new_client(Kind::Thread, currency.0, tickets)
            .ok_or(NoPlace)?;
        let id = self.waiters.insert(Waiter { job, tickets, leaf });
        let place = leaf as usize;
        self.by_leaf.resize(self.by_leaf.len().max(place + 1), id);
        self.by_leaf[place] = id;
        let joined = self.job(job);
        joined.waiters.push(id);
        joined.tickets += u64::from(tickets);
        let waits = joined.rank.is_some();
        if waits && self.order.is_proportional() {
            self.economy.join(leaf);
            self.economy.wait(leaf, 1, 0);
        } else {
            self.dequeue(job);
            self.enqueue(job);
        }
        Ok(id)
    }

    /// Is there such a job?
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

    /// Units of a job that nobody was given yet.
    #[must_use]
    pub fn left(&self, job: JobId) -> Option<u64> {
        self.jobs.get(job).map(Job::left)
    }

    /// What a worker is to do next. Each chunk must be settled.
    pub fn pick(&mut self) -> Option<Chunk> {
        let (id, waiter) = if self.order.is_proportional() {
            let waiter = self.by_leaf[self.economy.pick(1)? as usize];
            (self.waiters[waiter].job, waiter)
        } else {
            let (.., id) = *self.ranked.first()?;
            (id, self.jobs[id].waiters[0])
        };
        // A proportional order need not see that there is less left; a rank may depend on it.
        let stays = self.order.is_proportional() && self.width == Width::All;
        if !stays {
            self.dequeue(id);
        }
        let job = self.job(id);
        let units = job.next..job.units.min(job.next.saturating_add(job.chunk));
        job.next = units.end;
        job.out += 1;
        let is_last = job.left() == 0;
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

    /// A chunk took so long; `is_done`: and nothing more is to be done for the job.
    pub fn settle(&mut self, chunk: &Chunk, used_ns: u64, is_done: bool) -> Settled {
        self.charge(chunk.waiter, used_ns);
        let Some(job) = self.jobs.get_mut(chunk.job) else {
            return Settled::Gone;
        };
        job.out -= 1;
        if is_done || (job.left() == 0 && job.out == 0) {
            return Settled::Ended(self.end(chunk.job));
        }
        if self.width == Width::One && job.left() > 0 {
            self.enqueue(chunk.job);
        }
        Settled::Going
    }

    /// Somebody waits no more. The job ends with the last: then true.
    pub fn leave(&mut self, waiter: WaiterId) -> bool {
        let Some(left) = self.waiters.get(waiter) else {
            return false;
        };
        let (id, tickets) = (left.job, left.tickets);
        if self.jobs[id].waiters.len() == 1 {
            self.end(id);
            return true;
        }
        self.forget(waiter);
        let job = self.job(id);
        job.waiters.retain(|other| *other != waiter);
        job.tickets -= u64::from(tickets);
        if !self.order.is_proportional() && self.dequeue(id) {
            self.enqueue(id);
        }
        false
    }

    /// The job ends. Who waited for it.
    pub fn end(&mut self, id: JobId) -> Vec<WaiterId> {
        self.dequeue(id);
        let job = self.jobs.remove(id).expect("a job ends once");
        job.waiters.iter().for_each(|waiter| self.forget(*waiter));
        job.waiters
    }

    fn job(&mut self, id: JobId) -> &mut Job {
        self.jobs.get_mut(id).expect("the job has not ended")
    }

    /// The job waits for a worker, with all who wait for it, if anything is left and nobody has it alone.
    fn enqueue(&mut self, id: JobId) {
        let job = self.jobs.get_mut(id).expect("the job has not ended");
        if job.left() == 0 || (self.width == Width::One && job.out > 0) {
            return;
        }
        let rank = self.order.rank(job.tickets, job.left());
        job.rank = Some(rank);
        if !self.order.is_proportional() {
            self.ranked.insert((rank, job.arrival, id));
            return;
        }
        for waiter in &job.waiters {
            let leaf = self.waiters[*waiter].leaf;
            self.economy.join(leaf);
            self.economy.wait(leaf, 1, 0);
        }
    }

    /// The job waits for no worker. Did it?
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

    fn forget(&mut self, waiter: WaiterId) {
        let Waiter { leaf, .. } = self.waiters.remove(waiter).expect("it waits");
        self.economy.withdraw(leaf);
        self.economy.leave(leaf);
        self.economy.free(leaf);
    }

    // Who has left meanwhile has paid what was charged in advance.
    fn charge(&mut self, waiter: WaiterId, used_ns: u64) {
        let Some(waiter) = self.waiters.get(waiter) else {
            return;
        };
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
        self.economy.charge(waiter.leaf, &bill);
    }
}

pub(crate) fn check(tickets: u32) {
    assert!(
        TICKETS.contains(&tickets),
        "{tickets} tickets, must be between {} and {}",
        TICKETS.start(),
        TICKETS.end()
    );
}
