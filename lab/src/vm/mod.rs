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
mod qemu;

pub use cli::tombola_image;
pub use image::{Image, NUMBERED_USERS, PEOPLE, find_program, users};

use anyhow::{Context, Result, anyhow};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Kernel {
    /// The newest that the archive holds.
    Newest,
    /// The oldest that is supported.
    Oldest,
    /// The newest on which other people's schedulers load as well.
    Peers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Virtual CPUs run in parallel; time is wall time.
    Parallel,
    /// As `Parallel`, but KVM runs the virtual CPUs if it can be used. That is found out by trying: if the guest does not come
    /// to its command, the same machine boots once more on emulated CPUs, and `Progress::Boot` says why.
    Kvm,
    /// Time is counted: 2^`shift` ns per instruction. Runs that are alike but
    /// for `seed` differ as two real runs do; the spread over a few seeds is
    /// the honest error bar.
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
    pub memory_mib: u32,
    /// Size of a disk, `/dev/nvme0n1`; 0: none. It takes all that is written and keeps nothing, so that it can answer at
    /// once: the host's own disk would answer whenever it does, and no two runs be alike.
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
    /// A boot begins; `how` says by which CPUs and why. Lines of the boots before it are void.
    Boot { number: u32, how: &'a str },
    /// A line of the command's output.
    Line(&'a str),
}

/// How a command ended that ran to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// As in a shell: 128 + n if signal n killed it.
    pub status: i32,
    /// Standard output and standard error together, of the last boot alone.
    pub output: String,
    /// What the kernel said on its console after the boot.
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

impl Machine {
    /// Boots, runs `command` as root in `/root` and shuts down. A status other than 0 is not an error; a machine that crashed
    /// or took too long is.
    ///
    /// `watch` sees each line of output as it comes, to show it. A boot may turn out to be void and be repeated, so results
    /// are read from [`Outcome::output`]; `watch` is no `FnMut` lest they be collected there.
    pub fn run(
        &self,
        image: &Image,
        command: &[&str],
        watch: impl Fn(Progress),
    ) -> Result<Outcome> {
        qemu::run(self, image, command, watch)
    }

    /// The same for a line of shell.
    pub fn shell(&self, image: &Image, line: &str, watch: impl Fn(Progress)) -> Result<Outcome> {
        self.run(image, &["sh", "-c", line], watch)
    }
}

/// The directory with the fetched kernels and QEMU: `build/` of the source tree
/// that this program or the current directory lies in.
pub fn build_dir() -> Result<PathBuf> {
    Ok(source_root()?.join("build"))
}

pub(crate) fn source_root() -> Result<PathBuf> {
    let starts = [std::env::current_exe()?, std::env::current_dir()?];
    let is_root = |dir: &&Path| dir.join("lab/vm/fetch-kernel.sh").is_file();
    let root = starts
        .iter()
        .find_map(|start| start.ancestors().find(is_root));
    root.map(Path::to_owned).ok_or_else(|| {
        explain(
            "Tombola's source tree was not found",
            "neither this program nor the current directory lies in it",
            "change to the source tree and run this again",
        )
    })
}

fn kernel_trouble(log: &str) -> Vec<&str> {
    const SIGNS: [&str; 8] = [
        "Kernel panic",
        "BUG:",
        "Oops",
        "WARNING:",
        "Call Trace:",
        "rcu: INFO",
        "runtime error",
        "task stall",
    ];
    log.lines()
        .filter(|line| SIGNS.iter().any(|sign| line.contains(sign)))
        .collect()
}

/// The part of the kernel's log to show when the machine failed: from where the
/// trouble begins, or else the end.
fn telling_part(log: &str) -> String {
    const LINES: usize = 30;
    match kernel_trouble(log)
        .first()
        .and_then(|first| log.find(first))
    {
        Some(start) => log[start..]
            .lines()
            .take(LINES)
            .map(|line| format!("\n    {line}"))
            .collect(),
        None => last_lines(log, LINES),
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let start = lines.len().saturating_sub(count);
    lines[start..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect()
}

/// An error says what is the case, the likely cause and what to do.
pub(crate) fn explain(fact: &str, cause: &str, next: &str) -> anyhow::Error {
    anyhow!("{fact}\n  cause: {cause}\n  next:  {next}")
}

fn read_lossy(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_in_the_kernels_log_is_found() {
        let log = "[ 1.0] fine\n[ 2.0] Kernel panic - not syncing\n[ 3.0] fine\n";
        assert_eq!(kernel_trouble(log), ["[ 2.0] Kernel panic - not syncing"]);
    }

    #[test]
    fn an_error_shows_the_end_of_a_log() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "\n    b\n    c");
        assert_eq!(last_lines("", 2), "");
    }
}
