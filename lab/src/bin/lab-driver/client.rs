//! The clients: how they start, what they do, what is read of them, how they end.

use std::fs;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use tombola_lab::bench::guest::{
    UID_BASE, become_user, cpu_time_ns, now_ns, sleep_until, spawn, used_ns,
};
use tombola_lab::plan::{Client, DISK, DISK_MIB, End, Plan, Scheduler, Step, Work};

/// 10 ms of an emulated CPU at 8 ns an instruction, about.
const UNIT_ROUNDS: u64 = 250_000;

/// What the driver and its clients share: the time of the first sample, and for each client how many units it has done and how
/// long its work took.
#[derive(Clone, Copy)]
pub struct Shared {
    first_ns: &'static AtomicU64,
    units: &'static [AtomicU64],
    took_ns: &'static [AtomicU64],
}

impl Shared {
    pub fn counters(clients: usize) -> usize {
        1 + 2 * clients
    }

    pub fn new(counters: &'static [AtomicU64]) -> Self {
        let (first, clients) = counters.split_at(1);
        let (units, took_ns) = clients.split_at(clients.len() / 2);
        Self {
            first_ns: &first[0],
            units,
            took_ns,
        }
    }

    pub fn begin(self, first_ns: u64) {
        self.first_ns.store(first_ns, Ordering::Relaxed);
    }
}

pub struct Clients {
    pub pids: Vec<i32>,
    shared: Shared,
}

impl Clients {
    /// Starts the clients, which wait to read from a pipe. They begin when the writer that is returned is dropped.
    pub fn start(plan: &Plan, shared: Shared) -> io::Result<(Self, PipeWriter)> {
        let (begin, writer) = io::pipe()?;
        let (mut ready, announce) = io::pipe()?;
        let mut pids = Vec::new();
        for (number, client) in plan.clients.iter().enumerate() {
            shared.units[number].store(0, Ordering::Relaxed);
            shared.took_ns[number].store(0, Ordering::Relaxed);
            let files = Files::of(number);
            files.make(client)?;
            pids.push(spawn(|| {
                // Or this process's own copy would keep the pipe open.
                unsafe { libc::close(writer.as_raw_fd()) };
                set_up(plan, client);
                let _ = (&announce).write_all(&[0]);
                let _ = (&begin).read(&mut [0]);
                if let Some(starts_s) = client.starts_s {
                    let first_ns = shared.first_ns.load(Ordering::Relaxed);
                    sleep_until(first_ns + (starts_s * 1e9) as u64);
                }
                work(
                    client,
                    &files,
                    &shared.units[number],
                    &shared.took_ns[number],
                );
            })?);
        }
        ready.read_exact(&mut vec![0; pids.len()])?;
        Ok((Self { pids, shared }, writer))
    }

    /// A process that has exited still has its file until it is waited for.
    pub fn used_ns(&self) -> io::Result<Vec<u64>> {
        let read = |pid: &i32| used_ns(&fs::read(format!("/proc/{pid}/schedstat"))?);
        self.pids.iter().map(read).collect()
    }

    pub fn units(&self, plan: &Plan) -> io::Result<Vec<u64>> {
        let of = |(number, client): (usize, &Client)| match client.work {
            Work::Disk => moved_mib(self.pids[number]),
            Work::Program { .. } => Files::of(number).progress(),
            Work::Burn | Work::Units(_) | Work::Steps(_) => {
                Ok(self.shared.units[number].load(Ordering::Relaxed))
            }
        };
        plan.clients.iter().enumerate().map(of).collect()
    }

    /// Ends all clients, programs last: they still write their numbers.
    pub fn end(self, plan: &Plan) -> io::Result<Vec<End>> {
        let is_program =
            |number: &usize| matches!(plan.clients[*number].work, Work::Program { .. });
        let (programs, others): (Vec<usize>, Vec<usize>) =
            (0..self.pids.len()).partition(is_program);
        // All at once: a killed process must run to exit, and would wait for busy ones.
        self.signal(&others, libc::SIGKILL);
        self.signal(&programs, libc::SIGTERM);
        let left = |number: usize| {
            let took_ns = self.shared.took_ns[number].load(Ordering::Relaxed);
            Ok(End {
                client: number,
                took_ns: (took_ns != 0).then_some(took_ns),
                numbers: match &plan.clients[number].work {
                    Work::Program {
                        numbers: Some(_), ..
                    } => Files::of(number).numbers()?,
                    _ => Vec::new(),
                },
            })
        };
        let worth_telling = |end: &io::Result<End>| !matches!(end, Ok(end) if end.took_ns.is_none() && end.numbers.is_empty());
        (0..self.pids.len())
            .map(left)
            .filter(worth_telling)
            .collect()
    }
}

impl Clients {
    fn signal(&self, numbers: &[usize], signal: i32) {
        for &number in numbers {
            unsafe { libc::kill(self.pids[number], signal) };
        }
        for &number in numbers {
            unsafe { libc::waitpid(self.pids[number], std::ptr::null_mut(), 0) };
        }
    }
}

fn set_up(plan: &Plan, client: &Client) {
    let uid = UID_BASE + client.user;
    if plan.scheduler == Scheduler::Weight {
        join_groups(client).expect("root may make cgroups");
    }
    if matches!(client.work, Work::Disk) {
        chown(DISK, Some(uid), None).expect("the machine has a disk");
    }
    let renice = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, client.nice) };
    assert_eq!(renice, 0);
    become_user(uid);
}

fn join_groups(client: &Client) -> io::Result<()> {
    let mut path = "/sys/fs/cgroup".to_owned();
    for (depth, group) in client.groups.iter().enumerate() {
        if depth > 0 {
            fs::write(format!("{path}/cgroup.subtree_control"), "+cpu")?;
        }
        path = format!("{path}/{}", group.name);
        fs::create_dir_all(&path)?;
        fs::write(format!("{path}/cpu.weight"), group.weight.to_string())?;
    }
    fs::write(format!("{path}/cgroup.procs"), "0")
}

fn work(client: &Client, files: &Files, done: &AtomicU64, took_ns: &AtomicU64) {
    match &client.work {
        Work::Burn => burn(u64::MAX, done),
        Work::Units(limit) => {
            let began_ns = now_ns();
            burn(*limit, done);
            took_ns.store(now_ns() - began_ns, Ordering::Relaxed);
        }
        Work::Steps(steps) => repeat(steps, done),
        Work::Disk => panic!("cannot run diskio: {}", diskio().exec()),
        Work::Program { words, numbers } => {
            let mut program = Command::new(&words[0]);
            program
                .args(&words[1..])
                .args(["--progress", &files.progress]);
            if let Some(option) = numbers {
                program.args([option, &files.numbers]);
            }
            let error = program.stdout(Stdio::null()).exec();
            panic!("cannot run {words:?}: {error}");
        }
    }
}

fn burn(limit: u64, done: &AtomicU64) {
    for unit in 1..=limit {
        for round in 0..UNIT_ROUNDS {
            std::hint::black_box(round);
        }
        done.store(unit, Ordering::Relaxed);
    }
}

fn repeat(steps: &[Step], done: &AtomicU64) -> ! {
    let mut period_began_ns = now_ns();
    let mut used_ns = cpu_time_ns();
    loop {
        for step in steps {
            match *step {
                Step::Run(ns) => {
                    used_ns += ns;
                    compute_until(used_ns);
                }
                Step::Sleep(ns) => sleep_until(now_ns() + ns),
                Step::Timer(ns) => {
                    let now_ns = now_ns();
                    period_began_ns = now_ns.max(period_began_ns + ns);
                    if now_ns < period_began_ns {
                        sleep_until(period_began_ns);
                    }
                }
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

fn compute_until(used_ns: u64) {
    while cpu_time_ns() < used_ns {
        (0..100).for_each(|round| _ = std::hint::black_box(round));
    }
}

fn diskio() -> Command {
    let mut command = Command::new("diskio");
    command.args(["--mib", &DISK_MIB.to_string(), DISK]);
    command
}

/// The files of a client that is a program.
struct Files {
    progress: String,
    numbers: String,
}

impl Files {
    fn of(number: usize) -> Self {
        Self {
            progress: format!("/tmp/progress-{number}"),
            numbers: format!("/tmp/numbers-{number}"),
        }
    }

    /// Owned by the client's user, so that the client may write them.
    fn make(&self, client: &Client) -> io::Result<()> {
        if matches!(client.work, Work::Program { .. }) {
            for (file, content) in [(&self.progress, &[0; 8][..]), (&self.numbers, &[])] {
                fs::write(file, content)?;
                chown(file, Some(UID_BASE + client.user), None)?;
            }
        }
        Ok(())
    }

    fn progress(&self) -> io::Result<u64> {
        let bytes = fs::read(&self.progress)?;
        let bytes = bytes.try_into();
        bytes
            .map(u64::from_le_bytes)
            .map_err(|_| io::Error::other(format!("{} does not hold 8 bytes", self.progress)))
    }

    fn numbers(&self) -> io::Result<Vec<u64>> {
        let text = fs::read_to_string(&self.numbers)?;
        let numbers = text
            .lines()
            .map(|line| line.parse().map_err(io::Error::other));
        numbers.collect()
    }
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
