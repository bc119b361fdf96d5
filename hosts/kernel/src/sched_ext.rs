//! What the kernel says about sched_ext, in /sys/kernel/sched_ext.

use crate::error::{Error, KERNEL_MIN, Result};
use nix::sys::utsname::uname;
use std::fs;
use std::path::Path;

const DIR: &str = "/sys/kernel/sched_ext";
const OPTION: &str = "CONFIG_SCHED_CLASS_EXT";
const CAME_WITH: (u32, u32) = (6, 12);

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
    let state = read("state").ok_or_else(absent)?;
    Ok(State {
        scheduler: read("root/ops").filter(|_| state != "disabled"),
        state,
    })
}

fn absent() -> Error {
    let release = uname().map_or(String::new(), |uname| {
        uname.release().to_string_lossy().into_owned()
    });
    let (cause, next) = why_absent(&release, config(&release).as_deref());
    Error::NoSchedExt { cause, next }
}

/// Why a kernel has no sched_ext, and what to do. `config` is its build configuration, if that was found.
fn why_absent(release: &str, config: Option<&str>) -> (String, String) {
    let boot = format!("boot Linux {KERNEL_MIN} or newer with {OPTION}=y");
    let is = |set: &str| config.is_some_and(|config| config.lines().any(|line| line == set));
    let cause = match version(release) {
        Some(version) if version < CAME_WITH => {
            let (major, minor) = CAME_WITH;
            format!("this is Linux {release}, and sched_ext came with {major}.{minor}")
        }
        _ if is(&format!("{OPTION}=y")) => {
            let cause = format!(
                "Linux {release} has it, but /sys does not show it: in a container, or sysfs is not mounted"
            );
            return (cause, "run it outside the container".into());
        }
        _ if config.is_some() => format!("Linux {release} was built without {OPTION}"),
        _ => format!(
            "Linux {release} was built without {OPTION}, or /sys is not mounted; its configuration was not found"
        ),
    };
    (cause, boot)
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The build configuration, from where distributions put it. /proc/config.gz is rare, and is not read.
fn config(release: &str) -> Option<String> {
    [
        format!("/boot/config-{release}"),
        format!("/lib/modules/{release}/config"),
    ]
    .iter()
    .find_map(|path| fs::read_to_string(path).ok())
}

/// The error for a program that did not find Tombola running: it says what runs instead.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_says_why_there_is_no_sched_ext() {
        let off = "CONFIG_A=y\n# CONFIG_SCHED_CLASS_EXT is not set\n";
        for (release, config, words) in [
            ("6.1.0-18-amd64", None, "sched_ext came with 6.12"),
            (
                "6.18.15",
                Some(off),
                "6.18.15 was built without CONFIG_SCHED_CLASS_EXT",
            ),
            (
                "7.3.4+deb13",
                Some("CONFIG_SCHED_CLASS_EXT=y\n"),
                "in a container",
            ),
            ("7.3.4", None, "configuration was not found"),
            ("", None, "configuration was not found"),
        ] {
            let (cause, _) = why_absent(release, config);
            assert!(cause.contains(words), "{release}: {cause}");
        }
    }
}
