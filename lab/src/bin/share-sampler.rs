//! Runs in the guest: starts busy processes in groups, gives them weights as `--by` says, and reads their CPU time every tenth
//! of a second. Prints a line of JSON for each sample.
//!
//! CPU time is what the kernel counted (`/proc/PID/schedstat`). Of a process that is running on another CPU the kernel
//! knows it as of the last tick, up to 4 ms ago, so a real-time process on every CPU wakes just before each sample: the
//! interruption brings the count up to date. That disturbs every scheduler in the same way.
//!
//! The sampler is a real-time process itself, so the processes that it measures cannot delay it.

use clap::Parser;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::process::exit;
use tombola_lab::bench::economy::{Economy, Process, User};
use tombola_lab::bench::guest::{
    UID_BASE, await_stop, become_user, context_switches, end_all, now_ns, online_cpus, pin_to,
    restrict_to, resume, set_base_tickets, set_tickets, sleep_until, spawn, stop_here, used_ns,
};
use tombola_lab::bench::{By, weight_of_nice};
use tombola_lab::cpu::become_real_time;

#[derive(Parser)]
struct Args {
    /// A group of busy processes: WEIGHT:NICE,NICE,… with a nice value for each process
    #[arg(long = "group", required_unless_present = "economy", value_parser = group)]
    groups: Vec<Group>,
    /// Users with any base tickets, threads and CPUs instead, in JSON (lab/src/bench/economy.rs)
    #[arg(long, conflicts_with = "groups")]
    economy: Option<Economy>,
    /// How the scheduler is given the weights
    #[arg(long, value_enum)]
    by: By,
    /// Seconds to take samples for, after the warm-up
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    #[arg(long, default_value_t = 0.1)]
    interval: f64,
}

#[derive(Clone)]
struct Group {
    weight: u32,
    nice: Vec<i32>,
}

fn group(text: &str) -> Result<Group, String> {
    let (weight, nice) = text.split_once(':').ok_or("no colon")?;
    let nice: Result<_, _> = nice.split(',').map(str::parse).collect();
    Ok(Group {
        weight: weight.parse().map_err(|error| format!("{error}"))?,
        nice: nice.map_err(|error| format!("{error}"))?,
    })
}

/// Base tickets of a user for a group's weight of 1: weights are 20 to 1000, base tickets 100 to 10000.
const TICKETS_PER_WEIGHT: u32 = 10;
const SAMPLER_PRIORITY: i32 = 60;
const REFRESHER_PRIORITY: i32 = 50;
/// How long before a sample the CPUs are interrupted; the more CPUs, the slower is each in the emulation.
const REFRESH_AHEAD_NS: u64 = 150_000;
const START_NS: u64 = 200_000_000;

fn main() {
    if let Err(error) = run(&Args::parse()) {
        eprintln!("share-sampler: {error}");
        exit(1);
    }
}

fn run(args: &Args) -> io::Result<()> {
    become_real_time(SAMPLER_PRIORITY)?;
    let mut processes = Vec::new();
    for (number, group) in args.groups.iter().enumerate() {
        start_group(args, number as u32, group, &mut processes)?;
    }
    for (number, user) in args.economy.iter().flat_map(|e| &e.users).enumerate() {
        start_user(UID_BASE + 1 + number as u32, user, &mut processes)?;
    }
    let schedule = Schedule::starting_now(args);
    for cpu in 0..online_cpus() {
        spawn(|| refresh(cpu, &schedule))?;
    }
    resume(&processes);
    let samples = sample(&processes, &schedule)?;
    end_all(&processes);
    print(&samples)
}

fn start_group(args: &Args, number: u32, group: &Group, pids: &mut Vec<i32>) -> io::Result<()> {
    let several = args.groups.len() > 1;
    let uid = UID_BASE + 1 + number;
    let cgroup = format!("/sys/fs/cgroup/group{number}");
    if several && args.by == By::Weight {
        fs::create_dir_all(&cgroup)?;
        fs::write(format!("{cgroup}/cpu.weight"), group.weight.to_string())?;
    }
    for &nice in &group.nice {
        let by = args.by;
        let pid = spawn(|| busy(by, uid, nice))?;
        pids.push(pid);
        await_stop(pid)?;
        match args.by {
            By::Weight if several => fs::write(format!("{cgroup}/cgroup.procs"), pid.to_string())?,
            By::Weight => {}
            By::Tickets => set_tickets(pid, weight_of_nice(nice))?,
        }
    }
    if several && args.by == By::Tickets {
        set_base_tickets(uid, group.weight * TICKETS_PER_WEIGHT)?;
    }
    Ok(())
}

fn busy(by: By, uid: u32, nice: i32) {
    match by {
        By::Weight => assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }, 0),
        By::Tickets => become_user(uid),
    }
    stop_here();
    spin()
}

fn start_user(uid: u32, user: &User, pids: &mut Vec<i32>) -> io::Result<()> {
    for process in &user.processes {
        let pid = spawn(|| busy_threads(uid, process))?;
        pids.push(pid);
        await_stop(pid)?;
        set_tickets(pid, process.tickets)?;
    }
    set_base_tickets(uid, user.base_tickets)
}

/// SIGSTOP stops the whole process, so all its threads continue together.
fn busy_threads(uid: u32, process: &Process) {
    restrict_to(process.cpus);
    become_user(uid);
    for _ in 1..process.threads {
        std::thread::spawn(spin);
    }
    stop_here();
    spin()
}

fn spin() {
    loop {
        std::hint::black_box(0);
    }
}

/// Every sample's time is planned from the start, for sampler and refreshers alike.
struct Schedule {
    first_ns: u64,
    interval_ns: u64,
    samples: u64,
}

impl Schedule {
    fn starting_now(args: &Args) -> Self {
        let interval_ns = (args.interval * 1e9) as u64;
        Self {
            first_ns: now_ns() + START_NS + (args.warm_up * 1e9) as u64,
            interval_ns,
            samples: (args.seconds / args.interval).round() as u64 + 1,
        }
    }

    fn times_ns(&self) -> impl Iterator<Item = u64> {
        (0..self.samples).map(|i| self.first_ns + i * self.interval_ns)
    }
}

fn refresh(cpu: usize, schedule: &Schedule) {
    pin_to(cpu);
    become_real_time(REFRESHER_PRIORITY).expect("root may");
    let ahead_ns = REFRESH_AHEAD_NS * online_cpus().div_ceil(2) as u64;
    for at_ns in schedule.times_ns() {
        sleep_until(at_ns - ahead_ns);
    }
}

struct Sample {
    at_ns: u64,
    used_ns: Vec<u64>,
    switches: u64,
}

fn sample(pids: &[i32], schedule: &Schedule) -> io::Result<Vec<Sample>> {
    let threads: io::Result<Vec<Vec<File>>> = pids.iter().map(|&pid| schedstats(pid)).collect();
    let threads = threads?;
    let mut samples = Vec::with_capacity(schedule.samples as usize);
    for (i, at_ns) in schedule.times_ns().enumerate() {
        sleep_until(at_ns);
        let at_ns = now_ns();
        let used_ns: io::Result<Vec<u64>> = threads
            .iter()
            .map(|files| files.iter().map(read_ns).sum())
            .collect();
        let ends = i == 0 || i as u64 + 1 == schedule.samples;
        samples.push(Sample {
            at_ns,
            used_ns: used_ns?,
            switches: if ends { context_switches()? } else { 0 },
        });
    }
    Ok(samples)
}

/// A file for each thread.
fn schedstats(pid: i32) -> io::Result<Vec<File>> {
    fs::read_dir(format!("/proc/{pid}/task"))?
        .map(|entry| File::open(entry?.path().join("schedstat")))
        .collect()
}

fn read_ns(schedstat: &File) -> io::Result<u64> {
    let mut buffer = [0; 64];
    let count = schedstat.read_at(&mut buffer, 0)?;
    used_ns(&buffer[..count])
}

fn print(samples: &[Sample]) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for sample in samples {
        let Sample {
            at_ns,
            used_ns,
            switches,
        } = sample;
        writeln!(
            out,
            "{{\"at_ns\":{at_ns},\"switches\":{switches},\"used_ns\":{used_ns:?}}}"
        )?;
    }
    out.flush()
}
