//! The economy once more, naively: an oracle for tests.
//!
//! It follows the rules that `economy.h` states at its top, but shares nothing with the C: passes are i128 that never wrap,
//! every mean is summed anew, the earliest deadline is found by looking at everybody, and a currency waits if a search
//! below it finds a leaf that does. Quadratic and proud of it.

use std::collections::BTreeMap;
use tombola_core::{BASE, BEST_EFFORT, Bill, Kind, LIMBO, Rules, Run, draw_exp, limits, mix};

/// A client, as simple as it can be.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub parent: u32,
    pub tickets: i128,
    pub pass: i128,
    pub active: bool,
    /// Of a waiting leaf: its CPUs and since when.
    pub waits: Option<(u64, u64)>,
    /// When it last took its place in its currency's order, as a number.
    pub arrival: u64,
    /// vnow of a currency without active clients.
    pub idle_vnow: i128,
    pub used_ns: i128,
    pub young_ns: i128,
}

/// What a level of a pick may choose.
pub struct Choice {
    /// The earliest deadline among those who are eligible and may run there.
    pub ideal: Option<u32>,
    /// The earliest deadline among those who may run there.
    pub earliest: Option<u32>,
    /// Does a mask shut anybody out? Only then may the choice be `earliest` though there is an ideal.
    pub bound: bool,
}

pub struct Model {
    pub rules: Rules,
    pub nodes: BTreeMap<u32, Node>,
    /// Leaves that wait, oldest first.
    pub waiting: Vec<u32>,
    pub clamped: u64,
    arrivals: u64,
}

fn scaled(ns: u64, tickets: i128) -> i128 {
    i128::from(ns.min(limits::CHARGE_MAX_NS)) * (1 << limits::PASS_SHIFT) / tickets
}

impl Model {
    pub fn new(rules: Rules) -> Self {
        let mut model = Self {
            rules,
            nodes: BTreeMap::new(),
            waiting: Vec::new(),
            clamped: 0,
            arrivals: 0,
        };
        let all = limits::MACHINE_TICKETS;
        model.insert(BASE, Kind::Base, 0, all);
        model.insert(BEST_EFFORT, Kind::BestEffort, BASE, all);
        model.insert(LIMBO, Kind::Limbo, 0, all);
        model
    }

    pub fn insert(&mut self, i: u32, kind: Kind, parent: u32, tickets: u32) {
        let pass = if parent == 0 { 0 } else { self.vnow(parent) };
        let node = Node {
            kind,
            parent,
            tickets: i128::from(tickets),
            pass,
            active: false,
            waits: None,
            arrival: 0,
            idle_vnow: 0,
            used_ns: 0,
            young_ns: 0,
        };
        assert!(
            self.nodes.insert(i, node).is_none(),
            "{i} was handed out twice"
        );
    }

    pub fn remove(&mut self, i: u32) {
        self.nodes.remove(&i);
    }

    pub fn at(&self, i: u32) -> &Node {
        &self.nodes[&i]
    }

    fn node(&mut self, i: u32) -> &mut Node {
        self.nodes.get_mut(&i).unwrap()
    }

    pub fn children(&self, i: u32) -> impl Iterator<Item = (u32, &Node)> {
        self.nodes
            .iter()
            .filter(move |(_, n)| n.parent == i)
            .map(|(&k, n)| (k, n))
    }

    /// From `i` up to the client of base, or of limbo.
    pub fn line(&self, mut i: u32) -> Vec<u32> {
        let mut line = Vec::new();
        while self.at(i).parent != 0 {
            line.push(i);
            i = self.at(i).parent;
        }
        line
    }

    pub fn weight(&self, i: u32) -> i128 {
        self.children(i)
            .filter(|(_, n)| n.active)
            .map(|(_, n)| n.tickets)
            .sum()
    }

    pub fn vnow(&self, i: u32) -> i128 {
        let weight = self.weight(i);
        if weight == 0 {
            return self.at(i).idle_vnow;
        }
        let sum: i128 = self
            .children(i)
            .filter(|(_, n)| n.active)
            .map(|(_, n)| n.tickets * n.pass)
            .sum();
        sum.div_euclid(weight)
    }

    /// The CPUs of all who wait at or below `i`; 0 if nobody does.
    pub fn mask(&self, i: u32) -> u64 {
        match self.at(i).waits {
            Some((mask, _)) => mask,
            None => self
                .children(i)
                .map(|(k, _)| self.mask(k))
                .fold(0, |a, b| a | b),
        }
    }

    /// Of a reservation below a third of the machine a half of a quantum, below a sixth a quarter, below a twelfth an eighth.
    fn request_ns(&self, i: u32) -> u64 {
        let n = self.at(i);
        let below = |part: i128| n.tickets * part < i128::from(limits::MACHINE_TICKETS);
        let parts = match n.kind {
            Kind::Reservation if below(12) => 8,
            Kind::Reservation if below(6) => 4,
            Kind::Reservation if below(3) => 2,
            _ => 1,
        };
        self.rules.quantum_ns / parts
    }

    pub fn key(&self, i: u32) -> i128 {
        let n = self.at(i);
        if self.rules.lottery == 1 {
            n.pass
        } else {
            n.pass + scaled(self.request_ns(i), n.tickets)
        }
    }

    fn arrive(&mut self, i: u32) {
        self.arrivals += 1;
        self.node(i).arrival = self.arrivals;
    }

    pub fn set_pass(&mut self, i: u32, pass: i128) {
        self.node(i).pass = pass;
        self.arrive(i);
    }

    fn bounded(&self, i: u32, pass: i128, behind_ns: u64, ahead_ns: u64) -> i128 {
        let (n, vnow) = (self.at(i), self.vnow(self.at(i).parent));
        pass.max(vnow - scaled(behind_ns, n.tickets))
            .min(vnow + scaled(ahead_ns, n.tickets))
    }

    pub fn join(&mut self, i: u32) {
        for k in self.line(i) {
            if self.at(k).active {
                break;
            }
            let others = self.weight(self.at(k).parent);
            let mut credit = i128::from(self.rules.credit_ns);
            if others > 0 {
                credit = credit * (others + self.at(k).tickets) / others;
            }
            let pass = self.bounded(k, self.at(k).pass, credit as u64, self.rules.lag_ns);
            self.node(k).pass = pass;
            self.node(k).active = true;
        }
    }

    pub fn leave(&mut self, i: u32) {
        for k in self.line(i) {
            if !self.at(k).active {
                break;
            }
            let parent = self.at(k).parent;
            let vnow = self.vnow(parent);
            self.node(k).active = false;
            if self.weight(parent) > 0 {
                break;
            }
            self.node(parent).idle_vnow = vnow;
        }
    }

    pub fn wait(&mut self, i: u32, mask: u64, now: u64) {
        let fresh: Vec<u32> = self
            .line(i)
            .into_iter()
            .filter(|&k| self.mask(k) == 0)
            .collect();
        fresh.into_iter().for_each(|k| self.arrive(k));
        self.node(i).waits = Some((mask, now));
        self.waiting.push(i);
    }

    pub fn withdraw(&mut self, i: u32) {
        self.node(i).waits = None;
        self.waiting.retain(|&k| k != i);
    }

    pub fn charge(&mut self, i: u32, bill: &Bill) {
        for k in self.line(i) {
            let (tickets, parent) = (self.at(k).tickets, self.at(k).parent);
            let alone = self.at(k).active && self.weight(parent) == tickets;
            let draw = match self.rules.lottery {
                1 if !alone => i128::from(draw_exp(mix(bill.seed, parent))),
                _ => 1 << limits::DRAW_SHIFT,
            };
            let used = i128::from(bill.used_ns.min(limits::CHARGE_MAX_NS));
            let mut pass = self.at(k).pass
                + ((used * draw) >> (limits::DRAW_SHIFT - limits::PASS_SHIFT)) / tickets;
            pass += scaled(bill.next_ns, tickets) - scaled(bill.precharge_ns, tickets);
            if !alone {
                let bounded = self.bounded(k, pass, self.rules.lag_ns, self.rules.lag_ns);
                self.clamped += u64::from(bounded != pass);
                pass = bounded;
            }
            self.node(k).used_ns += i128::from(bill.used_ns);
            self.node(k).young_ns += i128::from(bill.used_ns);
            if pass != self.at(k).pass {
                self.set_pass(k, pass);
            }
        }
    }

    pub fn choice(&self, owner: u32, mask: u64) -> Choice {
        let vnow = self.vnow(owner);
        let waiting: Vec<u32> = self
            .children(owner)
            .map(|(k, _)| k)
            .filter(|&k| self.mask(k) != 0)
            .collect();
        let allowed = waiting
            .iter()
            .copied()
            .filter(|&k| self.mask(k) & mask != 0);
        let eligible = allowed
            .clone()
            .filter(|&k| self.rules.lottery == 1 || self.at(k).pass <= vnow);
        let order = |&k: &u32| (self.key(k), self.at(k).arrival);
        Choice {
            ideal: eligible.min_by_key(order),
            earliest: allowed.min_by_key(order),
            bound: waiting.iter().any(|&k| self.mask(k) & mask == 0),
        }
    }

    pub fn overdue(&self, now: u64, patience_ns: u64, mask: u64) -> Option<u32> {
        let late = |&&k: &&u32| {
            now as i128 - i128::from(self.at(k).waits.unwrap().1) >= i128::from(patience_ns)
        };
        self.waiting
            .iter()
            .take(4)
            .take_while(late)
            .copied()
            .find(|&k| self.at(k).waits.unwrap().0 & mask != 0)
    }

    /// Base or limbo, whichever `i` is below.
    pub fn root(&self, i: u32) -> u32 {
        self.line(i).last().map_or(i, |&k| self.at(k).parent)
    }

    pub fn frozen(&self, i: u32) -> bool {
        self.root(i) == LIMBO
    }

    /// The clients of one currency that `a` and `b` are, or are below; if there are none, their roots.
    pub fn meet(&self, a: u32, b: u32) -> (u32, u32) {
        let roots = (self.root(a), self.root(b));
        let (a, b) = (self.line(a), self.line(b));
        let pairs = || a.iter().flat_map(|&x| b.iter().map(move |&y| (x, y)));
        pairs()
            .find(|&(x, y)| self.at(x).parent == self.at(y).parent)
            .unwrap_or(roots)
    }

    pub fn keeps(&self, held: u32, best: u32) -> bool {
        let (b, h) = self.meet(best, held);
        if self.at(h).parent == 0 {
            return h != LIMBO;
        }
        let vnow = self.vnow(self.at(h).parent);
        let late = |k: u32| self.rules.lottery == 0 && self.at(k).pass > vnow;
        (late(h), self.key(h)) <= (late(b), self.key(b))
    }

    fn projected(&self, i: u32, run: &Run) -> i128 {
        let n = self.at(i);
        n.pass + scaled(run.ran_ns, n.tickets) - scaled(run.precharge_ns, n.tickets)
    }

    pub fn crossing_ns(&self, waker: u32, runner: u32, run: &Run) -> i128 {
        let (w, h) = self.meet(waker, runner);
        if w == h {
            return i128::from(limits::NEVER);
        }
        match (self.at(h).parent, h) {
            (0, LIMBO) => return 0,
            (0, _) => return i128::from(limits::NEVER),
            _ => (),
        }
        let (waker, runner, parent) = (self.at(w), self.at(h), self.at(h).parent);
        let (vnow, stands) = (self.vnow(parent), self.projected(h, run));
        let (mut until, mut eligible_ns) = (waker.pass, 0);
        if self.rules.lottery == 0 {
            until = vnow.min(self.key(w) - scaled(self.request_ns(h), runner.tickets));
            eligible_ns = ((waker.pass - vnow).max(0) >> limits::PASS_SHIFT) * self.weight(parent);
        }
        let loses_ns = if stands < until {
            (((until - stands) * runner.tickets) >> limits::PASS_SHIFT) + 1
        } else {
            0
        };
        loses_ns.max(eligible_ns)
    }

    pub fn set_tickets(&mut self, i: u32, tickets: u32) {
        let n = self.at(i);
        let (vnow, new) = (self.vnow(n.parent), i128::from(tickets));
        let lag = self.bounded(i, n.pass, self.rules.lag_ns, self.rules.lag_ns) - vnow;
        let pass = vnow + lag * n.tickets / new;
        self.node(i).tickets = new;
        self.set_pass(i, pass);
    }

    pub fn move_to(&mut self, i: u32, parent: u32) {
        let (old, active, waited) = (self.at(i).parent, self.at(i).active, self.mask(i) != 0);
        if active {
            self.leave(i);
        }
        let lag = self.at(i).pass - self.vnow(old);
        let pass = self.vnow(parent) + lag;
        let node = self.node(i);
        node.pass = pass;
        node.young_ns = 0;
        // Parentless for a moment, to see in which of the new currencies nobody waits.
        node.parent = u32::MAX;
        if waited {
            let mut fresh: Vec<u32> = self
                .line(parent)
                .into_iter()
                .filter(|&k| self.mask(k) == 0)
                .collect();
            fresh.push(i);
            fresh.into_iter().for_each(|k| self.arrive(k));
        }
        self.node(i).parent = parent;
        if active {
            self.join(i);
        }
    }

    fn child_of(&self, parent: u32, i: u32) -> Option<u32> {
        self.line(i)
            .into_iter()
            .find(|&k| self.at(k).parent == parent)
    }

    pub fn born(&mut self, child: u32, forker: u32, run: &Run) {
        let parent = self.at(child).parent;
        if let Some(s) = self.child_of(parent, forker) {
            let pass = self.projected(s, run);
            self.node(child).pass = pass;
            self.node(s).young_ns = -i128::from(run.ran_ns);
        }
    }

    pub fn died(&mut self, i: u32, heir: u32) {
        let Some(s) = self.child_of(self.at(i).parent, heir) else {
            return;
        };
        if s == i {
            return;
        }
        let young = self.at(i).young_ns.max(0);
        let limit = i128::from(limits::YOUNG_NS);
        let owed = if young <= limit {
            young
        } else {
            (2 * limit - young).max(0)
        };
        let h = self.at(s);
        let pass = h.pass + scaled(owed as u64, h.tickets);
        let bounded = self.bounded(s, pass, self.rules.lag_ns, self.rules.lag_ns);
        self.set_pass(s, bounded);
    }
}
