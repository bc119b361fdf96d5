//! `tombola-lab vm`: one command in a virtual machine, by hand.

use super::image::{Image, tombola_image};
use super::machine::{Kernel, Machine, Mode, Progress};
use crate::explain::explain;
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::io::{IsTerminal, stdout};
use std::path::Path;
use std::time::Duration;

#[derive(clap::Args)]
pub struct VmArgs {
    /// Virtual CPUs
    #[arg(long, default_value_t = 2)]
    cpus: u32,
    /// Last-level caches, among which the CPUs are divided evenly
    #[arg(long, default_value_t = 1)]
    caches: u32,
    /// Memory in MiB
    #[arg(long, default_value_t = 1024)]
    memory: u32,
    /// Size in MiB of a disk, /dev/nvme0n1, that discards all that is written
    #[arg(long, default_value_t = 0)]
    disk: u32,
    #[arg(long, value_enum, default_value_t = Kernel::Newest)]
    kernel: Kernel,
    /// Use KVM if it can be used, emulated CPUs if not
    #[arg(long, conflicts_with = "measured")]
    kvm: bool,
    /// Count time in instructions: every run is the same
    #[arg(long)]
    measured: bool,
    /// An instruction takes 2^SHIFT ns
    #[arg(long, requires = "measured", default_value_t = Mode::SHIFT_DEFAULT)]
    shift: u32,
    /// Runs with another seed differ
    #[arg(long, requires = "measured", default_value_t = 0)]
    seed: u64,
    /// Switch the machine off after this many seconds of host time
    #[arg(long, default_value_t = 600.0)]
    timeout: f64,
    /// Boot Debian with systemd, without Tombola's programs, in place of a small system that has them
    #[arg(long)]
    debian: bool,
    /// Put a program (with its libraries), file or directory of the host into
    /// the guest: HOST goes to /usr/bin, HOST:GUEST to the path GUEST
    #[arg(long, value_name = "HOST[:GUEST]")]
    add: Vec<String>,
    /// Show the kernel's log, after the command's output
    #[arg(long)]
    kernel_log: bool,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

impl VmArgs {
    /// The status of the command in the guest.
    pub fn run(&self) -> Result<u8> {
        let mut image = match self.debian {
            true => Image::debian()?,
            false => tombola_image()?,
        };
        for item in &self.add {
            add(&mut image, item)?;
        }
        let command: Vec<_> = self.command.iter().map(String::as_str).collect();
        // Output cannot be taken back if the boot is repeated, so it is printed at once only on a terminal, or in counted time,
        // where no boot is repeated.
        let live = self.measured || stdout().is_terminal();
        let held = RefCell::new(String::new());
        let outcome = self
            .machine()
            .run(&image, &command, |progress| match progress {
                Progress::Boot { number: 1, .. } if !self.kvm => {}
                Progress::Boot { number, how } => {
                    eprintln!("tombola-lab: boot {number}, {how}");
                    held.borrow_mut().clear();
                }
                Progress::Line(line) if live => println!("{line}"),
                Progress::Line(line) => *held.borrow_mut() += &format!("{line}\n"),
            });
        print!("{}", held.into_inner());
        let outcome = outcome?;
        if self.kernel_log {
            eprint!("{}", outcome.kernel_log);
        } else {
            outcome
                .kernel_trouble()
                .iter()
                .for_each(|line| eprintln!("kernel: {line}"));
        }
        Ok(u8::try_from(outcome.status)?)
    }

    fn machine(&self) -> Machine {
        let mode = match self.measured {
            true => Mode::Measured {
                shift: self.shift,
                seed: self.seed,
            },
            false if self.kvm => Mode::Kvm,
            false => Mode::Parallel,
        };
        Machine {
            cpus: self.cpus,
            caches: self.caches,
            memory_mib: self.memory,
            disk_mib: self.disk,
            kernel: self.kernel,
            mode,
            timeout: Duration::from_secs_f64(self.timeout),
        }
    }
}

fn add(image: &mut Image, item: &str) -> Result<()> {
    let (host, guest) = item
        .split_once(':')
        .map_or((item, None), |(host, guest)| (host, Some(guest)));
    let path = Path::new(host);
    let result = match guest {
        Some(guest) if path.is_dir() => image.tree_from(path, guest),
        Some(guest) => image.program_at(path, guest),
        None if path.is_dir() => {
            return Err(explain(
                &format!("{host} is a directory, and its path in the guest is not given"),
                "only programs have a default directory, /usr/bin",
                &format!("--add {host}:/PATH"),
            ));
        }
        None => image.program(path),
    };
    result
        .map(|_| ())
        .with_context(|| format!("cannot add {host} to the guest"))
}
