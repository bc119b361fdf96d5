//! The CPU time that every client of an economy is entitled to: hierarchical, weighted max-min fair rates.
//!
//! A leaf uses at most its demand, which is at most one CPU, on CPUs of its mask. From the root down, the rates of a
//! currency's children, each divided by the child's tickets, are lexicographically max-min fair among all allocations that
//! leave every decision above as it is. A client whose share cannot be used leaves the rest to its siblings:
//!
//!   3 CPUs, users of one thread each with 9000 : 9000 : 900 : 100 tickets    1, 1, .9, .1
//!   2 CPUs, leaves of 9 and 1 tickets bound to CPU 0, 1 ticket unbound       .9, .1, 1
//!
//! Currencies of one depth decide at the same time, as with masks they may compete for the same CPUs: all their children
//! are raised at one speed, counted in parts of what their tickets would give them of their currency's rate. Without such a
//! competition each currency's result is the same as if it decided alone.
//!
//! Without masks that is water-filling, one currency after another. With masks it is progressive filling: the level at
//! which some client cannot be raised further is found by Newton's method on minimum cuts, each of which is a set of clients
//! and the CPUs they share. A cut that binds is a linear constraint on the level, so the method ends at it exactly.

use std::collections::BTreeMap;

/// What rounding may do to a rate.
const ROUNDING: f64 = 1e-10;
/// A residual capacity below this is none.
const NOTHING: f64 = 1e-12;

/// A leaf if no other client names it as its parent. The first client is the root; parents precede their children.
#[derive(Clone, Debug)]
pub struct Client {
    /// The currency that it is a client of.
    pub parent: Option<usize>,
    /// At least 1.
    pub tickets: u32,
    /// Of a leaf: the CPUs it may use; bit = CPU. On a machine of more than 64 CPUs all bits are set.
    pub mask: u64,
    /// Of a leaf: how many CPUs it wants, 0 to 1.
    pub demand: f64,
}

impl Client {
    /// A client that has clients of its own.
    #[must_use]
    pub fn currency(parent: Option<usize>, tickets: u32) -> Self {
        Self {
            parent,
            tickets,
            mask: 0,
            demand: 0.0,
        }
    }

    /// A leaf that is always runnable.
    #[must_use]
    pub fn leaf(parent: usize, tickets: u32, mask: u64) -> Self {
        Self {
            parent: Some(parent),
            tickets,
            mask,
            demand: 1.0,
        }
    }
}

/// The mask of all CPUs of a machine.
#[must_use]
pub fn all_cpus(cpus: usize) -> u64 {
    u64::MAX >> (64 - cpus.min(64))
}

/// The rate of every client, in CPUs.
///
/// # Panics
///
/// If a client precedes its parent, or a mask binds on a machine of more than 64 CPUs.
#[must_use]
pub fn rates(clients: &[Client], cpus: usize) -> Vec<f64> {
    let tree = Tree::new(clients, cpus);
    if tree.masks_bind() {
        assert!(cpus <= 64, "a mask has 64 CPUs, and the machine {cpus}");
        tree.filled_by_cuts()
    } else {
        tree.filled_by_currency()
    }
}

struct Tree<'a> {
    clients: &'a [Client],
    cpus: usize,
    children: Vec<Vec<usize>>,
    /// What all leaves below want.
    demand: Vec<f64>,
}

impl<'a> Tree<'a> {
    fn new(clients: &'a [Client], cpus: usize) -> Self {
        let mut children = vec![Vec::new(); clients.len()];
        for (i, client) in clients.iter().enumerate() {
            if let Some(parent) = client.parent {
                assert!(parent < i, "client {i} precedes its parent {parent}");
                children[parent].push(i);
            }
        }
        let mut demand = vec![0.0; clients.len()];
        for (i, client) in clients.iter().enumerate().rev() {
            if children[i].is_empty() && client.mask & all_cpus(cpus) != 0 {
                demand[i] = client.demand.min(1.0);
            }
            if let Some(parent) = client.parent {
                demand[parent] += demand[i];
            }
        }
        Self {
            clients,
            cpus,
            children,
            demand,
        }
    }

    fn mask(&self, leaf: usize) -> u64 {
        self.clients[leaf].mask & all_cpus(self.cpus)
    }

    fn masks_bind(&self) -> bool {
        (0..self.clients.len())
            .any(|i| self.is_wanting_leaf(i) && self.mask(i) != all_cpus(self.cpus))
    }

    fn is_wanting_leaf(&self, i: usize) -> bool {
        self.children[i].is_empty() && self.demand[i] > 0.0
    }

    fn wanting_children(&self, i: usize) -> impl Iterator<Item = usize> {
        let children = self.children[i].iter().copied();
        children.filter(|&child| self.demand[child] > 0.0)
    }

    fn filled_by_currency(&self) -> Vec<f64> {
        let mut rates = vec![0.0; self.clients.len()];
        rates[0] = self.demand[0].min(self.cpus as f64);
        for i in 0..self.clients.len() {
            self.fill(i, &mut rates);
        }
        rates
    }

    /// Water-filling of one currency: the client that wants least for its tickets is served first, and the others share the rest.
    fn fill(&self, currency: usize, rates: &mut [f64]) {
        let mut left = rates[currency];
        let mut children: Vec<usize> = self.wanting_children(currency).collect();
        let wants = |i: usize| self.demand[i] / f64::from(self.clients[i].tickets);
        children.sort_by(|&a, &b| wants(a).total_cmp(&wants(b)));
        let mut weight: f64 = children.iter().map(|&i| self.weight(i)).sum();
        for i in children {
            rates[i] = self.demand[i].min(left * self.weight(i) / weight);
            left -= rates[i];
            weight -= self.weight(i);
        }
    }

    fn weight(&self, i: usize) -> f64 {
        f64::from(self.clients[i].tickets)
    }

    /// Level after level, each with what the levels above have decided.
    fn filled_by_cuts(&self) -> Vec<f64> {
        let mut rates = vec![0.0; self.clients.len()];
        if self.demand[0] == 0.0 {
            return rates;
        }
        rates[0] = self.most();
        let mut above = vec![0];
        while above.iter().any(|&i| !self.children[i].is_empty()) {
            let mut level = Level::new(self, &above, &rates);
            level.fill();
            for item in &level.items {
                rates[item.client] = item.rate.expect("a filled level");
            }
            above = level.items.iter().map(|item| item.client).collect();
        }
        rates
    }

    /// How many CPUs all leaves together can use.
    fn most(&self) -> f64 {
        let mut network = Network::new(3);
        network.edge(Network::SOURCE, 2, f64::INFINITY);
        self.add_leaves(&mut network, 2, 0);
        network.add_cpus(self);
        network.max_flow()
    }

    /// Below `node`, a node for each mask of the leaves below `client`.
    fn add_leaves(&self, network: &mut Network, node: usize, client: usize) {
        let mut masks: BTreeMap<u64, f64> = BTreeMap::new();
        let mut below = vec![client];
        while let Some(i) = below.pop() {
            below.extend(self.wanting_children(i));
            if self.is_wanting_leaf(i) {
                *masks.entry(self.mask(i)).or_default() += self.demand[i];
            }
        }
        for (mask, demand) in masks {
            let group = network.node();
            network.edge(node, group, demand);
            network.groups.push((group, mask));
        }
    }
}

/// A client whose rate is to be found.
struct Item {
    client: usize,
    /// The currency's index in `Level::currencies`.
    currency: usize,
    /// What its tickets alone would give it.
    weight: f64,
    rate: Option<f64>,
    /// Its edges from the source, and from its currency.
    edge: usize,
    raising_edge: usize,
}

struct Currency {
    rate: f64,
    /// Carries what its items get above the level: one edge from the source, one to each item.
    node: usize,
    edge: usize,
}

/// Clients of one depth, and the leaves above that depth, whose rates are known.
struct Level {
    currencies: Vec<Currency>,
    items: Vec<Item>,
    network: Network,
    total: f64,
}

impl Level {
    fn new(tree: &Tree, above: &[usize], rates: &[f64]) -> Self {
        let mut level = Self {
            currencies: Vec::new(),
            items: Vec::new(),
            network: Network::new(2),
            total: rates[0],
        };
        for &client in above {
            level.add_currency(tree, client, rates[client]);
        }
        level.network.add_cpus(tree);
        level
    }

    fn add_currency(&mut self, tree: &Tree, client: usize, rate: f64) {
        let currency = self.currencies.len();
        let node = self.network.node();
        self.currencies.push(Currency {
            rate,
            node,
            edge: self.network.edge(Network::SOURCE, node, 0.0),
        });
        let mut children: Vec<usize> = tree.wanting_children(client).collect();
        if children.is_empty() {
            children.push(client);
        }
        let weight: f64 = children.iter().map(|&i| tree.weight(i)).sum();
        for i in children {
            let item_node = self.network.node();
            self.items.push(Item {
                client: i,
                currency,
                weight: rate * tree.weight(i) / weight,
                rate: (rate < NOTHING).then_some(0.0),
                edge: self.network.edge(Network::SOURCE, item_node, 0.0),
                raising_edge: self.network.edge(node, item_node, 0.0),
            });
            tree.add_leaves(&mut self.network, item_node, i);
        }
    }

    fn fill(&mut self) {
        while self.items.iter().any(|item| item.rate.is_none()) {
            let (height, bound) = self.highest();
            for (item, bound) in self.items.iter_mut().zip(bound) {
                if bound {
                    item.rate = Some(height * item.weight);
                }
            }
        }
    }

    /// Of each currency: what its bound items have, and the weight of those that can still be raised.
    fn taken(&self) -> Vec<(f64, f64)> {
        let mut taken = vec![(0.0, 0.0); self.currencies.len()];
        for item in &self.items {
            match item.rate {
                Some(rate) => taken[item.currency].0 += rate,
                None => taken[item.currency].1 += item.weight,
            }
        }
        taken
    }

    /// How high all items that are not bound can be raised, and which of them that binds.
    fn highest(&mut self) -> (f64, Vec<bool>) {
        let taken = self.taken();
        let full = |c: usize| (self.currencies[c].rate - taken[c].0) / taken[c].1;
        let open = (0..taken.len()).filter(|&c| taken[c].1 > 0.0);
        let mut height = open.map(full).fold(f64::INFINITY, f64::min).max(0.0);
        let mut bound: Vec<bool> = (self.items.iter())
            .map(|item| item.rate.is_none() && full(item.currency) <= height + NOTHING)
            .collect();
        loop {
            self.raise(height, &taken);
            if self.network.max_flow() >= self.total - ROUNDING {
                return (height, bound);
            }
            let cut = self.network.reached();
            let (lower, weight) = self.height_at(&cut, &taken);
            if weight < NOTHING || lower >= height {
                return (height, bound);
            }
            height = lower;
            bound = (self.items.iter())
                .map(|item| {
                    let open = !cut[self.currencies[item.currency].node];
                    item.rate.is_none() && open && cut[self.network.to[item.edge]]
                })
                .collect();
        }
    }

    fn raise(&mut self, height: f64, taken: &[(f64, f64)]) {
        for item in &self.items {
            let rate = item.rate.unwrap_or(height * item.weight);
            let more = if item.rate.is_none() {
                f64::INFINITY
            } else {
                0.0
            };
            self.network.capacity[item.edge] = rate;
            self.network.capacity[item.raising_edge] = more;
        }
        for (currency, (sure, weight)) in self.currencies.iter().zip(taken) {
            self.network.capacity[currency.edge] =
                (currency.rate - sure - height * weight).max(0.0);
        }
    }

    /// The height at which the items inside the cut want just what leads out of it, and how much more they want per height.
    fn height_at(&self, cut: &[bool], taken: &[(f64, f64)]) -> (f64, f64) {
        let (mut fixed, mut weight) = (0.0, 0.0);
        for item in &self.items {
            if cut[self.network.to[item.edge]] {
                match item.rate {
                    Some(rate) => fixed += rate,
                    None => weight += item.weight,
                }
            }
        }
        for (currency, (sure, raised)) in self.currencies.iter().zip(taken) {
            if cut[currency.node] {
                fixed += currency.rate - sure;
                weight -= raised;
            }
        }
        ((self.network.out_of(cut) - fixed) / weight, weight)
    }
}

/// Maximum flow by Dinic's method.
struct Network {
    /// Of each node, its edges; an edge and its reverse differ in the last bit.
    edges: Vec<Vec<usize>>,
    to: Vec<usize>,
    capacity: Vec<f64>,
    residual: Vec<f64>,
    depth: Vec<usize>,
    next: Vec<usize>,
    /// Leaves of one client with one mask.
    groups: Vec<(usize, u64)>,
}

impl Network {
    const SOURCE: usize = 0;
    const SINK: usize = 1;

    fn new(nodes: usize) -> Self {
        Self {
            edges: vec![Vec::new(); nodes],
            to: Vec::new(),
            capacity: Vec::new(),
            residual: Vec::new(),
            depth: Vec::new(),
            next: Vec::new(),
            groups: Vec::new(),
        }
    }

    fn node(&mut self) -> usize {
        self.edges.push(Vec::new());
        self.edges.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, capacity: f64) -> usize {
        let edge = self.to.len();
        self.to.extend([to, from]);
        self.capacity.extend([capacity, 0.0]);
        self.edges[from].push(edge);
        self.edges[to].push(edge + 1);
        edge
    }

    /// CPUs that the same groups may use are one node.
    fn add_cpus(&mut self, tree: &Tree) {
        let mut classes: BTreeMap<Vec<usize>, usize> = BTreeMap::new();
        for cpu in 0..tree.cpus {
            let users = self.groups.iter().filter(|(_, mask)| mask >> cpu & 1 != 0);
            *classes
                .entry(users.map(|&(group, _)| group).collect())
                .or_default() += 1;
        }
        for (groups, cpus) in classes {
            let class = self.node();
            self.edge(class, Self::SINK, cpus as f64);
            for group in groups {
                self.edge(group, class, f64::INFINITY);
            }
        }
    }

    fn max_flow(&mut self) -> f64 {
        self.residual.clone_from(&self.capacity);
        let mut flow = 0.0;
        while self.layer() {
            self.next.clear();
            self.next.resize(self.edges.len(), 0);
            loop {
                let pushed = self.push(Self::SOURCE, f64::INFINITY);
                if pushed <= NOTHING {
                    break;
                }
                flow += pushed;
            }
        }
        flow
    }

    /// The distance of each node from the source, as far as something more can flow. Does it reach the sink?
    fn layer(&mut self) -> bool {
        self.depth.clear();
        self.depth.resize(self.edges.len(), usize::MAX);
        self.depth[Self::SOURCE] = 0;
        let mut queue = vec![Self::SOURCE];
        let mut first = 0;
        while first < queue.len() {
            let node = queue[first];
            first += 1;
            for &edge in &self.edges[node] {
                let to = self.to[edge];
                if self.residual[edge] > NOTHING && self.depth[to] == usize::MAX {
                    self.depth[to] = self.depth[node] + 1;
                    queue.push(to);
                }
            }
        }
        self.depth[Self::SINK] != usize::MAX
    }

    fn push(&mut self, node: usize, most: f64) -> f64 {
        if node == Self::SINK {
            return most;
        }
        while self.next[node] < self.edges[node].len() {
            let edge = self.edges[node][self.next[node]];
            let to = self.to[edge];
            if self.residual[edge] > NOTHING && self.depth[to] == self.depth[node] + 1 {
                let pushed = self.push(to, most.min(self.residual[edge]));
                if pushed > NOTHING {
                    self.residual[edge] -= pushed;
                    self.residual[edge ^ 1] += pushed;
                    return pushed;
                }
            }
            self.next[node] += 1;
        }
        0.0
    }

    /// After the last search: the source's side of the minimum cut.
    fn reached(&self) -> Vec<bool> {
        self.depth
            .iter()
            .map(|&depth| depth != usize::MAX)
            .collect()
    }

    /// What leads out of a cut, the source's own edges not counted.
    fn out_of(&self, cut: &[bool]) -> f64 {
        let mut out = 0.0;
        for (node, edges) in self.edges.iter().enumerate() {
            if node != Self::SOURCE && cut[node] {
                let crossing = edges.iter().filter(|&&edge| !cut[self.to[edge]]);
                out += crossing.map(|&edge| self.capacity[edge]).sum::<f64>();
            }
        }
        out
    }
}
