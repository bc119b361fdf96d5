//! What the kernel says about sched_ext, in /sys/kernel/sched_ext.

use crate::{Error, Result};
use std::fs;
use std::path::Path;

const DIR: &str = "/sys/kernel/sched_ext";

/// The scheduler's own name there (`tombola_ops.name` in bpf/main.bpf.c).
pub const NAME: &str = "tombola";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The kernel's word: disabled, enabling, enabled or disabling.
    pub state: String,
    /// The name of the loaded scheduler.
    pub scheduler: Option<String>,
}

impl State {
    pub fn is_disabled(&self) -> bool {
        self.state == "disabled"
    }

    pub fn is_tombola(&self) -> bool {
        self.scheduler.as_deref() == Some(NAME)
    }
}

/// Fails if the kernel has no sched_ext.
pub fn state() -> Result<State> {
    let state = read("state").ok_or(Error::NoSchedExt)?;
    Ok(State {
        scheduler: read("root/ops").filter(|_| state != "disabled"),
        state,
    })
}

/// Why nobody answers, for a program that found no scheduler.
pub fn not_running() -> Error {
    match state() {
        Err(error) => error,
        Ok(State {
            scheduler: Some(name),
            ..
        }) if name != NAME => Error::NotRunning {
            found: format!("the scheduler loaded in the kernel is {name}"),
        },
        Ok(State { state, .. }) => Error::NotRunning {
            found: format!("the kernel says that sched_ext is {state}"),
        },
    }
}

fn read(name: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(DIR).join(name)).ok()?;
    Some(text.trim().to_owned())
}

/// CPUs that there are at the moment; of one that is switched off nobody has a share.
pub fn online_cpus() -> u32 {
    // SAFETY: a question without arguments in memory.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(cpus).unwrap_or(1).max(1)
}
