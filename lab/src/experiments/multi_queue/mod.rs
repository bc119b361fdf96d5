//! A compile, a hundred times, on the simulated machine: under Plan 9's scheduler with one queue, under MQS with a queue for each
//! CPU, and under ours. And a part of it on a real kernel, under ours and the kernel's own scheduler.

mod figures;
mod picture;
mod real;
mod simulated;

use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use anyhow::Result;
use real::Real;
use simulated::Measured;
use std::fmt::Write as _;

pub const MULTI_QUEUE: Experiment = Experiment {
    name: "multi-queue",
    about: "A compile on a simulated machine, a hundred times: Plan 9 with one queue, MQS and ours",
    source: "docs/multi-queue.md",
    method: Method::Simulation(simulate),
};

pub const MULTI_QUEUE_REAL: Experiment = Experiment {
    name: "multi-queue-real",
    about: "A part of the same compile on a real kernel with 4 CPUs, 20 times: ours beside EEVDF",
    source: "docs/multi-queue.md",
    method: Method::Own(carry_out),
};

/// Compiles of each scheduler in each place of the simulated machine.
const RUNS: u64 = 100;

fn simulate(bench: &Bench) -> Result<Vec<Row>> {
    let measured = simulated::measure(&simulated::places(), RUNS, tell)?;
    let of = |one: &Measured| (one.place.name(), one.contestant.name, one.seconds.clone());
    bench.write("series.csv", &series(measured.iter().map(of)))?;
    picture::write_simulated(&bench.out, MULTI_QUEUE.name, &measured)?;
    Ok(simulated::rows(&measured))
}

fn carry_out(bench: &Bench) -> Result<Vec<Row>> {
    let real = real::measure()?;
    let of = |one: &Real| ("4 CPUs".to_owned(), one.name, one.seconds.clone());
    bench.write("series.csv", &series(real.iter().map(of)))?;
    picture::write_real(&bench.out, MULTI_QUEUE_REAL.name, &real)?;
    Ok(real::rows(&real))
}

fn tell(measured: &[Measured]) {
    for one in measured {
        let (place, name, figures) = (one.place.name(), one.contestant.name, one.figures());
        eprintln!(
            "{place}, {name}: mean {:.4} s, sd {:.4} s",
            figures.mean, figures.sd
        );
    }
}

/// Places, schedulers and the seconds of each run.
fn series(all: impl Iterator<Item = (String, &'static str, Vec<f64>)>) -> String {
    let mut text = String::from("place,scheduler,run,seconds\n");
    for (place, name, seconds) in all {
        for (run, seconds) in seconds.iter().enumerate() {
            writeln!(text, "\"{place}\",{name},{run},{seconds:.6}").expect("strings take all");
        }
    }
    text
}
