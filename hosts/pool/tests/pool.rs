//! The pool with threads. The assertions hold in every order of events; loom.rs tries those orders.

use std::collections::BTreeSet;
use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use tombola_pool::{Currency, Job, Order, Outcome, Pool, Refused, Width};

fn pool(order: Order, width: Width, workers: usize) -> Pool<u64> {
    let builder = Pool::builder().order(order).width(width);
    builder.workers(workers).build().unwrap()
}

fn tell<T: Send + 'static>(answers: &Sender<T>) -> impl FnOnce(T) + Send + 'static {
    let answers = answers.clone();
    move |outcome| answers.send(outcome).unwrap()
}

/// Finds `number` among 1000.
fn search(number: u64) -> Job<u64> {
    Job::new(1000, move |range, _| match range.contains(&number) {
        true => Break(number),
        false => Continue(()),
    })
    .chunk(10)
}

/// A job whose only chunk runs until the gate opens.
struct Gate {
    job: Job<u64>,
    begun: Receiver<()>,
    open: Sender<()>,
}

impl Gate {
    fn new() -> Self {
        let ((begin, begun), (open, opened)) = (channel(), channel());
        let opened = Mutex::new(opened);
        let job = Job::new(1, move |_, _| {
            begin.send(()).unwrap();
            let _ = opened.lock().unwrap().recv();
            Continue(())
        });
        Self { job, begun, open }
    }

    /// Occupies the pool's only worker.
    fn shut(&self, pool: &Pool<u64>) {
        pool.submit(&self.job, |_| ()).unwrap();
        self.begun.recv().unwrap();
    }
}

#[test]
fn every_answer_is_right_in_every_order() {
    for order in Order::ALL {
        for width in [Width::One, Width::All] {
            let pool = pool(order, width, 4);
            let (answer, answers) = channel();
            for number in 0..1100 {
                let answer = answer.clone();
                let told = move |outcome| answer.send((number, outcome)).unwrap();
                pool.submit(&search(number).tickets(number as u32 % 7 + 1), told)
                    .unwrap();
            }
            drop(answer);
            let mut seen = BTreeSet::new();
            for (number, outcome) in answers {
                let right = match number {
                    0..1000 => Outcome::Found(number),
                    _ => Outcome::Exhausted,
                };
                assert_eq!(outcome, right, "{order:?} {width:?}");
                assert!(seen.insert(number), "{number} is answered once");
            }
            assert_eq!(seen.len(), 1100);
            pool.close();
        }
    }
}

#[test]
fn all_workers_work_on_one_job() {
    const WORKERS: usize = 3;
    let pool = pool(Order::Gittins, Width::All, WORKERS);
    let all = Arc::new(Barrier::new(WORKERS));
    let (answer, answers) = channel();
    // Each chunk waits until all workers are in one.
    let job = Job::new(WORKERS as u64, move |_, _| {
        all.wait();
        Continue(())
    });
    pool.submit(&job.chunk(1), tell(&answer)).unwrap();
    assert_eq!(answers.recv().unwrap(), Outcome::Exhausted);
}

#[test]
fn clients_that_join_are_answered_and_the_work_is_done_once() {
    let pool = pool(Order::Stride, Width::All, 1);
    let gate = Gate::new();
    gate.shut(&pool);
    let done = Arc::new(AtomicU64::new(0));
    let count = done.clone();
    let job = Job::new(1, move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
        Break(7)
    });
    let (answer, answers) = channel();
    let first = pool.submit(&job, tell(&answer)).unwrap();
    let joined = first.join(50, Currency::BASE, tell(&answer)).unwrap();
    joined.join(50, Currency::BASE, tell(&answer)).unwrap();
    gate.open.send(()).unwrap();
    for _ in 0..3 {
        assert_eq!(answers.recv().unwrap(), Outcome::Found(7));
    }
    assert_eq!(done.load(Ordering::SeqCst), 1);
    let late = first.join(50, Currency::BASE, tell(&answer));
    assert_eq!(late.err(), Some(Refused::Ended));
}

#[test]
fn only_the_client_that_cancels_is_told_so() {
    let pool = pool(Order::Gittins, Width::All, 1);
    let gate = Gate::new();
    gate.shut(&pool);
    let (answer, answers) = channel();
    let (other, others) = channel();
    let first = pool.submit(&search(5), tell(&answer)).unwrap();
    first.join(1, Currency::BASE, tell(&other)).unwrap();
    let alone = pool.submit(&search(6), tell(&answer)).unwrap();
    first.cancel();
    alone.cancel();
    assert_eq!(answers.recv().unwrap(), Outcome::Cancelled);
    assert_eq!(answers.recv().unwrap(), Outcome::Cancelled);
    assert_eq!(
        pool.jobs(),
        2,
        "the gate, and the job that another client waits for"
    );
    gate.open.send(()).unwrap();
    assert_eq!(others.recv().unwrap(), Outcome::Found(5));
}

#[test]
fn a_panic_is_its_own_jobs_outcome() {
    let pool = pool(Order::Fifo, Width::All, 2);
    let (answer, answers) = channel();
    for n in 0..20 {
        let job = Job::new(100, move |_, _| panic!("number {n}"));
        let told = |_| panic!("an answer may panic, too");
        pool.submit(&job, told).unwrap();
        pool.submit(&job, tell(&answer)).unwrap();
        assert_eq!(
            answers.recv().unwrap(),
            Outcome::Panicked(format!("number {n}"))
        );
    }
    pool.submit(&search(3), tell(&answer)).unwrap();
    assert_eq!(answers.recv().unwrap(), Outcome::Found(3));
}

#[test]
fn a_full_queue_refuses_or_makes_wait() {
    let pool = Pool::builder().workers(1).jobs_max(2);
    let pool: Pool<u64> = pool.build().unwrap();
    let gate = Gate::new();
    gate.shut(&pool);
    let (answer, answers) = channel();
    pool.try_submit(&search(1), tell(&answer)).unwrap();
    let refused = pool.try_submit(&search(2), tell(&answer));
    assert_eq!(refused.err(), Some(Refused::Full));
    std::thread::scope(|scope| {
        scope.spawn(|| pool.submit(&search(3), tell(&answer)).unwrap());
        gate.open.send(()).unwrap();
    });
    let mut found: Vec<_> = (0..2).map(|_| answers.recv().unwrap()).collect();
    found.sort_by_key(|outcome| *outcome == Outcome::Found(3));
    assert_eq!(found, [Outcome::Found(1), Outcome::Found(3)]);
}

#[test]
fn closing_does_what_is_there_and_aborting_does_not() {
    for close in [true, false] {
        let pool = pool(Order::Gittins, Width::All, 1);
        let gate = Gate::new();
        gate.shut(&pool);
        let (answer, answers) = channel();
        for number in 0..50 {
            pool.submit(&search(number), tell(&answer)).unwrap();
        }
        drop(answer);
        drop(gate.open); // this opens the gate, too
        match close {
            true => pool.close(),
            false => pool.abort(),
        }
        let outcomes: Vec<_> = answers.iter().collect();
        assert_eq!(outcomes.len(), 50);
        if close {
            assert!(
                outcomes
                    .iter()
                    .all(|outcome| matches!(outcome, Outcome::Found(_)))
            );
        }
    }
}

#[test]
fn aborting_cancels_what_has_not_begun() {
    let pool = pool(Order::Fifo, Width::All, 1);
    let gate = Gate::new();
    gate.shut(&pool);
    let (answer, answers) = channel();
    pool.submit(&search(1), tell(&answer)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| pool.abort());
        // The worker is in the gate, so only the abort can answer.
        assert_eq!(answers.recv().unwrap(), Outcome::Cancelled);
        gate.open.send(()).unwrap();
    });
}

#[test]
fn a_job_of_nothing_is_exhausted() {
    let pool = pool(Order::Gittins, Width::All, 1);
    let (answer, answers) = channel();
    let nothing = Job::new(0, |_, _| Break(1));
    pool.submit(&nothing, tell(&answer)).unwrap();
    assert_eq!(answers.recv().unwrap(), Outcome::Exhausted);
}

/// Calls its function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn what_jobs_and_answers_own_is_dropped_without_the_lock() {
    let pool: Arc<Pool<Arc<dyn Send + Sync>>> =
        Arc::new(Pool::builder().workers(2).build().unwrap());
    let owned = |pool: &Arc<Pool<_>>| {
        let pool = Arc::downgrade(pool);
        OnDrop(move || {
            if let Some(pool) = pool.upgrade() {
                let _ = pool.jobs(); // would wait for ever if the lock were held
            }
        })
    };
    for found in [true, false] {
        for _ in 0..50 {
            let (of_job, of_answer) = (owned(&pool), owned(&pool));
            let weak = Arc::downgrade(&pool);
            let job = Job::new(4, move |_, _| {
                let _ = &of_job;
                let pool = weak.upgrade().unwrap();
                match found {
                    true => Break(Arc::new(owned(&pool)) as Arc<dyn Send + Sync>),
                    false => std::panic::panic_any(owned(&pool)),
                }
            });
            let (answer, answers) = channel();
            let told = move |_| {
                let _ = &of_answer;
                answer.send(()).unwrap();
            };
            let waiting = pool.submit(&job.chunk(1), told).unwrap();
            if found {
                answers.recv().unwrap();
            }
            waiting.cancel();
        }
    }
    pool.close();
}

#[test]
fn destructors_may_panic() {
    let pool = pool(Order::Fifo, Width::All, 1);
    let (answer, answers) = channel();
    let bomb = || OnDrop(|| panic!("dropped"));
    for _ in 0..3 {
        let (of_job, of_answer) = (bomb(), bomb());
        let job = Job::new(1, move |_, _| {
            let _ = &of_job;
            std::panic::panic_any(bomb());
        });
        let told = move |_| drop(of_answer);
        pool.submit(&job, told).unwrap();
    }
    pool.submit(&search(3), tell(&answer)).unwrap();
    assert_eq!(answers.recv().unwrap(), Outcome::Found(3));
}

#[test]
fn a_closed_pool_takes_no_more() {
    let pool = pool(Order::Fifo, Width::All, 1);
    let gate = Gate::new();
    gate.shut(&pool);
    let (answer, answers) = channel();
    let waiting = pool.submit(&search(1), tell(&answer)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| pool.close());
        let refused = loop {
            match pool.try_submit(&search(2), |_| ()) {
                Ok(early) => early.cancel(),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, Refused::Closed);
        assert_eq!(pool.submit(&search(2), |_| ()).err(), Some(Refused::Closed));
        waiting.join(1, Currency::BASE, tell(&answer)).unwrap();
        gate.open.send(()).unwrap();
    });
    for _ in 0..2 {
        assert_eq!(answers.recv().unwrap(), Outcome::Found(1));
    }
    waiting.cancel();
}

#[test]
fn an_answer_may_drop_the_pool() {
    let pool = Arc::new(pool(Order::Fifo, Width::All, 2));
    let gate = Gate::new();
    let (answer, answers) = channel();
    let owned = pool.clone();
    let told = move |_| {
        drop(owned);
        answer.send(()).unwrap();
    };
    pool.submit(&gate.job, told).unwrap();
    gate.begun.recv().unwrap();
    drop(pool);
    gate.open.send(()).unwrap();
    answers.recv().unwrap();
}

#[test]
fn a_currency_of_another_pool_is_refused() {
    let [mine, other] = [(); 2].map(|()| pool(Order::Stride, Width::All, 1));
    let theirs = other.currency(Currency::BASE, 5).unwrap();
    let refused = mine.submit(&search(1).currency(theirs), |_| ());
    assert_eq!(refused.err(), Some(Refused::NoSuchCurrency));
    let (answer, answers) = channel();
    let own = mine.currency(Currency::BASE, 5).unwrap();
    mine.fund(own, 7).unwrap();
    mine.submit(&search(1).currency(own), tell(&answer))
        .unwrap();
    assert_eq!(answers.recv().unwrap(), Outcome::Found(1));
    mine.close();
    mine.retire(own).unwrap();
}

#[test]
fn a_chunk_sees_that_its_job_is_over() {
    let pool = pool(Order::Fifo, Width::All, 2);
    let until_over = || {
        let (begin, begun) = channel();
        let job = Job::new(2, move |range, over| {
            if range.start == 0 {
                begin.send(()).unwrap();
                while !over.is_set() {
                    std::thread::yield_now();
                }
                return Continue(());
            }
            Break(7)
        });
        (job, begun)
    };
    // The other worker finds the result.
    let (answer, answers) = channel();
    let (job, _begun) = until_over();
    pool.submit(&job.chunk(1), tell(&answer)).unwrap();
    assert_eq!(answers.recv().unwrap(), Outcome::Found(7));
    // The only client cancels, during a chunk that would not end.
    let (job, begun) = until_over();
    let waiting = pool.submit(&job, tell(&answer)).unwrap();
    begun.recv().unwrap();
    waiting.cancel();
    assert_eq!(answers.recv().unwrap(), Outcome::Cancelled);
    // The pool is aborted.
    let (job, begun) = until_over();
    pool.submit(&job, tell(&answer)).unwrap();
    begun.recv().unwrap();
    pool.abort();
    assert_eq!(answers.recv().unwrap(), Outcome::Cancelled);
}
