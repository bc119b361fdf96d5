//! Parts of the CPU that are reserved, and what is best effort (Koster's Syncopation, 2000, 4.3, 4.4 and 4.6).
//!
//! Tickets of base are given in percent: a reservation's, and 25 for best effort. What is not reserved or not used is shared in
//! proportion, so a running client gets its percents out of the sum of all running clients'.

use super::rows::{
    TIGHT, chance_row, compared_row, due, lottery_row, received, share_row, within_row,
};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Deadline, Group, Plan, Request, Scheduler};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::{ratio_errors, standard_errors};
use anyhow::{Context, Result};
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

const SOURCE: &str = "Syncopation, 2000";
pub const BEST_EFFORT_PERCENT: u32 = 25;
/// For SCHED_DEADLINE.
const PERIOD_NS: u64 = 10_000_000;

/// The client, with so much of the CPU reserved.
pub fn reserving(client: Client, percent: u32, period_ns: u64) -> Client {
    Client {
        reserved: Some(percent),
        groups: vec![Group::new(format!("reserved-{percent}"), percent * 100)],
        deadline: Some(Deadline {
            runtime_ns: period_ns * u64::from(percent) / 100,
            period_ns,
        }),
        ..client
    }
}

fn busy(percent: u32) -> Client {
    reserving(Client::burning(1, 100), percent, PERIOD_NS)
}

/// A busy client without a reservation.
pub fn best_effort(user: u32) -> Client {
    Client {
        groups: vec![Group::new("best-effort", BEST_EFFORT_PERCENT * 100)],
        ..Client::burning(user, 100)
    }
}

pub const PROPORTIONAL: Experiment = Experiment {
    name: "proportional",
    about: "40, 20 and 10 % reserved, best effort 25 %, 5 % unreserved; tasks end one after another",
    source: SOURCE,
    method: Method::Plans {
        plans: proportional_plans,
        report: proportional,
    },
};

const TASKS: [u32; 4] = [40, 20, 10, BEST_EFFORT_PERCENT];
const PHASE_S: f64 = 20.0;
/// Phase, task, and its share: "20 / (25 + 20 + 10), about 36 %", and "10 / (25 + 10), about 28.6 %".
const STEEPER: [(usize, usize, f64); 2] = [(1, 1, 0.36), (2, 2, 0.286)];

fn proportional_plans() -> [Vec<Plan>; 2] {
    let first = [Scheduler::Stride, Scheduler::Weight].map(one_after_another);
    [first.to_vec(), vec![one_after_another(Scheduler::Lottery)]]
}

fn proportional(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for one in played {
        for phase in 0..3 {
            let from_to = [phase, phase + 1].map(|at| one.1.sample_at(PHASE_S * at as f64));
            for (task, &percent) in TASKS.iter().enumerate().skip(phase) {
                let steeper = STEEPER.iter().find(|of| (of.0, of.1) == (phase, task));
                let published = steeper.map(|of| of.2);
                let name = format!("phase {}, {}", phase + 1, name_of(percent));
                let due = due(&TASKS[phase..], task - phase);
                rows.push(share_row(one, &name, task, from_to.into(), due, published));
            }
        }
    }
    draw(bench, PROPORTIONAL.name, played)?;
    Ok(rows)
}

fn name_of(percent: u32) -> String {
    match percent {
        BEST_EFFORT_PERCENT => "best effort".to_owned(),
        reserved => format!("{reserved} %"),
    }
}

fn one_after_another(scheduler: Scheduler) -> Plan {
    let reserved = (0..3).map(|task| Client {
        ends_s: Some(PHASE_S * (task + 1) as f64),
        ..busy(TASKS[task])
    });
    Plan {
        name: format!("{} 40, 20, 10", scheduler.name()),
        scheduler,
        clients: reserved.chain([best_effort(2)]).collect(),
        warm_up_s: 1.0,
        seconds: 3.0 * PHASE_S,
        every_s: 0.5,
        ..Plan::default()
    }
}

fn draw(bench: &Bench, name: &str, played: &Played) -> Result<()> {
    let panel = |(plan, course): &(Plan, Course)| {
        let clients = plan.clients.iter().enumerate();
        let curves = clients.map(|(i, client)| {
            let percent = client.reserved.unwrap_or(BEST_EFFORT_PERCENT);
            Curve::line(&name_of(percent), progress(course, i))
        });
        Panel {
            title: plan.scheduler.name().to_owned(),
            x: "seconds".to_owned(),
            y: "seconds of CPU time".to_owned(),
            legend: SeriesLabelPosition::UpperLeft,
            curves: curves.collect(),
        }
    };
    let panels: Vec<Panel> = played.iter().map(panel).collect();
    plot::write(&bench.out, name, |area| plot::panels(area, &panels))
}

fn progress(course: &Course, client: usize) -> Vec<(f64, f64)> {
    let samples = 0..=course.last();
    samples
        .map(|i| (course.at_s(i), course.used_s(client, 0, i)))
        .collect()
}

pub const RESERVATION: Experiment = Experiment {
    name: "reservation",
    about: "40, 20, 10 and 5 % reserved, best effort 25 %, all busy, in windows of 1 s; and one percent more",
    source: SOURCE,
    method: Method::Plans {
        plans: reservation_plans,
        report: reservation,
    },
};

const ALL_HELD: [u32; 5] = [40, 20, 10, 5, BEST_EFFORT_PERCENT];
const WINDOWS: usize = 60;

fn reservation_plans() -> [Vec<Plan>; 2] {
    let first = [Scheduler::Stride, Scheduler::Weight, Scheduler::Deadline].map(all_held);
    [first.to_vec(), vec![all_held(Scheduler::Lottery)]]
}

fn reservation(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for one in played {
        for client in 0..ALL_HELD.len() {
            rows.extend(windows_of(one, client));
        }
        if one.0.scheduler.policy().is_some() {
            rows.push(refusal(one)?);
        }
    }
    draw_windows(bench, played)?;
    Ok(rows)
}

fn all_held(scheduler: Scheduler) -> Plan {
    let reserved = ALL_HELD[..4].iter().map(|&percent| busy(percent));
    Plan {
        name: format!("{} 40, 20, 10, 5", scheduler.name()),
        scheduler,
        clients: reserved.chain([best_effort(2)]).collect(),
        request: Some(Request {
            client: 4,
            percent: 1,
        }),
        warm_up_s: 1.0,
        seconds: WINDOWS as f64,
        every_s: 1.0,
        ..Plan::default()
    }
}

fn windows((plan, course): &(Plan, Course), client: usize) -> Vec<f64> {
    (0..WINDOWS)
        .map(|i| received(plan, course, client, i, i + 1))
        .collect()
}

fn windows_of(one: &(Plan, Course), client: usize) -> Vec<Row> {
    let (plan, course) = one;
    let (due, label) = (due(&ALL_HELD, client), name_of(ALL_HELD[client]));
    let scheduler = plan.scheduler.name();
    let name = |what: &str| format!("{scheduler}: {label}, {what}");
    let windows = windows(one, client);
    let off = |window: &f64| (window - due).abs();
    let worst = windows
        .iter()
        .copied()
        .max_by(|a, b| off(a).total_cmp(&off(b)))
        .unwrap_or(due);
    let whole = share_row(
        one,
        &format!("{label}, whole"),
        client,
        (0, WINDOWS),
        due,
        Some(due),
    );
    let worst_row = match plan.scheduler {
        Scheduler::Stride => within_row(name("worst window"), worst, due, TIGHT, None),
        Scheduler::Lottery => {
            let errors: Vec<f64> = (0..WINDOWS)
                .map(|i| standard_errors(windows[i], due, course.all_used_s(i, i + 1)))
                .collect();
            chance_row(name("chance of such windows"), &errors)
        }
        _ => compared_row(name("worst window"), worst, due),
    };
    let ms = compared_row(name("worst window, ms from due"), off(&worst) * 1e3, 0.0);
    vec![whole, worst_row, ms]
}

/// The answer to a request for more than is left.
fn refusal((plan, course): &(Plan, Course)) -> Result<Row> {
    let answer = course.answer.as_ref().context("nothing was requested")?;
    let text = answer.text.lines().next().unwrap_or_default();
    Ok(Row {
        name: format!("{}: a 76th percent: exit status", plan.scheduler.name()),
        measured: f64::from(answer.status),
        published: None,
        bar: format!("1, and a message with the parts requested and left: {text}"),
        pass: Some(answer.status == 1 && text.contains("1%") && text.contains("0%")),
    })
}

fn draw_windows(bench: &Bench, played: &Played) -> Result<()> {
    let panel = |one: &(Plan, Course)| {
        let curve = |(client, percent): (usize, &u32)| {
            let points = windows(one, client).into_iter().enumerate();
            let points = points.map(|(i, share)| (i as f64 + 0.5, share * 100.0));
            Curve::line(&name_of(*percent), points.collect())
        };
        let mut curves: Vec<Curve> = ALL_HELD.iter().enumerate().map(curve).collect();
        curves.push(plot::room_above(&curves));
        Panel {
            title: one.0.scheduler.name().to_owned(),
            x: "seconds".to_owned(),
            y: "% of the CPU in windows of 1 s".to_owned(),
            legend: SeriesLabelPosition::UpperRight,
            curves,
        }
    };
    let panels: Vec<Panel> = played.iter().map(panel).collect();
    plot::write(&bench.out, RESERVATION.name, |area| {
        plot::panels(area, &panels)
    })
}

pub const BEST_EFFORT: Experiment = Experiment {
    name: "best-effort",
    about: "one task with 75 % reserved against 1, 100 and 1000 best-effort hogs of one user and of ten",
    source: SOURCE,
    method: Method::Plans {
        plans: load_plans,
        report: under_load,
    },
};

const PART: f64 = 0.75;
/// Hogs, and users that they belong to.
const LOADS: [(u32, u32); 5] = [(1, 1), (100, 1), (1000, 1), (100, 10), (1000, 10)];

fn load_plans() -> [Vec<Plan>; 2] {
    let of = |scheduler| LOADS.map(|load| against(scheduler, load)).to_vec();
    [
        [of(Scheduler::Stride), of(Scheduler::Deadline)].concat(),
        [of(Scheduler::Weight), of(Scheduler::Lottery)].concat(),
    ]
}

fn under_load(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for of_one in played.chunk_by(|(a, _), (b, _)| a.scheduler == b.scheduler) {
        for (load, one) in of_one.iter().enumerate() {
            let name = load_name(LOADS[load]);
            let whole = (0, one.1.last());
            rows.push(share_row(one, &name, 0, whole, PART, Some(PART)));
            if load > 0 {
                rows.push(change(&of_one[0], one, &name));
            }
        }
    }
    draw_loads(bench, played)?;
    Ok(rows)
}

fn load_name((hogs, users): (u32, u32)) -> String {
    match users {
        1 => format!("against {hogs}"),
        _ => format!("against {hogs} of {users} users"),
    }
}

fn against(scheduler: Scheduler, load: (u32, u32)) -> Plan {
    let (hogs, users) = load;
    let hog = |i: u32| {
        let user = 2 + i % users;
        let around = Group::new(format!("best-effort-{users}"), BEST_EFFORT_PERCENT * 100);
        let own = Group::new(format!("user{user}"), 100);
        Client {
            groups: vec![around, own],
            ..Client::burning(user, 100)
        }
    };
    Plan {
        name: format!("{} {}", scheduler.name(), load_name(load)),
        scheduler,
        clients: [busy(75)].into_iter().chain((0..hogs).map(hog)).collect(),
        warm_up_s: 2.0,
        seconds: 20.0,
        every_s: 1.0,
        ..Plan::default()
    }
}

fn change(alone: &(Plan, Course), loaded: &(Plan, Course), name: &str) -> Row {
    let share = |(plan, course): &(Plan, Course)| received(plan, course, 0, 0, course.last());
    let scheduler = loaded.0.scheduler;
    let name = format!("{}: {name}, of that against 1", scheduler.name());
    let measured = share(loaded) / share(alone);
    match scheduler {
        Scheduler::Stride => within_row(name, measured, 1.0, TIGHT, Some(1.0)),
        Scheduler::Lottery => {
            let error = ratio_errors(measured, [PART, PART], loaded.0.seconds);
            lottery_row(name, measured, 1, error, Some(1.0))
        }
        _ => compared_row(name, measured, 1.0),
    }
}

fn draw_loads(bench: &Bench, played: &Played) -> Result<()> {
    let curve = |(load, (plan, course)): (usize, &(Plan, Course))| {
        let points = (1..=course.last()).map(|i| {
            let off = received(plan, course, 0, i - 1, i) / PART - 1.0;
            (course.at_s(i), off * 100.0)
        });
        Curve::line(&load_name(LOADS[load]), points.collect())
    };
    let panel = |of_one: &[(Plan, Course)]| {
        let mut curves: Vec<Curve> = of_one.iter().enumerate().map(curve).collect();
        curves.push(plot::room_above(&curves));
        Panel {
            title: of_one[0].0.scheduler.name().to_owned(),
            x: "seconds".to_owned(),
            y: "% off, in windows of 1 s".to_owned(),
            legend: SeriesLabelPosition::UpperRight,
            curves,
        }
    };
    let panels: Vec<Panel> = played
        .chunk_by(|(a, _), (b, _)| a.scheduler == b.scheduler)
        .map(panel)
        .collect();
    plot::write(&bench.out, BEST_EFFORT.name, |area| {
        plot::panels(area, &panels)
    })
}
