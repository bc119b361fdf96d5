//! Locks of run queues. A decision holds its queue's lock for a fixed time, and other CPUs wait for it in the order in which they
//! asked.

use serde::Serialize;

/// The locks of all run queues. With a time of 0 there are none.
#[derive(Default)]
pub(crate) struct QueueLocks {
    hold_ns: u64,
    locks: Vec<Lock>,
}

#[derive(Clone, Copy, Default)]
struct Lock {
    /// From when on it is free, ns.
    free_ns: u64,
    takes: u64,
    waited_ns: u64,
}

/// What a run queue's lock was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct QueueLock {
    /// The number of the run queue, from 0 on.
    pub queue: usize,
    /// How long it was held, ns.
    pub held_ns: u64,
    /// How often it was taken.
    pub takes: u64,
    /// How long CPUs waited for it, all together, ns.
    pub waited_ns: u64,
}

impl QueueLocks {
    /// Each decision holds a lock for so long.
    pub fn new(hold_ns: u64) -> Self {
        Self {
            hold_ns,
            locks: Vec::new(),
        }
    }

    pub fn are_modelled(&self) -> bool {
        self.hold_ns > 0
    }

    /// A CPU asks for a queue's lock now. Returns when its decision is made.
    pub fn take(&mut self, queue: usize, now: u64) -> u64 {
        if self.locks.len() <= queue {
            self.locks.resize(queue + 1, Lock::default());
        }
        let lock = &mut self.locks[queue];
        let begins = lock.free_ns.max(now);
        lock.takes += 1;
        lock.waited_ns += begins - now;
        lock.free_ns = begins + self.hold_ns;
        lock.free_ns
    }

    /// What each was used for up to now, up to the last one that was taken.
    pub fn used(&self, now: u64) -> impl Iterator<Item = QueueLock> {
        (self.locks.iter().enumerate()).map(move |(queue, lock)| QueueLock {
            queue,
            // Those who still hold it or wait follow each other without a gap.
            held_ns: lock.takes * self.hold_ns - lock.free_ns.saturating_sub(now),
            takes: lock.takes,
            waited_ns: lock.waited_ns,
        })
    }

    /// The lock that was held longest up to now.
    pub fn busiest(&self, now: u64) -> Option<QueueLock> {
        self.used(now)
            .reduce(|most, lock| match lock.held_ns > most.held_ns {
                true => lock,
                false => most,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_later_waits_for_those_before() {
        let mut locks = QueueLocks::new(10);
        assert_eq!(locks.busiest(0), None);
        assert_eq!(locks.take(1, 100), 110);
        assert_eq!(locks.take(1, 103), 120);
        assert_eq!(locks.take(0, 103), 113);
        assert_eq!(locks.take(1, 104), 130);
        let lock = |held_ns| QueueLock {
            queue: 1,
            held_ns,
            takes: 3,
            waited_ns: 7 + 16,
        };
        assert_eq!(locks.busiest(130), Some(lock(30)));
        let of_each: Vec<u64> = locks.used(130).map(|lock| lock.held_ns).collect();
        assert_eq!(of_each, [10, 30]);
        // What is still to come does not count.
        assert_eq!(locks.busiest(105), Some(lock(5)));
        assert_eq!(locks.take(1, 200), 210);
    }
}
