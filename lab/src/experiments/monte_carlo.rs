//! Programs that set their own tickets by the work that is left (Waldspurger & Weihl 1994, 5.2).
//!
//! A task of n trials has tickets in proportion to the square of its relative error, that is to 1 / n. So of tasks with n1 and
//! n2 trials, n1 dn1 = n2 dn2: n1² - n2² stays what it was when the second began, and n1 / n2 goes to 1.

use super::rows::{compared_row, share_row, within_row};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Currency, Group, Plan, Scheduler};
use crate::play::Played;
use crate::result::Row;
use anyhow::Result;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const MONTE_CARLO: Experiment = Experiment {
    name: "monte-carlo",
    about: "three integrations begun one after another in one currency, tickets by the square of the error; two hogs outside",
    source: "Lottery scheduling on Mach, 1994",
    method: Method::Plans {
        plans,
        report: monte_carlo,
    },
};

const TASKS: usize = 3;
/// From one task's beginning to the next one's.
const LATER_S: f64 = 20.0;
const SECONDS: f64 = 200.0;
const EVERY_S: f64 = 0.5;
/// The part of a newcomer's run that is compared.
const FIRST_S: f64 = 2.0;
/// Outside the currency: one of the same user, one of another.
const HOGS: [(&str, f64); 2] = [
    ("the same user's hog, outside the currency", 0.25),
    ("another user's hog", 0.5),
];
/// "Converge": the law above gives 0.93 at the end, and would give 0.64 without tickets.
const CONVERGED: f64 = 0.9;

fn plans() -> [Vec<Plan>; 2] {
    let first = [Scheduler::Stride, Scheduler::Weight].map(plan);
    [first.to_vec(), vec![plan(Scheduler::Lottery)]]
}

fn monte_carlo(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for one in played {
        rows.extend(newcomers(one));
        rows.extend(convergence(one));
        let outside = (0..HOGS.len()).map(|hog| {
            let (name, due) = HOGS[hog];
            share_row(one, name, TASKS + hog, (0, one.1.last()), due, None)
        });
        rows.extend(outside);
    }
    let panels: Vec<Panel> = played.iter().map(panel).collect();
    plot::write(&bench.out, MONTE_CARLO.name, |area| {
        plot::panels(area, &panels)
    })?;
    Ok(rows)
}

fn begins_s(task: usize) -> f64 {
    LATER_S * task as f64
}

fn plan(scheduler: Scheduler) -> Plan {
    let tasks = (0..TASKS).map(|task| {
        let seed = (task + 1).to_string();
        let mut words = vec!["monte-carlo", "--seed", &seed];
        // Without Tombola there are no tickets to set.
        if scheduler.policy().is_none() {
            words.push("--no-tickets");
        }
        Client {
            currency: Some("integrals".to_owned()),
            groups: vec![Group::new("one", 100), Group::new("integrals", 100)],
            starts_s: Some(begins_s(task)),
            ..Client::running(1, &words)
        }
    });
    let same_user = Client {
        groups: vec![Group::new("one", 100), Group::new("hog", 100)],
        ..Client::burning(1, 100)
    };
    Plan {
        name: format!("{} three integrations", scheduler.name()),
        scheduler,
        currencies: vec![Currency {
            user: 1,
            name: "integrals".to_owned(),
            tickets: 100,
        }],
        clients: tasks.chain([same_user, Client::burning(2, 100)]).collect(),
        warm_up_s: 1.0,
        seconds: SECONDS,
        every_s: EVERY_S,
        ..Plan::default()
    }
}

fn trials(course: &Course, task: usize, sample: usize) -> f64 {
    course.samples[sample].units[task] as f64
}

/// Each newcomer's part of all trials at first.
fn newcomers((plan, course): &(Plan, Course)) -> Vec<Row> {
    let first = |task: usize| {
        let from = course.sample_at(begins_s(task));
        let to = course.sample_at(begins_s(task) + FIRST_S);
        let all: f64 = (0..=task).map(|task| course.done(task, from, to)).sum();
        let measured = course.done(task, from, to) / all;
        let equal = 1.0 / (task + 1) as f64;
        Row {
            name: format!(
                "{}: task {} in its first {FIRST_S} s, of all trials",
                plan.scheduler.name(),
                task + 1
            ),
            measured,
            published: None,
            bar: format!("more than an equal part, {equal:.4}: a newcomer starts fast"),
            pass: plan.scheduler.policy().map(|_| measured > equal),
        }
    };
    (1..TASKS).map(first).collect()
}

fn convergence((plan, course): &(Plan, Course)) -> Vec<Row> {
    let name = |what: &str| format!("{}: {what}", plan.scheduler.name());
    let end = course.last();
    let least_of_most = |of: &dyn Fn(usize) -> f64| {
        let all = || (0..TASKS).map(of);
        all().fold(f64::INFINITY, f64::min) / all().fold(0.0, f64::max)
    };
    let measured = least_of_most(&|task| trials(course, task, end));
    let law = by_the_law();
    let due = least_of_most(&|task| law.last().expect("it is not empty")[task]);
    let converged = Row {
        name: name("trials at the end, fewest of most"),
        measured,
        published: None,
        bar: format!("at least {CONVERGED}: they converge"),
        pass: plan.scheduler.policy().map(|_| measured >= CONVERGED),
    };
    let of_law = match plan.scheduler {
        Scheduler::Stride => within_row(name("the same, by the law"), measured, due, 0.01, None),
        _ => compared_row(name("the same, by the law"), measured, due),
    };
    vec![converged, of_law]
}

/// Trials of each task at each sample, if tickets are in proportion to 1 / trials; in seconds of the currency's CPU time.
fn by_the_law() -> Vec<[f64; TASKS]> {
    const STEPS: usize = 5000;
    let step_s = EVERY_S / STEPS as f64;
    let mut done = [0.0; TASKS];
    let mut all = vec![done];
    for sample in 0..(SECONDS / EVERY_S) as usize {
        let there = (0..TASKS)
            .filter(|&task| begins_s(task) <= sample as f64 * EVERY_S)
            .count();
        for _ in 0..STEPS {
            // Those in the middle of the step, or a newcomer would have all tickets for its first step.
            let tickets = done[..there].iter().map(|done| 1.0 / (done + step_s / 2.0));
            let tickets: Vec<f64> = tickets.collect();
            let sum: f64 = tickets.iter().sum();
            for (done, tickets) in done.iter_mut().zip(tickets) {
                *done += step_s * tickets / sum;
            }
        }
        all.push(done);
    }
    all
}

fn panel((plan, course): &(Plan, Course)) -> Panel {
    let millions = |task: usize, i: usize| trials(course, task, i) / 1e6;
    let curve = |task: usize| {
        let points = (0..=course.last()).map(|i| (course.at_s(i), millions(task, i)));
        Curve::line(&format!("task {}", task + 1), points.collect())
    };
    let curves = (0..TASKS).map(curve);
    let law = by_the_law();
    let all: f64 = (0..TASKS).map(|task| millions(task, course.last())).sum();
    let due = |task: usize| {
        let name = if task == 0 { "by the law" } else { "" };
        let points = law.iter().enumerate().step_by(4);
        let points = points.map(|(i, done)| (i as f64 * EVERY_S, done[task] * all / SECONDS));
        Curve::due(name, points.collect())
    };
    let ours = plan.scheduler.policy().is_some();
    let dues = (0..TASKS).filter(|_| ours).map(due);
    Panel {
        title: plan.scheduler.name().to_owned(),
        x: "seconds".to_owned(),
        y: "million trials".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: curves.chain(dues).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_the_law_squares_keep_their_distance() {
        let law = by_the_law();
        let at = |seconds: f64| law[(seconds / EVERY_S) as usize];
        let apart = |done: [f64; TASKS]| done[0].powi(2) - done[1].powi(2);
        assert!((apart(at(LATER_S)) - LATER_S.powi(2)).abs() < 0.1);
        assert!((apart(at(SECONDS)) / apart(at(LATER_S)) - 1.0).abs() < 0.01);
        let [most, _, fewest] = at(SECONDS);
        assert!((fewest / most - 0.93).abs() < 0.005, "{}", fewest / most);
        assert!((at(SECONDS).iter().sum::<f64>() - SECONDS).abs() < 1e-6);
    }
}
