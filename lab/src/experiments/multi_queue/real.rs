//! A part of the compile on a real kernel: four emulated CPUs, in real time, under Tombola and the kernel's own scheduler by
//! turns. Emulated CPUs are some twenty times as slow, so it is a part.

use super::figures::{Figures, no_worse_rows};
use crate::bench::boot::{self, Boot, own_programs};
use crate::bench::scheduler::{EEVDF, STRIDE, Scheduler};
use crate::compile::source::{self, GUEST_DIR};
use crate::result::Row;
use crate::vm::{Kernel, Mode};
use anyhow::{Context, Result, ensure};

const CPUS: u32 = 4;
/// The guest's files are in memory, too.
const MEMORY_MIB: u32 = 2048;
const SCHEDULERS: [&Scheduler; 2] = [EEVDF, STRIDE];
/// The first of the files.
const FILES: u32 = 16;
const TURNS: usize = 2;
/// In each turn; the first compile after a boot comes before them and does not count.
const COMPILES: usize = 10;
const MARK: &str = "uptime before and after:";

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
        let seconds =
            texts.map(|text| seconds(text.as_deref().context("the scheduler was ejected")?));
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
         uptime_s() {{ cut -d ' ' -f 1 /proc/uptime; }}\n\
         compile() {{\n\
         from=$(uptime_s)\n\
         setpriv --reuid=alice --regid=alice --clear-groups {make} || return\n\
         echo {MARK} $from $(uptime_s)\n\
         }}"
    );
    Boot {
        scheduler,
        kernel: Kernel::Newest,
        cpus: CPUS,
        memory_mib: MEMORY_MIB,
        mode: Mode::Parallel,
        tools: source::add_to,
        before: vec![functions],
        commands: vec!["compile".to_owned(); 1 + COMPILES],
    }
}

fn seconds(text: &str) -> Result<f64> {
    let times = text.lines().find_map(|line| line.strip_prefix(MARK));
    let times = times.with_context(|| format!("the compile did not tell its time: {text}"))?;
    let times: Vec<f64> = times
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    ensure!(times.len() == 2, "not two times: {times:?}");
    Ok(times[1] - times[0])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compile_takes_the_time_between_two_moments() {
        let text = format!("warning\n{MARK} 12.50 14.75\n");
        assert_eq!(seconds(&text).unwrap(), 2.25);
        assert!(seconds("make: error\n").is_err());
        assert!(seconds(&format!("{MARK} 12.50\n")).is_err());
    }
}
