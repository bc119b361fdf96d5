//! The reverse-hash server (DTU's operating systems challenge): how many threads, which order, processes, a cache.
//!
//! What was published was measured on four cores of another machine, with another hash routine, so that seconds cannot be
//! compared. Here one core alone gets the load that one of theirs had: the requests are the published ones, smaller, and come the
//! faster the more this machine hashes. Scores are given in the published machine's time. As many cores as there are share what
//! four shared there.

use crate::experiment::{Bench, Experiment};
use crate::plot::{self, Curve, Panel};
use crate::result::Row;
use anyhow::{Context, Result, bail, ensure};
use plotters::prelude::SeriesLabelPosition;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

const SOURCE: &str = "reverse-hash server, OS challenge";

pub const THREADS: Experiment = Experiment {
    name: "threads",
    about: "the reverse-hash server with 1 to 20 threads, one for each request",
    source: SOURCE,
    run: threads,
};

pub const ORDER: Experiment = Experiment {
    name: "order",
    about: "the reverse-hash server's requests by arrival, priority, priority for the range, and for what is left of it",
    source: SOURCE,
    run: order,
};

pub const PROCESSES: Experiment = Experiment {
    name: "processes",
    about: "the reverse-hash server with 4 to 100 processes, and with threads",
    source: SOURCE,
    run: processes,
};

pub const CACHE: Experiment = Experiment {
    name: "cache",
    about: "the reverse-hash server with and without a cache, alone and with threads, and as it is now",
    source: SOURCE,
    run: cache,
};

/// The published averages of three runs, in million.
const PUBLISHED_SEQUENTIAL: f64 = 95.289_762;
const PUBLISHED_THREADS: [(u32, f64); 7] = [
    (3, 29.464_635),
    (4, 24.818_339),
    (5, 20.966_867),
    (6, 20.882_172),
    (7, 21.050_894),
    (8, 21.688_119),
    (20, 22.662_390),
];
const PUBLISHED_ORDER: [(&str, f64); 3] = [
    ("fifo", 20.882_172),
    ("priority", 18.854_961),
    ("smith", 17.989_692),
];
const PUBLISHED_PROCESSES: [(u32, f64); 6] = [
    (4, 34.922_202),
    (5, 41.134_463),
    (10, 29.633_019),
    (20, 30.999_082),
    (50, 35.625_674),
    (100, 35.269_411),
];
/// With as many percent of repeated requests.
const PUBLISHED_SEQUENTIAL_CACHE: [(u32, f64); 2] = [(20, 71.737_275), (50, 41.742_737)];
const PUBLISHED_THREADS_CACHE: [(u32, f64); 2] = [(20, 17.973_597), (50, 4.901_121)];
/// Measured again beside the processes.
const PUBLISHED_6_THREADS: f64 = 20.956_330;
/// Of the sequential server's score.
const PART_OF_THEIRS_MAX: f64 = 0.1;

/// Cores of the published machine, and the threads that were best on it.
const THEIR_CORES: u32 = 4;
const THEIR_THREADS: u32 = 6;
/// The published settings.
const REQUESTS: &str = "--settings midway --seed 3435245";
const DELAY_US: f64 = 600_000.0;
/// Ranges are this much smaller, so that a run takes ten seconds and not minutes.
const SMALLER: u64 = 5;
const RUNS: u32 = 3;
/// What the challenge's first servers do: each request alone, from its first number to the last, as the library hashes.
const PLAIN: &str = "--kernel portable --width one --chunk 0";

/// `unhash` with these words.
fn unhash(words: &str) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.args(words.split_whitespace());
    Ok(command)
}

fn program() -> Result<PathBuf> {
    let program = env::current_exe()?.with_file_name("unhash");
    ensure!(
        program.exists(),
        "there is no {}; make build",
        program.display()
    );
    Ok(program)
}

/// What it says as JSON.
fn said<T: DeserializeOwned>(words: &str) -> Result<T> {
    let output = unhash(words)?.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "unhash {words}: {}", output.status);
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("unhash {words}: not understood"))
}

/// Of `unhash simulate`: the first is one core for each request by arrival.
#[derive(Deserialize)]
struct Simulated {
    order: String,
    width: String,
    delay_us: u64,
    score: f64,
    ratio: f64,
}

/// A score in million, of the published requests on a machine like the published one: one core for each, by arrival.
fn plainly(cores: u32, rate: f64, cache: &str, repeat_percent: u32) -> Result<f64> {
    let requests = format!("{REQUESTS} --repeat {repeat_percent} --streams 1");
    let machine = format!("--overhead 0 --cache {cache} --cores {cores} --rate {rate}");
    let all: Vec<Simulated> = said(&format!("simulate {requests} {machine} --json"))?;
    Ok(all[0].score / 1e6)
}

/// Million hashes a second of the published machine: with them, one core has the published sequential score.
fn their_rate() -> Result<f64> {
    const ERROR_MAX: f64 = 1e-4;
    let (mut low, mut high) = (1.0, 100.0);
    while high / low > 1.0 + ERROR_MAX {
        let rate = f64::midpoint(low, high);
        match plainly(1, rate, "none", 20)? > PUBLISHED_SEQUENTIAL {
            true => low = rate,
            false => high = rate,
        }
    }
    Ok(high)
}

/// Million hashes a second of one core here, with each kernel, while so many are busy: cores may share what they are made of.
fn our_rates(busy: u32) -> Result<BTreeMap<String, f64>> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..busy)
            .map(|_| scope.spawn(|| said::<BTreeMap<String, f64>>("kernels --json")))
            .collect();
        let rates = said("kernels --json");
        for other in others {
            other.join().expect("asking does not panic")?;
        }
        rates
    })
}

/// The published requests, so that one core here alone has the load that one there had.
struct Load {
    /// Million hashes a second of a core there, and here with the sha2 crate.
    theirs: f64,
    ours: f64,
    /// Our seconds for one of theirs.
    scale: f64,
}

/// Of some runs, in million and in the published time.
struct Score {
    mean: f64,
    least: f64,
    most: f64,
}

impl Load {
    fn measure() -> Result<Self> {
        let (theirs, ours) = (their_rate()?, our_rates(1)?["portable"]);
        let scale = theirs / ours / SMALLER as f64;
        Ok(Self {
            theirs,
            ours,
            scale,
        })
    }

    /// On which every score depends.
    fn rows(&self) -> Vec<Row> {
        let row = |name: &str, rate, why: &str| Row {
            bar: format!("(million hashes a second, {why})"),
            ..row(name, rate, None)
        };
        vec![
            row("a core there", self.theirs, "from the sequential score"),
            row("a core here", self.ours, "with the sha2 crate"),
        ]
    }

    /// Of a server with these options.
    fn score(&self, options: &str, repeat_percent: u32) -> Result<Score> {
        let delay = (DELAY_US * self.scale) as u64;
        let requests =
            format!("{REQUESTS} --repeat {repeat_percent} --delay {delay} --smaller {SMALLER}");
        let run = |_| Ok(live(options, &requests)? / self.scale);
        let scores: Vec<f64> = (0..RUNS).map(run).collect::<Result<_>>()?;
        let score = Score {
            mean: scores.iter().sum::<f64>() / scores.len() as f64,
            least: scores.iter().copied().fold(f64::INFINITY, f64::min),
            most: scores.iter().copied().fold(0.0, f64::max),
        };
        eprintln!("{:8.3} million: unhash serve {options}", score.mean);
        Ok(score)
    }
}

/// `unhash serve`, which ends with this.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Of `unhash load`.
#[derive(Deserialize)]
struct Answered {
    requests: usize,
    right: usize,
    score: f64,
}

/// The score in million of a run with a server of its own, in our time. Every answer must be right.
fn live(options: &str, requests: &str) -> Result<f64> {
    let serve = format!("serve --listen 127.0.0.1:0 --time-max 3600 {options}");
    let child = unhash(&serve)?.stdout(Stdio::piped()).spawn()?;
    let mut server = Server(child);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("it is piped")).read_line(&mut line)?;
    let Some(address) = line.trim().strip_prefix("listening on ") else {
        bail!("unhash {serve} does not listen");
    };
    // It ends with 1 if an answer is wrong, and says how many.
    let load = format!("load {address} {requests} --json");
    let output = unhash(&load)?.stderr(Stdio::inherit()).output()?;
    let answered: Answered = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("unhash {load}: {}", output.status))?;
    ensure!(
        answered.right == answered.requests,
        "unhash {serve}: {} of {} answers are right",
        answered.right,
        answered.requests
    );
    Ok(answered.score / 1e6)
}

fn row(name: impl Into<String>, measured: f64, published: Option<f64>) -> Row {
    Row {
        name: name.into(),
        measured,
        published,
        bar: "(million, in the published machine's time)".to_owned(),
        pass: None,
    }
}

fn score_row(name: impl Into<String>, score: &Score, published: Option<f64>) -> Row {
    Row {
        bar: format!("(million; runs {:.2} to {:.2})", score.least, score.most),
        ..row(name, score.mean, published)
    }
}

fn at_most(name: impl Into<String>, measured: f64, most: f64, published: Option<f64>) -> Row {
    Row {
        name: name.into(),
        measured,
        published,
        bar: format!("at most {most:.4}"),
        pass: Some(measured <= most),
    }
}

/// An order that is no more than another in disguise would have 1.
fn less_than_all(name: &str, part: f64) -> Row {
    Row {
        name: name.to_owned(),
        measured: part,
        published: None,
        bar: "less than 1".to_owned(),
        pass: Some(part < 1.0),
    }
}

fn cores() -> u32 {
    thread::available_parallelism().map_or(1, usize::from) as u32
}

fn plotted(bench: &Bench, name: &str, panels: &[Panel]) -> Result<()> {
    bench.write("series.csv", &plot::csv(panels))?;
    plot::write(&bench.out, name, |area| plot::panels(area, panels))
}

fn points(of: &[(u32, f64)]) -> Vec<(f64, f64)> {
    of.iter().map(|(x, y)| (f64::from(*x), *y)).collect()
}

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

fn cache(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let plain = format!("{PLAIN} --order fifo");
    let sequential = load.score(&format!("{plain} --workers 1 --cache 0"), 20)?;
    let mut rows = load.rows();
    rows.push(score_row(
        "sequential, no cache, 20 %",
        &sequential,
        Some(PUBLISHED_SEQUENTIAL),
    ));
    // Theirs was looked at, ours is joined by whoever asks for what is being worked on.
    for (cache, how) in [("turn", "looked up in turn"), ("join", "joined")] {
        for (percent, published) in PUBLISHED_SEQUENTIAL_CACHE {
            let score = plainly(1, load.theirs, cache, percent)?;
            rows.push(row(
                format!("simulated, 1 core, {how}, {percent} %"),
                score,
                Some(published),
            ));
        }
    }
    let variants = [
        (
            "sequential",
            format!("{plain} --workers 1"),
            Some(PUBLISHED_SEQUENTIAL_CACHE),
        ),
        (
            "6 threads",
            format!("{plain} --workers {THEIR_THREADS}"),
            Some(PUBLISHED_THREADS_CACHE),
        ),
        ("as it is", String::new(), None),
    ];
    let mut curves = Vec::new();
    let logarithm = |(x, y): &(u32, f64)| (f64::from(*x), y.log10());
    for (name, options, published) in &variants {
        let mut measured = Vec::new();
        for repeat_percent in [20, 50] {
            let score = load.score(options, repeat_percent)?;
            let figures = published.iter().flatten();
            let figure = figures
                .clone()
                .find(|(percent, _)| *percent == repeat_percent);
            let figure = figure.map(|(_, score)| *score);
            rows.push(score_row(
                format!("{name}, cache, {repeat_percent} %"),
                &score,
                figure,
            ));
            measured.push((repeat_percent, score.mean));
        }
        curves.push(Curve::line(
            &format!("unhash, {name}"),
            measured.iter().map(logarithm).collect(),
        ));
        if let Some(published) = published {
            let points = published.iter().map(logarithm).collect();
            curves.push(Curve::line(&format!("published, {name}"), points));
        } else {
            for ((percent, score), (_, theirs)) in measured.iter().zip(PUBLISHED_THREADS_CACHE) {
                let best = theirs / PUBLISHED_SEQUENTIAL;
                let part = score / sequential.mean;
                let name = format!("as it is / sequential, {percent} %");
                rows.push(at_most(name, part, best * PART_OF_THEIRS_MAX, Some(best)));
            }
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

/// Orders on the simulated clock, and what they are called.
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

/// The scores of those that are compared, in parts of the first.
fn simulated(words: &str) -> Result<Vec<f64>> {
    let all: Vec<Simulated> = said(&format!("simulate {words} --json"))?;
    let find = |(order, width, _): &(&str, &str, &str)| {
        let of = |row: &&Simulated| row.order == *order && row.width == *width;
        all.iter().find(of).map(|row| row.ratio)
    };
    let ratios: Option<Vec<f64>> = COMPARED.iter().map(find).collect();
    ratios.with_context(|| format!("unhash simulate {words}: an order is missing"))
}

/// Of those that are compared, Gittins' index, which is the last, and the best other.
fn index_and_best(ratios: &[f64]) -> (f64, f64) {
    let (index, others) = ratios.split_last().expect("some are compared");
    (*index, others.iter().copied().fold(f64::MAX, f64::min))
}

/// At each load, the orders' scores in parts of FIFO's; and where Gittins' is worst in parts of the best other.
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
