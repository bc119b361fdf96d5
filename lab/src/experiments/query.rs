//! Clients of a server without tickets of its own (Waldspurger & Weihl 1994, 5.3). Mach's clients lend by a call, these do not
//! know of tickets. An instruction takes 1 ns, as for films (film.rs).

use super::film::FAST;
use super::rows::{compared_row, within_row};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Plan, Scheduler};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::mean;
use anyhow::{Context, Result};
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const QUERY: Experiment = Experiment {
    name: "query",
    about: "a text-search server with one ticket, three clients 8:3:1, the first leaves after 20 queries; and beside ten hogs",
    source: "Lottery scheduling on Mach, 1994",
    method: Method::Plans {
        plans,
        report: query,
    },
};

/// After the server.
const CLIENTS: [usize; 3] = [1, 2, 3];
const TICKETS: [u32; 3] = [800, 300, 100];
const QUERIES: usize = 20;
const PUBLISHED_S: [f64; 3] = [17.19, 43.19, 132.20];
const PUBLISHED_AFTER: f64 = 38.0 / 13.0;
const HOGS: usize = 10;
const ALONE_S: f64 = 8.0;
const BESIDE_HOGS_S: f64 = 12.0;
/// By then the clients have begun.
const ALL_RUN_S: f64 = 2.0;

/// Response times, of one another.
const RATIO_ERROR_MAX: f64 = 0.03;
/// The standard deviation of a client's response times, as a part of their mean.
const DEVIATION_MAX: f64 = 0.05;
const SHARE_ERROR_MAX: f64 = 0.02;
const HOGS_ERROR_MAX: f64 = 0.01;

fn plans() -> [Vec<Plan>; 2] {
    [
        vec![
            plan(Scheduler::Stride, 0),
            plan(Scheduler::Lottery, 0),
            plan(Scheduler::Weight, 0),
        ],
        vec![plan(Scheduler::Stride, HOGS), plan(Scheduler::Weight, HOGS)],
    ]
}

fn plan(scheduler: Scheduler, hogs: usize) -> Plan {
    let server = Client {
        tickets: 1,
        ..Client::running(1, &["query", "serve"])
    };
    let clients = (0..CLIENTS.len()).map(|client| {
        let queries = if client == 0 { QUERIES } else { 0 }.to_string();
        let words = ["query", "ask", "--queries", &queries];
        let asking = Client {
            tickets: TICKETS[client],
            ..Client::reporting(1, &words, "--times")
        };
        asking.in_group(&format!("client{client}"), TICKETS[client])
    });
    let hogs_of_another = (0..hogs).map(|_| Client::burning(2, 100));
    Plan {
        name: match hogs {
            0 => scheduler.name().to_owned(),
            _ => format!("{}, beside {hogs} hogs of another user", scheduler.name()),
        },
        scheduler,
        shift: FAST,
        clients: [server.in_group("server", 1)]
            .into_iter()
            .chain(clients)
            .chain(hogs_of_another)
            .collect(),
        warm_up_s: 0.0,
        seconds: if hogs == 0 { ALONE_S } else { BESIDE_HOGS_S },
        every_s: 0.1,
        ..Plan::default()
    }
}

/// Response times of each client, in seconds.
struct Times([Vec<f64>; 3]);

impl Times {
    fn of(course: &Course) -> Result<Self> {
        let mut times = [const { Vec::new() }; 3];
        for (times, client) in times.iter_mut().zip(CLIENTS) {
            let end = course.ends.iter().find(|end| end.client == client);
            let end = end.with_context(|| format!("client {client} has had no answer"))?;
            times.extend(end.numbers.iter().map(|&us| us as f64 / 1e6));
        }
        Ok(Self(times))
    }

    /// Of a client's queries that were answered before the first client left.
    fn with_all(&self, client: usize) -> &[f64] {
        let until_s: f64 = self.0[0].iter().sum();
        let mut at_s = 0.0;
        let answered = self.0[client].iter().take_while(|&&time| {
            at_s += time;
            at_s <= until_s
        });
        &self.0[client][..answered.count()]
    }
}

fn deviation(of: &[f64]) -> f64 {
    let mean = mean(of);
    let squares = of.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
    (squares / of.len() as f64).sqrt() / mean
}

fn query(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for one in played {
        rows.extend(rows_of(one)?);
    }
    let panels: Vec<Panel> = played.iter().map(panel).collect();
    plot::write(&bench.out, QUERY.name, |area| plot::panels(area, &panels))?;
    Ok(rows)
}

fn rows_of((plan, course): &(Plan, Course)) -> Result<Vec<Row>> {
    let times = Times::of(course)?;
    let mut rows = response_rows(plan, &times);
    rows.extend(
        (0..CLIENTS.len()).map(|client| deviation_row(plan, client, times.with_all(client))),
    );
    rows.extend(later_row(plan, &times));
    rows.extend(hogs_row(plan, course));
    Ok(rows)
}

/// A bar for stride only.
fn row(plan: &Plan, what: &str, measured: f64, due: f64, error_max: f64) -> Row {
    let name = format!("{}: {what}", plan.name);
    match plan.scheduler {
        Scheduler::Stride => within_row(name, measured, due, error_max, None),
        _ => compared_row(name, measured, due),
    }
}

fn response_rows(plan: &Plan, times: &Times) -> Vec<Row> {
    let response_s = [0, 1, 2].map(|client| mean(times.with_all(client)));
    let to_first = |client: usize| Row {
        published: Some(PUBLISHED_S[client] / PUBLISHED_S[0]),
        ..row(
            plan,
            &format!(
                "response time of client {} to that of the first",
                client + 1
            ),
            response_s[client] / response_s[0],
            f64::from(TICKETS[0]) / f64::from(TICKETS[client]),
            RATIO_ERROR_MAX,
        )
    };
    let rate = response_s.map(|seconds| 1.0 / seconds);
    let part = row(
        plan,
        "the first client's part of the server",
        rate[0] / rate.iter().sum::<f64>(),
        f64::from(TICKETS[0]) / f64::from(TICKETS.iter().sum::<u32>()),
        SHARE_ERROR_MAX,
    );
    vec![to_first(1), to_first(2), part]
}

fn deviation_row(plan: &Plan, client: usize, times: &[f64]) -> Row {
    let (number, count, measured) = (client + 1, times.len(), deviation(times));
    Row {
        name: format!(
            "{}: deviation of client {number}'s {count} response times",
            plan.name
        ),
        measured,
        published: None,
        bar: format!("at most {DEVIATION_MAX} of the mean"),
        pass: (plan.scheduler == Scheduler::Stride).then_some(measured <= DEVIATION_MAX),
    }
}

/// Of queries that were asked after the first client had left. Where it was not served, it may still be there at the end.
fn later_row(plan: &Plan, times: &Times) -> Option<Row> {
    let later = |client: usize| {
        let before = times.with_all(client).len() + 1;
        times.0[client]
            .get(before..)
            .filter(|times| !times.is_empty())
    };
    let what = "response time of client 3 to that of 2, after the first has left";
    Some(Row {
        published: Some(PUBLISHED_AFTER),
        ..row(
            plan,
            what,
            mean(later(2)?) / mean(later(1)?),
            3.0,
            RATIO_ERROR_MAX,
        )
    })
}

fn hogs_row(plan: &Plan, course: &Course) -> Option<Row> {
    let hogs = CLIENTS.len() + 1..plan.clients.len();
    if hogs.is_empty() {
        return None;
    }
    let (from, last) = (course.sample_at(ALL_RUN_S), course.last());
    let seconds = course.at_s(last) - course.at_s(from);
    let used_s: f64 = hogs.map(|hog| course.used_s(hog, from, last)).sum();
    let part = used_s / seconds;
    Some(row(
        plan,
        "the hogs' part of the CPU",
        part,
        0.5,
        HOGS_ERROR_MAX,
    ))
}

fn panel((plan, course): &(Plan, Course)) -> Panel {
    let curve = |client: usize| {
        let done = |i: usize| course.samples[i].units[CLIENTS[client]] as f64;
        let points = (0..=course.last()).map(|i| (course.at_s(i), done(i)));
        Curve::line(&format!("{} tickets", TICKETS[client]), points.collect())
    };
    Panel {
        title: plan.name.clone(),
        x: "seconds".to_owned(),
        y: "queries answered".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: (0..CLIENTS.len()).map(curve).collect(),
    }
}
