//! Computes the CPU time that each node of a tree is entitled to, and its value in base tickets.
//!
//! The kernel hides currencies that other users have made from callers without CAP_SYS_NICE. Each active client that is hidden
//! counts as one thread, which is too little if it has several.

use crate::entitlement::{Client as Claim, water_fill};
use crate::sample::{Sample, Under, is_leaf};
use nix::unistd::Uid;
use tombola_kernel::abi::kind;

/// The entitlement and the value of each node of a sample.
pub struct Shares {
    pub entitled_cpus: Vec<f64>,
    pub worth: Vec<Option<f64>>,
}

impl Shares {
    pub fn of(sample: &Sample, cpus: u32) -> Self {
        Self::seen(sample, cpus, Uid::effective().is_root())
    }

    pub fn seen(sample: &Sample, cpus: u32, sees_all: bool) -> Self {
        Self {
            entitled_cpus: entitled(sample, cpus, sees_all),
            worth: worth(sample),
        }
    }
}

// Leaves out this process, which runs only to take the sample.
fn entitled(sample: &Sample, cpus: u32, sees_all: bool) -> Vec<f64> {
    let own = std::process::id();
    let mut claims: Vec<Claim> = sample
        .nodes
        .iter()
        .enumerate()
        .map(|(place, node)| {
            let is_ready = is_leaf(node) && node.active != 0 && node.tgid != own;
            Claim {
                parent: sample.parent[place],
                tickets: f64::from(node.tickets.max(1)),
                wants: f64::from(u8::from(is_ready && sample.under[place] != Under::Frozen)),
            }
        })
        .collect();
    if !sees_all {
        claims.extend(hidden(sample));
    }
    let mut cpus = water_fill(&claims, f64::from(cpus));
    cpus.truncate(sample.nodes.len());
    cpus
}

// The active clients of users and reservations that the kernel hides.
fn hidden(sample: &Sample) -> Vec<Claim> {
    let mut seen = vec![(0, 0); sample.nodes.len()];
    for (node, parent) in sample.nodes.iter().zip(&sample.parent) {
        if let (Some(parent), 1) = (*parent, node.active) {
            seen[parent].0 += 1;
            seen[parent].1 += u64::from(node.tickets);
        }
    }
    sample
        .nodes
        .iter()
        .enumerate()
        .filter(|(place, node)| {
            [kind::USER, kind::RESERVATION].contains(&node.kind)
                && sample.under[*place] != Under::Frozen
                && node.clients > seen[*place].0
        })
        .map(|(place, node)| Claim {
            parent: Some(place),
            tickets: node.weight.saturating_sub(seen[place].1).max(1) as f64,
            wants: f64::from(node.clients - seen[place].0),
        })
        .collect()
}

// In base tickets. User: its base tickets. Active client of a currency: its part of the currency's value. Best effort: the sum of
// its active users' base tickets. Reservation: its tickets times the value of one of best effort's tickets.
fn worth(sample: &Sample) -> Vec<Option<f64>> {
    let counts = ActiveCounts::without_us(sample);
    let mut worth: Vec<Option<f64>> = Vec::new();
    let best_effort = (0..sample.nodes.len())
        .find(|place| sample.nodes[*place].kind == kind::BEST_EFFORT)
        .filter(|place| counts.weight[*place] > 0)
        .map(|place| counts.weight[place] as f64 / f64::from(sample.nodes[place].tickets.max(1)));
    for (place, node) in sample.nodes.iter().enumerate() {
        let tickets = f64::from(node.tickets);
        let is_active = counts.active[place] && sample.under[place] != Under::Frozen;
        worth.push(match node.kind {
            _ if !is_active => None,
            kind::BASE => None,
            kind::BEST_EFFORT => Some(counts.weight[place] as f64),
            kind::RESERVATION => best_effort.map(|each| tickets * each),
            kind::USER => Some(tickets),
            _ => sample.parent[place]
                .filter(|parent| counts.weight[*parent] > 0)
                .and_then(|parent| Some(worth[parent]? * tickets / counts.weight[parent] as f64)),
        });
    }
    worth
}

/// The active clients without this process's threads.
struct ActiveCounts {
    active: Vec<bool>,
    clients: Vec<u32>,
    weight: Vec<u64>,
}

impl ActiveCounts {
    fn without_us(sample: &Sample) -> Self {
        let nodes = &sample.nodes;
        let mut counts = ActiveCounts {
            active: nodes.iter().map(|node| node.active != 0).collect(),
            clients: nodes.iter().map(|node| node.clients).collect(),
            weight: nodes.iter().map(|node| node.weight).collect(),
        };
        let own = std::process::id();
        for (place, node) in nodes.iter().enumerate() {
            if node.kind == kind::THREAD && node.tgid == own && node.active != 0 {
                counts.take_away(sample, place);
            }
        }
        counts
    }

    fn take_away(&mut self, sample: &Sample, mut place: usize) {
        self.active[place] = false;
        while let Some(parent) = sample.parent[place] {
            let tickets = u64::from(sample.nodes[place].tickets);
            self.clients[parent] = self.clients[parent].saturating_sub(1);
            self.weight[parent] = self.weight[parent].saturating_sub(tickets);
            if self.clients[parent] > 0 {
                break;
            }
            self.active[parent] = false;
            place = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{node, settled, users};
    use tombola_kernel::abi::Node;

    fn place(sample: &Sample, index: u32) -> usize {
        let found = sample.nodes.iter().position(|node| node.index == index);
        found.expect("the sample has this node")
    }

    #[test]
    fn a_process_made_from_a_thread_has_the_higher_index_and_is_its_parent_all_the_same() {
        let mut nodes = users();
        nodes.extend([
            node(5, 7, kind::THREAD, 100),
            node(6, 4, kind::THREAD, 100),
            node(7, 4, kind::PROCESS, 300),
        ]);
        let sample = Sample::new(&nodes);
        let cpus = entitled(&sample, 1, true);
        let of = |index| cpus[place(&sample, index)];
        assert_eq!((of(5), of(6), of(7)), (0.75, 0.25, 0.75));
    }

    #[test]
    fn a_frozen_node_and_its_clients_are_entitled_to_nothing() {
        let mut nodes = users();
        nodes.extend([
            node(5, 4, kind::THREAD, 1),
            node(6, 3, kind::USER, 10_000),
            node(7, 6, kind::THREAD, 100),
            node(8, 3, kind::THREAD, 100),
        ]);
        let sample = Sample::new(&settled(nodes));
        let cpus = entitled(&sample, 2, true);
        for index in [6, 7, 8] {
            assert_eq!(cpus[place(&sample, index)], 0.0, "{index}");
            assert_eq!(worth(&sample)[place(&sample, index)], None, "{index}");
        }
        assert_eq!(cpus[place(&sample, 5)], 1.0);
    }

    #[test]
    fn worth_is_a_part_of_the_parents_worth() {
        let mut nodes = users();
        let mut idle = node(9, 5, kind::THREAD, 700);
        idle.active = 0;
        nodes.extend([
            node(5, 4, kind::CURRENCY, 300),
            node(6, 4, kind::THREAD, 100),
            node(7, 5, kind::THREAD, 10),
            node(8, 5, kind::THREAD, 40),
            idle,
            node(10, 1, kind::RESERVATION, 500),
            node(11, 10, kind::THREAD, 100),
        ]);
        let sample = Sample::new(&settled(nodes));
        let worth = worth(&sample);
        let of = |index| worth[place(&sample, index)];
        assert_eq!(of(4), Some(1_000.0));
        assert_eq!((of(5), of(6)), (Some(750.0), Some(250.0)));
        assert_eq!((of(7), of(8)), (Some(150.0), Some(600.0)));
        assert_eq!(of(9), None);
        assert_eq!((of(10), of(11)), (Some(200.0), Some(200.0)));
    }

    #[test]
    fn the_sampling_process_does_not_count() {
        let mut nodes = users();
        let mut ours = node(5, 4, kind::THREAD, 300);
        ours.tgid = std::process::id();
        nodes.extend([
            ours,
            node(6, 4, kind::THREAD, 100),
            node(7, 2, kind::USER, 500),
        ]);
        let mut look = node(8, 7, kind::THREAD, 100);
        look.tgid = std::process::id();
        nodes.push(look);
        let sample = Sample::new(&settled(nodes));
        let worth = worth(&sample);
        let of = |index| worth[place(&sample, index)];
        assert_eq!((of(5), of(6)), (None, Some(1_000.0)));
        assert_eq!((of(2), of(7)), (Some(1_000.0), None));
    }

    #[test]
    fn a_hidden_client_is_entitled_to_its_part() {
        let mut nodes = users();
        nodes.push(node(5, 4, kind::THREAD, 100));
        nodes.push(node(6, 2, kind::USER, 1_000));
        nodes.push(node(7, 6, kind::CURRENCY, 100));
        nodes.push(node(8, 7, kind::THREAD, 100));
        let all = settled(nodes);
        let shown: Vec<Node> = all.into_iter().filter(|node| node.index < 7).collect();
        let sample = Sample::new(&shown);
        assert_eq!(entitled(&sample, 1, false)[place(&sample, 6)], 0.5);
        assert_eq!(entitled(&sample, 1, true)[place(&sample, 6)], 0.0);
    }
}
