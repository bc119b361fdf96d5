//! What the clients of a plan are entitled to and receive, window by window.

use super::latencies::Latencies;
use super::model::Plan;
use super::report::{Report, Row, Sample};
use crate::entitlement::{Client, rates};
use crate::machine::{Machine, TaskId};
use crate::scheduler::RunQueueCounts;

/// Accounts of a plan's currencies and tasks, and of each task that lives.
pub(super) struct Accounts<'a> {
    plan: &'a Plan,
    /// The end of the last window.
    since_ns: u64,
    /// Tickets of each currency.
    tickets: Vec<u32>,
    of_currencies: Vec<Account>,
    of_tasks: Vec<Account>,
    /// Of each task of the machine, the index of its row.
    rows: Vec<usize>,
    /// Tasks that live, or ended since the last window.
    watched: Vec<Watched>,
}

#[derive(Clone)]
struct Account {
    entitled_ns: f64,
    received_ns: u64,
    worst_ns: f64,
    latencies: Latencies,
    switches: u64,
    migrations: u64,
    /// When the last of its tasks ended.
    ended: Ended,
}

/// Tasks that never lived, that live, or when they ended; the greatest is that of all together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Ended {
    Nothing,
    At(u64),
    Lives,
}

/// A task of the machine.
struct Watched {
    task: TaskId,
    /// It is to end as soon as it next has a CPU.
    ends: bool,
    entitled_ns: f64,
    /// These and the rest are the machine's, at the end of the last window.
    received_ns: u64,
    waited_ns: u64,
    sleep_lost_ns: u64,
    switches: u64,
    migrations: u64,
}

impl<'a> Accounts<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            since_ns: 0,
            tickets: plan.currencies.iter().map(|of| of.tickets).collect(),
            of_currencies: vec![Account::new(); plan.currencies.len()],
            of_tasks: vec![Account::new(); plan.tasks.len()],
            rows: Vec::new(),
            watched: Vec::new(),
        }
    }

    /// The machine's next task belongs to this row; its children will, too.
    pub fn add_task(&mut self, row: usize) {
        self.watched.push(Watched::new(self.rows.len()));
        self.rows.push(row);
    }

    pub fn set_tickets(&mut self, currency: usize, tickets: u32) {
        self.tickets[currency] = tickets;
    }

    /// The living tasks of a row, as of the end of the last window.
    pub fn living(&self, row: usize) -> Vec<TaskId> {
        let tasks = self.watched.iter().map(|watched| watched.task);
        tasks.filter(|&task| self.rows[task] == row).collect()
    }

    /// The tasks of a row are to end, and want no more CPU time.
    pub fn end(&mut self, row: usize) {
        for watched in &mut self.watched {
            watched.ends |= self.rows[watched.task] == row;
        }
    }

    /// A window ends.
    pub fn end_window(&mut self, machine: &mut Machine) {
        for task in self.rows.len()..machine.tasks.len() {
            let parent = machine.tasks[task].parent;
            self.add_task(self.rows[parent.expect("tasks without a parent were added")]);
        }
        let window_ns = machine.now - self.since_ns;
        self.since_ns = machine.now;
        if window_ns == 0 {
            return;
        }
        let clients = self.clients(machine, window_ns as f64);
        let mut received_ns = vec![0; clients.len()];
        let rates = rates(&clients, machine.cpus());
        let (received_of_currencies, received_of_tasks) =
            received_ns.split_at_mut(1 + self.tickets.len());
        let of_tasks = &rates[received_of_currencies.len()..];
        for ((watched, rate), received_ns) in
            (self.watched.iter_mut().zip(of_tasks)).zip(received_of_tasks)
        {
            let row = self.rows[watched.task];
            let account = &mut self.of_tasks[row];
            *received_ns = watched.update(machine, rate * window_ns as f64, account);
            received_of_currencies[self.plan.tasks[row].currency + 1] += *received_ns;
        }
        for (i, account) in self.of_currencies.iter_mut().enumerate().rev() {
            let received_ns = received_of_currencies[i + 1];
            account.add(rates[i + 1] * window_ns as f64, received_ns);
            account.worst_ns = account.worst_ns.max(account.off_ns());
            let parent = self.plan.currencies[i].parent;
            received_of_currencies[parent.map_or(0, |parent| parent + 1)] += received_ns;
        }
        self.watched
            .retain(|watched| machine.is_alive(watched.task));
    }

    /// The root, the currencies, and the tasks with what they want.
    fn clients(&self, machine: &Machine, window_ns: f64) -> Vec<Client> {
        let mut clients = vec![Client::currency(None, 1)];
        for (currency, &tickets) in self.plan.currencies.iter().zip(&self.tickets) {
            let parent = currency.parent.map_or(0, |parent| parent + 1);
            clients.push(Client::currency(Some(parent), tickets));
        }
        clients.extend(self.watched.iter().map(|watched| {
            let currency = self.plan.tasks[self.rows[watched.task]].currency;
            let task = machine.task(watched.task);
            Client {
                demand: watched.demand(machine, window_ns),
                ..Client::leaf(currency + 1, task.tickets, task.mask)
            }
        }));
        clients
    }

    pub fn sample(&self) -> Sample {
        Sample {
            at_ns: self.since_ns,
            entitled_ns: (self.of_tasks.iter())
                .map(|of| of.entitled_ns.round() as u64)
                .collect(),
            received_ns: self.of_tasks.iter().map(|of| of.received_ns).collect(),
        }
    }

    pub fn report(mut self, machine: &Machine, run_queues: Option<RunQueueCounts>) -> Report {
        for (task, &row) in machine.tasks.iter().zip(&self.rows) {
            let ended = task.ended_ns.map_or(Ended::Lives, Ended::At);
            self.of_tasks[row].ended = self.of_tasks[row].ended.max(ended);
        }
        for (task, account) in self.plan.tasks.iter().zip(&self.of_tasks) {
            self.of_currencies[task.currency].add_events(account);
        }
        let currencies = &self.plan.currencies;
        for (i, currency) in currencies.iter().enumerate().rev() {
            if let Some(parent) = currency.parent {
                let (parents, children) = self.of_currencies.split_at_mut(i);
                parents[parent].add_events(&children[0]);
            }
        }
        let name = |currency: usize| currencies[currency].name.clone();
        Report {
            cpus: machine.cpus(),
            span_ns: self.plan.span_ns,
            seed: self.plan.seed,
            switches: machine.switches,
            migrations: machine.migrations,
            run_queues,
            busiest_lock: machine.busiest_lock(),
            locks: machine.used_locks().collect(),
            currencies: (currencies.iter().zip(&self.of_currencies))
                .map(|(of, account)| account.row(&of.name, of.parent.map(name)))
                .collect(),
            tasks: (self.plan.tasks.iter().zip(&self.of_tasks))
                .map(|(of, account)| account.row(&of.name, Some(name(of.currency))))
                .collect(),
        }
    }
}

impl Watched {
    fn new(task: TaskId) -> Self {
        Self {
            task,
            ends: false,
            entitled_ns: 0.0,
            received_ns: 0,
            waited_ns: 0,
            sleep_lost_ns: 0,
            switches: 0,
            migrations: 0,
        }
    }

    /// The part of the window that the task would have computed if it had never waited: what it ran, of what it ran and slept.
    /// A timer's sleeps would have been longer by what it waited.
    fn demand(&self, machine: &Machine, window_ns: f64) -> f64 {
        if self.ends {
            return 0.0;
        }
        let task = machine.task(self.task);
        let ran_ns = machine.ran_ns(self.task) - self.received_ns;
        let waited_ns = machine.waited_ns(self.task) - self.waited_ns;
        let lost_ns = (task.sleep_lost_ns - self.sleep_lost_ns).min(waited_ns);
        let without_waiting_ns = window_ns - (waited_ns - lost_ns) as f64;
        if without_waiting_ns > 0.0 {
            ran_ns as f64 / without_waiting_ns
        } else {
            1.0
        }
    }

    /// Adds what has happened since the last window to the row's account. Returns what was received.
    fn update(&mut self, machine: &mut Machine, entitled_ns: f64, account: &mut Account) -> u64 {
        let (ran_ns, waited_ns) = (machine.ran_ns(self.task), machine.waited_ns(self.task));
        let task = &mut machine.tasks[self.task];
        let received_ns = ran_ns - self.received_ns;
        account.add(entitled_ns, received_ns);
        account.switches += task.switches - self.switches;
        account.migrations += task.migrations - self.migrations;
        for latency in task.latencies.drain(..) {
            account.latencies.add(latency);
        }
        self.entitled_ns += entitled_ns;
        self.received_ns = ran_ns;
        self.waited_ns = waited_ns;
        self.sleep_lost_ns = task.sleep_lost_ns;
        self.switches = task.switches;
        self.migrations = task.migrations;
        let off_ns = (self.entitled_ns - self.received_ns as f64).abs();
        account.worst_ns = account.worst_ns.max(off_ns);
        received_ns
    }
}

impl Account {
    fn new() -> Self {
        Self {
            entitled_ns: 0.0,
            received_ns: 0,
            worst_ns: 0.0,
            latencies: Latencies::default(),
            switches: 0,
            migrations: 0,
            ended: Ended::Nothing,
        }
    }

    fn add(&mut self, entitled_ns: f64, received_ns: u64) {
        self.entitled_ns += entitled_ns;
        self.received_ns += received_ns;
    }

    /// What a client of this currency did, beside the CPU time.
    fn add_events(&mut self, client: &Self) {
        self.switches += client.switches;
        self.migrations += client.migrations;
        self.ended = self.ended.max(client.ended);
        self.latencies.add_all(&client.latencies);
    }

    fn off_ns(&self) -> f64 {
        (self.entitled_ns - self.received_ns as f64).abs()
    }

    fn row(&self, name: &str, parent: Option<String>) -> Row {
        Row {
            name: name.to_owned(),
            parent,
            entitled_ns: self.entitled_ns.round() as u64,
            received_ns: self.received_ns,
            worst_ns: self.worst_ns.round() as u64,
            latency: self.latencies.summary(),
            switches: self.switches,
            migrations: self.migrations,
            ended_ns: match self.ended {
                Ended::At(ns) => Some(ns),
                Ended::Nothing | Ended::Lives => None,
            },
        }
    }
}
