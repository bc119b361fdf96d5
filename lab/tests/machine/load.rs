//! How far the scheduler is from what a kernel's verifier refuses: it walks no more than a million instructions of a program, and
//! counts an instruction again for each path whose state it can tell from those before.

use crate::common::image_with;
use std::time::Duration;
use tombola_lab::vm::{Kernel, Machine, Mode};

/// A tenth of what is refused, with several run queues or with loans a fifth: another kernel may prune worse by a factor of two
/// or three, and some have.
const VERIFIED_MAX: u32 = 100_000;
const VERIFIED_MAX_WITH_MORE: u32 = 200_000;
/// With as many run queues as there can be: loops over queues are walked once for each.
const VERIFIED_MAX_OF_ALL_QUEUES: u32 = 600_000;

/// What `tombola start --verbose` has said of each program, as the scripts print it.
#[track_caller]
fn verified(output: &str) -> Vec<(&str, u32)> {
    let programs: Vec<_> = output
        .lines()
        .filter_map(|line| line.strip_prefix("VERIFIED "))
        .map(|line| line.split_once(' ').expect("a name and a number"))
        .map(|(name, count)| (name, count.trim().parse().expect("a number")))
        .collect();
    eprintln!("verified: {programs:?}");
    assert!(programs.len() > 10, "{output}");
    programs
}

#[track_caller]
fn at_most(programs: &[(&str, u32)], most: u32) {
    let largest = programs.iter().max_by_key(|(_, count)| count).unwrap();
    assert!(largest.1 <= most, "{largest:?}, allowed {most}");
}

/// Checks what was verified with these options.
#[track_caller]
pub fn little_is_verified(output: &str, options: &str) {
    let least = options.contains("--transfer off") && !options.contains("--run-queue");
    let most = if least {
        VERIFIED_MAX
    } else {
        VERIFIED_MAX_WITH_MORE
    };
    at_most(&verified(output), most);
}

/// The kernel takes the scheduler, on so many CPUs in so many caches.
fn is_taken(kernel: Kernel, cpus: u32, caches: u32, run_queue: &str) {
    let machine = Machine {
        cpus,
        caches,
        memory_mib: 2048,
        kernel,
        mode: Mode::Parallel,
        // So many virtual CPUs take a minute on two idle ones, and minutes beside other tests.
        timeout: Duration::from_secs(900),
        ..Machine::default()
    };
    let image = image_with("load.sh", include_str!("load.sh"));
    let command = format!("sh /load.sh '--run-queue {run_queue}'");
    let outcome = machine
        .shell(&image, &command, |_| ())
        .expect("the machine runs");
    let output = outcome.success().expect("the kernel takes it");
    at_most(&verified(&output), VERIFIED_MAX_OF_ALL_QUEUES);
}

/// The oldest kernel's verifier walks most.
#[test]
#[ignore = "boots a virtual machine: make test"]
fn as_many_queues_as_there_can_be() {
    is_taken(Kernel::Oldest, 64, 8, "cpu");
}

#[test]
#[ignore = "boots virtual machines: make robust"]
fn at_length_many_queues_of_one_cpu_and_of_several() {
    is_taken(Kernel::Newest, 64, 8, "cpu");
    for kernel in [Kernel::Oldest, Kernel::Newest] {
        is_taken(kernel, 16, 2, "llc");
    }
}
