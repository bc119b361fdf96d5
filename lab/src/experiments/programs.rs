//! What the scheduler costs users: Debian's programs under Tombola, compared with the same under the kernel's own scheduler.
//! bench/programs.rs has the programs, and the bars of their figures.
//!
//! scx_flash does not load on the newest kernel, and is compared with the kernel's own scheduler on the newest where it does.

use crate::bench::boot::own_programs;
use crate::bench::programs::{self, Clock, Figure, Host, Measured, Program};
use crate::bench::scheduler::{EEVDF, FLASH, LOTTERY, STRIDE, Scheduler};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use crate::vm::Kernel;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use tombola_plot::{self as plot, Ratios};

pub const PROGRAMS: Experiment = Experiment {
    name: "programs",
    about: "Debian's programs: hackbench, stress-ng, nginx, sysbench and cyclictest, ours beside EEVDF and scx_flash",
    source: "docs/lab.md",
    method: Method::Own(run),
};

const HOSTS: [Host; 5] = [
    host(EEVDF, Kernel::Newest),
    host(STRIDE, Kernel::Newest),
    host(LOTTERY, Kernel::Newest),
    host(EEVDF, Kernel::Peers),
    host(FLASH, Kernel::Peers),
];

const fn host(scheduler: &'static Scheduler, kernel: Kernel) -> Host {
    Host { scheduler, kernel }
}

/// CPUs, and runs of each program: in counted time one run is exact.
const MACHINES: [(u32, u64); 3] = [(1, 1), (2, 5), (4, 5)];

fn run(bench: &Bench) -> Result<Vec<Row>> {
    let programs: Vec<&'static Program> = programs::PROGRAMS.iter().collect();
    let mut all = Vec::new();
    for (cpus, runs) in MACHINES {
        all.extend(programs::measure(
            &HOSTS,
            cpus,
            &programs,
            Clock::of(cpus),
            runs,
            &own_programs()?,
        )?);
        // Hours of real time are not lost if the next machine fails.
        bench.write("series.csv", &series(&all))?;
    }
    let charts = MACHINES.map(|(cpus, _)| chart(&all, cpus));
    plot::write(&bench.out, PROGRAMS.name, |area| {
        plot::ratios(area, &charts)
    })?;
    rows(&all)
}

fn series(all: &[Measured]) -> String {
    let mut text =
        String::from("cpus,program,figure,scheduler,kernel,run,value,context_switches\n");
    for measured in all {
        let Host { scheduler, kernel } = measured.host;
        for (run, number) in measured.runs.iter().zip(0..) {
            for (figure, value) in measured.program.figures.iter().zip(&run.figures) {
                writeln!(
                    text,
                    "{},{},{},{},{},{number},{value:.4},{}",
                    measured.cpus,
                    measured.program.name,
                    figure.name,
                    scheduler.name,
                    format!("{kernel:?}").to_lowercase(),
                    run.context_switches
                )
                .expect("strings take all");
            }
        }
    }
    text
}

/// The same program under the kernel's own scheduler.
fn own<'a>(all: &'a [Measured], measured: &Measured) -> Result<&'a Measured> {
    let is_own = |other: &&Measured| {
        other.host == host(EEVDF, measured.host.kernel)
            && (other.cpus, other.program.name) == (measured.cpus, measured.program.name)
    };
    all.iter()
        .find(is_own)
        .context("the kernel's own scheduler was not measured")
}

/// A figure, and the same under the kernel's own scheduler; `None` if a scheduler was ejected.
fn pair(measured: &Measured, own: &Measured, number: usize) -> Option<(f64, f64)> {
    Some((measured.figure(number)?, own.figure(number)?))
}

fn rows(all: &[Measured]) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for measured in all
        .iter()
        .filter(|measured| measured.host.scheduler != EEVDF)
    {
        let own = own(all, measured)?;
        for (number, figure) in measured.program.figures.iter().enumerate() {
            rows.push(row(measured, figure, pair(measured, own, number)));
        }
    }
    Ok(rows)
}

fn row(measured: &Measured, figure: &Figure, pair: Option<(f64, f64)>) -> Row {
    let scheduler = measured.host.scheduler;
    let part = pair.map_or(f64::NAN, |(figure, own)| figure / own);
    let (bar, met) = figure.bar.judge(measured.cpus, part);
    let figures = match pair {
        Some((value, own)) => format!("{value:.2} for {own:.2}"),
        None => "ejected".into(),
    };
    let judged = scheduler.is_tombola();
    Row {
        name: format!(
            "{} CPUs, {}: {} of {}, in parts of {}'s",
            measured.cpus, measured.program.name, figure.name, scheduler.name, EEVDF.name
        ),
        measured: part,
        published: None,
        bar: if judged {
            format!("{bar} ({figures})")
        } else {
            format!("({figures})")
        },
        pass: judged.then_some(met),
    }
}

/// Speeds of the programs, in parts of their speeds under the kernel's own scheduler.
fn chart(all: &[Measured], cpus: u32) -> Ratios {
    let here: Vec<&Measured> = all
        .iter()
        .filter(|measured| measured.cpus == cpus)
        .collect();
    let of = |host: Host| {
        here.iter()
            .copied()
            .filter(move |measured| measured.host == host)
    };
    let figures = |measured: &Measured| {
        let program = measured.program;
        program
            .figures
            .iter()
            .map(|figure| (program, figure))
            .collect::<Vec<_>>()
    };
    let lines: Vec<_> = of(HOSTS[0]).flat_map(figures).collect();
    let speeds = |host: Host| -> Vec<Option<f64>> {
        of(host)
            .flat_map(|measured| {
                let own = own(all, measured).ok();
                let figures = measured.program.figures.iter().enumerate();
                figures.map(move |(number, figure)| {
                    let (value, own) = pair(measured, own?, number)?;
                    Some(figure.bar.speed(value, own))
                })
            })
            .collect()
    };
    let others = HOSTS.into_iter().filter(|host| host.scheduler != EEVDF);
    Ratios {
        title: if cpus == 1 {
            "1 CPU".into()
        } else {
            format!("{cpus} CPUs")
        },
        x: format!("times as fast as under {}", EEVDF.name),
        names: lines
            .iter()
            .map(|(program, figure)| format!("{}, {}", program.name, figure.name))
            .collect(),
        due: lines
            .iter()
            .map(|(_, figure)| figure.bar.least_speed(cpus))
            .collect(),
        dots: others
            .map(|host| (host.scheduler.name.to_owned(), speeds(host)))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::programs::Run;

    fn measured(host: Host, name: &str, values: &[&[f64]]) -> Measured {
        let run = |figures: &&[f64]| Run {
            figures: figures.to_vec(),
            context_switches: 1000.0,
        };
        Measured {
            host,
            cpus: 2,
            program: programs::find(name).unwrap()[0],
            runs: values.iter().map(run).collect(),
        }
    }

    fn verdicts(all: &[Measured]) -> Vec<Option<bool>> {
        rows(all).unwrap().iter().map(|row| row.pass).collect()
    }

    #[test]
    fn medians_are_compared_on_the_same_kernel() {
        let all = [
            measured(
                HOSTS[0],
                "nginx",
                &[&[1000.0, 4.0], &[1.0, 90.0], &[1002.0, 5.0]],
            ),
            measured(
                HOSTS[1],
                "nginx",
                &[&[9000.0, 5.5], &[950.0, 1.0], &[1.0, 90.0]],
            ),
            measured(HOSTS[3], "nginx", &[&[500.0, 8.0]]),
            measured(HOSTS[4], "nginx", &[&[550.0, 8.0]]),
        ];
        assert_eq!(verdicts(&all), [Some(true), Some(true), None, None]);
        let rows = rows(&all).unwrap();
        let parts: Vec<f64> = rows.iter().map(|row| row.measured).collect();
        assert_eq!(parts, [0.95, 1.1, 1.1, 1.0]);
    }

    #[test]
    fn to_be_ejected_is_to_fail() {
        let all = [
            measured(HOSTS[0], "hackbench-pipe-2", &[&[1.0]]),
            measured(HOSTS[2], "hackbench-pipe-2", &[]),
        ];
        assert_eq!(verdicts(&all), [Some(false)]);
    }

    #[test]
    fn to_the_right_is_faster() {
        let all = [
            measured(HOSTS[0], "nginx", &[&[1000.0, 5.0]]),
            measured(HOSTS[1], "nginx", &[&[500.0, 2.5]]),
        ];
        let chart = chart(&all, 2);
        assert_eq!(chart.dots[0].1, [Some(0.5), Some(2.0)]);
        assert_eq!(chart.due, [0.95, 1.0 / 1.1]);
    }
}
