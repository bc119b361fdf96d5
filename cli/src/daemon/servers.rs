//! Servers of the rules: processes to which clients of all users lend their tickets while they wait for them.

use super::finder::Finder;
use crate::cgroups::CGROUPS;
use crate::names::ROOT;
use crate::rules::What;
use crate::sample::processes;
use crate::warn;
use std::collections::BTreeMap;
use std::path::Path;
use tombola_kernel::Error;
use tombola_kernel::abi::Node;
use tombola_kernel::calls::Client;

pub struct Servers {
    finder: Finder,
    /// The processes that are servers now, with their PIDs, by the numbers of their nodes.
    known: BTreeMap<u64, u32>,
}

impl Servers {
    pub fn new() -> Self {
        Self {
            finder: Finder::new(Path::new(CGROUPS), ROOT),
            known: BTreeMap::new(),
        }
    }

    /// Are there processes to look for, which may start or exit?
    pub fn follow(&self, servers: &[What]) -> bool {
        !servers.is_empty() || !self.known.is_empty()
    }

    /// Makes servers of processes that have started since the last look.
    pub fn look(&mut self, client: &Client, servers: &[What], nodes: &[Node]) {
        if !self.follow(servers) {
            return;
        }
        let there: BTreeMap<u64, u32> = processes(nodes)
            .into_iter()
            .map(|(node, _)| (node.number, node.tgid))
            .collect();
        self.known.retain(|number, _| there.contains_key(number));
        let mut new = there
            .iter()
            .filter(|(number, _)| !self.known.contains_key(number));
        let new: Vec<(u64, u32)> = new.by_ref().map(|(number, pid)| (*number, *pid)).collect();
        let pids: Vec<u32> = new.iter().map(|(_, pid)| *pid).collect();
        let found: Vec<u32> = self
            .finder
            .find(servers, &pids)
            .into_values()
            .flatten()
            .collect();
        for (number, pid) in new.into_iter().filter(|(_, pid)| found.contains(pid)) {
            if set(client, pid, true) {
                self.known.insert(number, pid);
            }
        }
    }

    /// The rules have changed: the next look finds the servers anew.
    pub fn forget(&mut self, client: &Client) {
        for pid in std::mem::take(&mut self.known).into_values() {
            set(client, pid, false);
        }
    }
}

fn set(client: &Client, pid: u32, serves: bool) -> bool {
    match client.set_server(pid, serves) {
        Ok(()) => true,
        // It has exited meanwhile.
        Err(Error::NoProcess { .. } | Error::NoTickets { .. }) => false,
        Err(error) => {
            warn(&error.to_string());
            false
        }
    }
}
