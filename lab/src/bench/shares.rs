//! Share error of schedulers in the cases of cases.rs: which machines to boot, and what their samplers printed.

use super::boot::{self, Boot};
use super::cases::Case;
use super::scheduler::Scheduler;
use super::windows::{Series, Shares};
use crate::vm::{Kernel, Mode};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// Window lengths in sampling intervals of a tenth of a second: 0.1 s to 30 s.
pub const WINDOWS: [usize; 7] = [1, 3, 10, 30, 100, 200, 300];
pub const INTERVAL_S: f64 = 0.1;
const SECONDS: u32 = 30;

/// What is measured: one case, in one machine, under one scheduler.
#[derive(Clone, Copy)]
pub struct Point {
    pub scheduler: &'static Scheduler,
    pub kernel: Kernel,
    pub cpus: u32,
    pub caches: u32,
    pub case: &'static Case,
    pub seed: u64,
}

pub struct Measured {
    pub point: Point,
    pub series: Series,
    pub shares: Shares,
}

/// In the order of `points`, without those during which the scheduler was ejected.
pub fn measure(points: &[Point], programs: &Path) -> Result<Vec<Measured>> {
    let (boots, places) = boots(points);
    let printed = boot::run_all(&boots, programs)?;
    let mut measured = Vec::new();
    for (point, (boot, command)) in points.iter().zip(places) {
        if let Some(text) = &printed[boot][command] {
            measured.push(point.understand(text)?);
        }
    }
    Ok(measured)
}

/// Machines, and for each point the number of its machine and of its command there. One boot for each case of a peer:
/// scx_flash was ejected when all cases ran in one. Tombola takes long to load, so its cases share a boot.
fn boots(points: &[Point]) -> (Vec<Boot>, Vec<(usize, usize)>) {
    let mut boots: Vec<Boot> = Vec::new();
    let places = points
        .iter()
        .map(|point| {
            let alike = |boot: &Boot| {
                !point.scheduler.is_peer()
                    && (
                        boot.scheduler,
                        boot.kernel,
                        boot.cpus,
                        boot.caches,
                        boot.mode,
                    ) == (
                        point.scheduler,
                        point.kernel,
                        point.cpus,
                        point.caches,
                        Mode::seeded(point.seed),
                    )
            };
            let number = boots.iter().position(alike).unwrap_or_else(|| {
                boots.push(point.boot());
                boots.len() - 1
            });
            let commands = &mut boots[number].commands;
            commands.push(point.command());
            (number, commands.len() - 1)
        })
        .collect();
    (boots, places)
}

#[derive(Deserialize)]
struct Sample {
    at_ns: u64,
    switches: u64,
    used_ns: Vec<u64>,
}

impl Point {
    fn boot(&self) -> Boot {
        Boot {
            caches: self.caches,
            memory_mib: 1024,
            scheduler: self.scheduler,
            kernel: self.kernel,
            cpus: self.cpus,
            mode: Mode::seeded(self.seed),
            timed: false,
            tools: boot::probes,
            before: Vec::new(),
            commands: Vec::new(),
        }
    }

    fn command(&self) -> String {
        let by = self.scheduler.by.name();
        let groups = self.case.arguments().join(" ");
        format!("share-sampler --by {by} --seconds {SECONDS} --interval {INTERVAL_S} {groups}")
    }

    fn understand(&self, text: &str) -> Result<Measured> {
        let samples: Result<Vec<Sample>, _> = text.lines().map(serde_json::from_str).collect();
        let samples = samples.with_context(|| format!("share-sampler printed {text}"))?;
        let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
            anyhow::bail!("share-sampler printed nothing");
        };
        let series = Series {
            context_switches: last.switches - first.switches,
            at_ns: samples.iter().map(|sample| sample.at_ns).collect(),
            used_ns: samples.into_iter().map(|sample| sample.used_ns).collect(),
        };
        Ok(Measured {
            point: *self,
            shares: series.shares(&self.case.groups(), self.cpus, &WINDOWS),
            series,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::CASES;
    use super::super::scheduler::{FLASH, STRIDE};
    use super::*;

    fn point(scheduler: &'static Scheduler, case: usize, seed: u64) -> Point {
        Point {
            scheduler,
            kernel: scheduler.kernel,
            cpus: 2,
            caches: 1,
            case: &CASES[case],
            seed,
        }
    }

    #[test]
    fn cases_share_a_boot_but_not_those_of_peers() {
        let points = [
            point(STRIDE, 0, 0),
            point(FLASH, 0, 0),
            point(FLASH, 1, 0),
            point(STRIDE, 1, 0),
            point(STRIDE, 1, 1),
        ];
        let (boots, places) = boots(&points);
        assert_eq!(places, [(0, 0), (1, 0), (2, 0), (0, 1), (3, 0)]);
        assert_eq!(boots.len(), 4);
    }

    #[test]
    fn what_the_sampler_prints_is_understood() {
        let text = r#"{"at_ns":0,"switches":5,"used_ns":[0,0,0]}
{"at_ns":100,"switches":25,"used_ns":[66,66,68]}"#;
        let measured = point(STRIDE, 0, 0).understand(text).unwrap();
        assert_eq!(measured.series.context_switches, 20);
        assert!((measured.shares.utilisation - 1.0).abs() < 1e-9);
        let error = measured.shares.windows[0].unwrap().max;
        assert!((error - 0.02).abs() < 1e-9, "{error}");
    }
}
