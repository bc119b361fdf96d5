//! Workers, and those who want work done.
//!
//! ```text
//!   submit ──> State (one lock) <── pick, settle ── workers, each: chunk, without the lock, and again
//!                   └──> answers, called without the lock by the worker that did the last chunk
//! ```

use crate::order::{Order, Width};
use crate::queue::{
    Currency, JobId, Refused, Request, RunQueue, Settled, WaiterId, check, check_quantum,
};
use crate::sync::{
    Arc, AtomicBool, Builder as ThreadBuilder, Condvar, JoinHandle, Mutex, MutexGuard, Ordering,
    thread,
};
use slotmap::{Key, SecondaryMap};
use std::any::Any;
use std::io;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Tickets of a job of which nothing is said.
pub const TICKETS_DEFAULT: u32 = 100;

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

/// Whether a job is over: found, failed, or wanted by nobody any more. What is still tried for it is in vain.
pub struct Over(AtomicBool);

impl Over {
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Run<T> = dyn Fn(Range<u64>, &Over) -> ControlFlow<T> + Send + Sync;
type Answer<T> = Box<dyn FnOnce(Outcome<T>) + Send>;

/// Work that is to be done in chunks, by one worker or by several at once.
pub struct Job<T> {
    run: Arc<Run<T>>,
    request: Request,
}

impl<T> Job<T> {
    /// `run` is called for one range of 0..units after another, and breaks with what was sought. It may be called for several
    /// at once. A chunk is not interrupted when the job is over; one of more than a millisecond should look from time to time.
    pub fn new(
        units: u64,
        run: impl Fn(Range<u64>, &Over) -> ControlFlow<T> + Send + Sync + 'static,
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
fn share<T>(
    run: impl Fn(Range<u64>, &Over) -> ControlFlow<T> + Send + Sync + 'static,
) -> Arc<Run<T>> {
    #[cfg(loom)]
    return Arc::from_std(std::sync::Arc::new(run));
    #[cfg(not(loom))]
    Arc::new(run)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Open,
    /// What is there is done, nothing new is taken.
    Closing,
    /// Nothing is done any more.
    Aborted,
}

/// A job that has not ended.
struct Running<T> {
    run: Arc<Run<T>>,
    over: Arc<Over>,
}

impl<T> Clone for Running<T> {
    fn clone(&self) -> Self {
        Self {
            run: self.run.clone(),
            over: self.over.clone(),
        }
    }
}

struct State<T> {
    queue: RunQueue,
    runs: SecondaryMap<JobId, Running<T>>,
    answers: SecondaryMap<WaiterId, Answer<T>>,
    phase: Phase,
}

impl<T> State<T> {
    /// Nothing is left to do, and nothing new is taken.
    fn is_over(&self) -> bool {
        self.phase != Phase::Open && self.queue.is_empty()
    }

    /// What was the job's, after its last chunk or because nobody waits for it any more.
    fn take_off(&mut self, job: JobId, waiters: &[WaiterId], ended: &mut Ended<T>) {
        let answers = waiters
            .iter()
            .filter_map(|waiter| self.answers.remove(*waiter));
        ended.answers.extend(answers);
        let run = self.runs.remove(job);
        run.iter().for_each(|running| running.over.set());
        ended.runs.extend(run);
    }
}

/// What is left of jobs that have ended. All of it is their users' code, down to its destructors, so none of it is dropped or
/// called under the lock, and none of it ends a worker.
struct Ended<T> {
    answers: Vec<Answer<T>>,
    runs: Vec<Running<T>>,
}

impl<T: Clone> Ended<T> {
    fn nothing() -> Self {
        Self {
            answers: Vec::new(),
            runs: Vec::new(),
        }
    }

    fn tell(self, outcome: Outcome<T>) {
        for answer in self.answers {
            // Who is told may be gone, and that is nothing to the others.
            let _ = contained(|| answer(outcome.clone()));
        }
        let _ = contained(|| drop(self.runs));
        let _ = contained(|| drop(outcome));
    }
}

/// A panic is the end of what panicked, and of nothing else.
fn contained<R>(users: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(users)).map_err(|panic| {
        let words = words(panic.as_ref());
        // What was thrown may throw again when it is dropped.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        words
    })
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

    /// A job has ended.
    fn after_end(&self, is_over: bool) {
        self.room.notify_one();
        if is_over {
            self.work.notify_all();
        }
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

    /// How many jobs there may be that have not ended; 10,000 if it is not said.
    #[must_use]
    pub fn jobs_max(mut self, jobs: usize) -> Self {
        self.jobs_max = jobs;
        self
    }

    /// What a chunk takes, about: charged in advance while it runs. 1 ms if it is not said. Panics outside of 1 us to 100 ms.
    #[must_use]
    pub fn quantum_ns(mut self, quantum_ns: u64) -> Self {
        check_quantum(quantum_ns);
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
        let pool = Pool {
            shared,
            workers: Mutex::new(Vec::new()),
        };
        for number in 0..self.workers.max(1) {
            let shared = pool.shared.clone();
            let name = format!("worker {number}");
            let worker = ThreadBuilder::new().name(name);
            let worker = worker.spawn(move || work(&shared))?;
            pool.workers().push(worker);
        }
        Ok(pool)
    }
}

/// Threads that do the chunks of jobs, those first whose turn it is. Dropping it is [`Pool::abort`].
pub struct Pool<T: Clone + Send + 'static> {
    shared: Arc<Shared<T>>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

/// Somebody who waits for a job. Dropping it changes nothing: the job is done all the same, and the answer called. A clone is the
/// same somebody.
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
        self.shared.lock().queue.currency(inside, tickets)
    }

    /// Other tickets for a currency, from the next chunk on.
    pub fn fund(&self, currency: Currency, tickets: u32) -> Result<(), Refused> {
        check(tickets);
        self.shared.lock().queue.fund(currency, tickets)
    }

    /// Gives a currency back. Refused while a job or a currency is in it.
    pub fn retire(&self, currency: Currency) -> Result<(), Refused> {
        self.shared.lock().queue.retire(currency)
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
        self.take(job, Box::new(answer), false)
    }

    /// The same, but waits until there is room. Not for answers: all workers might wait for room that only they make.
    pub fn submit(
        &self,
        job: &Job<T>,
        answer: impl FnOnce(Outcome<T>) + Send + 'static,
    ) -> Result<Waiting<T>, Refused> {
        self.take(job, Box::new(answer), true)
    }

    fn take(&self, job: &Job<T>, answer: Answer<T>, waits: bool) -> Result<Waiting<T>, Refused> {
        let shared = &self.shared;
        let mut state = shared.lock();
        if job.request.units == 0 && state.phase == Phase::Open {
            drop(state);
            let _ = contained(|| answer(Outcome::Exhausted));
            return Ok(self.waiting(JobId::null(), WaiterId::null()));
        }
        let is_full = |state: &State<T>| state.queue.len() >= shared.jobs_max;
        while waits && state.phase == Phase::Open && is_full(&state) {
            state = shared
                .room
                .wait(state)
                .expect("nothing panics under the lock");
        }
        let taken = if state.phase != Phase::Open {
            Err(Refused::Closed)
        } else if is_full(&state) {
            Err(Refused::Full)
        } else {
            state.queue.submit(&job.request)
        };
        let (id, waiter) = match taken {
            Ok(taken) => taken,
            Err(refused) => {
                drop(state);
                // It may have been woken for room that it leaves to the next.
                shared.room.notify_one();
                return Err(refused);
            }
        };
        let running = Running {
            run: job.run.clone(),
            over: Arc::new(Over::new()),
        };
        state.runs.insert(id, running);
        state.answers.insert(waiter, answer);
        drop(state);
        match shared.width {
            Width::One => shared.work.notify_one(),
            Width::All => shared.work.notify_all(),
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

    /// Takes no more jobs, does those that are there, and ends the workers. Returns when they have ended, but for the one that
    /// calls it, if it is a worker, and at once if somebody else is about it already.
    pub fn close(&self) {
        self.end(Phase::Closing);
    }

    /// Cancels all jobs, and ends the workers as soon as their chunks are done. Returns as [`Self::close`] does.
    pub fn abort(&self) {
        self.end(Phase::Aborted);
    }

    fn end(&self, phase: Phase) {
        let mut state = self.shared.lock();
        state.phase = state.phase.max(phase);
        let mut ended = Ended::nothing();
        if phase == Phase::Aborted {
            let jobs: Vec<JobId> = state.runs.keys().collect();
            for id in jobs {
                let waiters = state.queue.end(id);
                state.take_off(id, &waiters, &mut ended);
            }
        }
        drop(state);
        self.shared.work.notify_all();
        self.shared.room.notify_all();
        ended.tell(Outcome::Cancelled);
        let workers = std::mem::take(&mut *self.workers());
        let me = thread::current().id();
        for worker in workers {
            if worker.thread().id() != me {
                worker.join().expect("what a job does is contained");
            }
        }
    }

    fn workers(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.workers.lock().expect("nothing panics under the lock")
    }
}

impl<T: Clone + Send + 'static> Drop for Pool<T> {
    fn drop(&mut self) {
        self.abort();
    }
}

impl<T: Clone + Send + 'static> Clone for Waiting<T> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            ..*self
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
        let waiter = state.queue.join(self.job, tickets, currency)?;
        state.answers.insert(waiter, Box::new(answer));
        Ok(Self {
            shared: self.shared.clone(),
            job: self.job,
            waiter,
        })
    }

    /// Waits no more; the answer is "cancelled" if it was not called yet. Who else waits for the job goes on to.
    pub fn cancel(&self) {
        let mut state = self.shared.lock();
        let mut ended = Ended::nothing();
        let is_last = state.queue.leave(self.waiter);
        ended.answers.extend(state.answers.remove(self.waiter));
        if is_last {
            state.take_off(self.job, &[], &mut ended);
        }
        let is_over = state.is_over();
        drop(state);
        self.shared.after_end(is_over);
        ended.tell(Outcome::Cancelled);
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
        let running = state.runs[chunk.job].clone();
        drop(state);
        let began_ns = cpu_ns();
        let outcome = attempt(running, chunk.units.clone());
        let used_ns = cpu_ns() - began_ns;
        state = shared.lock();
        let is_done = !matches!(outcome, Outcome::Exhausted);
        let mut ended = Ended::nothing();
        match state.queue.settle(&chunk, used_ns, is_done) {
            Settled::Going => continue,
            Settled::Ended(waiters) => state.take_off(chunk.job, &waiters, &mut ended),
            Settled::Gone => {}
        }
        let is_over = state.is_over();
        drop(state);
        shared.after_end(is_over);
        ended.tell(outcome);
        state = shared.lock();
    }
}

fn attempt<T>(running: Running<T>, units: Range<u64>) -> Outcome<T> {
    let result = contained(|| (running.run)(units, &running.over));
    let _ = contained(|| drop(running));
    match result {
        Ok(ControlFlow::Break(found)) => Outcome::Found(found),
        Ok(ControlFlow::Continue(())) => Outcome::Exhausted,
        Err(words) => Outcome::Panicked(words),
    }
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
