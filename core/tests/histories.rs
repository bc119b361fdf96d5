//! The C economy against the naive model, over random histories.

mod environment;
mod history;
mod model;
mod random;

use environment::from_environment;
use history::{History, Step, random_step, setting};
use model::Tally;
use proptest::prelude::*;
use random::Random;
use std::time::Instant;
use tombola_core::{BEHIND, BEST_EFFORT, Bill, Economy, Kind, Rules, limits};

/// Histories of 500 steps each: two thousand are a million operations. TOMBOLA_HISTORIES asks for more or fewer. A debug
/// build, where the C traps on undefined behaviour, plays a quarter.
const HISTORIES: u64 = if cfg!(debug_assertions) { 500 } else { 2000 };
const STEPS: usize = 500;

#[test]
fn a_million_operations_agree_with_the_model() {
    let histories = from_environment("TOMBOLA_HISTORIES", HISTORIES);
    let first: u64 = from_environment("TOMBOLA_SEED", 1);
    let (begun, mut picks, mut loans, mut parts, mut lent_runs, mut all) =
        (Instant::now(), 0, 0, 0, 0, Tally::default());
    for seed in first..first + histories {
        let played = std::panic::catch_unwind(|| {
            let mut random = Random(seed);
            History::play(setting(seed), (0..STEPS).map(|_| random_step(&mut random)))
        });
        let Ok(played) = played else {
            panic!(
                "repeat with TOMBOLA_SEED={seed} TOMBOLA_HISTORIES=1 cargo test -p tombola-core --test histories"
            );
        };
        picks += played.picks;
        loans += played.loans;
        parts += played.parts;
        lent_runs += played.lent_runs;
        all += played.model.tally;
    }
    println!(
        "{histories} histories in {:?}: {picks} picks, {loans} loans, {parts} of some tickets, {lent_runs} runs on them, {all:?}",
        begun.elapsed()
    );
    if histories >= 100 {
        assert!(
            picks > histories * 50,
            "only {picks} picks: too little happens"
        );
        assert!(
            loans > histories * 5 && parts > histories * 2 && lent_runs > histories,
            "only {loans} loans, {parts} of some tickets, and {lent_runs} runs on them"
        );
        assert!(
            all.rarest() > 0,
            "the histories did not use all rules: {all:?}"
        );
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    (any::<u8>(), 0..64_u32, 0..64_u32, any::<u64>()).prop_map(|(what, x, y, z)| Step {
        what,
        x,
        y,
        z,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        rng_seed: prop::test_runner::RngSeed::Fixed(1994),
        ..ProptestConfig::default()
    })]

    /// The same with proptest, which makes a failing history shorter.
    #[test]
    fn short_histories_agree_with_the_model(seed in 0..1000_u64, steps in prop::collection::vec(any_step(), 1..300)) {
        History::play(setting(seed), steps);
    }
}

/// A client of many tickets sleeps while one of a single ticket runs: after 28 s, pass x tickets needs more than 64 bits.
#[test]
fn tickets_change_after_a_long_sleep() {
    let mut economy = Economy::new(Rules::stride(1_000_000));
    let mut leaf = |tickets| {
        economy
            .new_client(Kind::Thread, BEST_EFFORT, tickets)
            .unwrap()
    };
    let (sleeper, hog) = (leaf(10_000), leaf(1));
    economy.join(hog, u64::MAX);
    for second in 1..=100 {
        economy.charge(
            hog,
            &Bill {
                used_ns: 1_000_000_000,
                ..Bill::default()
            },
        );
        economy.set_tickets(sleeper, 1);
        let (pass, vnow) = (
            economy.client(sleeper).pass,
            economy.client(BEST_EFFORT).vnow,
        );
        let lag_ns = vnow.wrapping_sub(pass) >> limits::PASS_SHIFT;
        assert!(
            lag_ns <= economy.rules().lag_ns,
            "after {second} s the sleeper is {lag_ns} ns behind"
        );
        economy.set_tickets(sleeper, 10_000);
        economy.set_pass(sleeper, 0);
    }
}

/// Alice has had 60 ms with each of 40 threads that nothing could preempt, out of turn. A thread of hers that runs now has waited
/// for the others, and bob, bound to a CPU, for her: both are behind. Bob is next there, although she is not ahead of the mean,
/// in which he is missing.
#[test]
fn a_client_that_is_behind_does_not_wait_for_another() {
    const MS: u64 = 1_000_000;
    let mut economy = Economy::new(Rules::stride(MS));
    let client = |economy: &mut Economy, kind, parent, tickets| {
        economy.new_client(kind, parent, tickets).unwrap()
    };
    let run = |economy: &mut Economy, leaf, used_ns| {
        economy.withdraw(leaf);
        economy.charge(
            leaf,
            &Bill {
                used_ns,
                ..Bill::default()
            },
        );
    };
    let [alice, bob] = [(), ()].map(|()| client(&mut economy, Kind::User, BEST_EFFORT, 1000));
    let threads: Vec<u32> = (0..41)
        .map(|_| client(&mut economy, Kind::Thread, alice, 100))
        .collect();
    let hog = client(&mut economy, Kind::Thread, bob, 100);
    for &leaf in &threads {
        economy.join(leaf, u64::MAX);
        economy.wait(leaf, u64::MAX, 0);
    }
    economy.join(hog, 1);
    economy.wait(hog, 1, 0);
    for &leaf in &threads[1..] {
        run(&mut economy, leaf, 60 * MS);
        economy.wait(leaf, u64::MAX, 0);
    }
    run(&mut economy, hog, MS);
    economy.wait(hog, 1, 0);
    run(&mut economy, threads[0], MS);
    for i in [bob, threads[0]] {
        assert_ne!(economy.client(i).state & BEHIND, 0, "client {i}");
    }
    assert_eq!(economy.pick(1), Some(hog));
    assert!(!economy.keeps(threads[0], hog));
}

/// Of alice's three threads, each has a CPU to itself. The one with nearly all of her tickets could not use them, and is behind.
/// When it waits it counts again, or her vnow would be the pass of a thread of one ticket.
#[test]
fn a_client_that_waits_for_any_cpu_counts() {
    const MS: u64 = 1_000_000;
    let mut economy = Economy::new(Rules::stride(MS));
    let alice = economy.new_client(Kind::User, BEST_EFFORT, 1000).unwrap();
    let [large, small, other] = [10_000, 1, 100].map(|tickets| {
        let leaf = economy.new_client(Kind::Thread, alice, tickets).unwrap();
        economy.join(leaf, u64::MAX);
        leaf
    });
    for _ in 0..40 {
        for leaf in [large, small, other] {
            economy.charge(
                leaf,
                &Bill {
                    used_ns: MS,
                    ..Bill::default()
                },
            );
        }
    }
    assert_ne!(economy.client(large).state & BEHIND, 0);
    economy.wait(large, u64::MAX, 0);
    assert_eq!(economy.client(large).state & BEHIND, 0);
    assert_eq!(economy.client(alice).weight, 10_001);
    assert_eq!(economy.pick(u64::MAX), Some(large));
}

/// A process waits for CPU 0. Its only thread is owed nothing by it, but it is owed much by bob.
#[test]
fn a_bound_thread_starves_if_its_process_is_owed_much() {
    const MS: u64 = 1_000_000;
    let mut economy = Economy::new(Rules::stride(MS));
    let bob = economy.new_client(Kind::User, BEST_EFFORT, 1000).unwrap();
    let process = economy.new_client(Kind::Process, bob, 100).unwrap();
    let thread = economy.new_client(Kind::Thread, process, 100).unwrap();
    let other = economy.new_client(Kind::Thread, bob, 100).unwrap();
    economy.join(thread, 1);
    economy.join(other, u64::MAX);
    economy.wait(thread, 1, 0);
    assert!(!economy.starves(thread));
    economy.charge(
        other,
        &Bill {
            used_ns: 40 * MS,
            ..Bill::default()
        },
    );
    assert_eq!(economy.client(thread).pass, economy.client(process).vnow);
    assert!(economy.starves(thread));
    // One that may run on any CPU does not.
    economy.wait(thread, u64::MAX, 0);
    assert!(!economy.starves(thread));
}

/// One of alice's threads waits for CPU 1. It has nearly all of her tickets, and is behind. While a thread is on CPU 1 that could
/// run elsewhere, she leaves CPU 0 to carol; but not if that thread is bound to CPU 1, too.
#[test]
fn a_user_waits_for_a_cpu_that_can_be_had() {
    const MS: u64 = 1_000_000;
    let mut economy = Economy::new(Rules::stride(MS));
    let [alice, bob, carol] = [10_000, 1000, 1000].map(|tickets| {
        economy
            .new_client(Kind::User, BEST_EFFORT, tickets)
            .unwrap()
    });
    let mut thread = |user, tickets, mask| {
        let leaf = (economy.new_client(Kind::Thread, user, tickets)).unwrap();
        economy.join(leaf, mask);
        leaf
    };
    let bound = thread(alice, 1000, 0b10);
    let small = thread(alice, 1, u64::MAX);
    let hog = thread(bob, 100, u64::MAX);
    let bound_hog = thread(bob, 100, 0b10);
    let other = thread(carol, 100, u64::MAX);
    for (leaf, used_ns) in [(other, 5 * MS), (small, 40 * MS), (bound, MS)] {
        let bill = Bill {
            used_ns,
            ..Bill::default()
        };
        economy.charge(leaf, &bill);
    }
    economy.wait(bound, 0b10, 0);
    for leaf in [small, other] {
        economy.wait(leaf, u64::MAX, 0);
    }
    assert_ne!(economy.client(bound).state & BEHIND, 0);
    assert_eq!(economy.client(alice).weight, 1);
    economy.runs(Some(hog), 0b10);
    assert_eq!(economy.pick(0b01), Some(other));
    assert_eq!(economy.pick(0b10), Some(bound));
    economy.runs(Some(bound_hog), 0b10);
    assert_eq!(economy.pick(0b01), Some(small));
}
