//! Boots real machines: needs what `make vm` fetches.

use std::cell::RefCell;
use std::process::Command;
use std::time::Duration;
use tombola_lab::vm::{Image, Kernel, Machine, Mode, Progress};

fn run(machine: &Machine, line: &str) -> tombola_lab::vm::Outcome {
    machine
        .shell(&Image::base().unwrap(), line, |_| ())
        .unwrap()
}

fn measured(cpus: u32, seed: u64) -> Machine {
    Machine {
        cpus,
        mode: Mode::Measured {
            shift: Mode::SHIFT_DEFAULT,
            seed,
        },
        ..Machine::default()
    }
}

#[test]
fn images_of_the_same_host_are_identical() {
    let bytes = || {
        let mut bytes = Vec::new();
        Image::base().unwrap().write_to(&mut bytes).unwrap();
        bytes
    };
    assert!(bytes() == bytes());
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn both_kernels_run_a_command_and_have_what_a_scheduler_needs() {
    let line = "ls -d /sys/kernel/sched_ext /sys/fs/bpf /sys/kernel/btf/vmlinux /boot/config-$(uname -r) \
                && cat /sys/fs/cgroup/cgroup.subtree_control && nproc && echo oops >/dev/stderr && exit 7";
    for kernel in [Kernel::Newest, Kernel::Oldest] {
        let machine = Machine {
            kernel,
            cpus: 2,
            ..Machine::default()
        };
        let outcome = run(&machine, line);
        assert_eq!(outcome.status, 7, "{}", outcome.output);
        assert!(
            outcome.output.ends_with("cpuset cpu\n2\noops\n"),
            "{}",
            outcome.output
        );
        assert!(
            outcome.kernel_trouble().is_empty(),
            "{}",
            outcome.kernel_log
        );
    }
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn lines_arrive_one_by_one_and_without_carriage_returns() {
    let command = ["printf", "%s\n", "one", "two words", "it's $HOME"];
    let lines = RefCell::new(Vec::new());
    let outcome = Machine::default()
        .run(&Image::base().unwrap(), &command, |progress| {
            if let Progress::Line(line) = progress {
                lines.borrow_mut().push(line.to_owned())
            }
        })
        .unwrap();
    assert_eq!(lines.into_inner(), ["one", "two words", "it's $HOME"]);
    assert_eq!(outcome.output, "one\ntwo words\nit's $HOME\n");
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn there_are_several_users() {
    let line = "for u in alice u120; do su $u -c 'id -u; id -g'; done";
    assert_eq!(
        run(&Machine::default(), line).output,
        "1000\n1000\n2120\n2120\n"
    );
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_command_killed_by_a_signal_has_a_shells_status() {
    assert_eq!(run(&Machine::default(), "kill -9 $$").status, 128 + 9);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_machine_that_takes_too_long_is_switched_off_and_said_so() {
    let machine = Machine {
        // Long enough to boot, on a busy host as well.
        timeout: Duration::from_secs(30),
        ..Machine::default()
    };
    let line = "echo before; sleep 1000";
    let error = machine
        .shell(&Image::base().unwrap(), line, |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("not done after 30 s"), "{error}");
    assert!(error.contains("before"), "{error}");
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_crash_of_the_kernel_is_said_and_shown() {
    let line = "echo c >/proc/sysrq-trigger";
    let error = Machine::default()
        .shell(&Image::base().unwrap(), line, |_| ())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("went off before the command ended"),
        "{error}"
    );
    assert!(error.contains("Kernel panic"), "{error}");
}

// The first boot prints a line, writes into the kernel's log what a fault of the emulation leaves there, and powers off.
const TRIPS_ONCE: &str = r#"
echo "$(grep -o 'tombola.boot=.*' /proc/cmdline)"
grep -q tombola.boot=1 /proc/cmdline || exit 3
echo 'Oops: int3' >/dev/kmsg
poweroff -f
"#;

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_repeated_boot_is_announced_and_only_the_last_one_counts() {
    let seen = RefCell::new(Vec::new());
    let outcome = Machine::default()
        .shell(&Image::base().unwrap(), TRIPS_ONCE, |progress| {
            seen.borrow_mut().push(match progress {
                Progress::Boot { number, .. } => format!("boot {number}"),
                Progress::Line(line) => line.to_owned(),
            })
        })
        .unwrap();
    assert_eq!(
        seen.into_inner(),
        ["boot 1", "tombola.boot=1", "boot 2", "tombola.boot=2"]
    );
    assert_eq!((outcome.status, &*outcome.output), (3, "tombola.boot=2\n"));
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn the_command_line_prints_the_output_of_the_last_boot_alone() {
    let printed = Command::new(env!("CARGO_BIN_EXE_tombola-lab"))
        .args(["vm", "--", "sh", "-c", TRIPS_ONCE])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&printed.stderr);
    assert_eq!(printed.stdout, b"tombola.boot=2\n", "{said}");
    assert!(said.contains("boot 2, emulated CPUs, once more"), "{said}");
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_machine_that_trips_in_every_boot_is_given_up() {
    let line = TRIPS_ONCE.replace("tombola.boot=1 ", "tombola.boot= ");
    let error = Machine::default()
        .shell(&Image::base().unwrap(), &line, |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("tombola.boot=3"), "{error}");
    assert!(!error.contains("tombola.boot=2"), "{error}");
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_machine_runs_whether_kvm_can_be_used_or_not() {
    let machine = Machine {
        cpus: 2,
        mode: Mode::Kvm,
        ..Machine::default()
    };
    let boots = RefCell::new(Vec::new());
    let outcome = machine
        .shell(&Image::base().unwrap(), "nproc", |progress| {
            if let Progress::Boot { how, .. } = progress {
                boots.borrow_mut().push(how.to_owned())
            }
        })
        .unwrap();
    let boots = boots.into_inner();
    assert_eq!((outcome.status, &*outcome.output), (0, "2\n"));
    assert_eq!(boots[0], "KVM");
    let fallback = "emulated CPUs, since KVM cannot be used here: ";
    assert!(
        boots.get(1).is_none_or(|how| how.starts_with(fallback)),
        "{boots:?}"
    );
}

// Three tasks on the CPUs, their CPU time and the time of day to the
// nanosecond: whatever the emulation leaves to chance shows in them.
const SENSITIVE: &str = r#"
cat /proc/uptime
for i in 1 2 3; do
    sh -c 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); done; cat /proc/self/schedstat /proc/uptime' &
done
wait
cat /proc/stat /proc/interrupts /proc/sys/kernel/random/uuid
"#;

#[test]
#[ignore = "boots a virtual machine: make test"]
fn measured_runs_are_identical_and_another_seed_is_another_run() {
    for cpus in [1, 2, 4] {
        let first = run(&measured(cpus, 0), SENSITIVE);
        let second = run(&measured(cpus, 0), SENSITIVE);
        assert_eq!(first.output, second.output, "on {cpus} CPUs");
        assert_eq!(first.kernel_log, second.kernel_log, "on {cpus} CPUs");
    }
    let (one, two) = (
        run(&measured(2, 1), SENSITIVE),
        run(&measured(2, 2), SENSITIVE),
    );
    assert_ne!(one.output, two.output);
}

// More than fits into memory, beside a task that wants the CPU.
const BEYOND_MEMORY: &str = r#"
while :; do :; done &
for way in of=/dev/nvme0n1\ if=/dev/zero if=/dev/nvme0n1\ of=/dev/null; do
    dd bs=64k count=4096 $way || exit 1
    cat /proc/uptime
done
cat /proc/stat /proc/interrupts /proc/meminfo /proc/$!/schedstat
"#;

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_disk_leaves_nothing_to_chance() {
    let machine = Machine {
        memory_mib: 256,
        disk_mib: 256,
        ..measured(1, 0)
    };
    let (first, second) = (run(&machine, BEYOND_MEMORY), run(&machine, BEYOND_MEMORY));
    assert_eq!(first.status, 0, "{}", first.output);
    assert_eq!(first.output, second.output);
}
