//! What scheduling costs: busy tasks, and a server with its clients (Waldspurger & Weihl 1994, 5.6); and a process that runs
//! alone (Koster's Syncopation, 2000, 4.1).

use super::film::FAST;
use super::rows::compared_row;
use crate::experiment::{Bench, Experiment, Method, series};
use crate::plan::{Client, Course, Plan, Scheduler, Work};
use crate::play::{self, On, Played};
use crate::result::Row;
use crate::statistics::mean;
use anyhow::{Context, Result, ensure};
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const OVERHEAD: Experiment = Experiment {
    name: "overhead",
    about: "the work of 3 and of 8 busy tasks, and how long 5 clients of a text-search server have to wait for 20 answers each",
    source: "Lottery scheduling on Mach, 1994",
    method: Method::Plans {
        plans: overhead_plans,
        report: overhead,
    },
};

/// How many busy tasks, and how much longer their work took: published is that they did 2.7 and 0.8 % less in 200 s.
const BUSY: [(usize, f64); 2] = [(3, 1.0 / 0.973 - 1.0), (8, 1.0 / 0.992 - 1.0)];
const BUSY_S: f64 = 10.0;
const CLIENTS: usize = 5;
const QUERIES: usize = 20;
/// Clients had to wait for 1155.5 instead of 1135.5 s.
const PUBLISHED_QUERIES: f64 = 1155.5 / 1135.5 - 1.0;
/// By then all queries are answered.
const QUERIES_S: f64 = 20.0;
/// As a part of what the kernel's own scheduler needs.
const LONGER_MAX: f64 = 0.005;

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

/// An instruction takes 1 ns, as for films (film.rs).
fn overhead_plans() -> [Vec<Plan>; 2] {
    let plans_of = |scheduler| {
        let busy = BUSY
            .iter()
            .map(move |&(tasks, _)| busy_plan(scheduler, tasks));
        busy.chain([query_plan(scheduler)])
    };
    let first = [Scheduler::Stride, Scheduler::Nice];
    [
        first.into_iter().flat_map(plans_of).collect(),
        plans_of(Scheduler::Lottery).collect(),
    ]
}

fn busy_plan(scheduler: Scheduler, tasks: usize) -> Plan {
    Plan {
        name: format!("{}: {tasks} busy tasks", scheduler.name()),
        scheduler,
        shift: FAST,
        clients: (0..tasks).map(|_| Client::burning(1, 100)).collect(),
        warm_up_s: 1.0,
        seconds: BUSY_S,
        every_s: 1.0,
        ..Plan::default()
    }
}

fn query_plan(scheduler: Scheduler) -> Plan {
    let (clients, queries) = (CLIENTS.to_string(), QUERIES.to_string());
    let server = Client::running(1, &["query", "serve", "--clients", &clients]);
    let ask = ["query", "ask", "--queries", &queries];
    let asking = (0..CLIENTS).map(|_| Client::reporting(1, &ask, "--times"));
    Plan {
        name: format!("{}: {CLIENTS} clients", scheduler.name()),
        scheduler,
        shift: FAST,
        clients: [server].into_iter().chain(asking).collect(),
        warm_up_s: 0.0,
        seconds: QUERIES_S,
        every_s: 1.0,
        ..Plan::default()
    }
}

/// How long 1000 units of work of all tasks took, or how long the clients had to wait.
fn seconds(one: &(Plan, Course)) -> Result<f64> {
    let (plan, course) = one;
    if !matches!(plan.clients[0].work, Work::Burn) {
        return wait_s(one);
    }
    let last = course.last();
    let done: f64 = (0..plan.clients.len())
        .map(|task| course.done(task, 0, last))
        .sum();
    Ok(course.at_s(last) / done * 1000.0)
}

/// How long the client had to wait that had its last answer last. All began at the same time.
fn wait_s((plan, course): &(Plan, Course)) -> Result<f64> {
    let answers = course.ends.iter().map(|end| &end.numbers);
    let answers: Vec<_> = answers.filter(|numbers| !numbers.is_empty()).collect();
    ensure!(
        answers.len() == CLIENTS && answers.iter().all(|numbers| numbers.len() == QUERIES),
        "{}: not all queries were answered within {QUERIES_S} s",
        plan.name
    );
    let waits = answers.iter().map(|numbers| numbers.iter().sum::<u64>());
    Ok(waits.max().unwrap_or_default() as f64 / 1e6)
}

fn overhead(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let of = |scheduler: Scheduler| {
        let of_it = move |one: &&(Plan, Course)| one.0.scheduler == scheduler;
        played.iter().filter(of_it)
    };
    let mut rows = Vec::new();
    let mut curves = Vec::new();
    for scheduler in [Scheduler::Stride, Scheduler::Lottery] {
        let mut points = Vec::new();
        for (number, (ours, kernels_own)) in of(scheduler).zip(of(Scheduler::Nice)).enumerate() {
            let busy = BUSY.get(number);
            let published = busy.map_or(PUBLISHED_QUERIES, |&(_, published)| published);
            let (own, theirs) = (seconds(ours)?, seconds(kernels_own)?);
            let more = own / theirs - 1.0;
            let name = &ours.0.name;
            rows.push(compared_row(format!("{name}, seconds"), own, theirs));
            rows.push(Row {
                name: format!("{name}, longer than under the kernel's own, %"),
                measured: more * 100.0,
                published: Some(published * 100.0),
                bar: format!("at most {} %", LONGER_MAX * 100.0),
                pass: Some(more <= LONGER_MAX),
            });
            points.push((number as f64 + 1.0, more * 100.0));
        }
        curves.push(Curve::dots(scheduler.name(), points));
    }
    let levels = [("the kernel's own", 0.0), ("what it may be", LONGER_MAX)];
    let panel = Panel {
        title: "work, and a server's clients".to_owned(),
        x: "1: 3 busy tasks; 2: 8 busy tasks; 3: 5 clients".to_owned(),
        y: "% longer than the kernel's own".to_owned(),
        legend: SeriesLabelPosition::UpperRight,
        curves,
    };
    draw_levels(bench, OVERHEAD.name, panel, &levels, BUSY.len() + 1)?;
    Ok(rows)
}

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
    let levels = [("what it may be", OVERHEAD_MAX)];
    let panel = Panel {
        title: "a counting loop alone".to_owned(),
        x: "run".to_owned(),
        y: "% longer than the kernel's own, mean".to_owned(),
        legend: SeriesLabelPosition::UpperRight,
        curves: took.iter().map(curve).collect(),
    };
    draw_levels(bench, OVERHEAD_LOOP.name, panel, &levels, RUNS)
}

/// A panel of dots over the numbers 1 to `last`, with levels, which are parts and drawn as percent.
fn draw_levels(
    bench: &Bench,
    name: &str,
    mut panel: Panel,
    levels: &[(&str, f64)],
    last: usize,
) -> Result<()> {
    for &(level, part) in levels {
        let at = part * 100.0;
        let ends = vec![(1.0, at), (last as f64, at)];
        panel.curves.push(Curve::due(level, ends));
    }
    panel.curves.push(plot::room_above(&panel.curves));
    plot::write(&bench.out, name, |area| plot::panels(area, &[panel]))
}
