//! Where requests are handed in: what is known is answered at once, what is being worked on is joined, the rest is a new job.

use crate::engine::Engine;
use crate::kernel::Target;
use crate::output::warn;
use crate::protocol::{NOT_FOUND, Request};
use lru::LruCache;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;
use tombola_pool::{
    Currency, Job, Order, Outcome, Over, Pool, QUANTUM_NS, Refused, Waiting, Width,
};

/// Numbers that are tried before the next choice: a millisecond or so.
pub const CHUNK: u64 = 65_536;
/// What a number takes, about: only to charge chunks in advance.
const NS_EACH: f64 = 10.0;

/// What a chunk takes, for the pool; 0 is a whole range.
#[must_use]
pub fn quantum_ns(chunk: u64, ns_each: f64) -> u64 {
    let (least, most) = (*QUANTUM_NS.start(), *QUANTUM_NS.end());
    match chunk {
        0 => most,
        numbers => ((numbers as f64 * ns_each) as u64).clamp(least, most),
    }
}

/// How requests are served.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub workers: usize,
    pub order: Order,
    pub width: Width,
    /// Numbers of a chunk; 0: the whole range, so that nothing is preempted.
    pub chunk: u64,
    /// How many answers are remembered; 0: none, and equal requests are worked on apart.
    pub cache: usize,
    /// How many jobs there may be at once.
    pub jobs_max: usize,
    /// No number of a longer range is tried.
    pub range_max: u64,
}

pub struct Dispatcher {
    settings: Settings,
    shared: Arc<Shared>,
    pool: Pool<u64>,
    /// Numbers that were given out, each once.
    serial: AtomicU64,
}

struct Shared {
    engine: Engine,
    book: Mutex<Book>,
    /// Numbers tried so far, and requests by how they were answered.
    tried: AtomicU64,
    remembered: AtomicU64,
    joined: AtomicU64,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nothing panics under the lock")
    }
}

/// What is known, and what is being worked on. Its lock may be held while the pool's is taken, not the other way.
struct Book {
    answers: LruCache<[u8; 32], u64>,
    answers_max: usize,
    in_work: HashMap<Wanted, InWork>,
}

impl Book {
    fn answer(&mut self, wanted: &Wanted) -> Option<u64> {
        let number = *self.answers.get(&wanted.digest)?;
        wanted.range.contains(&number).then_some(number)
    }

    fn remember(&mut self, digest: [u8; 32], number: u64) {
        self.answers.put(digest, number);
        if self.answers.len() > self.answers_max {
            self.answers.pop_lru();
        }
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Wanted {
    digest: [u8; 32],
    range: Range<u64>,
    /// Whose job this is, if equal ones are not joined.
    apart: Option<u64>,
}

struct InWork {
    /// Which of all jobs that there were: another may have taken its place meanwhile.
    job: u64,
    priority: u8,
    tried: Arc<AtomicU64>,
    waiting: Waiting<u64>,
}

/// What the closure of a job owns. It is dropped when the job has ended and nobody works on it any more.
struct Search {
    shared: Arc<Shared>,
    job: u64,
    wanted: Wanted,
    target: Target,
    tried: Arc<AtomicU64>,
}

impl Search {
    fn chunk(&self, units: Range<u64>, over: &Over) -> ControlFlow<u64> {
        let Wanted { digest, range, .. } = &self.wanted;
        let engine = &self.shared.engine;
        let end = range.start + units.end;
        let mut next = range.start + units.start;
        while next < end && !over.is_set() {
            let part = next..end.min(next.saturating_add(engine.look()));
            next = part.end;
            let found = engine.search(&self.target, digest, part.clone());
            let last = found.unwrap_or(part.end - 1);
            let tried = last + 1 - part.start;
            self.tried.fetch_add(tried, Relaxed);
            self.shared.tried.fetch_add(tried, Relaxed);
            if let Some(number) = found {
                self.shared.book().remember(*digest, number);
                return ControlFlow::Break(number);
            }
        }
        ControlFlow::Continue(())
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        let mut book = self.shared.book();
        let entry = book.in_work.get(&self.wanted);
        let is_own = entry.is_some_and(|in_work| in_work.job == self.job);
        let removed = is_own.then(|| book.in_work.remove(&self.wanted));
        // What it owns is dropped without the lock.
        drop(book);
        drop(removed);
    }
}

/// What the dispatcher says to a request.
pub enum Reply {
    Now(u64),
    Later(Later),
}

/// An answer that is to come. Who drops it waits no more, and the work ends with the last who waited for it.
pub struct Later {
    answer: oneshot::Receiver<u64>,
    waiting: Waiting<u64>,
}

impl Later {
    pub async fn answer(&mut self) -> u64 {
        (&mut self.answer).await.unwrap_or(NOT_FOUND)
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.waiting.cancel();
    }
}

fn answer() -> (impl FnOnce(Outcome<u64>), oneshot::Receiver<u64>) {
    let (tell, answer) = oneshot::channel();
    let tell = move |outcome| {
        let number = match outcome {
            Outcome::Found(number) => number,
            Outcome::Exhausted | Outcome::Cancelled => NOT_FOUND,
            Outcome::Panicked(words) => {
                warn(format_args!(
                    "a search has failed, and is answered as if in vain: {words}"
                ));
                NOT_FOUND
            }
        };
        // Who asked may have gone.
        let _ = tell.send(number);
    };
    (tell, answer)
}

/// A job, and how far it is.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq)]
pub struct Progress {
    /// Hexadecimal.
    pub digest: String,
    pub range: Range<u64>,
    /// Of the request that it was made for.
    pub priority: u8,
    pub tried: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub tried: u64,
    pub remembered: u64,
    pub joined: u64,
}

impl Dispatcher {
    pub fn open(settings: Settings, engine: Engine) -> io::Result<Self> {
        let pool = Pool::builder()
            .workers(settings.workers)
            .order(settings.order)
            .width(settings.width)
            .jobs_max(settings.jobs_max)
            .quantum_ns(quantum_ns(settings.chunk, NS_EACH));
        Ok(Self {
            settings,
            shared: Arc::new(Shared {
                engine,
                book: Mutex::new(Book {
                    answers: LruCache::unbounded(),
                    answers_max: settings.cache,
                    in_work: HashMap::new(),
                }),
                tried: AtomicU64::new(0),
                remembered: AtomicU64::new(0),
                joined: AtomicU64::new(0),
            }),
            pool: pool.build()?,
            serial: AtomicU64::new(0),
        })
    }

    /// The answer, if it needs no work: it is remembered, or cannot be found.
    #[must_use]
    pub fn known(&self, request: &Request) -> Option<u64> {
        if !(1..=self.settings.range_max).contains(&request.units()) {
            return Some(NOT_FOUND);
        }
        let wanted = self.wanted(request);
        let number = self.shared.book().answer(&wanted)?;
        self.shared.remembered.fetch_add(1, Relaxed);
        Some(number)
    }

    /// Never waits. Refused if there are too many jobs, or it is closed.
    pub fn ask(&self, request: &Request) -> Result<Reply, Refused> {
        if let Some(number) = self.known(request) {
            return Ok(Reply::Now(number));
        }
        let wanted = self.wanted(request);
        let tickets = u32::from(request.priority.max(1));
        // Dropped after the lock, as what a job owns takes it to leave the book.
        let work;
        let mut book = self.shared.book();
        if let Some(in_work) = book.in_work.get(&wanted) {
            let (tell, answer) = answer();
            // If not, it has just ended.
            if let Ok(waiting) = in_work.waiting.join(tickets, Currency::BASE, tell) {
                self.shared.joined.fetch_add(1, Relaxed);
                return Ok(Reply::Later(Later { answer, waiting }));
            }
        }
        let search = Search {
            shared: self.shared.clone(),
            job: self.serial.fetch_add(1, Relaxed),
            wanted: wanted.clone(),
            target: Target::new(request.digest),
            tried: Arc::default(),
        };
        let (job, tried) = (search.job, search.tried.clone());
        let chunk = match self.settings.chunk {
            0 => request.units(),
            numbers => numbers,
        };
        work = Job::new(request.units(), move |units, over| {
            search.chunk(units, over)
        })
        .chunk(chunk)
        .tickets(tickets);
        let (tell, answer) = answer();
        let waiting = self.pool.try_submit(&work, tell)?;
        let priority = request.priority;
        let in_work = InWork {
            job,
            priority,
            tried,
            waiting: waiting.clone(),
        };
        book.in_work.insert(wanted, in_work);
        Ok(Reply::Later(Later { answer, waiting }))
    }

    fn wanted(&self, request: &Request) -> Wanted {
        let is_apart = self.settings.cache == 0;
        Wanted {
            digest: request.digest,
            range: request.range.clone(),
            apart: is_apart.then(|| self.serial.fetch_add(1, Relaxed)),
        }
    }

    /// What is being worked on, the most tried first.
    #[must_use]
    pub fn progress(&self, at_most: usize) -> Vec<Progress> {
        let tried = |in_work: &InWork| in_work.tried.load(Relaxed);
        let book = self.shared.book();
        let mut all: Vec<(u64, &Wanted, &InWork)> = book
            .in_work
            .iter()
            .map(|(wanted, in_work)| (tried(in_work), wanted, in_work))
            .collect();
        all.sort_unstable_by_key(|(tried, _, in_work)| (Reverse(*tried), in_work.job));
        let of = |(tried, wanted, in_work): (u64, &Wanted, &InWork)| Progress {
            digest: hex(&wanted.digest),
            range: wanted.range.clone(),
            priority: in_work.priority,
            tried,
        };
        all.into_iter().take(at_most).map(of).collect()
    }

    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            tried: self.shared.tried.load(Relaxed),
            remembered: self.shared.remembered.load(Relaxed),
            joined: self.shared.joined.load(Relaxed),
        }
    }

    /// Jobs that have not ended.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.pool.jobs()
    }

    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whoever still waits is told that nothing was found; nothing more is tried.
    pub fn close(&self) {
        self.pool.abort();
    }
}

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text takes all");
        text
    })
}
