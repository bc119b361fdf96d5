//! The decisions between several run queues.

use std::collections::VecDeque;
use tombola_core::queues::{
    PRICE_MAX, Place, SCALE, ahead, fits_better, gap, is_fast, may_move, mqs_load, mqs_neighbours,
    mqs_push, neighbours, price, pulls_from, share, usable, waking_place,
};
use tombola_core::{Economy, Kind, Rules};

/// How far the furthest queue is from queue 0, neighbour by neighbour; `None` if one cannot be reached.
fn diameter(n: u32) -> Option<u32> {
    let mut distance = vec![None; n as usize];
    distance[0] = Some(0);
    let mut next = VecDeque::from([0]);
    while let Some(i) = next.pop_front() {
        for other in neighbours(i, n) {
            if distance[other as usize].is_none() {
                distance[other as usize] = distance[i as usize].map(|d: u32| d + 1);
                next.push_back(other);
            }
        }
    }
    distance
        .into_iter()
        .try_fold(0, |most, d| Some(most.max(d?)))
}

#[test]
fn neighbours_are_a_torus_whatever_the_number_of_queues() {
    for (n, expected) in [
        (2, 1),
        (3, 1),
        (4, 1),
        (6, 2),
        (8, 2),
        (12, 3),
        (16, 3),
        (64, 7),
        (96, 7),
        (128, 9),
        (256, 15),
    ] {
        assert_eq!(diameter(n), Some(expected), "{n} queues");
    }
    for n in 1..=1024 {
        assert!(diameter(n).is_some_and(|d| d * d <= 4 * n), "{n} queues");
        for i in 0..n {
            for other in neighbours(i, n) {
                assert!(
                    neighbours(other, n).any(|back| back == i),
                    "{n} queues: {i}, {other}"
                );
            }
        }
    }
}

#[test]
fn shares_of_a_group_add_up() {
    let tickets = 1000 * u64::from(SCALE);
    let sum: u64 = (0..64).map(|_| share(tickets, 7, 64 * 7)).sum();
    assert_eq!(sum, tickets);
    assert_eq!(share(tickets, 0, 10), 1);
    assert_eq!(share(tickets, 0, 0), tickets);
}

/// Threads of 30, 15 and 7 tickets of a group that is entitled to 2.38 CPUs: the first has one, the others share the rest 15 : 7.
#[test]
fn prices_fill_with_water() {
    let tickets = [30, 15, 7].map(|t| t * u64::from(SCALE));
    let (of_group, above) = (238_000, 100_000);
    let mut at = PRICE_MAX;
    for _ in 0..60 {
        let active = tickets.iter().map(|&t| usable(t, 1, at)).sum();
        at = price(active, 3, of_group, above, at);
    }
    let used = tickets.map(|t| usable(t, 1, at) as f64);
    let all: f64 = used.iter().sum();
    let rates = used.map(|t| 2.38 * t / all);
    for (rate, due) in rates
        .into_iter()
        .zip([1.0, 1.38 * 15.0 / 22.0, 1.38 * 7.0 / 22.0])
    {
        assert!((rate - due).abs() < 0.001, "{rates:?}");
    }
}

/// With a CPU for each thread, all count the same; and when the CPUs become fewer, tickets count again.
#[test]
fn prices_fall_and_rise() {
    let tickets = [1, 10_000].map(|t| t * u64::from(SCALE));
    let mut at = PRICE_MAX;
    let mut settle = |of_group| {
        for _ in 0..100 {
            let active = tickets.iter().map(|&t| usable(t, 1, at)).sum();
            at = price(active, 2, of_group, 100_000, at);
        }
        tickets.map(|t| usable(t, 1, at))
    };
    let [small, large] = settle(200_000);
    assert_eq!(small, large);
    let [small, large] = settle(50_000);
    assert_eq!((small, large), (tickets[0] << 8, tickets[1] << 8));
}

#[test]
fn what_moves_fits_the_gap() {
    // The smallest that turns the imbalance; else the largest.
    assert!(fits_better(100, 60, 90));
    assert!(fits_better(100, 60, 40));
    assert!(fits_better(100, 40, 30));
    assert!(fits_better(100, 1, 0));
    assert!(!fits_better(100, 50, 51));
    assert!(may_move(100, 400, false) && !may_move(100, 401, false) && may_move(100, 401, true));
}

#[test]
fn a_clock_is_fast_by_service() {
    let a_ms = (1_000_000 << 16) / 500;
    assert!(is_fast(0, 11 * a_ms, 500 << 8, 10_000_000));
    assert!(!is_fast(0, 9 * a_ms, 500 << 8, 10_000_000));
    assert!(!is_fast(11 * a_ms, 0, 500 << 8, 10_000_000));
    assert!(is_fast(
        0u64.wrapping_sub(5 * a_ms),
        6 * a_ms,
        500 << 8,
        10_000_000
    ));
}

/// A client goes to a queue only if that is fast and has less load.
#[test]
fn a_partner_is_ahead_and_has_less_load() {
    let a_ms = (1_000_000 << 16) / 500;
    assert_eq!(gap(600, 400, 8), 1600);
    assert_eq!(gap(400, 600, 8), 0);
    assert_eq!(ahead(0, 11 * a_ms, 1600, 500 << 8, 10_000_000), 11 * a_ms);
    assert_eq!(ahead(0, 9 * a_ms, 1600, 500 << 8, 10_000_000), 0);
    assert_eq!(ahead(0, 11 * a_ms, 0, 500 << 8, 10_000_000), 0);
    assert_eq!(ahead(11 * a_ms, 0, 1600, 500 << 8, 10_000_000), 0);
    let wrapped = 0u64.wrapping_sub(5 * a_ms);
    assert_eq!(ahead(wrapped, 6 * a_ms, 1, 500 << 8, 10_000_000), 11 * a_ms);
}

#[test]
fn a_waking_client_takes_an_idle_cpu_and_a_new_one_the_least_load() {
    for is_new in [false, true] {
        assert_eq!(waking_place(true, true, true, is_new), Place::Own);
        assert_eq!(waking_place(true, false, true, is_new), Place::Idle);
        assert_eq!(waking_place(false, false, true, is_new), Place::Idle);
        assert_eq!(waking_place(false, false, false, is_new), Place::Least);
    }
    assert_eq!(waking_place(true, false, false, false), Place::Own);
    assert_eq!(waking_place(true, false, false, true), Place::Least);
}

#[test]
fn an_idle_cpu_pulls_from_the_most_load_where_clients_wait() {
    assert!(pulls_from(true, 5, 4) && !pulls_from(true, 4, 5));
    assert!(!pulls_from(false, 5, 4));
    // A load of less than a ticket for each CPU is one.
    assert!(pulls_from(true, 0, 0));
}

#[test]
fn mqs_pushes_to_the_first_of_the_next_three_that_idles_or_has_a_quarter_less() {
    assert_eq!(mqs_neighbours(6, 8), [7, 0, 1]);
    assert_eq!(mqs_neighbours(1, 3), [2, 0, 1]);
    assert_eq!(mqs_neighbours(0, 1), [0, 0, 0]);
    assert_eq!(mqs_load(3, 1, 1), 4000);
    assert_eq!(mqs_load(3, 8, 8), 1375);
    // The first without load comes before one with less.
    assert_eq!(mqs_push(2000, [1000, 0, 0]), Some(1));
    assert_eq!(mqs_push(4000, [4000, 3000, 1000]), Some(1));
    // The difference is a quarter of the mean or more: 9 to 7, but not 8 to 7.
    assert_eq!(mqs_push(9000, [7000, 9000, 9000]), Some(0));
    assert_eq!(mqs_push(8000, [7000, 8000, 7000]), None);
    // It stops at the first that has a quarter more.
    assert_eq!(mqs_push(4000, [6000, 1000, 1000]), None);
    assert_eq!(mqs_push(4000, [4000, 4000, 1000]), Some(2));
    assert_eq!(mqs_push(4000, [4000, 4000, 6000]), None);
    assert_eq!(mqs_push(0, [0, 0, 0]), None);
}

/// A user with parts on two queues, and another one on each; all with waiting threads of 100 tickets.
struct TwoQueues {
    economy: Economy,
    parts: [u32; 2],
    leaves: Vec<(usize, u32)>,
}

impl TwoQueues {
    fn new() -> Self {
        let mut economy = Economy::with_queues(Rules::stride(1_000_000), 2);
        let mut leaves = Vec::new();
        let parts = [0, 1].map(|queue| {
            let best_effort = economy.on(queue).roots()[1];
            let users = [600, 1000].map(|tickets| {
                (economy.new_client(Kind::User, best_effort, tickets * SCALE))
                    .expect("there is room")
            });
            for user in [users[0], users[0], users[1]] {
                let leaf =
                    (economy.new_client(Kind::Thread, user, 100 * SCALE)).expect("there is room");
                economy.join(leaf, u64::MAX);
                economy.wait(leaf, u64::MAX, 0);
                leaves.push((queue, leaf));
            }
            users[0]
        });
        Self {
            economy,
            parts,
            leaves,
        }
    }

    /// Lets each thread run for a time of its own.
    fn run(&mut self) {
        for (n, &(queue, leaf)) in self.leaves.iter().enumerate() {
            let bill = tombola_core::Bill {
                used_ns: 1_000_000 * (n as u64 * 5 % 7 + 1),
                ..Default::default()
            };
            self.economy.on(queue).charge(leaf, &bill);
        }
    }

    /// What a leaf is owed beside the clock of its queue, ns: its lag, and its portion of its user's.
    fn owed(&mut self, queue: usize, leaf: u32) -> f64 {
        let mut owed = 0.0;
        let (mut i, mut portion) = (leaf, 1.0);
        let economy = self.economy.on(queue);
        let best_effort = economy.roots()[1];
        while i != best_effort {
            let c = *economy.client(i);
            let p = economy.client(c.parent);
            let lag = p.vnow.wrapping_sub(c.pass) as i64 as f64 / 65536.0 * f64::from(c.tickets);
            owed += portion * lag;
            portion *= f64::from(c.tickets) / f64::from(p.weight);
            i = c.parent;
        }
        // The portion of the last currency was not used.
        owed
    }
}

/// A thread that changes its queue takes along what it is owed; nothing changes for the threads that it leaves, nor for those to
/// which it comes. Clocks move by what comes and goes, so all are compared with one of them.
#[test]
fn a_leaf_takes_along_what_it_is_owed() {
    let mut two = TwoQueues::new();
    two.run();
    let mover = two.leaves[0].1;
    let clock = |two: &mut TwoQueues, queue: usize| {
        let best_effort = two.economy.on(queue).roots()[1];
        two.economy.client(best_effort).vnow
    };
    // Service by pass 0, for each ticket: what was owed beside the clock, less what the clock has given since.
    let standing = |two: &mut TwoQueues| -> Vec<f64> {
        let leaves = two.leaves.clone();
        leaves
            .iter()
            .map(|&(queue, leaf)| {
                let worth = if leaves
                    .iter()
                    .position(|&(_, l)| l == leaf)
                    .expect("it is one")
                    % 3
                    == 2
                {
                    1000.0
                } else {
                    300.0
                };
                let clock = clock(two, queue) as i64 as f64 / 65536.0 * worth * f64::from(SCALE);
                two.owed(queue, leaf) - clock
            })
            .collect()
    };
    let before = standing(&mut two);
    // The user has four threads: 150 tickets each once one has moved, so let it have twice 600 in all.
    let mut moving = two.economy.on(0).take(mover);
    (moving.before, moving.after, moving.outermost) = (600 * SCALE, 300 * SCALE, 1);
    two.economy.move_out(two.parts[0], &mut moving);
    two.economy.on(1).put(mover, two.parts[1]);
    (moving.before, moving.after) = (600 * SCALE, 900 * SCALE);
    two.economy.move_in(two.parts[1], &mut moving);
    two.economy.place_mover(mover, &moving);
    two.economy.join(mover, u64::MAX);
    two.economy.wait(mover, u64::MAX, 0);
    two.leaves[0].0 = 1;
    for ((&(_, leaf), before), after) in two
        .leaves
        .clone()
        .iter()
        .zip(before)
        .zip(standing(&mut two))
    {
        assert!(
            (after - before).abs() < 1000.0,
            "{leaf}: {before} ns, {after} ns"
        );
    }
}
