//! How long the locks of run queues are held on 64 CPUs, by how often each CPU switches.
//!
//! A decision holds its queue's lock for a fixed time, also if other CPUs wait for it. On a real machine waiting CPUs make the
//! holder slower. By how much was not measured, and so it is not modelled.

use super::economy::CPUS_A_CACHE;
use super::pairs::in_pairs;
use super::shares::{QUEUES, Queues};
use crate::result::Row;
use crate::simulate::simulate;
use anyhow::Result;
use serde::Deserialize;
use std::fmt::Write as _;

const CPUS: u64 = 64;
const SPAN_MS: u64 = 300;
/// A choice and a charge take 0.3 us, and the lock's cache line comes from another CPU in 0.2 to 0.3 us. 1 us is what the
/// kernel's instructions give (docs/simulate.md).
const HOLDS_NS: [u64; 3] = [500, 600, 1000];
/// The hold of the bars.
pub const HOLD_NS: u64 = 600;
/// Switches of each CPU, a second.
const RATES: [u64; 6] = [1000, 2500, 5000, 10_000, 20_000, 40_000];
const RATE: u64 = 5000;
/// The shortest slice is 0.1 ms.
const SLICES_RATE_MAX: u64 = 10_000;
/// In % of the time.
const SATURATED: f64 = 99.0;
const USE_MAX: f64 = 10.0;

/// Why CPUs switch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Tasks sleep as long as they compute: a switch is a wake-up and a choice, two decisions.
    Sleeps,
    /// Slices of busy tasks end: a switch is one decision.
    Slices,
}

#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub load: Load,
    pub queues: Queues,
    pub hold_ns: u64,
    pub rate: u64,
}

#[derive(Clone, Debug)]
pub struct Measured {
    pub place: Place,
    /// Switches of each CPU, a second.
    pub switches: f64,
    /// CPU time received, in % of that of all CPUs.
    pub received: f64,
    pub locks: Vec<Lock>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Lock {
    queue: usize,
    held_ns: u64,
    takes: u64,
    waited_ns: u64,
}

/// What is read of `tombola simulate --json`.
#[derive(Deserialize)]
struct Report {
    switches: u64,
    locks: Vec<Lock>,
    tasks: Vec<Task>,
}

#[derive(Deserialize)]
struct Task {
    received_ns: u64,
}

impl Lock {
    /// In % of the time.
    fn held(&self) -> f64 {
        100.0 * self.held_ns as f64 / (SPAN_MS * 1_000_000) as f64
    }
}

impl Measured {
    /// In % of the time.
    pub fn busiest(&self) -> f64 {
        self.locks.iter().map(Lock::held).fold(0.0, f64::max)
    }

    /// The mean wait of a CPU for a lock, us.
    fn wait_us(&self) -> f64 {
        let waited_ns: u64 = self.locks.iter().map(|lock| lock.waited_ns).sum();
        let takes: u64 = self.locks.iter().map(|lock| lock.takes).sum();
        waited_ns as f64 / 1e3 / takes as f64
    }
}

pub fn places() -> Vec<Place> {
    let mut places = Vec::new();
    for load in [Load::Sleeps, Load::Slices] {
        for hold_ns in HOLDS_NS {
            for queues in QUEUES {
                let is_possible = |rate: &u64| load == Load::Sleeps || *rate <= SLICES_RATE_MAX;
                places.extend(RATES.into_iter().filter(is_possible).map(|rate| Place {
                    load,
                    queues,
                    hold_ns,
                    rate,
                }));
            }
        }
    }
    places
}

fn plan(place: &Place) -> String {
    let ns = 1_000_000_000 / place.rate;
    let (quantum, steps) = match place.load {
        Load::Sleeps => (
            String::new(),
            format!("steps = [{{ run = '{ns}ns' }}, {{ sleep = '{ns}ns' }}]\n"),
        ),
        Load::Slices => (format!("quantum = '{ns}ns'\n"), String::new()),
    };
    let task = |user: &str| {
        format!("[[tasks]]\nname = 'of-{user}'\nuser = '{user}'\ncount = {CPUS}\n{steps}")
    };
    format!(
        "duration = '{SPAN_MS}ms'\n{quantum}[machine]\ncpus = {CPUS}\ncpus-per-cache = {CPUS_A_CACHE}\n\
         lock-hold = '{}ns'\n[users]\nalice = 1000\nbob = 1000\n{}{}",
        place.hold_ns,
        task("alice"),
        task("bob")
    )
}

pub fn measure(places: &[Place]) -> Result<Vec<Measured>> {
    in_pairs(places, |place| {
        let report: Report = simulate(&plan(place), &["--run-queue", place.queues.name])?;
        let received_ns: u64 = report.tasks.iter().map(|task| task.received_ns).sum();
        let span_s = SPAN_MS as f64 / 1e3;
        Ok(Measured {
            place: *place,
            switches: report.switches as f64 / span_s / CPUS as f64,
            received: received_ns as f64 / span_s / CPUS as f64 / 1e7,
            locks: report.locks,
        })
    })
}

/// At the rate and hold of the bars; and how often CPUs switch when one lock has no time left.
pub fn rows(all: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for one in all {
        let Place {
            load,
            queues,
            hold_ns,
            rate,
        } = one.place;
        if (hold_ns, rate) != (HOLD_NS, RATE) {
            continue;
        }
        let used = one.busiest();
        let (bar, pass) = match (queues.name, load) {
            ("machine", Load::Sleeps) => (
                format!("at least {SATURATED}: saturated"),
                Some(used >= SATURATED),
            ),
            ("llc", _) => (format!("below {USE_MAX}"), Some(used < USE_MAX)),
            _ => (String::new(), None),
        };
        rows.push(Row {
            name: format!("{}: busiest lock, % of the time", name(&one.place)),
            measured: used,
            published: None,
            bar,
            pass,
        });
    }
    for hold_ns in HOLDS_NS {
        let is_saturated = |one: &&Measured| {
            let Place {
                load,
                queues,
                hold_ns: hold,
                ..
            } = one.place;
            (load, queues.name, hold) == (Load::Sleeps, "machine", hold_ns)
                && one.busiest() >= SATURATED
        };
        if let Some(first) = all.iter().find(is_saturated) {
            rows.push(Row {
                name: format!(
                    "machine, {CPUS} CPUs, hold {} us: sleeps a second and CPU when its lock is saturated",
                    hold_ns as f64 / 1e3
                ),
                measured: first.switches,
                published: None,
                bar: String::new(),
                pass: None,
            });
        }
    }
    rows
}

fn name(place: &Place) -> String {
    let load = match place.load {
        Load::Sleeps => "sleeps",
        Load::Slices => "ends of slices",
    };
    format!(
        "{}, {CPUS} CPUs, hold {} us, {} {load} a second and CPU",
        place.queues.name,
        place.hold_ns as f64 / 1e3,
        place.rate
    )
}

/// A line for each lock in each place.
pub fn series(all: &[Measured]) -> String {
    let mut text = String::from(
        "load,queues,hold_ns,wanted_per_s_cpu,switches_per_s_cpu,received,mean_wait_us,queue,held,takes,waited_ns\n",
    );
    for one in all {
        let place = &one.place;
        for lock in &one.locks {
            writeln!(
                text,
                "{:?},{},{},{},{:.1},{:.3},{:.4},{},{:.4},{},{}",
                place.load,
                place.queues.name,
                place.hold_ns,
                place.rate,
                one.switches,
                one.received,
                one.wait_us(),
                lock.queue,
                lock.held(),
                lock.takes,
                lock.waited_ns
            )
            .expect("strings take all");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs `tombola` in target/release.
    #[test]
    fn more_locks_are_each_held_less() {
        let mut places = places();
        places.retain(|place| (place.hold_ns, place.rate) == (HOLD_NS, RATE));
        assert_eq!(places.len(), 6);
        let all = measure(&places).unwrap();
        for of_load in all.chunks(3) {
            let [machine, llc, cpu] = of_load else {
                panic!("three kinds of queues")
            };
            let counts = [machine, llc, cpu].map(|one| one.locks.len());
            assert_eq!(counts, [1, 8, 64]);
            // What one lock is held for is divided.
            let parts = [8.0 * llc.busiest(), 64.0 * cpu.busiest()];
            for part in parts {
                assert!((part / machine.busiest() - 1.0).abs() < 0.3, "{parts:?}");
            }
        }
        assert_eq!(series(&all), series(&measure(&places).unwrap()));
        assert_eq!(rows(&all).len(), 6);
    }
}
