//! Worker threads, and the clients of jobs.
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

/// Tickets of a job if none are set.
pub const TICKETS_DEFAULT: u32 = 100;

/// What a client is told of its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// A chunk found what was sought.
    Found(T),
    /// All units were done, and nothing was found.
    Exhausted,
    /// The client cancelled, or the pool was aborted.
    Cancelled,
    /// A chunk panicked with this message.
    Panicked(String),
}

/// Whether a job is over. Chunks of it that still run are useless then.
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

/// Work that is done in chunks, by one worker or by several at once.
pub struct Job<T> {
    run: Arc<Run<T>>,
    request: Request,
}

impl<T> Job<T> {
    /// `run` is called for one range of 0..units after another, or for several at once, and breaks with what it has found. A
    /// chunk is not interrupted when the job is over; one of more than a millisecond should check [`Over`] from time to time.
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

    /// Units in a chunk: about a millisecond of work, as chunks are not interrupted. All of the job's if not set.
    #[must_use]
    pub fn chunk(mut self, units: u64) -> Self {
        self.request.chunk = units.max(1);
        self
    }

    /// 1 to 10000; 100 if not set. Panics outside of that range.
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

// Loom's Arc is not coerced to an Arc of a trait object.
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
    /// Present jobs are finished, new ones are refused.
    Closing,
    /// All jobs are cancelled, new ones are refused.
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
    /// No job is left, and new ones are refused.
    fn is_over(&self) -> bool {
        self.phase != Phase::Open && self.queue.is_empty()
    }

    /// Moves to `ended` what belonged to a job that has ended, and the answers of its clients `waiters`.
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

/// What is left of jobs that have ended. All of it is code of the pool's user, even its destructors, so none of it is dropped
/// or called under the lock, and none of it ends a worker.
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
            // An answer may panic; the others are called all the same.
            let _ = contained(|| answer(outcome.clone()));
        }
        let _ = contained(|| drop(self.runs));
        let _ = contained(|| drop(outcome));
    }
}

/// Calls code of the pool's user. A panic ends only that call.
fn contained<R>(users: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(users)).map_err(|panic| {
        let words = words(panic.as_ref());
        // The panic's payload may panic when it is dropped.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
            std::mem::forget(again);
        }
        words
    })
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// A chunk may be ready, or the pool is over.
    work: Condvar,
    /// There is room for one more job.
    room: Condvar,
    jobs_max: usize,
    width: Width,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().expect("nothing panics under the lock")
    }

    /// A job has ended, or has lost a client.
    fn after_end(&self, is_over: bool) {
        self.room.notify_one();
        if is_over {
            self.work.notify_all();
        }
    }
}

/// The settings of a pool.
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
    /// Worker threads, at least 1; as many as CPUs if not set.
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

    /// How many workers may work on one job at a time.
    #[must_use]
    pub fn width(mut self, width: Width) -> Self {
        self.width = width;
        self
    }

    /// The most jobs that have not ended, at least 1; 10,000 if not set.
    #[must_use]
    pub fn jobs_max(mut self, jobs: usize) -> Self {
        self.jobs_max = jobs;
        self
    }

    /// About the length of a chunk, charged in advance while it runs. 1 ms if not set. Panics outside of 1 us to 100 ms.
    #[must_use]
    pub fn quantum_ns(mut self, quantum_ns: u64) -> Self {
        check_quantum(quantum_ns);
        self.quantum_ns = quantum_ns;
        self
    }

    /// The lottery's seed; 0 if not set.
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

/// Threads that run the chunks of jobs, in the pool's [`Order`]. Dropping it is [`Pool::abort`].
pub struct Pool<T: Clone + Send + 'static> {
    shared: Arc<Shared<T>>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

/// A client that waits for a job. Dropping it changes nothing: the job is done all the same, and the answer called. A clone is
/// the same client.
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
    /// A new currency inside another. Its clients share what its tickets get. Panics if `tickets` is not 1 to 10000.
    pub fn currency(&self, inside: Currency, tickets: u32) -> Result<Currency, Refused> {
        check(tickets);
        self.shared.lock().queue.currency(inside, tickets)
    }

    /// Changes a currency's tickets, from the next chunk on. Panics if `tickets` is not 1 to 10000.
    pub fn fund(&self, currency: Currency, tickets: u32) -> Result<(), Refused> {
        check(tickets);
        self.shared.lock().queue.fund(currency, tickets)
    }

    /// Ends a currency. Refused while a client or a currency is in it.
    pub fn retire(&self, currency: Currency) -> Result<(), Refused> {
        self.shared.lock().queue.retire(currency)
    }

    /// Jobs that have not ended.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Takes a job, if there is room. `answer` is called once, without a lock held, by a worker or by the thread that cancels the
    /// job or ends the pool; it should be short. A panic in it ends nothing else. A job of no units is answered at once.
    pub fn try_submit(
        &self,
        job: &Job<T>,
        answer: impl FnOnce(Outcome<T>) + Send + 'static,
    ) -> Result<Waiting<T>, Refused> {
        self.take(job, Box::new(answer), false)
    }

    /// The same, but waits until there is room. Not to be called in an answer: all workers might wait for room that only workers
    /// can make.
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
                // This thread may have been woken for room that it does not take.
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

    /// Takes no more jobs, finishes the present ones, and ends the workers. Returns when they have ended, except a worker that
    /// calls it itself. A second call meanwhile returns at once.
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
                worker.join().expect("a worker catches panics");
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
    /// One more client waits for the same job, and pays for it as well. Panics if `tickets` is not 1 to 10000.
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

    /// The client leaves its job, and is told [`Outcome::Cancelled`] if it was not answered yet. The job goes on for its other
    /// clients.
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
            Settled::Unfinished => continue,
            Settled::Ended(waiters) => state.take_off(chunk.job, &waiters, &mut ended),
            Settled::EndedBefore => {}
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

/// CPU time of this thread, ns. A job is not charged while its worker sleeps or is preempted.
#[cfg(not(loom))]
fn cpu_ns() -> u64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives through the call, which cannot fail for the calling thread's own clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut used) };
    used.tv_sec.cast_unsigned() * 1_000_000_000 + used.tv_nsec.cast_unsigned()
}

#[cfg(loom)]
fn cpu_ns() -> u64 {
    0
}
