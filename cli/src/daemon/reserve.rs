//! Reservations for programs and units, as long as they run.
//!
//! ```text
//!   a first process is found ──> make a currency of root's and reserve for it ──> in it, make a currency for each user ──> move
//!   the user's processes of the rule into that
//!   the last process has exited, or the rule ends ──> move the others back to their users' currencies ──> retire the currencies
//! ```
//!
//! So all processes of a program or a unit share one reservation, and each user has the same part of it, however many tickets or
//! processes the others have. Reservations are made in the order in which programs and units start. If too little is left for
//! one, its processes stay in their users' currencies, and each look tries again.

use super::finder::{Finder, currency_name, currency_of_user};
use crate::cgroups::CGROUPS;
use crate::names::ROOT;
use crate::rules::{Reserve, What};
use crate::sample::{Under, processes};
use crate::warn;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tombola_kernel::abi::{self, Node, kind};
use tombola_kernel::calls::Client;
use tombola_kernel::currencies::Currency;
use tombola_kernel::{Error, Result};

/// Processes may fork while they are moved out.
const TRIES: u32 = 10;

pub struct Reservations {
    finder: Finder,
    held: BTreeMap<What, Held>,
    /// Programs and units whose refusal was reported already.
    refused: BTreeSet<What>,
}

/// What a rule has while processes run that it is for.
struct Held {
    /// The currency that has the reservation.
    currency: Currency,
    /// The currencies in it, by the uid of the user whose processes they are for.
    of_users: BTreeMap<u32, Currency>,
}

impl Reservations {
    pub fn new() -> Self {
        Self {
            finder: Finder::new(Path::new(CGROUPS), ROOT),
            held: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Are there processes to look for, which may start or exit?
    pub fn follow(&self, rules: &[Reserve]) -> bool {
        !rules.is_empty() || !self.held.is_empty()
    }

    /// Moves processes that have started since the last look, and ends reservations whose processes have exited.
    pub fn look(&mut self, client: &Client, rules: &[Reserve], nodes: &[Node]) {
        if !self.follow(rules) {
            return;
        }
        self.end_but_for(client, rules);
        let members = members(nodes);
        let is_there = |currency: &Currency| members.contains_key(&currency.number());
        self.held.retain(|_, held| is_there(&held.currency));
        for held in self.held.values_mut() {
            held.of_users.retain(|_, currency| is_there(currency));
        }
        let mut free: BTreeMap<u32, u32> = processes(nodes)
            .into_iter()
            .filter(|(_, under)| *under == Under::BestEffort)
            .map(|(node, _)| (node.tgid, node.uid))
            .collect();
        for held in self.held.values() {
            free.extend(held.strangers(&members));
        }
        let pids: Vec<u32> = free.keys().copied().collect();
        let named: Vec<What> = rules.iter().map(|rule| rule.what.clone()).collect();
        let found = self.finder.find(&named, &pids);
        for rule in rules {
            let found = found.get(&rule.what).map_or(&[][..], Vec::as_slice);
            let newcomers: Vec<_> = found.iter().map(|pid| (*pid, free[pid])).collect();
            match self.serve(client, rule, &newcomers, &members) {
                Ok(()) => drop(self.refused.remove(&rule.what)),
                Err(error) => self.refuse(&rule.what, &error),
            }
        }
    }

    // `newcomers`: processes with their users.
    fn serve(
        &mut self,
        client: &Client,
        rule: &Reserve,
        newcomers: &[(u32, u32)],
        members: &Members,
    ) -> Result<()> {
        if let Some(held) = self.held.get_mut(&rule.what) {
            if newcomers.is_empty() && held.members(members).next().is_none() {
                return self.end(client, &rule.what);
            }
            held.retire_empty(client, members, newcomers)?;
        }
        if newcomers.is_empty() {
            return Ok(());
        }
        if !self.held.contains_key(&rule.what) {
            self.begin(client, rule)?;
        }
        let held = self.held.get_mut(&rule.what).expect("it has begun");
        // An administrator may have released it, or frozen and thawed it.
        let share = rule.share.hundredths().into();
        if let Err(error) = client.reserve_for_currency(&held.currency, share) {
            self.end(client, &rule.what)?;
            return Err(error);
        }
        // One user's error does not keep the others from theirs.
        let mut outcome = Ok(());
        for (pid, uid) in newcomers {
            let currency = held.of_user(client, &rule.what, *uid);
            match currency.and_then(|currency| client.move_process(*pid, Some(currency))) {
                // It has exited meanwhile.
                Err(Error::NoProcess { .. } | Error::NoTickets { .. }) | Ok(()) => (),
                Err(error) => outcome = Err(error),
            }
        }
        outcome
    }

    fn begin(&mut self, client: &Client, rule: &Reserve) -> Result<()> {
        let currency = find_or_make(client, &currency_name(&rule.what), None)?;
        let share = rule.share.hundredths().into();
        if let Err(error) = client.reserve_for_currency(&currency, share) {
            retire(client, &currency)?;
            return Err(error);
        }
        let held = Held {
            currency,
            of_users: BTreeMap::new(),
        };
        self.held.insert(rule.what.clone(), held);
        Ok(())
    }

    // The processes move out first: a running one is charged for its reservation when it moves, not when its currency is retired.
    // After an error the next look tries again.
    fn end(&mut self, client: &Client, what: &What) -> Result<()> {
        let Some(held) = self.held.get_mut(what) else {
            return Ok(());
        };
        for _ in 0..TRIES {
            let all = members(&client.tree()?);
            let members: Vec<u32> = held.members(&all).collect();
            if members.is_empty() {
                break;
            }
            for pid in members {
                let _ = client.move_process(pid, None); // it may have exited
            }
        }
        while let Some(last) = held.of_users.last_entry() {
            retire(client, last.get())?;
            last.remove();
        }
        retire(client, &held.currency)?;
        self.held.remove(what);
        Ok(())
    }

    fn refuse(&mut self, what: &What, error: &Error) {
        if self.refused.insert(what.clone()) {
            warn(&format!("{what} has no reservation: {error}"));
        }
    }

    /// Ends reservations that `rules` do not contain, and reduces those that get a smaller share, for a larger floor.
    pub fn make_room(&mut self, client: &Client, before: &[Reserve], rules: &[Reserve]) {
        self.end_but_for(client, rules);
        let lessened: Vec<Reserve> = rules
            .iter()
            .filter(|rule| {
                let mut same = before.iter().filter(|before| before.what == rule.what);
                same.any(|before| rule.share < before.share)
            })
            .cloned()
            .collect();
        self.change(client, &lessened);
    }

    /// Ends or changes all reservations as `rules` require.
    pub fn apply(&mut self, client: &Client, rules: &[Reserve]) {
        self.refused.clear();
        self.end_but_for(client, rules);
        self.change(client, rules);
    }

    fn end_but_for(&mut self, client: &Client, rules: &[Reserve]) {
        let gone: Vec<What> = self
            .held
            .keys()
            .filter(|what| rules.iter().all(|rule| rule.what != **what))
            .cloned()
            .collect();
        for what in gone {
            if let Err(error) = self.end(client, &what) {
                warn(&error.to_string());
            }
        }
    }

    fn change(&mut self, client: &Client, rules: &[Reserve]) {
        for rule in rules {
            let Some(held) = self.held.get(&rule.what) else {
                continue;
            };
            let share = rule.share.hundredths().into();
            if let Err(error) = client.reserve_for_currency(&held.currency, share) {
                self.refuse(&rule.what, &error);
            }
        }
    }
}

impl Held {
    fn of_user(&mut self, client: &Client, what: &What, uid: u32) -> Result<&Currency> {
        Ok(match self.of_users.entry(uid) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let name = currency_of_user(what, uid);
                place.insert(find_or_make(client, &name, Some(&self.currency))?)
            }
        })
    }

    fn members<'a>(&'a self, all: &'a Members) -> impl Iterator<Item = u32> + 'a {
        let currencies = self.of_users.values().chain([&self.currency]);
        currencies
            .filter_map(|currency| all.get(&currency.number()))
            .flatten()
            .map(|(pid, _)| *pid)
    }

    /// Processes in a currency that is for another user, with their own. The scheduler learns that a process has changed its user
    /// when the process next leaves its CPU, and a service may do so at any time.
    fn strangers<'a>(&'a self, members: &'a Members) -> impl Iterator<Item = (u32, u32)> + 'a {
        self.of_users.iter().flat_map(|(uid, currency)| {
            let inside = members.get(&currency.number()).into_iter().flatten();
            inside.filter(move |(_, owner)| owner != uid).copied()
        })
    }

    // Of users whose last process has exited. All of them are root's, who may have a thousand.
    fn retire_empty(
        &mut self,
        client: &Client,
        members: &Members,
        newcomers: &[(u32, u32)],
    ) -> Result<()> {
        let empty: Vec<u32> = self
            .of_users
            .iter()
            .filter(|(uid, currency)| {
                members.get(&currency.number()).is_none_or(Vec::is_empty)
                    && newcomers.iter().all(|(_, of)| of != *uid)
            })
            .map(|(uid, _)| *uid)
            .collect();
        for uid in empty {
            retire(client, &self.of_users[&uid])?;
            self.of_users.remove(&uid);
        }
        Ok(())
    }
}

fn find_or_make(client: &Client, name: &str, inside: Option<&Currency>) -> Result<Currency> {
    match client.currency(ROOT, name) {
        Err(Error::NoCurrency { .. }) => {
            client.make_currency(ROOT, name, abi::TICKETS_DEFAULT, inside)
        }
        found => found,
    }
}

fn retire(client: &Client, currency: &Currency) -> Result<()> {
    match client.retire_currency(currency) {
        Err(Error::NoCurrency { .. }) => Ok(()), // an administrator has retired it
        answer => answer,
    }
}

/// The processes in each currency, with their users, by its number.
type Members = BTreeMap<u64, Vec<(u32, u32)>>;

// Only processes: if root has moved currencies of its own into it, retiring moves them to root's user currency, as it should.
fn members(nodes: &[Node]) -> Members {
    let mut by_slot: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for node in nodes {
        if [kind::PROCESS, kind::THREAD].contains(&node.kind) {
            let of_slot = by_slot.entry(node.parent).or_default();
            of_slot.push((node.tgid, node.uid));
        }
    }
    nodes
        .iter()
        .filter(|node| node.kind == kind::CURRENCY)
        .map(|node| (node.number, by_slot.remove(&node.index).unwrap_or_default()))
        .collect()
}
