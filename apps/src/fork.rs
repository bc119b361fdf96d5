use anyhow::{Context, Result};

/// Fork; true in the child. For programs of one thread.
///
/// # Errors
///
/// The errors of fork(2): too many processes, or no memory.
pub fn fork() -> Result<bool> {
    // SAFETY: the program has one thread, so the child may call anything.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error())
            .context("cannot fork: too many processes? Stop some"),
        0 => Ok(true),
        _ => Ok(false),
    }
}
