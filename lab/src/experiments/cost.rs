//! What scheduling costs in instructions: the end of a slice, and a wake-up with its switch, for few and many processes and
//! users. bench/cost.rs says how it is counted.
//!
//! All on one kernel, the newest on which the others load: from 6.18 to 7.2 a wake-up and switch of the kernel's own
//! scheduler became a third more expensive, which would be taken for Tombola's cost.

use crate::bench::boot::own_programs;
use crate::bench::cost::{self, Contestant, Cost, Costs, Crowd};
use crate::bench::scheduler::{FLASH, SCHEDULERS, STRIDE, STRIDE_LLC};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use crate::vm::Kernel;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const COST: Experiment = Experiment {
    name: "cost",
    about: "Instructions for the end of a slice and for a wake-up, ours beside EEVDF, scx_flash and scx_rusty",
    source: "docs/cost.md",
    method: Method::Own(run),
};

const fn crowd(tasks: u32, users: u32) -> Crowd {
    Crowd {
        tasks,
        users,
        currencies: 0,
    }
}

const CROWDS: [Crowd; 6] = [
    crowd(2, 1),
    FEW_TASKS,
    TYPICAL,
    MANY_TASKS,
    crowd(200, 10),
    MANY_USERS,
];
const TYPICAL: Crowd = crowd(20, 10);
const FEW_TASKS: Crowd = crowd(20, 1);
const MANY_TASKS: Crowd = crowd(200, 1);
const MANY_USERS: Crowd = crowd(200, 100);
/// The bar, in parts of scx_flash's cost.
const TIMES_MAX: f64 = 1.25;
/// And that of `--run-queue llc` on one cache, in parts of one queue's.
const ONE_CACHE_TIMES_MAX: f64 = 1.02;
/// The bar for growth from few to many.
const GROWTH_MAX: f64 = 1.3;

/// What is counted: its name and its cost.
type Kind = (&'static str, fn(&Cost) -> f64);
const KINDS: [Kind; 2] = [
    ("slice end", |cost| cost.slice_end),
    ("wake-up and switch", |cost| cost.wake),
];

fn run(bench: &Bench) -> Result<Vec<Row>> {
    let contestants = SCHEDULERS.map(|scheduler| Contestant {
        scheduler,
        kernel: Kernel::Peers,
        seed: 0,
    });
    let all = cost::measure(&contestants, &CROWDS, &own_programs()?)?;
    bench.write("series.csv", &series(&all))?;
    plot::write(&bench.out, COST.name, |area| {
        plot::panels(area, &KINDS.map(|kind| panel(&all, kind)))
    })?;
    rows(&all)
}

fn series(all: &[Costs]) -> String {
    let mut text = String::from(
        "scheduler,tasks,users,slice_end,switches_per_second,overhead,wake,taken_by_the_crowd,wake_alone\n",
    );
    for costs in all {
        for cost in &costs.costs {
            let Crowd { tasks, users, .. } = cost.crowd;
            writeln!(
                text,
                "{},{tasks},{users},{:.1},{:.2},{:.6},{:.1},{:.6},{:.1}",
                costs.contestant.scheduler.name,
                cost.slice_end,
                cost.switches_per_second,
                cost.overhead,
                cost.wake,
                cost.taken,
                costs.wake_alone
            )
            .expect("strings take all");
        }
    }
    text
}

fn panel(all: &[Costs], (kind, of): Kind) -> Panel {
    let curves = all.iter().map(|costs| {
        let one_user = costs.costs.iter().filter(|cost| cost.crowd.users == 1);
        let points = one_user.map(|cost| (f64::from(cost.crowd.tasks), of(cost)));
        Curve::line(costs.contestant.scheduler.name, points.collect())
    });
    Panel {
        title: kind.to_owned(),
        x: "busy processes of one user".into(),
        y: "instructions".into(),
        legend: SeriesLabelPosition::LowerRight,
        curves: curves.collect(),
    }
}

impl Costs {
    fn of(&self, crowd: Crowd) -> Result<&Cost> {
        self.costs
            .iter()
            .find(|cost| cost.crowd == crowd)
            .with_context(|| format!("{crowd:?} was not measured"))
    }
}

fn rows(all: &[Costs]) -> Result<Vec<Row>> {
    let flash = all
        .iter()
        .find(|costs| costs.contestant.scheduler == FLASH)
        .context("scx_flash was ejected, and there is nothing to compare with")?;
    let mut rows = Vec::new();
    for costs in all {
        let name = costs.contestant.scheduler.name;
        rows.push(told(
            format!("{name}, two that wake each other alone: wake-up and switch"),
            costs.wake_alone,
        ));
        for cost in &costs.costs {
            let Crowd { tasks, users, .. } = cost.crowd;
            for (kind, of) in KINDS {
                let what = format!("{name}, {tasks} tasks of {users} users: {kind}");
                rows.push(match costs.contestant.scheduler.is_tombola() {
                    true if cost.crowd == TYPICAL => bounded(
                        what,
                        of(cost),
                        TIMES_MAX,
                        of(flash.of(TYPICAL)?),
                        FLASH.name,
                    ),
                    _ => told(what, of(cost)),
                });
            }
        }
        if costs.contestant.scheduler.is_tombola() {
            rows.extend(growth(costs, "20 to 200 tasks", FEW_TASKS, MANY_TASKS)?);
            rows.extend(growth(costs, "1 to 100 users", MANY_TASKS, MANY_USERS)?);
        }
    }
    let find = |scheduler| {
        all.iter()
            .find(|costs| costs.contestant.scheduler == scheduler)
    };
    if let (Some(llc), Some(one)) = (find(STRIDE_LLC), find(STRIDE)) {
        for (kind, of) in KINDS {
            rows.push(bounded(
                format!("a queue for each cache, and there is one: {kind}"),
                of(llc.of(TYPICAL)?),
                ONE_CACHE_TIMES_MAX,
                of(one.of(TYPICAL)?),
                STRIDE.name,
            ));
        }
    }
    Ok(rows)
}

fn told(name: String, measured: f64) -> Row {
    Row {
        name,
        measured,
        published: None,
        bar: "(instructions)".into(),
        pass: None,
    }
}

fn bounded(name: String, measured: f64, times: f64, rival: f64, named: &str) -> Row {
    let max = times * rival;
    Row {
        name,
        measured,
        published: None,
        bar: format!("at most {max:.0}, {times} times {named}'s"),
        pass: Some(measured <= max),
    }
}

fn growth(costs: &Costs, what: &str, few: Crowd, many: Crowd) -> Result<Vec<Row>> {
    let (few, many) = (costs.of(few)?, costs.of(many)?);
    let name = costs.contestant.scheduler.name;
    Ok(KINDS
        .map(|(kind, of)| {
            let times = of(many) / of(few);
            Row {
                name: format!("{name}, {kind}: growth from {what}"),
                measured: times,
                published: None,
                bar: format!("below {GROWTH_MAX} times"),
                pass: Some(times < GROWTH_MAX),
            }
        })
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::scheduler::{STRIDE, Scheduler};

    fn costs(scheduler: &'static Scheduler, slice_end: impl Fn(Crowd) -> f64) -> Costs {
        let cost = |crowd| Cost {
            crowd,
            slice_end: slice_end(crowd),
            switches_per_second: 250.0,
            overhead: 0.02,
            wake: 7000.0,
            taken: 0.0,
        };
        Costs {
            contestant: Contestant {
                scheduler,
                kernel: Kernel::Peers,
                seed: 0,
            },
            wake_alone: 7000.0,
            costs: CROWDS.map(cost).into(),
        }
    }

    fn verdicts(ours: impl Fn(Crowd) -> f64) -> Vec<String> {
        let all = [costs(STRIDE, ours), costs(FLASH, |_| 4000.0)];
        let rows = rows(&all).unwrap();
        let failed = rows.into_iter().filter(|row| row.pass == Some(false));
        failed.map(|row| row.name).collect()
    }

    #[test]
    fn a_quarter_more_than_scx_flash_is_the_most() {
        assert!(verdicts(|_| 5000.0).is_empty());
        let failed = verdicts(|crowd| if crowd == TYPICAL { 5001.0 } else { 5000.0 });
        assert_eq!(failed, ["stride, 20 tasks of 10 users: slice end"]);
    }

    #[test]
    fn cost_may_not_grow_by_a_third() {
        let failed = verdicts(|crowd| if crowd.tasks == 200 { 4000.0 } else { 3000.0 });
        assert_eq!(failed, ["stride, slice end: growth from 20 to 200 tasks"]);
        let failed = verdicts(|crowd| if crowd.users == 100 { 4000.0 } else { 3000.0 });
        assert_eq!(failed, ["stride, slice end: growth from 1 to 100 users"]);
    }
}
