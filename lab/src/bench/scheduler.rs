//! The schedulers to measure: Tombola, the kernel's own, and others that use sched_ext.

use super::By;
use crate::explain::explain;
use crate::vm::{Image, Kernel};
use crate::workspace::build_dir;
use anyhow::Result;
use std::path::Path;

#[derive(Debug, PartialEq)]
pub struct Scheduler {
    pub name: &'static str,
    /// The newest kernel on which it runs.
    pub kernel: Kernel,
    pub by: By,
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// The kernel's own: a feature to switch on or off.
    Own(&'static str),
    Tombola(&'static str),
    /// A program of lab/vm/fetch-peers.sh.
    Peer(&'static str),
}

const fn own(name: &'static str, feature: &'static str) -> Scheduler {
    Scheduler {
        name,
        kernel: Kernel::Newest,
        by: By::Weight,
        kind: Kind::Own(feature),
    }
}

const fn tombola(name: &'static str, options: &'static str) -> Scheduler {
    Scheduler {
        name,
        kernel: Kernel::Newest,
        by: By::Tickets,
        kind: Kind::Tombola(options),
    }
}

const fn peer(name: &'static str) -> Scheduler {
    Scheduler {
        name,
        kernel: Kernel::Peers,
        by: By::Weight,
        kind: Kind::Peer(name),
    }
}

pub const STRIDE: &Scheduler = &tombola("stride", "--policy stride");
pub const STRIDE_TICK: &Scheduler = &tombola("stride-tick", "--policy stride --slice-end tick");
/// With a run queue for each last-level cache, and for each CPU.
pub const STRIDE_LLC: &Scheduler = &tombola("stride-llc", "--policy stride --run-queue llc");
pub const STRIDE_CPU: &Scheduler = &tombola("stride-cpu", "--policy stride --run-queue cpu");
pub const LOTTERY: &Scheduler = &tombola("lottery", "--policy lottery");
pub const LOTTERY_TICK: &Scheduler = &tombola("lottery-tick", "--policy lottery --slice-end tick");
/// The kernel's own with a timer of its own for the end of a slice, as 7.2 has it by default.
pub const EEVDF: &Scheduler = &own("eevdf", "HRTICK");
/// The kernel's own with slices that end at the tick, as it was by default before 7.
pub const EEVDF_TICK: &Scheduler = &own("eevdf-tick", "NO_HRTICK");
pub const FLASH: &Scheduler = &peer("scx_flash");
pub const RUSTY: &Scheduler = &peer("scx_rusty");

/// The ones that take long to load come first.
pub const SCHEDULERS: [&Scheduler; 10] = [
    STRIDE,
    STRIDE_TICK,
    STRIDE_LLC,
    STRIDE_CPU,
    LOTTERY,
    LOTTERY_TICK,
    EEVDF,
    EEVDF_TICK,
    FLASH,
    RUSTY,
];

const TOMBOLA_PROGRAMS: [&str; 3] = ["tombola", "lrenice", "lsetbase"];

impl Scheduler {
    /// For clap: a scheduler by its name.
    pub fn find(name: &str) -> Result<&'static Self, String> {
        SCHEDULERS
            .into_iter()
            .find(|scheduler| scheduler.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = SCHEDULERS.iter().map(|s| s.name).collect();
                format!("the schedulers are {}", names.join(", "))
            })
    }

    /// In as many last-level caches are the CPUs of the machine on which it is measured.
    pub fn caches(&self) -> u32 {
        if [STRIDE_LLC, STRIDE_CPU].contains(&self) {
            2
        } else {
            1
        }
    }

    pub fn is_peer(&self) -> bool {
        matches!(self.kind, Kind::Peer(_))
    }

    pub fn is_tombola(&self) -> bool {
        matches!(self.kind, Kind::Tombola(_))
    }

    /// Adds its programs; Tombola's are taken from `programs`.
    pub(super) fn add_to(&self, image: &mut Image, programs: &Path) -> Result<()> {
        match self.kind {
            Kind::Own(_) => {}
            Kind::Tombola(_) => {
                for name in TOMBOLA_PROGRAMS {
                    add(image, &programs.join(name), "make build")?;
                }
            }
            Kind::Peer(name) => {
                let path = build_dir()?.join("peers/bin").join(name);
                add(image, &path, "lab/vm/fetch-peers.sh")?;
            }
        }
        Ok(())
    }

    /// Shell that ends when the scheduler is enabled; `started NAME` waits for the one that was started last.
    pub(super) fn start(&self) -> String {
        match self.kind {
            Kind::Own(feature) => format!(
                "mount -t debugfs debug /sys/kernel/debug\n\
                 echo {feature} >/sys/kernel/debug/sched/features || exit 1"
            ),
            Kind::Tombola(options) => {
                format!("tombola start {options} >/tmp/log 2>&1 &\nstarted tombola")
            }
            Kind::Peer(name) => {
                let ops = name.trim_start_matches("scx_");
                format!("{name} >/tmp/log 2>&1 &\nstarted {ops}")
            }
        }
    }

    /// sched_ext's state in the kernel as long as it schedules.
    pub(super) fn state(&self) -> &'static str {
        match self.kind {
            Kind::Own(_) => "disabled",
            Kind::Tombola(_) | Kind::Peer(_) => "enabled",
        }
    }
}

fn add(image: &mut Image, program: &Path, command: &str) -> Result<()> {
    if !program.is_file() {
        return Err(explain(
            &format!("{} is not there", program.display()),
            "it has not been built yet",
            command,
        ));
    }
    image.program(program)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheduler_is_found_by_its_name_and_others_are_refused_with_a_list() {
        for scheduler in SCHEDULERS {
            assert_eq!(Scheduler::find(scheduler.name), Ok(scheduler));
        }
        assert!(Scheduler::find("cfs").unwrap_err().contains("eevdf-tick"));
    }
}
