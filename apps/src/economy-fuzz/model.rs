//! The economy once more, naively: who is where, and what share of the one CPU that gives when everybody wants to run.

use std::collections::BTreeMap;

/// Whose money, or in which currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    User(usize),
    Money(u32),
}

/// What a user, a currency and a process have in common.
#[derive(Clone, Debug)]
pub struct Holder {
    pub tickets: u32,
    pub frozen: bool,
    /// Which reservation it has, if it has one.
    pub reserved: Option<u32>,
    pub place: Place,
    pub owner: usize,
}

#[derive(Default)]
pub struct Model {
    /// Base tickets and whether frozen.
    pub users: Vec<(u32, bool)>,
    pub money: BTreeMap<u32, Holder>,
    pub people: BTreeMap<u32, Holder>,
    /// Hundredths of a percent of the CPU.
    pub reservations: BTreeMap<u32, u64>,
    pub floor: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Who {
    Money(u32),
    Person(u32),
}

pub const NESTED_MAX: usize = 8;
const ALL: u64 = 10_000;

impl Model {
    pub fn holder(&mut self, who: Who) -> &mut Holder {
        match who {
            Who::Money(i) => self.money.get_mut(&i).expect("it was chosen from them"),
            Who::Person(i) => self.people.get_mut(&i).expect("it was chosen from them"),
        }
    }

    /// The currencies from here up.
    pub fn line(&self, mut place: Place) -> Vec<u32> {
        let mut line = Vec::new();
        while let Place::Money(i) = place {
            line.push(i);
            place = self.money[&i].place;
        }
        line
    }

    /// Levels of currencies from this one down.
    pub fn height(&self, i: u32) -> usize {
        let lines = self.money.keys().map(|&k| self.line(Place::Money(k)));
        let depths = lines.filter_map(|line| line.iter().position(|&k| k == i));
        1 + depths.max().unwrap_or(0)
    }

    pub fn left(&self) -> u64 {
        ALL - self.floor - self.reservations.values().sum::<u64>()
    }

    pub fn freeze(&mut self, who: Who) {
        let holder = self.holder(who);
        holder.frozen = true;
        holder.reserved = None;
        self.forget_reservations();
    }

    /// A frozen process that is killed exits in its user's currency, or in root's, the last of the users, if its user is frozen.
    pub fn thaw_to_die(&mut self, person: u32) {
        let root = self.users.len() - 1;
        let users = &self.users;
        let holder = self.people.get_mut(&person).expect("it is to be killed");
        let frozen = users[holder.owner].1;
        holder.place = Place::User(if frozen { root } else { holder.owner });
        holder.frozen = false;
        holder.reserved = None;
        self.forget_reservations();
    }

    pub fn release(&mut self, who: Who) {
        let holder = self.holder(who);
        holder.reserved = None;
        holder.frozen = false;
        self.forget_reservations();
    }

    /// A reservation lasts as long as somebody has it.
    pub fn forget_reservations(&mut self) {
        let holders = self.money.values().chain(self.people.values());
        let held: Vec<u32> = holders.filter_map(|holder| holder.reserved).collect();
        self.reservations.retain(|i, _| held.contains(i));
    }

    pub fn retire(&mut self, i: u32) {
        let to = self.money[&i].place;
        let holders = self.money.values_mut().chain(self.people.values_mut());
        for holder in holders.filter(|holder| holder.place == Place::Money(i)) {
            holder.place = to;
        }
        self.money.remove(&i);
        self.forget_reservations();
    }

    /// Each process's share.
    pub fn shares(&self) -> BTreeMap<u32, f64> {
        let mut shares: BTreeMap<u32, f64> = self.people.keys().map(|&i| (i, 0.0)).collect();
        let mut clients: Vec<(f64, Vec<Who>)> = Vec::new();
        for (&i, &share) in &self.reservations {
            clients.push((
                share as f64,
                self.those(|holder| holder.reserved == Some(i)),
            ));
        }
        let users = (0..self.users.len()).filter(|&u| !self.users[u].1);
        let users: Vec<_> = users
            .map(|u| (f64::from(self.users[u].0), self.at_home(Place::User(u))))
            .filter(|(_, those)| self.is_any(those))
            .collect();
        clients.retain(|(_, those)| self.is_any(those));
        let floor = if users.is_empty() {
            0.0
        } else {
            self.floor as f64
        };
        let all = clients.iter().map(|(weight, _)| weight).sum::<f64>() + floor;
        for (weight, those) in &clients {
            self.spread(those, weight / all, &mut shares);
        }
        let tickets: f64 = users.iter().map(|(tickets, _)| tickets).sum();
        for (own, those) in &users {
            self.spread(those, floor / all * own / tickets, &mut shares);
        }
        shares
    }

    fn those(&self, chosen: impl Fn(&Holder) -> bool) -> Vec<Who> {
        let money = self
            .money
            .iter()
            .filter(|(_, h)| chosen(h))
            .map(|(&i, _)| Who::Money(i));
        let people = self
            .people
            .iter()
            .filter(|(_, h)| chosen(h))
            .map(|(&i, _)| Who::Person(i));
        money.chain(people).collect()
    }

    /// Who is in a place and neither frozen nor elsewhere by a reservation.
    fn at_home(&self, place: Place) -> Vec<Who> {
        self.those(|holder| holder.place == place && !holder.frozen && holder.reserved.is_none())
    }

    fn is_any(&self, those: &[Who]) -> bool {
        those.iter().any(|&who| match who {
            Who::Person(_) => true,
            Who::Money(i) => self.is_any(&self.at_home(Place::Money(i))),
        })
    }

    fn spread(&self, those: &[Who], share: f64, shares: &mut BTreeMap<u32, f64>) {
        let those: Vec<Who> = those
            .iter()
            .copied()
            .filter(|&who| self.is_any(&[who]))
            .collect();
        let tickets = |who| match who {
            Who::Money(i) => f64::from(self.money[&i].tickets),
            Who::Person(i) => f64::from(self.people[&i].tickets),
        };
        let all: f64 = those.iter().map(|&who| tickets(who)).sum();
        for who in those {
            let part = share * tickets(who) / all;
            match who {
                Who::Money(i) => self.spread(&self.at_home(Place::Money(i)), part, shares),
                Who::Person(i) => *shares.get_mut(&i).expect("everybody is in it") += part,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(tickets: u32, place: Place) -> Holder {
        Holder {
            tickets,
            frozen: false,
            reserved: None,
            place,
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
        model.money.insert(1, holder(300, Place::User(0)));
        model.people.insert(1, holder(100, Place::User(0)));
        model.people.insert(2, holder(50, Place::Money(1)));
        model.people.insert(3, holder(50, Place::Money(1)));
        model.people.insert(4, holder(100, Place::User(1)));
        let shares = model.shares();
        for (i, due) in [(1, 0.0625), (2, 0.09375), (3, 0.09375), (4, 0.75)] {
            near(shares[&i], due);
        }
        model.reservations.insert(1, 7500);
        model.holder(Who::Person(4)).reserved = Some(1);
        let shares = model.shares();
        for (i, due) in [(1, 0.0625), (2, 0.09375), (4, 0.75)] {
            near(shares[&i], due);
        }
        model.freeze(Who::Person(4));
        near(model.shares()[&4], 0.0);
        near(model.shares()[&1], 0.25);
    }
}
