//! Processes that do to a scheduler everything that processes can do to it.
//!
//! Each worker forks, starts threads, kills, stops, executes, lends tickets, changes users, CPUs, classes, nice values and
//! tickets, of itself and of its children, at random; CPUs are switched off and on beneath them. Meanwhile the driver checks that
//! the kernel has not ejected the scheduler. In the end every worker must finish its step: one that waits for a thread that was
//! lost less than the watchdog's time ago would not.

use crate::steps::{PRIORITY, Steps, reap, scheduler_state};
use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use tombola_lab::bench::guest::{shared_counters, spawn};
use tombola_lab::cpu::become_real_time;

/// Everything that processes can do to a scheduler
#[derive(clap::Args)]
pub struct Args {
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[arg(long, default_value_t = 40)]
    workers: u32,
    /// CPUs to switch off and on, from 1 up; CPU 0 stays on
    #[arg(long, default_value_t = 3)]
    hotplug: u32,
}

const ROUND: Duration = Duration::from_millis(200);
const UID_FIRST: u32 = 2001;
const UIDS: u64 = 20;

pub fn run(args: &Args) -> io::Result<()> {
    let steps = Steps::of(args.workers as usize)?;
    let over = &shared_counters(1)?[0];
    let crew = Crew::start(steps.0, over)?;
    become_real_time(PRIORITY)?;
    let (began, mut round) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(args.seconds) {
        thread::sleep(ROUND);
        reap();
        still_scheduled()?;
        switch_a_cpu(args.hotplug, round);
        round += 1;
    }
    for cpu in 1..=args.hotplug {
        switch_cpu(cpu, true);
    }
    /*
     * A worker that has finished leaves its CPU time to the others. While all work, a step takes as long as its process with the
     * fewest tickets takes to start: half a second of CPU time takes minutes at 100 tickets beside forty workers of up to 10,000.
     */
    let before = steps.read();
    over.store(1, Relaxed);
    steps.await_progress(&before, still_scheduled)?;
    crew.end();
    let total: u64 = steps.read().iter().sum();
    println!(
        "{total} steps by {} workers in {round} rounds",
        args.workers
    );
    Ok(())
}

fn still_scheduled() -> io::Result<()> {
    match scheduler_state()?.as_str() {
        "enabled" => Ok(()),
        state => Err(io::Error::other(format!(
            "the scheduler was ejected: it is {state}"
        ))),
    }
}

/// All CPUs are switched off one after the other, then on again.
fn switch_a_cpu(cpus: u32, round: u32) {
    if cpus > 0 {
        switch_cpu(1 + round % cpus, (round / cpus) % 2 == 1);
    }
}

// A CPU that is in the wanted state already refuses.
fn switch_cpu(cpu: u32, on: bool) {
    let file = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    let _ = fs::write(file, if on { "1" } else { "0" });
}

/// The workers and all that they have started: one process group.
struct Crew {
    group: i32,
}

impl Crew {
    fn start(steps: &'static [AtomicU64], over: &'static AtomicU64) -> io::Result<Self> {
        // Orphans become children of this process, so that none is left when it ends.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        let mut group = 0;
        for (number, steps) in steps.iter().enumerate() {
            let pid = spawn(|| {
                unsafe { libc::setpgid(0, group) };
                Worker::new(number as u64).work(steps, over);
            })?;
            if group == 0 {
                group = pid;
            }
            // In the parent as well: whichever comes first.
            unsafe { libc::setpgid(pid, group) };
        }
        Ok(Self { group })
    }

    fn end(self) {
        while unsafe { libc::kill(-self.group, libc::SIGKILL) } == 0 {
            reap();
            thread::sleep(Duration::from_millis(10));
        }
        while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {}
    }
}

fn pause(micros: u64) {
    thread::sleep(Duration::from_micros(micros));
}

fn spin(rounds: u64) {
    for i in 0..rounds * 1000 {
        std::hint::black_box(i);
    }
}

/// Forks a child that does `work` and exits. Returns 0 if there is no room for another process.
fn fork(work: impl FnOnce()) -> i32 {
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        work();
        unsafe { libc::_exit(0) };
    }
    pid.max(0)
}

fn finish(pid: i32) {
    if pid > 0 {
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
    }
}

fn set_affinity(pid: i32, mask: u64) {
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (0..64)
            .filter(|cpu| mask >> cpu & 1 == 1)
            .for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(pid, size_of_val(&set), &set);
    }
}

fn set_class(pid: i32, class: i32) {
    let real_time = class == libc::SCHED_FIFO || class == libc::SCHED_RR;
    let parameters = libc::sched_param {
        sched_priority: i32::from(real_time),
    };
    unsafe { libc::sched_setscheduler(pid, class, &parameters) };
}

/// A worker's actions follow from its own sequence of random numbers; only their times are left to chance.
struct Worker {
    random: fastrand::Rng,
}

impl Worker {
    fn new(number: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(number),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }

    fn work(mut self, steps: &AtomicU64, over: &AtomicU64) {
        while over.load(Relaxed) == 0 {
            self.step();
            steps.fetch_add(1, Relaxed);
            reap();
        }
        // This step is counted after the driver has read the counts.
        steps.fetch_add(1, Relaxed);
    }

    fn step(&mut self) {
        match self.below(15) {
            0 => self.fork_and_perhaps_wait(),
            1 => self.threads(),
            2 => self.end_under_threads(),
            3 => self.execute_from_a_thread(),
            4 => self.change_user(),
            5 => set_affinity(0, self.mask()),
            6 => self.move_a_child_about(),
            7 => self.stop_and_kill(),
            8 => self.change_class(),
            9 => self.nice(),
            10 => self.tickets(),
            11 => self.wake_in_turn(),
            12 => thread::yield_now(),
            13 => self.lend(),
            _ => spin(self.below(500)),
        }
    }

    fn mask(&mut self) -> u64 {
        1 + self.below(15)
    }

    fn class(&mut self) -> i32 {
        let classes = [
            libc::SCHED_OTHER,
            libc::SCHED_BATCH,
            libc::SCHED_IDLE,
            libc::SCHED_FIFO,
            libc::SCHED_RR,
        ];
        classes[self.below(5) as usize]
    }

    fn fork_and_perhaps_wait(&mut self) {
        let rounds = self.below(200);
        let pid = fork(|| spin(rounds));
        if self.below(2) == 0 {
            finish(pid);
        }
    }

    fn start_threads(&mut self) -> Vec<thread::JoinHandle<()>> {
        let mut start = || {
            let (rounds, nap) = (self.below(50), self.below(300));
            // There may be no room for another thread.
            thread::Builder::new()
                .spawn(move || {
                    for _ in 0..20 {
                        spin(rounds);
                        pause(nap);
                    }
                })
                .ok()
        };
        (0..4).filter_map(|_| start()).collect()
    }

    fn threads(&mut self) {
        for thread in self.start_threads() {
            thread.join().expect("it only works and sleeps");
        }
    }

    fn end_under_threads(&mut self) {
        let pid = fork(|| {
            self.start_threads();
            pause(self.below(3000));
        });
        finish(pid);
    }

    /// The kernel then ends the other threads, and gives the remaining one the number of the first.
    fn execute_from_a_thread(&mut self) {
        let pid = fork(|| {
            let others = self.start_threads();
            let _ = thread::spawn(|| {
                use std::os::unix::process::CommandExt;
                Command::new("burn")
                    .args(["--units", "50"])
                    .stdout(Stdio::null())
                    .exec()
            })
            .join();
            drop(others);
        });
        finish(pid);
    }

    fn change_user(&mut self) {
        let (uid, threads) = (UID_FIRST + self.below(UIDS) as u32, self.below(2) == 0);
        fork(|| {
            let threads = if threads {
                self.start_threads()
            } else {
                Vec::new()
            };
            unsafe { libc::setuid(uid) };
            for _ in 0..5 {
                spin(100);
                pause(100);
            }
            drop(threads);
        });
    }

    fn move_a_child_about(&mut self) {
        let pid = fork(|| spin(2000));
        if pid > 0 {
            for _ in 0..5 {
                set_affinity(pid, self.mask());
                pause(self.below(300));
                set_class(pid, self.class());
            }
        }
        finish(pid);
    }

    fn stop_and_kill(&mut self) {
        let pid = fork(|| {
            loop {
                spin(10);
                pause(10);
            }
        });
        if pid > 0 {
            for signal in [libc::SIGSTOP, libc::SIGCONT, libc::SIGSTOP, libc::SIGKILL] {
                pause(self.below(1000));
                unsafe { libc::kill(pid, signal) };
            }
        }
        finish(pid);
    }

    fn change_class(&mut self) {
        set_class(0, self.class());
        spin(self.below(300));
        set_class(0, libc::SCHED_OTHER);
    }

    fn nice(&mut self) {
        let nice = self.below(40) as i32 - 20;
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    }

    fn tickets(&mut self) {
        let amount = (100 + self.below(9901)).to_string();
        let own = std::process::id().to_string();
        let mut command = if self.below(2) == 0 {
            let mut command = Command::new("lrenice");
            command.args([&own, &amount]);
            command
        } else {
            let uid = UID_FIRST + self.below(UIDS) as u32;
            let mut command = Command::new("lsetbase");
            command.args(["-u", &uid.to_string(), &amount]);
            command
        };
        // Refused while there are too many processes; tried again soon.
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    /// To another worker or a child of one, as likely as not; the loan ends when one of the two does, or with its time.
    fn lend(&mut self) {
        let own = std::process::id();
        let to = (u64::from(own) + self.below(100)).saturating_sub(50).max(1);
        let tickets = match self.below(4) {
            0 => "all".to_owned(),
            _ => (1 + self.below(100)).to_string(),
        };
        let mut command = Command::new("tombola");
        command.args([
            "lend",
            &tickets,
            "--from",
            &own.to_string(),
            "--to",
            &to.to_string(),
        ]);
        if tickets != "all" && self.below(2) == 0 {
            command.args(["--for", "100ms"]);
        }
        let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    }

    /// Two processes wake each other in turn.
    fn wake_in_turn(&mut self) {
        use std::io::{Read, Write, pipe};
        let (Ok((mut there, mut to_there)), Ok((mut here, mut to_here))) = (pipe(), pipe()) else {
            return;
        };
        let pid = fork(|| {
            let mut byte = [0];
            for _ in 0..100 {
                if there.read_exact(&mut byte).is_err() || to_here.write_all(&byte).is_err() {
                    break;
                }
            }
        });
        if pid > 0 {
            drop((there, to_here));
            let mut byte = [0];
            for _ in 0..100 {
                if to_there.write_all(&byte).is_err() || here.read_exact(&mut byte).is_err() {
                    break;
                }
            }
        }
        drop(to_there);
        finish(pid);
    }
}
