//! What the programs that measure in the guest have in common.

use crate::cpu;
use std::io;
use std::process::{Command, Stdio, exit};
use std::sync::atomic::AtomicU64;

/// The numbered test users begin after this uid.
pub const UID_BASE: u32 = 2000;

pub fn set_base_tickets(uid: u32, tickets: u32) -> io::Result<()> {
    run_command(Command::new("lsetbase").args(["-u", &uid.to_string(), &tickets.to_string()]))
}

/// Without a limit, as if the owner had set them: under a limit of root's the owner could not move the process.
pub fn set_tickets(pid: i32, tickets: u32) -> io::Result<()> {
    let mut command = Command::new("lrenice");
    command.arg("--owner-may-exceed");
    run_command(command.args([pid.to_string(), tickets.to_string()]))
}

/// As a real-time process: no client runs until the loan is made.
pub fn lend(from: i32, to: i32, tickets: u32) -> io::Result<()> {
    run_command(
        real_time()
            .args(["lend", &tickets.to_string()])
            .args(between(from, to)),
    )
}

/// If one of the two has exited, the loan has ended, and that is no error.
pub fn reclaim(from: i32, to: i32) -> io::Result<()> {
    let mut command = real_time();
    let command = command.arg("reclaim").args(between(from, to));
    command.stderr(Stdio::null()).status().map(|_| ())
}

fn real_time() -> Command {
    let mut command = Command::new("chrt");
    command.args(["--fifo", "50", "tombola"]);
    command
}

fn between(from: i32, to: i32) -> [String; 2] {
    [format!("--from={from}"), format!("--to={to}")]
}

/// A command of Tombola's, which must succeed.
pub fn run_command(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "{command:?} ended with {status}; is the scheduler running?"
    )))
}

pub fn context_switches() -> io::Result<u64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| io::Error::other("/proc/stat has no ctxt"))
}

/// Zeroed counters that this process shares with those that it forks from now on.
pub fn shared_counters(count: usize) -> io::Result<&'static [AtomicU64]> {
    if count == 0 {
        return Ok(&[]);
    }
    let (access, shared) = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_SHARED | libc::MAP_ANONYMOUS,
    );
    // On a real machine each should have its own cache line; the guest's has no caches.
    // SAFETY: fresh zeroed memory, as many counters as were asked for, never unmapped.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), count * 8, access, shared, -1, 0);
        if memory == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(std::slice::from_raw_parts(memory.cast(), count))
    }
}

/// Permanently. Panics without the right to it: the programs here run as root.
pub fn become_user(uid: u32) {
    // SAFETY: two system calls.
    unsafe {
        assert_eq!(libc::setgid(uid), 0);
        assert_eq!(libc::setuid(uid), 0);
    }
}

pub fn spawn(work: impl FnOnce()) -> io::Result<i32> {
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            work();
            exit(0);
        }
        pid => Ok(pid),
    }
}

/// In a child: waits until the parent resumes it. Busy processes must not begin before all are set up: the commands that set them
/// up would wait for their turns among them, a hundred times as long if a hundred users are busy. Each child stops itself: if ten
/// thousand waited for one pipe, each that wakes up would make the kernel walk through all others.
pub fn stop_here() {
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// In the parent: waits until the child has stopped.
pub fn await_stop(pid: i32) -> io::Result<()> {
    let mut status = 0;
    match unsafe { libc::waitpid(pid, &raw mut status, libc::WUNTRACED) } {
        -1 => Err(io::Error::last_os_error()),
        _ if libc::WIFSTOPPED(status) => Ok(()),
        _ => Err(io::Error::other("a process ended before it was to begin")),
    }
}

pub fn resume(pids: &[i32]) {
    for &pid in pids {
        unsafe { libc::kill(pid, libc::SIGCONT) };
    }
}

/// All stop before the first is ended: to exit takes CPU time, of which some have next to nothing while the others are busy.
pub fn end_all(pids: &[i32]) {
    for &pid in pids {
        unsafe { libc::kill(pid, libc::SIGSTOP) };
    }
    pids.iter().for_each(|&pid| end(pid));
}

pub fn end(pid: i32) {
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// Waits until a child has ended by itself; an error if it failed.
pub fn wait_for(pid: i32) -> io::Result<()> {
    let mut status = 0;
    match unsafe { libc::waitpid(pid, &raw mut status, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ if status == 0 => Ok(()),
        _ => Err(io::Error::other("a process that measures has failed")),
    }
}

/// CPU time of a thread, ns: the first number of its `schedstat` in /proc.
pub fn used_ns(schedstat: &[u8]) -> io::Result<u64> {
    let digits = schedstat.split(|byte| *byte == b' ').next();
    digits
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok())
        .ok_or_else(|| io::Error::other("schedstat does not begin with a number"))
}

pub fn pin_to(cpu: usize) {
    restrict_to(1 << cpu);
}

/// To the CPUs whose bits are set.
pub fn restrict_to(cpus: u64) {
    let _ = cpu::keep_to((0..64).filter(|cpu| cpus >> cpu & 1 != 0));
}

pub fn online_cpus() -> usize {
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) as usize }
}

pub fn now_ns() -> u64 {
    time_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of this thread.
pub fn cpu_time_ns() -> u64 {
    time_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub fn sleep_until(at_ns: u64) {
    let at = libc::timespec {
        tv_sec: (at_ns / 1_000_000_000) as i64,
        tv_nsec: (at_ns % 1_000_000_000) as i64,
    };
    let absolute = libc::TIMER_ABSTIME;
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, absolute, &at, std::ptr::null_mut()) };
}
