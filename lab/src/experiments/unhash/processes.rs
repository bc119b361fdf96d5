//! Processes instead of threads.

use super::load::Load;
use super::program::cores;
use super::rows::{plotted, points, score_row};
use super::setting::{PLAIN, SOURCE, THEIR_THREADS};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use anyhow::Result;
use tombola_plot::{Curve, Panel, SeriesLabelPosition};

pub const PROCESSES: Experiment = Experiment {
    name: "processes",
    about: "the reverse-hash server with 4 to 100 processes, and with threads",
    source: SOURCE,
    method: Method::Own(processes),
};

/// The published averages of three runs, in million.
const PUBLISHED_PROCESSES: [(u32, f64); 6] = [
    (4, 34.922_202),
    (5, 41.134_463),
    (10, 29.633_019),
    (20, 30.999_082),
    (50, 35.625_674),
    (100, 35.269_411),
];
/// Measured again beside the processes.
const PUBLISHED_6_THREADS: f64 = 20.956_330;

fn processes(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let plain = format!("{PLAIN} --order fifo --cache 0");
    let mut measured = Vec::new();
    let mut rows = load.rows();
    for (count, published) in PUBLISHED_PROCESSES {
        let score = load.score(&format!("{plain} --processes --workers {count}"), 20)?;
        measured.push((count, score.mean));
        rows.push(score_row(
            format!("processes: {count}"),
            &score,
            Some(published),
        ));
    }
    let in_threads = load.score(&format!("{plain} --workers {THEIR_THREADS}"), 20)?;
    rows.push(score_row(
        "threads: 6",
        &in_threads,
        Some(PUBLISHED_6_THREADS),
    ));
    let ends = |score| vec![(4.0, score), (100.0, score)];
    let panel = Panel {
        title: "in processes".to_owned(),
        x: "processes".to_owned(),
        y: "score, million".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: vec![
            Curve::line("published, 4 cores", points(&PUBLISHED_PROCESSES)),
            Curve::line(&format!("unhash, {} cores", cores()), points(&measured)),
            Curve::line("published, 6 threads", ends(PUBLISHED_6_THREADS)),
            Curve::line("unhash, 6 threads", ends(in_threads.mean)),
        ],
    };
    plotted(bench, PROCESSES.name, &[panel])?;
    Ok(rows)
}
