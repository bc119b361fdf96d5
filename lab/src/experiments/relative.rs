//! Two tasks with the same amount of work (Zepp 2012, chapter 5: relative rates, their change, and other load beside them).

use super::rows::{compared_row, historic_row, lottery_row, stride_row};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Change, Client, Course, Plan, Scheduler, When, Work};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::{QUANTUM_S, standard_errors};
use anyhow::Result;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

const SOURCE: &str = "Lottery scheduling in Linux, 2012";

pub const RELATIVE_RATE: Experiment = Experiment {
    name: "relative-rate",
    about: "two tasks of 1000 units of work at 800:200 and 600:200 tickets, and by nice 0/16 and 0/17",
    source: SOURCE,
    method: Method::Plans {
        plans: rate_plans,
        report: relative_rate,
    },
};

pub const RELATIVE_RATE_CHANGE: Experiment = Experiment {
    name: "relative-rate-change",
    about: "4:1, until the favoured task is half way and gets as many tickets as the other",
    source: SOURCE,
    method: Method::Plans {
        plans: change_plans,
        report: relative_rate_change,
    },
};

pub const RELATIVE_RATE_LOAD: Experiment = Experiment {
    name: "relative-rate-load",
    about: "4:1 beside a busy task of another user, of the same user, and one that writes and reads a disk beyond memory",
    source: SOURCE,
    method: Method::Plans {
        plans: load_plans,
        report: relative_rate_load,
    },
};

const UNITS: u64 = 1000;
/// The thesis shows the mean of so many.
const THESIS_RUNS: usize = 6;

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

/// The ratio of CPU times while both run, in all runs of a plan.
fn row(runs: &[(Plan, Course)], due: f64, published: Option<f64>) -> Row {
    let used_s = |client: usize| -> f64 {
        let of_run =
            |(_, course): &(Plan, Course)| course.used_s(client, 0, both_run_until(course));
        runs.iter().map(of_run).sum()
    };
    let [favoured, other] = [0, 1].map(used_s);
    let (ratio, seconds) = (favoured / other, favoured + other);
    let (part, part_due) = (favoured / seconds, due / (due + 1.0));
    let plan = &runs[0].0;
    let name = plan.name.clone();
    match plan.scheduler {
        Scheduler::Stride => stride_row(name, ratio, due, published),
        Scheduler::Lottery => {
            let error = standard_errors(part, part_due, seconds);
            lottery_row(name, ratio, format!("{due}:1"), error, published)
        }
        historic if historic.is_historic() => {
            historic_row(plan, (ratio, due), (part, part_due, seconds), published)
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
    let todays = all.iter().filter(|(plan, _)| !plan.scheduler.is_historic());
    let panels: Vec<Panel> = todays
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
    let todays = all.chunk_by(|(a, _), (b, _)| a.scheduler == b.scheduler);
    let panels: Vec<Panel> = todays
        .filter(|of_one| !of_one[0].0.scheduler.is_historic())
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

fn rate_plans() -> [Vec<Plan>; 2] {
    let by_tickets = |scheduler, runs: usize| {
        let of = |(a, b)| {
            let workers = vec![worker(a, 0), worker(b, 0)];
            vec![plan(scheduler, &format!("{a}:{b}"), workers); runs]
        };
        [(800, 200), (600, 200)].map(of).concat()
    };
    let by_nice = |scheduler| {
        let of = |nice| {
            let workers = vec![worker(100, 0), worker(100, nice)];
            plan(scheduler, &format!("0/{nice}"), workers)
        };
        [16, 17].map(of).to_vec()
    };
    [
        [by_tickets(Scheduler::Stride, 1), by_nice(Scheduler::Nice)].concat(),
        [
            by_tickets(Scheduler::Lottery, 1),
            by_nice(Scheduler::Linux24),
            by_tickets(Scheduler::Thesis, THESIS_RUNS),
        ]
        .concat(),
    ]
}

fn relative_rate(bench: &Bench, all: &Played) -> Result<Vec<Row>> {
    draw_progress(bench, RELATIVE_RATE.name, all)?;
    Ok(all
        .chunk_by(|(a, _), (b, _)| a.name == b.name)
        .map(|runs| {
            let (due, published) = by_the_thesis(&runs[0].0);
            row(runs, due, published)
        })
        .collect())
}

/// What the thesis wanted, and what it got. It chose both nice values for 4:1: 0/16 was "on the high side of 4:1", and 0/17 "just
/// below 4:1", elsewhere "approximate 5:1". By the source of 2.4 they give 3:1 and 6:1.
fn by_the_thesis(plan: &Plan) -> (f64, Option<f64>) {
    match (plan.scheduler, plan.clients[0].tickets) {
        (Scheduler::Linux24, _) if plan.clients[1].nice == 17 => (4.0, Some(5.0)),
        (Scheduler::Linux24 | Scheduler::Nice, _) => (4.0, None),
        (_, 600) => (3.0, Some(3.0)),
        _ => (4.0, Some(4.0)),
    }
}

fn change_plans() -> [Vec<Plan>; 2] {
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
    [
        vec![of(Scheduler::Stride), of(Scheduler::Nice)],
        vec![of(Scheduler::Lottery)],
    ]
}

fn relative_rate_change(bench: &Bench, all: &Played) -> Result<Vec<Row>> {
    draw_progress(bench, RELATIVE_RATE_CHANGE.name, all)?;
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

fn load_plans() -> [Vec<Plan>; 2] {
    let hog = |user| Client::burning(user, 200);
    let disk = Client {
        work: Work::Disk,
        ..Client::burning(2, 200)
    };
    let beside = |scheduler, workers: [Client; 2], (name, load): (&str, Option<Client>)| {
        plan(scheduler, name, workers.into_iter().chain(load).collect())
    };
    let hogs = || {
        [
            ("another user's hog", Some(hog(2))),
            ("the same user's hog", Some(hog(1))),
        ]
    };
    let workers = || [worker(800, 0), worker(200, 6)];
    let ours = |scheduler| {
        let [other, same] = hogs();
        [("alone", None), other, same, ("disk", Some(disk.clone()))]
            .map(|load| beside(scheduler, workers(), load))
            .to_vec()
    };
    let lotteries = |scheduler| {
        let runs = |load| vec![beside(scheduler, workers(), load); THESIS_RUNS];
        hogs().map(runs).concat()
    };
    let by_nice = [worker(100, 0), worker(100, 17)];
    let linux24 = hogs().map(|load| beside(Scheduler::Linux24, by_nice.clone(), load));
    [
        [ours(Scheduler::Stride), ours(Scheduler::Nice)].concat(),
        [
            ours(Scheduler::Lottery),
            linux24.to_vec(),
            lotteries(Scheduler::Thesis),
            lotteries(Scheduler::ThesisEnhanced),
        ]
        .concat(),
    ]
}

fn relative_rate_load(bench: &Bench, all: &Played) -> Result<Vec<Row>> {
    draw_against(bench, RELATIVE_RATE_LOAD.name, all)?;
    // The thesis's nice values here were 0 and 17.
    let published = |scheduler| match scheduler {
        Scheduler::Nice => None,
        Scheduler::Linux24 => Some(5.0),
        _ => Some(4.0),
    };
    Ok(all
        .chunk_by(|(a, _), (b, _)| a.name == b.name)
        .map(|runs| row(runs, 4.0, published(runs[0].0.scheduler)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play::{On, play};

    #[test]
    #[ignore = "needs what make has built: make test"]
    fn load_changes_no_ratio_of_the_past() {
        let historic = load_plans().concat();
        let historic = historic.into_iter().filter(|of| of.scheduler.is_historic());
        let played = play(On::Simulation, [historic.collect(), Vec::new()]).unwrap();
        let ratios = played.chunk_by(|(a, _), (b, _)| a.name == b.name);
        let ratios: Vec<(Scheduler, f64)> = ratios
            .map(|runs| (runs[0].0.scheduler, row(runs, 4.0, None).measured))
            .collect();
        for (scheduler, ratio) in &ratios {
            match scheduler {
                Scheduler::Linux24 => assert!((ratio / 6.0 - 1.0).abs() < 0.02, "{ratio}"),
                // Three standard errors of the 1250 draws of six runs.
                _ => assert!((ratio / 4.0 - 1.0).abs() < 0.21, "{scheduler:?}: {ratio}"),
            }
        }
        assert_eq!(ratios.len(), 6);
    }
}
