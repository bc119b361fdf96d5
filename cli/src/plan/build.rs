//! Makes a plan of a file: checks its numbers and names, each with its position.

use super::checks;
use super::example::EXAMPLE_COMMAND;
use super::file::{self, File, Name, Time};
use super::programs::Programs;
use super::schedulers::{Loaded, Scheduler, Settings};
use super::values::{BASE_TICKETS, COUNT, CPUS, LOCK_HOLD_MAX_NS, NICE, QUANTUM, TICKETS, Values};
use crate::duration;
use crate::faults::{Fault, Faults};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tombola_sim::limits;
use tombola_sim::plan::{Change, Currency, Plan, Task};
use tombola_sim::{ANYWHERE, Costs, RunQueues, Topology};
use toml::Spanned;
use toml::de::DeTable;

pub(super) fn parse(file: &str, text: &str, settings: &Settings) -> Result<Loaded, Faults> {
    let parsed: File = toml::from_str(text)
        .map_err(|error| Faults::new(file, text, vec![wrong_structure(text, &error)]))?;
    let mut builder = Builder::default();
    let loaded = builder.plan(&parsed, settings);
    match builder.values.faults.is_empty() {
        true => Ok(loaded),
        false => Err(Faults::new(file, text, builder.values.faults)),
    }
}

/// The file is not TOML, or it has other parts than a plan.
fn wrong_structure(text: &str, error: &toml::de::Error) -> Fault {
    if DeTable::parse(text).is_err() {
        return Fault::not_toml(text, error, EXAMPLE_COMMAND);
    }
    Fault::at(
        error.span().unwrap_or(0..0),
        error.message(),
        "a name is unknown or missing here, or its value is of the wrong kind: times and names are in quotes (\"10s\"), \
         numbers are not",
        format!("correct it; {EXAMPLE_COMMAND} shows the example"),
    )
}

#[derive(Default)]
struct Builder {
    values: Values,
    /// Users, and currencies as (user, name): their indices.
    users: BTreeMap<String, usize>,
    currencies: BTreeMap<(String, String), usize>,
}

impl Builder {
    fn plan(&mut self, file: &File, settings: &Settings) -> Loaded {
        let scheduler = self.scheduler(file, settings);
        let topology = self.topology(&file.machine, settings);
        if let Some(fault) = checks::scheduler(scheduler, topology.cpus) {
            let in_file = file.scheduler.as_ref();
            self.fault(fault, in_file.filter(|_| settings.scheduler.is_none()));
        }
        let run_queues = self.run_queues(file, settings, scheduler, topology);
        let mut programs = Programs::new(&mut self.values, file);
        let quantum = self.quantum(file);
        let span_ns = self.values.known_time(&file.duration);
        if span_ns == Some(0) {
            self.values
                .out_of_range("duration", file.duration.span(), "it is longer than 0s");
        }
        let mut currencies = self.users(file);
        self.nested(file, &mut currencies);
        let tasks = self.tasks(file, topology.cpus, &mut programs);
        let mut changes: Vec<(u64, Change)> = (file.changes.iter())
            .filter_map(|change| self.change(change, file))
            .collect();
        changes.sort_by_key(|(at, _)| *at);
        let plan = Plan {
            topology,
            costs: self.costs(&file.machine),
            scheduler: scheduler.kind(quantum, run_queues, &file.plan9),
            span_ns: span_ns.unwrap_or(1),
            seed: settings.seed.or(file.seed).unwrap_or(1),
            currencies,
            programs: programs.finish(&mut self.values),
            tasks,
            changes,
        };
        self.values.faults.extend(checks::number_of_clients(&plan));
        self.values.faults.extend(checks::sums_of_tickets(&plan));
        Loaded { scheduler, plan }
    }

    fn scheduler(&mut self, file: &File, settings: &Settings) -> Scheduler {
        let found = self.values.choice("scheduler", file.scheduler.as_ref());
        settings.scheduler.or(found).unwrap_or_default()
    }

    fn run_queues(
        &mut self,
        file: &File,
        settings: &Settings,
        scheduler: Scheduler,
        topology: Topology,
    ) -> RunQueues {
        let found = self.values.choice("run-queue", file.run_queue.as_ref());
        let wanted = settings.run_queue.or(found).unwrap_or_default();
        let caches = file.machine.cpus_per_cache.is_some();
        let found = self.values.choice("balance", file.balance.as_ref());
        let balance = settings.balance.or(found);
        let queues = match checks::run_queues(scheduler, wanted, balance, topology, caches) {
            Ok(queues) => queues,
            Err(fault) => {
                let in_file = file.run_queue.as_ref();
                let in_file = in_file.filter(|_| settings.run_queue.is_none());
                self.fault(fault, in_file);
                return RunQueues::Machine;
            }
        };
        let fault = balance.and_then(|balance| checks::balance(scheduler, balance, queues));
        if let Some(fault) = fault {
            let in_file = file.balance.as_ref();
            self.fault(fault, in_file.filter(|_| settings.balance.is_none()));
        }
        queues
    }

    /// A fault, at a value of the file if it is that value's.
    fn fault(&mut self, fault: Fault, in_file: Option<&Name>) {
        self.values.faults.push(match in_file {
            Some(value) => fault.placed(value.span()),
            None => fault,
        });
    }

    fn topology(&mut self, machine: &file::Machine, settings: &Settings) -> Topology {
        let mut number = |name: &str, value: &Option<Spanned<i64>>| {
            let value = value.as_ref()?;
            self.values
                .number(name, value, CPUS)
                .map(|number| number as usize)
        };
        let cpus = number("cpus", &machine.cpus);
        let cpus_per_cache = number("cpus-per-cache", &machine.cpus_per_cache);
        let cpus_per_node = number("cpus-per-node", &machine.cpus_per_node);
        let cpus = settings.cpus.or(cpus).unwrap_or(1);
        Topology {
            cpus,
            cpus_per_cache: cpus_per_cache.unwrap_or(cpus),
            cpus_per_node: cpus_per_node.unwrap_or(cpus),
        }
    }

    fn costs(&mut self, machine: &file::Machine) -> Costs {
        let mut cost = |time: &Option<Time>| time.as_ref().map_or(0, |time| self.values.time(time));
        Costs {
            switch_ns: cost(&machine.switch_cost),
            migration_ns: cost(&machine.migration_cost),
            cache_ns: cost(&machine.cache_cost),
            node_ns: cost(&machine.node_cost),
            lock_hold_ns: self.lock_hold(machine.lock_hold.as_ref()),
        }
    }

    fn lock_hold(&mut self, hold: Option<&Time>) -> u64 {
        let Some((hold, ns)) = hold.map(|hold| (hold, self.values.time(hold))) else {
            return 0;
        };
        if ns > LOCK_HOLD_MAX_NS {
            self.values
                .out_of_range("lock-hold", hold.span(), "it is at most 1ms");
        }
        ns
    }

    fn quantum(&mut self, file: &File) -> Duration {
        let Some(text) = &file.quantum else {
            return QUANTUM;
        };
        duration::quantum(text.get_ref()).unwrap_or_else(|error| {
            self.values.out_of_range("quantum", text.span(), &error);
            QUANTUM
        })
    }

    fn users(&mut self, file: &File) -> Vec<Currency> {
        let mut currencies = Vec::new();
        let mut users: Vec<_> = file.users.iter().collect();
        users.sort_by_key(|(_, tickets)| tickets.span().start);
        for (name, tickets) in users {
            self.users.insert(name.clone(), currencies.len());
            let tickets = self.values.number("base tickets", tickets, BASE_TICKETS);
            currencies.push(Currency {
                name: name.clone(),
                parent: None,
                tickets: tickets.map_or(limits::BASE_TICKETS_DEFAULT, |tickets| tickets as u32),
            });
        }
        if currencies.is_empty() {
            self.values.faults.push(Fault::of_file(
                "the plan has no users",
                "each task belongs to a user, and users share the machine by their base tickets",
                "add [users], and below it a line such as alice = 1000",
            ));
        }
        currencies
    }

    /// The users' own currencies, those around others first.
    fn nested(&mut self, file: &File, currencies: &mut Vec<Currency>) {
        let mut left: Vec<&file::Currency> = Vec::new();
        let mut names = BTreeMap::new();
        for currency in &file.currencies {
            let key = (
                currency.user.get_ref().clone(),
                currency.name.get_ref().clone(),
            );
            if names.insert(key, ()).is_some() {
                self.values.twice("currency", &currency.name);
            } else if self.user(&currency.user).is_some() {
                left.push(currency);
            }
        }
        let mut depths: BTreeMap<usize, u32> = BTreeMap::new();
        while let Some(next) = left.iter().position(|c| self.parent_of(c).is_some()) {
            let currency = left.remove(next);
            let parent = self.parent_of(currency).expect("it was found");
            let depth = depths.get(&parent).map_or(1, |depth| depth + 1);
            if depth > limits::NESTED_MAX {
                self.values.faults.push(Fault::at(
                    currency.name.span(),
                    format!("{} is nested {depth} deep", currency.name.get_ref()),
                    format!("currencies are nested at most {} deep", limits::NESTED_MAX),
                    "put it into a currency further out",
                ));
            }
            depths.insert(currencies.len(), depth);
            let key = (
                currency.user.get_ref().clone(),
                currency.name.get_ref().clone(),
            );
            self.currencies.insert(key, currencies.len());
            currencies.push(Currency {
                name: format!("{}:{}", currency.user.get_ref(), currency.name.get_ref()),
                parent: Some(parent),
                tickets: self.values.tickets(currency.tickets.as_ref()),
            });
        }
        for currency in left {
            let around = currency
                .r#in
                .as_ref()
                .expect("without it, its parent is its user");
            let key = (currency.user.get_ref().clone(), around.get_ref().clone());
            if names.contains_key(&key) {
                self.values.faults.push(Fault::at(
                    around.span(),
                    format!("{} is inside itself", currency.name.get_ref()),
                    format!("{} is in it, or in a currency that is", around.get_ref()),
                    "put one of them into another currency",
                ));
            } else {
                self.values.unknown::<usize>("currency", around);
            }
        }
    }

    fn parent_of(&self, currency: &file::Currency) -> Option<usize> {
        let user = currency.user.get_ref();
        match &currency.r#in {
            None => self.users.get(user).copied(),
            Some(around) => {
                let key = (user.clone(), around.get_ref().clone());
                self.currencies.get(&key).copied()
            }
        }
    }

    fn tasks(&mut self, file: &File, cpus: usize, programs: &mut Programs) -> Vec<Task> {
        let mut names = BTreeSet::new();
        for task in &file.tasks {
            if !names.insert(task.name.get_ref()) {
                self.values.twice("task", &task.name);
            }
        }
        if file.tasks.is_empty() {
            self.values.faults.push(Fault::of_file(
                "the plan has no tasks",
                "a plan says which tasks run",
                format!("add [[tasks]]; {EXAMPLE_COMMAND} shows an example"),
            ));
        }
        (file.tasks.iter())
            .map(|task| self.task(task, cpus, programs))
            .collect()
    }

    fn task(&mut self, task: &file::Task, cpus: usize, programs: &mut Programs) -> Task {
        let starts_ns = task
            .start
            .as_ref()
            .map_or(0, |start| self.values.time(start));
        let ends_ns = task.end.as_ref().map(|end| {
            let ends_ns = self.values.time(end);
            if ends_ns <= starts_ns {
                self.values
                    .out_of_range("end", end.span(), "a task ends after it has started");
            }
            ends_ns
        });
        let nice = task.nice.as_ref();
        let count = task.count.as_ref();
        Task {
            name: task.name.get_ref().clone(),
            count: count
                .and_then(|count| self.values.number("count", count, COUNT))
                .unwrap_or(1) as usize,
            currency: self.place(&task.user, task.currency.as_ref()).unwrap_or(0),
            tickets: self.values.tickets(task.tickets.as_ref()),
            nice: nice
                .and_then(|nice| self.values.number("nice", nice, NICE))
                .unwrap_or(0) as i32,
            mask: task
                .cpus
                .as_ref()
                .map_or(ANYWHERE, |list| self.mask(list, cpus)),
            starts_ns,
            ends_ns,
            program: programs.of_task(&mut self.values, task),
        }
    }

    fn mask(&mut self, list: &Spanned<Vec<i64>>, cpus: usize) -> u64 {
        checks::mask(list.get_ref(), cpus).unwrap_or_else(|fault| {
            self.values.faults.push(fault.placed(list.span()));
            ANYWHERE
        })
    }

    fn change(&mut self, change: &file::Change, file: &File) -> Option<(u64, Change)> {
        let at = self.values.time(&change.at);
        let whose = (&change.task, &change.user, &change.currency);
        let made = match whose {
            (Some(task), None, None) => {
                let found = (file.tasks.iter())
                    .position(|of| of.name.get_ref() == task.get_ref())
                    .or_else(|| self.values.unknown("task", task))?;
                Change::Task(
                    found,
                    self.values.number("tickets", &change.tickets, TICKETS)? as u32,
                )
            }
            (None, Some(user), currency) => {
                let found = self.place(user, currency.as_ref())?;
                let range = if currency.is_some() {
                    TICKETS
                } else {
                    BASE_TICKETS
                };
                Change::Currency(
                    found,
                    self.values.number("tickets", &change.tickets, range)? as u32,
                )
            }
            _ => {
                self.values.faults.push(Fault::at(
                    change.at.span(),
                    "it is not said whose tickets change",
                    "a change is of a task, of a user, or of a currency of a user",
                    "write task = NAME, or user = NAME, or user and currency",
                ));
                return None;
            }
        };
        Some((at, made))
    }

    /// The index of a user's own currency, or of another one of its.
    fn place(&mut self, user: &Name, currency: Option<&Name>) -> Option<usize> {
        let own = self.user(user)?;
        let Some(currency) = currency else {
            return Some(own);
        };
        let key = (user.get_ref().clone(), currency.get_ref().clone());
        (self.currencies.get(&key).copied()).or_else(|| self.values.unknown("currency", currency))
    }

    fn user(&mut self, name: &Name) -> Option<usize> {
        (self.users.get(name.get_ref()).copied()).or_else(|| self.values.unknown("user", name))
    }
}
