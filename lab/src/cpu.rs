//! The CPUs and the scheduling class of this process.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

const SELF: Pid = Pid::from_raw(0);

/// Children are not real-time, or the scheduler to measure would not schedule them.
pub fn become_real_time(priority: i32) -> io::Result<()> {
    set_class(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

pub fn become_normal() -> io::Result<()> {
    set_class(libc::SCHED_OTHER, 0)
}

fn set_class(class: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: the parameters live as long as the call.
    match unsafe { libc::sched_setscheduler(0, class, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

pub fn keep_to(cpus: impl IntoIterator<Item = usize>) -> nix::Result<()> {
    let mut set = CpuSet::new();
    cpus.into_iter().try_for_each(|cpu| set.set(cpu))?;
    sched_setaffinity(SELF, &set)
}

pub fn allowed() -> nix::Result<Vec<usize>> {
    let set = sched_getaffinity(SELF)?;
    Ok((0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}
