//! The plots: how much a background job in some of the runs spreads the compile times, and what it does to their mean; and real
//! compiles in order.

use super::real::Real;
use super::simulated::{CONTESTANTS, Change, Measured};
use crate::compile::simulated::BACKGROUND_PART;
use anyhow::Result;
use std::path::Path;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub fn write_simulated(dir: &Path, name: &str, all: &[Measured]) -> Result<()> {
    let sd = |measured: &Measured| measured.figures().sd;
    let mean = |measured: &Measured| measured.figures().mean;
    let panels = [
        panel(all, "standard deviation of the compile time, s", sd),
        panel(all, "mean of the compile time, s", mean),
    ];
    plot::write(dir, name, |area| plot::panels(area, &panels))
}

pub fn write_real(dir: &Path, name: &str, all: &[Real]) -> Result<()> {
    let curve = |one: &Real| {
        let numbered = one.seconds.iter().zip(1..);
        let points = numbered.map(|(&seconds, number)| (f64::from(number), seconds));
        Curve::line(one.name, points.collect())
    };
    let mut curves: Vec<Curve> = all.iter().map(curve).collect();
    curves.push(plot::room_above(&curves));
    let panel = Panel {
        title: "a part of the compile on a real kernel, 4 CPUs".to_owned(),
        x: "compile".to_owned(),
        y: "seconds".to_owned(),
        curves,
        legend: SeriesLabelPosition::UpperRight,
    };
    plot::write(dir, name, |area| plot::panels(area, &[panel]))
}

fn panel(all: &[Measured], y: &str, figure: fn(&Measured) -> f64) -> Panel {
    let curve = |name: &str| {
        let own = all.iter().filter(|one| one.contestant.name == name);
        let points = own.filter_map(|one| match one.place.change {
            Change::BackgroundMs(ms) => Some((ms as f64 / 1e3, figure(one))),
            _ => None,
        });
        Curve::line(name, points.collect())
    };
    let mut curves: Vec<Curve> = CONTESTANTS.iter().map(|one| curve(one.name)).collect();
    curves.push(plot::room_above(&curves));
    Panel {
        title: "4 CPUs, 100 compiles".to_owned(),
        x: format!(
            "CPU time of a background job in {:.0} % of the runs, s",
            BACKGROUND_PART * 100.0
        ),
        y: y.to_owned(),
        curves,
        legend: SeriesLabelPosition::UpperLeft,
    }
}
