//! Users alike in base tickets, whatever the number of their tasks (Zepp 2012, chapter 5).

use super::{compared_row, lottery_row, stride_row};
use crate::experiment::{Bench, Experiment, series};
use crate::plan::{Client, Course, Plan, Scheduler};
use crate::plot::{self, Curve, Panel};
use crate::result::Row;
use crate::statistics::standard_errors;
use anyhow::Result;
use plotters::prelude::SeriesLabelPosition;

pub const INSULATION_USER: Experiment = Experiment {
    name: "insulation-user",
    about: "one user with 1 busy task, another with 2, 10 and 60",
    source: "Lottery scheduling in Linux, 2012",
    run: insulation_user,
};

const TASKS: [usize; 3] = [2, 10, 60];

fn insulation_user(bench: &Bench) -> Result<Vec<Row>> {
    let of = |scheduler| TASKS.map(|tasks| plan(scheduler, tasks));
    let first: Vec<Plan> = [Scheduler::Stride, Scheduler::Nice, Scheduler::Weight]
        .into_iter()
        .flat_map(of)
        .collect();
    let second = of(Scheduler::Lottery);
    let [a, b] = bench.play([&first, &second])?;
    let plans: Vec<&Plan> = first.iter().chain(&second).collect();
    let courses: Vec<&Course> = a.iter().chain(&b).collect();
    bench.write("series.csv", &series(&plans, &courses))?;
    let rows = plans
        .iter()
        .zip(&courses)
        .map(|(plan, course)| row(plan, course))
        .collect();
    let panels: Vec<Panel> = TASKS
        .iter()
        .map(|&tasks| panel(tasks, &plans, &courses))
        .collect();
    plot::write(&bench.out, INSULATION_USER.name, |area| {
        plot::panels(area, &panels)
    })?;
    Ok(rows)
}

fn plan(scheduler: Scheduler, tasks: usize) -> Plan {
    Plan {
        name: format!("{} 1 against {tasks}", scheduler.name()),
        scheduler,
        clients: (0..=tasks)
            .map(|i| Client::burning(if i == 0 { 1 } else { 2 }, 100))
            .collect(),
        changes: Vec::new(),
        warm_up_s: 1.0,
        seconds: 30.0,
        every_s: 1.0,
        trace: false,
    }
}

/// The share of the user with one task.
fn share(course: &Course, to: usize) -> f64 {
    let everybody: Vec<usize> = (0..course.samples[0].used_ns.len()).collect();
    course.part(&everybody, 0, to)
}

fn row(plan: &Plan, course: &Course) -> Row {
    let (measured, name) = (share(course, course.last()), plan.name.clone());
    match plan.scheduler {
        Scheduler::Stride => stride_row(name, measured, 0.5, None),
        Scheduler::Lottery => {
            let error = standard_errors(measured, 0.5, plan.seconds);
            lottery_row(name, measured, 0.5, error, None)
        }
        Scheduler::Nice | Scheduler::Weight => compared_row(name, measured, 0.5),
    }
}

fn panel(tasks: usize, plans: &[&Plan], courses: &[&Course]) -> Panel {
    let of = plans
        .iter()
        .zip(courses)
        .filter(|(plan, _)| plan.clients.len() == tasks + 1);
    let curves = of.map(|(plan, course)| {
        let points = (1..=course.last()).map(|i| (course.at_s(i), share(course, i)));
        let name = match plan.scheduler {
            Scheduler::Nice => "kernel's own",
            Scheduler::Weight => "kernel's own, cgroups",
            ours => ours.name(),
        };
        Curve::line(name, points.collect())
    });
    Panel {
        title: format!("1 task against {tasks}"),
        x: "seconds".to_owned(),
        y: "share of the user with one task".to_owned(),
        legend: SeriesLabelPosition::MiddleRight,
        curves: curves.collect(),
    }
}
