//! The decisions between several run queues.

mod random;

use random::Random;
use std::collections::VecDeque;
use tombola_core::limits::{APART_MAX, DRAW_SHIFT};
use tombola_core::queues::{
    self, CPU, Counts, PRICE_MAX, Place, SCALE, ahead, entitled, excess, faded, fits_better, gap,
    group_clock, is_crowded, is_far, lead_ns, may_move, merged, mqs_load, mqs_neighbours, mqs_push,
    neighbours, next_look, off, off_of, pulls_from, share, usable, waking_place, widest, width,
};
use tombola_core::{BEST_EFFORT, Economy, Kind, Rules, advance};

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

/// The price of a group of threads that is entitled to so many CPUs, after some periods, and what they can use.
fn settle<const N: usize>(tickets: [u64; N], price: &mut u64, cpus: f64) -> [u64; N] {
    let cpus = (cpus * CPU as f64) as u64;
    for _ in 0..200 {
        let active = tickets.iter().map(|&t| usable(t, 1, *price, cpus)).sum();
        *price = queues::price(active, cpus);
    }
    tickets.map(|t| usable(t, 1, *price, cpus))
}

/// Threads of 30, 15 and 7 tickets of a group that is entitled to 2.38 CPUs: the first has one, the others share the rest 15 : 7.
#[test]
fn prices_fill_with_water() {
    let tickets = [30, 15, 7].map(|t| t * u64::from(SCALE));
    let used = settle(tickets, &mut { PRICE_MAX }, 2.38);
    let all: u64 = used.iter().sum();
    let rates = used.map(|t| 2.38 * t as f64 / all as f64);
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
    let mut price = PRICE_MAX;
    let [small, large] = settle(tickets, &mut price, 2.0);
    assert!(large - small <= 1, "{small} and {large}");
    let [small, large] = settle(tickets, &mut price, 1.1);
    assert_eq!(small, tickets[0] << 8);
    assert!(large.abs_diff(10 * small) < 10, "{small} and {large}");
    let [small, large] = settle(tickets, &mut price, 0.5);
    assert_eq!((small, large), (tickets[0] << 8, tickets[1] << 8));
}

/// A user whose threads can use all CPUs counts with all of its tickets, whatever the price fell to while some of them slept. One
/// that can use a part counts with that.
#[test]
fn who_can_use_all_cpus_is_not_capped() {
    let tickets = 1000 * u64::from(SCALE);
    assert_eq!(usable(tickets, 4, 77, 4 * CPU), tickets << 8);
    assert_eq!(usable(tickets, 3, 77, 4 * CPU), 3 * 77);
    assert_eq!(entitled(tickets << 8, 4, 77, 4 * CPU), 4 * CPU);
    assert_eq!(entitled(3 * 77, 3, 77, 4 * CPU), 3 * CPU);
    assert_eq!(entitled(77 / 7, 3, 77, 4 * CPU), CPU / 7);
}

#[test]
fn what_moves_fits_the_gap() {
    // The smallest that turns the imbalance; else the largest.
    assert!(fits_better(100, 60, 90));
    assert!(fits_better(100, 60, 40));
    assert!(fits_better(100, 40, 30));
    assert!(fits_better(100, 1, 0));
    assert!(!fits_better(100, 50, 51));
    assert!(may_move(100, 300, false) && !may_move(100, 301, false) && may_move(100, 301, true));
}

/// At 500 tickets for each CPU.
#[test]
fn a_clock_forgets_what_is_too_far_from_its_group_s() {
    let (ms, price, group) = (1_000_000, 500 << 8, 77);
    let most = advance(APART_MAX * ms, 1 << DRAW_SHIFT, 500);
    for off in [0, most / 2, most] {
        assert_eq!(excess(group + off, group, ms, price), 0);
        assert_eq!(excess(group.wrapping_sub(off), group, ms, price), 0);
    }
    let clock = group.wrapping_sub(most + 9);
    assert_eq!(excess(group + most + 9, group, ms, price), 9);
    assert_eq!(excess(clock, group, ms, price) as i64, -9);
}

/// Between three quarters of half the bound and all of that.
#[test]
fn looks_are_at_random_times() {
    let looks: Vec<u64> = [0, 0x8000, 0xffff, 1 << 16]
        .map(|seed| next_look(100, 8000, seed))
        .to_vec();
    assert_eq!(looks, [4100, 3600, 3101, 4100]);
}

#[test]
fn a_group_s_clock_stays_among_those_of_its_parts() {
    let (ms, price) = (1_000_000, 500 << 8);
    let later = 77 + advance(ms + ms / 64, 1 << DRAW_SHIFT, 500);
    assert_eq!(group_clock(77, ms, price, 70, later + 9), later);
    assert_eq!(group_clock(77, ms, price, later + 1, later + 9), later + 1);
    assert_eq!(group_clock(77, ms, price, 70, 80), 80);
}

#[test]
fn a_group_is_as_wide_as_it_was_lately() {
    let mut of_late = widest(0, 4);
    assert_eq!(width(of_late), 4);
    for _ in 0..15 {
        of_late = widest(of_late, 3);
        assert_eq!(width(of_late), 4);
    }
    for _ in 0..15 {
        of_late = widest(of_late, 3);
    }
    assert_eq!(width(of_late), 3);
    assert_eq!(width(widest(of_late, 5)), 5);
}

#[test]
fn a_clock_leads_by_service() {
    let a_ms = (1_000_000 << 16) / 500;
    let lead_ms = |own, other| (lead_ns(own, other, 500 << 8) + 500_000) / 1_000_000;
    assert_eq!(lead_ms(0, 11 * a_ms), 11);
    assert_eq!(lead_ms(11 * a_ms, 0), 0);
    assert_eq!(lead_ms(0u64.wrapping_sub(5 * a_ms), 6 * a_ms), 11);
}

/// A client goes to a queue that leads by more than the bound and has less load.
#[test]
fn a_partner_is_ahead_and_has_less_load() {
    let ms = 1_000_000;
    assert_eq!(ahead(11 * ms, 1600, 10 * ms), 11 * ms);
    assert_eq!(ahead(9 * ms, 1600, 10 * ms), 0);
    assert_eq!(ahead(11 * ms, 0, 10 * ms), 0);
    assert!(is_far(31 * ms, 10 * ms) && !is_far(30 * ms, 10 * ms));
}

/// With the same load, a queue that leads by a hundredth of four seconds is to get a hundredth of the mean load.
#[test]
fn a_gap_closes_the_distance_of_clocks_too() {
    assert_eq!(gap(600, 400, 8, 500, 0), 1600);
    assert_eq!(gap(400, 600, 8, 500, 0), 0);
    let mean = 500 << 16;
    let closing = gap(mean, mean, 1, mean, (1 << 32) / 100);
    assert!(closing.abs_diff(mean / 100) < mean / 10_000, "{closing}");
    assert_eq!(gap(mean, mean + mean / 50, 1, mean, (1 << 32) / 100), 0);
    // However far they are apart: by no more than the mean load.
    assert_eq!(gap(mean, mean, 8, mean, 1 << 40) >> 10, (8 * mean) >> 10);
}

/// Three leaves bound to CPU 0 and one to CPU 1.
#[test]
fn bound_leaves_crowd_a_cpu() {
    let mut economy = Economy::new(Rules::stride(1_000_000));
    for mask in [1, 1, 1, 2] {
        let leaf = economy.new_client(Kind::Thread, BEST_EFFORT, 100).unwrap();
        economy.join(leaf, mask);
    }
    assert_eq!(economy.crowd(1), 3);
    assert_eq!(economy.crowd(3), 1);
    assert_eq!(economy.crowd(4), 0);
    assert!(is_crowded(3, 1) && !is_crowded(2, 1) && !is_crowded(1, 1));
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

#[test]
fn merged_passes_are_weighted_by_tickets() {
    let far = 1u64 << 40;
    assert_eq!(merged(0, 300, far, 100), far / 4);
    assert_eq!(merged(far, 300, 0, 100), far - far / 4);
    assert_eq!(merged(7, 0, 9, 0), 7);
}

/// A waiting leaf goes to another queue with its pass, and nothing of it is left behind.
#[test]
fn a_leaf_changes_its_queue() {
    let mut economy = Economy::with_queues(Rules::stride(1_000_000), 2);
    let [on_0, on_1] = [0, 1].map(|queue| {
        let best_effort = economy.on(queue).roots()[1];
        economy
            .new_client(Kind::User, best_effort, 1000 * SCALE)
            .expect("there is room")
    });
    let leaf = economy
        .on(0)
        .new_client(Kind::Thread, on_0, 100 * SCALE)
        .expect("there is room");
    economy.on(0).join(leaf, u64::MAX);
    economy.wait(leaf, u64::MAX, 0);
    let pass = economy.client(leaf).pass;
    economy.take(leaf);
    assert_eq!(economy.on(0).counters().waiting, 0);
    assert_eq!(
        (economy.client(on_0).active, economy.client(on_0).weight),
        (0, 0)
    );
    economy.on(1).put(leaf, on_1, 3);
    economy.join(leaf, u64::MAX);
    economy.wait(leaf, u64::MAX, 0);
    assert_eq!(economy.client(leaf).pass, pass + 3);
    assert_eq!(economy.on(1).pick(1), Some(leaf));
    assert_eq!(economy.on(0).pick(1), None);
}

/// Two active users with 1000 tickets on one queue; the first one's pass is `ahead` of its group's.
fn held(ahead: i64) -> (i64, bool) {
    let mut economy = Economy::new(Rules::stride(1_000_000));
    let users = [0, 1].map(|_| {
        let user = economy.new_client(Kind::User, BEST_EFFORT, 1000).unwrap();
        let leaf = economy.new_client(Kind::Thread, user, 100).unwrap();
        economy.join(leaf, 1);
        user
    });
    let group_pass = economy.client(users[0]).pass;
    economy.set_pass(users[0], group_pass.wrapping_add_signed(ahead));
    let lags = economy.hold(users[0], group_pass, 2000 << 8, 10_000_000);
    let pass = economy.client(users[0]).pass;
    (pass.wrapping_sub(group_pass) as i64, lags)
}

#[test]
fn a_part_is_held_near_its_group_s_pass() {
    // Four bounds of 10 ms at a price of 2000 are more than sixteen quanta at 1000 tickets.
    let within = advance(40_000_000, 1 << 20, 2000) as i64;
    assert_eq!(held(within), (within, false));
    assert_eq!(held(2 * within), (within, true));
    assert_eq!(held(-2 * within), (-within, true));
}

#[test]
fn parts_with_few_tickets_may_be_some_quanta_off() {
    let mut economy = Economy::new(Rules::stride(1_000_000));
    let part = economy.new_client(Kind::User, BEST_EFFORT, 10).unwrap();
    let leaf = economy.new_client(Kind::Thread, part, 100).unwrap();
    economy.join(leaf, 1);
    let (pass, within) = (economy.client(part).pass, advance(16_000_000, 1 << 20, 10));
    assert!(!economy.hold(part, pass + within, 2000 << 8, 10_000_000));
    assert!(economy.hold(part, pass + within + 1, 2000 << 8, 10_000_000));
    assert_eq!(economy.client(part).pass, pass + 1);
}

/// A part of 22 tickets is ahead after a slice by what one of 77,000 gets in seconds. That hardly changes the mean.
#[test]
fn parts_are_off_their_group_in_the_mean_by_tickets() {
    let off_all = |group_pass, parts: &[(u64, u32)]| {
        let each = parts.iter().map(|&(pass, t)| off_of(group_pass, pass, t));
        let sum = each.fold(0_u64, u64::wrapping_add);
        off(sum, parts.iter().map(|&(_, t)| u64::from(t)).sum())
    };
    assert_eq!(off_all(100, &[(90, 30), (110, 30)]), 0);
    assert_eq!(off_all(100, &[(105, 30), (108, 60)]), 7);
    assert_eq!(off_all(100, &[(80, 30), (90, 10)]), -17);
    assert_eq!(off_all(u64::MAX - 5, &[(4, 7)]), 10);
    assert_eq!(off_all(0, &[]), 0);
    let slice = advance(1_000_000, 1 << 20, 22);
    let behind = advance(50_000_000, 1 << 20, 77_000);
    let off = off_all(behind, &[(behind + slice, 22), (0, 77_000)]);
    let expected = -(advance(49_000_000, 1 << 20, 77_022) as i64);
    assert!(
        (off - expected).abs() < -expected / 1000,
        "{off} {expected}"
    );
}

fn below(random: &mut Random, n: u64) -> u64 {
    random.next() % n
}

/// What sleeping clients count fades for each by itself: one that wakes up after a long sleep takes nothing of a fresh one's.
#[test]
fn tickets_fade_for_each_sleeper_by_itself() {
    let mut random = Random(11);
    let mut clients = [(Counts::default(), 0_u64); 8];
    let mut asleep = 0_u64;
    for period in 0..20_000 {
        asleep -= faded(asleep);
        for (_, left) in &mut clients {
            *left -= *left / 4;
        }
        for _ in 0..below(&mut random, 3) {
            let (counts, left) = &mut clients[below(&mut random, 8) as usize];
            let usable = (below(&mut random, 1 << 20) + 1) << 16;
            // It wakes up, or falls asleep, or is asleep and leaves.
            let now = match (counts.usable, below(&mut random, 4)) {
                (0, 0) => (0, 0),
                (0, _) => (usable, 0),
                (before, _) => (0, before),
            };
            *left = now.1;
            asleep = asleep.wrapping_add_signed(counts.change(now.0, now.1, asleep, period));
        }
        let exact = clients.iter().map(|&(_, left)| left).sum::<u64>();
        // A client has less than 2^36, of which 2^-16 may be lost in rounding, a few times.
        assert!(
            asleep.abs_diff(exact) < 1 << 24,
            "period {period}: {asleep} of sleeping clients, {exact} by the sum"
        );
    }
}
