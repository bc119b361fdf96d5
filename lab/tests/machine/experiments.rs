//! Experiments are carried out in the same way each time: the same plans give the same bytes.

use std::fs;
use tombola_lab::experiment::{Experiment, series};
use tombola_lab::plan::{
    Change, Client, Currency, Deadline, Group, Plan, Request, Scheduler, When, Work,
};
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
    run: |bench| {
        let schedulers = [
            Scheduler::Lottery,
            Scheduler::Nice,
            Scheduler::Weight,
            Scheduler::Deadline,
        ];
        let plans = schedulers.map(plan);
        let [first, second] = bench.play([&plans, &plans])?;
        let text = |courses: &[_]| {
            let (plans, courses): (Vec<_>, Vec<_>) = plans.iter().zip(courses).unzip();
            series(&plans, &courses)
        };
        assert_eq!(text(&first), text(&second));
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        assert!(!first[0].draws.is_empty(), "the lottery was traced");
        let answer = first[0].answer.as_ref().expect("one was asked for");
        assert_eq!(answer.status, 1, "{}", answer.text);
        for course in &first {
            let shown = |seconds: f64| course.samples[course.sample_at(seconds)].units[3];
            assert_eq!(shown(0.4), 0, "it begins later");
            assert!(shown(1.5) > 0 && shown(1.6) == shown(2.0), "it has ended");
        }
        bench.write("series.csv", &text(&first))?;
        let rows = plans.iter().zip(&first).map(|(plan, course)| Row {
            name: plan.name.clone(),
            measured: course.used_s(2, 0, course.last()),
            published: None,
            bar: "the one with the disk gets CPU time".to_owned(),
            pass: Some(course.used_s(2, 0, course.last()) > 0.1),
        });
        Ok(rows.collect())
    },
};

#[test]
#[ignore = "boots virtual machines: make test"]
fn the_same_plans_give_the_same_bytes() {
    let out = std::env::temp_dir().join(format!("tombola-twice-{}", std::process::id()));
    assert_eq!(TWICE.carry_out(out.clone()).unwrap(), 0);
    let rows = fs::read_to_string(out.join("result.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0]["name"], "lottery");
    fs::remove_dir_all(out).unwrap();
}
