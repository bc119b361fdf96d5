//! Plays plans with `tombola simulate`, which samples them each tenth of a second.

use crate::plan::{Change, Client, Course, Plan, Sample, Scheduler, Step, When, Work};
use crate::simulate;
use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::fmt::Write as _;

/// CPU time of a unit of work; in the guest it is about as much.
const UNIT_NS: u64 = 10_000_000;
const PERIOD_NS: u64 = 100_000_000;
const MACHS_QUANTUM: &str = "100ms";

const RESERVES: &str = "it reserves CPU time, which is not simulated";

/// Why a plan needs a real kernel; `None`: it can be simulated as well.
#[must_use]
pub fn obstacle(plan: &Plan) -> Option<&'static str> {
    let of_client = |client: &Client| match client.work {
        _ if client.reserved.is_some() => Some(RESERVES),
        Work::Disk => Some("one of its programs reads and writes a disk"),
        Work::Program { .. } => Some("it runs real programs"),
        Work::Burn | Work::Units(_) | Work::Steps(_) => None,
    };
    if plan.trace {
        Some("it records each draw, which is not simulated")
    } else if plan.request.is_some() {
        Some(RESERVES)
    } else if !plan.loans.is_empty() {
        Some("it lends tickets, which is not simulated")
    } else {
        plan.clients.iter().find_map(of_client)
    }
}

/// Each plan has a seed of its own, its number, so that lotteries that are repeated differ.
pub fn play(plans: &[Plan]) -> Result<Vec<Course>> {
    let numbered = plans.iter().zip(1..);
    numbered
        .map(|(plan, seed)| course(plan, seed).with_context(|| format!("simulating {}", plan.name)))
        .collect()
}

fn course(plan: &Plan, seed: u64) -> Result<Course> {
    if let Some(obstacle) = obstacle(plan) {
        bail!("{obstacle}");
    }
    let mut changes: Vec<(u64, &Change)> = Vec::new();
    for change in &plan.changes {
        let at_ns = match change.when {
            When::Seconds(at_s) => Some(since_start_ns(plan, at_s)),
            // What comes before does not depend on the change.
            When::Units(units) => {
                let before = simulate(plan, &changes, seed)?;
                let done = before.iter().find(|of| of.units[change.client] >= units);
                done.map(|sample| sample.at_ns)
            }
        };
        changes.extend(at_ns.map(|at_ns| (at_ns, change)));
    }
    let all = simulate(plan, &changes, seed)?;
    let every_ns = ns(plan.every_s).max(PERIOD_NS);
    let first_ns = since_start_ns(plan, 0.0);
    let is_wanted = |sample: &Sample| {
        let since_ns = sample.at_ns.checked_sub(first_ns);
        since_ns.is_some_and(|since_ns| since_ns % every_ns == 0)
    };
    let mut samples: Vec<Sample> = all.into_iter().filter(is_wanted).collect();
    if let Some(end) = samples.iter().position(|sample| plan.is_over(sample)) {
        samples.truncate(end + 1);
    }
    Ok(Course {
        samples,
        ..Course::default()
    })
}

fn ns(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

/// The clients start at once; the first sample is taken after the warm-up.
fn since_start_ns(plan: &Plan, at_s: f64) -> u64 {
    ns(plan.warm_up_s + at_s)
}

/// What is read of `tombola simulate --json --samples`.
#[derive(Deserialize)]
struct Report {
    samples: Vec<Received>,
}

#[derive(Deserialize)]
struct Received {
    at_ns: u64,
    received_ns: Vec<u64>,
}

fn simulate(plan: &Plan, changes: &[(u64, &Change)], seed: u64) -> Result<Vec<Sample>> {
    let (scheduler, seed) = (name(plan.scheduler), seed.to_string());
    let options = ["--samples", "--scheduler", scheduler, "--seed", &seed];
    let report: Report = simulate::simulate(&text(plan, changes), &options)?;
    let sample = |received: Received| Sample {
        at_ns: received.at_ns,
        units: (plan.clients.iter().zip(&received.received_ns))
            .map(|(client, &used_ns)| units(&client.work, used_ns))
            .collect(),
        used_ns: received.received_ns,
        changes: (changes.iter())
            .filter(|(at_ns, _)| *at_ns < received.at_ns)
            .count(),
    };
    Ok(report.samples.into_iter().map(sample).collect())
}

fn units(work: &Work, used_ns: u64) -> u64 {
    match work {
        Work::Steps(steps) => {
            let run_ns = |step: &Step| match step {
                Step::Run(ns) => *ns,
                Step::Sleep(_) | Step::Timer(_) => 0,
            };
            used_ns / steps.iter().map(run_ns).sum::<u64>().max(1)
        }
        _ => used_ns / UNIT_NS,
    }
}

/// As `tombola simulate` calls it.
fn name(scheduler: Scheduler) -> &'static str {
    match scheduler {
        Scheduler::Stride => "stride",
        Scheduler::Lottery | Scheduler::LotteryOnMach => "lottery",
        Scheduler::Linux24 => "linux-2.4",
        Scheduler::Fairsched => "fairsched",
        Scheduler::Thesis => "thesis",
        Scheduler::ThesisEnhanced => "thesis-enhanced",
        Scheduler::Mach => "mach",
        Scheduler::Nice | Scheduler::Weight | Scheduler::Deadline => {
            unreachable!("the kernel's own scheduler is not simulated")
        }
    }
}

/// The plan in the language of `tombola simulate`. Task N is client N.
fn text(plan: &Plan, changes: &[(u64, &Change)]) -> String {
    let mut text = format!("duration = \"{}ns\"\n", since_start_ns(plan, plan.seconds));
    let mut add = |line: String| writeln!(text, "{line}").expect("strings take all");
    if plan.scheduler == Scheduler::LotteryOnMach {
        add(format!("quantum = \"{MACHS_QUANTUM}\""));
    }
    add("[users]".to_owned());
    let mut users: Vec<u32> = plan.clients.iter().map(|client| client.user).collect();
    users.sort_unstable();
    users.dedup();
    for user in users {
        add(format!("user{user} = 1000"));
    }
    for currency in &plan.currencies {
        let (user, name, tickets) = (currency.user, &currency.name, currency.tickets);
        add("[[currencies]]".to_owned());
        add(format!(
            "name = \"{name}\"\nuser = \"user{user}\"\ntickets = {tickets}"
        ));
    }
    for (number, client) in plan.clients.iter().enumerate() {
        add(format!("[[tasks]]\nname = \"{number}\""));
        add(task(plan, client));
    }
    for (at_ns, change) in changes {
        let (task, tickets) = (change.client, change.tickets);
        add(format!("[[changes]]\nat = \"{at_ns}ns\""));
        add(format!("task = \"{task}\"\ntickets = {tickets}"));
    }
    text
}

fn task(plan: &Plan, client: &Client) -> String {
    let (user, tickets, nice) = (client.user, client.tickets, client.nice);
    let at = |word: &str, at_s: f64| format!("{word} = \"{}ns\"", since_start_ns(plan, at_s));
    let currency = client.currency.as_ref();
    let own = format!("user = \"user{user}\"\ntickets = {tickets}\nnice = {nice}");
    [
        Some(own),
        currency.map(|name| format!("currency = \"{name}\"")),
        client.starts_s.map(|starts_s| at("start", starts_s)),
        client.ends_s.map(|ends_s| at("end", ends_s)),
        steps(&client.work),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join("\n")
}

/// `None`: it computes for ever.
fn steps(work: &Work) -> Option<String> {
    let step = |step: &Step| match step {
        Step::Run(ns) => format!("{{ run = \"{ns}ns\" }}"),
        Step::Sleep(ns) => format!("{{ sleep = \"{ns}ns\" }}"),
        Step::Timer(ns) => format!("{{ timer = \"{ns}ns\" }}"),
    };
    match work {
        Work::Units(units) => Some(format!(
            "steps = [{}]\ntimes = {units}",
            step(&Step::Run(UNIT_NS))
        )),
        Work::Steps(steps) => {
            let steps: Vec<String> = steps.iter().map(step).collect();
            Some(format!("steps = [{}]", steps.join(", ")))
        }
        _ => None,
    }
}
