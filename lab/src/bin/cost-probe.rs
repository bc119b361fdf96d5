//! Runs in the guest, on one CPU in counted time: what scheduling costs, and how long a sleeper waits.
//!
//! Prints one line of JSON. Times are exact: in counted time an instruction takes a fixed number of nanoseconds, so they
//! are instruction counts. Busy processes loop 1000 instructions a pass and count the passes, so what they did usefully
//! can be told from what scheduling took.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::io::{self, Read, Write};
use std::process::exit;
use std::sync::atomic::{AtomicU64, Ordering};
use tombola_lab::bench::guest::{
    UID_BASE, become_real_time, context_switches, end, now_ns, set_base_tickets, set_tickets,
    sleep_until, spawn,
};
use tombola_lab::bench::weight_of_nice;

#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    probe: Probe,
    #[command(flatten)]
    crowd: Crowd,
}

#[derive(Subcommand)]
enum Probe {
    /// Nothing but the crowd of busy processes
    Hogs {
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
    },
    /// Two processes wake each other in turn, by two pipes; the crowd has the least weight
    Ping {
        #[arg(long, default_value_t = 1_000)]
        rounds: u64,
    },
    /// One process that works and sleeps, of the same weight as each of the crowd
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
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum By {
    /// nice, and control groups if there are several users
    Weight,
    /// Tickets and users
    Tickets,
}

const NICE_LEAST: i32 = 19;
/// Of the user of the two processes that wake each other, and of each user of the crowd, if these are several.
const BASE_TICKETS_PING: u32 = 10_000;
const BASE_TICKETS_CROWD: u32 = 100;
const PRIORITY: i32 = 60;
const WARM_UP_NS: u64 = 500_000_000;
const SLEEP_NS: u64 = 20_000_000;
const SLEEP_JITTER_NS: u64 = 4_000_000;

fn main() {
    let arguments = Arguments::parse();
    let result = match arguments.probe {
        Probe::Hogs { seconds } => hogs(&arguments.crowd, seconds),
        Probe::Ping { rounds } => ping(&arguments.crowd, rounds),
        Probe::Sleeper { work_us, wakes } => sleeper(&arguments.crowd, work_us, wakes),
    };
    if let Err(error) = result {
        eprintln!("cost-probe: {error}");
        exit(1);
    }
}

fn hogs(crowd: &Crowd, seconds: f64) -> io::Result<()> {
    let started = crowd.start(0)?;
    become_real_time(PRIORITY)?;
    sleep_until(now_ns() + WARM_UP_NS);
    let before = Reading::take(&started)?;
    sleep_until(before.at_ns + (seconds * 1e9) as u64);
    let took = Reading::take(&started)?.since(&before);
    println!(
        "{{\"elapsed_ns\":{},\"passes\":{},\"switches\":{}}}",
        took.at_ns, took.passes, took.switches
    );
    started.end();
    Ok(())
}

/// A round trip is two wake-ups and two switches, and one write and one read on either side. What a write and a read cost
/// without a switch is measured by one process alone that reads what it has written.
fn ping(crowd: &Crowd, rounds: u64) -> io::Result<()> {
    let (alone_reader, alone_writer) = io::pipe()?;
    let alone_ns = round_trips(&alone_reader, &alone_writer, rounds)?;
    let started = crowd.start(NICE_LEAST)?;
    crowd.favour_me()?;
    let (there_reader, there_writer) = io::pipe()?;
    let (back_reader, back_writer) = io::pipe()?;
    let echo = spawn(|| while pass_on(&there_reader, &back_writer).is_ok() {})?;
    round_trips(&back_reader, &there_writer, rounds / 10)?;
    let before = Reading::take(&started)?;
    round_trips(&back_reader, &there_writer, rounds)?;
    let took = Reading::take(&started)?.since(&before);
    println!(
        "{{\"rounds\":{rounds},\"alone_ns\":{alone_ns},\"elapsed_ns\":{},\"passes\":{},\"switches\":{}}}",
        took.at_ns, took.passes, took.switches
    );
    end(echo);
    started.end();
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
    let started = crowd.start(0)?;
    crowd.join_in()?;
    let mut random = 1;
    let mut late_ns = Vec::new();
    work(work_us);
    let started_ns = now_ns();
    for _ in 0..wakes {
        let due_ns = now_ns() + SLEEP_NS + next_random(&mut random) % SLEEP_JITTER_NS;
        sleep_until(due_ns);
        late_ns.push(now_ns() - due_ns);
        work(work_us);
    }
    let elapsed_ns = now_ns() - started_ns;
    println!("{{\"elapsed_ns\":{elapsed_ns},\"work_us\":{work_us},\"late_ns\":{late_ns:?}}}");
    started.end();
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

/// Knuth's MMIX generator; its high bits are good enough for jitter, and every run draws the same.
fn next_random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    *state >> 33
}

struct Started {
    pids: Vec<i32>,
    passes: &'static [AtomicU64],
}

impl Started {
    fn end(&self) {
        self.pids.iter().for_each(|&pid| end(pid));
    }

    fn passes(&self) -> u64 {
        self.passes
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

impl Crowd {
    fn start(&self, nice: i32) -> io::Result<Started> {
        let passes = shared_counters(self.hogs as usize)?;
        let mut pids = Vec::new();
        for hog in 0..self.hogs {
            let group = hog % self.users;
            let pid = spawn(|| self.be_busy(group, nice, &passes[hog as usize]))?;
            pids.push(pid);
            match self.by {
                By::Weight if self.users > 1 => enter_cgroup(group, pid)?,
                By::Weight => {}
                By::Tickets => set_tickets(pid, weight_of_nice(nice))?,
            }
        }
        for group in 0..self.users {
            let several = self.users > 1 && nice == NICE_LEAST;
            if self.by == By::Tickets && several {
                set_base_tickets(self.uid(group), BASE_TICKETS_CROWD)?;
            }
        }
        Ok(Started { pids, passes })
    }

    fn uid(&self, group: u32) -> u32 {
        UID_BASE + 1 + group
    }

    fn be_busy(&self, group: u32, nice: i32, passes: &AtomicU64) {
        match self.by {
            By::Weight => assert_eq!(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }, 0),
            By::Tickets => become_user(self.uid(group)),
        }
        loop_forever(passes);
    }

    /// The calling process, and what it forks, get nearly all of the CPU. With one user it is theirs; with several another.
    fn favour_me(&self) -> io::Result<()> {
        if self.by == By::Weight {
            return Ok(());
        }
        set_tickets(std::process::id() as i32, weight_of_nice(0))?;
        let uid = match self.users {
            1 => self.uid(0),
            users => self.uid(users),
        };
        if self.users > 1 {
            set_base_tickets(uid, BASE_TICKETS_PING)?;
        }
        become_user(uid);
        Ok(())
    }

    /// The calling process becomes one of the first user's, with as many tickets as each of the crowd.
    fn join_in(&self) -> io::Result<()> {
        if self.by == By::Tickets {
            set_tickets(std::process::id() as i32, weight_of_nice(0))?;
            become_user(self.uid(0));
        }
        Ok(())
    }
}

fn become_user(uid: u32) {
    // The crowd has to be killed in the end, so only the effective user changes for those who do that.
    unsafe {
        assert_eq!(libc::setresgid(uid, uid, uid), 0);
        assert_eq!(libc::setresuid(uid, uid, 0), 0);
    }
}

fn enter_cgroup(group: u32, pid: i32) -> io::Result<()> {
    let path = format!("/sys/fs/cgroup/crowd{group}");
    std::fs::create_dir_all(&path)?;
    std::fs::write(format!("{path}/cgroup.procs"), pid.to_string())
}

fn shared_counters(count: usize) -> io::Result<&'static [AtomicU64]> {
    if count == 0 {
        return Ok(&[]);
    }
    let (read_write, shared) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // A cache line each would be kinder to real machines; this one has no caches.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), count * 8, read_write, shared, -1, 0);
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(std::slice::from_raw_parts(memory.cast(), count))
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
