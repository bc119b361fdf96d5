//! The simulated machine and the real kernel: the same plans give the same shares.

use tombola_lab::plan::{Change, Client, Currency, Plan, Scheduler, Step, When, Work};
use tombola_lab::play::{On, play};

const MS: u64 = 1_000_000;
/// Whole periods.
const SECONDS: f64 = 3.5;
/// A part of each share.
const APART_MAX: f64 = 0.01;

fn plan(name: &str, clients: Vec<Client>) -> Plan {
    Plan {
        name: name.to_owned(),
        scheduler: Scheduler::Stride,
        clients,
        warm_up_s: 0.5,
        seconds: SECONDS,
        every_s: SECONDS,
        ..Plan::default()
    }
}

fn hog(user: u32, tickets: u32) -> Client {
    Client::burning(user, tickets)
}

fn hogs(user: u32, count: usize) -> Vec<Client> {
    vec![hog(user, 100); count]
}

fn stepping(user: u32, tickets: u32, steps: &[Step]) -> Client {
    Client {
        work: Work::Steps(steps.to_vec()),
        ..Client::burning(user, tickets)
    }
}

/// Naps for a tenth of a quantum after three quanta.
fn napper(user: u32, tickets: u32) -> Client {
    stepping(user, tickets, &[Step::Run(3 * MS), Step::Sleep(MS / 10)])
}

fn periodic(user: u32, run_ms: u64, period_ms: u64) -> Client {
    let steps = [Step::Run(run_ms * MS), Step::Timer(period_ms * MS)];
    stepping(user, 100, &steps)
}

fn beside(one: Client, others: Vec<Client>) -> Vec<Client> {
    [vec![one], others].concat()
}

fn in_currencies() -> Plan {
    let within = |name: &str, tickets| Client {
        currency: Some(name.to_owned()),
        ..hog(1, tickets)
    };
    let currency = |name: &str, tickets| Currency {
        user: 1,
        name: name.to_owned(),
        tickets,
    };
    Plan {
        currencies: vec![currency("A", 200), currency("B", 100)],
        ..plan(
            "two currencies of a user",
            vec![
                within("A", 100),
                within("A", 300),
                within("B", 100),
                hog(1, 100),
                hog(2, 100),
            ],
        )
    }
}

fn changing() -> Plan {
    Plan {
        changes: vec![Change {
            when: When::Seconds(1.0),
            client: 0,
            tickets: 100,
            nice: 0,
        }],
        every_s: 0.5,
        ..plan("400:100, then 100:100", vec![hog(1, 400), hog(1, 100)])
    }
}

fn coming_and_going() -> Plan {
    let later = Client {
        starts_s: Some(1.0),
        ..hog(2, 100)
    };
    let earlier = Client {
        ends_s: Some(2.5),
        ..hog(3, 100)
    };
    Plan {
        every_s: 0.5,
        ..plan("one begins, one ends", vec![hog(1, 100), later, earlier])
    }
}

fn plans() -> Vec<Plan> {
    vec![
        plan("400:100", vec![hog(1, 400), hog(1, 100)]),
        plan("1000:100", vec![hog(1, 1000), hog(1, 100)]),
        plan("users with 1 and 5", beside(hog(1, 100), hogs(2, 5))),
        in_currencies(),
        plan("a napper, another user", beside(napper(1, 100), hogs(2, 1))),
        plan("a napper, 3:1", beside(napper(1, 300), hogs(1, 1))),
        plan("a tenth", beside(periodic(1, 5, 50), hogs(1, 2))),
        plan("asks too much", beside(periodic(1, 25, 50), hogs(1, 3))),
        changing(),
        coming_and_going(),
    ]
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn the_simulated_machine_shares_as_the_real_one() {
    let [real, simulated] = [On::Kernel, On::Simulation]
        .map(|on| play(on, [plans(), Vec::new()]).expect("the plans are played"));
    let mut apart = Vec::new();
    for ((plan, real), (_, simulated)) in real.iter().zip(&simulated) {
        assert_eq!(real.last(), simulated.last(), "samples of {}", plan.name);
        for client in 0..plan.clients.len() {
            let share = |of: &tombola_lab::plan::Course| of.share(client, 0, of.last());
            let (real, simulated) = (share(real), share(simulated));
            let off = simulated / real - 1.0;
            let line = format!(
                "{}, client {client}: real {real:.5}, simulated {simulated:.5}, {:+.3} %",
                plan.name,
                off * 100.0
            );
            eprintln!("{line}");
            apart.extend((off.abs() > APART_MAX).then_some(line));
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
