//! Runs in the guest: plays the plans of an experiment (lab/src/plan.rs) one after another, and prints what it sees.
//!
//! CPU time is what the kernel counted (`/proc/PID/schedstat`); the driver is a real-time process while it looks, so what
//! it measures cannot keep it waiting, and has just interrupted whoever ran: the count is up to date. One CPU is assumed.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio, exit};
use std::sync::atomic::{AtomicU64, Ordering};
use tombola_lab::bench::guest::{
    UID_BASE, become_real_time, become_user, end, now_ns, set_tickets, shared_counters,
    sleep_until, spawn,
};
use tombola_lab::plan::{
    Change, Client, DISK, DISK_MIB, Draw, Line, PLANS_FILE, Plan, Sample, Scheduler, When, Work,
};

const PRIORITY: i32 = 60;
/// 10 ms of an emulated CPU at 8 ns an instruction, about.
const UNIT_ROUNDS: u64 = 250_000;

fn main() {
    if let Err(error) = run() {
        eprintln!("lab-driver: {error}");
        exit(1);
    }
}

fn run() -> io::Result<()> {
    let plans: Vec<Plan> = serde_json::from_slice(&fs::read(PLANS_FILE)?)?;
    let clients_max = plans.iter().map(|plan| plan.clients.len()).max();
    let units = shared_counters(clients_max.unwrap_or(0))?;
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
        play(plan, units)?;
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
    let child = Command::new("tombola")
        .args(["start", "--policy", policy])
        .stdout(Stdio::null())
        .spawn()?;
    await_state("enabled");
    Ok(child)
}

fn stop(mut scheduler: Child) -> io::Result<()> {
    Command::new("tombola")
        .arg("stop")
        .stdout(Stdio::null())
        .status()?;
    scheduler.wait()?;
    await_state("disabled");
    Ok(())
}

fn await_state(state: &str) {
    while fs::read_to_string("/sys/kernel/sched_ext/state").is_ok_and(|now| now.trim() != state) {
        sleep_until(now_ns() + 100_000_000);
    }
}

fn play(plan: &Plan, units: &'static [AtomicU64]) -> io::Result<()> {
    let (gate, opener) = io::pipe()?;
    let mut pids = Vec::new();
    for (number, client) in plan.clients.iter().enumerate() {
        units[number].store(0, Ordering::Relaxed);
        pids.push(spawn(|| {
            // Or the gate would not open before this process has ended.
            unsafe { libc::close(opener.as_raw_fd()) };
            live(plan, client, &gate, &units[number]);
        })?);
    }
    drop(gate);
    for (client, &pid) in plan.clients.iter().zip(&pids) {
        if plan.scheduler.policy().is_some() {
            set_tickets(pid, client.tickets)?;
        }
    }
    // Time for everybody to get to the gate.
    sleep_until(now_ns() + 500_000_000);
    become_real_time(PRIORITY)?;
    let trace = plan.trace.then(|| Trace::start(&pids)).transpose()?;
    drop(opener);
    let samples = watch(plan, &pids, units);
    let draws = trace.map_or(Ok(Vec::new()), Trace::stop);
    become_normal()?;
    pids.iter().for_each(|&pid| end(pid));
    for sample in samples? {
        print(&Line::Sample(sample))?;
    }
    for draw in draws? {
        print(&Line::Draw(draw))?;
    }
    Ok(())
}

fn become_normal() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn live(plan: &Plan, client: &Client, mut gate: &io::PipeReader, done: &AtomicU64) {
    settle_in(plan, client);
    let _ = gate.read(&mut [0]);
    match client.work {
        Work::Burn => burn(u64::MAX, done),
        Work::Units(limit) => burn(limit, done),
        Work::Disk => panic!("cannot run diskio: {}", diskio().exec()),
    }
}

fn settle_in(plan: &Plan, client: &Client) {
    let uid = UID_BASE + client.user;
    if plan.scheduler == Scheduler::Weight {
        let cgroup = format!("/sys/fs/cgroup/user{}", client.user);
        let joined = fs::create_dir_all(&cgroup)
            .and_then(|()| fs::write(format!("{cgroup}/cpu.weight"), client.weight.to_string()))
            .and_then(|()| fs::write(format!("{cgroup}/cgroup.procs"), "0"));
        joined.expect("root may make cgroups");
    }
    if matches!(client.work, Work::Disk) {
        chown(DISK, Some(uid), None).expect("the machine has a disk");
    }
    let renice = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, client.nice) };
    assert_eq!(renice, 0);
    become_user(uid);
}

fn burn(limit: u64, done: &AtomicU64) {
    for unit in 1..=limit {
        for round in 0..UNIT_ROUNDS {
            std::hint::black_box(round);
        }
        done.store(unit, Ordering::Relaxed);
    }
}

fn diskio() -> Command {
    let mut command = Command::new("diskio");
    command.args(["--mib", &DISK_MIB.to_string(), DISK]);
    command
}

fn watch(plan: &Plan, pids: &[i32], units: &[AtomicU64]) -> io::Result<Vec<Sample>> {
    let first_ns = now_ns() + (plan.warm_up_s * 1e9) as u64;
    let every_ns = (plan.every_s * 1e9) as u64;
    let count = (plan.seconds / plan.every_s).round() as u64;
    let mut samples = Vec::new();
    let mut changes = 0;
    for i in 0..=count {
        let at_ns = first_ns + i * every_ns;
        sleep_until(at_ns);
        let sample = Sample {
            at_ns: now_ns(),
            used_ns: pids
                .iter()
                .map(|&pid| used_ns(pid))
                .collect::<Result<_, _>>()?,
            units: plan
                .clients
                .iter()
                .zip(pids)
                .zip(units)
                .map(|((client, &pid), done)| match client.work {
                    Work::Disk => moved_mib(pid),
                    Work::Burn | Work::Units(_) => Ok(done.load(Ordering::Relaxed)),
                })
                .collect::<Result<_, _>>()?,
            changes,
        };
        let since_s = (at_ns - first_ns) as f64 / 1e9;
        while let Some(change) = plan
            .changes
            .get(changes)
            .filter(|c| is_due(c, since_s, &sample))
        {
            make(plan, change, pids[change.client])?;
            changes += 1;
        }
        let over = plan
            .clients
            .iter()
            .zip(&sample.units)
            .all(|(client, &done)| match client.work {
                Work::Units(limit) => done >= limit,
                _ => true,
            });
        let limited = plan
            .clients
            .iter()
            .any(|client| matches!(client.work, Work::Units(_)));
        samples.push(sample);
        if limited && over {
            break;
        }
    }
    Ok(samples)
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

/// It stays readable after the process ended, until that is waited for.
fn used_ns(pid: i32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    text.split_whitespace()
        .next()
        .and_then(|used| used.parse().ok())
        .ok_or_else(|| io::Error::other("schedstat does not begin with a number"))
}

fn moved_mib(pid: i32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io"))?;
    let bytes = text
        .lines()
        .filter_map(|line| line.split_once("_bytes: "))
        .filter(|(what, _)| ["read", "write"].contains(what))
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok());
    Ok(bytes.sum::<u64>() >> 20)
}

/// `tombola trace` beside the clients; real-time like the driver that starts it.
struct Trace {
    child: Child,
    clients: HashMap<i64, usize>,
    file: String,
}

impl Trace {
    fn start(pids: &[i32]) -> io::Result<Self> {
        let file = "/tmp/trace".to_owned();
        let child = Command::new("tombola")
            .args(["trace", "--json"])
            .stdout(File::create(&file)?)
            .spawn()?;
        sleep_until(now_ns() + 500_000_000);
        let clients = pids
            .iter()
            .enumerate()
            .map(|(i, &pid)| (i64::from(pid), i))
            .collect();
        Ok(Self {
            child,
            clients,
            file,
        })
    }

    fn stop(mut self) -> io::Result<Vec<Draw>> {
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        self.child.wait()?;
        let mut draws = Vec::new();
        for line in BufReader::new(File::open(&self.file)?).lines() {
            let row: serde_json::Value = serde_json::from_str(&line?)?;
            let Some(&client) = row["pid"].as_i64().and_then(|pid| self.clients.get(&pid)) else {
                continue;
            };
            let mut draw: Draw = serde_json::from_value(row)?;
            draw.client = client;
            draws.push(draw);
        }
        Ok(draws)
    }
}
