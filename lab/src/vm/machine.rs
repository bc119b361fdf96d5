//! A machine, and the outcome of a command in it.

use super::log::{kernel_trouble, last_lines};
use crate::explain::explain;
use anyhow::Result;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kernel {
    /// The newest that the archive holds.
    Newest,
    /// The oldest that is supported.
    Oldest,
    /// The newest on which scx_flash and scx_rusty load as well.
    Peers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Virtual CPUs run in parallel; time is wall time.
    Parallel,
    /// As `Parallel`, but KVM runs the virtual CPUs if it can be used. It is tried: if the guest does not reach its
    /// command, the same machine boots once more on emulated CPUs, and `Progress::Boot` says why.
    Kvm,
    /// Time is counted: 2^`shift` ns per instruction. Runs that differ only
    /// in `seed` differ as two real runs do; the spread over a few seeds is the
    /// error bar.
    Measured { shift: u32, seed: u64 },
}

impl Mode {
    /// 8 ns per instruction, 125 million a second: a slow CPU, but 4 to 6 guest
    /// seconds pass in each host second.
    pub const SHIFT_DEFAULT: u32 = 3;

    pub fn measured() -> Self {
        Self::seeded(0)
    }

    pub fn seeded(seed: u64) -> Self {
        Mode::Measured {
            shift: Self::SHIFT_DEFAULT,
            seed,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Machine {
    pub cpus: u32,
    /// Last-level caches, among which the CPUs are divided evenly.
    pub caches: u32,
    pub memory_mib: u32,
    /// Size of a disk, `/dev/nvme0n1`; 0: none. It discards all that is written, so that it can answer at once: the
    /// host's disk would answer at a different time in each run.
    pub disk_mib: u32,
    pub kernel: Kernel,
    pub mode: Mode,
    /// In host time; the machine is killed after it.
    pub timeout: Duration,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cpus: 1,
            caches: 1,
            memory_mib: 1024,
            disk_mib: 0,
            kernel: Kernel::Newest,
            mode: Mode::Parallel,
            timeout: Duration::from_secs(120),
        }
    }
}

/// What a machine reports while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress<'a> {
    /// A boot begins; `how` says on which CPUs and why. Lines of earlier boots do not count.
    Boot { number: u32, how: &'a str },
    /// A line of the command's output.
    Line(&'a str),
}

/// The outcome of a command that ran to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// As in a shell: 128 + n if signal n killed it.
    pub status: i32,
    /// Standard output and standard error together, of the last boot alone.
    pub output: String,
    /// What the kernel printed on its console.
    pub kernel_log: String,
    pub host_seconds: f64,
}

impl Outcome {
    /// Lines of the kernel's log that should never be there, or that say that
    /// a scheduler was ejected.
    pub fn kernel_trouble(&self) -> Vec<&str> {
        kernel_trouble(&self.kernel_log)
    }

    /// The output of a command that had to succeed.
    pub fn success(self) -> Result<String> {
        if self.status == 0 {
            return Ok(self.output);
        }
        Err(explain(
            &format!("the command in the guest ended with status {}", self.status),
            &format!("its output ends: {}", last_lines(&self.output, 10)),
            "run it by hand: tombola-lab vm -- COMMAND",
        ))
    }
}
