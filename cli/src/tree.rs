//! The report of `tombola tree`, as text and as JSON.

use crate::amounts::{FROZEN, told};
use crate::names::{self, Names};
use crate::table;
use crate::watch::{self, Account, Time, Watched};
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tombola_kernel::Result;
use tombola_kernel::abi::{Node, SHARE_ONE, kind};
use tombola_kernel::calls::Client;
use tombola_kernel::percent::Percent;

#[derive(Serialize)]
pub struct Tree {
    pub cpus: u32,
    pub interval_s: f64,
    /// Best effort, then the reservations.
    pub nodes: Vec<Branch>,
    pub frozen: Vec<Branch>,
}

#[derive(Serialize)]
pub struct Branch {
    /// best-effort, reservation, user, currency, process or loan
    pub kind: &'static str,
    /// The name of a user, currency or process; the lender's of a loan; the share of a reservation, of one CPU; else empty.
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The owner's uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Clients of all users lend to it, as the rules name it as a server.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub server: bool,
    /// The threads to which it lends now.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub lends_to: BTreeSet<u32>,
    /// In the parent's currency; best effort and reservations: in base. 0: frozen.
    pub tickets: u32,
    /// In base tickets, the mean over the samples in which it was active; null if it never was.
    pub worth: Option<f64>,
    #[serde(flatten)]
    pub time: Time,
    pub nodes: Vec<Branch>,
}

/// `active`: only nodes that were entitled to something or received something, with their ancestors, and frozen ones.
pub fn watch(client: &Client, interval: Duration, active: bool) -> Result<Tree> {
    let machine = client.reserved()?.machine;
    Ok(tree(&watch::watch(client, interval)?, machine, active))
}

/// A reservation's share of one CPU, from its tickets of base. `machine`: all CPUs, in hundredths of a percent of one.
pub fn share(tickets: u32, machine: u64) -> Percent {
    let hundredths = u64::from(tickets) * machine / u64::from(SHARE_ONE);
    Percent::of_hundredths(u32::try_from(hundredths).unwrap_or(u32::MAX))
}

/// A currency's name, which the kernel pads with NULs.
pub fn currency_name(node: &Node) -> String {
    let name = node.name.split(|byte| *byte == 0).next();
    String::from_utf8_lossy(name.unwrap_or_default()).into_owned()
}

struct Builder<'a> {
    watched: &'a Watched,
    children: HashMap<u32, Vec<&'a Account>>,
    /// By the index of the node that lends, or of its process.
    borrowers: HashMap<u32, BTreeSet<u32>>,
    machine: u64,
    active: bool,
    names: Names,
}

fn tree(watched: &Watched, machine: u64, active: bool) -> Tree {
    let mut builder = Builder {
        watched,
        children: HashMap::new(),
        borrowers: borrowers(watched),
        machine,
        active,
        names: Names::default(),
    };
    let (mut base, mut frozen_root) = (0, 0);
    for account in watched.last() {
        match account.last.kind {
            kind::BASE => base = account.last.index,
            kind::FROZEN => frozen_root = account.last.index,
            // Of a process of several threads only the process is shown.
            kind::THREAD if !account.is_process => (),
            _ => {
                let siblings = builder.children.entry(account.last.parent);
                siblings.or_default().push(account);
            }
        }
    }
    Tree {
        cpus: watched.cpus,
        interval_s: watched.interval.as_secs_f64(),
        nodes: builder.branches(base),
        frozen: builder.branches(frozen_root),
    }
}

fn borrowers(watched: &Watched) -> HashMap<u32, BTreeSet<u32>> {
    let mut borrowers: HashMap<u32, BTreeSet<u32>> = HashMap::new();
    for account in watched.last().filter(|account| account.last.lends_to != 0) {
        let is_node = account.is_process || account.last.kind == kind::LOAN;
        let lender = match is_node {
            true => account.last.index,
            false => account.last.parent,
        };
        let of = borrowers.entry(lender).or_default();
        of.insert(account.last.lends_to);
    }
    borrowers
}

impl Builder<'_> {
    fn branches(&mut self, of: u32) -> Vec<Branch> {
        let mut accounts = self.children.remove(&of).unwrap_or_default();
        accounts.sort_by_key(|account| order(&account.last));
        let branches = accounts.into_iter().map(|account| self.branch(account));
        let branches: Vec<Branch> = branches.collect();
        let shown = |branch: &Branch| {
            !self.active
                || branch.time.is_any()
                || !branch.nodes.is_empty()
                || branch.tickets == FROZEN
        };
        branches.into_iter().filter(shown).collect()
    }

    fn branch(&mut self, account: &Account) -> Branch {
        let node = &account.last;
        let (kind, name) = self.title(account);
        let is_owned = account.is_process || [kind::USER, kind::CURRENCY].contains(&node.kind);
        Branch {
            kind,
            name,
            pid: (account.is_process || node.kind == kind::LOAN).then_some(node.tgid),
            server: account.is_process && node.serves != 0,
            lends_to: self.borrowers.remove(&node.index).unwrap_or_default(),
            uid: is_owned.then_some(node.uid),
            tickets: account.tickets(),
            worth: account.worth(),
            time: self.watched.time(account),
            nodes: self.branches(node.index),
        }
    }

    fn title(&mut self, account: &Account) -> (&'static str, String) {
        let node = &account.last;
        match node.kind {
            kind::BEST_EFFORT => ("best-effort", String::new()),
            kind::RESERVATION => ("reservation", share(node.tickets, self.machine).to_string()),
            kind::USER => ("user", self.names.user(node.uid).to_owned()),
            kind::CURRENCY => ("currency", currency_name(node)),
            kind::LOAN => ("loan", names::process(node.tgid)),
            _ => ("process", names::process(node.tgid)),
        }
    }
}

// Best effort before reservations; users by uid; currencies by name before processes by PID, each with its loans.
fn order(node: &Node) -> (u8, String, u32) {
    match node.kind {
        kind::BEST_EFFORT | kind::USER => (0, String::new(), node.uid),
        kind::CURRENCY => (1, currency_name(node), node.uid),
        kind::RESERVATION => (2, String::new(), node.index),
        _ => (3, String::new(), node.tgid),
    }
}

pub fn text(tree: &Tree) -> String {
    let heading = [
        "NODE",
        "PID",
        "TICKETS",
        "WORTH",
        "ENTITLED %",
        "RECEIVED %",
        "LENDS TO",
    ];
    let mut rows = vec![heading.map(String::from).to_vec()];
    for branch in &tree.nodes {
        add(branch, 0, tree.cpus, &mut rows);
    }
    if !tree.frozen.is_empty() {
        rows.push(vec!["frozen".into()]);
    }
    for branch in &tree.frozen {
        add(branch, 1, tree.cpus, &mut rows);
    }
    format!(
        "{}\n% of {} CPUs over {:.3} s; worth: in base tickets, while runnable; \
         entitled: what the tickets give, as far as it can be used\n",
        table::format(&rows),
        tree.cpus,
        tree.interval_s,
    )
}

fn add(branch: &Branch, depth: usize, cpus: u32, rows: &mut Vec<Vec<String>>) {
    let percent = |time: f64| format!("{:.2}", 100.0 * time / f64::from(cpus));
    let name = match branch.kind {
        "best-effort" => "best effort".into(),
        "process" if branch.server => format!("{} (server)", branch.name),
        "process" => branch.name.clone(),
        kind => format!("{kind} {}", branch.name),
    };
    let borrowers: Vec<String> = branch.lends_to.iter().map(u32::to_string).collect();
    rows.push(vec![
        format!("{:width$}{name}", "", width = 2 * depth),
        branch.pid.map(|pid| pid.to_string()).unwrap_or_default(),
        told(branch.tickets),
        branch
            .worth
            .map_or("-".into(), |worth| format!("{worth:.1}")),
        percent(branch.time.entitled_cpus),
        percent(branch.time.received_cpus),
        borrowers.join(","),
    ]);
    for branch in &branch.nodes {
        add(branch, depth + 1, cpus, rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{node, settled, watched};

    fn nodes() -> Vec<Node> {
        let mut build = node(6, 4, kind::CURRENCY, 300);
        build.name[..5].copy_from_slice(b"build");
        let mut idle = node(12, 4, kind::THREAD, 900);
        idle.active = 0;
        settled(vec![
            node(1, 0, kind::BASE, 1),
            node(2, 1, kind::BEST_EFFORT, 2_500),
            node(3, 0, kind::FROZEN, 1),
            node(4, 2, kind::USER, 1_000),
            node(5, 4, kind::THREAD, 100),
            build,
            node(7, 6, kind::PROCESS, 50),
            node(8, 7, kind::THREAD, 100),
            node(9, 1, kind::RESERVATION, 1_500),
            node(10, 9, kind::THREAD, 100),
            node(11, 3, kind::THREAD, 70),
            idle,
        ])
    }

    fn kinds(branches: &[Branch]) -> Vec<&'static str> {
        branches.iter().map(|branch| branch.kind).collect()
    }

    #[test]
    fn the_tree_is_whole() {
        let tree = tree(&watched(&nodes(), 2), 20_000, false);
        assert_eq!(kinds(&tree.nodes), ["best-effort", "reservation"]);
        assert_eq!(tree.nodes[1].name, "30%");
        let user = &tree.nodes[0].nodes[0];
        assert_eq!(kinds(&user.nodes), ["currency", "process", "process"]);
        assert_eq!(user.nodes[0].name, "build");
        let process = &user.nodes[0].nodes[0];
        assert_eq!((process.pid, process.worth), (Some(7), Some(750.0)));
        assert!(process.nodes.is_empty(), "threads are not shown");
        let frozen = &tree.frozen[0];
        assert_eq!(
            (frozen.pid, frozen.tickets, frozen.worth),
            (Some(11), 0, None)
        );
    }

    #[test]
    fn idle_nodes_can_be_left_out() {
        let tree = tree(&watched(&nodes(), 2), 20_000, true);
        let user = &tree.nodes[0].nodes[0];
        assert_eq!(kinds(&user.nodes), ["currency", "process"]);
        assert_eq!(tree.frozen.len(), 1);
    }

    #[test]
    fn the_text_is_indented() {
        let text = text(&tree(&watched(&nodes(), 2), 20_000, false));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("best effort "), "{text}");
        assert!(lines[2].starts_with("  user root "), "{text}");
        assert!(lines[3].starts_with("    currency build "), "{text}");
        assert!(text.contains("\nreservation 30% "), "{text}");
        assert!(text.contains("\nfrozen\n"), "{text}");
    }

    #[test]
    fn a_share_is_shown_as_requested() {
        assert_eq!(share(1_500, 20_000).to_string(), "30%");
        assert_eq!(share(10_000, 10_000).to_string(), "100%");
    }
}
