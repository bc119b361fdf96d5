//! The economy once more, naively: an oracle for tests.
//!
//! It follows the rules that `economy.h` states at its top, but shares nothing with the C: passes are i128 that never wrap,
//! every mean is summed anew, the earliest deadline is found by a look at every client, and a currency waits if a search
//! below it finds a leaf that does. It is quadratic.
//!
//! C's order is inexact in one case, which order.h allows (`tb_order_first`): where a mask excludes a waiting client, it may
//! give up eligibility. Then several outcomes are legal. The model takes that of the C, which a test passes in, and none if
//! that is not legal.

use std::collections::BTreeMap;
use tombola_core::{
    BASE, BEHIND, BEST_EFFORT, Bill, FROZEN, Kind, Rules, Run, draw_exp, limits, mix,
};

/// A client, as simple as it can be.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub parent: u32,
    pub tickets: i128,
    pub pass: i128,
    pub active: bool,
    /// Cannot use its tickets, and does not count in the mean.
    pub behind: bool,
    /// The CPUs of a leaf, or of all clients that wait in a currency; if none waits, the last ones.
    pub mask: u64,
    /// Of a waiting leaf: since when.
    pub waits: Option<u64>,
    /// It is being moved to another currency: it waits nowhere.
    pub moving: bool,
    /// When it was last inserted into its currency's order, as a number.
    pub arrival: u64,
    /// vnow of a currency without clients that count.
    pub idle_vnow: i128,
    /// Of a currency: service per ticket of the clients that count.
    pub served: i128,
    /// The least distance to its currency's `served` while it ran, and the distance with which it began to wait.
    pub least: i128,
    pub waits_from: i128,
    /// Its lag when it left, ns.
    pub left_with_ns: i128,
    pub precharged_ns: i128,
    /// When its lag was last halved.
    pub epoch: u8,
    pub used_ns: i128,
    pub young_ns: i128,
}

/// How often the rarer rules applied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub clamped: u64,
    pub gave_up: u64,
    pub fell_behind: u64,
    pub caught_up: u64,
    pub forgiven: u64,
    pub halved: u64,
    pub joined_behind: u64,
    pub passed_over: u64,
    pub after_all: u64,
    pub out_of_turn: u64,
    pub kept_behind: u64,
    pub gave_way: u64,
    pub uncredited: u64,
    pub waited_for_any: u64,
}

impl Tally {
    fn each(&mut self) -> [&mut u64; 14] {
        [
            &mut self.clamped,
            &mut self.gave_up,
            &mut self.fell_behind,
            &mut self.caught_up,
            &mut self.forgiven,
            &mut self.halved,
            &mut self.joined_behind,
            &mut self.passed_over,
            &mut self.after_all,
            &mut self.out_of_turn,
            &mut self.kept_behind,
            &mut self.gave_way,
            &mut self.uncredited,
            &mut self.waited_for_any,
        ]
    }

    pub fn rarest(mut self) -> u64 {
        self.each().into_iter().map(|n| *n).min().unwrap()
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, mut other: Self) {
        for (sum, n) in self.each().into_iter().zip(other.each()) {
            *sum += *n;
        }
    }
}

/// A client's pass and state in C after the call that the model repeats.
pub type Seen<'a> = &'a dyn Fn(u32) -> (u64, u8);

/// What a level of a pick may choose.
pub struct Choice {
    /// The earliest deadline among the eligible clients that may run there.
    pub ideal: Option<u32>,
    /// The earliest deadline among all clients that may run there.
    pub earliest: Option<u32>,
    /// Does a mask exclude a waiting client? Only then may the choice be `earliest` although there is an ideal.
    pub bound: bool,
}

impl Choice {
    /// The client that the rules demand, then the one that may be picked instead.
    fn legal(&self) -> Vec<Option<u32>> {
        let ideal = self.ideal.or(self.earliest);
        let mut legal = vec![ideal];
        if self.bound && self.earliest != ideal {
            legal.push(self.earliest);
        }
        legal
    }
}

/// The CPUs of a pick, and its result.
struct Outcome {
    mask: u64,
    picked: Option<u32>,
}

#[derive(Clone)]
pub struct Model {
    pub rules: Rules,
    pub nodes: BTreeMap<u32, Node>,
    /// Leaves that wait, oldest first.
    pub waiting: Vec<u32>,
    /// Real time, in epochs, when a leaf last began to wait.
    pub epoch: u8,
    /// CPUs on which a leaf runs that may run on all.
    pub movable: u64,
    /// The lenders to each leaf, the newest first.
    pub lenders: BTreeMap<u32, Vec<u32>>,
    pub tally: Tally,
    arrivals: u64,
}

/// The draw of stride scheduling.
const ONE: i128 = 1 << limits::DRAW_SHIFT;

/// How far a charge of `ns` moves a pass.
fn drawn(ns: i128, draw: i128, tickets: i128) -> i128 {
    let ns = ns.min(i128::from(limits::CHARGE_MAX_NS));
    ((ns * draw) >> (limits::DRAW_SHIFT - limits::PASS_SHIFT)) / tickets
}

fn scaled(ns: impl Into<i128>, tickets: i128) -> i128 {
    drawn(ns.into(), ONE, tickets)
}

/// The service that a distance of passes stands for.
fn service_ns(distance: i128, tickets: i128) -> i128 {
    (distance * tickets) >> limits::PASS_SHIFT
}

impl Model {
    pub fn new(rules: Rules) -> Self {
        let mut model = Self {
            rules,
            nodes: BTreeMap::new(),
            waiting: Vec::new(),
            epoch: 0,
            movable: 0,
            lenders: BTreeMap::new(),
            tally: Tally::default(),
            arrivals: 0,
        };
        let all = limits::MACHINE_TICKETS;
        model.insert(BASE, Kind::Base, 0, all);
        model.insert(BEST_EFFORT, Kind::BestEffort, BASE, all);
        model.insert(FROZEN, Kind::Frozen, 0, all);
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
            behind: false,
            mask: 0,
            waits: None,
            moving: false,
            arrival: 0,
            idle_vnow: 0,
            served: 0,
            least: 0,
            waits_from: 0,
            left_with_ns: 0,
            precharged_ns: 0,
            epoch: 0,
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

    /// From `i` up to the client of base, or of the frozen root.
    pub fn line(&self, mut i: u32) -> Vec<u32> {
        let mut line = Vec::new();
        while self.at(i).parent != 0 {
            line.push(i);
            i = self.at(i).parent;
        }
        line
    }

    /// The clients whose passes count in its mean.
    fn counting(&self, i: u32) -> impl Iterator<Item = &Node> {
        let counts = |n: &&Node| n.active && !n.behind;
        self.children(i).map(|(_, n)| n).filter(counts)
    }

    pub fn weight(&self, i: u32) -> i128 {
        self.counting(i).map(|n| n.tickets).sum()
    }

    pub fn active_tickets(&self, i: u32) -> i128 {
        let active = self.children(i).filter(|(_, n)| n.active);
        active.map(|(_, n)| n.tickets).sum()
    }

    pub fn active(&self, i: u32) -> usize {
        self.children(i).filter(|(_, n)| n.active).count()
    }

    pub fn vnow(&self, i: u32) -> i128 {
        let weight = self.weight(i);
        if weight == 0 {
            return self.at(i).idle_vnow;
        }
        let sum: i128 = self.counting(i).map(|n| n.tickets * n.pass).sum();
        sum.div_euclid(weight)
    }

    /// vnow of the currency that `i` is a client of.
    fn vnow_of(&self, i: u32) -> i128 {
        self.vnow(self.at(i).parent)
    }

    /// Does it, or a client in it, wait?
    pub fn waits(&self, i: u32) -> bool {
        let n = self.at(i);
        !n.moving && (n.waits.is_some() || self.children(i).any(|(k, _)| self.waits(k)))
    }

    /// The CPUs of `i` and all clients below it that wait; 0 if none does.
    pub fn waiting_mask(&self, i: u32) -> u64 {
        let n = self.at(i);
        if n.moving || n.waits.is_some() {
            return if n.moving { 0 } else { n.mask };
        }
        let below = self.children(i).map(|(k, _)| self.waiting_mask(k));
        below.fold(0, |a, b| a | b)
    }

    fn waiting_in(&self, i: u32) -> Vec<u32> {
        let all = self.children(i).map(|(k, _)| k);
        all.filter(|&k| self.waits(k)).collect()
    }

    /// Active leaves that may not run on all CPUs.
    pub fn bound_leaves(&self) -> impl Iterator<Item = &Node> {
        let bound = |n: &&Node| n.kind == Kind::Thread && n.active && n.mask != u64::MAX;
        self.nodes.values().filter(bound)
    }

    /// How many of the bound leaves may run on this CPU.
    pub fn bound(&self, cpu: u32) -> usize {
        self.bound_leaves()
            .filter(|n| n.mask >> cpu & 1 == 1)
            .count()
    }

    /// A quantum; of a reservation below a third of the machine half of it, below a sixth a quarter, below a twelfth an eighth.
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

    fn requeue(&mut self, i: u32) {
        self.arrivals += 1;
        self.node(i).arrival = self.arrivals;
    }

    pub fn set_pass(&mut self, i: u32, pass: i128) {
        if pass != self.at(i).pass {
            self.node(i).pass = pass;
            self.requeue(i);
        }
    }

    fn bounded(&self, i: u32, pass: i128, around: i128, behind_ns: i128, ahead_ns: u64) -> i128 {
        let tickets = self.at(i).tickets;
        pass.max(around - scaled(behind_ns, tickets))
            .min(around + scaled(ahead_ns, tickets))
    }

    /// Its pass without what was charged in advance.
    fn settled(&self, i: u32) -> i128 {
        let n = self.at(i);
        n.pass - scaled(n.precharged_ns, n.tickets)
    }

    /// The distance of its pass to its currency's `served`.
    fn distance(&self, i: u32) -> i128 {
        self.at(self.at(i).parent).served - self.settled(i)
    }

    /// What C keeps in `level`.
    pub fn level(&self, i: u32) -> i128 {
        let n = self.at(i);
        match (n.active, self.waits(i)) {
            (false, _) => n.left_with_ns,
            (true, false) => n.least,
            (true, true) => n.waits_from - n.least,
        }
    }

    /// Passes at which a client of `mask` may join: on the best of its CPUs vnow or, if a client that is behind is next there,
    /// that client's pass.
    fn entries(&self, parent: u32, mask: u64) -> Vec<i128> {
        let vnow = self.vnow(parent);
        let on = |cpu: u32| -> Vec<Option<i128>> {
            let choices = self.choice(parent, &[], 1 << cpu).legal();
            let pass = |k: Option<u32>| Some(self.at(k?)).filter(|n| n.behind).map(|n| n.pass);
            choices.into_iter().map(pass).collect()
        };
        let cpus: Vec<_> = (0..64).filter(|c| mask >> c & 1 == 1).map(on).collect();
        let mut entries = Vec::new();
        if cpus.iter().flatten().any(Option::is_none) {
            entries.push(vnow);
        }
        let worst = |passes: &Vec<Option<i128>>| passes.iter().flatten().min().copied();
        if cpus.iter().all(|c| worst(c).is_some()) {
            let best = cpus.iter().filter_map(worst).max().unwrap();
            entries.extend(cpus.iter().flatten().flatten().filter(|&&e| e >= best));
        }
        entries
    }

    pub fn join(&mut self, i: u32, mask: u64, waker: Option<u32>, seen: Seen) {
        let meeting = waker.map(|waker| self.at(self.meet(i, waker).1).parent);
        for k in self.line(i) {
            if self.at(k).active {
                break;
            }
            let parent = self.at(k).parent;
            let (vnow, others) = (self.vnow(parent), self.weight(parent));
            let n = self.at(k);
            let mut credit = n.left_with_ns.max(i128::from(self.rules.credit_ns));
            let mut uncredited = 0;
            let all = scaled(self.rules.credit_ns, n.tickets);
            let keeps_credit = matches!(self.at(parent).kind, Kind::Base | Kind::BestEffort);
            if meeting == Some(parent) && !keeps_credit && vnow - n.pass <= all {
                credit = 0;
                uncredited = u64::from(n.pass < vnow);
            }
            if others > 0 {
                credit = credit * (others + n.tickets) / others;
            }
            let entries = if mask == u64::MAX {
                vec![vnow]
            } else {
                self.entries(parent, mask)
            };
            let join_at = |&e: &i128| {
                let pass = self.bounded(k, n.pass, e, credit, self.rules.lag_ns);
                (pass, e != vnow)
            };
            let as_seen = |&(pass, behind): &(i128, bool)| {
                (pass as u64, behind) == (seen(k).0, seen(k).1 & BEHIND != 0)
            };
            let found = entries.iter().map(join_at).find(as_seen);
            let (pass, behind) = found.unwrap_or_else(|| join_at(&entries[0]));
            let epoch = self.epoch;
            self.tally.joined_behind += u64::from(behind);
            self.tally.uncredited += uncredited;
            let n = self.node(k);
            n.pass = pass;
            n.mask = mask;
            n.active = true;
            n.behind = behind;
            n.epoch = epoch;
            self.node(k).least = self.distance(k);
        }
    }

    pub fn leave(&mut self, i: u32) {
        for k in self.line(i) {
            if !self.at(k).active {
                break;
            }
            let parent = self.at(k).parent;
            let vnow = self.vnow(parent);
            let pass = self.at(k).pass;
            let furthest = scaled(self.rules.lag_ns, self.at(k).tickets);
            let lag = (vnow - pass).clamp(0, furthest);
            let n = self.node(k);
            n.left_with_ns = service_ns(lag, n.tickets);
            n.pass = pass;
            n.active = false;
            n.behind = false;
            if self.weight(parent) == 0 {
                self.node(parent).idle_vnow = vnow;
            }
            if self.active(parent) > 0 {
                break;
            }
        }
    }

    /// Calls `change`, which changes which clients of `line` wait. A client that begins to wait is last among equals. What its
    /// distance grows by while it waits does not count.
    fn change_waiting(&mut self, line: &[u32], change: impl FnOnce(&mut Self)) {
        let waited: Vec<bool> = line.iter().map(|&k| self.waits(k)).collect();
        change(self);
        for (&k, waited) in line.iter().zip(waited) {
            let waits = self.waits(k);
            if waits && !waited {
                self.requeue(k);
                let parent = self.at(k).parent;
                let is_root = matches!(self.at(parent).kind, Kind::Base | Kind::BestEffort);
                if self.at(k).behind && self.waiting_mask(k) == u64::MAX && !is_root {
                    if self.weight(parent) == 0 {
                        self.node(k).pass = self.vnow(parent);
                    }
                    self.node(k).behind = false;
                    self.tally.waited_for_any += 1;
                }
                self.node(k).waits_from = self.distance(k);
            }
            if waited && !waits {
                let grown = self.distance(k) - self.at(k).waits_from;
                self.node(k).least += grown;
            }
            if waits {
                self.node(k).mask = self.waiting_mask(k);
            }
        }
    }

    pub fn wait(&mut self, i: u32, mask: u64, now: u64, seen: Seen) {
        self.epoch = (now >> limits::EPOCH_SHIFT) as u8;
        let (line, before) = (self.line(i), self.at(i).waits);
        if before.is_some() {
            self.change_waiting(&line, |m| m.node(i).waits = None);
        } else {
            self.waiting.push(i);
        }
        if self.at(i).mask != mask {
            self.leave(i);
            self.join(i, mask, None, seen);
        }
        let since = before.unwrap_or(now);
        self.change_waiting(&line, |m| m.node(i).waits = Some(since));
    }

    pub fn withdraw(&mut self, i: u32) {
        let line = self.line(i);
        self.change_waiting(&line, |m| m.node(i).waits = None);
        self.waiting.retain(|&k| k != i);
    }

    pub fn charge(&mut self, i: u32, bill: &Bill) {
        for k in self.line(i) {
            let (tickets, parent) = (self.at(k).tickets, self.at(k).parent);
            let active = self.active(parent);
            let alone = active == 1 && self.weight(parent) > 0;
            let mut pass = self.at(k).pass;
            if bill.used_ns > 0 {
                let draw = match self.rules.lottery {
                    1 if active > 1 => i128::from(draw_exp(mix(bill.seed, parent))),
                    _ => ONE,
                };
                let used = i128::from(bill.used_ns);
                pass += drawn(used, draw, tickets);
                if self.at(k).active && !self.at(k).behind {
                    let served = drawn(used, draw, self.weight(parent));
                    self.node(parent).served += served;
                }
                self.node(k).used_ns += used;
                self.node(k).young_ns += used;
            }
            pass += scaled(bill.next_ns, tickets) - scaled(bill.precharge_ns, tickets);
            self.node(k).precharged_ns += i128::from(bill.next_ns) - i128::from(bill.precharge_ns);
            if self.at(k).active && !alone && bill.next_ns == 0 {
                self.settle(k, pass);
            } else {
                self.set_pass(k, pass);
            }
        }
    }

    /// Does a client wait in this currency that is not ahead of its mean?
    fn has_due_client(&self, i: u32) -> bool {
        let vnow = self.vnow(i);
        let waiting = self.waiting_in(i);
        waiting.iter().any(|&k| self.at(k).pass <= vnow)
    }

    /// Sets the pass of a charged client that is not alone in its currency.
    fn settle(&mut self, i: u32, mut pass: i128) {
        let (vnow, waits) = (self.vnow_of(i), self.waits(i));
        let n = self.at(i);
        let (tickets, parent) = (n.tickets, n.parent);
        let ahead = vnow + scaled(limits::AHEAD_MAX_NS, tickets);
        if pass > ahead {
            pass = ahead;
            self.tally.clamped += 1;
        }
        let precharge = scaled(self.at(i).precharged_ns, tickets);
        let settled = pass - precharge;
        let distance = self.at(parent).served - settled;
        if !waits {
            self.node(i).least = self.at(i).least.min(distance);
        }
        let grown = if waits {
            0
        } else {
            distance - self.at(i).least
        };
        if self.at(i).behind {
            let others = self.weight(parent) > 0;
            if !others || settled >= vnow {
                self.node(i).behind = false;
                self.tally.caught_up += 1;
                return self.set_pass(i, settled + precharge);
            }
        } else if self.falls_behind(i, settled, grown) {
            let epoch = self.epoch;
            self.node(i).behind = true;
            self.node(i).epoch = epoch;
            self.tally.fell_behind += 1;
        } else {
            return self.set_pass(i, pass);
        }
        let held = self.held(i, settled, grown);
        self.set_pass(i, held + precharge);
    }

    fn falls_behind(&self, i: u32, settled: i128, grown: i128) -> bool {
        let n = self.at(i);
        let alone = self.counting(n.parent).count() == 1;
        let has_its_turns = self.waits(i) && n.mask == u64::MAX;
        let far_ns = match self.rules.lottery {
            1 => self.rules.lag_ns,
            _ => self.rules.behind_ns,
        };
        let far = settled < self.vnow_of(i) - scaled(far_ns, n.tickets);
        !alone && !has_its_turns && (far || grown > scaled(self.rules.behind_ns, n.tickets))
    }

    /// The pass at which a client that is behind is held.
    fn held(&mut self, i: u32, settled: i128, grown: i128) -> i128 {
        let (n, vnow, now) = (self.at(i), self.vnow_of(i), self.epoch);
        let allowed = (0..64).filter(|cpu| n.mask >> cpu & 1 == 1);
        let contested = n.mask != u64::MAX && allowed.into_iter().any(|cpu| self.bound(cpu) > 1);
        if contested {
            let halves = n.epoch != now && settled < vnow;
            self.node(i).epoch = now;
            self.tally.halved += u64::from(halves);
            return if halves {
                settled + (vnow - settled) / 2
            } else {
                settled
            };
        }
        let bound = n.mask != u64::MAX;
        let nearest = vnow - scaled(self.rules.lag_ns, n.tickets);
        let too_much = (grown - scaled(self.rules.behind_ns, n.tickets)).max(0);
        // Nothing is forgiven beyond vnow: the client would owe for it.
        let forgiven = too_much.min((vnow - settled).max(0));
        self.tally.forgiven += u64::from(forgiven > 0);
        let pass = settled + forgiven;
        if bound { pass.max(nearest) } else { pass }
    }

    /// Clients in `passed` may not run on `mask`.
    fn choice(&self, owner: u32, passed: &[u32], mask: u64) -> Choice {
        let vnow = self.vnow(owner);
        let waiting = self.waiting_in(owner);
        let may_run = |k: &u32| self.at(*k).mask & mask != 0 && !passed.contains(k);
        let allowed = waiting.iter().copied().filter(may_run);
        let eligible = allowed
            .clone()
            .filter(|&k| self.rules.lottery == 1 || self.at(k).pass <= vnow);
        let order = |&k: &u32| (self.key(k), self.at(k).arrival);
        Choice {
            ideal: eligible.min_by_key(order),
            earliest: allowed.min_by_key(order),
            bound: waiting.iter().any(|k| !may_run(k)),
        }
    }

    /// A leaf begins to run on the CPU of `mask`, or goes on; None: the CPU idles.
    pub fn runs(&mut self, leaf: Option<u32>, mask: u64) {
        let movable = leaf.is_some_and(|leaf| self.at(leaf).mask == u64::MAX);
        self.movable = (self.movable & !mask) | (u64::from(movable) * mask);
    }

    /// Does a client that is behind wait, and not for the CPUs of `mask`, but for one that a leaf has which may run on all? Both
    /// answers may be legal, as for a choice.
    fn waits_elsewhere(&self, owner: u32, passed: &[u32], mask: u64) -> Vec<bool> {
        if matches!(self.at(owner).kind, Kind::Base | Kind::BestEffort) {
            return vec![false];
        }
        // What was passed over may not run on `mask` for now.
        let may_run = |k: u32| self.at(k).mask & mask != 0 && !passed.contains(&k);
        let choice = self.choice(owner, &[], self.movable & !mask);
        let answer = |first: Option<u32>| first.is_some_and(|k| self.at(k).behind && !may_run(k));
        choice.legal().into_iter().map(answer).collect()
    }

    /// The model after a pick; None if `picked` is not a legal outcome.
    pub fn pick(&self, mask: u64, picked: Option<u32>) -> Option<Self> {
        self.descend(BASE, &[], false, &Outcome { mask, picked })
    }

    /// `passed` are the currencies that this pick has passed over; with `after_all`, the first of them is picked from after all.
    fn descend(
        &self,
        owner: u32,
        passed: &[u32],
        after_all: bool,
        outcome: &Outcome,
    ) -> Option<Self> {
        let choice = self.choice(owner, passed, outcome.mask);
        let room = owner != BASE && passed.len() < limits::PASSED_MAX as usize;
        let elsewhere = self.waits_elsewhere(owner, passed, outcome.mask);
        let legal = choice.legal();
        let both = legal
            .iter()
            .flat_map(|&next| elsewhere.iter().map(move |&e| (next, e)));
        for (next, elsewhere) in both {
            let ahead_by = |ns: u64| next.is_some_and(|k| self.is_ahead(owner, k, ns));
            let is_others =
                next.is_none() || (ahead_by(0) && !self.waits_alone(owner)) || elsewhere;
            let is_far = next.is_none() || ahead_by(6 * self.rules.quantum_ns);
            let mut rule = Tally::default();
            let found = match (next, passed.first()) {
                _ if is_others && room && !after_all => {
                    rule.passed_over = 1;
                    self.descend(BASE, &[passed, &[owner]].concat(), false, outcome)
                }
                (_, Some(&first)) if is_far && !after_all => {
                    rule.after_all = 1;
                    self.descend(first, passed, true, outcome)
                }
                (Some(k), _) if self.at(k).kind != Kind::Thread => {
                    self.descend(k, passed, after_all, outcome)
                }
                _ => (next == outcome.picked).then(|| self.clone()),
            };
            if let Some(mut model) = found {
                rule.gave_up = u64::from(next != choice.ideal.or(choice.earliest));
                model.tally += rule;
                return Some(model);
            }
        }
        None
    }

    fn is_ahead(&self, owner: u32, i: u32, by_ns: u64) -> bool {
        let n = self.at(i);
        self.weight(owner) > 0 && n.pass > self.vnow(owner) + scaled(by_ns, n.tickets)
    }

    /// Is it the only client that waits in its currency, and that one in its own, up to base?
    fn waits_alone(&self, mut i: u32) -> bool {
        while i != BASE && self.waiting_in(self.at(i).parent) == [i] {
            i = self.at(i).parent;
        }
        i == BASE
    }

    fn slack_limit(&self, i: u32) -> i128 {
        self.vnow_of(i) + scaled(self.rules.behind_ns, self.at(i).tickets)
    }

    fn is_any_leaf_bound(&self) -> bool {
        let mut leaves = self.nodes.values().filter(|n| n.kind == Kind::Thread);
        leaves.any(|n| n.active && n.mask != u64::MAX)
    }

    /// Is a running leaf, or one of its currencies below `top`, ahead in a currency where a client that is due waits?
    fn is_out_of_turn(&self, leaf: u32, top: u32) -> bool {
        let below = self.line(leaf).into_iter().take_while(|&k| k != top);
        let mut out = below.filter(|&k| {
            self.settled(k) > self.vnow_of(k) && self.has_due_client(self.at(k).parent)
        });
        self.is_any_leaf_bound() && out.next().is_some()
    }

    /// Is a leaf, or one of its currencies up to `top`, behind, and the client that waits beside `top` not?
    fn is_behind(&self, leaf: u32, top: u32, waiting: u32) -> bool {
        let line = self.line(leaf);
        let up_to = line.iter().position(|&k| k == top).unwrap();
        !self.at(waiting).behind && line[..=up_to].iter().any(|&k| self.at(k).behind)
    }

    /// Is a waiting leaf bound to some CPUs, and it or one of its currencies owed more than what makes a client behind?
    fn starves(&self, leaf: u32) -> bool {
        let owed = |&k: &u32| {
            let least = scaled(self.rules.behind_ns, self.at(k).tickets);
            self.at(k).pass < self.vnow_of(k) - least
        };
        self.at(leaf).mask != u64::MAX && self.line(leaf).iter().any(owed)
    }

    pub fn overdue(&self, now: u64, patience_ns: u64, mask: u64) -> Option<u32> {
        let late = |&&k: &&u32| {
            i128::from(now) - i128::from(self.at(k).waits.unwrap()) >= i128::from(patience_ns)
        };
        self.waiting
            .iter()
            .take(4)
            .take_while(late)
            .copied()
            .find(|&k| self.at(k).mask & mask != 0)
    }

    /// The root that `i` is below: base or the frozen root.
    pub fn root(&self, i: u32) -> u32 {
        self.line(i).last().map_or(i, |&k| self.at(k).parent)
    }

    pub fn frozen(&self, i: u32) -> bool {
        self.root(i) == FROZEN
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

    pub fn keeps(&mut self, held: u32, best: u32) -> bool {
        let (b, h) = self.meet(best, held);
        if self.at(h).parent == 0 {
            return h != FROZEN;
        }
        let vnow = self.vnow(self.at(h).parent);
        let late = |k: u32| self.rules.lottery == 0 && self.at(k).pass > vnow;
        let is_better = (late(b), self.key(b)) < (late(h), self.key(h));
        if self.is_behind(held, h, b) {
            let gives_way = match self.at(held).mask {
                u64::MAX => self.at(b).pass <= vnow,
                _ => is_better,
            };
            if gives_way && self.starves(best) {
                self.tally.gave_way += 1;
                return false;
            }
            self.tally.kept_behind += 1;
            return self.settled(h) <= self.slack_limit(h);
        }
        if self.is_out_of_turn(held, h) {
            self.tally.out_of_turn += 1;
            return false;
        }
        !is_better
    }

    fn projected(&self, i: u32, run: &Run) -> i128 {
        let n = self.at(i);
        n.pass + scaled(run.ran_ns, n.tickets) - scaled(run.precharge_ns, n.tickets)
    }

    pub fn crossing_ns(&self, waking: u32, leaf: u32, run: &Run) -> i128 {
        let (w, h) = self.meet(waking, leaf);
        if w == h {
            return i128::from(limits::NEVER);
        }
        match (self.at(h).parent, h) {
            (0, FROZEN) => return 0,
            (0, _) => return i128::from(limits::NEVER),
            _ => (),
        }
        let (waking, runner, parent) = (self.at(w), self.at(h), self.at(h).parent);
        let (vnow, stands) = (self.vnow(parent), self.projected(h, run));
        let (mut until, mut eligible_ns) = (waking.pass, 0);
        if self.is_behind(leaf, h, w) {
            // `stands` includes what other leaves below it were charged in advance, which does not count.
            until = self.slack_limit(h) + scaled(runner.precharged_ns, runner.tickets)
                - scaled(run.precharge_ns, runner.tickets);
        } else if self.rules.lottery == 0 {
            until = vnow.min(self.key(w) - scaled(self.request_ns(h), runner.tickets));
            eligible_ns = ((waking.pass - vnow).max(0) >> limits::PASS_SHIFT) * self.weight(parent);
        }
        let loses_ns = if stands < until {
            service_ns(until - stands, runner.tickets) + 1
        } else {
            0
        };
        let protected_ns = if waking.kind == Kind::Reservation {
            0
        } else {
            let protect_ns = self.rules.protect_ns;
            let beyond = vnow + scaled(protect_ns, runner.tickets) - stands;
            let beginning = |of_ns: u64| (i128::from(of_ns) - i128::from(run.ran_ns)).max(0);
            match run.woke {
                0 => service_ns(beyond.max(0), runner.tickets).min(beginning(protect_ns)),
                _ => beginning(self.rules.quantum_ns),
            }
        };
        loses_ns.max(eligible_ns).max(protected_ns)
    }

    pub fn set_tickets(&mut self, i: u32, tickets: u32) {
        let n = self.at(i);
        let (vnow, new, lag_ns) = (self.vnow_of(i), i128::from(tickets), self.rules.lag_ns);
        let (pass, old) = (n.pass, n.tickets);
        let far = if self.waits(i) {
            n.waits_from
        } else {
            self.distance(i)
        };
        let grown = (far - n.least).clamp(0, scaled(limits::AHEAD_MAX_NS, old));
        let lag = self.bounded(i, pass, vnow, i128::from(lag_ns), lag_ns) - vnow;
        let pass = vnow + lag * n.tickets / new;
        self.node(i).tickets = new;
        self.node(i).pass = pass;
        self.requeue(i);
        // What its distance had grown by also stays, in service.
        let distance = self.distance(i);
        self.node(i).least = distance - grown * old / new;
        self.node(i).waits_from = distance;
    }

    pub fn move_to(&mut self, i: u32, parent: u32, seen: Seen) {
        let (old, active, waits) = (self.at(i).parent, self.at(i).active, self.waits(i));
        let precharge_ns = self.at(i).precharged_ns as u64;
        let undo = Bill {
            precharge_ns,
            ..Bill::default()
        };
        let again = Bill {
            next_ns: precharge_ns,
            ..Bill::default()
        };
        if precharge_ns > 0 {
            self.charge(old, &undo);
            self.charge(parent, &again);
        }
        let line = self.line(old);
        self.change_waiting(&line, |m| m.node(i).moving = true);
        if active {
            self.leave(i);
        }
        let lag = self.at(i).pass - self.vnow(old);
        let pass = self.vnow(parent) + lag;
        let node = self.node(i);
        node.pass = pass;
        node.young_ns = 0;
        node.parent = parent;
        let mask = node.mask;
        if active {
            self.join(i, mask, None, seen);
        }
        let line = self.line(i);
        self.change_waiting(&line, |m| m.node(i).moving = false);
        assert_eq!(waits, self.waits(i), "{i} moved");
    }

    fn child_of(&self, parent: u32, i: u32) -> Option<u32> {
        self.line(i)
            .into_iter()
            .find(|&k| self.at(k).parent == parent)
    }

    pub fn fork(&mut self, child: u32, forker: u32, run: &Run) {
        let parent = self.at(child).parent;
        if let Some(s) = self.child_of(parent, forker) {
            let pass = self.projected(s, run);
            self.node(child).pass = pass;
        }
    }

    pub fn charge_heir(&mut self, i: u32, heir: u32, forked_ns: u64) {
        let Some(s) = self.child_of(self.at(i).parent, heir) else {
            return;
        };
        if s == i {
            return;
        }
        let inherited = self.at(i).young_ns;
        let young = (inherited - i128::from(forked_ns)).max(0);
        let limit = i128::from(limits::YOUNG_NS);
        let owed = if young <= limit {
            young
        } else {
            (2 * limit - young).max(0)
        };
        let h = self.at(s);
        let limit = self.vnow_of(s) + scaled(self.rules.lag_ns, h.tickets);
        // A client that is further ahead already stays there.
        let pass = (h.pass + scaled(owed, h.tickets)).min(limit.max(h.pass));
        self.set_pass(s, pass);
        self.node(s).young_ns += inherited;
    }

    pub fn lends_to(&self, i: u32) -> Option<u32> {
        let mut all = self.lenders.iter();
        all.find(|(_, lenders)| lenders.contains(&i))
            .map(|(&to, _)| to)
    }

    pub fn lenders_to(&self, i: u32) -> &[u32] {
        self.lenders.get(&i).map_or(&[], |lenders| lenders)
    }

    /// Its own leaf, then for each lender all of that one's.
    pub fn accounts(&self, thread: u32) -> Vec<u32> {
        let lent = (self.lenders_to(thread).iter()).flat_map(|&lender| self.accounts(lender));
        std::iter::once(thread).chain(lent).collect()
    }

    pub fn borrower(&self, i: u32) -> u32 {
        self.lends_to(i).map_or(i, |to| self.borrower(to))
    }

    pub fn join_accounts(&mut self, thread: u32, mask: u64, waker: Option<u32>, seen: Seen) {
        self.join(thread, mask, waker, seen);
        self.follow_all(thread, 0, seen);
    }

    pub fn wait_accounts(&mut self, thread: u32, mask: u64, now: u64, seen: Seen) {
        self.wait(thread, mask, now, seen);
        self.follow_all(thread, now, seen);
    }

    pub fn withdraw_accounts(&mut self, thread: u32, seen: Seen) {
        self.withdraw(thread);
        self.follow_all(thread, 0, seen);
    }

    pub fn leave_accounts(&mut self, thread: u32, seen: Seen) {
        self.leave(thread);
        self.follow_all(thread, 0, seen);
    }

    /// Those that are lent to `lender` do what its thread does, and its own if it lends.
    fn follow_all(&mut self, lender: u32, now: u64, seen: Seen) {
        let thread = self.borrower(lender);
        let active = self.at(thread).active && !self.frozen(thread);
        let (waits, mask) = (active && self.waits(thread), self.at(thread).mask);
        for i in self.accounts(lender) {
            if i == thread {
                continue;
            }
            if active {
                self.join(i, mask, None, seen);
            }
            if waits {
                self.wait(i, mask, now, seen);
            } else {
                self.withdraw(i);
            }
            if !active {
                self.leave(i);
            }
        }
    }

    /// Does a picked account not wait any longer, because its thread is frozen?
    pub fn rests(&mut self, account: u32) -> bool {
        let thread = self.borrower(account);
        let rests = thread != account && self.frozen(thread);
        if rests {
            self.withdraw(account);
            self.leave(account);
        }
        rests
    }

    /// From base down, or if all are frozen from their root: at each level the best client that has one of the accounts; on a tie
    /// the one whose account comes first.
    pub fn best_account(&self, thread: u32) -> u32 {
        let mut accounts = self.accounts(thread);
        let all_frozen = (accounts.iter()).all(|&i| !self.at(i).active || self.frozen(i));
        accounts.retain(|&i| self.at(i).active && (all_frozen || !self.frozen(i)));
        let mut in_currency = if all_frozen { FROZEN } else { BASE };
        loop {
            let child = |&i: &u32| self.child_of(in_currency, i);
            let vnow = self.vnow(in_currency);
            let late = |k: u32| self.rules.lottery == 0 && self.at(k).pass > vnow;
            let order = |&k: &u32| (late(k), self.key(k));
            let best = accounts.iter().filter_map(child).min_by_key(order).unwrap();
            if accounts.contains(&best) {
                return best;
            }
            in_currency = best;
        }
    }

    pub fn lend(&mut self, lender: u32, to: u32, now: u64, seen: Seen) -> bool {
        let thread = self.borrower(to);
        let all = self.accounts(thread).len() - 1 + self.accounts(lender).len();
        if thread == lender || all > limits::LENT_MAX as usize {
            return false;
        }
        self.lenders.entry(to).or_default().insert(0, lender);
        self.follow_all(lender, now, seen);
        true
    }

    /// The account of some of a lender's tickets gives them back, up to `most`, with its lag.
    pub fn merge(&mut self, account: u32, lender: u32, most: u32) {
        let (vnow, a, lag_ns) = (
            self.vnow_of(lender),
            self.at(account).clone(),
            self.rules.lag_ns,
        );
        let lag = vnow - self.bounded(account, a.pass, vnow, a.left_with_ns, lag_ns);
        let tickets = (self.at(lender).tickets + a.tickets).min(i128::from(most));
        self.set_tickets(lender, tickets as u32);
        let pass = self.at(lender).pass - lag * a.tickets / tickets;
        let pass = self.bounded(lender, pass, vnow, i128::from(lag_ns), lag_ns);
        self.set_pass(lender, pass);
        self.remove(account);
    }

    pub fn reclaim(&mut self, lender: u32, seen: Seen) {
        self.withdraw(lender);
        self.lenders
            .values_mut()
            .for_each(|all| all.retain(|&i| i != lender));
        self.follow_all(lender, 0, seen);
    }
}
