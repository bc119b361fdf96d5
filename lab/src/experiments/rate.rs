//! Two busy tasks and every ratio of tickets (Waldspurger & Weihl 1994, 5.1: relative rate accuracy, and fairness over time).

use super::rows::{chance_row, compared_row, historic_row, lottery_row, stride_row};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Group, Plan, Scheduler};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::{QUANTUM_S, standard_errors};
use anyhow::Result;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const RATE: Experiment = Experiment {
    name: "rate",
    about: "two busy tasks at ticket ratios 1:1 to 10:1, three runs of 60 s each, and 20:1 for 180 s",
    source: "Lottery scheduling on Mach, 1994",
    method: Method::Plans {
        plans: rate_plans,
        report: rate,
    },
};

pub const RATE_OVER_TIME: Experiment = Experiment {
    name: "rate-over-time",
    about: "two busy tasks at 2:1 for 200 s, in windows of 8 s",
    source: "Lottery scheduling on Mach, 1994",
    method: Method::Plans {
        plans: over_time_plans,
        report: rate_over_time,
    },
};

const RUNS: usize = 3;
const RATIOS: u32 = 10;
const SECONDS: f64 = 60.0;
const STEEP: (u32, f64) = (20, 180.0);
/// The single ratios that were reported.
const PUBLISHED: [(u32, f64); 2] = [(10, 13.42), (20, 19.08)];

fn rate_plans() -> [Vec<Plan>; 2] {
    let runs = |scheduler| -> Vec<Plan> {
        let runs = (1..=RATIOS).flat_map(|ratio| (0..RUNS).map(move |_| (ratio, SECONDS)));
        runs.chain([STEEP])
            .map(|(ratio, seconds)| plan(scheduler, ratio, seconds))
            .collect()
    };
    let kernels = |scheduler| -> Vec<Plan> {
        let ratios = 1..=RATIOS;
        ratios
            .map(|ratio| plan(scheduler, ratio, SECONDS / 3.0))
            .collect()
    };
    // Without the lottery, Mach ignores tickets.
    let mach = [(RATIOS, SECONDS), STEEP];
    let mach = mach.map(|(ratio, seconds)| plan(Scheduler::Mach, ratio, seconds));
    [
        [
            runs(Scheduler::Stride),
            kernels(Scheduler::Nice),
            kernels(Scheduler::Weight),
        ]
        .concat(),
        [
            runs(Scheduler::Lottery),
            runs(Scheduler::LotteryOnMach),
            mach.to_vec(),
        ]
        .concat(),
    ]
}

fn rate(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = played.iter().map(rate_row).collect();
    draw(bench, played, &rows)?;
    let lotteries = played
        .iter()
        .filter(|(plan, _)| plan.scheduler == Scheduler::Lottery);
    let error = |(plan, course): &(Plan, Course)| {
        let due = f64::from(ratio_of(plan)) / f64::from(ratio_of(plan) + 1);
        let seconds = course.pair_used_s(0, course.last());
        standard_errors(favoured_part(course), due, seconds)
    };
    let errors: Vec<f64> = lotteries.map(error).collect();
    let name = "lottery: chance of such errors, all runs together";
    rows.push(chance_row(name.to_owned(), &errors));
    Ok(rows)
}

/// The favoured task's part of what both received.
fn favoured_part(course: &Course) -> f64 {
    course.part(&[0, 1], 0, course.last())
}

fn rate_row((plan, course): &(Plan, Course)) -> Row {
    let (name, ratio) = (plan.name.clone(), f64::from(ratio_of(plan)));
    let (due, part) = (ratio / (ratio + 1.0), favoured_part(course));
    let (measured, seconds) = (part / (1.0 - part), course.pair_used_s(0, course.last()));
    let published = PUBLISHED.iter().find(|(of, _)| f64::from(*of) == ratio);
    let published = published.map(|(_, figure)| *figure);
    match plan.scheduler {
        // Both tasks: the smaller share has the larger relative error.
        Scheduler::Stride => {
            let off = |measured: f64, due: f64| (measured / due - 1.0).abs();
            Row {
                bar: format!("both shares within 1 % of {ratio}:1"),
                pass: Some(off(part, due) <= 0.01 && off(1.0 - part, 1.0 - due) <= 0.01),
                ..stride_row(name, measured, ratio, published)
            }
        }
        Scheduler::Lottery => {
            let error = standard_errors(part, due, seconds);
            lottery_row(name, measured, format!("{ratio}:1"), error, published)
        }
        Scheduler::LotteryOnMach => {
            historic_row(plan, (measured, ratio), (part, due, seconds), published)
        }
        _ => compared_row(name, measured, ratio),
    }
}

fn plan(scheduler: Scheduler, ratio: u32, seconds: f64) -> Plan {
    let favoured = Client {
        groups: vec![Group::new("favoured", ratio * 100)],
        ..Client::burning(1, ratio * 100)
    };
    // Tickets are compared within one user, cgroups' weights between two.
    let other = Client {
        user: if scheduler == Scheduler::Weight { 2 } else { 1 },
        nice: nearest_nice(ratio),
        ..Client::burning(1, 100)
    };
    Plan {
        name: format!("{} {ratio}:1", scheduler.name()),
        scheduler,
        clients: vec![favoured, other],
        warm_up_s: 1.0,
        seconds,
        every_s: 1.0,
        ..Plan::default()
    }
}

fn ratio_of(plan: &Plan) -> u32 {
    plan.clients[0].tickets / plan.clients[1].tickets
}

/// The nice value whose weight is nearest to 1 / ratio of the normal one: the kernel has no finer ones.
fn nearest_nice(ratio: u32) -> i32 {
    let weight = |nice| f64::from(crate::bench::weight_of_nice(nice));
    let off = |nice: &i32| (weight(0) / weight(*nice) - f64::from(ratio)).abs();
    (0..=19)
        .min_by(|a, b| off(a).total_cmp(&off(b)))
        .expect("there are nice values")
}

fn draw(bench: &Bench, played: &Played, rows: &[Row]) -> Result<()> {
    let points = |scheduler| {
        let of = played
            .iter()
            .zip(rows)
            .filter(|((plan, _), _)| plan.scheduler == scheduler);
        of.map(|((plan, _), row)| (f64::from(ratio_of(plan)), row.measured))
            .collect::<Vec<_>>()
    };
    let panel = |title: &str, schedulers: [Scheduler; 2]| {
        let dots = schedulers.map(|scheduler| Curve::dots(scheduler.name(), points(scheduler)));
        Panel {
            title: title.to_owned(),
            x: "ratio of tickets".to_owned(),
            y: "ratio of CPU time".to_owned(),
            legend: SeriesLabelPosition::LowerRight,
            curves: dots
                .into_iter()
                .chain([Curve::due("due", vec![(1.0, 1.0), (20.0, 20.0)])])
                .collect(),
        }
    };
    let kernels = [Scheduler::Nice, Scheduler::Weight];
    let measured = kernels.iter().any(|of| !points(*of).is_empty());
    let published = PUBLISHED.map(|(ratio, figure)| (f64::from(ratio), figure));
    let mut on_mach = panel("Mach", [Scheduler::LotteryOnMach, Scheduler::Mach]);
    let published = Curve::dots("published", published.to_vec());
    on_mach.curves.insert(2, published);
    on_mach.legend = SeriesLabelPosition::UpperLeft;
    let tombola = panel("Tombola", [Scheduler::Stride, Scheduler::Lottery]);
    let kernels = measured.then(|| panel("the kernel's own", kernels));
    let panels: Vec<Panel> = [Some(tombola), kernels, Some(on_mach)]
        .into_iter()
        .flatten()
        .collect();
    plot::write(&bench.out, RATE.name, |area| plot::panels(area, &panels))
}

const WINDOW_S: usize = 8;
const OVER_TIME_S: f64 = 200.0;
const DUE_OVER_TIME: f64 = 2.0 / 3.0;

fn over_time_plans() -> [Vec<Plan>; 2] {
    let of = |scheduler| plan(scheduler, 2, OVER_TIME_S);
    let first = [Scheduler::Stride, Scheduler::Nice, Scheduler::Weight].map(of);
    [first.to_vec(), vec![of(Scheduler::Lottery)]]
}

fn rate_over_time(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut panels = Vec::new();
    for (plan, course) in played {
        let windows = windows(course);
        rows.extend(over_time_rows(plan.scheduler, course, &windows));
        panels.push(over_time_panel(plan.scheduler.name(), &windows));
    }
    plot::write(&bench.out, RATE_OVER_TIME.name, |area| {
        plot::panels(area, &panels)
    })?;
    Ok(rows)
}

/// The favoured task's share in each window.
fn windows(course: &Course) -> Vec<f64> {
    (0..course.last() / WINDOW_S)
        .map(|i| course.part(&[0, 1], i * WINDOW_S, (i + 1) * WINDOW_S))
        .collect()
}

fn over_time_rows(scheduler: Scheduler, course: &Course, windows: &[f64]) -> Vec<Row> {
    let off = |part: &f64| (part - DUE_OVER_TIME).abs();
    let by_error = windows
        .iter()
        .copied()
        .max_by(|a, b| off(a).total_cmp(&off(b)));
    let worst = by_error.unwrap_or(DUE_OVER_TIME);
    let part = course.part(&[0, 1], 0, course.last());
    let ratio = part / (1.0 - part);
    let name = |what: &str| format!("{}: {what}", scheduler.name());
    let error = |part: f64, from: usize, to: usize| {
        standard_errors(part, DUE_OVER_TIME, course.pair_used_s(from, to))
    };
    match scheduler {
        Scheduler::Stride => vec![
            stride_row(name("whole"), ratio, 2.0, None),
            stride_row(name("worst window, share"), worst, DUE_OVER_TIME, None),
            stride_row(
                name("worst window, other's share"),
                1.0 - worst,
                1.0 - DUE_OVER_TIME,
                None,
            ),
        ],
        Scheduler::Lottery => {
            let of_window =
                |(i, part): (usize, &f64)| error(*part, i * WINDOW_S, (i + 1) * WINDOW_S);
            let errors: Vec<f64> = windows.iter().enumerate().map(of_window).collect();
            let whole = error(part, 0, course.last());
            vec![
                lottery_row(name("whole"), ratio, "2:1", whole, None),
                chance_row(name("chance of such windows"), &errors),
            ]
        }
        _ => vec![
            compared_row(name("whole"), ratio, 2.0),
            compared_row(name("worst window, share"), worst, DUE_OVER_TIME),
        ],
    }
}

fn over_time_panel(name: &str, windows: &[f64]) -> Panel {
    let due = DUE_OVER_TIME;
    let spread = 3.0 * (due * (1.0 - due) / (WINDOW_S as f64 / QUANTUM_S)).sqrt();
    let seconds = |i: usize| (i as f64 + 0.5) * WINDOW_S as f64;
    let points = windows
        .iter()
        .enumerate()
        .map(|(i, part)| (seconds(i), *part));
    let level = |title: &str, at: f64| Curve::due(title, vec![(0.0, at), (OVER_TIME_S, at)]);
    Panel {
        title: name.to_owned(),
        x: "seconds".to_owned(),
        y: "share of the favoured, windows of 8 s".to_owned(),
        legend: SeriesLabelPosition::LowerRight,
        curves: vec![
            Curve::line(name, points.collect()),
            level("due; binomial ± 3 standard errors", due),
            level("", due - spread),
            level("", due + spread),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_are_the_nearest() {
        assert_eq!([1, 3, 4, 10].map(nearest_nice), [0, 5, 6, 10]);
    }
}
