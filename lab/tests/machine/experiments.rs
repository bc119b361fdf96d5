//! Experiments are carried out in the same way each time: the same plans give the same bytes. Those that need no real kernel are
//! simulated as well.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tombola_lab::experiment::{Experiment, Method, series};
use tombola_lab::experiments::{EXPERIMENTS, find};
use tombola_lab::plan::{
    Change, Client, Currency, Deadline, Group, Plan, Request, Scheduler, When, Work,
};
use tombola_lab::play::On;
use tombola_lab::result::Row;

fn plan(scheduler: Scheduler) -> Plan {
    let disk = Client {
        work: Work::Disk,
        ..Client::burning(2, 100)
    };
    let film = Client {
        reserved: Some(20),
        deadline: Some(Deadline {
            runtime_ns: 2_000_000,
            period_ns: 10_000_000,
        }),
        starts_s: Some(0.5),
        ends_s: Some(1.5),
        ..Client::running(3, &["player", "--free"])
    };
    let inside = Client {
        currency: Some("inside".to_owned()),
        groups: vec![Group::new("around", 100), Group::new("inside", 100)],
        ..Client::burning(1, 400)
    };
    let change = Change {
        when: When::Seconds(1.0),
        client: 0,
        tickets: 100,
        nice: 6,
    };
    Plan {
        name: scheduler.name().to_owned(),
        scheduler,
        currencies: vec![Currency {
            user: 1,
            name: "inside".to_owned(),
            tickets: 300,
        }],
        clients: vec![inside, Client::burning(1, 100), disk, film],
        request: Some(Request {
            client: 0,
            percent: 56,
        }),
        changes: vec![change],
        warm_up_s: 0.5,
        seconds: 2.0,
        every_s: 0.1,
        trace: scheduler.policy().is_some(),
        ..Plan::default()
    }
}

const TWICE: Experiment = Experiment {
    name: "twice",
    about: "tickets that change, a currency, a reservation, a film, a disk and a trace, twice",
    source: "none",
    method: Method::Plans {
        plans: || {
            let schedulers = [
                Scheduler::Lottery,
                Scheduler::Nice,
                Scheduler::Weight,
                Scheduler::Deadline,
            ];
            let plans = schedulers.map(plan).to_vec();
            [plans.clone(), plans]
        },
        report: |_, played| {
            let (first, second) = played.split_at(4);
            assert_eq!(series(first), series(second));
            assert_eq!(format!("{first:?}"), format!("{second:?}"));
            assert!(!first[0].1.draws.is_empty(), "the lottery was traced");
            let answer = first[0].1.answer.as_ref().expect("one was asked for");
            assert_eq!(answer.status, 1, "{}", answer.text);
            for (_, course) in first {
                let shown = |seconds: f64| course.samples[course.sample_at(seconds)].units[3];
                assert_eq!(shown(0.4), 0, "it begins later");
                assert!(shown(1.5) > 0 && shown(1.6) == shown(2.0), "it has ended");
            }
            let rows = first.iter().map(|(plan, course)| Row {
                name: plan.name.clone(),
                measured: course.used_s(2, 0, course.last()),
                published: None,
                bar: "the one with the disk gets CPU time".to_owned(),
                pass: Some(course.used_s(2, 0, course.last()) > 0.1),
            });
            Ok(rows.collect())
        },
    },
};

#[test]
#[ignore = "boots virtual machines: make robust"]
fn at_length_the_same_plans_give_the_same_bytes() {
    let out = folder("twice");
    assert_eq!(TWICE.carry_out(On::Kernel, out.clone()).unwrap(), 0);
    let rows = rows(&out);
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0]["name"], "lottery");
    fs::remove_dir_all(out).unwrap();
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("tombola-{name}-{}", std::process::id()))
}

fn rows(out: &Path) -> Vec<Value> {
    let text = fs::read_to_string(out.join("result.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

const SIMULATED: [&str; 6] = [
    "rate",
    "rate-over-time",
    "relative-rate",
    "relative-rate-change",
    "insulation-user",
    "insulation-currency",
];

/// What schedulers of the past give by their sources: experiment, row, figure.
const HISTORIC: [(&str, &str, f64); 6] = [
    ("rate", "mach (simulated) 10:1", 1.0),
    ("relative-rate", "linux-2.4 (simulated) 0/16", 3.0),
    ("relative-rate", "linux-2.4 (simulated) 0/17", 6.0),
    (
        "insulation-user",
        "linux-2.4 (simulated) 1 against 2",
        1.0 / 3.0,
    ),
    ("insulation-user", "fairsched (simulated) 1 against 2", 0.5),
    ("insulation-user", "fairsched (simulated) 1 against 10", 0.5),
];

#[test]
#[ignore = "needs what make has built: make test"]
fn simulated_experiments_meet_their_bars() {
    for name in SIMULATED {
        let experiment = find(name).expect("there is such an experiment");
        let out = folder(name);
        let status = experiment.carry_out(On::Simulation, out.clone()).unwrap();
        assert_eq!(status, 0, "{name} did not meet its bars");
        let rows = rows(&out);
        let of_the_past = HISTORIC.iter().filter(|(of, _, _)| *of == name);
        for (_, wanted, due) in of_the_past {
            let mut rows = rows.iter();
            let row = rows.find(|row| row["name"] == *wanted).expect(wanted);
            let measured = row["measured"].as_f64().expect("a number");
            assert!((measured / due - 1.0).abs() <= 0.01, "{wanted}: {measured}");
            assert_eq!(row["pass"], Value::Null, "it is only there to compare with");
        }
        assert!(out.join(format!("{name}.png")).is_file());
        fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn experiments_with_one_machine_do_not_take_simulate() {
    let lab = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tombola-lab"))
            .args(words)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (_, list, _) = lab(&["--list"]);
    assert_eq!(
        list.matches("--simulate").count(),
        SIMULATED.len(),
        "{list}"
    );
    for experiment in EXPERIMENTS {
        if SIMULATED.contains(&experiment.name) {
            assert_eq!(experiment.obstacle(), None, "{}", experiment.name);
            continue;
        }
        let out = folder("refused");
        let folder = out.to_str().expect("UTF-8");
        let (status, _, errors) = lab(&[experiment.name, "--simulate", "--out", folder]);
        assert_eq!(status, Some(2), "{errors}");
        for words in ["does not take --simulate\n  cause: ", "\n  next:  "] {
            assert!(errors.contains(words), "{errors}");
        }
        let is_simulated = errors.contains("cause: it always runs on the simulated machine");
        let always = ["multi-queue", "scale"].contains(&experiment.name);
        assert_eq!(is_simulated, always, "{errors}");
        assert!(!out.exists(), "nothing was begun");
    }
}
