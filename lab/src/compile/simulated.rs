//! The traced compile on the simulated machine: plans for `tombola simulate`.
//!
//! Each process computes for as long as in one of the traced repeats, chosen by chance, so that runs differ as the repeats of
//! each process did. It reads at equal distances, and each read is answered after the same time. The parts before, between and
//! after a process's children are equal. make starts as many jobs as there are CPUs, and makes the library when all are done;
//! gcc awaits each of its children.

use super::processes::Compile;
use crate::simulate::simulate;
use anyhow::{Context, Result};
use serde_json::Value;
use std::fmt::Write as _;
use std::ops::Range;
use std::thread;

/// A machine and what disturbs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    pub scheduler: &'static str,
    /// Of `[plan9]` in a plan.
    pub plan9: &'static str,
    /// More words for `tombola simulate`.
    pub options: &'static [&'static str],
    pub cpus: u64,
    /// How long a read takes.
    pub read_us: u64,
    /// CPU time lost after a move to another CPU.
    pub cold_us: u64,
    /// The phases of the CPUs' clock ticks, as after one boot; `None`: others in each run.
    pub boot: Option<u64>,
    /// CPU time of a background job, which some of the runs have.
    pub background_ms: u64,
}

/// CPU time of each switch.
const SWITCH_US: u64 = 2;
/// The part of runs that have the background job.
pub const BACKGROUND_PART: f64 = 0.3;
const COMPILE: &str = "compile";

pub struct Simulator {
    compile: Compile,
}

impl Simulator {
    pub fn new() -> Result<Self> {
        Ok(Self {
            compile: Compile::recorded()?,
        })
    }

    /// How long the compile takes in each of so many runs, s; two at a time.
    pub fn all_seconds(&self, setting: &Setting, runs: u64) -> Result<Vec<f64>> {
        let first = runs.div_ceil(2);
        let of = |mut runs: Range<u64>| -> Result<Vec<f64>> {
            runs.try_fold(Vec::new(), |mut all, run| {
                all.push(self.seconds(setting, run)?);
                Ok(all)
            })
        };
        let (one, other) = thread::scope(|scope| {
            let other = scope.spawn(|| of(first..runs));
            (of(0..first), other.join().expect("runs do not panic"))
        });
        Ok([one?, other?].concat())
    }

    /// How long the compile takes, s. The same run has the same processes in all settings.
    pub fn seconds(&self, setting: &Setting, run: u64) -> Result<f64> {
        let plan = plan(&self.compile, setting, run);
        let report: Value = simulate(&plan, setting.options)?;
        let ended = report["tasks"][0]["ended_ns"].as_f64();
        let ended =
            ended.with_context(|| format!("{setting:?}, run {run}: the compile did not end"))?;
        Ok(ended / 1e9)
    }
}

fn plan(compile: &Compile, setting: &Setting, run: u64) -> String {
    let mut chance = fastrand::Rng::with_seed(run);
    let is_disturbed = chance.f64() < BACKGROUND_PART;
    let cpu_us = |repeat: usize| (compile.cpu_s(repeat) * 1e6) as u64;
    let background_at_us = chance.u64(0..cpu_us(0) / setting.cpus);
    let programs: String = (0..compile.processes.len())
        .map(|number| program(compile, setting, number, chance.usize(0..compile.repeats())))
        .collect();
    // As long as the compile would take if all were done on one CPU, with a tick's wait after each read.
    let reads_us = u64::from(compile.reads()) * (setting.read_us + setting.cold_us + 1000);
    let serial_us: u64 = (0..compile.repeats()).map(cpu_us).max().unwrap_or(0) + reads_us;
    let Setting {
        scheduler,
        plan9,
        cpus,
        cold_us,
        background_ms,
        ..
    } = setting;
    let background = match is_disturbed && *background_ms > 0 {
        true => format!(
            "[[tasks]]\nname = 'background'\nuser = 'builder'\nstart = '{background_at_us}us'\n\
             steps = [{{ run = '{background_ms}ms' }}]\ntimes = 1\n"
        ),
        false => String::new(),
    };
    format!(
        "duration = '{}us'\nscheduler = '{scheduler}'\nseed = {}\n[plan9]\n{plan9}\n\
         [machine]\ncpus = {cpus}\nswitch-cost = '{SWITCH_US}us'\nmigration-cost = '{cold_us}us'\n\
         [users]\nbuilder = 1000\n[[tasks]]\nname = '{COMPILE}'\nuser = 'builder'\nprogram = 'p0'\n{background}{programs}",
        serial_us + background_ms * 1000,
        setting.boot.unwrap_or(run + 1),
    )
}

/// The steps of a process, in so many equal parts of computing and reading as there are gaps between its children.
fn program(compile: &Compile, setting: &Setting, number: usize, repeat: usize) -> String {
    let process = &compile.processes[number];
    let children: Vec<usize> = compile.children(number).collect();
    let parts = children.len() as u64 + 1;
    let reads = |part: u64| u64::from(process.reads) * part / parts;
    let mut steps = String::new();
    for part in 0..parts {
        let reads = reads(part + 1) - reads(part);
        let burst_ns = process.cpu_us[repeat] * 1000 / parts / (reads + 1);
        if reads > 0 {
            let read_us = setting.read_us;
            write!(
                steps,
                "{{ repeat = {{ times = {reads}, steps = [{{ run = '{burst_ns}ns' }}, {{ sleep = '{read_us}us' }}] }} }}, "
            )
            .expect("strings take all");
        }
        write!(steps, "{{ run = '{burst_ns}ns' }}, ").expect("strings take all");
        if let Some(child) = children.get(part as usize) {
            let is_make = process.parent.is_none();
            let (before, after) = match part + 2 == parts {
                true if is_make => ("'await', ", "'await'".to_owned()),
                false if is_make => ("", format!("{{ await-fewer = {} }}", setting.cpus)),
                _ => ("", "'await'".to_owned()),
            };
            write!(steps, "{before}{{ fork = 'p{child}' }}, {after}, ").expect("strings take all");
        }
    }
    format!("[[programs]]\nname = 'p{number}'\ntimes = 1\nsteps = [{steps}]\n")
}
