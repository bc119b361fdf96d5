//! The effect of a cache.

use super::load::Load;
use super::program::plainly;
use super::rows::{at_most, plotted, row, score_row};
use super::setting::{PLAIN, PUBLISHED_SEQUENTIAL, SOURCE, THEIR_THREADS};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use anyhow::Result;
use tombola_plot::{Curve, Panel, SeriesLabelPosition};

pub const CACHE: Experiment = Experiment {
    name: "cache",
    about: "the reverse-hash server with and without a cache, alone and with threads, and as it is now",
    source: SOURCE,
    method: Method::Own(cache),
};

/// Percent of repeated requests, and the published averages of three runs, in million.
const PUBLISHED_SEQUENTIAL_CACHE: [(u32, f64); 2] = [(20, 71.737_275), (50, 41.742_737)];
const PUBLISHED_THREADS_CACHE: [(u32, f64); 2] = [(20, 17.973_597), (50, 4.901_121)];
/// The bar for our score by the sequential one, in parts of the same ratio of theirs.
const PART_OF_THEIRS_MAX: f64 = 0.1;

/// A server with a cache: its name, its options, and its published scores.
type Variant = (&'static str, String, Option<[(u32, f64); 2]>);

fn cache(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let plain = format!("{PLAIN} --order fifo");
    let sequential = load.score(&format!("{plain} --workers 1 --cache 0"), 20)?;
    let mut rows = load.rows();
    let name = "sequential, no cache, 20 %";
    rows.push(score_row(name, &sequential, Some(PUBLISHED_SEQUENTIAL)));
    rows.extend(simulated(&load)?);
    let one = (
        "sequential",
        format!("{plain} --workers 1"),
        Some(PUBLISHED_SEQUENTIAL_CACHE),
    );
    let six = (
        "6 threads",
        format!("{plain} --workers {THEIR_THREADS}"),
        Some(PUBLISHED_THREADS_CACHE),
    );
    let ours = ("as it is", String::new(), None);
    let mut curves = Vec::new();
    for variant in [&one, &six, &ours] {
        let scores = measured(&load, variant, &mut rows)?;
        curves.extend(drawn(variant, &scores));
        if *variant == ours {
            rows.extend(of_sequential(&scores, sequential.mean));
        }
    }
    let panel = Panel {
        title: "with a cache".to_owned(),
        x: "% of requests that repeat an earlier one".to_owned(),
        y: "log10 of the score in million".to_owned(),
        legend: SeriesLabelPosition::MiddleMiddle,
        curves,
    };
    plotted(bench, CACHE.name, &[panel])?;
    Ok(rows)
}

/// In their server a request waited for its turn before the cache was searched. Ours searches at once, and requests join work
/// in progress.
fn simulated(load: &Load) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (cache, how) in [("turn", "looked up in turn"), ("join", "joined")] {
        for (percent, published) in PUBLISHED_SEQUENTIAL_CACHE {
            let score = plainly(1, load.theirs, cache, percent)?;
            let name = format!("simulated, 1 core, {how}, {percent} %");
            rows.push(row(name, score, Some(published)));
        }
    }
    Ok(rows)
}

/// Scores by percent of repeated requests.
fn measured(load: &Load, variant: &Variant, rows: &mut Vec<Row>) -> Result<Vec<(u32, f64)>> {
    let (name, options, published) = variant;
    let mut scores = Vec::new();
    for (place, percent) in [20, 50].into_iter().enumerate() {
        let score = load.score(options, percent)?;
        let figure = published.map(|published| published[place].1);
        rows.push(score_row(
            format!("{name}, cache, {percent} %"),
            &score,
            figure,
        ));
        scores.push((percent, score.mean));
    }
    Ok(scores)
}

fn drawn((name, _, published): &Variant, scores: &[(u32, f64)]) -> Vec<Curve> {
    let curve = |of: &str, scores: &[(u32, f64)]| {
        let points = scores.iter().map(|(x, y)| (f64::from(*x), y.log10()));
        Curve::line(&format!("{of}, {name}"), points.collect())
    };
    let ours = curve("unhash", scores);
    let theirs = published.map(|published| curve("published", &published));
    [ours].into_iter().chain(theirs).collect()
}

fn of_sequential(scores: &[(u32, f64)], sequential: f64) -> Vec<Row> {
    let row = |((percent, score), (_, theirs)): (&(u32, f64), (u32, f64))| {
        let best = theirs / PUBLISHED_SEQUENTIAL;
        let name = format!("as it is / sequential, {percent} %");
        at_most(
            name,
            score / sequential,
            best * PART_OF_THEIRS_MAX,
            Some(best),
        )
    };
    scores
        .iter()
        .zip(PUBLISHED_THREADS_CACHE)
        .map(row)
        .collect()
}
