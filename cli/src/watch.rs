//! Watches the economy's tree for an interval, for `tombola status` and `tombola tree`.
//!
//! Entitlements change whenever a thread wakes up or sleeps. So the tree is sampled several times in the interval, each sample is
//! water-filled (shares.rs), and the mean is shown beside the CPU time received between the first and the last sample.

pub use crate::sample::Under;

use crate::sample::{Sample, is_leaf, is_process};
use crate::shares::Shares;
use serde::Serialize;
use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tombola_kernel::Result;
use tombola_kernel::abi::{Node, kind};
use tombola_kernel::calls::Client;
use tombola_kernel::online_cpus;

/// Samples in an interval, besides the first.
const SAMPLES: u32 = 20;

/// In CPUs, means over the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Time {
    pub entitled_cpus: f64,
    pub received_cpus: f64,
    /// What others used on the tickets of a process.
    pub lent_cpus: f64,
}

impl Time {
    /// Less than this counts as nothing.
    const LEAST_CPUS: f64 = 0.0005;

    pub fn is_any(self) -> bool {
        self.entitled_cpus.max(self.received_cpus) >= Self::LEAST_CPUS
    }

    pub fn and(self, other: Time) -> Time {
        Time {
            entitled_cpus: self.entitled_cpus + other.entitled_cpus,
            received_cpus: self.received_cpus + other.received_cpus,
            lent_cpus: self.lent_cpus + other.lent_cpus,
        }
    }
}

/// The identity of a node: another client may reuse the index of a freed one.
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

/// What the samples show of a node.
pub struct Account {
    pub last: Node,
    pub under: Under,
    /// It is itself a client of the frozen root.
    pub is_frozen: bool,
    /// The node holds a process's tickets: it is the currency of the process's threads, or its only thread.
    pub is_process: bool,
    first_used_ns: u64,
    entitled_cpus_sum: f64,
    worth_sum: f64,
    worth_samples: u32,
}

impl Account {
    /// As the calls report them: 0 if frozen.
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

/// All nodes of the samples, also those that were freed meanwhile.
pub struct Watched {
    pub cpus: u32,
    pub interval: Duration,
    accounts: HashMap<Key, Account>,
    /// What others used on the tickets of a process, by its tgid, in ns.
    lent_ns: HashMap<u32, u64>,
    last: Vec<Node>,
}

pub fn watch(client: &Client, interval: Duration) -> Result<Watched> {
    let mut watched = Watched::new(online_cpus());
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
            lent_ns: HashMap::new(),
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
            if is_leaf(node) {
                let more = node.lent_ns.saturating_sub(account.last.lent_ns);
                *self.lent_ns.entry(node.tgid).or_default() += more;
            }
            account.last = *node;
            account.under = sample.under[place];
            account.is_frozen = sample.parent_kind(place) == Some(kind::FROZEN);
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
        let cpus = |ns: u64| ns as f64 / self.interval.as_nanos().max(1) as f64;
        let lent_ns = match account.is_process {
            true => self.lent_ns.get(&account.last.tgid).copied(),
            false => None,
        };
        Time {
            entitled_cpus: account.entitled_cpus_sum / f64::from(SAMPLES),
            received_cpus: cpus(account.last.used_ns.saturating_sub(account.first_used_ns)),
            lent_cpus: cpus(lent_ns.unwrap_or_default()),
        }
    }

    /// The nodes of the last sample.
    pub fn last(&self) -> impl Iterator<Item = &Account> {
        self.last
            .iter()
            .filter_map(|node| self.accounts.get(&key(node)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sample::tests::users;
    pub use crate::sample::tests::{node, settled};

    /// A tree that stays the same for a second.
    pub fn watched(nodes: &[Node], cpus: u32) -> Watched {
        let mut watched = Watched::new(cpus);
        let sample = Sample::new(nodes);
        let shares = Shares::seen(&sample, cpus, true);
        watched.note(nodes, None);
        for _ in 0..SAMPLES {
            watched.note(nodes, Some(&shares));
        }
        watched.interval = Duration::from_secs(1);
        watched.last = nodes.to_vec();
        watched
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
