//! Tombola in the Linux kernel.
//!
//! ```text
//!   a program ── calls ──> BPF programs `call` and `tree`, pinned for all users ──┐
//!   tombola start ── scheduler ──> loads, attaches, pins, waits, removes ─────────┤  the scheduler (bpf/)
//!   tombola trace ── trace ──> ring buffer `draws`, pinned for root ──────────────┘
//! ```
//!
//! [`calls`] needs no privilege and no daemon. [`scheduler`] needs root, and its process only holds the scheduler. When that
//! process ends, for whatever reason, the kernel gives all threads back to its own scheduler.

pub mod abi;
mod addresses;
pub mod calls;
mod cpus;
pub mod currencies;
pub mod ejection;
mod error;
pub mod loans;
mod names;
pub mod percent;
mod runtime_dir;
pub mod sched_ext;
pub mod scheduler;
mod subordinate;
pub mod trace;
mod waits;

pub use cpus::{QUEUES_MAX, RunQueue, online_cpus};
pub use error::{Error, KERNEL_MIN, Result};
pub use names::{login_name, printable, process_name, user_name};
pub use runtime_dir::daemon_pid;

// Generated, with C's names and with parts that are not used: for one run queue, and for several.
#[allow(dead_code, unused_imports, clippy::all)]
mod one {
    include!(concat!(env!("OUT_DIR"), "/one.skel.rs"));
}
#[allow(dead_code, unused_imports, clippy::all)]
mod several {
    include!(concat!(env!("OUT_DIR"), "/several.skel.rs"));
}
