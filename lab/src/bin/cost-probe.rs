//! Runs in the guest, on one CPU in counted time: what scheduling costs, and how long a sleeper waits.
//!
//! Prints one line of JSON. Times are exact: in counted time an instruction takes a fixed number of nanoseconds, so they
//! are instruction counts. Busy processes loop 1000 instructions a pass and count the passes, so their useful
//! work can be told from the cost of scheduling.
//!
//! The driver is a real-time process, so the processes that it measures cannot delay it.

use clap::{Args, Parser, Subcommand};
use serde_json::json;
use std::io::{self, Read, Write};
use std::process::{Command, exit};
use std::sync::atomic::{AtomicU64, Ordering};
use tombola_lab::bench::By;
use tombola_lab::bench::guest::{
    UID_BASE, await_stop, become_user, context_switches, end, end_all, now_ns, resume, run_command,
    set_base_tickets, shared_counters, sleep_until, spawn, stop_here, wait_for,
};
use tombola_lab::cpu::become_real_time;
use tombola_lab::plan::TICKETS_DEFAULT;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    probe: Probe,
    #[command(flatten)]
    crowd: Crowd,
}

#[derive(Subcommand)]
enum Probe {
    /// Nothing but the crowd of busy processes; a reading every second
    Hogs {
        #[arg(long, default_value_t = 10)]
        seconds: u64,
    },
    /// Two processes wake each other in turn, by two pipes; the crowd has the least possible weight
    Ping {
        #[arg(long, default_value_t = 10_000)]
        rounds: u64,
    },
    /// One process that works and sleeps, with the same weight as each process of the crowd
    Sleeper {
        #[arg(long, default_value_t = 500)]
        work_us: u64,
        #[arg(long, default_value_t = 500)]
        wakes: u64,
    },
}

#[derive(Args, Clone)]
struct Crowd {
    /// Busy processes
    #[arg(long, global = true, default_value_t = 0)]
    hogs: u32,
    /// Users (or control groups) that they belong to, in equal numbers
    #[arg(long, global = true, default_value_t = 1)]
    users: u32,
    #[arg(long, global = true, value_enum, default_value_t = By::Weight)]
    by: By,
    /// Currencies of the one user that the crowd is spread over, each in the one before it, up to 8 deep; 0: none
    #[arg(long, global = true, default_value_t = 0)]
    currencies: u32,
}

/// The weight of a user, or a control group: the most, the default or the least.
#[derive(Clone, Copy)]
enum Due {
    Most,
    Normal,
    Least,
}

const PRIORITY: i32 = 60;
/// How deep currencies may be nested.
const NESTED: u32 = 8;
/// Long enough for the kernel's work after a start.
const WARM_UP_NS: u64 = 2_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const SLEEP_NS: u64 = 20_000_000;
const SLEEP_JITTER_NS: u64 = 4_000_000;

fn main() {
    let arguments = Arguments::parse();
    if let Err(error) = run(&arguments) {
        eprintln!("cost-probe: {error}");
        exit(1);
    }
}

fn run(arguments: &Arguments) -> io::Result<()> {
    become_real_time(PRIORITY)?;
    let crowd = &arguments.crowd;
    match arguments.probe {
        Probe::Hogs { seconds } => hogs(crowd, seconds),
        Probe::Ping { rounds } => ping(crowd, rounds),
        Probe::Sleeper { work_us, wakes } => sleeper(crowd, work_us, wakes),
    }
}

fn hogs(crowd: &Crowd, seconds: u64) -> io::Result<()> {
    let started = crowd.start(Due::Normal)?;
    resume(&started.pids);
    let first_ns = now_ns() + WARM_UP_NS;
    let mut readings = Vec::new();
    for second in 0..=seconds {
        sleep_until(first_ns + second * SECOND_NS);
        readings.push(Reading::take(&started)?);
    }
    let list = |of: fn(&Reading) -> u64| readings.iter().map(of).collect::<Vec<_>>();
    println!(
        "{}",
        json!({
            "at_ns": list(|reading| reading.at_ns),
            "passes": list(|reading| reading.passes),
            "switches": list(|reading| reading.switches),
        })
    );
    started.end();
    Ok(())
}

/// A round trip is two wake-ups and two switches, and one write and one read on either side. What a write and a read cost
/// without a switch is measured by one process alone that reads what it has written.
///
/// The two belong to another user (or control group) than the crowd, with the largest weight, and each user of the crowd has the
/// smallest.
fn ping(crowd: &Crowd, rounds: u64) -> io::Result<()> {
    let started = crowd.start(Due::Least)?;
    let (there_reader, there_writer) = io::pipe()?;
    let (back_reader, back_writer) = io::pipe()?;
    let group = crowd.users;
    let echo = spawn(|| {
        crowd.become_one_of(group);
        stop_here();
        while pass_on(&there_reader, &back_writer).is_ok() {}
    })?;
    await_stop(echo)?;
    let pinger = spawn(|| {
        crowd.become_one_of(group);
        stop_here();
        if let Err(error) = serve(&started, (&back_reader, &there_writer), rounds) {
            eprintln!("cost-probe: {error}");
            exit(1);
        }
    })?;
    await_stop(pinger)?;
    crowd.give(group, Due::Most, &[echo, pinger])?;
    resume(&[echo, pinger]);
    wait_for(pinger)?;
    end(echo);
    started.end();
    Ok(())
}

fn serve(
    started: &Started,
    (reader, writer): (&io::PipeReader, &io::PipeWriter),
    rounds: u64,
) -> io::Result<()> {
    let (alone_reader, alone_writer) = io::pipe()?;
    let alone_ns = round_trips(&alone_reader, &alone_writer, rounds)?;
    resume(&started.pids);
    round_trips(reader, writer, rounds / 10)?;
    let before = Reading::take(started)?;
    round_trips(reader, writer, rounds)?;
    let took = Reading::take(started)?.since(&before);
    println!(
        "{}",
        json!({
            "rounds": rounds,
            "alone_ns": alone_ns,
            "elapsed_ns": took.at_ns,
            "passes": took.passes,
            "switches": took.switches,
        })
    );
    Ok(())
}

fn round_trips(
    mut reader: &io::PipeReader,
    mut writer: &io::PipeWriter,
    rounds: u64,
) -> io::Result<u64> {
    let started_ns = now_ns();
    let mut byte = [0];
    for _ in 0..rounds {
        writer.write_all(&byte)?;
        reader.read_exact(&mut byte)?;
    }
    Ok(now_ns() - started_ns)
}

fn pass_on(mut reader: &io::PipeReader, mut writer: &io::PipeWriter) -> io::Result<()> {
    let mut byte = [0];
    reader.read_exact(&mut byte)?;
    writer.write_all(&byte)
}

fn sleeper(crowd: &Crowd, work_us: u64, wakes: u64) -> io::Result<()> {
    let started = crowd.start(Due::Normal)?;
    let sleeper = spawn(|| {
        crowd.become_one_of(0);
        if let Err(error) = sleep_and_work(&started, work_us, wakes) {
            eprintln!("cost-probe: {error}");
            exit(1);
        }
    })?;
    wait_for(sleeper)?;
    started.end();
    Ok(())
}

fn sleep_and_work(started: &Started, work_us: u64, wakes: u64) -> io::Result<()> {
    resume(&started.pids);
    let mut random = fastrand::Rng::with_seed(1); // every run draws the same
    let mut late_ns = Vec::new();
    work(work_us);
    let started_ns = now_ns();
    for _ in 0..wakes {
        let due_ns = now_ns() + SLEEP_NS + random.u64(..SLEEP_JITTER_NS);
        sleep_until(due_ns);
        late_ns.push(now_ns() - due_ns);
        work(work_us);
    }
    let elapsed_ns = now_ns() - started_ns;
    println!(
        "{}",
        json!({ "elapsed_ns": elapsed_ns, "work_us": work_us, "late_ns": late_ns })
    );
    Ok(())
}

fn work(micros: u64) {
    let end_ns = own_cpu_ns() + micros * 1000;
    while own_cpu_ns() < end_ns {}
}

fn own_cpu_ns() -> u64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

struct Started {
    pids: Vec<i32>,
    passes: &'static [AtomicU64],
    currencies: u32,
}

impl Started {
    /// Retires the currencies, too: the next probe makes its own.
    fn end(&self) {
        end_all(&self.pids);
        for currency in 0..self.currencies {
            let mut retire = Command::new("tombola");
            let retired = retire.args(["currency", "retire", &name(currency)]);
            run_command(retired).expect("no other process retires it");
        }
    }

    fn passes(&self) -> u64 {
        self.passes
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

impl Crowd {
    /// Starts all, which then wait (`stop_here`).
    fn start(&self, due: Due) -> io::Result<Started> {
        let passes = shared_counters(self.hogs as usize)?;
        let mut pids = Vec::new();
        for hog in 0..self.hogs {
            let pid = spawn(|| {
                self.become_one_of(hog % self.users);
                stop_here();
                loop_forever(&passes[hog as usize]);
            })?;
            await_stop(pid)?;
            pids.push(pid);
        }
        for group in 0..self.users.min(self.hogs) {
            let members = pids.iter().skip(group as usize);
            let members: Vec<i32> = members.step_by(self.users as usize).copied().collect();
            self.give(group, due, &members)?;
        }
        for currency in 0..self.currencies {
            let members = pids.iter().skip(currency as usize);
            let members = members.step_by(self.currencies as usize);
            self.enter_currency(currency, members.copied())?;
        }
        Ok(Started {
            pids,
            passes,
            currencies: self.currencies,
        })
    }

    /// A currency has as many tickets as all processes in it and in the currencies inside it, so that each process has the same
    /// share.
    fn enter_currency(&self, currency: u32, members: impl Iterator<Item = i32>) -> io::Result<()> {
        let inside = (self.currencies - currency).min(NESTED - currency % NESTED);
        let tickets = inside * TICKETS_DEFAULT * self.hogs / self.currencies;
        let mut make = Command::new("tombola");
        make.args(["currency", "make", &name(currency)]);
        make.args(["--tickets", &tickets.to_string()]);
        if !currency.is_multiple_of(NESTED) {
            make.args(["--in", &name(currency - 1)]);
        }
        run_command(&mut make)?;
        let mut enter = Command::new("tombola");
        enter.args(["currency", "enter", &name(currency)]);
        run_command(enter.args(members.map(|pid| pid.to_string())))
    }

    fn become_one_of(&self, group: u32) {
        if self.by == By::Tickets {
            become_user(UID_BASE + 1 + group);
        }
    }

    /// A single group of default weight shares with no other, and is left as it is.
    fn give(&self, group: u32, due: Due, members: &[i32]) -> io::Result<()> {
        if self.users == 1 && matches!(due, Due::Normal) {
            return Ok(());
        }
        match self.by {
            By::Tickets => set_base_tickets(UID_BASE + 1 + group, due.base_tickets()),
            By::Weight => {
                let path = format!("/sys/fs/cgroup/crowd{group}");
                std::fs::create_dir_all(&path)?;
                std::fs::write(format!("{path}/cpu.weight"), due.cpu_weight().to_string())?;
                let enter =
                    |pid: &i32| std::fs::write(format!("{path}/cgroup.procs"), pid.to_string());
                members.iter().try_for_each(enter)
            }
        }
    }
}

fn name(currency: u32) -> String {
    format!("{}:c{currency}", UID_BASE + 1)
}

impl Due {
    fn base_tickets(self) -> u32 {
        match self {
            Due::Most => 10_000,
            Due::Normal => 1_000,
            Due::Least => 100,
        }
    }

    fn cpu_weight(self) -> u32 {
        match self {
            Due::Most => 10_000,
            Due::Normal => 100,
            Due::Least => 1,
        }
    }
}

/// 1000 instructions a pass: mov, 498 times dec and jnz, inc, nop, jmp.
fn loop_forever(passes: &AtomicU64) -> ! {
    unsafe {
        std::arch::asm!(
            "2:",
            "mov ecx, 498",
            "3:",
            "dec ecx",
            "jnz 3b",
            "inc qword ptr [{passes}]",
            "nop",
            "jmp 2b",
            passes = in(reg) passes.as_ptr(),
            options(noreturn)
        )
    }
}

struct Reading {
    at_ns: u64,
    passes: u64,
    switches: u64,
}

impl Reading {
    fn take(crowd: &Started) -> io::Result<Self> {
        let switches = context_switches()?;
        Ok(Self {
            at_ns: now_ns(),
            passes: crowd.passes(),
            switches,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            at_ns: self.at_ns - before.at_ns,
            passes: self.passes - before.passes,
            switches: self.switches - before.switches,
        }
    }
}
