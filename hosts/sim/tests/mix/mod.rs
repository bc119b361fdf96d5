//! Random economies: a seed makes one, a machine runs it, and the oracle says what each client is due.
//!
//! What is due is what a fluid would have got: between two events (a burst is released or done, tickets, masks or tasks
//! change) all clients run at the oracle's rates.

use crate::machine::{ANYWHERE, Act, MS, Machine, Program, SECOND, hog};
use std::collections::HashMap;
use std::rc::Rc;
use tombola_core::{BEST_EFFORT, Kind, Rules};
use tombola_sim::Random;
use tombola_sim::entitlement::{Client, all_cpus, rates};

/// How long an economy runs.
pub const SPAN_NS: u64 = 20 * SECOND;
const TICKETS_MAX: u64 = 10_000;
const LEVELS_MAX: u64 = 8;
/// What is left of a burst when it is done, ns of service.
const DONE_NS: f64 = 1e-3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Static,
    Masks,
    Sleepers,
    Changes,
    Lottery,
    Users,
}

impl Mode {
    pub const ALL: [Self; 6] = [
        Self::Static,
        Self::Masks,
        Self::Sleepers,
        Self::Changes,
        Self::Lottery,
        Self::Users,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Masks => "masks",
            Self::Sleepers => "sleepers",
            Self::Changes => "changes",
            Self::Lottery => "lottery",
            Self::Users => "users",
        }
    }
}

/// `burst_ns` of work are released at `offset_ns` and each period after it, whether the last burst is done or not.
#[derive(Clone, Copy, Debug)]
pub struct Sleeper {
    pub period_ns: u64,
    pub burst_ns: u64,
    pub offset_ns: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum Change {
    Tickets(u32),
    Mask(u64),
    /// To another scheduling class, at once, and back.
    Leave,
    Return,
}

/// One economy.
pub struct Mix {
    pub cpus: usize,
    pub rules: Rules,
    /// The first is best effort; parents precede their children.
    pub clients: Vec<Client>,
    pub is_leaf: Vec<bool>,
    pub sleepers: Vec<Option<Sleeper>>,
    /// Time, client and change; in the order of time.
    pub changes: Vec<(u64, usize, Change)>,
}

/// What each client got, ns, and how often the bound on lag cut a charge.
pub struct Outcome {
    pub got: Vec<f64>,
    pub clamped: u64,
    pub slices: u64,
}

/// 1 to `most`, small ones as often as large ones in each power of two.
fn log_uniform(random: &mut Random, most: u64) -> u64 {
    let unit = random.bits() as f64 / u64::MAX as f64;
    (((most + 1) as f64).powf(unit) as u64).clamp(1, most)
}

fn below(random: &mut Random, n: u64) -> u64 {
    random.bits() % n
}

impl Mix {
    pub fn random(mode: Mode, seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(16).wrapping_add(mode as u64));
        match mode {
            Mode::Users => Self::users(&mut random),
            _ => Self::tree(mode, &mut random),
        }
    }

    /// A machine with ten users and forty processes, a quarter of these with several threads, a quarter bound to CPUs. As
    /// lab/tests/economies.rs runs it on the kernel.
    fn users(random: &mut Random) -> Self {
        let cpus = [2, 3, 4, 7][below(random, 4) as usize];
        let mut mix = Self::new(cpus, Rules::stride(MS));
        let users: Vec<usize> = (0..10)
            .map(|_| {
                let base_tickets = 100 * log_uniform(random, TICKETS_MAX / 100);
                mix.add(Client::currency(Some(0), base_tickets as u32), false)
            })
            .collect();
        let mut of = vec![Vec::new(); users.len()];
        for process in 0..40 {
            let first = process < users.len();
            let user = if first {
                process
            } else {
                below(random, 10) as usize
            };
            of[user].push((
                log_uniform(random, TICKETS_MAX) as u32,
                if below(random, 4) == 0 {
                    2 + below(random, 3)
                } else {
                    1
                },
                if below(random, 4) == 0 {
                    1 + below(random, all_cpus(cpus))
                } else {
                    ANYWHERE
                },
            ));
        }
        for (user, processes) in users.into_iter().zip(of) {
            for (tickets, threads, mask) in processes {
                if threads == 1 {
                    mix.add(Client::leaf(user, tickets, mask), true);
                    continue;
                }
                let process = mix.add(Client::currency(Some(user), tickets), false);
                for _ in 0..threads {
                    mix.add(Client::leaf(process, 100, mask), true);
                }
            }
        }
        mix.sleepers = vec![None; mix.clients.len()];
        mix
    }

    fn new(cpus: usize, rules: Rules) -> Self {
        Self {
            cpus,
            rules,
            clients: vec![Client::currency(None, 1)],
            is_leaf: vec![false],
            sleepers: Vec::new(),
            changes: Vec::new(),
        }
    }

    fn add(&mut self, client: Client, is_leaf: bool) -> usize {
        self.clients.push(client);
        self.is_leaf.push(is_leaf);
        self.clients.len() - 1
    }

    fn tree(mode: Mode, random: &mut Random) -> Self {
        let cpus = log_uniform(random, 64).min(log_uniform(random, 128)) as usize;
        // .5 to 4 ms; on many CPUs long ones only, or these economies would take most of the time.
        let quantum_ns =
            (MS / 2 + below(random, 8) * MS / 2).max((cpus as u64 * MS / 8).min(4 * MS));
        let rules = match mode {
            Mode::Lottery => Rules::lottery(quantum_ns),
            _ => Rules::stride(quantum_ns),
        };
        let mut mix = Self::new(cpus, rules);
        let leaves = match below(random, 2) {
            0 => 1 + below(random, 60),
            _ => 1 + below(random, 4 * cpus as u64).min(80),
        };
        let levels = 1 + below(random, LEVELS_MAX);
        mix.grow(random, 0, levels, leaves);
        mix.sleepers = vec![None; mix.clients.len()];
        match mode {
            Mode::Static | Mode::Lottery | Mode::Users => {}
            Mode::Masks => mix.add_masks(random),
            Mode::Sleepers => mix.add_sleepers(random),
            Mode::Changes => mix.add_changes(random),
        }
        mix
    }

    /// Children of `parent` with this many leaves below them, on at most this many levels.
    fn grow(&mut self, random: &mut Random, parent: usize, levels: u64, leaves: u64) {
        let most = if levels == 1 { leaves } else { leaves.min(10) };
        let children = match levels {
            1 => most,
            _ => 1 + below(random, most),
        };
        let alike = below(random, 4) == 0;
        // How many children have most of the tickets.
        let rich = [0, 0, 1, 3][below(random, 4) as usize];
        let mut left = leaves;
        for child in 0..children {
            let others = children - child - 1;
            let part = match others {
                0 => left,
                _ => 1 + below(random, (left - others).min(2 * left / (others + 1)).max(1)),
            };
            left -= part;
            let tickets = match (alike, child < rich) {
                (true, _) => 100,
                (_, true) => TICKETS_MAX - below(random, TICKETS_MAX / 2),
                (_, false) => log_uniform(random, TICKETS_MAX / 10u64.pow(u32::from(rich > 0))),
            } as u32;
            let single = part == 1 && (levels == 1 || (parent != 0 && below(random, 2) == 0));
            if single {
                self.add(Client::leaf(parent, tickets, ANYWHERE), true);
            } else {
                let currency = self.add(Client::currency(Some(parent), tickets), false);
                self.grow(random, currency, levels.max(2) - 1, part);
            }
        }
    }

    fn leaves(&self) -> impl Iterator<Item = usize> {
        (0..self.clients.len()).filter(|&i| self.is_leaf[i])
    }

    /// Masks of one kind for an economy: single CPUs, any subsets, nested ones, or neighbours that overlap.
    fn add_masks(&mut self, random: &mut Random) {
        let kind = below(random, 4);
        let often = 1 + below(random, 4);
        for leaf in self.leaves().collect::<Vec<_>>() {
            if below(random, 4) < often {
                self.clients[leaf].mask = random_mask(random, kind, self.cpus);
            }
        }
    }

    fn add_sleepers(&mut self, random: &mut Random) {
        let often = 1 + below(random, 3);
        for leaf in self.leaves().collect::<Vec<_>>() {
            if below(random, 4) < often {
                let period_ns = 5 * MS * log_uniform(random, 400);
                self.sleepers[leaf] = Some(Sleeper {
                    period_ns,
                    burst_ns: (period_ns * (1 + below(random, 19)) / 20).max(MS / 10),
                    offset_ns: below(random, period_ns),
                });
            }
        }
    }

    fn add_changes(&mut self, random: &mut Random) {
        let mut times: Vec<u64> = (0..1 + below(random, 12))
            .map(|_| 1 + below(random, SPAN_NS - 1))
            .collect();
        times.sort_unstable();
        let mut away = vec![false; self.clients.len()];
        for time in times {
            let client = 1 + below(random, self.clients.len() as u64 - 1) as usize;
            let change = match below(random, 4) {
                0 | 1 if self.is_leaf[client] => {
                    away[client] = !away[client];
                    if away[client] {
                        Change::Leave
                    } else {
                        Change::Return
                    }
                }
                2 if self.is_leaf[client] && !away[client] && self.cpus > 1 => {
                    let kind = below(random, 4);
                    Change::Mask(random_mask(random, kind, self.cpus))
                }
                _ => Change::Tickets(log_uniform(random, TICKETS_MAX) as u32),
            };
            self.changes.push((time, client, change));
        }
    }

    /// Service of each client in a machine.
    pub fn run(&self, seed: u64) -> Outcome {
        let mut machine = Machine::new(self.rules, self.cpus, seed);
        let mut made = vec![BEST_EFFORT];
        for (i, client) in self.clients.iter().enumerate().skip(1) {
            let parent = made[client.parent.expect("not the root")];
            made.push(if self.is_leaf[i] {
                let program = self.sleepers[i].map_or_else(hog, program);
                machine.task_on(parent, client.tickets, client.mask, program)
            } else {
                let economy = &mut machine.economy();
                let made = economy.new_client(Kind::Currency, parent, client.tickets);
                made.expect("room for it")
            });
        }
        for &(time, client, change) in &self.changes {
            machine.run_until(time);
            match change {
                Change::Tickets(tickets) => machine.economy().set_tickets(made[client], tickets),
                Change::Mask(mask) => machine.set_mask(made[client], mask),
                Change::Leave => machine.leave(made[client]),
                Change::Return => machine.come_back(made[client]),
            }
        }
        machine.run_until(SPAN_NS);
        Outcome {
            got: machine.all_used_ns(&made),
            clamped: machine.economy().counters().clamped,
            slices: machine.slices(),
        }
    }

    /// Service that each client is due, ns.
    pub fn due(&self) -> Vec<f64> {
        let mut fluid = Fluid::new(self);
        let mut changes = self.changes.iter().peekable();
        while fluid.now < SPAN_NS as f64 {
            let next = changes.peek().map_or(SPAN_NS, |change| change.0);
            fluid.run_until(next as f64);
            if let Some(&(_, client, change)) = changes.next() {
                fluid.change(client, change);
            }
        }
        fluid.service
    }
}

fn random_mask(random: &mut Random, kind: u64, cpus: usize) -> u64 {
    let all = all_cpus(cpus);
    let first = below(random, cpus as u64);
    let width = 1 + below(random, cpus as u64);
    let mask = match kind {
        0 => 1 << first,
        1 => random.bits() & all,
        2 => all_cpus(width as usize),
        _ => {
            (all_cpus(width as usize) << first
                | all_cpus(width as usize) >> (cpus as u64 - first).min(63))
                & all
        }
    };
    if mask == 0 { 1 << first } else { mask }
}

fn program(sleeper: Sleeper) -> Program {
    Rc::new(move |act, _| match act % 2 {
        1 => Act::Until(sleeper.offset_ns + act / 2 * sleeper.period_ns),
        _ => Act::Run(sleeper.burst_ns),
    })
}

/// All clients run at once, at the oracle's rates.
struct Fluid<'a> {
    mix: &'a Mix,
    now: f64,
    clients: Vec<Client>,
    away: Vec<bool>,
    service: Vec<f64>,
    /// Of each sleeper: its index, the work that it has left, and when more is released, ns.
    work: Vec<(usize, f64, f64)>,
    /// Rates by which sleepers are awake, as long as nothing else changes.
    rates: HashMap<Vec<bool>, Rc<Vec<f64>>>,
}

impl<'a> Fluid<'a> {
    fn new(mix: &'a Mix) -> Self {
        let offset = |(i, s): (usize, &Option<Sleeper>)| s.map(|s| (i, 0.0, s.offset_ns as f64));
        Self {
            mix,
            now: 0.0,
            clients: mix.clients.clone(),
            away: vec![false; mix.clients.len()],
            service: vec![0.0; mix.clients.len()],
            work: mix.sleepers.iter().enumerate().filter_map(offset).collect(),
            rates: HashMap::new(),
        }
    }

    fn change(&mut self, client: usize, change: Change) {
        match change {
            Change::Tickets(tickets) => self.clients[client].tickets = tickets,
            Change::Mask(mask) => self.clients[client].mask = mask,
            Change::Leave | Change::Return => self.away[client] = !self.away[client],
        }
        self.rates.clear();
    }

    fn rates(&mut self) -> Rc<Vec<f64>> {
        let awake: Vec<bool> = self.work.iter().map(|work| work.1 > DONE_NS).collect();
        if let Some(rates) = self.rates.get(&awake) {
            return rates.clone();
        }
        for i in self.mix.leaves() {
            self.clients[i].demand = f64::from(u8::from(!self.away[i]));
        }
        for (work, &awake) in self.work.iter().zip(&awake) {
            self.clients[work.0].demand *= f64::from(u8::from(awake));
        }
        let rates = Rc::new(rates(&self.clients, self.mix.cpus));
        self.rates.insert(awake, rates.clone());
        rates
    }

    fn run_until(&mut self, end: f64) {
        while self.now < end {
            let rates = self.rates();
            let mut next = end;
            for &(i, left, release) in &self.work {
                next = next.min(release);
                if left > DONE_NS && rates[i] > 0.0 {
                    next = next.min(self.now + left / rates[i]);
                }
            }
            self.go_on(next, &rates);
        }
    }

    fn go_on(&mut self, next: f64, rates: &[f64]) {
        let passed = next - self.now;
        for (service, rate) in self.service.iter_mut().zip(rates) {
            *service += passed * rate;
        }
        for (i, left, release) in &mut self.work {
            *left = (*left - passed * rates[*i]).max(0.0);
            if *release <= next {
                let sleeper = self.mix.sleepers[*i].expect("a sleeper");
                *left += sleeper.burst_ns as f64;
                *release += sleeper.period_ns as f64;
            }
        }
        self.now = next;
    }
}
