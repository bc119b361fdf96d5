//! What the programs that measure inside the guest have in common.

use std::io;
use std::process::{Command, exit};

/// The numbered test users begin after this uid.
pub const UID_BASE: u32 = 2000;

pub fn set_base_tickets(uid: u32, tickets: u32) -> io::Result<()> {
    run_command(Command::new("lsetbase").args(["-u", &uid.to_string(), &tickets.to_string()]))
}

pub fn set_tickets(pid: i32, tickets: u32) -> io::Result<()> {
    run_command(Command::new("lrenice").args([pid.to_string(), tickets.to_string()]))
}

fn run_command(command: &mut Command) -> io::Result<()> {
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

pub fn end(pid: i32) {
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

pub fn become_real_time(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn pin_to(cpu: usize) {
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &set);
    }
}

pub fn online_cpus() -> usize {
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) as usize }
}

pub fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
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
