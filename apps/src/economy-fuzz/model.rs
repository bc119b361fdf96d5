//! A naive model of the economy: the currency of each process, and its share of the one CPU when all processes are runnable.

use std::collections::BTreeMap;

/// The currency that a client is in: a user's own, or one that a user has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    User(usize),
    Currency(u32),
}

/// A currency or a process.
#[derive(Clone, Debug)]
pub struct Holder {
    pub tickets: u32,
    pub frozen: bool,
    /// Its reservation, if it has one.
    pub reserved: Option<u32>,
    pub parent: Parent,
    pub owner: usize,
}

#[derive(Clone, Default)]
pub struct Model {
    /// Base tickets, and whether frozen. The last user is root.
    pub users: Vec<(u32, bool)>,
    pub currencies: BTreeMap<u32, Holder>,
    pub processes: BTreeMap<u32, Holder>,
    /// Hundredths of a percent of the CPU.
    pub reservations: BTreeMap<u32, u64>,
    pub floor: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum ClientId {
    Currency(u32),
    Process(u32),
}

pub const NESTED_MAX: usize = 8;
const ALL: u64 = 10_000;

impl Model {
    pub fn holder(&mut self, id: ClientId) -> &mut Holder {
        match id {
            ClientId::Currency(i) => self
                .currencies
                .get_mut(&i)
                .expect("a currency of the model"),
            ClientId::Process(i) => self.processes.get_mut(&i).expect("a process of the model"),
        }
    }

    /// The currencies from `parent` up.
    pub fn ancestors(&self, mut parent: Parent) -> Vec<u32> {
        let mut ancestors = Vec::new();
        while let Parent::Currency(i) = parent {
            ancestors.push(i);
            parent = self.currencies[&i].parent;
        }
        ancestors
    }

    /// Levels of currencies from this one down.
    pub fn height(&self, i: u32) -> usize {
        let paths = self
            .currencies
            .keys()
            .map(|&k| self.ancestors(Parent::Currency(k)));
        let depths = paths.filter_map(|ancestors| ancestors.iter().position(|&k| k == i));
        1 + depths.max().unwrap_or(0)
    }

    pub fn left(&self) -> u64 {
        ALL - self.floor - self.reservations.values().sum::<u64>()
    }

    pub fn freeze(&mut self, id: ClientId) {
        let holder = self.holder(id);
        holder.frozen = true;
        holder.reserved = None;
        self.drop_unused_reservations();
    }

    /// A process is killed. If it was frozen (the result), it exits in its user's currency, or in root's if its user is frozen.
    pub fn kill(&mut self, process: u32) -> bool {
        if self.shares()[&process] != 0.0 {
            return false;
        }
        let root = self.users.len() - 1;
        let users = &self.users;
        let holder = self
            .processes
            .get_mut(&process)
            .expect("it is to be killed");
        let frozen = users[holder.owner].1;
        holder.parent = Parent::User(if frozen { root } else { holder.owner });
        holder.frozen = false;
        holder.reserved = None;
        self.drop_unused_reservations();
        true
    }

    pub fn release(&mut self, id: ClientId) {
        let holder = self.holder(id);
        holder.reserved = None;
        holder.frozen = false;
        self.drop_unused_reservations();
    }

    /// A reservation lasts as long as a client has it.
    pub fn drop_unused_reservations(&mut self) {
        let holders = self.currencies.values().chain(self.processes.values());
        let held: Vec<u32> = holders.filter_map(|holder| holder.reserved).collect();
        self.reservations.retain(|i, _| held.contains(i));
    }

    /// What is in it moves to the currency around it, another user's processes to their own user.
    pub fn retire(&mut self, i: u32) {
        let Holder { parent, owner, .. } = self.currencies[&i];
        let holders = self
            .currencies
            .values_mut()
            .chain(self.processes.values_mut());
        for holder in holders.filter(|holder| holder.parent == Parent::Currency(i)) {
            holder.parent = if holder.owner == owner {
                parent
            } else {
                Parent::User(holder.owner)
            };
        }
        self.currencies.remove(&i);
        self.drop_unused_reservations();
    }

    /// Each process's share.
    pub fn shares(&self) -> BTreeMap<u32, f64> {
        let mut shares: BTreeMap<u32, f64> = self.processes.keys().map(|&i| (i, 0.0)).collect();
        let mut reserved: Vec<(f64, Vec<ClientId>)> = Vec::new();
        for (&i, &share) in &self.reservations {
            reserved.push((
                share as f64,
                self.clients_with(|holder| holder.reserved == Some(i)),
            ));
        }
        let users = (0..self.users.len()).filter(|&u| !self.users[u].1);
        let users: Vec<_> = users
            .map(|u| (f64::from(self.users[u].0), self.clients_of(Parent::User(u))))
            .filter(|(_, clients)| self.is_active(clients))
            .collect();
        reserved.retain(|(_, clients)| self.is_active(clients));
        let floor = if users.is_empty() {
            0.0
        } else {
            self.floor as f64
        };
        let all = reserved.iter().map(|(weight, _)| weight).sum::<f64>() + floor;
        for (weight, clients) in &reserved {
            self.divide(clients, weight / all, &mut shares);
        }
        let tickets: f64 = users.iter().map(|(tickets, _)| tickets).sum();
        for (own, clients) in &users {
            self.divide(clients, floor / all * own / tickets, &mut shares);
        }
        shares
    }

    fn clients_with(&self, chosen: impl Fn(&Holder) -> bool) -> Vec<ClientId> {
        let currencies = self
            .currencies
            .iter()
            .filter(|(_, h)| chosen(h))
            .map(|(&i, _)| ClientId::Currency(i));
        let processes = self
            .processes
            .iter()
            .filter(|(_, h)| chosen(h))
            .map(|(&i, _)| ClientId::Process(i));
        currencies.chain(processes).collect()
    }

    /// The clients of a currency that are neither frozen nor in a reservation.
    fn clients_of(&self, parent: Parent) -> Vec<ClientId> {
        self.clients_with(|holder| {
            holder.parent == parent && !holder.frozen && holder.reserved.is_none()
        })
    }

    /// Is there a process among these clients, or inside them, which may run?
    fn is_active(&self, clients: &[ClientId]) -> bool {
        clients.iter().any(|&id| match id {
            ClientId::Process(_) => true,
            ClientId::Currency(i) => self.is_active(&self.clients_of(Parent::Currency(i))),
        })
    }

    fn divide(&self, clients: &[ClientId], share: f64, shares: &mut BTreeMap<u32, f64>) {
        let clients: Vec<ClientId> = clients
            .iter()
            .copied()
            .filter(|&id| self.is_active(&[id]))
            .collect();
        let tickets = |id| match id {
            ClientId::Currency(i) => f64::from(self.currencies[&i].tickets),
            ClientId::Process(i) => f64::from(self.processes[&i].tickets),
        };
        let all: f64 = clients.iter().map(|&id| tickets(id)).sum();
        for id in clients {
            let part = share * tickets(id) / all;
            match id {
                ClientId::Currency(i) => {
                    self.divide(&self.clients_of(Parent::Currency(i)), part, shares)
                }
                ClientId::Process(i) => *shares.get_mut(&i).expect("it has all processes") += part,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(tickets: u32, parent: Parent) -> Holder {
        Holder {
            tickets,
            frozen: false,
            reserved: None,
            parent,
            owner: 0,
        }
    }

    fn near(found: f64, due: f64) {
        assert!((found - due).abs() < 1e-9, "{found}, due {due}");
    }

    #[test]
    fn currencies_nest_and_reservations_stand_beside_best_effort() {
        let mut model = Model {
            users: vec![(1000, false), (3000, false)],
            floor: 2500,
            ..Model::default()
        };
        model.currencies.insert(1, holder(300, Parent::User(0)));
        model.processes.insert(1, holder(100, Parent::User(0)));
        model.processes.insert(2, holder(50, Parent::Currency(1)));
        model.processes.insert(3, holder(50, Parent::Currency(1)));
        model.processes.insert(4, holder(100, Parent::User(1)));
        let shares = model.shares();
        for (i, due) in [(1, 0.0625), (2, 0.09375), (3, 0.09375), (4, 0.75)] {
            near(shares[&i], due);
        }
        model.reservations.insert(1, 7500);
        model.holder(ClientId::Process(4)).reserved = Some(1);
        let shares = model.shares();
        for (i, due) in [(1, 0.0625), (2, 0.09375), (4, 0.75)] {
            near(shares[&i], due);
        }
        model.freeze(ClientId::Process(4));
        near(model.shares()[&4], 0.0);
        near(model.shares()[&1], 0.25);
    }
}
