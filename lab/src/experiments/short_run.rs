//! A run of a few seconds, draw by draw (Zepp 2012, tables 4 to 6).

use super::rows::{lottery_row, stride_row};
use crate::experiment::{Bench, Experiment, Method};
use crate::plan::{Client, Course, Draw, Plan, Scheduler};
use crate::play::Played;
use crate::result::Row;
use crate::statistics::{QUANTUM_S, standard_errors};
use anyhow::Result;
use std::fmt::Write as _;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const SHORT_RUN: Experiment = Experiment {
    name: "short-run",
    about: "4:1 for three seconds, draw by draw: winner, tickets in the draw, compensation, effective tickets",
    source: "Lottery scheduling in Linux, 2012",
    method: Method::Plans {
        plans,
        report: short_run,
    },
};

const TICKETS: [u32; 2] = [800, 200];
const PART: f64 = 0.8;

fn plans() -> [Vec<Plan>; 2] {
    let of = |scheduler: Scheduler| Plan {
        name: format!("{} 800:200", scheduler.name()),
        scheduler,
        clients: TICKETS.map(|tickets| Client::burning(1, tickets)).to_vec(),
        warm_up_s: 0.5,
        seconds: 3.0,
        every_s: 0.1,
        trace: true,
        ..Plan::default()
    };
    [vec![of(Scheduler::Stride)], vec![of(Scheduler::Lottery)]]
}

fn short_run(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut panels = Vec::new();
    for (plan, course) in played {
        let name = |what: &str| format!("{}: {what}", plan.scheduler.name());
        bench.write(
            &format!("draws-{}.csv", plan.scheduler.name()),
            &profile(course),
        )?;
        let lag = lag_ms(&course.draws);
        let worst = lag.iter().map(|(_, ms)| ms.abs()).fold(0.0, f64::max);
        let part = course.part(&[0, 1], 0, course.last());
        rows.push(Row {
            name: name("draws in the profile"),
            measured: course.draws.len() as f64,
            published: None,
            bar: "at least one for each 2 ms".to_owned(),
            pass: Some(course.draws.len() as f64 >= plan.seconds / (2.0 * QUANTUM_S)),
        });
        if plan.scheduler == Scheduler::Stride {
            rows.push(stride_row(name("share"), part, PART, None));
            rows.push(Row {
                name: name("wobble, ms from due at any draw"),
                measured: worst,
                published: None,
                bar: "at most one quantum, 1 ms".to_owned(),
                pass: Some(worst <= QUANTUM_S * 1e3),
            });
        } else {
            let error = standard_errors(part, PART, course.pair_used_s(0, course.last()));
            rows.push(lottery_row(name("share"), part, PART, error, None));
        }
        panels.push(Panel {
            title: name("800:200"),
            x: "seconds".to_owned(),
            y: "ms the favoured is ahead".to_owned(),
            legend: SeriesLabelPosition::LowerLeft,
            curves: vec![Curve::line("received - due", lag)],
        });
    }
    plot::write(&bench.out, SHORT_RUN.name, |area| {
        plot::panels(area, &panels)
    })?;
    Ok(rows)
}

/// How far the first client was ahead of its part of what both had received, after each draw; relative to the mean, since
/// the lag at the first draw is unknown.
fn lag_ms(draws: &[Draw]) -> Vec<(f64, f64)> {
    let (mut own, mut all) = (0.0, 0.0);
    let start = draws.first().map_or(0, |draw| draw.at_ns);
    let mut lag: Vec<(f64, f64)> = draws
        .iter()
        .map(|draw| {
            let ran = draw.ran_ns as f64 / 1e6;
            all += ran;
            own += if draw.client == 0 { ran } else { 0.0 };
            ((draw.at_ns - start) as f64 / 1e9, own - PART * all)
        })
        .collect();
    let mean = lag.iter().map(|(_, ms)| ms).sum::<f64>() / lag.len() as f64;
    lag.iter_mut().for_each(|(_, ms)| *ms -= mean);
    lag
}

fn profile(course: &Course) -> String {
    let mut text = String::from(
        "seconds,winner,tickets,tickets_in_draw,compensation,effective_tickets,ran_ns\n",
    );
    let start = course.draws.first().map_or(0, |draw| draw.at_ns);
    for draw in &course.draws {
        let effective = f64::from(draw.tickets) * (1.0 + draw.compensation);
        writeln!(
            text,
            "{:.6},{},{},{},{:.6},{effective:.1},{}",
            (draw.at_ns - start) as f64 / 1e9,
            draw.client,
            draw.tickets,
            draw.draw_tickets,
            draw.compensation,
            draw.ran_ns
        )
        .expect("strings take all");
    }
    text
}
