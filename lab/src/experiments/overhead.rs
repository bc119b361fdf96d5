//! What scheduling costs a process that runs alone (Koster's Syncopation, 2000, 4.1).

use super::rows::compared_row;
use crate::experiment::{Bench, Experiment, Method, series};
use crate::plan::{Client, Course, Plan, Scheduler, Work};
use crate::play::{self, On};
use crate::result::Row;
use crate::statistics::mean;
use anyhow::{Context, Result};
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const OVERHEAD_LOOP: Experiment = Experiment {
    name: "overhead-loop",
    about: "a counting loop alone, ten times, in instructions until it is done",
    source: "Syncopation, 2000",
    method: Method::Own(overhead_loop),
};

const RUNS: usize = 10;
/// Some ten seconds.
const UNITS: u64 = 1000;
const OVERHEAD_MAX: f64 = 0.002;
/// Mean of ten: 50.386934 s for 50.208944 s.
const PUBLISHED: f64 = 50.386934 / 50.208944 - 1.0;

fn overhead_loop(bench: &Bench) -> Result<Vec<Row>> {
    let of = |scheduler| (0..RUNS).map(move |run| plan(scheduler, run));
    // The kernel's own scheduler comes last, when the kernel's work after a boot is done.
    let first = of(Scheduler::Stride).chain(of(Scheduler::Nice)).collect();
    let second = of(Scheduler::Lottery).collect();
    let played = play::play(On::Kernel, [first, second])?;
    bench.write("series.csv", &series(&played))?;
    let took: Vec<(Scheduler, Vec<f64>)> = played
        .chunk_by(|(a, _), (b, _)| a.scheduler == b.scheduler)
        .map(|of_one| {
            Ok((
                of_one[0].0.scheduler,
                of_one.iter().map(took_s).collect::<Result<_>>()?,
            ))
        })
        .collect::<Result<_>>()?;
    let of = |wanted| took.iter().find(|(scheduler, _)| *scheduler == wanted);
    let kernels_own = of(Scheduler::Nice).map(|(_, all)| mean(all));
    let kernels_own = kernels_own.context("the kernel's own scheduler was not measured")?;
    let mut rows = Vec::new();
    for (scheduler, all) in &took {
        let name = |what: &str| format!("{}: {what}", scheduler.name());
        let spread = all
            .iter()
            .map(|took| (took - mean(all)).powi(2))
            .sum::<f64>();
        rows.push(compared_row(
            name("seconds, mean of ten"),
            mean(all),
            kernels_own,
        ));
        let deviation = (spread / (RUNS - 1) as f64).sqrt();
        rows.push(compared_row(
            name("seconds, standard deviation"),
            deviation,
            0.0,
        ));
        if scheduler.policy().is_some() {
            let overhead = mean(all) / kernels_own - 1.0;
            rows.push(Row {
                name: name("longer than under the kernel's own, %"),
                measured: overhead * 100.0,
                published: Some(PUBLISHED * 100.0),
                bar: "under 0.2 %".to_owned(),
                pass: Some(overhead < OVERHEAD_MAX),
            });
        }
    }
    draw(bench, &took, kernels_own)?;
    Ok(rows)
}

/// Each run begins at another time between two ticks, which are 4 ms apart.
fn plan(scheduler: Scheduler, run: usize) -> Plan {
    let looping = Client {
        work: Work::Units(UNITS),
        starts_s: Some(0.0137 * run as f64),
        ..Client::burning(1, 100)
    };
    Plan {
        name: format!("{} run {}", scheduler.name(), run + 1),
        scheduler,
        clients: vec![looping],
        warm_up_s: 0.5,
        seconds: 60.0,
        every_s: 1.0,
        ..Plan::default()
    }
}

fn took_s((_, course): &(Plan, Course)) -> Result<f64> {
    let end = course.ends.first().and_then(|end| end.took_ns);
    let took_ns = end.context("the loop was not done in time")?;
    Ok(took_ns as f64 / 1e9)
}

fn draw(bench: &Bench, took: &[(Scheduler, Vec<f64>)], kernels_own: f64) -> Result<()> {
    let over = |seconds: f64| (seconds / kernels_own - 1.0) * 100.0;
    let curve = |(scheduler, all): &(Scheduler, Vec<f64>)| {
        let points = all.iter().enumerate();
        let points = points.map(|(run, seconds)| (run as f64 + 1.0, over(*seconds)));
        let name = scheduler.policy().unwrap_or("kernel's own");
        Curve::dots(name, points.collect())
    };
    let level = |name: &str, at: f64| Curve::due(name, vec![(1.0, at), (RUNS as f64, at)]);
    let mut curves: Vec<Curve> = took.iter().map(curve).collect();
    curves.push(level("what it may be", OVERHEAD_MAX * 100.0));
    curves.push(plot::room_above(&curves));
    let panel = Panel {
        title: "a counting loop alone".to_owned(),
        x: "run".to_owned(),
        y: "% longer than the kernel's own, mean".to_owned(),
        legend: SeriesLabelPosition::UpperRight,
        curves,
    };
    plot::write(&bench.out, OVERHEAD_LOOP.name, |area| {
        plot::panels(area, &[panel])
    })
}
