//! Shares on a real kernel: what tickets give, whatever a user does with forks, threads, yields and naps.
//!
//! The figures are in virtual time, the same in every run. They are read from `tombola status --json`, as a user would.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tombola_lab::vm::cli::tombola_image;
use tombola_lab::vm::{Kernel, Machine, Mode};

type Cases = BTreeMap<String, Value>;

fn measure(kernel: Kernel, policy: &str) -> Cases {
    let machine = Machine {
        cpus: 1,
        kernel,
        mode: Mode::measured(),
        timeout: Duration::from_secs(900),
        ..Machine::default()
    };
    let mut image = tombola_image().expect("make build, make vm");
    image.file("kernel.sh", include_str!("kernel.sh"), 0o755);
    let outcome = machine
        .shell(&image, &format!("sh /kernel.sh {policy}"), |line| {
            if let Some(case) = line.strip_prefix("CASE ") {
                eprintln!("{policy}: {case}");
            }
        })
        .expect("the machine runs");
    let trouble = outcome.kernel_trouble().join("\n");
    let output = outcome.success().expect("the script succeeds");
    assert!(
        output.trim_end().ends_with("disabled"),
        "after stop: {output}\n{trouble}"
    );
    parse(&output)
}

fn parse(output: &str) -> Cases {
    let mut cases = Cases::new();
    let mut name = None;
    for line in output.lines() {
        if let Some(case) = line.strip_prefix("CASE ") {
            name = Some(case.to_string());
        } else if let (Some(case), true) = (name.take(), line.starts_with('{')) {
            cases.insert(
                case,
                serde_json::from_str(line).expect("status prints JSON"),
            );
        }
    }
    cases
}

fn users(status: &Value) -> &Vec<Value> {
    status["tombola"]["users"]
        .as_array()
        .expect("users are a list")
}

fn received(of: &Value) -> f64 {
    of["received_cpus"].as_f64().expect("a number")
}

/// CPUs that a user received.
fn user(status: &Value, name: &str) -> f64 {
    users(status)
        .iter()
        .filter(|user| user["user"] == name)
        .map(received)
        .sum()
}

/// alice's part of what she and bob received.
fn part(cases: &Cases, case: &str) -> f64 {
    let status = &cases[case];
    user(status, "alice") / (user(status, "alice") + user(status, "bob"))
}

/// The part of what alice received that her processes called `name` did, each.
fn parts_of_processes(cases: &Cases, case: &str, name: &str) -> Vec<f64> {
    let status = &cases[case];
    let alice = users(status)
        .iter()
        .find(|user| user["user"] == "alice")
        .expect("alice is there");
    let processes = alice["processes"].as_array().expect("processes are a list");
    let all = user(status, "alice");
    processes
        .iter()
        .filter(|process| process["name"] == name)
        .map(|process| received(process) / all)
        .collect()
}

#[track_caller]
fn close(what: &str, measured: f64, due: f64, relative: f64) {
    let error = measured / due - 1.0;
    assert!(
        error.abs() <= relative,
        "{what}: {measured:.4}, due {due:.4}, {:+.2} % off, allowed {:.2} %",
        error * 100.0,
        relative * 100.0
    );
}

fn stride(kernel: Kernel) {
    let cases = measure(kernel, "stride");
    for case in [
        "users-1-10",
        "threads",
        "chain",
        "batches",
        "yielders",
        "napper",
    ] {
        close(case, part(&cases, case), 0.5, 0.01);
    }
    close("ratio-20-1", part(&cases, "ratio-20-1"), 20.0 / 21.0, 0.01);
    let mut four_one = parts_of_processes(&cases, "processes-4-1", "burn");
    four_one.sort_by(f64::total_cmp);
    close("processes-4-1, the small one", four_one[0], 0.2, 0.01);
    close("processes-4-1, the large one", four_one[1], 0.8, 0.01);
    for case in ["chain-inside", "wait-inside", "batches-inside"] {
        close(case, parts_of_processes(&cases, case, "burn")[0], 0.5, 0.05);
    }
    idle(&cases);
}

/// Everybody has gone: what counts clients, waiters and failures says so.
fn idle(cases: &Cases) {
    let tombola = &cases["idle"]["tombola"];
    assert_eq!(tombola["waiting"], 0, "{tombola}");
    let clients = tombola["clients"].as_u64().expect("a number");
    assert!(
        clients < 20,
        "{clients} clients are in use, and all programs have ended: {tombola}"
    );
    for counter in ["full", "misplaced"] {
        assert_eq!(tombola["counters"][counter], 0, "{tombola}");
    }
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn stride_shares_on_the_newest_kernel() {
    stride(Kernel::Newest);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn stride_shares_on_the_oldest_kernel() {
    stride(Kernel::Oldest);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn lottery_shares_on_the_newest_kernel() {
    let cases = measure(Kernel::Newest, "lottery");
    for case in ["users-1-10", "threads", "yielders"] {
        // 5 s are some 5000 draws at the users' level: one standard error of a half is 0.5 / sqrt(5000), 1.4 % of it.
        close(case, part(&cases, case), 0.5, 3.0 * 0.0142);
    }
    idle(&cases);
}

#[test]
fn a_part_is_of_what_both_received() {
    let user = |name: &str, cpus: f64| {
        format!(r#"{{"user":"{name}","received_cpus":{cpus},"processes":[]}}"#)
    };
    let line = format!(
        "CASE x\n{{\"tombola\":{{\"users\":[{},{},{}]}}}}\n",
        user("root", 0.2),
        user("alice", 0.6),
        user("bob", 0.2)
    );
    close("alice", part(&parse(&line), "x"), 0.75, 1e-9);
}
