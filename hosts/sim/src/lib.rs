//! A simulated machine, and the schedulers that run on it.
//!
//! [`Simulation`] has CPUs, tasks with programs, and one [`Scheduler`]: [`Tombola`], which is the C that runs in the kernel, or a
//! historic one. Time is virtual, in ns; the same seed gives the same history. The machine models less than a kernel, never what
//! a kernel cannot do: no caches but for what a migration costs, no interrupts.
//!
//! ```
//! use tombola_core::Rules;
//! use tombola_sim::{Costs, SECOND, Scheduler, Simulation, Tombola, hog};
//!
//! let mut simulation = Simulation::new(Tombola::new(Rules::stride(1_000_000)), 1, Costs::default(), 1);
//! let (alice, bob) = (simulation.scheduler.user(3000), simulation.scheduler.user(1000));
//! let [of_alice, of_bob] = [alice, bob].map(|user| simulation.task(user, 100, hog()));
//! simulation.run_until(SECOND);
//! let machine = &simulation.machine;
//! assert!(machine.ran_ns(of_alice).abs_diff(3 * machine.ran_ns(of_bob)) <= 4_000_000);
//! ```

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod entitlement;
mod groups;
pub mod historic;
mod machine;
pub mod plan;
mod program;
mod queue_lock;
mod queues;
mod random;
mod scheduler;
mod simulation;
mod tombola;

pub use machine::{ANYWHERE, Costs, Machine, NO_END, Task, TaskId, Topology};
pub use program::{Act, MS, Program, SECOND, hog};
pub use queue_lock::QueueLock;
pub use queues::{Balance, RunQueues};
pub use random::Random;
pub use scheduler::{RunQueueCounts, Scheduler};
pub use simulation::Simulation;
pub use tombola::Tombola;
pub use tombola_core::{Rules, limits};
