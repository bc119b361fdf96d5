//! A part of the compile on a real kernel: four emulated CPUs, in real time, under Tombola and the kernel's own scheduler by
//! turns. Emulated CPUs are some twenty times as slow, so it is a part. Times are by the host's clock.

use super::figures::{Figures, no_worse_rows};
use crate::bench::boot::{self, Boot, own_programs};
use crate::bench::figures::host_s;
use crate::bench::scheduler::{EEVDF, STRIDE, Scheduler};
use crate::compile::source::{self, GUEST_DIR};
use crate::result::Row;
use crate::vm::{Kernel, Mode};
use anyhow::{Context, Result};

const CPUS: u32 = 4;
/// The guest's files are in memory, too.
const MEMORY_MIB: u32 = 2048;
const SCHEDULERS: [&Scheduler; 2] = [EEVDF, STRIDE];
/// The first of the files.
const FILES: u32 = 16;
const TURNS: usize = 2;
/// In each turn; the first compile after a boot comes before them and does not count.
const COMPILES: usize = 10;

/// A scheduler's compile times, s.
pub struct Real {
    pub name: &'static str,
    pub seconds: Vec<f64>,
}

pub fn measure() -> Result<Vec<Real>> {
    let boots: Vec<Boot> = (0..TURNS).flat_map(|_| SCHEDULERS.map(boot)).collect();
    let printed = boot::run_all(&boots, &own_programs()?)?;
    let mut all = Vec::new();
    for (number, scheduler) in SCHEDULERS.iter().enumerate() {
        let turns = printed.iter().skip(number).step_by(SCHEDULERS.len());
        let texts = turns.flat_map(|turn| turn.iter().skip(2));
        let seconds = texts.map(|text| {
            let text = text.as_deref().context("the scheduler was ejected")?;
            host_s(text).context("the compile has no time")
        });
        all.push(Real {
            name: scheduler.name,
            seconds: seconds.collect::<Result<_>>()?,
        });
    }
    Ok(all)
}

fn boot(scheduler: &'static Scheduler) -> Boot {
    let make = source::guest_make(CPUS, FILES);
    let functions = format!(
        "chown -R alice {GUEST_DIR}\n\
         compile() {{ setpriv --reuid=alice --regid=alice --clear-groups {make}; }}"
    );
    Boot {
        scheduler,
        kernel: Kernel::Newest,
        cpus: CPUS,
        caches: 1,
        memory_mib: MEMORY_MIB,
        mode: Mode::Parallel,
        timed: true,
        tools: source::add_to,
        before: vec![functions],
        commands: vec!["compile".to_owned(); 1 + COMPILES],
    }
}

pub fn rows(all: &[Real]) -> Vec<Row> {
    let figures: Vec<Figures> = all.iter().map(|real| Figures::of(&real.seconds)).collect();
    let mut rows = Vec::new();
    for (real, figures) in all.iter().zip(&figures) {
        rows.extend(figures.rows(&format!("{CPUS} CPUs, {}", real.name), None));
    }
    rows.extend(no_worse_rows(
        &format!("{CPUS} CPUs"),
        (all[1].name, &figures[1]),
        (all[0].name, &figures[0]),
    ));
    rows
}
