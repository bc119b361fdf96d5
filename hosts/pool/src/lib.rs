//! Jobs inside one process: whose work is next.
//!
//! Servers get more requests than they can serve at once. A pool does their work in chunks of about a millisecond, and before
//! each chunk it chooses: by arrival, by priority, by priority for the work that is left ([`Order::Gittins`]), or in proportion
//! to tickets, with the currencies, the lottery and the strides of the kernel's scheduler, which are the same code.
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
//! A job may be worked on by all workers at once or by one ([`Width`]), joined by others who want the same ([`Waiting::join`]),
//! and cancelled. A panic in a chunk is its job's [`Outcome`]. The queue is bounded: [`Pool::submit`] waits for room,
//! [`Pool::try_submit`] says that there is none. No lock is held while a chunk runs, and a choice takes O(log n).
//!
//! [`queue::RunQueue`] is all of that but the threads and the clock, for simulations and other event loops.

mod order;
mod pool;
pub mod queue;
mod sync;

pub use order::{Order, UnknownName, Width};
pub use pool::{Builder, Job, Outcome, Over, Pool, TICKETS_DEFAULT, Waiting};
pub use queue::{Currency, QUANTUM_NS, Refused, TICKETS};
