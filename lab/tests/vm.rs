//! Boots real machines: needs what `make vm` fetches, and about half a minute.

use std::time::Duration;
use tombola_lab::vm::{Image, Kernel, Machine, Mode};

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
fn lines_arrive_one_by_one_and_without_carriage_returns() {
    let mut lines = Vec::new();
    let command = ["printf", "%s\n", "one", "two words", "it's $HOME"];
    let outcome = Machine::default()
        .run(&Image::base().unwrap(), &command, |line| {
            lines.push(line.to_owned())
        })
        .unwrap();
    assert_eq!(lines, ["one", "two words", "it's $HOME"]);
    assert_eq!(outcome.output, "one\ntwo words\nit's $HOME\n");
}

#[test]
fn there_are_several_users() {
    let line = "for u in alice u120; do su $u -c 'id -u; id -g'; done";
    assert_eq!(
        run(&Machine::default(), line).output,
        "1000\n1000\n2120\n2120\n"
    );
}

#[test]
fn a_command_killed_by_a_signal_has_a_shells_status() {
    assert_eq!(run(&Machine::default(), "kill -9 $$").status, 128 + 9);
}

#[test]
fn a_machine_that_takes_too_long_is_switched_off_and_said_so() {
    let machine = Machine {
        timeout: Duration::from_secs(10),
        ..Machine::default()
    };
    let line = "echo before; sleep 1000";
    let error = machine
        .shell(&Image::base().unwrap(), line, |_| ())
        .unwrap_err()
        .to_string();
    assert!(error.contains("not done after 10 s"), "{error}");
    assert!(error.contains("before"), "{error}");
}

#[test]
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
