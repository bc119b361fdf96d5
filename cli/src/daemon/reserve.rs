//! Reservations for programs and units, as long as they run.
//!
//! ```text
//!   a first process is found ──> make a currency of root's and reserve for it ──> move all processes of the rule into it
//!   the last process has exited, or the rule ends ──> move the others back to their users' currencies ──> retire the currency
//! ```
//!
//! So all processes of a program or a unit share one reservation, whichever users they belong to. Reservations are made in the
//! order in which programs and units start. If too little is left for one, its processes stay in their users' currencies, and
//! each look tries again.

use super::reservation_finder::{Finder, currency_name};
use crate::cgroups::CGROUPS;
use crate::names::ROOT;
use crate::rules::{Reserve, What};
use crate::sample::{Under, processes};
use crate::warn;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tombola_kernel::abi::{Node, kind};
use tombola_kernel::calls::Client;
use tombola_kernel::currencies::Currency;
use tombola_kernel::{Error, Result};

/// Processes may fork while they are moved out.
const TRIES: u32 = 10;

pub struct Reservations {
    finder: Finder,
    held: BTreeMap<What, Currency>,
    /// Programs and units whose refusal was reported already.
    refused: BTreeSet<What>,
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
        let free: Vec<u32> = processes(nodes)
            .into_iter()
            .filter(|(_, under)| *under == Under::BestEffort)
            .map(|(node, _)| node.tgid)
            .collect();
        let found = self.finder.find(rules, &free);
        self.held
            .retain(|_, currency| node_of(nodes, currency).is_some());
        for rule in rules {
            let newcomers = found.get(&rule.what).map_or(&[][..], Vec::as_slice);
            match self.serve(client, rule, newcomers, nodes) {
                Ok(()) => drop(self.refused.remove(&rule.what)),
                Err(error) => self.refuse(&rule.what, &error),
            }
        }
    }

    fn serve(
        &mut self,
        client: &Client,
        rule: &Reserve,
        newcomers: &[u32],
        nodes: &[Node],
    ) -> Result<()> {
        let held = self.held.get(&rule.what);
        if newcomers.is_empty() {
            return match held.filter(|currency| members(nodes, currency).is_empty()) {
                Some(_) => self.end(client, &rule.what),
                None => Ok(()),
            };
        }
        let currency = match held {
            Some(currency) => currency.clone(),
            None => self.begin(client, rule)?,
        };
        // An administrator may have released it, or frozen and thawed it.
        if let Err(error) = client.reserve_for_currency(&currency, rule.share.hundredths().into()) {
            self.end(client, &rule.what)?;
            return Err(error);
        }
        for pid in newcomers {
            match client.move_process(*pid, Some(&currency)) {
                // It has exited meanwhile.
                Err(Error::NoProcess { .. } | Error::NoTickets { .. }) | Ok(()) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn begin(&mut self, client: &Client, rule: &Reserve) -> Result<Currency> {
        let name = currency_name(&rule.what);
        let currency = match client.currency(ROOT, &name) {
            Err(Error::NoCurrency { .. }) => {
                let tickets = tombola_kernel::abi::TICKETS_DEFAULT;
                client.make_currency(ROOT, &name, tickets, None)?
            }
            found => found?,
        };
        let share = rule.share.hundredths().into();
        if let Err(error) = client.reserve_for_currency(&currency, share) {
            client.retire_currency(&currency)?;
            return Err(error);
        }
        self.held.insert(rule.what.clone(), currency.clone());
        Ok(currency)
    }

    // Moves the processes out first: retiring the currency would move them to root's user currency.
    fn end(&mut self, client: &Client, what: &What) -> Result<()> {
        let Some(currency) = self.held.remove(what) else {
            return Ok(());
        };
        for _ in 0..TRIES {
            let nodes = client.tree()?;
            let members = members(&nodes, &currency);
            if members.is_empty() {
                break;
            }
            for pid in members {
                let _ = client.move_process(pid, None); // it may have exited
            }
        }
        match client.retire_currency(&currency) {
            Err(Error::NoCurrency { .. }) => Ok(()), // an administrator has retired it
            answer => answer,
        }
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
            let Some(currency) = self.held.get(&rule.what) else {
                continue;
            };
            if let Err(error) =
                client.reserve_for_currency(currency, rule.share.hundredths().into())
            {
                self.refuse(&rule.what, &error);
            }
        }
    }
}

fn node_of<'a>(nodes: &'a [Node], currency: &Currency) -> Option<&'a Node> {
    nodes
        .iter()
        .find(|node| node.kind == kind::CURRENCY && node.number == currency.number())
}

// Only processes: if root has moved currencies of its own into it, retiring moves them to root's user currency, as it should.
fn members(nodes: &[Node], currency: &Currency) -> Vec<u32> {
    let Some(around) = node_of(nodes, currency) else {
        return Vec::new();
    };
    nodes
        .iter()
        .filter(|node| node.parent == around.index)
        .filter(|node| [kind::PROCESS, kind::THREAD].contains(&node.kind))
        .map(|node| node.tgid)
        .collect()
}
