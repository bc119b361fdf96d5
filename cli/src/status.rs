//! The report of `tombola status`, as text and as JSON.

use crate::amounts::told;
use crate::cgroups::{self, Setting};
use crate::ejection;
use crate::names::{self, Names};
use crate::table;
use crate::watch::{self, Account, Time, Under, Watched};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use tombola_kernel::abi::kind;
use tombola_kernel::calls::{Client, Info};
use tombola_kernel::sched_ext::{self, State};
use tombola_kernel::{Result, daemon_pid};

#[derive(Serialize)]
pub struct Report {
    pub kernel: Kernel,
    /// The last ejection since boot.
    pub ejection: Option<ejection::Record>,
    /// None: Tombola does not run.
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
    /// Processes that are currencies: they have, or once had, several threads.
    pub threaded: u64,
    pub waiting: u64,
    pub counters: BTreeMap<&'static str, u64>,
    /// Limits and weights of cgroups that have no effect.
    pub without_effect: Vec<Setting>,
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
    /// By calls.
    pub lent_tickets: u32,
    pub wins: u64,
    #[serde(flatten)]
    pub time: Time,
}

pub fn kernel() -> Kernel {
    let state = sched_ext::state().ok();
    Kernel {
        sched_ext: state.is_some(),
        scheduler: state.as_ref().and_then(|state| state.scheduler.clone()),
        state: state.map(|State { state, .. }| state),
    }
}

/// Watches for `interval`. `all`: also users and processes that were entitled to nothing and received nothing.
pub fn watch(client: &Client, interval: Duration, all: bool) -> Result<Tombola> {
    let watched = watch::watch(client, interval)?;
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
        cpus: watched.cpus,
        clients,
        threaded,
        waiting,
        counters: client.counters()?.into_iter().collect(),
        without_effect: cgroups::without_effect(),
        interval_s: watched.interval.as_secs_f64(),
        users: users(&watched, all),
    })
}

fn users(watched: &Watched, all: bool) -> Vec<User> {
    let mut names = Names::default();
    let mut users: Vec<User> = watched
        .accounts()
        .filter(|account| account.last.kind == kind::USER)
        .map(|account| user(watched, account, all, &mut names))
        .filter(|user| all || user.time.is_any())
        .collect();
    users.sort_by_key(|user| user.uid);
    users
}

// Lists all processes of the user, also frozen ones and those with a reservation. The user's own account lacks the time that
// they receive from reservations, so it is added.
fn user(watched: &Watched, account: &Account, all: bool, names: &mut Names) -> User {
    let uid = account.last.id;
    let processes: Vec<&Account> = watched
        .accounts()
        .filter(|account| account.is_process && account.last.uid == uid)
        .collect();
    let reserved = processes
        .iter()
        .filter(|account| account.under == Under::Reservation)
        .fold(Time::default(), |sum, account| {
            sum.and(watched.time(account))
        });
    let lent_cpus = processes
        .iter()
        .fold(0.0, |sum, account| sum + watched.time(account).lent_cpus);
    User {
        user: names.user(uid).to_owned(),
        uid,
        base_tickets: account.tickets(),
        time: Time {
            lent_cpus,
            ..watched.time(account).and(reserved)
        },
        processes: processes_of(watched, &processes, all),
    }
}

fn processes_of(watched: &Watched, accounts: &[&Account], all: bool) -> Vec<Process> {
    // Names are read from /proc, so only those of processes that are shown.
    let mut processes: Vec<Process> = accounts
        .iter()
        .map(|account| (account, watched.time(account)))
        .filter(|(_, time)| all || time.is_any())
        .map(|(account, time)| Process {
            pid: account.last.tgid,
            name: names::process(account.last.tgid),
            tickets: account.tickets(),
            lent_tickets: account.last.lent,
            wins: account.last.wins,
            time,
        })
        .collect();
    processes.sort_by_key(|process| process.pid);
    processes
}

pub fn kernel_text(kernel: &Kernel) -> String {
    let state = kernel.state.as_deref().unwrap_or("not in this kernel");
    let scheduler = kernel
        .scheduler
        .as_deref()
        .unwrap_or("the kernel's own scheduler");
    format!("sched_ext   {state}\nschedules   {scheduler}\n")
}

fn without_effect(settings: &[Setting]) -> String {
    match settings {
        [] => String::new(),
        some => format!(
            "no effect   {}\n",
            cgroups::lines(some).join("\n            ")
        ),
    }
}

pub fn text(tombola: &Tombola) -> String {
    let counters: Vec<_> = tombola
        .counters
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    format!(
        "daemon      {}\npolicy      {}, quantum {:?}\nclients     {}, of which waiting {}\ncounters    {}\n{}\n{}\n\
         % of {} CPUs over {:.3} s; entitled: what the tickets give, as far as it can be used; lent: what others used on them\n",
        tombola
            .pid
            .map_or("none".into(), |pid| format!("process {pid}")),
        tombola.policy,
        Duration::from_nanos(tombola.quantum_ns),
        tombola.clients,
        tombola.waiting,
        counters.join(", "),
        without_effect(&tombola.without_effect),
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
        "LENT %",
        "WINS",
    ];
    let percent = |cpus: f64| format!("{:.2}", 100.0 * cpus / f64::from(tombola.cpus));
    let mut rows = vec![heading.map(String::from).to_vec()];
    for user in &tombola.users {
        rows.push(vec![
            user.user.clone(),
            String::new(),
            told(user.base_tickets),
            percent(user.time.entitled_cpus),
            percent(user.time.received_cpus),
            percent(user.time.lent_cpus),
        ]);
        rows.extend(user.processes.iter().map(|process| {
            vec![
                format!("  {}", process.name),
                process.pid.to_string(),
                told(process.tickets),
                percent(process.time.entitled_cpus),
                percent(process.time.received_cpus),
                percent(process.time.lent_cpus),
                process.wins.to_string(),
            ]
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::tests::{node, settled, watched};
    use tombola_kernel::abi::Node;

    fn of_user(mut node: Node, uid: u32) -> Node {
        node.uid = uid;
        if node.kind == kind::USER {
            node.id = uid;
        }
        node
    }

    #[test]
    fn all_processes_of_a_user_are_listed() {
        let nodes = settled(vec![
            node(1, 0, kind::BASE, 1),
            node(2, 1, kind::BEST_EFFORT, 2_500),
            node(3, 0, kind::FROZEN, 1),
            of_user(node(4, 2, kind::USER, 1_000), 1_000),
            of_user(node(5, 4, kind::CURRENCY, 300), 1_000),
            of_user(node(6, 5, kind::THREAD, 10), 1_000),
            of_user(node(7, 3, kind::THREAD, 20), 1_000),
            node(8, 1, kind::RESERVATION, 500),
            of_user(node(9, 8, kind::PROCESS, 30), 1_000),
            of_user(node(10, 9, kind::THREAD, 40), 1_000),
            of_user(node(11, 3, kind::USER, 700), 1_001),
            of_user(node(12, 11, kind::THREAD, 50), 1_001),
        ]);
        let users = users(&watched(&nodes, 1), true);
        let tickets = |user: &User| -> Vec<u32> {
            let processes = user.processes.iter();
            processes.map(|process| process.tickets).collect()
        };
        assert_eq!((users[0].uid, users[0].base_tickets), (1_000, 1_000));
        assert_eq!(tickets(&users[0]), [10, 0, 30]);
        assert_eq!((users[1].uid, users[1].base_tickets), (1_001, 0));
        assert_eq!(tickets(&users[1]), [50]);
        let entitled = users[0].time.entitled_cpus;
        assert!((entitled - 1.0).abs() < 1e-9, "{entitled}");
    }
}
