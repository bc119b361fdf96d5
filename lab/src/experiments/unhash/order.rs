//! Which request is next.

use super::load::Load;
use super::program::{Simulated, cores, live, our_rates, said};
use super::rows::{at_most, less_than_all, plotted, row, score_row};
use super::setting::{PLAIN, SOURCE, THEIR_THREADS};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use anyhow::{Context, Result};
use tombola_plot::{Curve, Panel, SeriesLabelPosition};

pub const ORDER: Experiment = Experiment {
    name: "order",
    about: "the reverse-hash server's requests by arrival, priority, priority for the range, and for what is left of it",
    source: SOURCE,
    method: Method::Own(order),
};

/// The published averages of three runs, in million.
const PUBLISHED_ORDER: [(&str, f64); 3] = [
    ("fifo", 20.882_172),
    ("priority", 18.854_961),
    ("smith", 17.989_692),
];

/// Orders on the simulated clock, and their names.
const COMPARED: [(&str, &str, &str); 6] = [
    ("fifo", "one", "fifo, one core each"),
    ("priority", "one", "priority, one core each"),
    ("fifo", "all", "fifo, all cores"),
    ("priority", "all", "priority, all cores"),
    ("smith", "all", "priority/range, all cores"),
    ("gittins", "all", "gittins, all cores"),
];
const LOADS: [f64; 12] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2];
const MACHINES: [u32; 3] = [2, 4, 16];
/// Cores, million hashes a second, us from one request to the next, and the most that Gittins' index may have of FIFO's score.
const SIMULATED_BARS: [(u32, f64, u32, f64); 2] =
    [(2, 12.0, 600_000, 0.63), (4, 65.0, 40_000, 0.72)];
const STREAMS_OF_BARS: u32 = 200;
/// Orders differ by less than this where nothing waits.
const ALIKE: f64 = 1.005;
const LIVE_LOADS: [f64; 6] = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2];

fn order(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let mut rows = load.rows();
    let plain = format!("{PLAIN} --cache 0 --workers {THEIR_THREADS}");
    let mut best = f64::MAX;
    for (order, published) in PUBLISHED_ORDER {
        let score = load.score(&format!("{plain} --order {order}"), 20)?;
        rows.push(score_row(
            format!("6 threads, {order}"),
            &score,
            Some(published),
        ));
        best = best.min(score.mean);
    }
    // The same hash routine, and no cache either; but all cores are on one request, so chunks, between which there is a choice.
    let all_cores = |order| {
        let options = format!("--kernel portable --cache 0 --order {order}");
        load.score(&options, 20)
    };
    for order in ["fifo", "priority"] {
        rows.push(score_row(
            format!("all cores, {order}"),
            &all_cores(order)?,
            None,
        ));
    }
    let index = all_cores("gittins")?;
    rows.push(score_row("all cores, gittins", &index, None));
    rows.push(at_most(
        "the same, of the best that was published",
        index.mean / best,
        1.0,
        None,
    ));

    for (cores, rate, delay, most) in SIMULATED_BARS {
        eprintln!("simulating {STREAMS_OF_BARS} streams on {cores} cores");
        let all = simulated(&format!(
            "--cores {cores} --rate {rate} --delay {delay} --streams {STREAMS_OF_BARS}"
        ))?;
        let (index, best) = index_and_best(&all);
        let name = format!(
            "simulated, {cores} cores, {rate} MH/s, {delay} us: gittins of fifo, one core each"
        );
        rows.push(at_most(name, index, most, None));
        rows.push(less_than_all("of the best other, all cores", index / best));
    }
    let mut panels: Vec<Panel> = Vec::new();
    for cores in MACHINES {
        let (panel, worst) = simulated_loads(cores)?;
        panels.push(panel);
        let name = format!("simulated, {cores} cores, any load: gittins of the best other");
        rows.push(at_most(name, worst, ALIKE, None));
    }
    let (panel, of_loads) = live_loads()?;
    panels.push(panel);
    rows.extend(of_loads);
    plotted(bench, ORDER.name, &panels)?;
    Ok(rows)
}

/// The scores of the orders compared, in parts of the first one's.
fn simulated(words: &str) -> Result<Vec<f64>> {
    let all: Vec<Simulated> = said(&format!("simulate {words} --json"))?;
    let find = |(order, width, _): &(&str, &str, &str)| {
        let of = |row: &&Simulated| row.order == *order && row.width == *width;
        all.iter().find(of).map(|row| row.ratio)
    };
    let ratios: Option<Vec<f64>> = COMPARED.iter().map(find).collect();
    ratios.with_context(|| format!("unhash simulate {words}: an order is missing"))
}

/// The scores of Gittins' index, which is the last one compared, and of the best other order.
fn index_and_best(ratios: &[f64]) -> (f64, f64) {
    let (index, others) = ratios.split_last().expect("some are compared");
    (*index, others.iter().copied().fold(f64::MAX, f64::min))
}

/// At each load, the orders' scores in parts of FIFO's; and the worst score of Gittins' index, in parts of the best other's.
fn simulated_loads(cores: u32) -> Result<(Panel, f64)> {
    let mut curves = vec![Vec::new(); COMPARED.len()];
    let mut worst: f64 = 0.0;
    for load in LOADS {
        eprintln!("simulating {cores} cores, load {load}");
        let ratios = simulated(&format!("--cores {cores} --load {load}"))?;
        for (curve, ratio) in curves.iter_mut().zip(&ratios) {
            curve.push((load, *ratio));
        }
        let (index, best) = index_and_best(&ratios);
        worst = worst.max(index / best);
    }
    let named = COMPARED.iter().zip(curves);
    let panel = Panel {
        title: format!("{cores} cores, simulated"),
        x: "load".to_owned(),
        y: "of fifo, one core each".to_owned(),
        legend: SeriesLabelPosition::MiddleLeft,
        curves: named
            .map(|((_, _, name), points)| Curve::line(name, points))
            .collect(),
    };
    Ok((panel, worst))
}

/// The server as it is, on this machine, beside its simulation.
fn live_loads() -> Result<(Panel, Vec<Row>)> {
    let cores = cores();
    let rates = our_rates(cores)?;
    let rate = rates.values().copied().fold(0.0, f64::max);
    let requests = "--settings final --total 300 --seed 1";
    let machine = format!("--cores {cores} --rate {rate} --overhead 200");
    let (mut measured, mut expected, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for load in LIVE_LOADS {
        let words = format!("simulate {requests} {machine} --streams 1 --load {load} --json");
        let all: Vec<Simulated> = said(&words)?;
        let best = all
            .iter()
            .find(|row| row.order == "gittins" && row.width == "all");
        let simulated = best.context("gittins is missing")?.score / 1e6;
        let delay_us = all[0].delay_us;
        let score = live("", &format!("{requests} --delay {delay_us}"))?;
        eprintln!("load {load}: {score:.4} million, simulated {simulated:.4}");
        measured.push((load, score));
        expected.push((load, simulated));
        let name = format!("as it is, load {load}");
        let bar = format!("(million; simulated {simulated:.4})");
        rows.push(Row {
            bar,
            ..row(name, score, None)
        });
    }
    let panel = Panel {
        title: format!("{cores} cores of {rate:.0} MH/s"),
        x: "load".to_owned(),
        y: "score, million".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: vec![
            Curve::line("unhash as it is", measured),
            Curve::due("simulated", expected),
        ],
    };
    Ok((panel, rows))
}
