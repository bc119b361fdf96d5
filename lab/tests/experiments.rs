//! Experiments are carried out in the same way each time: the same plans give the same bytes.

use std::fs;
use tombola_lab::experiment::{Experiment, series};
use tombola_lab::plan::{Change, Client, Plan, Scheduler, When, Work};
use tombola_lab::result::Row;

fn plan(scheduler: Scheduler) -> Plan {
    let disk = Client {
        work: Work::Disk,
        ..Client::burning(2, 100)
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
        clients: vec![Client::burning(1, 400), Client::burning(1, 100), disk],
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
    about: "tickets that change, a disk and a trace, twice",
    source: "none",
    run: |bench| {
        let plans = [Scheduler::Lottery, Scheduler::Nice, Scheduler::Weight].map(plan);
        let [first, second] = bench.play([&plans, &plans])?;
        let text = |courses: &[_]| {
            let (plans, courses): (Vec<_>, Vec<_>) = plans.iter().zip(courses).unzip();
            series(&plans, &courses)
        };
        assert_eq!(text(&first), text(&second));
        assert_eq!(format!("{first:?}"), format!("{second:?}"));
        assert!(!first[0].draws.is_empty(), "the lottery was traced");
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
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["name"], "lottery");
    fs::remove_dir_all(out).unwrap();
}
