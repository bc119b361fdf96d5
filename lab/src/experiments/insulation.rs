//! Users with equal base tickets, whatever the number of their tasks (Zepp 2012, chapter 5), and currencies with equal funding,
//! whatever the tickets inside (Waldspurger & Weihl 1994, 5.5).

use super::rows::{TIGHT, compared_row, historic_row, lottery_row, stride_row, within_row};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Currency, Group, Plan, Scheduler};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::{ratio_errors, standard_errors};
use anyhow::Result;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const INSULATION_USER: Experiment = Experiment {
    name: "insulation-user",
    about: "one user with 1 busy task, another with 2, 10 and 60",
    source: "Lottery scheduling in Linux, 2012",
    method: Method::Plans {
        plans: user_plans,
        report: insulation_user,
    },
};

const TASKS: [usize; 3] = [2, 10, 60];

fn user_plans() -> [Vec<Plan>; 2] {
    let of = |schedulers: &[Scheduler]| {
        let each = |&scheduler: &Scheduler| TASKS.map(|tasks| plan(scheduler, tasks));
        schedulers.iter().flat_map(each).collect()
    };
    [
        of(&[Scheduler::Stride, Scheduler::Nice, Scheduler::Weight]),
        of(&[
            Scheduler::Lottery,
            Scheduler::Linux24,
            Scheduler::Fairsched,
            Scheduler::Thesis,
        ]),
    ]
}

fn insulation_user(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let panels = TASKS.map(|tasks| panel(tasks, played));
    plot::write(&bench.out, INSULATION_USER.name, |area| {
        plot::panels(area, &panels)
    })?;
    Ok(played.iter().map(row).collect())
}

fn plan(scheduler: Scheduler, tasks: usize) -> Plan {
    Plan {
        name: format!("{} 1 against {tasks}", scheduler.name()),
        scheduler,
        clients: (0..=tasks)
            .map(|i| Client::burning(if i == 0 { 1 } else { 2 }, 100))
            .collect(),
        warm_up_s: 1.0,
        seconds: 30.0,
        every_s: 1.0,
        ..Plan::default()
    }
}

/// The share of the user with one task.
fn share(course: &Course, to: usize) -> f64 {
    let all: Vec<usize> = (0..course.samples[0].used_ns.len()).collect();
    course.part(&all, 0, to)
}

/// The share of the single task when it was done, by the thesis. It has no figure for the kernel's own beside 2 and 60 tasks.
fn published(plan: &Plan) -> Option<f64> {
    match (plan.scheduler, plan.clients.len()) {
        (Scheduler::Fairsched | Scheduler::Thesis, _) => Some(0.5),
        (Scheduler::Linux24, 11) => Some(1.0 / 11.0),
        _ => None,
    }
}

fn row((plan, course): &(Plan, Course)) -> Row {
    let (measured, name) = (share(course, course.last()), plan.name.clone());
    match plan.scheduler {
        Scheduler::Stride => stride_row(name, measured, 0.5, None),
        Scheduler::Lottery => {
            let error = standard_errors(measured, 0.5, plan.seconds);
            lottery_row(name, measured, 0.5, error, None)
        }
        historic if historic.is_historic() => {
            let of = (measured, 0.5, plan.seconds);
            historic_row(plan, (measured, 0.5), of, published(plan))
        }
        _ => compared_row(name, measured, 0.5),
    }
}

/// The first panel has the legend for all.
fn panel(tasks: usize, played: &Played) -> Panel {
    let has_legend = tasks == TASKS[0];
    let of = played
        .iter()
        .filter(|(plan, _)| plan.clients.len() == tasks + 1);
    let curve = |(plan, course): &(Plan, Course)| {
        let points = (1..=course.last()).map(|i| (course.at_s(i), share(course, i)));
        let name = match plan.scheduler {
            _ if !has_legend => "",
            Scheduler::Nice => "kernel's own",
            Scheduler::Weight => "kernel's own, cgroups",
            other => other.name(),
        };
        Curve::line(name, points.collect())
    };
    let mut curves: Vec<Curve> = of.map(curve).collect();
    if has_legend {
        curves.push(plot::room_above(&curves));
    }
    Panel {
        title: format!("1 task against {tasks}"),
        x: "seconds".to_owned(),
        y: "share of the user with one task".to_owned(),
        legend: SeriesLabelPosition::UpperRight,
        curves,
    }
}

pub const INSULATION_CURRENCY: Experiment = Experiment {
    name: "insulation-currency",
    about: "currencies A and B funded alike, A1 100.A, A2 200.A, B1 100.B, B2 200.B, and halfway B3 300.B",
    source: "Lottery scheduling on Mach, 1994",
    method: Method::Plans {
        plans: currency_plans,
        report: insulation_currency,
    },
};

/// Name and tickets of each task, in the currency that its name begins with. The last begins halfway.
const IN_CURRENCIES: [(&str, u32); 5] = [
    ("A1", 100),
    ("A2", 200),
    ("B1", 100),
    ("B2", 200),
    ("B3", 300),
];
const HALF_S: f64 = 60.0;
/// Parts of what all receive, before and after.
const DUE: [[f64; 2]; 4] = [
    [1.0 / 6.0, 1.0 / 6.0],
    [1.0 / 3.0, 1.0 / 3.0],
    [1.0 / 6.0, 1.0 / 12.0],
    [1.0 / 3.0, 1.0 / 6.0],
];

fn currency_plans() -> [Vec<Plan>; 2] {
    let first = [Scheduler::Stride, Scheduler::Weight].map(in_currencies);
    [first.to_vec(), vec![in_currencies(Scheduler::Lottery)]]
}

fn insulation_currency(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let rows = played.iter().flat_map(|(plan, course)| {
        (0..2)
            .map(|half| a_to_b(plan, course, half))
            .chain((0..4).map(|task| change_of(plan, course, task)))
    });
    let panels: Vec<Panel> = played
        .iter()
        .map(|(plan, course)| progress(plan, course))
        .collect();
    plot::write(&bench.out, INSULATION_CURRENCY.name, |area| {
        plot::panels(area, &panels)
    })?;
    Ok(rows.collect())
}

fn in_currencies(scheduler: Scheduler) -> Plan {
    let clients = IN_CURRENCIES.iter().map(|&(name, tickets)| Client {
        currency: Some(name[..1].to_owned()),
        groups: vec![Group::new(&name[..1], 100), Group::new(name, tickets)],
        starts_s: (name == "B3").then_some(HALF_S),
        ..Client::burning(1, tickets)
    });
    let currencies = ["A", "B"].map(|name| Currency {
        user: 1,
        name: name.to_owned(),
        tickets: 1000,
    });
    Plan {
        name: format!("{} A and B", scheduler.name()),
        scheduler,
        currencies: currencies.to_vec(),
        clients: clients.collect(),
        warm_up_s: 1.0,
        seconds: 2.0 * HALF_S,
        every_s: 1.0,
        ..Plan::default()
    }
}

/// First and last sample of a half.
fn half_of(course: &Course, half: usize) -> (usize, usize) {
    let at = |halves: usize| course.sample_at(HALF_S * halves as f64);
    (at(half), at(half + 1))
}

fn a_to_b(plan: &Plan, course: &Course, half: usize) -> Row {
    let (when, published) = [("before", 1.01), ("after", 1.00)][half];
    let name = format!("{}: A to B, {when}", plan.scheduler.name());
    let (from, to) = half_of(course, half);
    let part = course.share(0, from, to) + course.share(1, from, to);
    let ratio = part / (1.0 - part);
    match plan.scheduler {
        Scheduler::Stride => within_row(name, ratio, 1.0, TIGHT, Some(published)),
        Scheduler::Lottery => {
            let error = standard_errors(part, 0.5, course.all_used_s(from, to));
            lottery_row(name, ratio, "1:1", error, Some(published))
        }
        _ => compared_row(name, ratio, 1.0),
    }
}

fn change_of(plan: &Plan, course: &Course, task: usize) -> Row {
    let name = format!(
        "{}: rate of {} after, of that before",
        plan.scheduler.name(),
        IN_CURRENCIES[task].0
    );
    let share = |half| {
        let (from, to) = half_of(course, half);
        course.share(task, from, to)
    };
    let [before, after] = DUE[task];
    let (measured, due) = (share(1) / share(0), after / before);
    // "Not affected", and "approximately half".
    match plan.scheduler {
        Scheduler::Stride => within_row(name, measured, due, TIGHT, Some(due)),
        Scheduler::Lottery => {
            let error = ratio_errors(measured, [after, before], HALF_S);
            lottery_row(name, measured, due, error, Some(due))
        }
        _ => compared_row(name, measured, due),
    }
}

fn progress(plan: &Plan, course: &Course) -> Panel {
    let curve = |(task, (name, _)): (usize, &(&str, u32))| {
        let points = (0..=course.last()).map(|i| (course.at_s(i), course.used_s(task, 0, i)));
        Curve::line(name, points.collect())
    };
    Panel {
        title: plan.scheduler.name().to_owned(),
        x: "seconds".to_owned(),
        y: "seconds of CPU time".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: IN_CURRENCIES.iter().enumerate().map(curve).collect(),
    }
}
