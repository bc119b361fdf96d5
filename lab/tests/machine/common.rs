//! What tests on the real kernel have in common.

use serde_json::Value;
use tombola_lab::vm::{Image, tombola_image};

/// Which CPUs share a run queue.
#[derive(Clone, Copy)]
pub enum RunQueue {
    Machine,
    Llc,
    Cpu,
}

impl RunQueue {
    pub fn option(self) -> &'static str {
        match self {
            Self::Machine => "'--run-queue machine'",
            Self::Llc => "'--run-queue llc'",
            Self::Cpu => "'--run-queue cpu'",
        }
    }

    pub fn caches(self) -> u32 {
        match self {
            Self::Machine => 1,
            Self::Llc | Self::Cpu => 2,
        }
    }
}

/// An image with a script in `/`, which may call the functions of guest.sh.
pub fn image_with(name: &str, script: &str) -> Image {
    let mut image = tombola_image().expect("make build, make vm");
    let text = [include_str!("guest.sh"), script].concat();
    image.file(name, text, 0o755);
    image
}

/// Checks `status --json --all` of a scheduler whose processes have all exited, taken while nothing else ran. No thread waits.
/// The only clients are the two roots, best effort and the users; and the shell, the scheduler and the status, of a thread each.
#[track_caller]
pub fn nothing_is_left(tombola: &Value) {
    assert_eq!(tombola["waiting"], 0, "threads wait: {tombola}");
    assert_eq!(tombola["threaded"], 0, "processes are lost: {tombola}");
    let users = tombola["users"].as_array().expect("users are a list");
    let mut clients = 3 + users.len() as u64;
    for user in users {
        for process in user["processes"].as_array().expect("processes are a list") {
            let name = process["name"].as_str().expect("a name");
            assert!(
                ["run", "sh", "tombola"].contains(&name),
                "process {} ({name}) is gone and has tickets: {tombola}",
                process["pid"]
            );
            clients += 1;
        }
    }
    assert_eq!(tombola["clients"], clients, "clients are lost: {tombola}");
}
