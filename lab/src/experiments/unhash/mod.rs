//! The reverse-hash server (DTU's operating systems challenge): how many threads, which order, processes, a cache.
//!
//! What was published was measured on four cores of another machine, with another hash routine, so that seconds cannot be
//! compared. Here one core alone gets the load that one of theirs had: the requests are the published ones, smaller, and come the
//! faster the more this machine hashes. Scores are given in the published machine's time. As many cores as there are share what
//! four shared there.

mod cache;
mod load;
mod order;
mod processes;
mod program;
mod rows;
mod setting;
mod threads;

pub use cache::CACHE;
pub use order::ORDER;
pub use processes::PROCESSES;
pub use threads::THREADS;
