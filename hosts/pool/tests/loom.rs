//! Every order of events of small pools: `RUSTFLAGS="--cfg loom" cargo test --release -p tombola-pool --test loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use std::ops::ControlFlow::{Break, Continue};
use tombola_pool::{Currency, Job, Order, Outcome, Pool, Width};

fn pool(width: Width) -> Pool<u64> {
    pool_of(1, width)
}

fn pool_of(workers: usize, width: Width) -> Pool<u64> {
    let builder = Pool::builder().order(Order::Fifo).width(width);
    builder.workers(workers).jobs_max(1).build().unwrap()
}

/// Three or more threads have too many orders: tries only those with at most two preemptions.
fn model_of_many(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(f);
}

/// Counts the answers of each kind.
#[derive(Clone)]
struct Count {
    found: Arc<AtomicU32>,
    cancelled: Arc<AtomicU32>,
}

impl Count {
    fn new() -> Self {
        Self {
            found: Arc::new(AtomicU32::new(0)),
            cancelled: Arc::new(AtomicU32::new(0)),
        }
    }

    fn one(&self) -> impl FnOnce(Outcome<u64>) + Send + 'static {
        let count = self.clone();
        move |outcome| {
            let kind = match outcome {
                Outcome::Found(7) => count.found,
                Outcome::Cancelled => count.cancelled,
                other => panic!("{other:?}"),
            };
            kind.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn read(&self) -> (u32, u32) {
        let read = |count: &AtomicU32| count.load(Ordering::SeqCst);
        (read(&self.found), read(&self.cancelled))
    }
}

/// Finds 7 in the second of two units.
fn job() -> Job<u64> {
    Job::new(2, |range, _| match range.contains(&1) {
        true => Break(7),
        false => Continue(()),
    })
    .chunk(1)
}

#[test]
fn closing_waits_for_the_answer() {
    loom::model(|| {
        let (pool, count) = (pool(Width::All), Count::new());
        pool.submit(&job(), count.one()).unwrap();
        pool.close();
        assert_eq!(count.read(), (1, 0));
    });
}

#[test]
fn each_is_answered_once_though_the_pool_is_aborted() {
    loom::model(|| {
        let (pool, count) = (pool(Width::One), Count::new());
        pool.submit(&job(), count.one()).unwrap();
        pool.abort();
        let (found, cancelled) = count.read();
        assert_eq!(found + cancelled, 1);
    });
}

#[test]
fn clients_that_cancel_or_join_are_answered_once() {
    loom::model(|| {
        let (pool, count) = (pool(Width::All), Count::new());
        let first = pool.submit(&job(), count.one()).unwrap();
        let joined = first.join(1, Currency::BASE, count.one());
        first.cancel();
        pool.close();
        let (found, cancelled) = count.read();
        assert_eq!(found + cancelled, 1 + u32::from(joined.is_ok()));
    });
}

#[test]
fn a_submitter_that_waits_for_room_gets_it() {
    loom::model(|| {
        let (pool, count) = (pool(Width::All), Count::new());
        pool.submit(&job(), count.one()).unwrap();
        pool.submit(&job(), count.one()).unwrap();
        pool.close();
        assert_eq!(count.read(), (2, 0));
    });
}

#[test]
fn a_refused_submitter_leaves_the_room_to_the_next() {
    model_of_many(|| {
        let (pool, count) = (Arc::new(pool(Width::One)), Count::new());
        let retired = pool.currency(Currency::BASE, 1).unwrap();
        pool.retire(retired).unwrap();
        pool.submit(&Job::new(1, |_, _| Break(7)), count.one())
            .unwrap();
        let other = pool.clone();
        let refused = loom::thread::spawn(move || {
            let job = Job::new(1, |_, _| Break(7)).currency(retired);
            assert!(other.submit(&job, |_| ()).is_err());
        });
        pool.submit(&Job::new(1, |_, _| Break(7)), count.one())
            .unwrap();
        refused.join().unwrap();
        pool.close();
        assert_eq!(count.read(), (2, 0));
    });
}

#[test]
fn two_workers_answer_once() {
    model_of_many(|| {
        let (pool, count) = (pool_of(2, Width::All), Count::new());
        pool.submit(&job(), count.one()).unwrap();
        pool.close();
        assert_eq!(count.read(), (1, 0));
    });
}
