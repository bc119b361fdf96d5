//! Runs in the guest: plays the plans of an experiment (lab/src/plan.rs) one after another, and prints samples.
//!
//! CPU time is what the kernel counted (`/proc/PID/schedstat`). The driver is a real-time process while it samples, so the
//! clients cannot delay it, except one of SCHED_DEADLINE, by its runtime at most. It has just interrupted the running process, so
//! the count is up to date. One CPU is assumed.

mod arrange;
mod client;
mod trace;

use arrange::Arranged;
use client::{Clients, Shared};
use std::fs;
use std::io::{self, Write};
use std::process::{Child, Command, Stdio, exit};
use tombola_lab::bench::guest::{lend, now_ns, reclaim, set_tickets, shared_counters, sleep_until};
use tombola_lab::cpu::{become_normal, become_real_time};
use tombola_lab::plan::{Change, Client, Line, Loan, PLANS_FILE, Plan, Sample, When};
use trace::Trace;

const PRIORITY: i32 = 60;
/// The kernel's monitor of memory accesses (DAMON) samples at a varying rate, and would be taken for scheduling.
const MONITOR: &str = "/sys/module/damon_stat/parameters/enabled";

fn main() {
    if let Err(error) = run() {
        eprintln!("lab-driver: {error}");
        exit(1);
    }
}

fn run() -> io::Result<()> {
    let plans: Vec<Plan> = serde_json::from_slice(&fs::read(PLANS_FILE)?)?;
    let clients_max = plans.iter().map(|plan| plan.clients.len()).max();
    let shared = Shared::new(shared_counters(Shared::counters(clients_max.unwrap_or(0)))?);
    // Not every kernel has it.
    let _ = fs::write(MONITOR, "N");
    let mut running: Option<(&str, Child)> = None;
    for plan in &plans {
        let wanted = plan.scheduler.policy();
        if running.as_ref().map(|(policy, _)| *policy) != wanted {
            if let Some((_, scheduler)) = running.take() {
                stop(scheduler)?;
            }
            if let Some(policy) = wanted {
                running = Some((policy, start(policy)?));
            }
        }
        print(&Line::Began(plan.name.clone()))?;
        play(plan, shared)?;
    }
    if let Some((_, scheduler)) = running {
        stop(scheduler)?;
    }
    Ok(())
}

fn print(line: &Line) -> io::Result<()> {
    println!("{}", serde_json::to_string(line)?);
    io::stdout().flush()
}

fn start(policy: &str) -> io::Result<Child> {
    let mut child = Command::new("tombola")
        .args(["start", "--policy", policy])
        .stdout(Stdio::null())
        .spawn()?;
    while !is_state("enabled") {
        if child.try_wait()?.is_some() {
            return Err(io::Error::other("the scheduler has not started"));
        }
        sleep_until(now_ns() + 100_000_000);
    }
    Ok(child)
}

fn stop(mut scheduler: Child) -> io::Result<()> {
    Command::new("tombola")
        .arg("stop")
        .stdout(Stdio::null())
        .status()?;
    scheduler.wait()?;
    while !is_state("disabled") {
        sleep_until(now_ns() + 100_000_000);
    }
    Ok(())
}

fn is_state(state: &str) -> bool {
    fs::read_to_string("/sys/kernel/sched_ext/state").is_ok_and(|now| now.trim() == state)
}

fn play(plan: &Plan, shared: Shared) -> io::Result<()> {
    let (clients, begin) = Clients::start(plan, shared)?;
    let arranged = Arranged::arrange(plan, &clients.pids)?;
    // Time for all clients to go to sleep.
    sleep_until(now_ns() + 500_000_000);
    become_real_time(PRIORITY)?;
    let trace = plan
        .trace
        .then(|| Trace::start(&clients.pids))
        .transpose()?;
    let first_ns = now_ns() + (plan.warm_up_s * 1e9) as u64;
    shared.begin(first_ns);
    drop(begin);
    let samples = watch(plan, &clients, first_ns);
    let draws = trace.map_or(Ok(Vec::new()), Trace::stop);
    become_normal()?;
    let ends = clients.end(plan);
    let answer = arranged.undo(plan)?;
    let lines = samples?.into_iter().map(Line::Sample);
    let lines = lines.chain(draws?.into_iter().map(Line::Draw));
    let lines = lines.chain(ends?.into_iter().map(Line::End));
    for line in lines.chain(answer.map(Line::Answer)) {
        print(&line)?;
    }
    Ok(())
}

fn watch(plan: &Plan, clients: &Clients, first_ns: u64) -> io::Result<Vec<Sample>> {
    let every_ns = (plan.every_s * 1e9) as u64;
    let count = (plan.seconds / plan.every_s).round() as u64;
    let mut samples = Vec::new();
    let mut changes = 0;
    for i in 0..=count {
        sleep_until(first_ns + i * every_ns);
        let sample = Sample {
            at_ns: now_ns(),
            used_ns: clients.used_ns()?,
            units: clients.units(plan)?,
            changes,
        };
        let since_s = i as f64 * plan.every_s;
        for (client, &pid) in plan.clients.iter().zip(&clients.pids) {
            if ends_between(client, since_s - plan.every_s, since_s) {
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        while let Some(change) = plan
            .changes
            .get(changes)
            .filter(|c| is_due(c, since_s, &sample))
        {
            make(plan, change, clients.pids[change.client])?;
            changes += 1;
        }
        for loan in &plan.loans {
            lend_or_reclaim(loan, clients, since_s - plan.every_s, since_s)?;
        }
        let over = plan.is_over(&sample);
        samples.push(sample);
        if over {
            break;
        }
    }
    Ok(samples)
}

fn ends_between(client: &Client, after_s: f64, until_s: f64) -> bool {
    client
        .ends_s
        .is_some_and(|at_s| is_between(at_s, after_s, until_s))
}

fn is_between(at_s: f64, after_s: f64, until_s: f64) -> bool {
    let at_s = at_s - 1e-9;
    at_s > after_s && at_s <= until_s
}

fn lend_or_reclaim(loan: &Loan, clients: &Clients, after_s: f64, until_s: f64) -> io::Result<()> {
    let (from, to) = (clients.pids[loan.from], clients.pids[loan.to]);
    if is_between(loan.begins_s, after_s, until_s) {
        lend(from, to, loan.tickets)
    } else if is_between(loan.ends_s, after_s, until_s) {
        reclaim(from, to)
    } else {
        Ok(())
    }
}

fn is_due(change: &Change, since_s: f64, sample: &Sample) -> bool {
    match change.when {
        When::Seconds(at_s) => since_s >= at_s,
        When::Units(units) => sample.units[change.client] >= units,
    }
}

fn make(plan: &Plan, change: &Change, pid: i32) -> io::Result<()> {
    if plan.scheduler.policy().is_some() {
        return set_tickets(pid, change.tickets);
    }
    match unsafe { libc::setpriority(libc::PRIO_PROCESS, pid as u32, change.nice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
