//! The CPUs of the machine.

/// CPUs that are online now, at least 1. An offline CPU does not count in shares.
pub fn online_cpus() -> u32 {
    // SAFETY: the call takes no pointer.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(cpus).unwrap_or(1).max(1)
}
