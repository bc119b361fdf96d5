//! What the attacks have in common.

use anyhow::Result;
use std::convert::Infallible;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::process;
use std::thread;
use std::time::Duration;
use tombola_apps::{fork, work_unit};

/// What an attack returns: an error if it could not go on; otherwise it does not return.
pub type Never = Result<Infallible>;

pub fn ready() {
    println!("READY");
}

pub fn burn() -> ! {
    let mut sum = 1;
    loop {
        sum = work_unit(sum);
    }
}

pub fn sleep_for_ever() -> ! {
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}

/// Fork; true in the child, which is killed when its parent ends. Call `die_with_parent` again after a change of uid.
pub fn helper() -> Result<bool> {
    let child = fork()?;
    if child {
        die_with_parent()?;
    }
    Ok(child)
}

pub fn die_with_parent() -> Result<()> {
    Ok(nix::sys::prctl::set_pdeathsig(nix::sys::signal::SIGKILL)?)
}

/// A child tells its parent that it is set up, by its process id.
pub fn announce(mut to: PipeWriter) -> Result<()> {
    Ok(to.write_all(&process::id().to_ne_bytes())?)
}

pub fn announced(mut from: PipeReader) -> Result<u32> {
    let mut pid = [0; size_of::<u32>()];
    from.read_exact(&mut pid)?;
    Ok(u32::from_ne_bytes(pid))
}
