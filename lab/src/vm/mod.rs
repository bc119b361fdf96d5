//! A virtual machine with a kernel that has sched_ext, in QEMU's software
//! emulation: no KVM is needed, and the host's own kernel does not matter.
//! [`Mode::Kvm`] uses KVM where it works.
//!
//! ```no_run
//! use tombola_lab::vm::{Image, Machine, Mode};
//! let machine = Machine { cpus: 2, mode: Mode::measured(), ..Machine::default() };
//! let outcome = machine.run(&Image::base()?, &["uname", "-r"], |progress| eprintln!("{progress:?}"))?;
//! assert_eq!(outcome.status, 0);
//! println!("{}", outcome.output);
//! # anyhow::Ok(())
//! ```
//!
//! There are two ways to run, for two purposes. [`Mode::Parallel`] is fast, its
//! virtual CPUs are host threads and its time is the host's: for functional
//! tests. [`Mode::Measured`] counts time in instructions, so a run is the same
//! to the last bit whatever the host does: for measurements. In it all virtual
//! CPUs draw on one budget of instructions, so with more than one busy, judge
//! shares by CPU time and not by work done.
//!
//! Three channels leave the guest: the kernel's log by a serial port, the
//! command's output by the virtio console, its exit status by a port of its own.

pub mod cli;
mod cpio;
mod image;
mod log;
mod machine;
mod qemu;

pub use image::{Image, NAMED_USERS, NUMBERED_USERS, find_program, tombola_image, users};
pub use machine::{Kernel, Machine, Mode, Outcome, Progress};
