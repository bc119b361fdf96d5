//! Priority inversion: a client with most tickets waits for a lock that a task of one ticket holds, beside hogs.

use std::cell::Cell;
use std::rc::Rc;
use tombola_sim::{
    Act, Costs, MS, Program, Random, Rules, SECOND, Scheduler, Simulation, TaskId, Tombola, hog,
};

/// Takes a lock again and again, holds it for so long, and counts how often it has.
fn locks(hold_ns: u64) -> (Program, Rc<Cell<u64>>) {
    let turns = Rc::new(Cell::new(0));
    let counts = Rc::clone(&turns);
    let program: Program = Rc::new(move |n, _: &mut Random| match n % 3 {
        1 => Act::Lock(0),
        2 => Act::Run(hold_ns),
        _ => {
            counts.set(counts.get() + 1);
            Act::Unlock(0)
        }
    });
    (program, turns)
}

struct Inversion {
    /// How often the client had the lock.
    turns: u64,
    /// CPU time of the client, the holder and the hog of their user, and of the other user's.
    ran_ns: [u64; 4],
}

/// 20 s on so many CPUs, with a hog of the other user for each.
fn inversion(rules: Rules, cpus: usize, transfers: bool) -> Inversion {
    let mut scheduler = Tombola::new(rules);
    if transfers {
        scheduler.transfer();
    }
    let mut s = Simulation::new(scheduler, cpus, Costs::default(), 1);
    let [alice, bob] = [1000, 1000].map(|tickets| s.scheduler.user(tickets));
    let (program, turns) = locks(MS);
    let client = s.task(alice, 800, program);
    let holder = s.task(alice, 1, locks(10 * MS).0);
    let hogs: Vec<TaskId> = (0..cpus).map(|_| s.task(alice, 100, hog())).collect();
    let others: Vec<TaskId> = (0..cpus).map(|_| s.task(bob, 100, hog())).collect();
    s.run_until(20 * SECOND);
    let ran = |tasks: &[TaskId]| tasks.iter().map(|&t| s.machine.ran_ns(t)).sum();
    Inversion {
        turns: turns.get(),
        ran_ns: [ran(&[client]), ran(&[holder]), ran(&hogs), ran(&others)],
    }
}

/// Of alice's CPU time the two have what 801 of 901 tickets give, as if none of them slept, and spend it in turn.
#[test]
fn a_lock_of_a_poor_task_does_not_hold_up_a_rich_one() {
    for (rules, within) in [(Rules::stride(MS), 0.001), (Rules::lottery(MS), 0.01)] {
        let without = inversion(rules, 1, false);
        let with = inversion(rules, 1, true);
        let [client, holder, hog, _] = with.ran_ns;
        let share = (client + holder) as f64 / (client + holder + hog) as f64;
        assert!((share - 801.0 / 901.0).abs() < within, "a share of {share}");
        assert!(
            with.turns >= holder / (10 * MS) && with.turns > 10 * without.turns,
            "{} turns, {} without transfers",
            with.turns,
            without.turns
        );
    }
}

/// Users have what is due to them, whoever lends to whom, and no time is charged twice or to nobody.
#[test]
fn the_other_user_has_its_half() {
    for cpus in [1, 2, 4] {
        for transfers in [false, true] {
            let ran_ns = inversion(Rules::stride(MS), cpus, transfers).ran_ns;
            let all = cpus as u64 * 20 * SECOND;
            assert_eq!(ran_ns.iter().sum::<u64>(), all);
            let others = ran_ns[3];
            assert!(
                others.abs_diff(all / 2) <= 10 * MS,
                "{others} ns of {all} on {cpus} CPUs, transfers: {transfers}"
            );
        }
    }
}
