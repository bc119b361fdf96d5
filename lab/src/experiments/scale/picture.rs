//! The plot: the worst error over the length of the window, for each number of CPUs; and how long the busiest lock is held.

use super::locks::{self, HOLD_NS, Load};
use super::shares::{self, QUEUES, Queues, SIZES, Seeds, WINDOWS, window_s};
use anyhow::Result;
use std::path::Path;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

/// Nothing is less on a logarithmic axis. The errors' axes are alike, with room for a legend.
const PERCENT_MIN: f64 = 0.003;
const PERCENT_MAX: f64 = 1000.0;

pub fn write(
    dir: &Path,
    name: &str,
    shares: &[shares::Measured],
    locks: &[locks::Measured],
) -> Result<()> {
    let mut panels: Vec<Panel> = QUEUES.iter().map(|of| errors(shares, *of)).collect();
    panels.push(used(locks));
    plot::write(dir, name, |area| plot::log_panels(area, &panels))
}

fn errors(all: &[shares::Measured], queues: Queues) -> Panel {
    let ends = [PERCENT_MIN, PERCENT_MAX];
    let mut curves = Vec::from(ends.map(|end| Curve::due("", vec![(1.0, end)])));
    for (cpus, _) in SIZES {
        let seeds = Seeds::of(all, queues, cpus);
        let points = WINDOWS.iter().enumerate().filter_map(|(window, &length)| {
            let worst = seeds.error(window)?.worst.max(PERCENT_MIN);
            Some((window_s(length), worst))
        });
        let points: Vec<_> = points.collect();
        if !points.is_empty() {
            curves.push(Curve::line(&format!("{cpus} CPUs"), points));
        }
    }
    Panel {
        title: format!("run queues: {}", queues.name),
        x: "window, s".to_owned(),
        y: "worst error, % of what is due".to_owned(),
        curves,
        legend: SeriesLabelPosition::LowerLeft,
    }
}

fn used(all: &[locks::Measured]) -> Panel {
    let curve = |queues: &Queues| {
        let of = all.iter().filter(|one| {
            let place = &one.place;
            (place.load, place.hold_ns, place.queues) == (Load::Sleeps, HOLD_NS, *queues)
        });
        let points = of.map(|one| (one.place.rate as f64, one.busiest().max(PERCENT_MIN)));
        Curve::line(queues.name, points.collect())
    };
    Panel {
        title: format!("locks of 64 CPUs, held for {} us", HOLD_NS as f64 / 1e3),
        x: "sleeps a second and CPU, if no CPU waited".to_owned(),
        y: "busiest lock, % of the time".to_owned(),
        curves: QUEUES.iter().map(curve).collect(),
        legend: SeriesLabelPosition::LowerRight,
    }
}
