//! What the tasks of a simulated machine do.

use crate::random::Random;
use std::rc::Rc;

/// A millisecond in ns.
pub const MS: u64 = 1_000_000;
/// A second in ns.
pub const SECOND: u64 = 1000 * MS;

/// What a task does next.
pub enum Act {
    /// Computes for so many ns.
    Run(u64),
    /// Sleeps for so many ns.
    Nap(u64),
    /// Sleeps until this time; not at all if it is past.
    Until(u64),
    /// Sleeps until a period of so many ns is over. The first begins when the task starts, the next when the last is over; or
    /// now, if that is past already.
    Timer(u64),
    /// Takes a lock, by its number; sleeps until it is free. Locks go to the tasks in the order in which they asked.
    Lock(usize),
    /// Frees a lock that it holds.
    Unlock(usize),
    /// Gives up the CPU, but remains runnable.
    Yield,
    /// Makes a child in the same group, with as many tickets; nothing if there are too many tasks
    /// ([`crate::Simulation::limit_tasks`]).
    Fork(Program),
    /// Sleeps until no child lives.
    Await,
    /// Sleeps until fewer children than this number live.
    AwaitFewer(u32),
    /// Ends.
    Exit,
}

/// Returns a task's next act, from the number of the act, 1 at first.
pub type Program = Rc<dyn Fn(u64, &mut Random) -> Act>;

/// A program that computes for ever.
#[must_use]
pub fn hog() -> Program {
    Rc::new(|_, _| Act::Run(1 << 50))
}
