//! The reverse-hash server (DTU's operating systems challenge): how many threads, which order, processes, a cache.
//!
//! The published scores were measured on four cores of another machine, with another hash routine, so that seconds cannot be
//! compared. Here one core, alone, gets the load that one core had there: the requests are the published ones with smaller
//! ranges, at a rate in proportion to this machine's hashes a second. Scores are given in the published machine's time. All
//! cores of this machine share what four shared there.

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
