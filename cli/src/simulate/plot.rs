//! The plot of `tombola simulate`: CPU time of each row of tasks, and its distance from what the row was entitled to.

use crate::plan::Loaded;
use std::cmp::Reverse;
use std::path::Path;
use tombola_plot::{Curve, Panel, SeriesLabelPosition};
use tombola_sim::plan::{Sample, Task};

/// A picture of 400 pixels shows no more.
const POINTS_MAX: u64 = 400;

/// So many names fit into the legend.
const LEGEND_MAX: usize = 15;

/// Samples for a plot.
pub struct Curves {
    names: Vec<String>,
    title: String,
    /// The time between two samples that are kept, ns.
    step_ns: u64,
    span_ns: u64,
    next_ns: u64,
    samples: Vec<Sample>,
}

impl Curves {
    pub fn new(loaded: &Loaded) -> Self {
        let plan = &loaded.plan;
        let name = |task: &Task| {
            let of = &plan.currencies[task.currency].name;
            match task.count {
                1 => format!("{of}: {}", task.name),
                count => format!("{of}: {} × {count}", task.name),
            }
        };
        let cpus = match plan.topology.cpus {
            1 => "one CPU".to_owned(),
            cpus => format!("{cpus} CPUs"),
        };
        Self {
            names: plan.tasks.iter().map(name).collect(),
            title: format!("{}, {cpus}", loaded.scheduler.name()),
            step_ns: plan.span_ns / POINTS_MAX,
            span_ns: plan.span_ns,
            next_ns: 0,
            samples: Vec::new(),
        }
    }

    pub fn add(&mut self, sample: Sample) {
        if sample.at_ns >= self.next_ns || sample.at_ns == self.span_ns {
            self.next_ns = sample.at_ns + self.step_ns;
            self.samples.push(sample);
        }
    }

    /// Writes NAME.svg and NAME.png.
    pub fn write(&self, name: &str) -> Result<(), String> {
        let draw = |area: &tombola_plot::Area| tombola_plot::panels(area, &self.panels());
        tombola_plot::write(Path::new(""), name, draw).map_err(|error| {
            format!(
                "the plot is missing: {error:#}\n  cause: its folder does not exist or you may not \
                 write there, or no fonts are installed\n  next:  name another file, or install fonts"
            )
        })
    }

    /// Those that received most.
    fn rows_in_legend(&self) -> Vec<usize> {
        let mut rows: Vec<usize> = (0..self.names.len()).collect();
        if let Some(last) = self.samples.last() {
            rows.sort_by_key(|&row| Reverse(last.received_ns[row]));
        }
        rows.truncate(LEGEND_MAX);
        rows
    }

    fn panels(&self) -> [Panel; 2] {
        let of_row = |row: usize, value: fn(u64, u64) -> f64| -> Vec<(f64, f64)> {
            let samples = self.samples.iter();
            samples
                .map(|sample| {
                    let values = (sample.entitled_ns[row], sample.received_ns[row]);
                    (sample.at_ns as f64 / 1e9, value(values.0, values.1))
                })
                .collect()
        };
        let rows = || self.names.iter().enumerate();
        let named = self.rows_in_legend();
        let in_legend = |row, name| if named.contains(&row) { name } else { "" };
        let received = |_, received: u64| received as f64 / 1e9;
        let entitled = |entitled: u64, _| entitled as f64 / 1e9;
        let ahead = |entitled: u64, received: u64| (received as f64 - entitled as f64) / 1e6;
        let lines =
            rows().map(|(row, name)| Curve::line(in_legend(row, name), of_row(row, received)));
        let due = rows().map(|(row, _)| {
            let name = if row == 0 { "entitled" } else { "" };
            Curve::due(name, of_row(row, entitled))
        });
        let distances = rows().map(|(row, _)| Curve::line("", of_row(row, ahead)));
        [
            Panel {
                title: format!("CPU time received: {}", self.title),
                x: "seconds".to_owned(),
                y: "CPU seconds".to_owned(),
                curves: lines.chain(due).collect(),
                legend: SeriesLabelPosition::UpperLeft,
            },
            Panel {
                title: "received minus entitled".to_owned(),
                x: "seconds".to_owned(),
                y: "milliseconds of CPU time".to_owned(),
                curves: distances.collect(),
                legend: SeriesLabelPosition::UpperLeft,
            },
        ]
    }
}
