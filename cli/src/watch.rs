//! The tree of the economy, watched for an interval: what `tombola status` and `tombola tree` report about.
//!
//! Who is entitled to what changes whenever somebody wakes or sleeps. So the tree is sampled several times in the interval,
//! each sample water-filled (entitlement.rs), and the mean shown beside what was received between the first and the last.
//!
//! The kernel keeps what is in other users' currencies from who has no privileges. What is hidden counts as one thread for each
//! active client that is missing, which is too little where these have more.

use crate::entitlement::{Client as Claim, water_fill};
use nix::unistd::Uid;
use serde::Serialize;
use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tombola_kernel::Result;
use tombola_kernel::abi::{Node, kind};
use tombola_kernel::calls::Client;
use tombola_kernel::sched_ext;

/// Samples in an interval, besides the first.
const SAMPLES: u32 = 20;

/// In CPUs, means over the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Time {
    pub entitled_cpus: f64,
    pub received_cpus: f64,
}

impl Time {
    /// Less than this is shown as nothing.
    const LEAST_CPUS: f64 = 0.0005;

    pub fn is_any(self) -> bool {
        self.entitled_cpus.max(self.received_cpus) >= Self::LEAST_CPUS
    }

    pub fn and(self, other: Time) -> Time {
        Time {
            entitled_cpus: self.entitled_cpus + other.entitled_cpus,
            received_cpus: self.received_cpus + other.received_cpus,
        }
    }
}

/// Who pays for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// Nobody: base itself.
    Base,
    /// A user, or it is one.
    BestEffort,
    Reservation,
    /// Nobody: it, or the user or currency that it is in, is frozen.
    Limbo,
}

/// A node that is freed and taken again by somebody else is another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    index: u32,
    kind: u32,
    id: u32,
}

fn key(node: &Node) -> Key {
    Key {
        index: node.index,
        kind: node.kind,
        id: node.id,
    }
}

/// What was seen of a node.
pub struct Account {
    pub last: Node,
    pub under: Under,
    /// Nobody else is between it and limbo.
    pub is_frozen: bool,
    /// The node whose tickets are a process's: the currency of its threads, or its only one.
    pub is_process: bool,
    first_used_ns: u64,
    entitled_cpus_sum: f64,
    worth_sum: f64,
    worth_samples: u32,
}

impl Account {
    /// As the calls have it: 0 for the frozen.
    pub fn tickets(&self) -> u32 {
        match self.is_frozen {
            true => 0,
            false => self.last.tickets,
        }
    }

    /// In base tickets, the mean over the samples in which it was active.
    pub fn worth(&self) -> Option<f64> {
        (self.worth_samples > 0).then(|| self.worth_sum / f64::from(self.worth_samples))
    }
}

/// All that was seen, also of those who went meanwhile.
pub struct Watched {
    pub cpus: u32,
    pub interval: Duration,
    accounts: HashMap<Key, Account>,
    last: Vec<Node>,
}

pub fn watch(client: &Client, interval: Duration) -> Result<Watched> {
    let mut watched = Watched::new(sched_ext::online_cpus());
    let began = Instant::now();
    watched.note(&client.tree()?, None);
    for _ in 0..SAMPLES {
        sleep(interval / SAMPLES);
        let nodes = client.tree()?;
        let shares = Shares::of(&Sample::new(&nodes), watched.cpus);
        watched.note(&nodes, Some(&shares));
        watched.last = nodes;
    }
    watched.interval = began.elapsed();
    Ok(watched)
}

impl Watched {
    fn new(cpus: u32) -> Self {
        Self {
            cpus,
            interval: Duration::ZERO,
            accounts: HashMap::new(),
            last: Vec::new(),
        }
    }

    fn note(&mut self, nodes: &[Node], shares: Option<&Shares>) {
        let sample = Sample::new(nodes);
        for (place, node) in sample.nodes.iter().enumerate() {
            let account = self.accounts.entry(key(node)).or_insert(Account {
                last: *node,
                under: Under::Base,
                is_frozen: false,
                is_process: false,
                first_used_ns: node.used_ns,
                entitled_cpus_sum: 0.0,
                worth_sum: 0.0,
                worth_samples: 0,
            });
            account.last = *node;
            account.under = sample.under[place];
            account.is_frozen = sample.parent_kind(place) == Some(kind::LIMBO);
            account.is_process = is_process(node, sample.parent_kind(place));
            let Some(shares) = shares else { continue };
            account.entitled_cpus_sum += shares.entitled_cpus[place];
            if let Some(worth) = shares.worth[place] {
                account.worth_sum += worth;
                account.worth_samples += 1;
            }
        }
    }

    pub fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.accounts.values()
    }

    pub fn time(&self, account: &Account) -> Time {
        let used_ns = account.last.used_ns.saturating_sub(account.first_used_ns);
        Time {
            entitled_cpus: account.entitled_cpus_sum / f64::from(SAMPLES),
            received_cpus: used_ns as f64 / self.interval.as_nanos().max(1) as f64,
        }
    }

    /// Those who were there at the end.
    pub fn last(&self) -> impl Iterator<Item = &Account> {
        self.last
            .iter()
            .filter_map(|node| self.accounts.get(&key(node)))
    }
}

fn is_process(node: &Node, parent_kind: Option<u32>) -> bool {
    match node.kind {
        kind::PROCESS => true,
        kind::THREAD => parent_kind != Some(kind::PROCESS),
        _ => false,
    }
}

/// The processes of a tree, the nodes with their tickets, and who pays for them.
pub fn processes(nodes: &[Node]) -> Vec<(Node, Under)> {
    let sample = Sample::new(nodes);
    (0..sample.nodes.len())
        .filter(|place| is_process(&sample.nodes[*place], sample.parent_kind(*place)))
        .map(|place| (sample.nodes[place], sample.under[place]))
        .collect()
}

/// A tree at a moment, parents before their children.
struct Sample {
    nodes: Vec<Node>,
    parent: Vec<Option<usize>>,
    under: Vec<Under>,
}

impl Sample {
    // Nodes of which the parent was not seen (it came or went meanwhile) are left out.
    fn new(nodes: &[Node]) -> Self {
        let mut children: HashMap<u32, Vec<Node>> = HashMap::new();
        for node in nodes {
            children.entry(node.parent).or_default().push(*node);
        }
        let mut nodes = children.remove(&0).unwrap_or_default();
        let mut parent = vec![None; nodes.len()];
        let mut next = 0;
        while let Some(node) = nodes.get(next) {
            let found = children.remove(&node.index).unwrap_or_default();
            parent.resize(parent.len() + found.len(), Some(next));
            nodes.extend(found);
            next += 1;
        }
        let mut under: Vec<Under> = Vec::new();
        for (node, parent) in nodes.iter().zip(&parent) {
            let above = parent.map_or(Under::Base, |parent| under[parent]);
            under.push(match node.kind {
                kind::BEST_EFFORT => Under::BestEffort,
                kind::RESERVATION => Under::Reservation,
                kind::LIMBO => Under::Limbo,
                _ => above,
            });
        }
        Self {
            nodes,
            parent,
            under,
        }
    }

    fn parent_kind(&self, place: usize) -> Option<u32> {
        self.parent[place].map(|parent| self.nodes[parent].kind)
    }
}

/// What each node of a sample is entitled to and worth.
struct Shares {
    entitled_cpus: Vec<f64>,
    worth: Vec<Option<f64>>,
}

impl Shares {
    fn of(sample: &Sample, cpus: u32) -> Self {
        let sees_all = Uid::effective().is_root();
        Self {
            entitled_cpus: entitled(sample, cpus, sees_all),
            worth: worth(sample),
        }
    }
}

// This process itself wants to run only to look, so it is left out.
fn entitled(sample: &Sample, cpus: u32, sees_all: bool) -> Vec<f64> {
    let own = std::process::id();
    let mut claims: Vec<Claim> = sample
        .nodes
        .iter()
        .enumerate()
        .map(|(place, node)| {
            let is_ready = node.kind == kind::THREAD && node.active != 0 && node.tgid != own;
            Claim {
                parent: sample.parent[place],
                tickets: f64::from(node.tickets.max(1)),
                wants: f64::from(u8::from(is_ready && sample.under[place] != Under::Limbo)),
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

// What active clients a user or a reservation has that are not shown.
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
                && sample.under[*place] != Under::Limbo
                && node.clients > seen[*place].0
        })
        .map(|(place, node)| Claim {
            parent: Some(place),
            tickets: node.weight.saturating_sub(seen[place].1).max(1) as f64,
            wants: f64::from(node.clients - seen[place].0),
        })
        .collect()
}

// In base tickets. A user's are its own; what an active client has is its part of what its currency has; and best effort's part
// of the machine, which is all active users' base tickets together, says what a reservation's would be.
fn worth(sample: &Sample) -> Vec<Option<f64>> {
    let stir = Stir::without_us(sample);
    let mut worth: Vec<Option<f64>> = Vec::new();
    let best_effort = (0..sample.nodes.len())
        .find(|place| sample.nodes[*place].kind == kind::BEST_EFFORT)
        .filter(|place| stir.weight[*place] > 0)
        .map(|place| stir.weight[place] as f64 / f64::from(sample.nodes[place].tickets.max(1)));
    for (place, node) in sample.nodes.iter().enumerate() {
        let tickets = f64::from(node.tickets);
        let is_active = stir.active[place] && sample.under[place] != Under::Limbo;
        worth.push(match node.kind {
            _ if !is_active => None,
            kind::BASE => None,
            kind::BEST_EFFORT => Some(stir.weight[place] as f64),
            kind::RESERVATION => best_effort.map(|each| tickets * each),
            kind::USER => Some(tickets),
            _ => sample.parent[place]
                .filter(|parent| stir.weight[*parent] > 0)
                .and_then(|parent| Some(worth[parent]? * tickets / stir.weight[parent] as f64)),
        });
    }
    worth
}

/// Who would want to run if this process did not look.
struct Stir {
    active: Vec<bool>,
    clients: Vec<u32>,
    weight: Vec<u64>,
}

impl Stir {
    fn without_us(sample: &Sample) -> Self {
        let nodes = &sample.nodes;
        let mut stir = Stir {
            active: nodes.iter().map(|node| node.active != 0).collect(),
            clients: nodes.iter().map(|node| node.clients).collect(),
            weight: nodes.iter().map(|node| node.weight).collect(),
        };
        let own = std::process::id();
        for (place, node) in nodes.iter().enumerate() {
            if node.kind == kind::THREAD && node.tgid == own && node.active != 0 {
                stir.take_away(sample, place);
            }
        }
        stir
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
pub(crate) mod tests {
    use super::*;

    pub fn node(index: u32, parent: u32, kind: u32, tickets: u32) -> Node {
        Node {
            index,
            parent,
            kind,
            tickets,
            active: 1,
            tgid: index,
            ..Node::default()
        }
    }

    // As the kernel counts them.
    pub fn settled(mut nodes: Vec<Node>) -> Vec<Node> {
        for place in 0..nodes.len() {
            let (index, of) = (nodes[place].index, nodes.clone());
            let active = of
                .iter()
                .filter(|node| node.parent == index && node.active != 0);
            nodes[place].clients = active.clone().count() as u32;
            nodes[place].weight = active.map(|node| u64::from(node.tickets)).sum();
        }
        nodes
    }

    /// Once at the beginning and once at the end of a second.
    pub fn watched(nodes: &[Node], cpus: u32) -> Watched {
        let mut watched = Watched::new(cpus);
        let sample = Sample::new(nodes);
        let shares = Shares {
            entitled_cpus: entitled(&sample, cpus, true),
            worth: worth(&sample),
        };
        watched.note(nodes, None);
        for _ in 0..SAMPLES {
            watched.note(nodes, Some(&shares));
        }
        watched.interval = Duration::from_secs(1);
        watched.last = nodes.to_vec();
        watched
    }

    fn place(sample: &Sample, index: u32) -> usize {
        let found = sample.nodes.iter().position(|node| node.index == index);
        found.expect("the sample has this node")
    }

    fn users() -> Vec<Node> {
        vec![
            node(1, 0, kind::BASE, 1),
            node(2, 1, kind::BEST_EFFORT, 2_500),
            node(3, 0, kind::LIMBO, 1),
            node(4, 2, kind::USER, 1_000),
        ]
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
    fn a_node_without_its_parent_is_left_out() {
        let nodes = [node(1, 0, kind::BASE, 1), node(9, 8, kind::THREAD, 100)];
        assert_eq!(Sample::new(&nodes).nodes.len(), 1);
    }

    #[test]
    fn who_is_frozen_is_entitled_to_nothing_with_all_that_is_in_it() {
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
    fn worth_is_a_part_of_what_the_currency_around_is_worth() {
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
    fn who_looks_is_not_among_those_who_want_to_run() {
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
    fn what_is_hidden_is_entitled_to_its_part() {
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

    #[test]
    fn time_is_received_between_the_first_and_the_last_sample() {
        let mut nodes = users();
        nodes[3].used_ns = 7_000_000_000;
        let mut watched = Watched::new(1);
        watched.note(&nodes, None);
        nodes[3].used_ns = 7_500_000_000;
        watched.note(&nodes, None);
        watched.interval = Duration::from_secs(1);
        let mut of_users = watched
            .accounts()
            .filter(|account| account.last.kind == kind::USER);
        assert_eq!(watched.time(of_users.next().unwrap()).received_cpus, 0.5);
    }
}
