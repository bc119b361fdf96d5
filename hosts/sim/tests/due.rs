//! Is the oracle right? Rates computed by hand, and no allocation that a brute force finds is fairer.

use tombola_sim::Random;
use tombola_sim::entitlement::{Client, all_cpus, rates};

const NEAR: f64 = 1e-9;

fn assert_rates(clients: &[Client], cpus: usize, due: &[f64]) {
    let rates = rates(clients, cpus);
    for (i, (rate, due)) in rates.iter().zip(due).enumerate() {
        assert!(
            (rate - due).abs() < NEAR,
            "client {i} has {rate}, is due {due}: {rates:?}"
        );
    }
    assert_eq!(rates.len(), due.len());
}

/// The root, and leaves with tickets and masks.
fn flat(leaves: &[(u32, u64)]) -> Vec<Client> {
    let mut clients = vec![Client::currency(None, 1)];
    clients.extend(leaves.iter().map(|&(t, mask)| Client::leaf(0, t, mask)));
    clients
}

#[test]
fn what_cannot_be_used_goes_to_the_others() {
    let users = flat(&[(9000, 7), (9000, 7), (900, 7), (100, 7)]);
    assert_rates(&users, 3, &[3.0, 1.0, 1.0, 0.9, 0.1]);
    let few = flat(&[(5, 7), (1, 7)]);
    assert_rates(&few, 3, &[2.0, 1.0, 1.0]);
}

#[test]
fn leaves_on_one_cpu_share_it() {
    let leaves = flat(&[(9, 1), (1, 1), (1, 3)]);
    assert_rates(&leaves, 2, &[2.0, 0.9, 0.1, 1.0]);
    // Leaves that may use CPU 1 as well leave CPU 0 to the bound one, as far as that is fair.
    let nested = flat(&[(1, 1), (1, 3), (1, 3)]);
    assert_rates(&nested, 2, &[2.0, 2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0]);
    let nested = flat(&[(1, 1), (3, 3)]);
    assert_rates(&nested, 2, &[2.0, 1.0, 1.0]);
    let nested = flat(&[(4, 1), (1, 3), (1, 3)]);
    assert_rates(&nested, 2, &[2.0, 1.0, 0.5, 0.5]);
    // {0} twice, {0, 1}, {0, 1, 2}: the wider a mask, the more is left for it.
    let chain = flat(&[(1, 1), (1, 1), (1, 3), (1, 7)]);
    assert_rates(&chain, 3, &[3.0, 0.5, 0.5, 1.0, 1.0]);
    // Two masks that overlap in CPU 1.
    let overlap = flat(&[(1, 3), (1, 3), (1, 6), (1, 6), (1, 6)]);
    assert_rates(&overlap, 3, &[3.0, 0.6, 0.6, 0.6, 0.6, 0.6]);
}

#[test]
fn threads_share_what_their_user_has() {
    let mut clients = vec![Client::currency(None, 1)];
    clients.push(Client::currency(Some(0), 3));
    clients.push(Client::leaf(1, 9, u64::MAX));
    clients.push(Client::leaf(1, 1, u64::MAX));
    clients.push(Client::leaf(0, 1, u64::MAX));
    clients.push(Client::leaf(0, 1, u64::MAX));
    // The last user wants half a CPU; of the other 2.5, 3 of 5 tickets are 1.5.
    let (half, cpus) = (
        Client {
            demand: 0.5,
            ..Client::leaf(0, 5, u64::MAX)
        },
        3,
    );
    clients.push(half);
    assert_rates(&clients, cpus, &[3.0, 1.5, 1.0, 0.5, 0.5, 0.5, 0.5]);
}

#[test]
fn currencies_have_no_more_than_their_leaves_can_use() {
    // Users of 100 : 1, one and three threads, on 3 CPUs; and threads of the second of 8 : 1 : 1.
    let mut clients = vec![Client::currency(None, 1)];
    clients.push(Client::currency(Some(0), 100));
    clients.push(Client::leaf(1, 1, u64::MAX));
    clients.push(Client::currency(Some(0), 1));
    clients.extend([8, 1, 1].map(|tickets| Client::leaf(3, tickets, u64::MAX)));
    assert_rates(&clients, 3, &[3.0, 1.0, 1.0, 2.0, 1.0, 0.5, 0.5]);
    // The same with a mask that binds: the second user's first thread beside the first user.
    clients[2].mask = 1;
    clients[4].mask = 1;
    assert_rates(&clients, 3, &[3.0, 1.0, 1.0, 2.0, 0.0, 1.0, 1.0]);
    // With equal tickets, the first user still gets 1: that takes nothing from the second's 2.
    clients[1].tickets = 1;
    assert_rates(&clients, 3, &[3.0, 1.0, 1.0, 2.0, 0.0, 1.0, 1.0]);
}

/// Two users of one CPU each have leaves that compete for CPU 0: neither user is first, it is halved.
#[test]
fn currencies_of_one_depth_decide_together() {
    let mut clients = vec![Client::currency(None, 1)];
    for user in [1, 4] {
        clients.push(Client::currency(Some(0), 1));
        clients.push(Client::leaf(user, 9, 1));
        clients.push(Client::leaf(user, 1, 3));
    }
    assert_rates(&clients, 2, &[2.0, 1.0, 0.5, 0.5, 1.0, 0.5, 0.5]);
}

#[test]
fn what_a_client_does_not_want_is_left_to_the_others() {
    let mut clients = flat(&[(1, 3), (1, 3), (2, 3)]);
    clients[1].demand = 0.1;
    assert_rates(&clients, 2, &[2.0, 0.1, 0.9, 1.0]);
    clients[1].demand = 0.0;
    clients[2].mask = 1;
    assert_rates(&clients, 2, &[2.0, 0.0, 1.0, 1.0]);
    assert_rates(&[Client::currency(None, 1)], 4, &[0.0]);
}

/// A random tree of at most `leaves` leaves on at most three levels below the root.
fn random_tree(random: &mut Random, leaves: usize, cpus: usize, masks: bool) -> Vec<Client> {
    let mut clients = vec![Client::currency(None, 1)];
    let mut currencies = vec![0];
    for _ in 0..random.bits() % 4 {
        let parent = currencies[random.bits() as usize % currencies.len()];
        currencies.push(clients.len());
        clients.push(Client::currency(
            Some(parent),
            1 + random.bits() as u32 % 20,
        ));
    }
    for _ in 0..1 + random.bits() as usize % leaves {
        let parent = currencies[random.bits() as usize % currencies.len()];
        let mask = match masks {
            true => 1 + random.bits() % all_cpus(cpus),
            false => u64::MAX,
        };
        let mut leaf = Client::leaf(parent, 1 + random.bits() as u32 % 20, mask);
        if random.bits().is_multiple_of(4) {
            leaf.demand = (random.bits() % 11) as f64 / 10.0;
        }
        clients.push(leaf);
    }
    clients
}

fn is_below(clients: &[Client], mut i: usize, ancestor: usize) -> bool {
    while i > ancestor {
        i = clients[i].parent.unwrap();
    }
    i == ancestor
}

fn is_leaf(clients: &[Client], i: usize) -> bool {
    clients.iter().all(|c| c.parent != Some(i))
}

fn depth(clients: &[Client], i: usize) -> usize {
    clients[i].parent.map_or(0, |p| 1 + depth(clients, p))
}

/// What the leaves below these clients can use: the least over all sets of CPUs of the set, and of what does not fit into it.
fn usable(clients: &[Client], set: &[usize], cpus: usize) -> f64 {
    let leaves: Vec<&Client> = (0..clients.len())
        .filter(|&i| is_leaf(clients, i) && set.iter().any(|&s| is_below(clients, i, s)))
        .map(|i| &clients[i])
        .collect();
    let sizes = (0..=all_cpus(cpus)).map(|cut| {
        let outside = leaves
            .iter()
            .filter(|leaf| leaf.mask & all_cpus(cpus) & !cut != 0);
        f64::from(cut.count_ones()) + outside.map(|leaf| leaf.demand).sum::<f64>()
    });
    sizes.fold(f64::INFINITY, f64::min)
}

/// How much more each set of the clients can use than its rates; a set is a mask of indices into `level`.
fn slacks(clients: &[Client], level: &[usize], all: &[f64], cpus: usize) -> Vec<f64> {
    (0..1_usize << level.len())
        .map(|set| {
            let members = (0..level.len()).filter(|k| set >> k & 1 != 0);
            let set: Vec<usize> = members.map(|k| level[k]).collect();
            usable(clients, &set, cpus) - set.iter().map(|&i| all[i]).sum::<f64>()
        })
        .collect()
}

/// What `from` has that `to` could have instead; both are indices into the level.
fn transferable(slacks: &[f64], from: usize, to: usize) -> f64 {
    let sets = (0..slacks.len()).filter(|set| set >> to & 1 != 0 && set >> from & 1 == 0);
    sets.map(|set| slacks[set]).fold(f64::INFINITY, f64::min)
}

fn check_level(clients: &[Client], level: &[usize], all: &[f64], cpus: usize) {
    let slacks = slacks(clients, level, all, cpus);
    assert!(
        slacks.iter().all(|&slack| slack > -NEAR),
        "{clients:?}: {all:?}"
    );
    let normal = |i: usize| all[i] / f64::from(clients[i].tickets);
    for (from, &rich) in level.iter().enumerate() {
        for (to, &poor) in level.iter().enumerate() {
            let fairer =
                clients[rich].parent == clients[poor].parent && normal(poor) + 1e-7 < normal(rich);
            assert!(
                !fairer || transferable(&slacks, from, to) < NEAR,
                "client {rich} could give to {poor}: {clients:#?}: {all:?}"
            );
        }
    }
}

#[test]
fn no_transfer_between_two_clients_of_a_currency_is_fairer() {
    let mut random = Random(1);
    for round in 0..5000 {
        let cpus = 1 + random.bits() as usize % 4;
        let clients = random_tree(&mut random, 7, cpus, round % 3 != 0);
        let all = rates(&clients, cpus);
        let used = usable(&clients, &[0], cpus);
        assert!(
            (all[0] - used).abs() < NEAR,
            "{} of {used}: {clients:?}",
            all[0]
        );
        for i in 0..clients.len() {
            let children = (0..clients.len()).filter(|&c| clients[c].parent == Some(i));
            let sum: f64 = children.map(|c| all[c]).sum();
            assert!(
                is_leaf(&clients, i) || (sum - all[i]).abs() < NEAR,
                "{clients:?}: {all:?}"
            );
        }
        for d in 1..4 {
            let level: Vec<usize> = (0..clients.len())
                .filter(|&i| {
                    depth(&clients, i) == d || (depth(&clients, i) < d && is_leaf(&clients, i))
                })
                .collect();
            check_level(&clients, &level, &all, cpus);
        }
    }
}

/// Both ways to compute it agree where both apply: one more CPU that no mask contains changes nothing.
#[test]
fn cuts_and_plain_water_filling_agree() {
    let mut random = Random(2);
    for _ in 0..300 {
        let cpus = 1 + random.bits() as usize % 20;
        let mut clients = random_tree(&mut random, 60, cpus, false);
        let plain = rates(&clients, cpus);
        for client in &mut clients {
            client.mask = all_cpus(cpus);
        }
        let cuts = rates(&clients, cpus + 1);
        for (i, (a, b)) in plain.iter().zip(&cuts).enumerate() {
            assert!((a - b).abs() < NEAR, "client {i}: {a}, {b}, {clients:?}");
        }
    }
}
