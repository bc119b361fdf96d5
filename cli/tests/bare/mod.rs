//! A view of a machine without sched_ext, Tombola and rules, on whatever machine the tests run.

use std::path::Path;
use std::process::Command;
use tombola_cli::rules::DEFAULT_FILE;
use tombola_kernel::abi::RUN_DIR;

const SCHED_EXT: &str = "/sys/kernel/sched_ext";

/// In the program's own mount namespace: empty folders over all that such a machine lacks, and root's account.
const COVER: &str = "\
    for folder in /sys/kernel /run /etc; do \
        mount -t tmpfs none $folder || { echo 'run this test as root'; exit 125; } >&2; \
    done; \
    echo root:x:0:0:root:/root:/bin/sh >/etc/passwd; \
    echo root:x:0: >/etc/group; \
    exec \"$@\"";

/// The command that runs a program so. Without privileges it needs user namespaces.
pub fn program(path: &str) -> Command {
    if ![SCHED_EXT, RUN_DIR, DEFAULT_FILE]
        .iter()
        .any(|path| Path::new(path).exists())
    {
        return Command::new(path);
    }
    let mut covered = Command::new("unshare");
    covered.args(["--map-root-user", "--mount", "sh", "-c", COVER, "sh", path]);
    covered
}
