//! A client lends tickets to another one and takes them back (Koster's Syncopation, 2000, 4.5).
//!
//! There 40 and 10 % of the CPU are reserved for the two; here they hold 40 and 10 of 100 tickets. An instruction takes 1 ns, as
//! for films (film.rs): the commands that lend and reclaim take the CPU from all meanwhile.

use super::film::FAST;
use super::rows::{compared_row, due, share_row};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Loan, Plan, Scheduler};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::QUANTUM_S;
use anyhow::Result;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const TRANSFER: Experiment = Experiment {
    name: "transfer",
    about: "A has 40 of 100 tickets and B 10; A lends 30 to B and takes them back; and one of the two is killed meanwhile",
    source: "Syncopation, 2000",
    method: Method::Plans {
        plans,
        report: transfer,
    },
};

const A: usize = 0;
const B: usize = 1;
const TICKETS: [u32; 3] = [40, 10, 50];
const NAMES: [&str; 3] = ["A", "B", "the third"];
const LENT: u32 = 30;
const LENT_S: f64 = 0.35;
const RETURNED_S: f64 = 0.73;
const KILLED_S: f64 = 0.55;
const END_S: f64 = 1.1;
const EVERY_S: f64 = 0.002;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Killed {
    Nobody,
    Borrower,
    Lender,
}

fn plans() -> [Vec<Plan>; 2] {
    [
        vec![
            plan(Scheduler::Stride, Killed::Nobody),
            plan(Scheduler::Stride, Killed::Borrower),
            plan(Scheduler::Stride, Killed::Lender),
        ],
        vec![plan(Scheduler::Lottery, Killed::Nobody)],
    ]
}

fn plan(scheduler: Scheduler, killed: Killed) -> Plan {
    let client = |client: usize| Client {
        ends_s: match (killed, client) {
            (Killed::Lender, A) | (Killed::Borrower, B) => Some(KILLED_S),
            _ => None,
        },
        ..Client::burning(1, TICKETS[client])
    };
    let what = match killed {
        Killed::Nobody => "",
        Killed::Borrower => ", the borrower is killed",
        Killed::Lender => ", the lender is killed",
    };
    Plan {
        name: format!("{}{what}", scheduler.name()),
        scheduler,
        shift: FAST,
        clients: (0..TICKETS.len()).map(client).collect(),
        loans: vec![Loan {
            from: A,
            to: B,
            tickets: LENT,
            begins_s: LENT_S,
            ends_s: RETURNED_S,
        }],
        warm_up_s: 1.0,
        seconds: END_S,
        every_s: EVERY_S,
        ..Plan::default()
    }
}

/// A part of the run in which the tickets stay the same: when it begins and ends, and what each client then has.
struct Phase {
    name: &'static str,
    from_s: f64,
    to_s: f64,
    tickets: [u32; 3],
}

fn phases(plan: &Plan, course: &Course) -> Vec<Phase> {
    let phase = |name, from_s, to_s, tickets| Phase {
        name,
        from_s,
        to_s,
        tickets,
    };
    let lent = [TICKETS[A] - LENT, TICKETS[B] + LENT, TICKETS[2]];
    let killed = plan
        .clients
        .iter()
        .position(|client| client.ends_s.is_some());
    let mut phases = vec![phase("before", 0.0, LENT_S, TICKETS)];
    match killed {
        None => {
            phases.push(phase("lent", LENT_S, RETURNED_S, lent));
            phases.push(phase("returned", RETURNED_S, END_S, TICKETS));
        }
        Some(killed) => {
            let mut left = TICKETS;
            left[killed] = 0;
            let dead_s = exited_s(course, killed);
            phases.push(phase("lent", LENT_S, dead_s, lent));
            phases.push(phase("after the kill", dead_s, END_S, left));
        }
    }
    phases
}

/// When it had exited: for that, too, it needs CPU time, and waits for it.
fn exited_s(course: &Course, killed: usize) -> f64 {
    let used_ns = |i: usize| course.samples[i].used_ns[killed];
    let last = (0..=course.last()).find(|&i| used_ns(i) == used_ns(course.last()));
    course.at_s(last.unwrap_or_default())
}

fn transfer(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let rows = played.iter().flat_map(rows_of).collect();
    let panels: Vec<Panel> = played.iter().map(panel).collect();
    plot::write(&bench.out, TRANSFER.name, |area| {
        plot::panels(area, &panels)
    })?;
    Ok(rows)
}

fn rows_of(one: &(Plan, Course)) -> Vec<Row> {
    let mut rows = Vec::new();
    for phase in phases(&one.0, &one.1) {
        let clients = (0..TICKETS.len()).filter(|&client| phase.tickets[client] > 0);
        rows.extend(clients.map(|client| share(one, &phase, client)));
    }
    rows.push(furthest(one));
    rows
}

/// Over a phase of less than half a second, a quantum is more than the bar of `share_row` for stride.
fn share(one: &(Plan, Course), phase: &Phase, client: usize) -> Row {
    let (plan, course) = one;
    let what = plan.name.strip_prefix(plan.scheduler.name());
    let name = format!(
        "{}, {}{}",
        phase.name,
        NAMES[client],
        what.unwrap_or_default()
    );
    let between = (course.sample_at(phase.from_s), course.sample_at(phase.to_s));
    let due = due(&phase.tickets, client);
    match plan.scheduler {
        Scheduler::Lottery => share_row(one, &name, client, between, due, None),
        _ => {
            let measured = course.share(client, between.0, between.1);
            let name = format!("{}: {name}", plan.scheduler.name());
            compared_row(name, measured, due)
        }
    }
}

/// How far a client is ever from what is due, from the first sample on, through both changes.
fn furthest((plan, course): &(Plan, Course)) -> Row {
    let phases = phases(plan, course);
    let mut furthest_s: f64 = 0.0;
    for client in 0..TICKETS.len() {
        let mut off_s = 0.0;
        for i in 1..=course.last() {
            let at_s = (course.at_s(i - 1) + course.at_s(i)) / 2.0;
            let phase = phases.iter().rfind(|phase| phase.from_s <= at_s);
            let due = phase.map_or(0.0, |phase| due(&phase.tickets, client));
            off_s += course.used_s(client, i - 1, i) - due * course.all_used_s(i - 1, i);
            furthest_s = furthest_s.max(f64::abs(off_s));
        }
    }
    let most_s = 2.0 * QUANTUM_S;
    Row {
        name: format!("{}: ever off by, ms", plan.name),
        measured: furthest_s * 1e3,
        published: None,
        bar: format!("a quantum from where it began: at most {} ms", most_s * 1e3),
        pass: (plan.scheduler == Scheduler::Stride).then_some(furthest_s <= most_s),
    }
}

fn panel((plan, course): &(Plan, Course)) -> Panel {
    let curve = |client: usize| {
        let points = (0..=course.last()).map(|i| (course.at_s(i), course.used_s(client, 0, i)));
        Curve::line(NAMES[client], points.collect())
    };
    Panel {
        title: plan.name.clone(),
        x: "seconds".to_owned(),
        y: "seconds of CPU time".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: (0..TICKETS.len()).map(curve).collect(),
    }
}
