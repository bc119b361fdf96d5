//! How far shares are from what is due, over windows of a tenth of a second to half a minute: ours beside the kernel's own
//! scheduler and scx_flash, on 1 to 4 CPUs; and ours with several run queues, on 4 and 8 CPUs in two caches.
//!
//! All run on the newest kernel on which they load, that is the newest but for scx_flash. CPU time is compared and not work,
//! the tick is the same, and the kernel's own scheduler is measured both with and without a timer for the end of a slice.

use crate::bench::boot::own_programs;
use crate::bench::cases::CASES;
use crate::bench::scheduler::{
    EEVDF, EEVDF_TICK, FLASH, STRIDE, STRIDE_CPU, STRIDE_LLC, Scheduler,
};
use crate::bench::shares::{self, INTERVAL_S, Measured, Point, WINDOWS};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use anyhow::{Result, anyhow};
use std::fmt::Write as _;
use tombola_plot::plotters::prelude::*;
use tombola_plot::{self as plot, Area, COLOURS};

pub const ERROR_BY_WINDOW: Experiment = Experiment {
    name: ONE_QUEUE.name,
    about: "Share error over window length, ours beside EEVDF and scx_flash",
    source: "docs/fairness.md",
    method: Method::Own(|bench| run(bench, &ONE_QUEUE)),
};

pub const ERROR_BY_WINDOW_QUEUES: Experiment = Experiment {
    name: SEVERAL_QUEUES.name,
    about: "The same with a run queue for each cache and for each CPU",
    source: "docs/fairness.md",
    method: Method::Own(|bench| run(bench, &SEVERAL_QUEUES)),
};

/// Which schedulers are compared, and where.
struct Comparison {
    name: &'static str,
    ours: &'static [&'static Scheduler],
    cpus: &'static [u32],
    caches: u32,
}

const ONE_QUEUE: Comparison = Comparison {
    name: "error-by-window",
    ours: &[STRIDE],
    cpus: &[1, 2, 3, 4],
    caches: 1,
};

const SEVERAL_QUEUES: Comparison = Comparison {
    name: "error-by-window-queues",
    ours: &[STRIDE_LLC, STRIDE_CPU, STRIDE],
    cpus: &[4, 8],
    caches: 2,
};

const OTHERS: [&Scheduler; 3] = [EEVDF, EEVDF_TICK, FLASH];

impl Comparison {
    fn contestants(&self) -> impl Iterator<Item = &'static Scheduler> {
        self.ours.iter().copied().chain(OTHERS)
    }
}

/// Close cases are repeated with more seeds: those in which ours is not better by more than this factor.
const SEEDS: u64 = 3;
const CLOSE: f64 = 2.0;
/// Bars hold from this window length on, in sampling intervals.
const WINDOW_BAR_MIN: usize = 10;
const WINDOW_20_S: usize = 200;
const CLIENT_ERROR_MAX: f64 = 0.01;
const ONE_AGAINST_TEN: &str = "c1v10";
/// docs/fairness.md: a quantum of 1 ms for each level, user, process and thread.
const LAG_MS_MAX: f64 = 3.0;

fn run(bench: &Bench, comparison: &Comparison) -> Result<Vec<Row>> {
    let programs = own_programs()?;
    let mut measured = shares::measure(&points(comparison, 0, |_, _| true), &programs)?;
    let first = Errors(&measured);
    let is_close =
        |cpus, case: &'static str| (comparison.ours.iter()).any(|s| first.is_close(s, cpus, case));
    let again: Vec<Point> = (1..SEEDS)
        .flat_map(|seed| points(comparison, seed, is_close))
        .collect();
    measured.extend(shares::measure(&again, &programs)?);
    bench.write("series.csv", &series(&measured))?;
    bench.write("errors.csv", &errors(&measured))?;
    plot::write(&bench.out, comparison.name, |area| {
        draw(area, &Errors(&measured), comparison)
    })?;
    Ok(rows(&Errors(&measured), comparison))
}

fn points(
    comparison: &Comparison,
    seed: u64,
    chosen: impl Fn(u32, &'static str) -> bool,
) -> Vec<Point> {
    let mut points = Vec::new();
    // Machines are started in this order; the long ones first.
    for &cpus in comparison.cpus.iter().rev() {
        for scheduler in comparison.contestants() {
            for case in CASES.iter().filter(|case| case.cpus.contains(&cpus)) {
                if chosen(cpus, case.name) {
                    points.push(Point {
                        scheduler,
                        kernel: scheduler.kernel,
                        cpus,
                        caches: comparison.caches,
                        case,
                        seed,
                    });
                }
            }
        }
    }
    points
}

/// The measurements, and queries of them.
struct Errors<'a>(&'a [Measured]);

impl<'a> Errors<'a> {
    fn of(
        &self,
        scheduler: &'static Scheduler,
        cpus: u32,
        case: &'a str,
    ) -> impl Iterator<Item = &'a Measured> {
        self.0.iter().filter(move |measured| {
            let Point {
                scheduler: s,
                cpus: n,
                case: c,
                ..
            } = measured.point;
            s == scheduler && n == cpus && c.name == case
        })
    }

    /// The mean over the seeds; `None` if the scheduler was ejected.
    fn mean(
        &self,
        scheduler: &'static Scheduler,
        cpus: u32,
        case: &'a str,
        window: usize,
    ) -> Option<f64> {
        let windows = self
            .of(scheduler, cpus, case)
            .filter_map(|measured| measured.shares.windows[window]);
        let means: Vec<f64> = windows.map(|window| window.mean).collect();
        (!means.is_empty()).then(|| means.iter().sum::<f64>() / means.len() as f64)
    }

    /// The smallest error among the other schedulers, and that scheduler's name.
    fn best_other(&self, cpus: u32, case: &'a str, window: usize) -> Option<(f64, &'static str)> {
        OTHERS
            .iter()
            .filter_map(|other| Some((self.mean(other, cpus, case, window)?, other.name)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn is_close(&self, ours: &'static Scheduler, cpus: u32, case: &'a str) -> bool {
        (0..WINDOWS.len())
            .filter(|&window| WINDOWS[window] >= WINDOW_BAR_MIN)
            .any(|window| {
                let ours = self.mean(ours, cpus, case, window);
                let best = self.best_other(cpus, case, window);
                ours.zip(best)
                    .is_some_and(|(ours, (best, _))| ours * CLOSE > best)
            })
    }

    fn seeds(&self, scheduler: &'static Scheduler, cpus: u32, case: &'a str) -> usize {
        self.of(scheduler, cpus, case).count()
    }
}

fn cases_on(cpus: u32) -> impl Iterator<Item = &'static str> {
    CASES
        .iter()
        .filter(move |case| case.cpus.contains(&cpus))
        .map(|case| case.name)
}

fn window_s(window: usize) -> f64 {
    WINDOWS[window] as f64 * INTERVAL_S
}

fn rows(errors: &Errors, comparison: &Comparison) -> Vec<Row> {
    let mut rows = Vec::new();
    for &cpus in comparison.cpus {
        for case in cases_on(cpus) {
            for ours in comparison.ours {
                for window in 0..WINDOWS.len() {
                    rows.extend(compared(errors, ours, cpus, case, window));
                }
                rows.extend(each_client(errors, ours, cpus, case));
                rows.extend(lag(errors, ours, cpus, case));
            }
        }
    }
    rows
}

fn named(
    what: &str,
    errors: &Errors,
    ours: &'static Scheduler,
    cpus: u32,
    case: &'static str,
) -> String {
    let plural = if cpus == 1 { "" } else { "s" };
    let seeds = match errors.seeds(ours, cpus, case) {
        1 => String::new(),
        seeds => format!(", {seeds} seeds"),
    };
    let queues = match ours.name {
        "stride" => "",
        "stride-llc" => ", a queue for each cache",
        _ => ", a queue for each CPU",
    };
    format!("{case}, {cpus} CPU{plural}{queues}{seeds}: {what}")
}

/// On several CPUs the error is to be no larger than that of the best other scheduler, in windows of a second and more. On one,
/// where only its timer limits the kernel's own scheduler, it is to be no larger than that scheduler's without that timer.
fn compared(
    errors: &Errors,
    ours: &'static Scheduler,
    cpus: u32,
    case: &'static str,
    window: usize,
) -> Option<Row> {
    let error = errors.mean(ours, cpus, case, window)?;
    let rival = if cpus == 1 {
        (
            errors.mean(EEVDF_TICK, cpus, case, window)?,
            EEVDF_TICK.name,
        )
    } else {
        errors.best_other(cpus, case, window)?
    };
    let long = WINDOWS[window] >= WINDOW_BAR_MIN;
    let one_second = WINDOWS[window] == WINDOW_BAR_MIN;
    let below_one = case == ONE_AGAINST_TEN && one_second;
    let pass = error <= rival.0 && (!below_one || error < CLIENT_ERROR_MAX);
    Some(Row {
        name: named(
            &format!("mean error in % over {:.1} s", window_s(window)),
            errors,
            ours,
            cpus,
            case,
        ),
        measured: error * 100.0,
        published: None,
        bar: format!(
            "at most {:.4}, {}{}",
            rival.0 * 100.0,
            rival.1,
            if below_one { ", and below 1" } else { "" }
        ),
        pass: (long || cpus == 1).then_some(pass),
    })
}

fn each_client(
    errors: &Errors,
    ours: &'static Scheduler,
    cpus: u32,
    case: &'static str,
) -> Option<Row> {
    let window = WINDOWS.iter().position(|&length| length == WINDOW_20_S)?;
    let max = errors
        .of(ours, cpus, case)
        .filter_map(|measured| Some(measured.shares.windows[window]?.max))
        .reduce(f64::max)?;
    Some(Row {
        name: named(
            "largest error of a client in % over 20 s",
            errors,
            ours,
            cpus,
            case,
        ),
        measured: max * 100.0,
        published: None,
        bar: "at most 1".into(),
        pass: Some(max <= CLIENT_ERROR_MAX),
    })
}

fn lag(errors: &Errors, ours: &'static Scheduler, cpus: u32, case: &'static str) -> Option<Row> {
    let lag_ms = errors
        .of(ours, cpus, case)
        .map(|measured| measured.shares.lag_max_ms)
        .reduce(f64::max)?;
    Some(Row {
        name: named("largest lag in ms", errors, ours, cpus, case),
        measured: lag_ms,
        published: None,
        bar: match cpus {
            1 => format!("at most {LAG_MS_MAX}: a quantum a level"),
            _ => "(bounded on one CPU)".into(),
        },
        pass: (cpus == 1).then_some(lag_ms <= LAG_MS_MAX),
    })
}

fn series(measured: &[Measured]) -> String {
    let mut text = String::from("scheduler,cpus,case,seed,at_ns,used_ns of each process\n");
    for Measured { point, series, .. } in measured {
        for (at_ns, used_ns) in series.at_ns.iter().zip(&series.used_ns) {
            let used: Vec<String> = used_ns.iter().map(u64::to_string).collect();
            writeln!(text, "{},{at_ns},{}", key(point), used.join(",")).expect("strings take all");
        }
    }
    text
}

fn errors(measured: &[Measured]) -> String {
    let mut text = String::from(
        "scheduler,cpus,case,seed,window_s,mean,max,lag_max_ms,utilisation,switches_per_second\n",
    );
    for Measured { point, shares, .. } in measured {
        for (length, window) in WINDOWS.iter().zip(&shares.windows) {
            let Some(window) = window else { continue };
            writeln!(
                text,
                "{},{:.1},{:.8},{:.8},{:.4},{:.6},{:.1}",
                key(point),
                *length as f64 * INTERVAL_S,
                window.mean,
                window.max,
                shares.lag_max_ms,
                shares.utilisation,
                shares.switches_per_second
            )
            .expect("strings take all");
        }
    }
    text
}

fn key(point: &Point) -> String {
    let Point {
        scheduler,
        cpus,
        case,
        seed,
        ..
    } = point;
    format!("{},{cpus},{},{seed}", scheduler.name, case.name)
}

/// A panel for each number of CPUs.
fn draw(area: &Area, errors: &Errors, comparison: &Comparison) -> Result<()> {
    let legend = legend(comparison);
    let last = legend.last().expect("it has entries").1;
    let (head, panels) = area.split_vertically(last.1 + 14);
    let failed = |error: DrawingAreaErrorKind<_>| anyhow!("cannot draw: {error}");
    let text = |size: i32| ("sans-serif", size).into_font();
    head.draw(&Text::new(
        "How far a share is from its due, by how long one looks",
        (16, 12),
        text(20),
    ))
    .map_err(failed)?;
    for (number, &(label, (x, y))) in legend.iter().enumerate() {
        let mut label_x = x;
        if number + 1 < legend.len() {
            let line = PathElement::new([(x, y), (x + 26, y)], COLOURS[number].stroke_width(4));
            head.draw(&line).map_err(failed)?;
            label_x += 32;
        }
        head.draw(&Text::new(label, (label_x, y - 7), text(14)))
            .map_err(failed)?;
    }
    let panels = panels.split_evenly((1, comparison.cpus.len()));
    for (&cpus, panel) in comparison.cpus.iter().zip(panels) {
        draw_panel(&panel, errors, comparison, cpus)?;
    }
    Ok(())
}

const LEGEND_WIDTH: i32 = 940;

/// The entries of the legend and where each begins, in as many rows as are needed. The last one says what the curves are.
fn legend(comparison: &Comparison) -> Vec<(&'static str, (i32, i32))> {
    let curves = ("thin: each case, thick: their median", 230);
    let entries = comparison.contestants().map(label).chain([curves]);
    let (mut x, mut y) = (16, 50);
    entries
        .map(|(label, width)| {
            if x + 32 + width > LEGEND_WIDTH {
                (x, y) = (16, y + 20);
            }
            let place = (x, y);
            x += 32 + width;
            (label, place)
        })
        .collect()
}

/// The text in the legend, and its width.
fn label(scheduler: &Scheduler) -> (&'static str, i32) {
    match scheduler.name {
        "stride" => ("Tombola (stride)", 140),
        "stride-llc" => ("a queue for each cache", 172),
        "stride-cpu" => ("a queue for each CPU", 164),
        "eevdf" => ("EEVDF", 72),
        "eevdf-tick" => ("EEVDF, slices end at the tick", 222),
        _ => ("scx_flash", 100),
    }
}

/// Errors below this are drawn on the edge.
const PERCENT_MIN: f64 = 0.001;
const PERCENT_MAX: f64 = 150.0;

fn draw_panel(area: &Area, errors: &Errors, comparison: &Comparison, cpus: u32) -> Result<()> {
    let failed = |error: DrawingAreaErrorKind<_>| anyhow!("cannot draw: {error}");
    let first = cpus == comparison.cpus[0];
    let title = if cpus == 1 {
        "1 CPU".to_owned()
    } else {
        format!("{cpus} CPUs")
    };
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 17))
        .margin(8)
        .margin_right(14)
        .x_label_area_size(40)
        .y_label_area_size(if first { 64 } else { 44 })
        .build_cartesian_2d(
            (0.09..33.0).log_scale(),
            (PERCENT_MIN..PERCENT_MAX).log_scale(),
        )
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_desc("window, seconds")
        .y_desc(if first {
            "mean error, % of the share due"
        } else {
            ""
        })
        .x_label_formatter(&|x| plain(*x))
        .y_label_formatter(&|y| plain(*y))
        .label_style(("sans-serif", 13))
        .draw()
        .map_err(failed)?;
    let contestants: Vec<_> = comparison.contestants().collect();
    for (number, &scheduler) in contestants.iter().enumerate().rev() {
        let colour = COLOURS[number];
        let curves: Vec<Vec<(f64, f64)>> = cases_on(cpus)
            .map(|case| curve(errors, scheduler, cpus, case))
            .collect();
        for points in &curves {
            let thin = colour.mix(0.4).stroke_width(1);
            chart
                .draw_series(LineSeries::new(points.iter().copied(), thin))
                .map_err(failed)?;
        }
        let middle = median(&curves);
        chart
            .draw_series(LineSeries::new(
                middle.iter().copied(),
                colour.stroke_width(4),
            ))
            .map_err(failed)?;
        let dots = middle
            .iter()
            .map(|&point| Circle::new(point, 4, colour.filled()));
        chart.draw_series(dots).map_err(failed)?;
    }
    Ok(())
}

/// 0.01 and 10, not 0.010 and 10.0.
fn plain(number: f64) -> String {
    let text = format!("{number:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn curve(
    errors: &Errors,
    scheduler: &'static Scheduler,
    cpus: u32,
    case: &'static str,
) -> Vec<(f64, f64)> {
    (0..WINDOWS.len())
        .filter_map(|window| {
            let percent = errors.mean(scheduler, cpus, case, window)? * 100.0;
            Some((window_s(window), percent.max(PERCENT_MIN)))
        })
        .collect()
}

/// The median at each window length, of the curves that reach it.
fn median(curves: &[Vec<(f64, f64)>]) -> Vec<(f64, f64)> {
    (0..WINDOWS.len())
        .filter_map(|window| {
            let mut values: Vec<f64> = curves
                .iter()
                .filter_map(|curve| Some(curve.get(window)?.1))
                .collect();
            values.sort_by(f64::total_cmp);
            let middle = values.len().checked_sub(1)? / 2;
            Some((window_s(window), values[middle]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::windows::Series;

    /// One process of eq3 gets so many tenths of a per cent too much, the others the less.
    fn measured(scheduler: &'static Scheduler, tenths: u64) -> Measured {
        let case = CASES.iter().find(|case| case.name == "eq3").unwrap();
        let moments = 0..=*WINDOWS.last().unwrap() as u64;
        let series = Series {
            at_ns: moments.clone().map(|i| i * 100_000_000).collect(),
            used_ns: moments
                .map(|i| {
                    vec![
                        i * (2000 + 2 * tenths),
                        i * (2000 - tenths),
                        i * (2000 - tenths),
                    ]
                })
                .collect(),
            context_switches: 0,
        };
        Measured {
            point: Point {
                scheduler,
                kernel: scheduler.kernel,
                cpus: 2,
                caches: 1,
                case,
                seed: 0,
            },
            shares: series.shares(&case.groups(), 2, &WINDOWS),
            series,
        }
    }

    #[test]
    fn the_bar_is_the_best_of_the_others() {
        let all = [
            measured(STRIDE, 10),
            measured(EEVDF, 80),
            measured(FLASH, 30),
        ];
        let errors = Errors(&all);
        let row = compared(&errors, STRIDE, 2, "eq3", 2).unwrap();
        assert_eq!(row.pass, Some(true), "{row:?}");
        assert!(row.bar.contains(FLASH.name), "{row:?}");
        assert!(!errors.is_close(STRIDE, 2, "eq3"));

        let all = [
            measured(STRIDE, 40),
            measured(EEVDF, 80),
            measured(FLASH, 30),
        ];
        let errors = Errors(&all);
        let row = compared(&errors, STRIDE, 2, "eq3", 2).unwrap();
        assert_eq!(row.pass, Some(false), "{row:?}");
        assert!(errors.is_close(STRIDE, 2, "eq3"));
        // Below a second it is only for comparison.
        assert_eq!(compared(&errors, STRIDE, 2, "eq3", 1).unwrap().pass, None);
    }

    #[test]
    fn a_client_is_within_one_per_cent_or_not() {
        assert_eq!(
            each_client(&Errors(&[measured(STRIDE, 9)]), STRIDE, 2, "eq3").map(|row| row.pass),
            Some(Some(true))
        );
        assert_eq!(
            each_client(&Errors(&[measured(STRIDE, 11)]), STRIDE, 2, "eq3").map(|row| row.pass),
            Some(Some(false))
        );
    }

    #[test]
    fn numbers_on_an_axis_are_plain() {
        assert_eq!(
            [plain(0.01), plain(10.0), plain(100.0)],
            ["0.01", "10", "100"]
        );
    }
}
