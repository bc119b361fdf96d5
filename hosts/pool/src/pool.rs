//! Workers, and those who want work done.
//!
//! ```text
//!   submit ──> State (one lock) <── pick, settle ── workers, each: chunk, without the lock, and again
//!                   └──> answers, called without the lock by the worker that did the last chunk
//! ```

use crate::queue::{
    Chunk, Currency, JobId, NoPlace, Request, RunQueue, Settled, WaiterId, Width, check,
};
use crate::sync::{Arc, Builder as ThreadBuilder, Condvar, JoinHandle, Mutex, MutexGuard};
use crate::{Order, TICKETS_DEFAULT};
use slotmap::{Key, SecondaryMap};
use std::any::Any;
use std::io;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use thiserror::Error;

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// A chunk came upon what was sought.
    Found(T),
    /// All units were done, and none was it.
    Exhausted,
    /// Nobody waited for it any more, or the pool was aborted.
    Cancelled,
    /// A chunk panicked, and said this.
    Panicked(String),
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refused {
    #[error(
        "the queue is full: as many jobs as it takes have not ended yet; try again when one has"
    )]
    Full,
    #[error("the pool is closed: it takes no more jobs")]
    Closed,
    #[error("the job has ended already; submit it again")]
    Ended,
}

impl From<NoPlace> for Refused {
    fn from(_: NoPlace) -> Self {
        Self::Full
    }
}

type Run<T> = dyn Fn(Range<u64>) -> ControlFlow<T> + Send + Sync;
type Answer<T> = Box<dyn FnOnce(Outcome<T>) + Send>;

/// Work that is to be done in chunks, by one worker or by several at once.
pub struct Job<T> {
    run: Arc<Run<T>>,
    request: Request,
}

impl<T> Job<T> {
    /// `run` is called for one range of 0..units after another, and breaks with what was sought. It may be called for several
    /// at once, and for some that were given out already after it has broken.
    pub fn new(
        units: u64,
        run: impl Fn(Range<u64>) -> ControlFlow<T> + Send + Sync + 'static,
    ) -> Self {
        Self {
            run: share(run),
            request: Request {
                units,
                chunk: units.max(1),
                tickets: TICKETS_DEFAULT,
                currency: Currency::BASE,
            },
        }
    }

    /// How many units make a chunk: about a millisecond of work, as chunks are not interrupted. All of them if it is not said.
    #[must_use]
    pub fn chunk(mut self, units: u64) -> Self {
        self.request.chunk = units.max(1);
        self
    }

    /// 1 to 10000; 100 if it is not said. Panics at others.
    #[must_use]
    pub fn tickets(mut self, tickets: u32) -> Self {
        check(tickets);
        self.request.tickets = tickets;
        self
    }

    #[must_use]
    pub fn currency(mut self, currency: Currency) -> Self {
        self.request.currency = currency;
        self
    }
}

// Loom's Arc does not turn into one of a trait by itself.
fn share<T>(run: impl Fn(Range<u64>) -> ControlFlow<T> + Send + Sync + 'static) -> Arc<Run<T>> {
    #[cfg(loom)]
    return Arc::from_std(std::sync::Arc::new(run));
    #[cfg(not(loom))]
    Arc::new(run)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// What is there is done, nothing new is taken.
    Closing,
    /// Nothing is done any more.
    Aborted,
}

struct State<T> {
    queue: RunQueue,
    runs: SecondaryMap<JobId, Arc<Run<T>>>,
    answers: SecondaryMap<WaiterId, Answer<T>>,
    phase: Phase,
}

impl<T> State<T> {
    /// Nothing is left to do, and nothing new is taken.
    fn is_over(&self) -> bool {
        self.phase != Phase::Open && self.queue.is_empty()
    }

    fn answers_of(&mut self, waiters: &[WaiterId]) -> impl Iterator<Item = Answer<T>> {
        waiters
            .iter()
            .filter_map(|waiter| self.answers.remove(*waiter))
    }
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// There is something to do, or never will be again.
    work: Condvar,
    /// There is room for one more.
    room: Condvar,
    jobs_max: usize,
    width: Width,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics under the lock")
    }
}

/// How a pool is to be.
#[derive(Clone, Debug)]
pub struct Builder {
    workers: usize,
    order: Order,
    width: Width,
    jobs_max: usize,
    quantum_ns: u64,
    seed: u64,
}

impl Builder {
    /// Threads; as many as there are CPUs if it is not said.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// May all workers work on one job at once, or only one?
    #[must_use]
    pub fn width(mut self, width: Width) -> Self {
        self.width = width;
        self
    }

    /// How many jobs there may be that have not ended; 10000 if it is not said.
    #[must_use]
    pub fn jobs_max(mut self, jobs: usize) -> Self {
        self.jobs_max = jobs;
        self
    }

    /// What a chunk takes, about: charged in advance while it runs. 1 ms if it is not said.
    #[must_use]
    pub fn quantum_ns(mut self, quantum_ns: u64) -> Self {
        self.quantum_ns = quantum_ns;
        self
    }

    /// Of the lottery.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Starts the workers. Fails if the system has no more threads.
    pub fn build<T: Clone + Send + 'static>(&self) -> io::Result<Pool<T>> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: RunQueue::new(self.order, self.width, self.quantum_ns, self.seed),
                runs: SecondaryMap::new(),
                answers: SecondaryMap::new(),
                phase: Phase::Open,
            }),
            work: Condvar::new(),
            room: Condvar::new(),
            jobs_max: self.jobs_max.max(1),
            width: self.width,
        });
        let mut pool = Pool {
            shared,
            workers: Vec::new(),
        };
        for number in 0..self.workers.max(1) {
            let shared = pool.shared.clone();
            let name = format!("worker {number}");
            let worker = ThreadBuilder::new().name(name);
            pool.workers.push(worker.spawn(move || work(&shared))?);
        }
        Ok(pool)
    }
}

/// Threads that do the chunks of jobs, those first whose turn it is. Dropping it is [`Pool::abort`].
pub struct Pool<T: Clone + Send + 'static> {
    shared: Arc<Shared<T>>,
    workers: Vec<JoinHandle<()>>,
}

/// Somebody who waits for a job. Dropping it changes nothing: the job is done all the same, and the answer called.
pub struct Waiting<T: Clone + Send + 'static> {
    shared: Arc<Shared<T>>,
    job: JobId,
    waiter: WaiterId,
}

impl Pool<()> {
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            workers: std::thread::available_parallelism().map_or(1, usize::from),
            order: Order::default(),
            width: Width::default(),
            jobs_max: 10_000,
            quantum_ns: 1_000_000,
            seed: 0,
        }
    }
}

impl<T: Clone + Send + 'static> Pool<T> {
    /// A currency of so many tickets inside another: what is in it has together what it has.
    pub fn currency(&self, inside: Currency, tickets: u32) -> Result<Currency, Refused> {
        check(tickets);
        Ok(self.shared.lock().queue.currency(inside, tickets)?)
    }

    /// Other tickets for a currency, from the next chunk on.
    pub fn fund(&self, currency: Currency, tickets: u32) {
        check(tickets);
        self.shared.lock().queue.fund(currency, tickets);
    }

    /// Jobs that have not ended.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Takes a job, if there is room. `answer` is called once, by a worker or by who ends the job, without any lock held; it
    /// should be short. A panic in it is contained.
    pub fn try_submit(
        &self,
        job: &Job<T>,
        answer: impl FnOnce(Outcome<T>) + Send + 'static,
    ) -> Result<Waiting<T>, Refused> {
        self.take(self.shared.lock(), job, Box::new(answer))
    }

    /// The same, but waits until there is room.
    pub fn submit(
        &self,
        job: &Job<T>,
        answer: impl FnOnce(Outcome<T>) + Send + 'static,
    ) -> Result<Waiting<T>, Refused> {
        let mut state = self.shared.lock();
        while state.phase == Phase::Open && state.queue.len() >= self.shared.jobs_max {
            state = self
                .shared
                .room
                .wait(state)
                .expect("nothing panics under the lock");
        }
        self.take(state, job, Box::new(answer))
    }

    fn take(
        &self,
        mut state: MutexGuard<'_, State<T>>,
        job: &Job<T>,
        answer: Answer<T>,
    ) -> Result<Waiting<T>, Refused> {
        if state.phase != Phase::Open {
            return Err(Refused::Closed);
        }
        if job.request.units == 0 {
            drop(state);
            tell([answer], &Outcome::Exhausted);
            return Ok(self.waiting(JobId::null(), WaiterId::null()));
        }
        if state.queue.len() >= self.shared.jobs_max {
            return Err(Refused::Full);
        }
        let (id, waiter) = state.queue.submit(&job.request)?;
        state.runs.insert(id, job.run.clone());
        state.answers.insert(waiter, answer);
        drop(state);
        match self.shared.width {
            Width::One => self.shared.work.notify_one(),
            Width::All => self.shared.work.notify_all(),
        }
        Ok(self.waiting(id, waiter))
    }

    fn waiting(&self, job: JobId, waiter: WaiterId) -> Waiting<T> {
        Waiting {
            shared: self.shared.clone(),
            job,
            waiter,
        }
    }

    /// Takes no more jobs, does those that are there, and ends the workers.
    pub fn close(mut self) {
        self.end(Phase::Closing);
    }

    /// Cancels all jobs, and ends the workers as soon as their chunks are done.
    pub fn abort(mut self) {
        self.end(Phase::Aborted);
    }

    fn end(&mut self, phase: Phase) {
        let mut state = self.shared.lock();
        state.phase = phase;
        let mut answers = Vec::new();
        if phase == Phase::Aborted {
            let jobs: Vec<JobId> = state.runs.drain().map(|(id, _)| id).collect();
            for id in jobs {
                let waiters = state.queue.end(id);
                answers.extend(state.answers_of(&waiters));
            }
        }
        drop(state);
        self.shared.work.notify_all();
        self.shared.room.notify_all();
        tell(answers, &Outcome::Cancelled);
        for worker in self.workers.drain(..) {
            worker.join().expect("what a job does is contained");
        }
    }
}

impl<T: Clone + Send + 'static> Drop for Pool<T> {
    fn drop(&mut self) {
        if !self.workers.is_empty() {
            self.end(Phase::Aborted);
        }
    }
}

impl<T: Clone + Send + 'static> Waiting<T> {
    /// One more waits for the same job, and pays for it as well.
    pub fn join(
        &self,
        tickets: u32,
        currency: Currency,
        answer: impl FnOnce(Outcome<T>) + Send + 'static,
    ) -> Result<Self, Refused> {
        check(tickets);
        let mut state = self.shared.lock();
        if !state.queue.contains(self.job) {
            return Err(Refused::Ended);
        }
        let waiter = state.queue.join(self.job, tickets, currency)?;
        state.answers.insert(waiter, Box::new(answer));
        Ok(Self {
            shared: self.shared.clone(),
            job: self.job,
            waiter,
        })
    }

    /// Waits no more; the answer is "cancelled" if it was not called yet. Who else waits for the job goes on to.
    pub fn cancel(self) {
        let mut state = self.shared.lock();
        let is_last = state.queue.leave(self.waiter);
        if is_last {
            state.runs.remove(self.job);
        }
        let answer = state.answers.remove(self.waiter);
        let is_over = state.is_over();
        drop(state);
        if is_last {
            self.shared.room.notify_one();
        }
        if is_over {
            self.shared.work.notify_all();
        }
        tell(answer, &Outcome::Cancelled);
    }
}

fn tell<T: Clone>(answers: impl IntoIterator<Item = Answer<T>>, outcome: &Outcome<T>) {
    for answer in answers {
        // Who is told may be gone, and that is nothing to the others.
        let _ = catch_unwind(AssertUnwindSafe(|| answer(outcome.clone())));
    }
}

fn work<T: Clone + Send + 'static>(shared: &Shared<T>) {
    let mut state = shared.lock();
    loop {
        let Some(chunk) = state.queue.pick() else {
            if state.is_over() {
                return;
            }
            state = shared
                .work
                .wait(state)
                .expect("nothing panics under the lock");
            continue;
        };
        let run = state.runs[chunk.job].clone();
        drop(state);
        let began_ns = cpu_ns();
        let result = catch_unwind(AssertUnwindSafe(|| run(chunk.units.clone())));
        drop(run);
        let used_ns = cpu_ns() - began_ns;
        state = shared.lock();
        let Some((answers, outcome)) = settle(&mut state, &chunk, used_ns, result) else {
            continue;
        };
        let is_over = state.is_over();
        drop(state);
        shared.room.notify_one();
        if is_over {
            shared.work.notify_all();
        }
        tell(answers, &outcome);
        state = shared.lock();
    }
}

/// If that was the end of the job: who is to be told what.
fn settle<T>(
    state: &mut State<T>,
    chunk: &Chunk,
    used_ns: u64,
    result: Result<ControlFlow<T>, Box<dyn Any + Send>>,
) -> Option<(Vec<Answer<T>>, Outcome<T>)> {
    let outcome = match result {
        Ok(ControlFlow::Break(found)) => Outcome::Found(found),
        Ok(ControlFlow::Continue(())) => Outcome::Exhausted,
        Err(panic) => Outcome::Panicked(words(panic.as_ref())),
    };
    let is_done = !matches!(outcome, Outcome::Exhausted);
    let Settled::Ended(waiters) = state.queue.settle(chunk, used_ns, is_done) else {
        return None;
    };
    state.runs.remove(chunk.job);
    Some((state.answers_of(&waiters).collect(), outcome))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "something that is not text".into())
}

/// CPU time of this thread: what it waits for, or what others take from it, is not the job's.
#[cfg(not(loom))]
fn cpu_ns() -> u64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives through the call, which fails for no thread that asks about itself.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    used.tv_sec.cast_unsigned() * 1_000_000_000 + used.tv_nsec.cast_unsigned()
}

#[cfg(loom)]
fn cpu_ns() -> u64 {
    0
}
