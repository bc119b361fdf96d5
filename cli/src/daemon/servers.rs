//! Servers of the rules: processes to which clients of all users lend their tickets while they wait for an answer.

use super::finder::Finder;
use crate::cgroups::CGROUPS;
use crate::names::ROOT;
use crate::rules::What;
use crate::sample::processes;
use crate::warn;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use tombola_kernel::Error;
use tombola_kernel::abi::Node;
use tombola_kernel::calls::Client;

/// The uids of users that are no people, by convention (UID_MIN in login.defs(5); systemd's UIDS-GIDS).
const SYSTEM_USERS: RangeInclusive<u32> = 0..=999;

pub struct Servers {
    /// Two: a finder forgets the units that it is not asked for.
    units: Finder,
    programs: Finder,
    /// At the next look, some processes may be servers that the rules do not name any more.
    changed: bool,
}

impl Servers {
    pub fn new() -> Self {
        Self {
            units: Finder::new(Path::new(CGROUPS), ROOT),
            programs: Finder::new(Path::new(CGROUPS), ROOT),
            changed: false,
        }
    }

    /// The rules have changed.
    pub fn change(&mut self) {
        self.changed = true;
    }

    /// Are there processes to look for, which may start or exit?
    pub fn follow(&self, servers: &[What]) -> bool {
        !servers.is_empty() || self.changed
    }

    /// Makes servers of processes that have become such since the last look, also of those that have changed their user, and lets
    /// others be no servers any more: a server may have started them.
    pub fn look(&mut self, client: &Client, servers: &[What], nodes: &[Node]) {
        if !self.follow(servers) {
            return;
        }
        self.changed = false;
        let there = processes(nodes).into_iter().map(|(node, _)| node);
        let there: BTreeMap<u32, Node> = there.map(|node| (node.tgid, node)).collect();
        let found = self.find(servers, &there);
        for (pid, node) in &there {
            let serves = found.contains(pid);
            if serves != (node.serves != 0) {
                set(client, *pid, serves);
                // It may have forked since the tree was read.
                self.changed |= !serves;
            }
        }
    }

    /// Those in a unit of the system's: root decides who is in it. And those that execute a program for a system user: others can
    /// start any program, too, and have it do anything.
    fn find(&mut self, servers: &[What], there: &BTreeMap<u32, Node>) -> BTreeSet<u32> {
        let (units, programs): (Vec<What>, Vec<What>) = servers
            .iter()
            .cloned()
            .partition(|what| matches!(what, What::Unit(_)));
        let all: Vec<u32> = there.keys().copied().collect();
        let of_system = |pid: &u32| SYSTEM_USERS.contains(&there[pid].uid);
        let of_system: Vec<u32> = all.iter().copied().filter(of_system).collect();
        let mut found = self.units.find(&units, &all);
        found.append(&mut self.programs.find(&programs, &of_system));
        found.into_values().flatten().collect()
    }
}

fn set(client: &Client, pid: u32, serves: bool) {
    match client.set_server(pid, serves) {
        // It may have exited meanwhile.
        Ok(()) | Err(Error::NoProcess { .. } | Error::NoTickets { .. }) => (),
        Err(error) => warn(&error.to_string()),
    }
}
