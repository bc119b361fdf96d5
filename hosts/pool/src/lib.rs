//! Jobs inside one process: which job's work is next.
//!
//! Servers get more requests than they can serve at once. A pool does their work in chunks of about a millisecond, and chooses
//! a job before each chunk: in the order of submission, by priority, by priority per unit of work left ([`Order::Gittins`]), or
//! in proportion to tickets, with the same code (currencies, lottery, stride) as the kernel's scheduler.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::mpsc::channel;
//! use tombola_pool::{Job, Order, Outcome, Pool};
//!
//! let pool = Pool::builder().workers(2).order(Order::Stride).build()?;
//! let (answer, answers) = channel();
//! let search = Job::new(1_000_000, |range, _| match range.into_iter().find(|n| n * n == 1_771_561) {
//!     Some(root) => ControlFlow::Break(root),
//!     None => ControlFlow::Continue(()),
//! });
//! pool.submit(&search.chunk(1000).tickets(300), move |outcome| answer.send(outcome).unwrap())?;
//! assert_eq!(answers.recv()?, Outcome::Found(1331));
//! pool.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All workers may work on a job at once, or only one ([`Width`]). Clients that want the same work join its job
//! ([`Waiting::join`]), and may cancel. A panic in a chunk is its job's [`Outcome`]. The queue is bounded: [`Pool::submit`]
//! waits for room, [`Pool::try_submit`] is refused if there is none. No lock is held while a chunk runs, and a choice takes
//! O(log n).
//!
//! [`queue::RunQueue`] is all of that without the threads and the clock, for simulations and other event loops.

mod order;
mod pool;
pub mod queue;
mod sync;

pub use order::{Order, UnknownName, Width};
pub use pool::{Builder, Job, Outcome, Over, Pool, TICKETS_DEFAULT, Waiting};
pub use queue::{Currency, QUANTUM_NS, Refused, TICKETS};
