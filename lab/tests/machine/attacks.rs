//! What an ordinary user may try in order to gain CPU time, or to take it from other users, on a real kernel: each attack is
//! refused, or harms no other user. Beside each one other users' processes run, and get what is due to them within one percent in
//! ten seconds.
//!
//! All failures are reported at the end, not only the first one.

use crate::common::{RunQueue, image_with, nothing_is_left};
use crate::status::{counter, lent, lent_by, processes, user};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tombola_lab::vm::{Kernel, Machine, Mode, Progress};

/// The part of what is due that may be missing.
const TOLERANCE: f64 = 0.01;

/// The results of some sets of attacks.
#[derive(Default)]
struct Attacks {
    windows: BTreeMap<String, Value>,
    /// CPUs that a process received by the kernel's account, by case and user.
    accounts: BTreeMap<(String, String), f64>,
    /// A long wait in each case, in microseconds; of several the longest.
    late_us: BTreeMap<String, f64>,
    wrong: Vec<String>,
}

impl Attacks {
    fn run(kernel: Kernel, cpus: u32, run_queue: RunQueue, sets: &str) -> Self {
        let machine = Machine {
            cpus,
            caches: run_queue.caches(),
            memory_mib: 3072,
            kernel,
            mode: Mode::measured(),
            timeout: Duration::from_secs(1800),
            ..Machine::default()
        };
        let image = image_with("attacks.sh", include_str!("attacks.sh"));
        let command = format!("sh /attacks.sh {} {sets}", run_queue.option());
        let outcome = machine
            .shell(&image, &command, |progress| {
                if let Progress::Line(line) = progress
                    && !line.starts_with('{')
                {
                    eprintln!("{kernel:?}, {cpus} CPUs: {line}");
                }
            })
            .expect("the machine runs");
        let trouble: Vec<_> = outcome
            .kernel_trouble()
            .into_iter()
            .map(String::from)
            .collect();
        let output = outcome.success().expect("the script succeeds");
        assert!(
            output.trim_end().ends_with("disabled"),
            "after stop: {output}"
        );
        let mut attacks = parse(&output);
        attacks.wrong.extend(trouble);
        attacks
    }

    /// CPUs that a user received beside an attack; 0 if that could not be measured.
    fn received(&self, case: &str, name: &str) -> f64 {
        let account = self.accounts.get(&(case.to_string(), name.to_string()));
        let window = self.windows.get(case);
        account
            .copied()
            .or_else(|| window.map(|window| user(window, name)))
            .unwrap_or(0.0)
    }

    /// Records a failure if less than what is due was received.
    fn at_least(&mut self, case: &str, what: &str, measured: f64, due: f64) {
        let line = format!("{case}: {what} has {measured:.4}, due {due:.4}");
        eprintln!("{line}");
        if measured < due * (1.0 - TOLERANCE) {
            self.wrong.push(line);
        }
    }

    fn at_most(&mut self, case: &str, what: &str, measured: f64, due: f64, relative: f64) {
        let line = format!("{case}: {what} has {measured:.4}, due at most {due:.4}");
        eprintln!("{line}");
        if measured > due * (1.0 + relative) {
            self.wrong.push(line);
        }
    }

    /// A user has so much of one CPU, or more, beside an attack.
    fn has(&mut self, name: &str, case: &str, due: f64) {
        let measured = self.received(case, name);
        self.at_least(case, name, measured, due);
    }

    /// The same as a part of what alice and bob received. To look at the clients of several queues takes some hundredths of a
    /// CPU, and so do the CPUs' interrupts to each other for wake-ups.
    fn bob_has_part(&mut self, case: &str, due: f64) {
        let [alice, bob] = ["alice", "bob"].map(|name| self.received(case, name));
        self.at_least(case, "bob's part", bob / (alice + bob), due);
    }

    fn bob_has(&mut self, case: &str, due: f64) {
        self.has("bob", case, due);
    }

    /// The process that an administrator has limited has at most this part of what its user received.
    fn limited(&mut self, case: &str, due: f64) {
        let window = &self.windows[case];
        let of_limited: f64 = processes(window, "alice", "limited").iter().sum();
        let part = of_limited / user(window, "alice");
        self.at_most(case, "the limited process", part, due, 0.05);
    }

    /// The wait that was measured is at most so many microseconds.
    fn not_later(&mut self, case: &str, due_us: f64) {
        let measured = self.late_us.get(case).copied();
        let measured = measured.unwrap_or_else(|| panic!("{case} was not measured"));
        self.at_most(case, "a long wait in us", measured, due_us, 0.0);
    }

    fn conclude(mut self) {
        for case in self.windows.keys() {
            let full = counter(&self.windows[case], "no_slot");
            if full > 0.0 {
                self.wrong
                    .push(format!("{case}: {full} threads had no client"));
            }
        }
        assert!(self.wrong.is_empty(), "\n{}\n", self.wrong.join("\n"));
        nothing_is_left(&self.windows["idle"]["tombola"]);
    }
}

fn parse(output: &str) -> Attacks {
    let mut attacks = Attacks::default();
    let mut name = "";
    for line in output.lines() {
        if let Some(case) = line.strip_prefix("CASE ") {
            name = case;
        } else if let Some(words) = line.strip_prefix("WRONG ") {
            attacks.wrong.push(words.to_string());
        } else if let Some(account) = line.strip_prefix("HAS ") {
            let words: Vec<&str> = account.split(' ').collect();
            let [case, name, used_ns, elapsed_ns] = words[..] else {
                panic!("not four words: {line}");
            };
            let [used_ns, elapsed_ns] =
                [used_ns, elapsed_ns].map(|ns| ns.parse::<f64>().expect("a number"));
            let key = (case.to_string(), name.to_string());
            attacks.accounts.insert(key, used_ns / elapsed_ns);
        } else if let Some(late) = line.strip_prefix("LATE ") {
            let (name, late_us) = late.split_once(' ').expect("a name and a number");
            let late_us: f64 = late_us.parse().expect("a number");
            let longest = attacks.late_us.entry(name.to_string()).or_default();
            *longest = longest.max(late_us);
        } else if line.starts_with('{') {
            let status: Value = serde_json::from_str(line).expect("status prints JSON");
            if status["tombola"].is_null() {
                let words = format!("{name}: the scheduler was ended");
                attacks.wrong.push(words);
            } else {
                attacks.windows.insert(name.to_string(), status);
            }
        }
    }
    attacks
}

const PAYMENT: [&str; 5] = [
    "freeze-unpaid",
    "enter-frozen",
    "change-currency",
    "timed-funding",
    "timed-base",
];

fn payment(attacks: &mut Attacks) {
    for case in PAYMENT {
        attacks.bob_has(case, 0.5);
    }
}

fn identities(attacks: &mut Attacks) {
    // Root's process is still charged to root.
    attacks.has("root", "act-as", 0.5);
    attacks.bob_has("become-owner", 0.5);
    let of_burn: f64 = processes(&attacks.windows["become-root"], "root", "burn")
        .iter()
        .sum();
    attacks.at_least("become-root", "root's own process", of_burn, 0.5);
    let of_frozen = attacks.received("enter-own", "bob");
    attacks.at_most("enter-own", "bob", of_frozen, 0.01, 0.0);
}

fn limits(attacks: &mut Attacks) {
    attacks.bob_has("thaw", 1.0);
    // A part of what both received: each refusal looks up names in files, which makes work for the kernel (RCU) that is charged
    // to neither.
    let (alice, bob) = (
        attacks.received("lowered", "alice"),
        attacks.received("lowered", "bob"),
    );
    attacks.at_most(
        "lowered",
        "alice's part",
        alice / (alice + bob),
        200.0 / 1200.0,
        TOLERANCE,
    );
}

fn limited_processes(attacks: &mut Attacks) {
    attacks.limited("frozen-by-root", 0.001);
    for case in [
        "limited-enters",
        "limited-currency-fund",
        "limited-currency-retire",
        "limited-currency-move",
    ] {
        attacks.limited(case, 10.0 / 110.0);
    }
}

fn namespaces(attacks: &mut Attacks) {
    for case in ["subordinate", "outside", "container", "own-currency"] {
        attacks.bob_has(case, 0.5);
    }
    let of_root = attacks.received("container", "root");
    attacks.at_most("container", "root", of_root, 0.01, 0.0);
}

fn many_uids(attacks: &mut Attacks) {
    for newcomer in ["u1", "u2"] {
        let case = format!("many-uids-{newcomer}");
        attacks.bob_has(&case, 0.5);
        attacks.has(newcomer, &case, 0.5);
    }
    let users = &attacks.windows["many-uids-gone"]["tombola"]["users"];
    let count = users.as_array().expect("users are a list").len();
    attacks.at_most(
        "many-uids-gone",
        "the list of users",
        count as f64,
        20.0,
        0.0,
    );
}

/// Threads out of turn may have a hundredth of the CPU.
fn frozen(attacks: &mut Attacks) {
    for (case, name) in [
        ("freeze-threads", "bob"),
        ("freeze-threads", "carol"),
        ("die-frozen", "bob"),
        ("freeze-twice", "bob"),
    ] {
        attacks.has(name, case, 0.99 / 2.0);
    }
    attacks.bob_has("leave-by-retiring", 0.5);
    attacks.bob_has("enqueue-again", 0.99);
}

fn calls(attacks: &mut Attacks) {
    let beside_hogs = attacks.late_us["beside-hogs"];
    for what in ["move", "retire", "tree"] {
        attacks.not_later(&format!("beside-calls-of-{what}"), beside_hogs + 250.0);
        attacks.bob_has(&format!("calls-of-{what}"), 0.5);
    }
}

fn kernel(attacks: &mut Attacks, cpus: u32, run_queue: RunQueue) {
    let cpus = f64::from(cpus);
    let due = [
        ("seccomp", (cpus / 2.0).max(cpus - 1.0)),
        ("exit-slowly", cpus / 2.0),
    ];
    for (case, due) in due {
        match run_queue {
            RunQueue::Machine => attacks.bob_has(case, due),
            // On a queue of one CPU alice's thread is alone, and has that CPU, as is due: root's look at them then takes from
            // bob's only. That says nothing about the attack.
            RunQueue::Cpu if case == "seccomp" => {}
            RunQueue::Llc | RunQueue::Cpu => attacks.bob_has_part(case, due / cpus),
        }
    }
    // To read the directory takes some 50 ms here, and its frozen reader has a thirtieth of the CPU. It once took hours. Where
    // only the CPUs of the reader's queue give it turns, and CPUs share one budget of instructions, it takes longer.
    let (held_us, callers_us) = match run_queue {
        RunQueue::Machine => (5_000_000.0, 100_000.0),
        RunQueue::Llc | RunQueue::Cpu => (10_000_000.0, 300_000.0),
    };
    attacks.not_later("hold-directory", held_us);
    attacks.not_later("hold-directory-beside-threads", held_us);
    attacks.not_later("freeze-callers", callers_us);
    // Its turns are rarer by then.
    attacks.not_later("hold-directory-alone", 20_000_000.0);
    attacks.not_later("hold-directory-for-long", 60_000_000.0);
}

/// Nobody gains or loses by loans: neither the user whose processes lend, nor those beside it.
fn loans(attacks: &mut Attacks) {
    // The least number of loans, or the case says nothing.
    for (way, loans) in [
        ("never-answers", 8.0),
        ("many-sockets", 500.0),
        ("ring", 500.0),
        ("ring-of-calls", 8.0),
        ("forks", 100.0),
        ("killed", 100.0),
    ] {
        let case = format!("lend-{way}");
        // Of what both received: forks and exits make work for the kernel (RCU) that is charged to neither.
        attacks.bob_has_part(&case, 0.5);
        let [alice, bob] = ["alice", "bob"].map(|name| attacks.received(&case, name));
        attacks.at_most(&case, "bob's part", bob / (alice + bob), 0.5, TOLERANCE);
        let lent = |case: &str| counter(&attacks.windows[case], "lent");
        let made = lent(&case) - lent(&format!("{case}-before"));
        attacks.at_least(&case, "the count of loans", made, loans);
    }
    // Of 12 clients with 100 to 1200 tickets those 8 lend that have most, to a server with 100.
    let due = 0.5 * 1200.0 / (6800.0 + 100.0);
    let of_richest = lent_by(&attacks.windows["lend-never-answers"], "alice", 1200);
    attacks.at_least(
        "lend-never-answers",
        "what the richest lends",
        of_richest,
        due,
    );
    for name in ["alice", "bob"] {
        attacks.has(name, "lend-to-real-time", 0.5);
    }
    for name in ["alice", "carol"] {
        attacks.has(name, "lend-to-frozen", 0.5);
    }
    // 20 % are reserved, 25 % are best effort's at least; nobody has asked for the rest, and all divide it.
    let due = 25.0 / 45.0 / 2.0;
    for name in ["alice", "carol"] {
        attacks.has(name, "lend-to-reserved", due);
    }
    let lent = lent(&attacks.windows["lend-to-reserved"], "alice");
    attacks.at_least("lend-to-reserved", "what alice lends", lent, due / 2.0);
}

/// Three users have a third each of what is not the server's own. Of bob's, his client has a third, and the server uses nearly
/// all of that: he pays for so much, whatever alice does.
fn servers(attacks: &mut Attacks) {
    for way in ["ask", "ask-impatiently", "ask-with-loans"] {
        let case = format!("server-{way}");
        let [alice, bob, carol] =
            ["alice", "bob", "carol"].map(|name| attacks.received(&case, name));
        let all = alice + bob + carol;
        attacks.at_least(&case, "bob's part", bob / all, 1.0 / 3.0);
        attacks.at_least(&case, "carol's part", carol / all, 1.0 / 3.0);
        let lent = lent(&attacks.windows[&case], "bob") / all;
        attacks.at_least(&case, "what bob lends", lent, 0.9 / 9.0);
        attacks.at_most(&case, "what bob lends", lent, 1.0 / 9.0, TOLERANCE);
    }
}

fn lookups(attacks: &mut Attacks) {
    attacks.not_later("lookup-frozen-alone", 1_000_000.0);
    attacks.bob_has("lookups", 0.5);
    attacks.not_later("lookups-with-0-tickets", 5_000_000.0);
    attacks.not_later("lookups-with-1-tickets", 5_000_000.0);
}

fn users_on_one_cpu(kernel_version: Kernel) {
    let sets = "names payment identities limits processes namespaces";
    let mut attacks = Attacks::run(kernel_version, 1, RunQueue::Machine, sets);
    payment(&mut attacks);
    identities(&mut attacks);
    limits(&mut attacks);
    limited_processes(&mut attacks);
    namespaces(&mut attacks);
    attacks.conclude();
}

fn crowds_on_one_cpu(kernel_version: Kernel) {
    let mut attacks = Attacks::run(
        kernel_version,
        1,
        RunQueue::Machine,
        "places_of_names restart many_uids loans frozen calls kernel lookups",
    );
    attacks.bob_has("shared-reservation", 0.5);
    attacks.bob_has("first-exits", 0.5);
    many_uids(&mut attacks);
    loans(&mut attacks);
    frozen(&mut attacks);
    calls(&mut attacks);
    kernel(&mut attacks, 1, RunQueue::Machine);
    lookups(&mut attacks);
    attacks.conclude();
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn one_cpu_and_other_users() {
    users_on_one_cpu(Kernel::Newest);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_one_cpu_and_crowds() {
    crowds_on_one_cpu(Kernel::Newest);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_two_cpus_and_servers() {
    let mut attacks = Attacks::run(Kernel::Newest, 2, RunQueue::Machine, "servers");
    servers(&mut attacks);
    attacks.conclude();
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_on_the_oldest_kernel() {
    users_on_one_cpu(Kernel::Oldest);
    crowds_on_one_cpu(Kernel::Oldest);
}

/// What may go wrong where a process moves from CPU to CPU, and from queue to queue.
fn several_cpus(cpus: u32, run_queue: RunQueue) {
    let mut attacks = Attacks::run(Kernel::Newest, cpus, run_queue, "payment wakes kernel");
    for case in PAYMENT.iter().chain(&["wake-elsewhere"]) {
        attacks.bob_has_part(case, 0.5);
    }
    kernel(&mut attacks, cpus, run_queue);
    attacks.conclude();
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_on_two_cpus() {
    several_cpus(2, RunQueue::Machine);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_with_a_queue_for_each_cache() {
    several_cpus(4, RunQueue::Llc);
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_with_a_queue_for_each_cpu() {
    several_cpus(2, RunQueue::Cpu);
}

/// More threads than there are slots for clients, and more frozen ones than can have a turn.
#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_with_every_place_taken() {
    let mut attacks = Attacks::run(Kernel::Newest, 1, RunQueue::Machine, "threads patience");
    for name in ["bob", "carol"] {
        attacks.has(name, "take-places", 0.5);
    }
    // What 10,000 clients of one server cost is their user's. And no step takes longer than for one client: ten instructions for
    // each of them would be 800 us.
    attacks.bob_has("lend-crowd", 0.5);
    let of_one = attacks.late_us["lend-many-sockets"];
    attacks.not_later("lend-crowd", of_one + 500.0);
    // He may lose a tenth beside them, but the kernel must not end the scheduler.
    attacks.bob_has("freeze-many-threads", 0.9);
    for part in 1..=8 {
        attacks.bob_has(&format!("long-sections-{part}"), 0.5 * 0.9);
    }
    attacks.conclude();
}
