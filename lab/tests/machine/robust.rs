//! The scheduler under everything that processes can do to it at once, and killed and restarted under load. Nothing here is a
//! measurement. No process may be lost, the kernel may not eject it, and all its counts end where they began.
//!
//! `TOMBOLA_RACES_SECONDS`, `TOMBOLA_ECONOMY_STEPS` and `TOMBOLA_RESTARTS` say for how long and how often; `make robust` sets all
//! of them high.

use crate::common::{RunQueue, image_with, nothing_is_left};
use crate::environment::from_environment;
use serde_json::Value;
use std::time::Duration;
use tombola_lab::vm::{Kernel, Machine, Mode};

fn run(cpus: u32, mode: Mode, kernel: Kernel, run_queue: RunQueue, command: &str) -> String {
    let machine = Machine {
        cpus,
        caches: run_queue.caches(),
        memory_mib: 2048,
        kernel,
        mode,
        timeout: Duration::from_secs(3 * 3600),
        ..Machine::default()
    };
    let image = image_with("robust.sh", include_str!("robust.sh"));
    let outcome = machine
        .shell(
            &image,
            &format!("sh /robust.sh {command} {}", run_queue.option()),
            |_| (),
        )
        .expect("the machine runs");
    let trouble = outcome.kernel_trouble().join("\n");
    assert!(
        outcome.status == 0 && trouble.is_empty(),
        "status {}:\n{}\n{trouble}",
        outcome.status,
        outcome.output
    );
    eprintln!(
        "{command}: {}",
        outcome.output.lines().next().unwrap_or_default()
    );
    outcome.output
}

/// On CPUs that run in parallel; time is the host's.
fn races(kernel: Kernel, cpus: u32, run_queue: RunQueue, seconds: u32) {
    let command = format!("races {seconds}");
    let output = run(cpus, Mode::Parallel, kernel, run_queue, &command);
    let tombola = at_the_end(&output);
    assert_eq!(tombola["counters"]["no_slot"], 0, "{tombola}");
}

/// The scheduler's status when all processes have exited: nothing may be left.
fn at_the_end(output: &str) -> Value {
    let status = output.lines().find_map(|line| line.strip_prefix("STATUS "));
    let status: Value = serde_json::from_str(status.expect("a status")).expect("JSON");
    let tombola = &status["tombola"];
    eprintln!("{}", tombola["counters"]);
    nothing_is_left(tombola);
    tombola.clone()
}

/// Currencies, reservations and processes come, change and go at random, and every process gets what a naive model says.
fn economy(kernel: Kernel, steps: u32) {
    let command = format!("economy {steps}");
    at_the_end(&run(
        1,
        Mode::measured(),
        kernel,
        RunQueue::Machine,
        &command,
    ));
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn random_economies_agree_with_the_model_on_the_newest_kernel() {
    economy(
        Kernel::Newest,
        from_environment("TOMBOLA_ECONOMY_STEPS", 800),
    );
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_random_economies_agree_with_the_model_on_the_oldest_kernel() {
    economy(
        Kernel::Oldest,
        from_environment("TOMBOLA_ECONOMY_STEPS", 800) / 2,
    );
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn nobody_is_lost_under_stress_on_the_newest_kernel() {
    races(
        Kernel::Newest,
        4,
        RunQueue::Machine,
        from_environment("TOMBOLA_RACES_SECONDS", 40),
    );
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_nobody_is_lost_under_stress_on_the_oldest_kernel() {
    races(
        Kernel::Oldest,
        4,
        RunQueue::Machine,
        from_environment("TOMBOLA_RACES_SECONDS", 40) * 2 / 3,
    );
}

/// A client that a call has looked up may have moved, or its slot may be another client's, when the call acts.
fn races_of_currencies(kernel: Kernel, run_queue: RunQueue, seconds: u32) {
    let command = format!("currencies {seconds}");
    at_the_end(&run(4, Mode::Parallel, kernel, run_queue, &command));
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_currencies_stay_whole_when_many_change_them_on_the_newest_kernel() {
    let seconds = from_environment("TOMBOLA_RACES_SECONDS", 40) / 3;
    races_of_currencies(Kernel::Newest, RunQueue::Machine, seconds);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_currencies_stay_whole_when_many_change_them_on_the_oldest_kernel() {
    let seconds = from_environment("TOMBOLA_RACES_SECONDS", 40) / 3;
    races_of_currencies(Kernel::Oldest, RunQueue::Machine, seconds);
}

/// On 8 CPUs. With several run queues threads also go from one to another, and queues lose their CPUs.
fn stress_on_8_cpus(kernel: Kernel, run_queue: RunQueue) {
    races(
        kernel,
        8,
        run_queue,
        from_environment("TOMBOLA_RACES_SECONDS", 40),
    );
    let seconds = from_environment("TOMBOLA_RACES_SECONDS", 40) / 3;
    races_of_currencies(kernel, run_queue, seconds);
    restarts(run_queue);
}

#[test]
#[ignore = "boots virtual machines: make robust"]
fn at_length_nobody_is_lost_with_one_queue_for_8_cpus() {
    stress_on_8_cpus(Kernel::Newest, RunQueue::Machine);
}

#[test]
#[ignore = "boots virtual machines: make robust"]
fn at_length_nobody_is_lost_with_a_queue_for_each_cache() {
    stress_on_8_cpus(Kernel::Newest, RunQueue::Llc);
}

#[test]
#[ignore = "boots virtual machines: make robust"]
fn at_length_nobody_is_lost_with_a_queue_for_each_cpu() {
    stress_on_8_cpus(Kernel::Newest, RunQueue::Cpu);
}

#[test]
#[ignore = "boots virtual machines: make robust"]
fn at_length_nobody_is_lost_with_a_queue_for_each_cpu_on_the_oldest_kernel() {
    stress_on_8_cpus(Kernel::Oldest, RunQueue::Cpu);
}

/// In counted time: at each start and stop the kernel patches itself, which CPUs emulated in parallel do not survive often.
fn restarts(run_queue: RunQueue) {
    let cycles = from_environment("TOMBOLA_RESTARTS", 2);
    let command = format!("restarts {cycles}");
    run(2, Mode::measured(), Kernel::Newest, run_queue, &command);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn nobody_is_lost_when_the_scheduler_is_killed_and_restarted() {
    restarts(RunQueue::Machine);
}
