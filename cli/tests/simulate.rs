//! `tombola simulate` as a program: what it prints of a plan, and the plans that it refuses.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tombola_cli::plan::EXAMPLE;

const DONE: i32 = 0;
const FAILED: i32 = 1;
const BAD_PLAN: i32 = 2;

const SCHEDULERS: [&str; 10] = [
    "stride",
    "lottery",
    "linux-2.4",
    "fairsched",
    "thesis",
    "thesis-enhanced",
    "mach",
    "plan9",
    "mqs",
    "round-robin",
];

/// A user with a task, for plans that differ from it in one thing.
const SMALL: &str =
    "duration = '1s'\n[users]\nalice = 1000\n[[tasks]]\nname = 'a'\nuser = 'alice'\n";

/// rt-app's, with comments.
const RT_APP: &str = r#"{
    /* two groups */
    "tasks": {
        "periodic": {
            "loop": -1, "taskgroup": "/a", "priority": -5, "cpus": [0],
            "run": 2000, // microseconds
            "timer": { "ref": "unique", "period": 10000 }
        },
        "maker": {
            "instance": 2, "taskgroup": "/b", "delay": 100000,
            "phases": {
                "work": { "loop": 3, "lock": "m", "run1": 1000, "unlock": "m", "fork": "child" },
                "rest": { "sleep": 10000, "yield": "" }
            }
        },
        "child": { "instance": 0, "loop": 1, "runtime": 3000 }
    },
    "global": { "duration": 2, "calibration": "CPU0", "default_policy": "SCHED_OTHER" }
}"#;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = path(name);
    fs::write(&path, content).unwrap();
    path
}

fn simulate(plan: &Path, options: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tombola"))
        .arg("simulate")
        .args(options)
        .arg(plan)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(DONE), "{errors}");
    assert!(errors.is_empty(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn report(plan: &Path, options: &[&str]) -> Value {
    let output = simulate(plan, &[options, &["--json"]].concat());
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn row<'a>(report: &'a Value, list: &str, name: &str) -> &'a Value {
    let rows = report[list].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap()
}

/// All faults have a place, a cause and a next step, and nothing is simulated.
fn assert_refused(name: &str, content: &str, options: &[&str], words: &[&str]) {
    let path = file(name, content);
    let output = simulate(&path, options);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(BAD_PLAN), "{name}: {text}");
    assert!(output.stdout.is_empty(), "{name}: {output:?}");
    assert!(text.starts_with(path.to_str().unwrap()), "{name}: {text}");
    let parts = ["  cause: ", "  next:  ", "; nothing was simulated\n"];
    for words in parts.iter().chain(words) {
        assert!(text.contains(words), "{name}: {words:?} is not in {text}");
    }
}

/// The example on one CPU, with CPUs that exist.
fn example_for_one_cpu() -> PathBuf {
    file(
        "one-cpu.toml",
        &EXAMPLE.replace("cpus = [0, 1]", "cpus = [0]"),
    )
}

#[test]
fn every_scheduler_runs_the_example() {
    let (example, small) = (file("example.toml", EXAMPLE), example_for_one_cpu());
    for name in SCHEDULERS {
        for (plan, cpus) in [(&example, 4), (&small, 1)] {
            if name.starts_with("thesis") && cpus > 1 {
                continue;
            }
            let cpus_option = cpus.to_string();
            let report = report(plan, &["--scheduler", name, "--cpus", &cpus_option]);
            assert_eq!(report["scheduler"], name);
            assert_eq!(report["cpus"], cpus);
            let received = |list: &str| -> u64 {
                let rows = report[list].as_array().unwrap().iter();
                let users = rows.filter(|row| list == "tasks" || row["parent"].is_null());
                users.map(|row| row["received_ns"].as_u64().unwrap()).sum()
            };
            assert_eq!(received("tasks"), received("currencies"), "{name}");
            assert!(received("tasks") <= cpus * 10_000_000_000, "{name}");
            assert!(received("tasks") > cpus * 6_000_000_000, "{name}");
        }
    }
}

#[test]
fn the_table_shows_users_currencies_and_tasks() {
    let text = stdout(&simulate(&file("table.toml", EXAMPLE), &[]));
    assert!(text.starts_with("scheduler   stride, seed 1\n"), "{text}");
    let first = |line: &str| {
        line.split("  ")
            .find(|cell| !cell.is_empty())
            .map(str::to_owned)
    };
    let rows: Vec<String> = text.lines().skip(3).filter_map(first).collect();
    assert_eq!(
        rows[..7],
        [
            "USER / CURRENCY / TASK",
            "alice",
            "server",
            "alice:build",
            "make",
            "bob",
            "hog"
        ]
    );
    assert!(
        text.contains("\n% of 4 CPUs over 10.000 s; entitled: "),
        "{text}"
    );
}

#[test]
fn shares_follow_the_tickets() {
    let plan = SMALL.replace("alice = 1000", "alice = 3000\nbob = 1000")
        + "[[tasks]]\nname = 'b'\nuser = 'bob'\ncount = 3\n";
    let report = report(&file("shares.toml", &plan), &[]);
    let received = |name| {
        row(&report, "currencies", name)["received_ns"]
            .as_u64()
            .unwrap()
    };
    assert!(received("alice").abs_diff(750_000_000) <= 2_000_000);
    assert!(received("bob").abs_diff(250_000_000) <= 2_000_000);
    assert_eq!(row(&report, "tasks", "b")["parent"], "bob");
}

#[test]
fn the_same_plan_and_seed_give_the_same_bytes() {
    let plan = file("seeds.toml", EXAMPLE);
    let json = |seed| {
        let options = ["--json", "--scheduler", "lottery", "--seed", seed];
        simulate(&plan, &options).stdout
    };
    assert_eq!(json("7"), json("7"));
    assert_ne!(json("7"), json("8"));
}

/// Four CPUs with two caches, eight tasks.
const CACHES: &str = "duration = '2s'\nrun-queue = 'llc'\n[machine]\ncpus = 4\ncpus-per-cache = 2\n[users]\nalice = 1000\n\
    bob = 3000\n[[tasks]]\nname = 'a'\nuser = 'alice'\ncount = 4\n[[tasks]]\nname = 'b'\nuser = 'bob'\ncount = 4\n";

#[test]
fn run_queues_are_those_of_the_option_or_the_plan() {
    let plan = file("caches.toml", CACHES);
    let queues = |options: &[&str]| report(&plan, options)["run_queues"]["count"].clone();
    assert_eq!(queues(&[]), 2);
    assert_eq!(queues(&["--run-queue", "auto"]), 2);
    assert_eq!(queues(&["--run-queue", "cpu"]), 4);
    assert_eq!(queues(&["--run-queue", "machine"]), 1);
    assert_eq!(queues(&["--run-queue", "llc", "--cpus", "6"]), 3);
    let without = CACHES.replace("run-queue = 'llc'\n", "");
    assert_eq!(
        report(&file("auto.toml", &without), &[])["run_queues"]["count"],
        2
    );
    let text = stdout(&simulate(&plan, &["--run-queue", "cpu"]));
    let line = text
        .lines()
        .find(|line| line.starts_with("run queues  4, moves "));
    let line = line.expect("a line of the run queues");
    assert!(line.contains(" a second and CPU, slices "), "{line}");
    let text = stdout(&simulate(&plan, &["--run-queue", "machine"]));
    assert!(!text.contains("run queues"), "{text}");
    let mqs = report(&plan, &["--run-queue", "cpu", "--scheduler", "mqs"]);
    assert_eq!(mqs["scheduler"], "mqs");
}

#[test]
fn run_queues_must_be_possible() {
    let words = ["node.toml:2:13: there is no run-queue \"node\""];
    assert_refused(
        "node.toml",
        &CACHES.replace("llc", "node"),
        &[],
        &[words[0], "auto, machine, llc, cpu"],
    );
    let words = ["2:13: the machine has no caches for run-queue = \"llc\""];
    assert_refused(
        "no-caches.toml",
        &CACHES.replace("cpus-per-cache = 2\n", ""),
        &[],
        &words,
    );
    let options = ["--run-queue", "llc"];
    assert_refused("caches.json", RT_APP, &options, &["has no caches"]);
    let words = ["2:13: mach cannot have run-queue = \"llc\""];
    assert_refused("historic.toml", CACHES, &["--scheduler", "mach"], &words);
    for (scheduler, own) in [
        ("mqs", "cpu"),
        ("plan9", "machine"),
        ("linux-2.4", "machine"),
    ] {
        for queue in ["machine", "llc", "cpu"]
            .iter()
            .filter(|queue| **queue != own)
        {
            let options = ["--scheduler", scheduler, "--run-queue", queue];
            let words = [format!("{scheduler} cannot have run-queue = {queue:?}")];
            assert_refused("historic.toml", CACHES, &options, &[&words[0]]);
        }
    }
    let small = SMALL.replace("[users]", "[machine]\ncpus = 4096\n[users]");
    let many = small.clone()
        + "count = 100000\n"
        + "[[tasks]]\nname = 'b'\nuser = 'alice'\ncount = 100000\n";
    let users: String = (0..20).map(|i| format!("u{i} = 100\n")).collect();
    let many = many.replace("[users]\n", &format!("[users]\n{users}"));
    let words = ["200000 tasks, and 21 users and currencies on 4096 run queues"];
    assert_refused("queues.toml", &many, &["--run-queue", "cpu"], &words);
    let rich = small + "tickets = 10000\ncount = 1678\n";
    let words = [
        "tickets of what is in alice add up to 16780000",
        "at most 16777215",
    ];
    assert_refused("rich.toml", &rich, &["--run-queue", "cpu"], &words);
}

#[test]
fn the_rule_of_the_balancer_is_that_of_the_option_or_the_plan() {
    let hogs = "count = 4\n[[tasks]]\nname = 'c'\nuser = 'bob'\n";
    let nine = CACHES.replacen("count = 4\n", hogs, 1);
    let plan = file("clock.toml", &nine.replace("'llc'", "'cpu'"));
    let by_mqs = file("mqs.toml", &nine.replace("'llc'", "'cpu'\nbalance = 'mqs'"));
    let moves = |plan, options: &[&str]| report(plan, options)["run_queues"]["moves"].as_u64();
    let clock = moves(&plan, &[]);
    let mqs = moves(&plan, &["--balance", "mqs"]);
    assert!(mqs > clock, "{mqs:?}, {clock:?}");
    assert_eq!(moves(&by_mqs, &[]), mqs);
    assert_eq!(moves(&by_mqs, &["--balance", "clock"]), clock);
}

#[test]
fn a_rule_of_the_balancer_needs_several_queues_of_tombola() {
    let plan = CACHES.replace("'llc'", "'cpu'\nbalance = 'mqs'");
    let words = "3:11: mach cannot have balance = \"mqs\"";
    let options = ["--scheduler", "mach", "--run-queue", "auto"];
    assert_refused("rule.toml", &plan, &options, &[words]);
    let words = "3:11: balance = \"mqs\", but there is one run queue";
    assert_refused("rule.toml", &plan, &["--run-queue", "machine"], &[words]);
    assert_refused(
        "rule.toml",
        &plan.replace("'mqs'", "'load'"),
        &[],
        &["3:11: there is no balance \"load\"", "clock, mqs"],
    );
    let options = ["--balance", "clock"];
    assert_refused("rule.json", RT_APP, &options, &["there is one run queue"]);
}

#[test]
fn the_busiest_lock_is_shown_if_locks_are_modelled() {
    let held = CACHES.replace("[users]", "lock-hold = '2us'\n[users]");
    let plan = file("lock.toml", &held);
    let busiest = |options: &[&str]| report(&plan, options)["busiest_lock"].clone();
    let (machine, llc) = (busiest(&["--run-queue", "machine"]), busiest(&[]));
    let ns = |lock: &Value| lock["held_ns"].as_u64().unwrap();
    assert_eq!(ns(&llc), 2000 * llc["takes"].as_u64().unwrap());
    let locks = report(&plan, &[])["locks"].clone();
    assert_eq!(locks[llc["queue"].as_u64().unwrap() as usize], llc);
    assert_eq!(locks.as_array().unwrap().len(), 2);
    assert!(ns(&llc) < ns(&machine), "{llc}, {machine}");
    assert!(llc["queue"].as_u64().unwrap() < 2, "{llc}");
    assert!(llc["waited_ns"].is_u64(), "{llc}");
    let text = stdout(&simulate(&plan, &[]));
    let is_lock = |line: &&str| line.starts_with("busy lock   of run queue ");
    let line = text.lines().find(is_lock).expect("a line of the lock");
    assert!(line.contains(" % of the time, mean wait "), "{line}");
    let without = report(&file("no-lock.toml", CACHES), &[]);
    assert_eq!(without["busiest_lock"], Value::Null);
    assert_eq!(without["locks"], Value::Null);
    let json = || simulate(&plan, &["--json"]).stdout;
    assert_eq!(json(), json());
    assert_refused(
        "long-lock.toml",
        &held.replace("2us", "2ms"),
        &[],
        &["6:13: lock-hold is out of range", "at most 1ms"],
    );
}

/// 64 CPUs, each with 5000 sleeps and wake-ups a second, each of which holds a lock: 640,000 a second take 0.64 of the time of
/// one lock if that is 1 us, and more than it has if it is 2 us. Eight locks have enough.
#[test]
fn one_lock_for_many_cpus_is_saturated_and_eight_are_not() {
    let text = include_str!("../../docs/plans/locks.toml");
    let of = |hold: &str, queue: &str| {
        let plan = file(&format!("locks-{hold}.toml"), &text.replace("1us", hold));
        let report = report(&plan, &["--run-queue", queue]);
        let number = |name: &str| report["busiest_lock"][name].as_u64().unwrap() as f64;
        let held = number("held_ns") / report["span_ns"].as_u64().unwrap() as f64;
        (held, number("waited_ns") / number("takes"))
    };
    // Each CPU computes for 200 us and decides twice.
    let (held, _) = of("1us", "machine");
    let alone = 64.0 * 2.0 / 202.0;
    assert!((0.98 * alone..=alone).contains(&held), "{held}, {alone}");
    let (held, _) = of("1us", "llc");
    assert!(held < 0.1, "{held}");
    let (held, wait_ns) = of("2us", "machine");
    assert!(held > 0.99 && wait_ns > 10_000.0, "{held}, {wait_ns}");
    let (held, wait_ns) = of("2us", "llc");
    assert!(held < 0.2 && wait_ns < 1000.0, "{held}, {wait_ns}");
}

#[test]
fn options_win_over_the_plan() {
    let report = report(
        &file("options.toml", EXAMPLE),
        &["--cpus", "2", "--scheduler", "mach", "--seed", "5"],
    );
    assert_eq!(report["cpus"], 2);
    assert_eq!(report["scheduler"], "mach");
    assert_eq!(report["seed"], 5);
}

#[test]
fn samples_are_taken_each_tenth_of_a_second_and_at_changes() {
    let plan = SMALL.to_owned()
        + "[[tasks]]\nname = 'b'\nuser = 'alice'\nstart = '250ms'\nsteps = [{ run = '100ms' }]\ntimes = 1\n";
    let plan = file("samples.toml", &plan);
    let report = report(&plan, &["--samples"]);
    let samples = report["samples"].as_array().unwrap();
    let at_ms: Vec<u64> = (samples.iter())
        .map(|sample| sample["at_ns"].as_u64().unwrap() / 1_000_000)
        .collect();
    assert_eq!(
        at_ms,
        [0, 100, 200, 250, 300, 400, 500, 600, 700, 800, 900, 1000]
    );
    let received = |sample: usize| samples[sample]["received_ns"].clone();
    assert_eq!(received(3), serde_json::json!([250_000_000, 0]));
    let whole = ["a", "b"].map(|name| row(&report, "tasks", name)["received_ns"].clone());
    assert_eq!(received(11), Value::from(whole.to_vec()));
    let without_json = simulate(&plan, &["--samples"]);
    assert_eq!(without_json.status.code(), Some(BAD_PLAN));
}

#[test]
fn a_plot_is_written_as_svg_and_png() {
    let name = path("plot.1");
    let options = ["--plot", name.to_str().unwrap()];
    stdout(&simulate(&file("plot.toml", EXAMPLE), &options));
    let written = |ending: &str| fs::read(format!("{}.{ending}", name.display())).unwrap();
    let svg = String::from_utf8(written("svg")).unwrap();
    for words in ["alice:build: make", "bob: hog × 3", "entitled", "seconds"] {
        assert!(svg.contains(words), "{words}");
    }
    assert!(written("png").starts_with(b"\x89PNG"));
    let folder = path("no-such-folder/plot");
    let output = simulate(&path("plot.toml"), &["--plot", folder.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(FAILED), "{text}");
    assert!(text.contains("the plot is missing"), "{text}");
}

#[test]
fn rt_app_files_are_plans() {
    let report = report(&file("rt-app.json", RT_APP), &[]);
    assert_eq!(
        (&report["cpus"], &report["span_ns"]),
        (&1.into(), &2_000_000_000_u64.into())
    );
    let periodic = row(&report, "tasks", "periodic");
    assert_eq!(periodic["parent"], "/a");
    assert_eq!(periodic["received_ns"], 400_000_000);
    let maker = row(&report, "tasks", "maker");
    let received = maker["received_ns"].as_u64().unwrap();
    // Each round of each of the two: 3 ms, and three children of 3 ms.
    assert!(
        received > 200_000_000 && received % 1_000_000 < 1000,
        "{maker}"
    );
}

#[test]
fn too_many_forks_end_the_simulation() {
    let plan = SMALL.to_owned()
        + "steps = [{ repeat = { times = 1000000, steps = [{ fork = 'nap' }] } }, { run = '1ms' }]\n\
           [[programs]]\nname = 'nap'\nsteps = [{ sleep = '1h' }]\n";
    let output = simulate(&file("bomb.toml", &plan), &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(FAILED), "{text}");
    for words in [
        "too many tasks 0.1 s after the start",
        "  cause: ",
        "  next:  ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_file_must_be_a_plan() {
    assert_refused(
        "not.toml",
        "duration 10s",
        &[],
        &["not.toml:1:10: this is not TOML"],
    );
    let unknown = SMALL.replace("[users]", "durration = '1s'\n[users]");
    assert_refused(
        "field.toml",
        &unknown,
        &[],
        &["field.toml:2:1: unknown field `durration`"],
    );
    let step = format!("{SMALL}steps = [{{ jump = '1s' }}]\n");
    assert_refused(
        "step.toml",
        &step,
        &[],
        &["step.toml:7:", "unknown variant `jump`"],
    );
    assert_refused("empty.toml", "", &[], &["missing field `duration`"]);
    assert_refused(
        "tasks.toml",
        "duration = '1s'\ntasks = []\n[users]\na = 100\n",
        &[],
        &["no tasks"],
    );
    assert_refused(
        "users.toml",
        &SMALL.replace("alice = 1000\n", ""),
        &[],
        &["no users", "there is no user \"alice\""],
    );
    let output = simulate(&path("no-such-plan.toml"), &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(BAD_PLAN), "{text}");
    assert!(text.contains("there is no such file"), "{text}");
    assert!(text.contains("tombola simulate --help"), "{text}");
}

/// Names of files; of the small plan what is replaced and by what; and what is said about it.
const NAMES: [(&str, &str, &str, &str); 10] = [
    (
        "scheduler",
        "duration",
        "scheduler = 'cfs'\nduration",
        "1:13: there is no scheduler \"cfs\"",
    ),
    ("user", "'alice'", "'bob'", "6:8: there is no user \"bob\""),
    (
        "currency",
        "'alice'\n",
        "'alice'\ncurrency = 'x'\n",
        "7:12: there is no currency \"x\"",
    ),
    (
        "program",
        "'alice'\n",
        "'alice'\nprogram = 'x'\n",
        "7:11: there is no program \"x\"",
    ),
    (
        "fork",
        "'alice'\n",
        "'alice'\nsteps = [{ run = '1s' }, { fork = 'x' }]\n",
        "there is no program \"x\"",
    ),
    (
        "changed",
        "'alice'\n",
        "'alice'\n[[changes]]\nat = '1s'\ntask = 'b'\ntickets = 5\n",
        "9:8: there is no task \"b\"",
    ),
    (
        "nobody",
        "'alice'\n",
        "'alice'\n[[changes]]\nat = '1s'\ntickets = 5\n",
        "whose tickets change",
    ),
    (
        "twice",
        "'alice'\n",
        "'alice'\n[[tasks]]\nname = 'a'\nuser = 'alice'\n",
        "8:8: task \"a\" is defined a second time",
    ),
    (
        "around",
        "[[tasks]]",
        "[[currencies]]\nname = 'x'\nuser = 'alice'\nin = 'y'\n[[tasks]]",
        "7:6: there is no currency \"y\"",
    ),
    (
        "circle",
        "[[tasks]]",
        "[[currencies]]\nname = 'x'\nuser = 'alice'\nin = 'y'\n\
          [[currencies]]\nname = 'y'\nuser = 'alice'\nin = 'x'\n[[tasks]]",
        "7:6: x is inside itself",
    ),
];

#[test]
fn names_must_exist_and_differ() {
    for (name, from, to, words) in NAMES {
        assert_refused(
            &format!("{name}.toml"),
            &SMALL.replacen(from, to, 1),
            &[],
            &[words],
        );
    }
}

/// The same for numbers.
const RANGES: [(&str, &str, &str, &str); 14] = [
    (
        "no-cpus",
        "[users]",
        "[machine]\ncpus = 0\n[users]",
        "3:8: cpus = 0 is out of range",
    ),
    (
        "cpus",
        "[users]",
        "[machine]\ncpus = 5000\n[users]",
        "from 1 to 4096",
    ),
    (
        "tickets",
        "'alice'\n",
        "'alice'\ntickets = 0\n",
        "7:11: tickets = 0 is out of range",
    ),
    (
        "base",
        "1000",
        "99",
        "3:9: base tickets = 99 is out of range",
    ),
    (
        "nice",
        "'alice'\n",
        "'alice'\nnice = 20\n",
        "from -20 to 19",
    ),
    (
        "count",
        "'alice'\n",
        "'alice'\ncount = 0\n",
        "count = 0 is out of range",
    ),
    (
        "end",
        "'alice'\n",
        "'alice'\nstart = '1s'\nend = '1s'\n",
        "8:7: end is out of range",
    ),
    ("time", "'1s'", "'10'", "1:12: \"10\" is not a time"),
    ("long", "'1s'", "'25h'", "at most a day"),
    ("short", "'1s'", "'0s'", "duration is out of range"),
    (
        "quantum",
        "duration",
        "quantum = '1s'\nduration",
        "1:11: quantum is out of range",
    ),
    (
        "mask",
        "'alice'\n",
        "'alice'\ncpus = [0, 1]\n",
        "7:8: these CPUs are out of range",
    ),
    (
        "no-mask",
        "'alice'\n",
        "'alice'\ncpus = []\n",
        "a task needs at least one",
    ),
    (
        "change",
        "'alice'\n",
        "'alice'\n[[changes]]\nat = '1s'\nuser = 'alice'\ntickets = 50\n",
        "from 100 to 10000",
    ),
];

#[test]
fn numbers_must_be_in_range() {
    for (name, from, to, words) in RANGES {
        assert_refused(
            &format!("{name}.toml"),
            &SMALL.replacen(from, to, 1),
            &[],
            &[words],
        );
    }
    let bound = format!("{SMALL}cpus = [0]\n");
    assert_refused(
        "wide.toml",
        &bound,
        &["--cpus", "65"],
        &["up to 64 CPUs, and this one has 65"],
    );
    let task = "[[tasks]]\nuser = 'alice'\ncount = 100000\n";
    let many = format!("{SMALL}{task}name = 'b'\n{task}name = 'c'\n{task}name = 'd'\n");
    assert_refused(
        "many.toml",
        &many,
        &[],
        &["300002 users, currencies and tasks", "at most 262140"],
    );
    let deep: String = (0..9)
        .map(|depth| match depth {
            0 => "[[currencies]]\nname = 'c0'\nuser = 'alice'\n".to_owned(),
            _ => format!(
                "[[currencies]]\nname = 'c{depth}'\nuser = 'alice'\nin = 'c{}'\n",
                depth - 1
            ),
        })
        .collect();
    assert_refused(
        "deep.toml",
        &format!("{SMALL}{deep}"),
        &[],
        &["c8 is nested 9 deep"],
    );
}

/// Steps of a program.
const PROGRAMS: [(&str, &str, &str); 4] = [
    (
        "bomb",
        "{ run = '1ms' }, { fork = 'p' }",
        "9:8: this program forks itself",
    ),
    ("nothing", "", "these steps take no time"),
    (
        "yields",
        "'yield', { sleep = '0s' }",
        "these steps take no time",
    ),
    (
        "inner",
        "{ repeat = { times = 2, steps = [{ repeat = { times = 2, steps = ['yield'] } }] } }",
        "a repeat is inside a repeat",
    ),
];

#[test]
fn programs_must_take_time_and_end_their_forks() {
    let program = |steps: &str| {
        format!("{SMALL}program = 'p'\n[[programs]]\nname = 'p'\nsteps = [{steps}]\n")
    };
    for (name, steps, words) in PROGRAMS {
        assert_refused(&format!("{name}.toml"), &program(steps), &[], &[words]);
    }
    let both = format!(
        "{SMALL}program = 'p'\ntimes = 3\n[[programs]]\nname = 'p'\nsteps = [{{ run = '1ms' }}]\n"
    );
    assert_refused(
        "both.toml",
        &both,
        &[],
        &["a program, and steps or times of its own"],
    );
    // With an end they may take none: this one starts the others.
    let starter = program("{ fork = 'q' }, 'await'")
        + "times = 1\n[[programs]]\nname = 'q'\ntimes = 1\nsteps = [{ run = '5ms' }]\n";
    let report = report(&file("starter.toml", &starter), &[]);
    assert_eq!(row(&report, "tasks", "a")["received_ns"], 5_000_000);
}

#[test]
fn the_thesis_s_lottery_runs_on_one_cpu() {
    let two = SMALL.replace(
        "[users]",
        "scheduler = 'thesis'\n[machine]\ncpus = 2\n[users]",
    );
    assert_refused(
        "thesis.toml",
        &two,
        &[],
        &["2:13: thesis runs on one CPU only, not on 2"],
    );
    assert_refused(
        "enhanced.toml",
        SMALL,
        &["--scheduler", "thesis-enhanced", "--cpus", "2"],
        &["thesis-enhanced runs on one CPU only"],
    );
    stdout(&simulate(&path("thesis.toml"), &["--cpus", "1"]));
    let options = ["--scheduler", "thesis", "--cpus", "2"];
    assert_refused(
        "thesis.json",
        RT_APP,
        &options,
        &["thesis runs on one CPU only"],
    );
}

/// The same for rt-app's file.
const RT_APP_FAULTS: [(&str, &str, &str, &str); 13] = [
    ("comma", "3000 }", "3000, }", "16:63: this is not JSON"),
    (
        "policy",
        "\"priority\": -5",
        "\"policy\": \"SCHED_FIFO\"",
        "tasks.periodic.policy is SCHED_FIFO",
    ),
    (
        "default",
        "SCHED_OTHER",
        "SCHED_RR",
        "global.default_policy is SCHED_RR",
    ),
    (
        "event",
        "\"yield\": \"\"",
        "\"barrier\": \"b\"",
        "tasks.maker.phases.rest.barrier is not simulated",
    ),
    (
        "child",
        "\"fork\": \"child\"",
        "\"fork\": \"kid\"",
        "there is no task \"kid\"",
    ),
    (
        "self",
        "\"fork\": \"child\"",
        "\"fork\": \"maker\"",
        "tasks.maker: this program forks itself",
    ),
    (
        "period",
        "\"period\"",
        "\"periode\"",
        "tasks.periodic.timer has no period",
    ),
    (
        "mode",
        "\"period\"",
        "\"mode\": \"absolute\", \"period\"",
        "timer.mode is \"absolute\"",
    ),
    (
        "phase",
        "\"sleep\": 10000",
        "\"sleep\": 10000, \"cpus\": [0]",
        "phases.rest.cpus is not simulated",
    ),
    (
        "time",
        "\"run\": 2000",
        "\"run\": -1",
        "tasks.periodic.run has a wrong value",
    ),
    ("tasks", "\"tasks\"", "\"task\"", "there are no tasks"),
    (
        "no-tasks",
        RT_APP,
        "{ \"tasks\": {} }",
        "there are no tasks",
    ),
    ("list", RT_APP, "[]", "the file has a wrong value"),
];

#[test]
fn bad_rt_app_files_are_refused() {
    for (name, from, to, words) in RT_APP_FAULTS {
        assert_refused(
            &format!("{name}.json"),
            &RT_APP.replacen(from, to, 1),
            &[],
            &[words],
        );
    }
    let idle = r#"{ "tasks": { "a": { "yield": "" } } }"#;
    assert_refused(
        "idle.json",
        idle,
        &[],
        &["tasks.a: these steps take no time"],
    );
    let bound = RT_APP.replace("[0]", "[3]");
    let words = "tasks.periodic.cpus: these CPUs are out of range";
    assert_refused("bound.json", &bound, &["--cpus", "2"], &[words]);
    assert_eq!(report(&path("bound.json"), &[])["cpus"], 4);
}

#[test]
fn usage_errors_are_answered_with_the_usage() {
    let plan = file("usage.toml", SMALL);
    for options in [
        &["--cpus", "0"][..],
        &["--cpus", "4097"],
        &["--scheduler", "cfs"],
        &["--seed", "x"],
    ] {
        let output = simulate(&plan, options);
        assert_eq!(output.status.code(), Some(BAD_PLAN), "{options:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains("--help"), "{text}");
    }
}

#[test]
fn the_help_shows_the_example() {
    let output = simulate(Path::new("--help"), &[]);
    assert!(stdout(&output).contains(EXAMPLE));
}

/// A parent starts a child after the other, at most two at once; they sleep often.
const MAKE: &str = "duration = '2s'\n[machine]\ncpus = 2\n[users]\nalice = 1000\n\
    [[tasks]]\nname = 'make'\nuser = 'alice'\ntimes = 1\n\
    steps = [{ repeat = { times = 20, steps = [{ fork = 'job' }, { await-fewer = 2 }] } }, 'await']\n\
    [[programs]]\nname = 'job'\ntimes = 5\nsteps = [{ run = '1ms' }, { sleep = '200us' }]\n";

#[test]
fn parts_of_plan_9_are_switched_and_the_end_of_tasks_is_told() {
    let ended_ns = |name: &str, plan9: &str, scheduler: &str| {
        let plan = file(name, &format!("{MAKE}[plan9]\n{plan9}\n"));
        let report = report(&plan, &["--scheduler", scheduler]);
        let make = row(&report, "tasks", "make");
        assert_eq!(make["received_ns"], 100_000_000);
        assert_eq!(
            make["ended_ns"],
            row(&report, "currencies", "alice")["ended_ns"]
        );
        make["ended_ns"].as_u64().unwrap()
    };
    // 20 jobs of 6 ms, two at a time.
    let least = 60_000_000;
    let written = ended_ns("plan9.toml", "", "plan9");
    let at_once = ended_ns("plan9-wake.toml", "wake-idle = true", "plan9");
    assert!(
        least <= at_once && at_once < written,
        "{at_once}, {written}"
    );
    assert!(ended_ns("plan9-stride.toml", "wake-idle = false", "stride") < written);
    let endless = file("endless.toml", &MAKE.replace("times = 1\n", ""));
    assert!(row(&report(&endless, &[]), "tasks", "make")["ended_ns"].is_null());
}

#[test]
fn numbers_of_children_and_parts_of_plan_9_are_checked() {
    let none = MAKE.replace("await-fewer = 2", "await-fewer = 0");
    assert_refused(
        "fewer-0.toml",
        &none,
        &[],
        &["await-fewer = 0 is out of range", "1 to 100000"],
    );
    let unknown = format!("{MAKE}[plan9]\nsteal = true\n");
    assert_refused("plan9-steal.toml", &unknown, &[], &["steal"]);
}
