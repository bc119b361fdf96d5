//! What `tombola status` finds out, for people and as JSON.
//!
//! Who is entitled to what changes whenever somebody wakes or sleeps. So the tree is sampled several times in the interval,
//! each sample water-filled (entitlement.rs), and the mean shown beside what was received between the first and the last.

use crate::entitlement::{Client as Claim, water_fill};
use crate::names::{self, Names};
use crate::table;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tombola_kernel::abi::{Node, kind};
use tombola_kernel::calls::{Client, Info};
use tombola_kernel::sched_ext::{self, State};
use tombola_kernel::{Result, daemon_pid};

/// Samples in an interval, besides the first.
const SAMPLES: u32 = 20;

#[derive(Serialize)]
pub struct Report {
    pub kernel: Kernel,
    /// None: Tombola does not schedule.
    pub tombola: Option<Tombola>,
}

#[derive(Serialize)]
pub struct Kernel {
    pub sched_ext: bool,
    pub state: Option<String>,
    pub scheduler: Option<String>,
}

#[derive(Serialize)]
pub struct Tombola {
    pub pid: Option<u32>,
    pub policy: &'static str,
    pub quantum_ns: u64,
    pub cpus: u32,
    pub clients: u64,
    /// Processes that are currencies, of several threads now or once.
    pub threaded: u64,
    pub waiting: u64,
    pub counters: BTreeMap<&'static str, u64>,
    pub interval_s: f64,
    pub users: Vec<User>,
}

#[derive(Serialize)]
pub struct User {
    pub user: String,
    pub uid: u32,
    pub base_tickets: u32,
    #[serde(flatten)]
    pub time: Time,
    pub processes: Vec<Process>,
}

#[derive(Serialize)]
pub struct Process {
    pub pid: u32,
    pub name: String,
    pub tickets: u32,
    pub wins: u64,
    #[serde(flatten)]
    pub time: Time,
}

/// In CPUs, means over the interval.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Time {
    pub entitled_cpus: f64,
    pub received_cpus: f64,
}

impl Time {
    /// Less than this is shown as nothing.
    const LEAST_CPUS: f64 = 0.0005;

    fn is_any(self) -> bool {
        self.entitled_cpus.max(self.received_cpus) >= Self::LEAST_CPUS
    }
}

pub fn kernel() -> Kernel {
    let state = sched_ext::state().ok();
    Kernel {
        sched_ext: state.is_some(),
        scheduler: state.as_ref().and_then(|state| state.scheduler.clone()),
        state: state.map(|State { state, .. }| state),
    }
}

/// Watches for `interval`. `all`: also those who neither wanted nor received anything.
pub fn watch(client: &Client, interval: Duration, all: bool) -> Result<Tombola> {
    let cpus = online_cpus();
    let mut ledger = Ledger::default();
    let began = Instant::now();
    ledger.note(&client.tree()?, None);
    for _ in 0..SAMPLES {
        sleep(interval / SAMPLES);
        let nodes = client.tree()?;
        ledger.note(&nodes, Some(&entitled(&nodes, cpus)));
    }
    let interval = began.elapsed();
    let Info {
        policy,
        quantum_ns,
        clients,
        threaded,
        waiting,
        ..
    } = client.info()?;
    Ok(Tombola {
        pid: daemon_pid(),
        policy: policy.name(),
        quantum_ns,
        cpus,
        clients,
        threaded,
        waiting,
        counters: client.counters()?.into_iter().collect(),
        interval_s: interval.as_secs_f64(),
        users: ledger.users(interval, all),
    })
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

struct Account {
    last: Node,
    first_used_ns: u64,
    entitled_cpus_sum: f64,
}

impl Account {
    fn time(&self, interval: Duration) -> Time {
        let used_ns = self.last.used_ns.saturating_sub(self.first_used_ns);
        Time {
            entitled_cpus: self.entitled_cpus_sum / f64::from(SAMPLES),
            received_cpus: used_ns as f64 / interval.as_nanos() as f64,
        }
    }
}

#[derive(Default)]
struct Ledger {
    accounts: HashMap<Key, Account>,
}

impl Ledger {
    fn note(&mut self, nodes: &[Node], entitled: Option<&HashMap<u32, f64>>) {
        for node in nodes {
            let account = self.accounts.entry(key(node)).or_insert(Account {
                last: *node,
                first_used_ns: node.used_ns,
                entitled_cpus_sum: 0.0,
            });
            account.last = *node;
            account.entitled_cpus_sum += entitled
                .and_then(|cpus| cpus.get(&node.index))
                .unwrap_or(&0.0);
        }
    }

    fn users(&self, interval: Duration, all: bool) -> Vec<User> {
        let mut names = Names::default();
        let mut users: Vec<User> = self
            .of(|node| node.kind == kind::USER)
            .map(|account| User {
                user: names.user(account.last.id).to_owned(),
                uid: account.last.id,
                base_tickets: account.last.tickets,
                time: account.time(interval),
                processes: self.processes(account.last.index, interval, all),
            })
            .filter(|user| all || user.time.is_any())
            .collect();
        users.sort_by_key(|user| user.uid);
        users
    }

    // A process with one thread is that thread, directly in its user's currency.
    fn processes(&self, user: u32, interval: Duration, all: bool) -> Vec<Process> {
        let mut processes: Vec<Process> = self
            .of(|node| node.parent == user && node.kind >= kind::PROCESS)
            .map(|account| Process {
                pid: account.last.tgid,
                name: names::process(account.last.tgid),
                tickets: account.last.tickets,
                wins: account.last.wins,
                time: account.time(interval),
            })
            .filter(|process| all || process.time.is_any())
            .collect();
        processes.sort_by_key(|process| process.pid);
        processes
    }

    fn of(&self, chosen: impl Fn(&Node) -> bool) -> impl Iterator<Item = &Account> {
        self.accounts
            .values()
            .filter(move |account| chosen(&account.last))
    }
}

// By index of the node. This process itself wants to run only to look, so it is left out.
fn entitled(nodes: &[Node], cpus: u32) -> HashMap<u32, f64> {
    let own = std::process::id();
    let order = parents_first(nodes);
    let place: HashMap<u32, usize> = order
        .iter()
        .enumerate()
        .map(|(place, node)| (node.index, place))
        .collect();
    let claims: Vec<Claim> = order
        .iter()
        .map(|node| Claim {
            parent: place.get(&node.parent).copied(),
            tickets: f64::from(node.tickets.max(1)),
            wants: f64::from(u8::from(
                node.kind == kind::THREAD && node.active != 0 && node.tgid != own,
            )),
        })
        .collect();
    let cpus = water_fill(&claims, f64::from(cpus));
    order.iter().map(|node| node.index).zip(cpus).collect()
}

// Nodes of which the parent was not seen (it came or went meanwhile) are left out.
fn parents_first(nodes: &[Node]) -> Vec<Node> {
    let mut children: HashMap<u32, Vec<Node>> = HashMap::new();
    for node in nodes {
        children.entry(node.parent).or_default().push(*node);
    }
    let mut order = children.remove(&0).unwrap_or_default();
    let mut next = 0;
    while let Some(node) = order.get(next) {
        order.extend(children.remove(&node.index).unwrap_or_default());
        next += 1;
    }
    order
}

fn online_cpus() -> u32 {
    // SAFETY: a question without arguments in memory.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(cpus).unwrap_or(1).max(1)
}

pub fn kernel_text(kernel: &Kernel) -> String {
    let state = kernel.state.as_deref().unwrap_or("not in this kernel");
    let scheduler = kernel
        .scheduler
        .as_deref()
        .unwrap_or("the kernel's own scheduler");
    format!("sched_ext   {state}\nschedules   {scheduler}\n")
}

pub fn text(tombola: &Tombola) -> String {
    let counters: Vec<_> = tombola
        .counters
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    format!(
        "daemon      {}\npolicy      {}, quantum {:?}\nclients     {}, of which waiting {}\ncounters    {}\n\n{}\n\
         % of {} CPUs over {:.3} s; entitled: what the tickets give, as far as it can be used\n",
        tombola
            .pid
            .map_or("none".into(), |pid| format!("process {pid}")),
        tombola.policy,
        Duration::from_nanos(tombola.quantum_ns),
        tombola.clients,
        tombola.waiting,
        counters.join(", "),
        table::format(&rows(tombola)),
        tombola.cpus,
        tombola.interval_s,
    )
}

fn rows(tombola: &Tombola) -> Vec<Vec<String>> {
    let heading = [
        "USER / PROCESS",
        "PID",
        "TICKETS",
        "ENTITLED %",
        "RECEIVED %",
        "WINS",
    ];
    let percent = |cpus: f64| format!("{:.2}", 100.0 * cpus / f64::from(tombola.cpus));
    let mut rows = vec![heading.map(String::from).to_vec()];
    for user in &tombola.users {
        rows.push(vec![
            user.user.clone(),
            String::new(),
            user.base_tickets.to_string(),
            percent(user.time.entitled_cpus),
            percent(user.time.received_cpus),
        ]);
        rows.extend(user.processes.iter().map(|process| {
            vec![
                format!("  {}", process.name),
                process.pid.to_string(),
                process.tickets.to_string(),
                percent(process.time.entitled_cpus),
                percent(process.time.received_cpus),
                process.wins.to_string(),
            ]
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(index: u32, parent: u32, kind: u32, tickets: u32) -> Node {
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

    #[test]
    fn a_process_made_from_a_thread_has_the_higher_index_and_is_its_parent_all_the_same() {
        let nodes = [
            node(1, 0, kind::BASE, 1),
            node(2, 1, kind::BEST_EFFORT, 1),
            node(3, 2, kind::USER, 1000),
            node(4, 6, kind::THREAD, 100),
            node(5, 3, kind::THREAD, 100),
            node(6, 3, kind::PROCESS, 300),
        ];
        let cpus = entitled(&nodes, 1);
        assert_eq!((cpus[&4], cpus[&5], cpus[&6]), (0.75, 0.25, 0.75));
    }

    #[test]
    fn a_node_without_its_parent_is_left_out() {
        let nodes = [node(1, 0, kind::BASE, 1), node(9, 8, kind::THREAD, 100)];
        assert_eq!(parents_first(&nodes).len(), 1);
    }

    #[test]
    fn time_is_received_between_the_first_and_the_last_sample() {
        let mut ledger = Ledger::default();
        let mut user = node(3, 2, kind::USER, 1000);
        user.used_ns = 7_000_000_000;
        ledger.note(&[user], None);
        user.used_ns = 7_500_000_000;
        ledger.note(&[user], None);
        let users = ledger.users(Duration::from_secs(1), true);
        assert_eq!(users[0].time.received_cpus, 0.5);
    }
}
