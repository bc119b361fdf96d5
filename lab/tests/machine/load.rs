//! How far the scheduler is from what a kernel's verifier refuses: it walks no more than a million instructions of a program, and
//! counts an instruction again for each path whose state it can tell from those before.

use tombola_lab::vm::{Kernel, Machine, tombola_image};

/// A tenth of what is refused: another kernel may prune worse by a factor of two or three, and some have.
const VERIFIED_MAX: u32 = 100_000;

const POLICIES: [&str; 2] = ["stride", "lottery"];

/// Each policy has a file of its own: the second start must not be judged by what the first one said.
const START: &str = "for policy in POLICIES; do \
                     tombola start --verbose --policy $policy >/tmp/$policy 2>&1 & \
                     until grep -q 'tombola schedules' /tmp/$policy || ! kill -0 $!; do sleep 0.2; done; cat /tmp/$policy; \
                     tombola stop >/dev/null; done";

fn verified(kernel: Kernel) {
    let machine = Machine {
        kernel,
        ..Machine::default()
    };
    let image = tombola_image().expect("make build, make vm");
    let line = START.replace("POLICIES", &POLICIES.join(" "));
    let outcome = machine
        .shell(&image, &line, |_| ())
        .expect("the machine runs");
    let said = outcome.success().expect("the script succeeds");
    let of_policies: Vec<&str> = said.split_inclusive("tombola schedules").collect();
    assert_eq!(of_policies.len(), POLICIES.len() + 1, "{said}");
    for (policy, said) in POLICIES.iter().zip(of_policies) {
        let programs: Vec<(&str, u32)> = said
            .lines()
            .filter_map(|line| line.strip_suffix(" instructions verified"))
            .map(|line| line.split_once(' ').expect("a name and a number"))
            .map(|(name, count)| (name, count.trim().parse().expect("a number")))
            .collect();
        eprintln!("{kernel:?}, {policy}: {programs:?}");
        assert!(programs.len() > 10, "{said}");
        let largest = programs.iter().max_by_key(|(_, count)| count).unwrap();
        assert!(largest.1 <= VERIFIED_MAX, "{largest:?}");
    }
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn the_newest_kernel_has_little_to_verify() {
    verified(Kernel::Newest);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn the_oldest_kernel_has_little_to_verify() {
    verified(Kernel::Oldest);
}
