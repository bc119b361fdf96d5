//! Shares on a real kernel: what tickets give, whatever a user does with forks, threads, yields and naps, in every window of
//! ten seconds; and the latency of threads that must not wait.
//!
//! The figures are in virtual time, the same in every run. They are read from `tombola status --json`, as a user would.
//! `TOMBOLA_WINDOWS` says in how many windows; `make robust` looks at several.

use crate::common::{image_with, nothing_is_left};
use crate::environment::from_environment;
use crate::load::little_is_verified;
use crate::status::{counter, lent, processes, received, user};
use serde_json::Value;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;
use tombola_lab::vm::{Kernel, Machine, Mode, Progress};

/// What the script measured in one case.
#[derive(Default)]
struct Case {
    windows: Vec<Value>,
    /// Microseconds that a sleeper began too late, in ascending order.
    late_us: Vec<u64>,
    /// Seconds that an operation took, the mean of all.
    took_s: f64,
    /// CPUs that a thread received.
    cpus: f64,
    /// Exit statuses of commands.
    statuses: Vec<u32>,
}

type Cases = BTreeMap<String, Case>;

struct Run {
    kernel: Kernel,
    cpus: u32,
    caches: u32,
    /// Options of `tombola start`.
    options: &'static str,
    /// Of each window of time.
    seconds: u32,
    sets: &'static str,
}

impl Run {
    fn cases(&self) -> Cases {
        let Run {
            options,
            seconds,
            sets,
            ..
        } = self;
        let machine = Machine {
            cpus: self.cpus,
            caches: self.caches,
            memory_mib: 2048,
            kernel: self.kernel,
            mode: Mode::measured(),
            timeout: Duration::from_secs(3600),
            ..Machine::default()
        };
        let image = image_with("kernel.sh", include_str!("kernel.sh"));
        let windows = from_environment("TOMBOLA_WINDOWS", 1);
        let command = format!("sh /kernel.sh '{options}' {windows} {seconds} {sets}");
        let outcome = machine
            .shell(&image, &command, |progress| {
                if let Progress::Line(line) = progress
                    && let Some(case) = line.strip_prefix("CASE ")
                {
                    eprintln!("{options}, {} CPUs: {case}", self.cpus);
                }
            })
            .expect("the machine runs");
        let trouble = outcome.kernel_trouble().join("\n");
        let output = outcome.success().expect("the script succeeds");
        assert!(
            output.trim_end().ends_with("disabled") && trouble.is_empty(),
            "after stop: {output}\n{trouble}"
        );
        // The margin that this leaves is for kernels like 6.18, whose verifier walks more.
        if self.kernel != Kernel::Peers {
            little_is_verified(&output, options);
        }
        parse(&output)
    }
}

fn numbers<T: FromStr>(line: &str) -> Vec<T> {
    line.split_whitespace()
        .map(|word| word.parse().ok().expect("a number"))
        .collect()
}

fn parse(output: &str) -> Cases {
    let mut cases = Cases::new();
    let mut name = String::new();
    for line in output.lines() {
        if let Some(case) = line.strip_prefix("CASE ") {
            name = case.to_string();
        }
        let case = cases.entry(name.clone()).or_default();
        if line.starts_with('{') {
            let status = serde_json::from_str(line).expect("status prints JSON");
            case.windows.push(status);
        } else if let Some(late) = line.strip_prefix("LATE ") {
            case.late_us = numbers(late);
            case.late_us.sort_unstable();
        } else if let Some(took) = line.strip_prefix("TOOK ") {
            let words: Vec<f64> = numbers(took);
            case.took_s = (words[2] - words[1]) / words[0];
        } else if let Some(used) = line.strip_prefix("USED ") {
            let words: Vec<f64> = numbers(used);
            case.cpus = (words[1] - words[0]) / 1e9 / words[2];
        } else if let Some(status) = line.strip_prefix("STATUS ") {
            case.statuses.extend(numbers::<u32>(status));
        }
    }
    cases
}

impl Case {
    /// What `of` returns for each window.
    fn each(&self, of: impl Fn(&Value) -> f64) -> Vec<f64> {
        assert!(!self.windows.is_empty(), "the case was not measured");
        self.windows.iter().map(of).collect()
    }

    /// alice's part of what she and bob received, in each window.
    fn parts(&self) -> Vec<f64> {
        self.each(|status| {
            let (alice, bob) = (user(status, "alice"), user(status, "bob"));
            alice / (alice + bob)
        })
    }

    /// The part of what alice received that her first process called `name` did, in each window.
    fn parts_inside(&self, name: &str) -> Vec<f64> {
        self.each(|status| processes(status, "alice", name)[0] / user(status, "alice"))
    }

    /// The least that was not exceeded in 99 of 100 cases.
    fn late_p99_us(&self) -> u64 {
        assert!(self.late_us.len() >= 100, "too few: {:?}", self.late_us);
        self.late_us[(self.late_us.len() * 99).div_ceil(100) - 1]
    }
}

#[track_caller]
fn close(what: &str, measured: f64, due: f64, relative: f64) {
    let error = measured / due - 1.0;
    eprintln!(
        "{what}: {measured:.5}, due {due:.5}, {:+.3} %",
        error * 100.0
    );
    assert!(
        error.abs() <= relative,
        "{what}: {measured:.5}, due {due:.5}, {:+.2} % off, allowed {:.2} %",
        error * 100.0,
        relative * 100.0
    );
}

#[track_caller]
fn all_close(what: &str, measured: &[f64], due: f64, relative: f64) {
    for measured in measured {
        close(what, *measured, due, relative);
    }
}

/// Two users of equal base tickets get a half each in every window, whatever one of them does.
fn halves(cases: &Cases, names: &[&str], relative: f64) {
    for name in names {
        all_close(name, &cases[*name].parts(), 0.5, relative);
    }
}

const USERS: [&str; 7] = [
    "users-1-10",
    "threads",
    "yielders",
    "messages",
    "chain",
    "batches",
    "napper",
];
const CROWDS: [&str; 4] = ["users-1-2", "users-1-60", "fork-and-wait", "tick-napper"];
const PITFALLS: [&str; 4] = [
    "interrupted",
    "interrupted-alone",
    "succession",
    "class-change",
];
const INSIDE: [&str; 5] = [
    "chain-inside",
    "wait-inside",
    "batches-inside",
    "driver-inside",
    "second-thread-inside",
];

const QUEUES: [&str; 5] = [
    "queues-1-4",
    "queues-threads",
    "queues-yielders",
    "queues-batches",
    "queues-napper",
];

/// alice's process naps, and she is due ten times as much as bob. `relative`: a part of hers.
fn favoured_napper(cases: &Cases, relative: f64) {
    all_close(
        "napper-10-1",
        &cases["napper-10-1"].parts(),
        10.0 / 11.0,
        relative,
    );
}

fn inside(cases: &Cases, name: &str) {
    all_close(name, &cases[name].parts_inside("burn"), 0.5, 0.05);
}

fn insides(cases: &Cases) {
    for name in INSIDE {
        inside(cases, name);
    }
}

const RATIOS: [f64; 6] = [1.0, 2.0, 3.0, 5.0, 10.0, 20.0];

fn ratio(cases: &Cases, ratio: f64) {
    let name = format!("ratio-{ratio}");
    all_close(&name, &cases[&name].parts(), ratio / (ratio + 1.0), 0.01);
    // The smaller share as well: at 20:1 a percent of the larger one is a fifth of it.
    let small = cases[&name]
        .each(|status| user(status, "bob") / (user(status, "alice") + user(status, "bob")));
    let name = format!("{name}, the small one");
    all_close(&name, &small, 1.0 / (ratio + 1.0), 0.01);
}

fn four_to_one(cases: &Cases) {
    let small = cases["processes-4-1"].parts_inside("burn");
    all_close("processes-4-1, the small one", &small, 0.2, 0.01);
}

/// All processes of the cases have exited, and nothing of them is left.
fn idle(cases: &Cases) {
    let tombola = &cases["idle"].windows[0]["tombola"];
    nothing_is_left(tombola);
    // On several CPUs a drawn thread may exit before it runs, or another CPU may still switch away from it.
    let never: &[&str] = match tombola["cpus"].as_u64() {
        Some(1) => &["no_slot", "exited_before_run", "misplaced"],
        _ => &["no_slot"],
    };
    for counter in never {
        assert_eq!(tombola["counters"][counter], 0, "{counter}: {tombola}");
    }
}

/// A receiver that a message wakes finds several messages when it runs: 2.4 on two CPUs. It found one when a client had credit
/// although another client of its currency woke it.
fn messages_are_read_several_at_a_time(cases: &Cases) {
    let drawn = cases["sent"].each(|status| counter(status, "draws"));
    let each = 64000.0 / (drawn[1] - drawn[0]);
    eprintln!("sent: {each:.2} messages for each decision");
    assert!(each >= 1.8);
}

/// On one CPU: a yield in the protected half of a slice is no switch, so there are two decisions in a quantum of 1 ms, and
/// some more for wake-ups; with a loop that does nothing but yield there were tens of thousands a second.
fn yields_are_few_switches(cases: &Cases) {
    let case = &cases["yielders"];
    let decided = case.each(|status| counter(status, "draws") + counter(status, "kept"));
    let seconds = case.each(|status| status["tombola"]["interval_s"].as_f64().expect("a number"));
    for (window, pair) in decided.windows(2).enumerate() {
        let each_second = (pair[1] - pair[0]) / seconds[window + 1];
        eprintln!("yielders: {each_second:.0} decisions a second");
        assert!(each_second <= 3000.0);
    }
}

fn users_and_pitfalls(cases: &Cases) {
    halves(cases, &USERS, 0.01);
    yields_are_few_switches(cases);
    favoured_napper(cases, 0.01);
    halves(cases, &PITFALLS, 0.01);
    halves(cases, &["ticket-changes"], 0.01);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn stride_shares_on_the_newest_kernel() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 1,
        caches: 1,
        options: "--policy stride",
        seconds: 10,
        sets: "users pitfalls driver_inside ratio_20 processes",
    }
    .cases();
    users_and_pitfalls(&cases);
    inside(&cases, "driver-inside");
    ratio(&cases, 20.0);
    four_to_one(&cases);
    idle(&cases);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_stride_shares_on_the_newest_kernel() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 1,
        caches: 1,
        options: "--policy stride",
        seconds: 10,
        sets: "users crowds pitfalls insides ratios processes",
    }
    .cases();
    users_and_pitfalls(&cases);
    halves(&cases, &CROWDS, 0.01);
    insides(&cases);
    for of_one in RATIOS {
        ratio(&cases, of_one);
    }
    four_to_one(&cases);
    idle(&cases);
}

const WAYS: [&str; 7] = [
    "pipe",
    "stream",
    "datagram",
    "tcp",
    "eventfd",
    "mutex",
    "inheriting-mutex",
];

fn client_and_server(case: &Case) -> Vec<f64> {
    let (client, server) = (case.parts_inside("client"), case.parts_inside("server"));
    client.iter().zip(&server).map(|(a, b)| a + b).collect()
}

fn requests(kernel: Kernel, options: &'static str) -> Cases {
    let run = Run {
        kernel,
        cpus: 1,
        caches: 1,
        options,
        seconds: 10,
        sets: "requests",
    };
    run.cases()
}

/// A client that waits for a server with next to no tickets gets nearly what it would if it computed itself. (Between two loans
/// the server runs on its own account, as when a reader of a Unix stream is woken although there is nothing to read.)
fn clients_are_served(kernel: Kernel) {
    let cases = requests(kernel, "--policy stride");
    for way in WAYS {
        let name = format!("requests-{way}");
        let case = &cases[&name];
        let both = client_and_server(case);
        all_close(&name, &both, 801.0 / 901.0, 0.01);
        close(
            &format!("{name}, the hog"),
            1.0 - both[0],
            100.0 / 901.0,
            0.01,
        );
    }
    new_connections(&cases["requests-connections"]);
    producers(&cases["producers"]);
    idle(&cases);
}

/// Due are 810 of 910 parts, if the client paid for all. But when the server's threads exit, its own 10 tickets pay, and the next
/// thread waits for memory that they lock. It is 0.78. If the loan to the thread that accepts ended there, it would be 0.56.
fn new_connections(case: &Case) {
    let both = client_and_server(case);
    eprintln!("requests-connections: {both:?}");
    assert!(both.iter().all(|both| *both >= 0.7));
}

/// A reader of what two processes write by turns, 200 times in all, waits for neither of them in particular: 5 loans. There were
/// 206 when it lent to the last writer.
fn producers(case: &Case) {
    let lent = case.each(|status| counter(status, "lent"));
    eprintln!("producers: {} loans", lent[1] - lent[0]);
    assert!(lent[1] - lent[0] <= 40.0);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_clients_are_served_by_lottery() {
    let cases = requests(Kernel::Newest, "--policy lottery");
    for way in WAYS {
        let name = format!("requests-{way}");
        all_close(
            &name,
            &client_and_server(&cases[&name]),
            801.0 / 901.0,
            0.02,
        );
    }
    new_connections(&cases["requests-connections"]);
    producers(&cases["producers"]);
    idle(&cases);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn clients_are_served_on_the_newest_kernel() {
    clients_are_served(Kernel::Newest);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn clients_are_served_on_the_oldest_kernel() {
    clients_are_served(Kernel::Oldest);
}

/// Parts of the CPU that the processes of alice and bob paid for, in ascending order, each user's.
fn paid(case: &Case) -> Vec<f64> {
    let status = &case.windows[0];
    let all = user(status, "alice") + user(status, "bob");
    let of = |user: &str| processes(status, user, "burn").into_iter();
    of("alice")
        .chain(of("bob"))
        .map(|cpus| cpus / all)
        .collect()
}

fn are_paid(cases: &Cases, name: &str, due: &[f64]) {
    let paid = paid(&cases[name]);
    assert_eq!(paid.len(), due.len(), "{name}: {paid:?}");
    for (paid, due) in paid.iter().zip(due) {
        close(name, *paid, *due, 0.01);
    }
}

/// Loans by commands: alice, whose part is half, has two processes with 40 and 60 tickets, bob two with 100. The first lends 20
/// to one of bob's. The last case is of alice alone: a sleeper with 800 tickets, a server with 1, and a hog with 100.
fn tickets_are_lent(kernel: Kernel, options: &'static str) {
    let cases = Run {
        kernel,
        cpus: 1,
        caches: 1,
        options,
        seconds: 4,
        sets: "loans",
    }
    .cases();
    are_paid(&cases, "lent", &[0.1, 0.3, 0.25, 0.25]);
    let status = &cases["lent"].windows[0];
    let all = user(status, "alice") + user(status, "bob");
    close("lent, by alice", lent(status, "alice") / all, 0.1, 0.01);
    close("lent, the borrower ran", cases["lent"].cpus, 0.35, 0.03);
    let former = [0.2, 0.3, 0.25, 0.25];
    for name in ["reclaimed", "lent-for-a-time", "refused"] {
        are_paid(&cases, name, &former);
    }
    are_paid(&cases, "borrower-killed", &[0.2, 0.3, 0.5]);
    are_paid(&cases, "lender-killed", &[0.5, 0.25, 0.25]);
    are_paid(&cases, "lender-changed", &[0.15, 0.35, 0.25, 0.25]);
    let all_lent = &cases["all-lent"].windows[0];
    let of_sleeper = processes(all_lent, "alice", "sleep")[0] / user(all_lent, "alice");
    close(
        "all-lent, the sleeper paid",
        of_sleeper,
        800.0 / 901.0,
        0.01,
    );
    assert_eq!(cases["rights"].statuses, [1; 8]);
    idle(&cases);
}

/// alice and bob have half each; of alice's, her client has 800 of 900 parts. What it has, the server uses, if clients of all
/// users lend to it. Of one server with ten clients of alice's and then one of bob's, the places for lenders go to both, and
/// carol's hog has a third.
fn servers_are_lent_to_by_all_users(kernel: Kernel) {
    let cases = Run {
        kernel,
        cpus: 1,
        caches: 1,
        options: "--policy stride --rules /tmp/servers.toml",
        seconds: 10,
        sets: "servers",
    }
    .cases();
    let of = |name: &str, user_name: &str| {
        let status = &cases[name].windows[0];
        let users = ["alice", "bob", "carol"];
        let all: f64 = users.iter().map(|name| user(status, name)).sum();
        (user(status, user_name) / all, lent(status, user_name) / all)
    };
    let part = 0.5 * 800.0 / 900.0;
    for name in ["server-of-the-system", "server-in-a-unit"] {
        close(name, of(name, "alice").0, 0.5, 0.01);
        close(&format!("{name}, lent"), of(name, "alice").1, part, 0.01);
    }
    for name in ["server-of-a-user", "server-no-longer"] {
        let clients = processes(&cases[name].windows[0], "alice", "query");
        assert_eq!(clients.len(), 1, "{name}: the client has ended");
        let lent = of(name, "alice").1;
        assert!(lent < 0.001, "{name}: {lent} was lent");
    }
    for name in ["alice", "bob"] {
        let (has, lent) = of("server-of-many", name);
        close(&format!("server-of-many, {name}"), has, 1.0 / 3.0, 0.01);
        // The rest is what their clients do themselves.
        assert!(lent > 0.9 * has, "server-of-many, {name}: {lent} was lent");
    }
    idle(&cases);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn servers_are_lent_to_by_all_users_on_the_oldest_kernel() {
    servers_are_lent_to_by_all_users(Kernel::Oldest);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn tickets_are_lent_by_commands() {
    tickets_are_lent(Kernel::Oldest, "--policy stride --transfer explicit");
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_tickets_are_lent_by_commands_on_the_newest_kernel() {
    tickets_are_lent(Kernel::Newest, "--policy stride");
}

/// A busy process can use half of two CPUs, and that is its user's share. A process that naps cannot use its half, so that case
/// is left out.
#[test]
#[ignore = "boots a virtual machine: make test"]
fn stride_shares_on_two_cpus() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 2,
        caches: 1,
        options: "--policy stride",
        seconds: 10,
        sets: "users displaced sent",
    }
    .cases();
    messages_are_read_several_at_a_time(&cases);
    let alike = USERS[..6].iter().filter(|name| **name != "chain");
    halves(&cases, &alike.copied().collect::<Vec<_>>(), 0.01);
    // Init reaps the processes of the chain, which takes some percent of a CPU. The user on that CPU goes without, since neither
    // of the two can use more than one.
    let beyond_init = cases["chain"].each(|status| {
        let (alice, bob) = (user(status, "alice"), user(status, "bob"));
        ((alice - bob).abs() - user(status, "root")).max(0.0) / (alice + bob)
    });
    eprintln!("chain, apart by more than init takes: {beyond_init:?}");
    assert!(beyond_init.iter().all(|apart| *apart <= 0.01));
    let hog = cases["displaced"].each(|status| user(status, "alice"));
    all_close("displaced", &hog, 1.0, 0.01);
    idle(&cases);
}

/// With several run queues: each user has a busy process for each CPU, and more.
fn shares_with_queues(cpus: u32, options: &'static str, relative: f64) {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus,
        caches: 2,
        options,
        seconds: 10,
        sets: "queues",
    }
    .cases();
    halves(&cases, &QUEUES, relative);
    all_close("queues-3-1", &cases["queues-3-1"].parts(), 0.75, relative);
    idle(&cases);
}

/// On the oldest kernel, whose verifier allows the fewest nested calls.
#[test]
#[ignore = "boots a virtual machine: make test"]
fn two_users_with_a_queue_for_each_cpu() {
    let cases = Run {
        kernel: Kernel::Oldest,
        cpus: 2,
        caches: 2,
        options: "--run-queue cpu",
        seconds: 10,
        sets: "queues_users",
    }
    .cases();
    halves(&cases, &QUEUES[..1], 0.01);
    idle(&cases);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_shares_with_a_queue_for_each_cache() {
    for cpus in [2, 4, 8] {
        shares_with_queues(cpus, "--run-queue llc", 0.01);
    }
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_shares_with_a_queue_for_each_cpu() {
    for cpus in [2, 4, 8] {
        shares_with_queues(cpus, "--run-queue cpu", 0.02);
    }
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_what_cannot_be_used_is_shared_by_tickets() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 3,
        caches: 1,
        options: "--policy stride",
        seconds: 10,
        sets: "unusable",
    }
    .cases();
    for (name, due) in [("alice", 1.0), ("bob", 1.0), ("u1", 0.9), ("u2", 0.1)] {
        let part = cases["unusable"].each(|status| user(status, name) / due);
        all_close(name, &part, 1.0, 0.01);
    }
    idle(&cases);
}

/// The bar is 1 %, and 1.2 % were missing when this was written. It was 3 % while the long slices of the two threads that had
/// been alone were charged only when they ended.
#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_a_whole_cpu_is_kept_on_one_of_two_queues() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 4,
        caches: 2,
        options: "--run-queue llc",
        seconds: 20,
        sets: "unusable_on_queues",
    }
    .cases();
    for (name, due) in [("alice", 1.0), ("bob", 1.5), ("u1", 1.5)] {
        let part = cases["unusable-on-queues"].each(|status| user(status, name) / due);
        all_close(name, &part, 1.0, 0.02);
    }
    idle(&cases);
}

/// All else on this kernel is in `make robust`.
#[test]
#[ignore = "boots a virtual machine: make test"]
fn two_users_on_the_oldest_kernel() {
    let cases = Run {
        kernel: Kernel::Oldest,
        cpus: 1,
        caches: 1,
        options: "--policy stride --transfer off",
        seconds: 10,
        sets: "two_users",
    }
    .cases();
    halves(&cases, &["users-1-10"], 0.01);
    idle(&cases);
}

/// On the newest 6.x kernel, whose verifier refuses loops that others accept.
#[test]
#[ignore = "boots a virtual machine: make test"]
fn two_users_on_the_newest_6_x_kernel() {
    for (options, sets, case) in [
        ("--policy stride", "two_users", "users-1-10"),
        ("--run-queue llc", "queues_users", QUEUES[0]),
    ] {
        let cases = Run {
            kernel: Kernel::Peers,
            cpus: 2,
            caches: 2,
            options,
            seconds: 10,
            sets,
        }
        .cases();
        halves(&cases, &[case], 0.01);
        idle(&cases);
    }
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_stride_shares_on_the_oldest_kernel() {
    let cases = Run {
        kernel: Kernel::Oldest,
        cpus: 1,
        caches: 1,
        options: "--policy stride",
        seconds: 10,
        sets: "users insides kernel_thread",
    }
    .cases();
    halves(&cases, &USERS, 0.01);
    favoured_napper(&cases, 0.01);
    insides(&cases);
    // The kernel's ticks and other threads take a little.
    close("khugepaged", cases["kernel-thread"].cpus, 1.0, 0.05);
    // They take turns with drawn threads.
    let of_bob = user(&cases["two-kernel-threads"].windows[0], "bob");
    close("bob beside kernel threads", of_bob, 0.5, 0.05);
    idle(&cases);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn lottery_shares_on_the_newest_kernel() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 1,
        caches: 1,
        options: "--policy lottery",
        seconds: 5,
        sets: "users",
    }
    .cases();
    // 5 s are some 5000 draws at the users' level: one standard error of a half is 0.5 / sqrt(5000), 1.4 % of it; of 10/11 it is
    // sqrt(10/11 / 11 / 5000), 0.45 %.
    halves(
        &cases,
        &["users-1-10", "threads", "yielders", "napper"],
        3.0 * 0.0142,
    );
    favoured_napper(&cases, 3.0 * 0.0045);
    idle(&cases);
}

/// A run then lasts until the tick, forty quanta or more, and is charged in full.
#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_shares_hold_when_slices_end_at_the_tick() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 1,
        caches: 1,
        options: "--slice-end tick --quantum 100us",
        seconds: 10,
        sets: "users",
    }
    .cases();
    halves(&cases, &USERS, 0.01);
    favoured_napper(&cases, 0.01);
    idle(&cases);
}

/// Sleepers, real-time threads and the kernel's own among hogs
#[test]
#[ignore = "boots a virtual machine: make test"]
fn nobody_waits_too_long() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 1,
        caches: 1,
        options: "--policy stride",
        seconds: 10,
        sets: "sleepers others administrator",
    }
    .cases();
    sleepers(&cases);
    others(&cases);
    administrator(&cases);
    idle(&cases);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_a_thousand_processes_and_tickets_of_a_million_to_one() {
    let cases = Run {
        kernel: Kernel::Newest,
        cpus: 1,
        caches: 1,
        options: "--policy stride",
        seconds: 10,
        sets: "extremes",
    }
    .cases();
    extremes(&cases);
    idle(&cases);
}

fn sleepers(cases: &Cases) {
    for name in ["sleeper-among-users", "sleeper-inside"] {
        let (p99_us, worst_us) = (cases[name].late_p99_us(), cases[name].late_us.last());
        eprintln!("{name}: p99 {p99_us} us, worst {worst_us:?}");
        assert!(p99_us <= 1000, "{name}: {:?}", cases[name].late_us);
    }
    for name in ["asks-too-much-among-users", "asks-too-much-inside"] {
        let share = cases[name].each(|status| {
            let all: f64 = status["tombola"]["users"]
                .as_array()
                .expect("a list")
                .iter()
                .map(received)
                .sum();
            processes(status, "alice", "napper")[0] / all
        });
        all_close(name, &share, 1.0 / 21.0, 0.01);
    }
}

/// Root is due a twentieth of what all receive, however many users there are; in proportion it would be a sixty-first.
fn administrator(cases: &Cases) {
    let part = cases["administrator"].each(|status| {
        let users = status["tombola"]["users"].as_array();
        let all: f64 = users.expect("a list").iter().map(received).sum();
        user(status, "root") / all
    });
    all_close("administrator", &part, 0.05, 0.01);
}

fn others(cases: &Cases) {
    let late_us = &cases["real-time"].late_us;
    eprintln!(
        "real-time: p99 {} us, worst {:?}",
        cases["real-time"].late_p99_us(),
        late_us.last()
    );
    assert!(
        late_us.last() <= Some(&500),
        "a real-time thread waited: {late_us:?}"
    );
    let took_s = cases["kernel-threads"].took_s;
    eprintln!("kernel-threads: {took_s} s each");
    assert!(took_s <= 0.001, "a kernel thread took {took_s} s each time");
}

/// At either end of a window a client is at most a quantum from its due at each level where it has competitors.
fn from_due_s(levels: u32) -> f64 {
    const QUANTUM_S: f64 = 0.001;
    2.0 * f64::from(levels) * QUANTUM_S
}

fn extremes(cases: &Cases) {
    let due = |name: &str, levels: u32, cpus: f64, due: f64| {
        let seconds = cases[name].windows[0]["tombola"]["interval_s"].as_f64();
        let seconds = seconds.expect("a number");
        assert!(
            (cpus - due).abs() * seconds <= from_due_s(levels),
            "{name}: received {} s in {seconds} s, due {}",
            cpus * seconds,
            due * seconds
        );
    };
    halves(cases, &["thousand"], 0.01);
    let status = &cases["thousand"].windows[0];
    for name in ["alice", "bob"] {
        let hogs = processes(status, name, "burn");
        eprintln!("thousand: {name}'s from {} to {} CPUs", hogs[0], hogs[499]);
        assert_eq!(hogs.len(), 500);
        let mean = user(status, name) / 500.0;
        hogs.iter().for_each(|cpus| due("thousand", 2, *cpus, mean));
    }
    let status = &cases["ten-thousand-to-one"].windows[0];
    let all = user(status, "alice");
    let cpus = processes(status, "alice", "burn");
    eprintln!("ten-thousand-to-one: {cpus:?}");
    due("ten-thousand-to-one", 1, cpus[0], all / 10001.0);
    due("ten-thousand-to-one", 1, cpus[1], all * 10000.0 / 10001.0);
    let status = &cases["million-to-one"].windows[0];
    eprintln!(
        "million-to-one: {:?} {:?}",
        processes(status, "alice", "burn"),
        processes(status, "bob", "burn")
    );
    all_close(
        "million-to-one",
        &cases["million-to-one"].parts(),
        100.0 / 101.0,
        0.01,
    );
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
    close("alice", parse(&line)["x"].parts()[0], 0.75, 1e-9);
}
