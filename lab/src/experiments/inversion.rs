//! Priority inversion: a client with most tickets waits for a lock that a process with few holds, or for its answer, while hogs
//! compute. The kernel's own scheduler has weights instead, and locks with priority inheritance. An instruction takes 1 ns, as
//! for films (film.rs).

use super::film::FAST;
use super::rows::compared_row;
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Plan, Scheduler};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::{QUANTUM_S, mean};
use anyhow::{Context, Result};
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const INVERSION: Experiment = Experiment {
    name: "inversion",
    about: "a client with 800 tickets waits for a lock held by one with 10, or for its answer, beside ten hogs with 100",
    source: "docs/lab.md",
    method: Method::Plans {
        plans,
        report: inversion,
    },
};

const CLIENT: usize = 1;
const HOLDERS_TICKETS: u32 = 10;
const CLIENTS_TICKETS: u32 = 800;
const HOGS: usize = 10;
const HOGS_TICKETS: u32 = 100;
/// CPU time for which the lock is held, or that an answer needs.
const WORK_S: f64 = 0.01;
const SECONDS: f64 = 6.0;
/// A wait may be so much longer than the work takes at the share of client and holder.
const LONGER_MAX: f64 = 0.1;

const WAYS: [(&str, &str); 3] = [
    ("mutex", "a lock"),
    ("inheriting-mutex", "a lock with priority inheritance"),
    ("server", "an answer"),
];

fn plans() -> [Vec<Plan>; 2] {
    let of = |scheduler: Scheduler| WAYS.map(|(way, _)| plan(scheduler, way));
    [
        [of(Scheduler::Stride), of(Scheduler::Lottery)].concat(),
        of(Scheduler::Weight).to_vec(),
    ]
}

fn plan(scheduler: Scheduler, way: &str) -> Plan {
    let with = |name: &str, tickets: u32, client: Client| Client {
        tickets,
        ..client.in_group(name, tickets)
    };
    let words = |what| ["inversion", what, "--through", way];
    let holder = with(
        "holder",
        HOLDERS_TICKETS,
        Client::running(1, &words("hold")),
    );
    let client = with(
        "client",
        CLIENTS_TICKETS,
        Client::reporting(1, &words("ask"), "--times"),
    );
    let hog = |number| {
        with(
            &format!("hog{number}"),
            HOGS_TICKETS,
            Client::burning(1, HOGS_TICKETS),
        )
    };
    Plan {
        name: format!("{}, {way}", scheduler.name()),
        scheduler,
        shift: FAST,
        clients: [holder, client]
            .into_iter()
            .chain((0..HOGS).map(hog))
            .collect(),
        warm_up_s: 0.0,
        seconds: SECONDS,
        every_s: 0.1,
        ..Plan::default()
    }
}

/// The client's waits, in seconds, in the order of time.
fn waits_s(course: &Course) -> Result<Vec<f64>> {
    let end = course.ends.iter().find(|end| end.client == CLIENT);
    let waits = end.map(|end| end.numbers.iter().map(|&us| us as f64 / 1e6).collect());
    let waits: Vec<f64> = waits.context("the client has not waited")?;
    anyhow::ensure!(!waits.is_empty(), "the client has not waited once");
    Ok(waits)
}

/// How long the work takes at the share of client and holder.
fn due_s() -> f64 {
    let own = CLIENTS_TICKETS + HOLDERS_TICKETS;
    let all = own + HOGS as u32 * HOGS_TICKETS;
    WORK_S * f64::from(all) / f64::from(own)
}

fn inversion(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (number, (plan, course)) in played.iter().enumerate() {
        let waits = waits_s(course)?;
        let what = WAYS[number % WAYS.len()].1;
        rows.extend(rows_of(plan, what, &waits));
    }
    let panels = WAYS.map(|way| panel(played, way));
    let panels = panels.into_iter().collect::<Result<Vec<_>>>()?;
    plot::write(&bench.out, INVERSION.name, |area| {
        plot::log_panels(area, &panels)
    })?;
    Ok(rows)
}

fn rows_of(plan: &Plan, what: &str, waits: &[f64]) -> [Row; 2] {
    let name = |which| {
        format!(
            "{}: {which} of {} waits for {what}, ms",
            plan.scheduler.name(),
            waits.len()
        )
    };
    let longest_s = waits.iter().copied().fold(0.0, f64::max);
    // It may begin when a quantum of another one has just begun, and end in one.
    let most_s = due_s() * (1.0 + LONGER_MAX) + 2.0 * QUANTUM_S;
    let longest = Row {
        name: name("longest"),
        measured: longest_s * 1e3,
        published: None,
        bar: format!(
            "at most {:.1}: the work at the client's share is {:.1}",
            most_s * 1e3,
            due_s() * 1e3
        ),
        pass: (plan.scheduler == Scheduler::Stride).then_some(longest_s <= most_s),
    };
    [
        compared_row(name("mean"), mean(waits) * 1e3, due_s() * 1e3),
        longest,
    ]
}

/// How many of the waits were longer.
fn panel(played: &Played, (way, what): (&str, &str)) -> Result<Panel> {
    let of_way = played
        .iter()
        .filter(|(plan, _)| plan.name.ends_with(&format!(", {way}")));
    let curve = |(plan, course): &(Plan, Course)| {
        let mut waits = waits_s(course)?;
        waits.sort_by(f64::total_cmp);
        let count = waits.len() as f64;
        let points = waits.iter().enumerate();
        let points = points.map(|(i, wait)| ((wait * 1e3).max(0.01), (count - i as f64) / count));
        Ok(Curve::line(plan.scheduler.name(), points.collect()))
    };
    Ok(Panel {
        title: what.to_owned(),
        x: "ms".to_owned(),
        y: "part of the waits that took so long or longer".to_owned(),
        legend: SeriesLabelPosition::LowerLeft,
        curves: of_way.map(curve).collect::<Result<_>>()?,
    })
}
