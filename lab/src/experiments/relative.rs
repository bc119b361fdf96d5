//! Two tasks with the same amount of work (Zepp 2012, chapter 5: relative rates, their change, and other load beside them).

use super::rows::{compared_row, lottery_row, stride_row};
use crate::experiment::{Bench, Experiment, Played};
use crate::plan::{Change, Client, Course, Plan, Scheduler, When, Work};
use crate::result::Row;
use crate::statistics::{QUANTUM_S, standard_errors};
use anyhow::Result;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

const SOURCE: &str = "Lottery scheduling in Linux, 2012";

pub const RELATIVE_RATE: Experiment = Experiment {
    name: "relative-rate",
    about: "two tasks of 1000 units of work at 800:200 and 600:200 tickets, and by nice 0/16 and 0/17",
    source: SOURCE,
    run: relative_rate,
};

pub const RELATIVE_RATE_CHANGE: Experiment = Experiment {
    name: "relative-rate-change",
    about: "4:1, until the favoured task is half way and gets as many tickets as the other",
    source: SOURCE,
    run: relative_rate_change,
};

pub const RELATIVE_RATE_LOAD: Experiment = Experiment {
    name: "relative-rate-load",
    about: "4:1 beside a busy task of another user, of the same user, and one that writes and reads a disk beyond memory",
    source: SOURCE,
    run: relative_rate_load,
};

const UNITS: u64 = 1000;

fn worker(tickets: u32, nice: i32) -> Client {
    Client {
        nice,
        work: Work::Units(UNITS),
        ..Client::burning(1, tickets)
    }
}

fn plan(scheduler: Scheduler, name: &str, clients: Vec<Client>) -> Plan {
    Plan {
        name: format!("{} {name}", scheduler.name()),
        scheduler,
        clients,
        warm_up_s: 0.0,
        seconds: 600.0,
        every_s: 0.1,
        ..Plan::default()
    }
}

/// The last sample before one of the two is done: until then both run.
fn both_run_until(course: &Course) -> usize {
    let done = |sample: &crate::plan::Sample| sample.units[..2].iter().any(|&units| units >= UNITS);
    course
        .samples
        .iter()
        .position(done)
        .unwrap_or(course.last())
        .saturating_sub(1)
}

/// The ratio of CPU times while both run.
fn row(plan: &Plan, course: &Course, due: f64, published: Option<f64>) -> Row {
    let end = both_run_until(course);
    let part = course.part(&[0, 1], 0, end);
    let (ratio, name) = (part / (1.0 - part), plan.name.clone());
    match plan.scheduler {
        Scheduler::Stride => stride_row(name, ratio, due, published),
        Scheduler::Lottery => {
            let error = standard_errors(part, due / (due + 1.0), course.pair_used_s(0, end));
            lottery_row(name, ratio, format!("{due}:1"), error, published)
        }
        _ => compared_row(name, ratio, due),
    }
}

fn progress(title: &str, course: &Course) -> Panel {
    let curve = |client: usize, name: &str| {
        let points = course.samples.iter().enumerate();
        Curve::line(
            name,
            points
                .map(|(i, sample)| (course.at_s(i), sample.units[client] as f64))
                .collect(),
        )
    };
    Panel {
        title: title.to_owned(),
        x: "seconds".to_owned(),
        y: "units of work done".to_owned(),
        legend: SeriesLabelPosition::LowerRight,
        curves: vec![curve(0, "favoured"), curve(1, "other")],
    }
}

fn draw_progress(bench: &Bench, name: &str, all: &Played) -> Result<()> {
    let panels: Vec<Panel> = all
        .iter()
        .map(|(plan, course)| progress(&plan.name, course))
        .collect();
    plot::write(&bench.out, name, |area| plot::panels(area, &panels))
}

/// The other task's work over the favoured one's while both run: the same line, whatever the load.
fn draw_against(bench: &Bench, name: &str, all: &Played) -> Result<()> {
    let curve = |(plan, course): &(Plan, Course)| {
        let points = course.samples[..=both_run_until(course)]
            .iter()
            .map(|sample| (sample.units[0] as f64, sample.units[1] as f64));
        Curve::line(&plan.name, points.collect())
    };
    let panels: Vec<Panel> = all
        .chunk_by(|(a, _), (b, _)| a.scheduler == b.scheduler)
        .map(|of_one| Panel {
            title: of_one[0].0.scheduler.name().to_owned(),
            x: "units of work, favoured".to_owned(),
            y: "units of work, other".to_owned(),
            legend: SeriesLabelPosition::LowerRight,
            curves: of_one
                .iter()
                .map(curve)
                .chain([Curve::due(
                    "due",
                    vec![(0.0, 0.0), (UNITS as f64, UNITS as f64 / 4.0)],
                )])
                .collect(),
        })
        .collect();
    plot::write(&bench.out, name, |area| plot::panels(area, &panels))
}

fn relative_rate(bench: &Bench) -> Result<Vec<Row>> {
    let ours = |scheduler| {
        [(800, 200, 4), (600, 200, 3)].map(|(a, b, _)| {
            plan(
                scheduler,
                &format!("{a}:{b}"),
                vec![worker(a, 0), worker(b, 0)],
            )
        })
    };
    let by_nice = [16, 17].map(|nice| {
        plan(
            Scheduler::Nice,
            &format!("0/{nice}"),
            vec![worker(100, 0), worker(100, nice)],
        )
    });
    let first: Vec<Plan> = ours(Scheduler::Stride).into_iter().chain(by_nice).collect();
    let all = bench.record([&first, &ours(Scheduler::Lottery)])?;
    draw_progress(bench, RELATIVE_RATE.name, &all)?;
    // The thesis chose both nice values for 4:1, on its kernel's timeslices; today's weights give something else.
    let due = |plan: &Plan| match plan.clients[0].tickets {
        600 => 3.0,
        _ => 4.0,
    };
    Ok(all
        .iter()
        .map(|(plan, course)| row(plan, course, due(plan), Some(due(plan))))
        .collect())
}

fn relative_rate_change(bench: &Bench) -> Result<Vec<Row>> {
    let of = |scheduler| {
        let mut plan = plan(
            scheduler,
            "800:200, then 200:200",
            vec![worker(800, 0), worker(200, 6)],
        );
        // Renicing to 6 gives the favoured task the other's weight.
        plan.changes = vec![Change {
            when: When::Units(UNITS / 2),
            client: 0,
            tickets: 200,
            nice: 6,
        }];
        plan.every_s = 0.01;
        plan
    };
    let first = [of(Scheduler::Stride), of(Scheduler::Nice)];
    let all = bench.record([&first, &[of(Scheduler::Lottery)]])?;
    draw_progress(bench, RELATIVE_RATE_CHANGE.name, &all)?;
    Ok(all.iter().flat_map(change_rows).collect())
}

fn change_rows((plan, course): &(Plan, Course)) -> Vec<Row> {
    let name = |what: &str| format!("{}: {what}", plan.scheduler.name());
    let changed = course.samples.iter().position(|sample| sample.changes > 0);
    let changed = changed.unwrap_or(course.last());
    let end = both_run_until(course);
    let ratio = |from, to| course.used_s(0, from, to) / course.used_s(1, from, to);
    let apart_s = |to| course.used_s(0, changed, to) - course.used_s(1, changed, to);
    let worst_ms = (changed..=end)
        .map(|to| apart_s(to).abs() * 1e3)
        .fold(0.0, f64::max);
    let before = ("before", 0, changed - 1, 4.0);
    let after = ("after", changed, end, 1.0);
    let ratios = [before, after].map(|(what, from, to, due)| {
        let (what, measured) = (name(what), ratio(from, to));
        match plan.scheduler {
            Scheduler::Stride => stride_row(what, measured, due, Some(due)),
            Scheduler::Lottery => {
                let part = course.part(&[0, 1], from, to);
                let error = standard_errors(part, due / (due + 1.0), course.pair_used_s(from, to));
                lottery_row(what, measured, format!("{due}:1"), error, Some(due))
            }
            _ => compared_row(what, measured, due),
        }
    });
    let apart = compared_row(name("apart since the change, worst, ms"), worst_ms, 0.0);
    let apart = match plan.scheduler {
        Scheduler::Stride => Some(Row {
            bar: "at most two quanta, 2 ms: the ratio holds from the next quantum on".to_owned(),
            pass: Some(worst_ms <= 2.0 * QUANTUM_S * 1e3),
            ..apart
        }),
        Scheduler::Lottery => None,
        _ => Some(apart),
    };
    ratios.into_iter().chain(apart).collect()
}

fn relative_rate_load(bench: &Bench) -> Result<Vec<Row>> {
    let ours = |scheduler| {
        let hog = |user| Client::burning(user, 200);
        let disk = Client {
            work: Work::Disk,
            ..Client::burning(2, 200)
        };
        [
            ("alone", None),
            ("another user's hog", Some(hog(2))),
            ("the same user's hog", Some(hog(1))),
            ("disk", Some(disk)),
        ]
        .map(|(name, load)| {
            let workers = [worker(800, 0), worker(200, 6)];
            plan(scheduler, name, workers.into_iter().chain(load).collect())
        })
    };
    let first: Vec<Plan> = ours(Scheduler::Stride)
        .into_iter()
        .chain(ours(Scheduler::Nice))
        .collect();
    let all = bench.record([&first, &ours(Scheduler::Lottery)])?;
    draw_against(bench, RELATIVE_RATE_LOAD.name, &all)?;
    Ok(all
        .iter()
        .map(|(plan, course)| row(plan, course, 4.0, Some(4.0)))
        .collect())
}
