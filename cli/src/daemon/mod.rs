//! The daemon's work beside the scheduler: it applies the rules of /etc/tombola.toml, keeps base tickets over restarts, makes
//! reservations for programs and units, and lets clients of all users lend to servers.
//!
//! The scheduler runs without this work; only the start and `tombola reload` wait for it. The daemon looks at the tree when the
//! kernel reports new users or changed base tickets. While the rules name programs or units, it looks each second, for the
//! kernel does not report their processes. Looks that use much CPU time come less often: they use at most a two-hundredth of a
//! CPU.

mod base;
mod finder;
mod pace;
mod reserve;
mod servers;

use crate::amounts::FROZEN;
use crate::names::ROOT;
use crate::rules::{Reserve, Rules};
use crate::warn;
use base::{Base, Store};
use pace::cpu_time;
use reserve::Reservations;
use servers::Servers;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};
use tombola_kernel::abi::{Node, kind};
use tombola_kernel::calls::{Client, Grant};
use tombola_kernel::{Error, Result};

/// The base tickets last set by lsetbase.
pub const SAVED: &str = "/var/lib/tombola/base-tickets";

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Looks use at most one part in so many of a CPU.
const COST: u32 = 200;

/// At most so many users are set before the scheduler has seen them; a group may have more members than there are slots. The
/// others are set at the first look after they have appeared.
const IN_ADVANCE: usize = 1024;

pub struct Keeper {
    client: Client,
    rules: Rules,
    store: Store,
    reservations: Reservations,
    servers: Servers,
    seen: BTreeSet<u32>,
    /// Saved grants of users that were not seen yet.
    absent: Base,
    next: Instant,
    /// The last look failed.
    again: bool,
}

impl Keeper {
    /// Applies the rules and the saved base tickets.
    pub fn start(rules: Rules) -> Result<Self> {
        let mut keeper = Self {
            client: Client::open()?,
            rules,
            store: Store::new(Path::new(SAVED)),
            reservations: Reservations::new(),
            servers: Servers::new(),
            seen: BTreeSet::new(),
            absent: Base::new(),
            next: Instant::now(),
            again: false,
        };
        let saved = keeper.store.read().unwrap_or_else(|error| {
            warn(&error);
            Base::new()
        });
        keeper.apply_to_machine()?;
        let now = keeper.base(&keeper.client.tree()?)?;
        let wanted = base::at_start(&keeper.rules, &saved, &now);
        keeper.seen = keeper.set(&wanted, &now)?;
        keeper.seen.extend(now.into_keys());
        keeper.absent = base::absent(&keeper.rules, saved, &keeper.seen);
        Ok(keeper)
    }

    /// Replaces the rules. After an error, such as a refused floor, the former rules hold.
    pub fn reload(&mut self, rules: Rules) -> Result<()> {
        let before = self.base(&self.client.tree()?)?;
        let former = std::mem::replace(&mut self.rules, rules);
        let changed = self.change_from(&former, &before);
        if changed.is_err() {
            self.rules = former;
            // The first error is reported; what could not be restored mostly has the same cause.
            let _ = self.apply_to_machine().and_then(|()| self.restore(&before));
        }
        self.reservations.apply(&self.client, &self.rules.reserve);
        self.servers.change();
        self.next = Instant::now();
        changed
    }

    // `before`: the base tickets under the rules `former`.
    fn change_from(&mut self, former: &Rules, before: &Base) -> Result<()> {
        self.change_floor(&former.reserve)?;
        self.apply_to_machine()?;
        let wanted = base::at_reload(former, &self.rules, before);
        let set = self.set(&wanted, before)?;
        self.seen.extend(set);
        Ok(())
    }

    fn restore(&self, before: &Base) -> Result<()> {
        let now = self.base(&self.client.tree()?)?;
        self.set(&base::changes(before.clone(), &now), &now)?;
        Ok(())
    }

    /// The time until the next look; None: no look before something has changed.
    pub fn rest(&self, has_changed: bool) -> Option<Duration> {
        let rest = self.next.saturating_duration_since(Instant::now());
        let follows = self.reservations.follow(&self.rules.reserve)
            || self.servers.follow(&self.rules.servers);
        (has_changed || self.again || follows).then_some(rest)
    }

    /// Looks at the tree and handles what has changed. Does nothing if the scheduler has ended.
    pub fn look(&mut self) {
        let began = cpu_time();
        self.again = match self.try_look() {
            Ok(()) | Err(Error::NotRunning { .. }) => false,
            Err(error) => {
                warn(&error.to_string());
                true
            }
        };
        let rest = cpu_time().saturating_sub(began) * COST;
        self.next = Instant::now() + rest.max(LOOK_EVERY);
    }

    fn try_look(&mut self) -> Result<()> {
        let nodes = self.client.tree()?;
        self.reservations
            .look(&self.client, &self.rules.reserve, &nodes);
        self.servers.look(&self.client, &self.rules.servers, &nodes);
        let mut now = self.base(&nodes)?;
        for uid in now.keys().copied().collect::<Vec<_>>() {
            if self.seen.contains(&uid) {
                continue;
            }
            if let Some(grant) = base::at_first(&self.rules, &self.absent, uid) {
                self.client.grant_base_tickets(uid, grant)?;
                now.insert(uid, grant);
            }
            self.absent.remove(&uid);
            self.seen.insert(uid);
        }
        self.save(&now);
        Ok(())
    }

    /// Saves what was set since the last look.
    pub fn save_at_end(&mut self) {
        match self.client.tree().and_then(|nodes| self.base(&nodes)) {
            Ok(now) => self.save(&now),
            Err(Error::NotRunning { .. }) => (),
            Err(error) => warn(&error.to_string()),
        }
    }

    fn save(&mut self, now: &Base) {
        let mut saved = self.absent.clone();
        saved.extend(base::said(&self.rules, now));
        if let Err(error) = self.store.save(&saved) {
            warn(&error);
        }
    }

    // Reservations are ended or reduced first only if the new floor does not fit beside them.
    fn change_floor(&mut self, former: &[Reserve]) -> Result<()> {
        let floor = self.rules.floor.hundredths();
        match self.client.set_floor(floor) {
            Err(Error::Floor { .. }) => {
                self.reservations
                    .make_room(&self.client, former, &self.rules.reserve);
                self.client.set_floor(floor)
            }
            answer => answer,
        }
    }

    fn apply_to_machine(&self) -> Result<()> {
        self.client.set_floor(self.rules.floor.hundredths())?;
        self.client.set_root(self.rules.root.hundredths())?;
        self.client.set_default_base_tickets(self.rules.default)
    }

    // A user's node has the user's base tickets, except root's node, whose tickets rise with those of other users.
    fn base(&self, nodes: &[Node]) -> Result<Base> {
        let frozen_root = nodes.iter().find(|node| node.kind == kind::FROZEN);
        nodes
            .iter()
            .filter(|node| node.kind == kind::USER)
            .map(|user| {
                let grant = match user.id {
                    ROOT => Grant::unlimited(self.client.base_tickets(ROOT)?),
                    _ if frozen_root.is_some_and(|root| root.index == user.parent) => {
                        Grant::of(FROZEN, user.limit)
                    }
                    _ => Grant::of(user.tickets, user.limit),
                };
                Ok((user.id, grant))
            })
            .collect()
    }

    // Returns the users that were set.
    fn set(&self, wanted: &Base, now: &Base) -> Result<BTreeSet<u32>> {
        let mut set = BTreeSet::new();
        let in_advance = wanted
            .iter()
            .filter(|(uid, _)| !now.contains_key(uid))
            .take(IN_ADVANCE);
        for (uid, grant) in wanted
            .iter()
            .filter(|(uid, _)| now.contains_key(uid))
            .chain(in_advance)
        {
            match self.client.grant_base_tickets(*uid, *grant) {
                Err(error @ Error::NoSlot) => {
                    warn(&error.to_string());
                    break;
                }
                answer => answer?,
            }
            set.insert(*uid);
        }
        Ok(set)
    }
}
