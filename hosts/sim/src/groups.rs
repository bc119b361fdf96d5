//! Users and currencies on several run queues: their parts on each, and how many tickets count there (`queues.h`).

use tombola_core::limits::{CLIENTS, DEPTH, DRAW_SHIFT, REACH_PERIODS};
use tombola_core::queues::{
    CPU, Counts, PRICE_MAX, SCALE, entitled, excess, faded, group_clock, merged, off, off_of,
    price, share, usable, widest, width,
};
use tombola_core::{ACTIVE, BEHIND, Economy, Kind, advance};

/// A group's client on a queue.
struct Part {
    queue: usize,
    client: u32,
    /// Usable tickets of the active clients in it, and of those that have slept for a short time.
    here: u64,
    asleep: u64,
    /// How many of the group's usable tickets count here.
    counts: Counts,
    /// By how much of that the client was.
    shifted: u64,
    /// By how much vnow is ahead of the part's clock (`queues.h`).
    offset: u64,
}

/// A user, or a currency; the first group is the root, whose parts are the best effort of each queue.
struct Group {
    parent: usize,
    tickets: u64,
    /// As many of them as it can use, and the CPUs to which it is entitled with these.
    usable: u64,
    cpus: u64,
    price: u64,
    /// Usable tickets in all parts, of active clients and of those asleep.
    all: u64,
    asleep: u64,
    /// Those of threads that are directly in it; and of groups that are, since the last period.
    of_threads: u64,
    of_groups: u64,
    /// The runnable threads that are directly in it; and the width of the groups in it, since the last period.
    own: Width,
    inner: Width,
    /// Where its bound threads may run, since that was last forgotten; and before.
    reach: u64,
    former_reach: u64,
    widest: u64,
    /// Its clock, that of the root is the machine's (`queues.h`); and the fastest of its parts', at the last look.
    clock: u64,
    fastest: u64,
    /// Its pass, whichever queue its threads run on (queues.h). `None`: that of the next part that is charged.
    pass: Option<u64>,
    /// A part was too far from that.
    strays: bool,
    /// By how much the passes of all parts have been shifted in all.
    shift: u64,
    parts: Parts,
}

/// Threads that may run on all CPUs, and others; or on how many CPUs they can be at once (`queues.h`).
#[derive(Default)]
struct Width {
    free: u64,
    bound: u64,
}

const ROOT: usize = 0;
/// Of the tickets that come to a part, so many are those of runnable threads: none of sleeping ones.
const ALL_AWAKE: u64 = 1 << 16;

impl Group {
    fn recent(&self) -> u64 {
        self.all + self.asleep
    }

    fn new(parent: usize, tickets: u64) -> Self {
        Self {
            parent,
            tickets,
            usable: usable(tickets, 1, PRICE_MAX, 0),
            cpus: 0,
            price: PRICE_MAX,
            all: 0,
            asleep: 0,
            of_threads: 0,
            of_groups: 0,
            own: Width::default(),
            inner: Width::default(),
            reach: 0,
            former_reach: 0,
            widest: 0,
            clock: 0,
            fastest: 0,
            pass: None,
            strays: false,
            shift: 0,
            parts: Parts::default(),
        }
    }
}

/// What a client changes in the part around it.
#[derive(Clone, Copy)]
struct Change {
    here: i64,
    asleep: i64,
}

/// A client counts so many tickets, and so many while it sleeps; `there` are those of all that sleep in the part around it.
fn change_of(counts: &mut Counts, usable: u64, asleep: u64, there: u64, period: u32) -> Change {
    let before = counts.usable;
    let asleep = counts.change(usable, asleep, there, period);
    Change {
        here: usable as i64 - before as i64,
        asleep,
    }
}

fn is_before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

impl Part {
    fn new(queue: usize, client: u32) -> Self {
        Self {
            queue,
            client,
            here: 0,
            asleep: 0,
            counts: Counts::default(),
            shifted: 0,
            offset: 0,
        }
    }

    /// Those by which it has its share of its group's.
    fn recent(&self) -> u64 {
        self.here + self.asleep
    }

    fn clock(&self, economy: &Economy) -> u64 {
        economy.client(self.client).vnow.wrapping_sub(self.offset)
    }

    /// It stays near its group's.
    fn look_at_clock(&mut self, economy: &Economy, of_group: u64, bound_ns: u64, price: u64) {
        let excess = excess(self.clock(economy), of_group, bound_ns, price);
        self.offset = self.offset.wrapping_add(excess);
    }
}

/// A group's parts, in ascending order of their queues. These are searched at each slice, so they stand together.
#[derive(Default)]
struct Parts {
    queues: Vec<u32>,
    parts: Vec<Part>,
}

impl Parts {
    fn at(&self, queue: usize) -> Option<usize> {
        self.queues.binary_search(&(queue as u32)).ok()
    }

    fn get(&self, queue: usize) -> Option<&Part> {
        Some(&self.parts[self.at(queue)?])
    }

    /// The part on a queue where the group has a thread.
    fn of(&mut self, queue: usize) -> &mut Part {
        let at = self.at(queue).expect("the thread is in it");
        &mut self.parts[at]
    }

    /// A part on a queue where there was none.
    fn insert(&mut self, part: Part) {
        let queue = part.queue as u32;
        let at = self.queues.partition_point(|&other| other < queue);
        self.queues.insert(at, queue);
        self.parts.insert(at, part);
    }

    fn retain(&mut self, is_kept: impl FnMut(&Part) -> bool) {
        self.parts.retain(is_kept);
        self.queues = self.iter().map(|part| part.queue as u32).collect();
    }

    fn iter(&self) -> std::slice::Iter<'_, Part> {
        self.parts.iter()
    }

    fn iter_mut(&mut self) -> std::slice::IterMut<'_, Part> {
        self.parts.iter_mut()
    }
}

/// All groups.
pub struct Groups {
    groups: Vec<Group>,
    /// CPUs of the machine.
    cpus: u64,
    /// How far clocks may be apart, ns.
    bound_ns: u64,
    /// Queues have several CPUs: parts are held.
    holds: bool,
    /// Periods, of which each has new prices.
    periods: u32,
}

/// The CPUs on which a thread may run, as a mask; `None`: on all.
pub type Reach = Option<u64>;

/// The passes of the parts that a thread leaves, from the innermost one on.
pub struct Passes(Vec<u64>);

impl Groups {
    pub fn new(economy: &mut Economy, queues: usize, cpus: u64, bound_ns: u64) -> Self {
        let mut root = Group::new(ROOT, 0);
        for queue in 0..queues {
            root.parts
                .insert(Part::new(queue, economy.on(queue).roots()[1]));
        }
        Self {
            groups: vec![root],
            cpus,
            bound_ns,
            holds: cpus > queues as u64,
            periods: 0,
        }
    }

    /// A new group in another one; the root is group 0.
    pub fn add(&mut self, parent: u32, tickets: u32) -> u32 {
        let tickets = u64::from(tickets) * u64::from(SCALE);
        self.groups.push(Group::new(parent as usize, tickets));
        self.groups.len() as u32 - 1
    }

    pub fn set_tickets(&mut self, group: u32, tickets: u32) {
        let group = &mut self.groups[group as usize];
        group.tickets = u64::from(tickets) * u64::from(SCALE);
        group.pass = None;
    }

    fn line(&self, group: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(group), |&g| (g != ROOT).then(|| self.groups[g].parent))
    }

    fn part(&self, group: usize, queue: usize) -> Option<&Part> {
        self.groups[group].parts.get(queue)
    }

    /// There is room for a new thread and its groups' parts: if few clients are left, parts in which no thread is are given up. A
    /// thread that comes later finds its group's clock in a new part, but not the lag of the old one.
    pub fn make_room(&mut self, economy: &mut Economy) {
        if CLIENTS - 1 - economy.counters().used > DEPTH {
            return;
        }
        // Innermost parts first: then those around them are empty, too.
        for _ in 0..DEPTH {
            let mut has_clients = vec![false; CLIENTS as usize];
            for i in (1..CLIENTS).filter(|&i| economy.exists(i)) {
                has_clients[economy.client(i).parent as usize] = true;
            }
            let used = economy.counters().used;
            let is_empty = |part: &Part| !has_clients[part.client as usize];
            for group in &mut self.groups[ROOT + 1..] {
                for part in group.parts.iter().filter(|part| is_empty(part)) {
                    economy.on(part.queue).free(part.client);
                }
                group.parts.retain(|part| !is_empty(part));
                group.asleep = group.parts.iter().map(|part| part.asleep).sum();
            }
            if economy.counters().used == used {
                break;
            }
        }
    }

    /// The client of a group on a queue, which is made if there is none yet.
    pub fn client(&mut self, economy: &mut Economy, group: u32, queue: usize) -> u32 {
        let group = group as usize;
        if let Some(part) = self.part(group, queue) {
            return part.client;
        }
        let (parent, tickets) = (self.groups[group].parent, self.groups[group].tickets);
        let above = self.client(economy, parent as u32, queue);
        let kind = if parent == ROOT {
            Kind::User
        } else {
            Kind::Currency
        };
        let client = economy
            .on(queue)
            .new_client(kind, above, tickets as u32)
            .expect("there are more clients than the core takes");
        self.groups[group].parts.insert(Part::new(queue, client));
        client
    }

    /// The tickets of a thread, and how many of them it can use.
    pub fn of_thread(&self, group: u32, tickets: u32) -> (u32, u64) {
        let tickets = tickets * SCALE;
        let group = &self.groups[group as usize];
        let usable = usable(u64::from(tickets), 1, group.price, group.cpus);
        (tickets, usable)
    }

    /// What a thread that can use so many tickets of `group` is worth on a queue, beside others there.
    pub fn worth(&self, group: u32, queue: usize, usable: u64) -> u64 {
        let groups = self.line(group as usize).filter(|&g| g != ROOT);
        groups.fold(usable, |worth, g| {
            let part = self.part(g, queue).expect("the thread is in it");
            share(part.counts.usable, worth, part.here)
        })
    }

    fn best_effort(&self, queue: usize) -> &Part {
        &self.groups[ROOT].parts.parts[queue]
    }

    /// Load of a queue: its usable tickets for each of so many CPUs.
    pub fn load(&self, queue: usize, cpus: u64) -> u64 {
        self.best_effort(queue).here / cpus
    }

    /// The load of a queue as a thread of `group` finds it. Its groups' parts there may have been counted when they had less or
    /// more of the tickets elsewhere: a user that forks many threads at once would seem to be on the first queue only.
    pub fn load_for(&self, group: u32, queue: usize, cpus: u64) -> u64 {
        let mut change = 0;
        for g in self.line(group as usize) {
            let of = &self.groups[g];
            let Some(part) = self.part(g, queue) else {
                continue;
            };
            let here = part.here.wrapping_add_signed(change);
            if g == ROOT {
                return here / cpus;
            }
            let counted = match here {
                0 => 0,
                here => share(
                    of.usable,
                    here + part.asleep,
                    of.recent().wrapping_add_signed(change),
                ),
            };
            change = counted as i64 - part.counts.usable as i64;
        }
        0
    }

    pub fn mean_load(&self) -> u64 {
        self.groups[ROOT].all / self.cpus
    }

    /// A queue's clock.
    pub fn clock(&self, economy: &Economy, queue: usize) -> u64 {
        self.best_effort(queue).clock(economy)
    }

    /// By how much the pass of a group's part on a queue is ahead of what can be compared with other parts of it.
    fn offset(&self, group: usize, queue: usize) -> u64 {
        let around = self.part(self.groups[group].parent, queue);
        around.expect("the part is in it").offset
    }

    /// The offset of a part to which a thread is about to come. An idle one begins with its group's fastest clock.
    fn offset_to_come(&self, economy: &Economy, group: usize, queue: usize) -> u64 {
        let part = self.part(group, queue).expect("it was made");
        let client = economy.client(part.client);
        match client.active {
            0 => client.vnow.wrapping_sub(self.groups[group].fastest),
            _ => part.offset,
        }
    }

    /// A waiting thread of `group` is about to go to a queue: the clocks of its groups' parts there are looked at (queues.h).
    pub fn look_at_clocks_on(&mut self, economy: &Economy, group: u32, queue: usize) {
        let line: Vec<usize> = self.line(group as usize).filter(|&g| g != ROOT).collect();
        for g in line {
            let (of, bound_ns) = (&mut self.groups[g], self.bound_ns);
            if let Some(at) = of.parts.at(queue) {
                let part = &mut of.parts.parts[at];
                if economy.client(part.client).active > 0 {
                    part.look_at_clock(economy, of.clock, bound_ns, of.price);
                }
            }
        }
    }

    fn set_offset(&mut self, economy: &Economy, g: usize, queue: usize) {
        let offset = self.offset_to_come(economy, g, queue);
        self.groups[g].parts.of(queue).offset = offset;
    }

    /// A leaf that is not runnable changes its queue.
    pub fn bring(&mut self, economy: &mut Economy, group: u32, leaf: u32, from: usize, to: usize) {
        self.make_room(economy);
        let client = self.client(economy, group, to);
        let group = group as usize;
        let there = self.offset_to_come(economy, group, to);
        let here = self.part(group, from).map_or(there, |part| part.offset);
        economy.on(to).put(leaf, client, there.wrapping_sub(here));
    }

    /// A thread of `group` is about to become runnable on a queue where its groups may have been idle.
    pub fn before_join(&mut self, economy: &mut Economy, group: u32, queue: usize) {
        let groups: Vec<usize> = self.line(group as usize).collect();
        for g in groups {
            if self.groups[g].all == 0 {
                self.groups[g].pass = None;
            }
            self.set_offset(economy, g, queue);
        }
    }

    /// There is one more runnable thread of `group`, or one less, which may run on these queues.
    pub fn count_thread(&mut self, group: u32, reach: Reach, is_more: bool) {
        let own = &mut self.groups[group as usize].own;
        let count = match reach {
            None => &mut own.free,
            Some(_) => &mut own.bound,
        };
        *count = count.wrapping_add_signed(if is_more { 1 } else { -1 });
    }

    /// A thread of `group` may run there still.
    pub fn note_reach(&mut self, group: u32, reach: Reach) {
        self.groups[group as usize].reach |= reach.unwrap_or(0);
    }

    /// A thread of `group` on a queue can use so many tickets from now on; or none, and falls asleep there with some, or leaves.
    /// If it is time (queues.h), the tickets of its part there, and of those around it, follow; lags stay.
    pub fn follow(
        &mut self,
        economy: &mut Economy,
        (group, queue): (u32, usize),
        thread: &mut Counts,
        (usable, asleep): (u64, u64),
        is_time: bool,
    ) {
        let change = self.count_in(group, queue, thread, usable, asleep);
        self.count(
            economy,
            (group, queue),
            change,
            (is_time, false),
            |economy, _, client, (tickets, _)| {
                economy.set_tickets(client, tickets);
            },
        );
    }

    fn count(
        &mut self,
        economy: &mut Economy,
        (group, queue): (u32, usize),
        mut change: Change,
        (is_time, moves): (bool, bool),
        set: impl Fn(&mut Economy, usize, u32, (u32, u64)),
    ) {
        let mut g = group as usize;
        let mut awake = ALL_AWAKE;
        self.groups[g].of_threads = self.groups[g].of_threads.wrapping_add_signed(change.here);
        for levels_up in 0.. {
            let of = &mut self.groups[g];
            let part = of.parts.of(queue);
            part.here = part.here.wrapping_add_signed(change.here);
            of.all = of.all.wrapping_add_signed(change.here);
            of.asleep -= part.asleep;
            part.asleep = part.asleep.wrapping_add_signed(change.asleep);
            of.asleep += part.asleep;
            let client = economy.client(part.client);
            if g == ROOT {
                return;
            }
            let (recent, of_all) = (part.recent(), of.all + of.asleep);
            let tickets = share(of.tickets, recent, of_all) as u32;
            let counts = &mut part.counts;
            if part.here > 0
                && (client.tickets != tickets || counts.usable == 0)
                && (is_time || counts.usable == 0 || self.holds && client.precharged_ns == 0)
            {
                if counts.usable == 0 {
                    awake = share(awake, part.here, recent);
                }
                set(economy.on(queue), levels_up, part.client, (tickets, awake));
            }
            // A thread that moves goes on counting in its group.
            let of_all = match (moves, part.here) {
                (true, 0) => of_all.wrapping_add_signed(-change.here),
                _ => of_all,
            };
            let counted = match recent {
                0 => 0,
                _ => share(of.usable, recent, of_all),
            };
            let (usable, asleep) = match part.here {
                0 => (0, counted),
                _ => (counted, 0),
            };
            let parent = of.parent;
            let there = self.asleep(parent, queue);
            let counts = &mut self.groups[g].parts.of(queue).counts;
            change = change_of(counts, usable, asleep, there, self.periods);
            g = parent;
        }
    }

    /// What sleeping clients count in a part.
    fn asleep(&self, group: usize, queue: usize) -> u64 {
        self.part(group, queue).map_or(0, |part| part.asleep)
    }

    /// What changes in a part of `group` when a thread in it counts so many tickets, and so many while it sleeps.
    fn count_in(
        &self,
        group: u32,
        queue: usize,
        thread: &mut Counts,
        usable: u64,
        asleep: u64,
    ) -> Change {
        let there = self.asleep(group as usize, queue);
        change_of(thread, usable, asleep, there, self.periods)
    }

    /// Takes a waiting leaf of `group`, which can use so many tickets, off a queue. Its groups' parts keep their passes.
    pub fn take(
        &mut self,
        economy: &mut Economy,
        group: u32,
        queue: usize,
        leaf: u32,
        thread: &mut Counts,
    ) -> Passes {
        economy.on(queue).take(leaf);
        let change = self.count_in(group, queue, thread, 0, 0);
        self.count(
            economy,
            (group, queue),
            change,
            (true, true),
            |economy, _, client, (tickets, _)| {
                let pass = economy.client(client).pass;
                economy.set_share(client, tickets, pass);
            },
        );
        let mut passes = Vec::new();
        for g in self.line(group as usize) {
            let part = self.part(g, queue).expect("the leaf was in it");
            let pass = economy.client(part.client).pass;
            passes.push(pass.wrapping_sub(self.offset(g, queue)));
        }
        Passes(passes)
    }

    /// It comes to another queue, where its groups' parts move towards where they were there. It is to join next.
    pub fn come(
        &mut self,
        economy: &mut Economy,
        group: u32,
        queue: usize,
        thread: &mut Counts,
        usable: u64,
        left: &Passes,
    ) {
        let mut left = left.0.clone();
        let line: Vec<usize> = self.line(group as usize).collect();
        for &g in &line {
            self.set_offset(economy, g, queue);
        }
        for (level, g) in line.into_iter().enumerate().filter(|&(_, g)| g != ROOT) {
            left[level] = left[level].wrapping_add(self.offset(g, queue));
        }
        let change = self.count_in(group, queue, thread, usable, 0);
        self.count(
            economy,
            (group, queue),
            change,
            (true, true),
            |economy, levels_up, client, (tickets, awake)| {
                let c = *economy.client(client);
                let vnow = economy.client(c.parent).vnow;
                let (pass, before) = match c.state & ACTIVE {
                    0 if is_before(c.pass, vnow) => (vnow, 0),
                    0 => (c.pass, 0),
                    _ => (c.pass, c.tickets),
                };
                let more = u64::from(tickets.saturating_sub(before)) * awake / ALL_AWAKE;
                let pass = merged(pass, u64::from(tickets) - more, left[levels_up], more);
                economy.set_share(client, tickets, pass);
            },
        );
    }

    /// A thread of `group` was charged on a queue: so much service, and what it was charged in advance.
    pub fn charged(&mut self, economy: &mut Economy, group: u32, queue: usize, ns: i64) {
        if !self.holds {
            return;
        }
        let line: Vec<usize> = self.line(group as usize).filter(|&g| g != ROOT).collect();
        for g in line {
            let around = self.groups[self.groups[g].parent].price;
            let offset = self.offset(g, queue);
            let of = &mut self.groups[g];
            let part = of.parts.of(queue);
            let by = advance(ns.unsigned_abs(), 1 << DRAW_SHIFT, of.tickets as u32);
            let pass = match of.pass {
                None => economy.client(part.client).pass.wrapping_sub(offset),
                Some(pass) if ns < 0 => pass.wrapping_sub(by),
                Some(pass) => pass.wrapping_add(by),
            };
            of.pass = Some(pass);
            let shift = of.shift.wrapping_sub(part.shifted);
            part.shifted = of.shift;
            let queue = economy.on(queue);
            queue.shift(part.client, shift);
            if part.here == of.all {
                of.pass = Some(queue.client(part.client).pass.wrapping_sub(offset));
            } else {
                let pass = pass.wrapping_add(offset);
                of.strays |= queue.hold(part.client, pass, around, self.bound_ns);
            }
        }
    }

    /// By how much the parts of a group are off its pass in the mean, they are shifted, or it follows them (queues.h).
    fn shift_parts(&mut self, economy: &Economy, g: usize) {
        let of = &self.groups[g];
        let Some(pass) = of.pass.filter(|_| of.strays) else {
            return;
        };
        let clients = (of.parts.iter()).map(|part| (part, economy.client(part.client)));
        let active = clients.filter(|(_, client)| client.state & ACTIVE != 0);
        let (mut sum, mut tickets, mut can_use) = (0_u64, 0, false);
        for (part, client) in active {
            let offset = self.offset(g, part.queue);
            // With the shift that it has not got yet, not having been charged since.
            let shift = of.shift.wrapping_sub(part.shifted);
            let part_pass = client.pass.wrapping_sub(offset).wrapping_add(shift);
            sum = sum.wrapping_add(off_of(pass, part_pass, client.tickets));
            tickets += u64::from(client.tickets);
            can_use |= client.state & BEHIND == 0;
        }
        let of = &mut self.groups[g];
        of.strays = false;
        let off = off(sum, tickets);
        if can_use {
            of.shift = of.shift.wrapping_sub(off as u64);
        } else if off > 0 {
            of.pass = Some(pass.wrapping_add_signed(off));
        }
    }

    /// Looks at the clocks of a group's parts in which threads are, so many ns after the last time.
    fn look_at_clocks(&mut self, economy: &Economy, g: usize, ns: u64) {
        let bound_ns = self.bound_ns;
        let group = &mut self.groups[g];
        let mut parts: Vec<&mut Part> = (group.parts.iter_mut())
            .filter(|part| economy.client(part.client).active > 0)
            .collect();
        let clocks = parts.iter().map(|part| part.clock(economy));
        let order = |a: &u64, b: &u64| (a.wrapping_sub(*b) as i64).cmp(&0);
        let (Some(slowest), Some(fastest)) = (clocks.clone().min_by(order), clocks.max_by(order))
        else {
            return;
        };
        group.clock = group_clock(group.clock, ns, group.price, slowest, fastest);
        for part in &mut parts {
            part.look_at_clock(economy, group.clock, bound_ns, group.price);
        }
        group.fastest = fastest.wrapping_sub(excess(fastest, group.clock, bound_ns, group.price));
    }

    /// On how many CPUs a group's threads can be at once. The group around it is told.
    fn renew_width(&mut self, g: usize, forgets: bool) {
        let of = &mut self.groups[g];
        let inner = std::mem::take(&mut of.inner);
        let reach = of.reach | of.former_reach;
        // Of machines with more CPUs, each bit is for several.
        let cpus = (0..64).filter(|cpu| reach >> cpu & 1 != 0);
        let cpus = cpus.map(|cpu| (self.cpus + 63 - cpu) / 64).sum();
        let free = of.own.free + inner.free;
        let bound = (of.own.bound + inner.bound).min(cpus);
        of.widest = widest(of.widest, free + bound);
        if forgets {
            of.former_reach = std::mem::take(&mut of.reach);
        }
        if g != ROOT {
            let parent = of.parent;
            let around = &mut self.groups[parent];
            around.inner.free += free;
            around.inner.bound += bound;
            around.reach |= reach;
        }
    }

    /// What sleeping threads count fades.
    fn fade(&mut self, g: usize) {
        let of = &mut self.groups[g];
        for part in of.parts.iter_mut() {
            let by = faded(part.asleep);
            part.asleep -= by;
            of.asleep -= by;
        }
    }

    /// Computes the prices anew, from the root down, and looks at all clocks, so many ns after the last time.
    pub fn renew(&mut self, economy: &Economy, ns: u64) {
        self.periods += 1;
        let forgets = u64::from(self.periods).is_multiple_of(REACH_PERIODS);
        for g in 0..self.groups.len() {
            self.fade(g);
            self.shift_parts(economy, g);
            self.renew_width(g, forgets);
            let parent = self.groups[g].parent;
            let (price_around, cpus_around) = (self.groups[parent].price, self.groups[parent].cpus);
            let of = &mut self.groups[g];
            if g == ROOT {
                of.cpus = self.cpus * CPU;
            } else {
                let width = width(of.widest);
                of.usable = usable(of.tickets, width, price_around, cpus_around);
                of.cpus = entitled(of.usable, width, price_around, cpus_around);
            }
            of.price = price(of.of_threads + std::mem::take(&mut of.of_groups), of.cpus);
            if of.all > 0 {
                let usable = of.usable;
                self.groups[parent].of_groups += usable;
            }
            self.look_at_clocks(economy, g, ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tombola_core::Rules;

    /// Users in currencies, each on a queue of its own, until the pool is full; one of them has a thread.
    #[test]
    fn parts_without_threads_make_room() {
        let queues = 4000;
        let mut economy = Economy::with_queues(Rules::stride(1_000_000), queues);
        let mut groups = Groups::new(&mut economy, queues, queues as u64, 10_000_000);
        let user = groups.add(0, 100);
        let mut in_use = groups.add(user, 100);
        let part = groups.client(&mut economy, in_use, 1);
        let thread = economy.on(1).new_client(Kind::Thread, part, 100);
        let room = |economy: &Economy| CLIENTS - 1 - economy.counters().used;
        let mut others = Vec::new();
        while room(&economy) > DEPTH {
            others.push(groups.add(in_use, 100));
            for queue in 0..queues.min((room(&economy) / DEPTH) as usize + 1) {
                groups.client(&mut economy, others[others.len() - 1], queue);
            }
        }
        groups.make_room(&mut economy);
        // The roots of each queue, the thread, its currency and its user.
        assert_eq!(economy.counters().used, 3 * queues as u32 + 3);
        assert!(economy.exists(thread.expect("there was room")));
        while in_use != 0 {
            assert!(groups.part(in_use as usize, 1).is_some());
            assert_eq!(groups.groups[in_use as usize].parts.iter().len(), 1);
            in_use = groups.groups[in_use as usize].parent as u32;
        }
        assert!(
            others
                .iter()
                .all(|&other| groups.groups[other as usize].parts.iter().len() == 0)
        );
        // They come again when they are needed.
        let again = groups.client(&mut economy, others[0], 2);
        assert!(economy.exists(again));
    }
}
