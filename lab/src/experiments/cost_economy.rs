//! What a draw costs in a large economy: a thousand currencies, eight deep, with ten thousand processes in them, beside one
//! currency with ten.

use crate::bench::boot::own_programs;
use crate::bench::cost::{self, Contestant, Costs, Crowd};
use crate::bench::scheduler::{LOTTERY, STRIDE};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use crate::vm::Kernel;
use anyhow::Result;
use std::fmt::Write as _;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const COST_ECONOMY: Experiment = Experiment {
    name: "cost-economy",
    about: "Instructions for the end of a slice: 10 processes in 1 currency, up to 10000 in 1000 currencies, 8 deep",
    source: "docs/cost.md",
    method: Method::Own(run),
};

const fn crowd(tasks: u32, currencies: u32) -> Crowd {
    Crowd {
        tasks,
        users: 1,
        currencies,
    }
}

const CROWDS: [Crowd; 5] = [SMALL, crowd(10, 8), crowd(100, 10), crowd(1000, 100), LARGE];
const SMALL: Crowd = crowd(10, 1);
const LARGE: Crowd = crowd(10_000, 1000);
/// The bar for growth from the small to the large economy.
const TIMES_MAX: f64 = 2.0;

fn run(bench: &Bench) -> Result<Vec<Row>> {
    let contestants = [STRIDE, LOTTERY].map(|scheduler| Contestant {
        scheduler,
        kernel: Kernel::Peers,
        seed: 0,
    });
    let all = cost::measure(&contestants, &CROWDS, &own_programs()?)?;
    bench.write("series.csv", &series(&all))?;
    plot::write(&bench.out, COST_ECONOMY.name, |area| {
        plot::panels(area, &[panel(&all)])
    })?;
    Ok(all.iter().flat_map(rows).collect())
}

fn series(all: &[Costs]) -> String {
    let mut text = String::from("scheduler,tasks,currencies,slice_end,switches_per_second,wake\n");
    for costs in all {
        for cost in &costs.costs {
            let (name, crowd) = (costs.contestant.scheduler.name, cost.crowd);
            writeln!(
                text,
                "{name},{},{},{:.1},{:.2},{:.1}",
                crowd.tasks, crowd.currencies, cost.slice_end, cost.switches_per_second, cost.wake
            )
            .expect("strings take all");
        }
    }
    text
}

fn panel(all: &[Costs]) -> Panel {
    let curves = all.iter().map(|costs| {
        // Ten processes in one currency and in eight are two points at ten.
        let points = costs.costs.iter().map(|cost| {
            let tasks = f64::from(cost.crowd.tasks);
            (tasks.log10(), cost.slice_end)
        });
        Curve::line(costs.contestant.scheduler.name, points.collect())
    });
    Panel {
        title: "the end of a slice; up to 8 currencies inside one another".to_owned(),
        x: "processes, as a power of ten".to_owned(),
        y: "instructions".to_owned(),
        legend: SeriesLabelPosition::LowerRight,
        curves: curves.collect(),
    }
}

fn rows(costs: &Costs) -> Vec<Row> {
    let name = costs.contestant.scheduler.name;
    let told = costs.costs.iter().map(|cost| Row {
        name: format!(
            "{name}, {} processes in {} currencies: slice end",
            cost.crowd.tasks, cost.crowd.currencies
        ),
        measured: cost.slice_end,
        published: None,
        bar: "(instructions)".into(),
        pass: None,
    });
    let of = |crowd| costs.costs.iter().find(|cost| cost.crowd == crowd);
    let times = of(LARGE)
        .zip(of(SMALL))
        .map(|(large, small)| large.slice_end / small.slice_end);
    let growth = times.map(|times| Row {
        name: format!("{name}: growth from the smallest to the largest"),
        measured: times,
        published: None,
        bar: format!("at most {TIMES_MAX} times"),
        pass: Some(times <= TIMES_MAX),
    });
    told.chain(growth).collect()
}
