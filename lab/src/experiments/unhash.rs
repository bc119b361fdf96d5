//! The reverse-hash server (DTU's operating systems challenge): how many threads, which order, processes, a cache.
//!
//! What was published was measured on four cores of another machine, with another hash routine, so that seconds cannot be
//! compared. Here each core gets the same load as there: the requests are the published ones, smaller, and come the faster the
//! more this machine hashes. Scores are given in the published machine's time.

use crate::experiment::{Bench, Experiment};
use crate::plot::{self, Curve, Panel};
use crate::result::Row;
use anyhow::{Context, Result, bail, ensure};
use plotters::prelude::SeriesLabelPosition;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

const SOURCE: &str = "reverse-hash server, OS challenge, 2022";

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

/// Means of three runs, in million.
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

/// A score in million, of the published requests on a machine like the published one that serves them plainly.
fn plainly(cores: u32, rate: f64) -> Result<f64> {
    let all: Vec<Simulated> = said(&format!(
        "simulate {REQUESTS} --streams 1 --overhead 0 --no-cache --cores {cores} --rate {rate} --json"
    ))?;
    Ok(all[0].score / 1e6)
}

/// Million hashes a second of the published machine: with them, one core has the published sequential score.
fn their_rate() -> Result<f64> {
    const ERROR_MAX: f64 = 1e-4;
    let (mut low, mut high) = (1.0, 100.0);
    while high / low > 1.0 + ERROR_MAX {
        let rate = f64::midpoint(low, high);
        match plainly(1, rate)? > PUBLISHED_SEQUENTIAL {
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

/// The published requests, so that one core here has the load that theirs had.
struct Load {
    theirs: f64,
    /// Our seconds for one of theirs.
    scale: f64,
}

impl Load {
    fn measure() -> Result<Self> {
        let (theirs, ours) = (their_rate()?, our_rates(1)?["portable"]);
        eprintln!(
            "a core there does {theirs:.2} million hashes a second, here with the sha2 crate {ours:.2}"
        );
        let scale = theirs / ours / SMALLER as f64;
        Ok(Self { theirs, scale })
    }

    /// The score of a server with these options, in million and in the published time: the mean of some runs.
    fn score(&self, options: &str, repeat_percent: u32) -> Result<f64> {
        let delay = (DELAY_US * self.scale) as u64;
        let requests =
            format!("{REQUESTS} --repeat {repeat_percent} --delay {delay} --smaller {SMALLER}");
        let runs = (0..RUNS).map(|_| live(options, &requests));
        let scores: Vec<f64> = runs.collect::<Result<_>>()?;
        let score = scores.iter().sum::<f64>() / scores.len() as f64 / self.scale;
        eprintln!("{score:8.3} million: {options}");
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
    let child = unhash(&serve)?
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut server = Server(child);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("it is piped")).read_line(&mut line)?;
    let Some(address) = line.trim().strip_prefix("listening on ") else {
        bail!("unhash {serve} does not listen");
    };
    let answered: Answered = said(&format!("load {address} {requests} --json"))?;
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

fn at_most(name: impl Into<String>, measured: f64, most: f64, published: Option<f64>) -> Row {
    Row {
        name: name.into(),
        measured,
        published,
        bar: format!("at most {most:.4}"),
        pass: Some(measured <= most),
    }
}

fn cores() -> u32 {
    thread::available_parallelism().map_or(1, usize::from) as u32
}

fn csv(rows: &[Row]) -> String {
    let mut text = String::from("name,measured,published\n");
    for row in rows {
        let published = row.published.map_or(String::new(), |x| x.to_string());
        writeln!(text, "{},{},{published}", row.name, row.measured).expect("text takes all");
    }
    text
}

fn plotted(bench: &Bench, name: &str, rows: &[Row], panels: &[Panel]) -> Result<()> {
    bench.write("series.csv", &csv(rows))?;
    plot::write(&bench.out, name, |area| plot::panels(area, panels))
}

fn points(of: &[(u32, f64)]) -> Vec<(f64, f64)> {
    of.iter().map(|(x, y)| (f64::from(*x), *y)).collect()
}

fn threads(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let score = |workers| {
        let options = format!("{PLAIN} --order fifo --cache 0 --workers {workers}");
        load.score(&options, 20)
    };
    let mut measured = vec![(1, score(1)?), (2, score(2)?)];
    let mut rows = vec![
        row("sequential", measured[0].1, Some(PUBLISHED_SEQUENTIAL)),
        row("2 threads", measured[1].1, None),
    ];
    for (workers, published) in PUBLISHED_THREADS {
        measured.push((workers, score(workers)?));
        let (_, of_these) = measured[measured.len() - 1];
        rows.push(row(format!("{workers} threads"), of_these, Some(published)));
    }
    let like_theirs = (1..=THEIR_CORES).map(|n| Ok((n, plainly(n, load.theirs)?)));
    let like_theirs: Vec<(u32, f64)> = like_theirs.collect::<Result<_>>()?;
    let published = [&[(1, PUBLISHED_SEQUENTIAL)], &PUBLISHED_THREADS[..]].concat();
    for (n, score) in &like_theirs {
        let figure = published.iter().find(|(of, _)| of == n);
        let figure = figure.map(|(_, score)| *score);
        rows.push(row(format!("simulated, cores: {n}"), *score, figure));
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
    plotted(bench, THREADS.name, &rows, &[panel])?;
    Ok(rows)
}

fn processes(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let plain = format!("{PLAIN} --order fifo --cache 0");
    let mut measured = Vec::new();
    let mut rows = Vec::new();
    for (count, published) in PUBLISHED_PROCESSES {
        let score = load.score(&format!("{plain} --processes --workers {count}"), 20)?;
        measured.push((count, score));
        rows.push(row(format!("{count} processes"), score, Some(published)));
    }
    let in_threads = load.score(&format!("{plain} --workers {THEIR_THREADS}"), 20)?;
    // Beside these the sweep of threads was run again, with another result.
    rows.push(row(
        format!("{THEIR_THREADS} threads"),
        in_threads,
        Some(20.956_330),
    ));
    let ends = |score| vec![(4.0, score), (100.0, score)];
    let panel = Panel {
        title: "one process for each request".to_owned(),
        x: "processes".to_owned(),
        y: "score, million".to_owned(),
        legend: SeriesLabelPosition::MiddleRight,
        curves: vec![
            Curve::line("published, 4 cores", points(&PUBLISHED_PROCESSES)),
            Curve::line(&format!("unhash, {} cores", cores()), points(&measured)),
            Curve::line("published, 6 threads", ends(20.956_330)),
            Curve::line("unhash, 6 threads", ends(in_threads)),
        ],
    };
    plotted(bench, PROCESSES.name, &rows, &[panel])?;
    Ok(rows)
}

fn cache(bench: &Bench) -> Result<Vec<Row>> {
    let load = Load::measure()?;
    let plain = format!("{PLAIN} --order fifo");
    let sequential = load.score(&format!("{plain} --workers 1 --cache 0"), 20)?;
    let mut rows = vec![row(
        "sequential, no cache, 20 %",
        sequential,
        Some(PUBLISHED_SEQUENTIAL),
    )];
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
            rows.push(row(
                format!("{name}, cache, {repeat_percent} %"),
                score,
                figure,
            ));
            measured.push((repeat_percent, score));
        }
        curves.push(Curve::line(
            &format!("unhash, {name}"),
            measured.iter().map(logarithm).collect(),
        ));
        if let Some(published) = published {
            let points = published.iter().map(logarithm).collect();
            curves.push(Curve::line(&format!("published, {name}"), points));
        }
        if published.is_none() {
            for ((percent, score), (_, theirs)) in measured.iter().zip(PUBLISHED_THREADS_CACHE) {
                let best = theirs / PUBLISHED_SEQUENTIAL;
                let part = score / sequential;
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
    plotted(bench, CACHE.name, &rows, &[panel])?;
    Ok(rows)
}

/// Orders on the simulated clock, and what they are called.
const COMPARED: [(&str, &str, &str); 5] = [
    ("fifo", "one", "fifo, one core each"),
    ("priority", "one", "priority, one core each"),
    ("fifo", "all", "fifo, all cores"),
    ("priority", "all", "priority, all cores"),
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
    let mut rows = Vec::new();
    let plain = format!("{PLAIN} --cache 0 --workers {THEIR_THREADS}");
    let mut best = f64::MAX;
    for (order, published) in PUBLISHED_ORDER {
        let score = load.score(&format!("{plain} --order {order}"), 20)?;
        rows.push(row(format!("6 threads, {order}"), score, Some(published)));
        best = best.min(score);
    }
    // The same hash routine and no cache: only the order differs, and who works on what.
    let index = load.score("--kernel portable --cache 0 --order gittins", 20)?;
    rows.push(at_most("gittins, all cores", index, best, None));

    for (cores, rate, delay, most) in SIMULATED_BARS {
        eprintln!("simulating {STREAMS_OF_BARS} streams on {cores} cores");
        let all = simulated(&format!(
            "--cores {cores} --rate {rate} --delay {delay} --streams {STREAMS_OF_BARS}"
        ))?;
        let name = format!("simulated, {cores} cores, {rate} MH/s, {delay} us: gittins of fifo");
        rows.push(at_most(name, all[COMPARED.len() - 1], most, None));
    }
    let mut panels: Vec<Panel> = Vec::new();
    for cores in MACHINES {
        let (panel, worst) = simulated_loads(cores)?;
        panels.push(panel);
        let name = format!("simulated, {cores} cores, any load: gittins of the best other");
        rows.push(at_most(name, worst, ALIKE, None));
    }
    let (panel, live) = live_loads()?;
    panels.push(panel);
    rows.extend(live);
    plotted(bench, ORDER.name, &rows, &panels)?;
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
        let [others @ .., index] = &ratios[..] else {
            bail!("nothing is compared");
        };
        let best = others.iter().copied().fold(f64::MAX, f64::min);
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
