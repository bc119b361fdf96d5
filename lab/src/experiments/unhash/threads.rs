//! The number of threads.

use super::load::Load;
use super::program::{cores, plainly};
use super::rows::{plotted, points, row, score_row};
use super::setting::{PLAIN, PUBLISHED_SEQUENTIAL, SOURCE, THEIR_CORES};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use anyhow::Result;
use tombola_plot::{Curve, Panel, SeriesLabelPosition};

pub const THREADS: Experiment = Experiment {
    name: "threads",
    about: "the reverse-hash server with 1 to 20 threads, one for each request",
    source: SOURCE,
    method: Method::Own(threads),
};

/// The published averages of three runs, in million.
const PUBLISHED_THREADS: [(u32, f64); 7] = [
    (3, 29.464_635),
    (4, 24.818_339),
    (5, 20.966_867),
    (6, 20.882_172),
    (7, 21.050_894),
    (8, 21.688_119),
    (20, 22.662_390),
];

fn threads(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let mut rows = load.rows();
    let published = [&[(1, PUBLISHED_SEQUENTIAL)], &PUBLISHED_THREADS[..]].concat();
    let figure = |n| {
        let found = published.iter().find(|(of, _)| *of == n);
        found.map(|(_, score)| *score)
    };
    let mut measured = Vec::new();
    for workers in [1, 2].into_iter().chain(PUBLISHED_THREADS.map(|(n, _)| n)) {
        let options = format!("{PLAIN} --order fifo --cache 0 --workers {workers}");
        let score = load.score(&options, 20)?;
        measured.push((workers, score.mean));
        rows.push(score_row(
            format!("threads: {workers}"),
            &score,
            figure(workers),
        ));
    }
    let like_theirs = (1..=THEIR_CORES).map(|n| Ok((n, plainly(n, load.theirs, "none", 20)?)));
    let like_theirs: Vec<(u32, f64)> = like_theirs.collect::<Result<_>>()?;
    for (n, score) in &like_theirs {
        rows.push(row(format!("simulated, cores: {n}"), *score, figure(*n)));
    }
    let panel = Panel {
        title: "one thread for each request".to_owned(),
        x: "threads".to_owned(),
        y: "score, million".to_owned(),
        legend: SeriesLabelPosition::UpperRight,
        curves: vec![
            Curve::line("published, 4 cores", points(&published)),
            Curve::line(&format!("unhash, {} cores", cores()), points(&measured)),
            Curve::dots("simulated, as many cores", points(&like_theirs)),
        ],
    };
    plotted(bench, THREADS.name, &[panel])?;
    Ok(rows)
}
