//! How far busy tasks are from what is due to them, and how often they move, on machines of 4 to 4096 CPUs.

use super::economy;
use super::pairs::in_pairs;
use crate::result::Row;
use crate::simulate::simulate;
use anyhow::{Result, ensure};
use serde::Deserialize;
use std::fmt::Write as _;
use std::time::Instant;

/// `tombola simulate` samples ten times a second.
const SAMPLES_A_SECOND: usize = 10;
/// Until then tasks are still where they began.
const WARM_S: usize = 2;
/// Lengths of windows, in samples.
pub const WINDOWS: [usize; 6] = [1, 3, 10, 30, 100, 300];
/// That of the bars.
const WINDOW_10_S: usize = 100;
/// Shares of tasks that are due less than this of a CPU are told by few slices.
const DUE_LEAST: f64 = 0.05;
const MOVES_MAX: f64 = 5.0;

/// Which CPUs share a run queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queues {
    pub name: &'static str,
    /// The largest error in windows of 10 s, % of what is due.
    error_max: f64,
    has_bars: bool,
    /// One queue for more CPUs cannot share: see docs/limits.md.
    cpus_max: usize,
}

pub const QUEUES: [Queues; 3] = [
    Queues {
        name: "machine",
        error_max: 0.5,
        has_bars: false,
        cpus_max: 256,
    },
    Queues {
        name: "llc",
        error_max: 0.5,
        has_bars: true,
        cpus_max: usize::MAX,
    },
    Queues {
        name: "cpu",
        error_max: 0.7,
        has_bars: true,
        cpus_max: usize::MAX,
    },
];

/// CPUs, and how many seeds: a large machine has many tasks in each.
pub const SIZES: [(usize, u64); 6] = [(4, 3), (16, 3), (64, 3), (256, 3), (1024, 3), (4096, 1)];

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    pub queues: Queues,
    pub cpus: usize,
    pub seed: u64,
}

/// Of all tasks that are due enough, in all windows of a length; % of what is due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowError {
    pub mean: f64,
    pub worst: f64,
    /// How many tasks are due enough, and how many of them were further off in some window than [`Queues::error_max`].
    tasks: usize,
    beyond: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    pub place: Place,
    /// In the order of [`WINDOWS`]; none for those that do not fit.
    pub errors: Vec<Option<WindowError>>,
    /// Tasks that the balancer moved, a second and CPU.
    pub moves: f64,
    /// The decisions which task a CPU runs next, a second and CPU.
    pub decisions: f64,
}

/// What is read of `tombola simulate --json --samples`.
#[derive(Deserialize)]
struct Report {
    run_queues: Counts,
    samples: Vec<Sample>,
}

#[derive(Deserialize)]
struct Counts {
    moves: u64,
    slices: u64,
}

#[derive(Deserialize)]
struct Sample {
    entitled_ns: Vec<u64>,
    received_ns: Vec<u64>,
}

/// The large machines first: they take longest.
pub fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for (cpus, seeds) in SIZES.into_iter().rev() {
        for queues in QUEUES.into_iter().filter(|of| cpus <= of.cpus_max) {
            places.extend((1..=seeds).map(|seed| Place { queues, cpus, seed }));
        }
    }
    places
}

/// So long that the longest window fits.
pub const SECONDS: usize = WARM_S + WINDOWS[WINDOWS.len() - 1] / SAMPLES_A_SECOND;

/// The simulation of each place for so long. The speed goes to standard error: it is this machine's, and no part of the result.
pub fn measure(places: &[Place], seconds: usize) -> Result<Vec<Measured>> {
    in_pairs(places, |place| {
        let begun = Instant::now();
        let measured = measure_one(place, seconds)?;
        let (took_s, cpus) = (begun.elapsed().as_secs_f64(), place.cpus as f64);
        eprintln!(
            "{}, {cpus} CPUs, seed {}: {took_s:.1} s, {:.2} million decisions a second",
            place.queues.name,
            place.seed,
            measured.decisions * cpus * seconds as f64 / took_s / 1e6
        );
        Ok(measured)
    })
}

fn measure_one(place: &Place, seconds: usize) -> Result<Measured> {
    let plan = economy::plan(place.cpus, place.seed, seconds as u64);
    let options = ["--samples", "--run-queue", place.queues.name];
    let report: Report = simulate(&plan, &options)?;
    let count = report.samples.len();
    ensure!(
        count == seconds * SAMPLES_A_SECOND + 1,
        "{place:?}: {count} samples"
    );
    let samples = &report.samples[WARM_S * SAMPLES_A_SECOND..];
    let each = seconds as f64 * place.cpus as f64;
    Ok(Measured {
        place: *place,
        errors: WINDOWS
            .map(|length| error(samples, length, place.queues.error_max))
            .to_vec(),
        moves: report.run_queues.moves as f64 / each,
        decisions: report.run_queues.slices as f64 / each,
    })
}

/// In all windows of so many samples, one from each sample on.
fn error(samples: &[Sample], length: usize, error_max: f64) -> Option<WindowError> {
    let least_ns = DUE_LEAST * length as f64 / SAMPLES_A_SECOND as f64 * 1e9;
    let (mut sum, mut count) = (0.0, 0);
    // Of each task; none if it is due too little.
    let mut worst = vec![None; samples.first()?.entitled_ns.len()];
    for (before, after) in samples.iter().zip(samples.get(length..)?) {
        for (task, worst) in worst.iter_mut().enumerate() {
            let due = (after.entitled_ns[task] - before.entitled_ns[task]) as f64;
            if due >= least_ns {
                let received = (after.received_ns[task] - before.received_ns[task]) as f64;
                let error = 100.0 * (received / due - 1.0).abs();
                *worst = Some(error.max(worst.unwrap_or(0.0)));
                sum += error;
                count += 1;
            }
        }
    }
    let worst: Vec<f64> = worst.into_iter().flatten().collect();
    (count > 0).then(|| WindowError {
        mean: sum / f64::from(count),
        worst: worst.iter().copied().fold(0.0, f64::max),
        tasks: worst.len(),
        beyond: worst.iter().filter(|&&error| error > error_max).count(),
    })
}

/// What was measured with all seeds of a place.
pub struct Seeds<'a>(pub Vec<&'a Measured>);

impl<'a> Seeds<'a> {
    pub fn of(all: &'a [Measured], queues: Queues, cpus: usize) -> Self {
        let is_there = |one: &&Measured| one.place.queues == queues && one.place.cpus == cpus;
        Self(all.iter().filter(is_there).collect())
    }

    /// The mean of the means, the worst of all, and all tasks.
    pub fn error(&self, window: usize) -> Option<WindowError> {
        let errors: Option<Vec<_>> = self.0.iter().map(|one| one.errors[window]).collect();
        let errors = errors.filter(|errors| !errors.is_empty())?;
        let sum: f64 = errors.iter().map(|error| error.mean).sum();
        Some(WindowError {
            mean: sum / errors.len() as f64,
            worst: errors.iter().map(|error| error.worst).fold(0.0, f64::max),
            tasks: errors.iter().map(|error| error.tasks).sum(),
            beyond: errors.iter().map(|error| error.beyond).sum(),
        })
    }

    fn most_moves(&self) -> f64 {
        self.0.iter().map(|one| one.moves).fold(0.0, f64::max)
    }
}

/// Errors over 10 s, and moves.
pub fn rows(all: &[Measured]) -> Vec<Row> {
    let window = WINDOWS.iter().position(|&length| length == WINDOW_10_S);
    let window = window.expect("it is one of them");
    let mut rows = Vec::new();
    for queues in QUEUES {
        for (cpus, _) in SIZES {
            let seeds = Seeds::of(all, queues, cpus);
            let Some(error) = seeds.error(window) else {
                continue;
            };
            let row = |what: &str, measured: f64, most: Option<f64>| Row {
                name: format!("{}, {cpus} CPUs: {what}", queues.name),
                measured,
                published: None,
                bar: most.map_or(String::new(), |most| format!("at most {most}")),
                pass: most.map(|most| measured <= most),
            };
            let bar = |most: f64| Some(most).filter(|_| queues.has_bars);
            let beyond = format!("tasks beyond {} %, of {}", queues.error_max, error.tasks);
            rows.extend([
                row("mean error over 10 s, %", error.mean, None),
                row(
                    "worst error over 10 s, %",
                    error.worst,
                    bar(queues.error_max),
                ),
                row(&beyond, error.beyond as f64, None),
                row("moves a second and CPU", seeds.most_moves(), bar(MOVES_MAX)),
            ]);
        }
    }
    rows
}

/// A line for each place and window.
pub fn series(all: &[Measured]) -> String {
    let mut text = String::from(
        "queues,cpus,seed,window_s,mean,worst,tasks,beyond,moves_per_s_cpu,decisions_per_s_cpu\n",
    );
    for one in all {
        let Place { queues, cpus, seed } = one.place;
        for (length, error) in WINDOWS.iter().zip(&one.errors) {
            let Some(WindowError {
                mean,
                worst,
                tasks,
                beyond,
            }) = error
            else {
                continue;
            };
            writeln!(
                text,
                "{},{cpus},{seed},{:.1},{mean:.6},{worst:.6},{tasks},{beyond},{:.4},{:.1}",
                queues.name,
                window_s(*length),
                one.moves,
                one.decisions
            )
            .expect("strings take all");
        }
    }
    text
}

pub fn window_s(length: usize) -> f64 {
    length as f64 / SAMPLES_A_SECOND as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_of_tasks_that_are_due_enough() {
        let sample = |due_ms: u64, received_ms: u64, small_ms: u64| Sample {
            entitled_ns: vec![due_ms * 1_000_000, 0],
            received_ns: vec![received_ms * 1_000_000, small_ms * 1_000_000],
        };
        let samples = [sample(0, 0, 0), sample(50, 60, 1), sample(100, 100, 2)];
        let tenth = error(&samples, 1, 10.0).unwrap();
        assert!((tenth.mean - 20.0).abs() < 1e-9 && (tenth.worst - 20.0).abs() < 1e-9);
        assert_eq!((tenth.tasks, tenth.beyond), (1, 1));
        let both = error(&samples, 2, 10.0).unwrap();
        assert_eq!((both.worst, both.tasks, both.beyond), (0.0, 1, 0));
        assert_eq!(error(&samples, 3, 10.0), None);
    }

    /// Needs `tombola` in target/release.
    #[test]
    fn small_machines_meet_the_bars_in_the_same_way_each_time() {
        let mut places = places();
        places.retain(|place| place.cpus <= 16 && place.seed == 1);
        assert_eq!(places.len(), 6);
        let seconds = WARM_S + 12;
        let all = measure(&places, seconds).unwrap();
        assert_eq!(all, measure(&places, seconds).unwrap());
        let rows = rows(&all);
        assert_eq!(rows.len(), 4 * places.len());
        assert!(rows.iter().all(|row| row.pass != Some(false)), "{rows:?}");
        assert_eq!(rows.iter().filter(|row| row.pass.is_some()).count(), 8);
        // No window of 30 s fits.
        assert_eq!(series(&all).lines().count(), 1 + 5 * places.len());
    }
}
