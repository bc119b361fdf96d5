//! Several run queues: how many tickets count on each, and which client goes from one to another (`queues.h`).

use crate::ffi;
pub use crate::ffi::Counts;
use crate::limits::PLACES;
pub use crate::limits::{CPU, MQS_TICK_NS, MQS_WAIT_NS, PARTNERS, PRICE_MAX, SHARE_SCALE as SCALE};

/// The tickets of a group that count on one queue, where `here` of its `all` active tickets are. At least 1.
#[must_use]
pub fn share(tickets: u64, here: u64, all: u64) -> u64 {
    ffi::share(tickets, here, all)
}

/// As many of these tickets as can be used on `width` CPUs in a group that is entitled to `cpus`, in parts of [`CPU`], at this
/// price.
#[must_use]
pub fn usable(tickets: u64, width: u64, price: u64, cpus: u64) -> u64 {
    ffi::usable(tickets, width, price, cpus)
}

/// The CPUs to which a group with so many usable tickets is entitled, in a group with this price that is entitled to `cpus`.
#[must_use]
pub fn entitled(usable: u64, width: u64, price: u64, cpus: u64) -> u64 {
    ffi::entitled(usable, width, price, cpus)
}

/// The price of a group that is entitled to `cpus`: its tickets for each. Its runnable clients have `active` usable tickets.
#[must_use]
pub fn price(active: u64, cpus: u64) -> u64 {
    ffi::price(active, cpus)
}

/// How far a part with these tickets is ahead of its group's pass; wrapped if it is behind. To be added up for [`off`].
#[must_use]
pub fn off_of(group_pass: u64, pass: u64, tickets: u32) -> u64 {
    ffi::off_of(group_pass, pass, u64::from(tickets))
}

/// By how much the active parts of a group are ahead of its pass in the mean by tickets; negative if they are behind.
#[must_use]
pub fn off(sum: u64, tickets: u64) -> i64 {
    ffi::off(sum, tickets) as i64
}

/// By how much the tickets fade in a period that the sleeping clients of a part count.
#[must_use]
pub fn faded(asleep: u64) -> u64 {
    ffi::faded(asleep)
}

impl Counts {
    /// A client counts so many usable tickets from this period on; or none, and falls asleep with some, or has left (0). Returns
    /// what that adds to those of the sleeping clients around it, `there` until now.
    pub fn change(&mut self, usable: u64, asleep: u64, there: u64, period: u32) -> i64 {
        ffi::count(self, usable, asleep, there, period) as i64
    }
}

/// On how many CPUs, in parts of [`CPU`], a group could be at once lately, from that of the last period and its width now.
#[must_use]
pub fn widest(former: u64, width: u64) -> u64 {
    ffi::widest(former, width)
}

/// A group's width, in whole CPUs, by what was its widest of late.
#[must_use]
pub fn width(widest: u64) -> u64 {
    ffi::width(widest)
}

/// A group's clock, so many ns after it was `former`: the fastest of its parts', unless that runs away from the group's price.
#[must_use]
pub fn group_clock(former: u64, ns: u64, price: u64, slowest: u64, fastest: u64) -> u64 {
    ffi::group_clock(former, ns, price, slowest, fastest)
}

/// By how much a part's clock is further ahead of its group's than it may be, or behind (negative numbers wrap).
#[must_use]
pub fn excess(clock: u64, of_group: u64, bound_ns: u64, price: u64) -> u64 {
    ffi::excess(clock, of_group, bound_ns, price)
}

/// How far another queue's clock is ahead, in ns of a CPU's service at the mean load; 0 if it is not.
#[must_use]
pub fn lead_ns(own: u64, other: u64, mean_load: u64) -> u64 {
    ffi::lead_ns(own, other, mean_load)
}

/// The tickets, on all of a queue's CPUs, that are to go to another one whose clock is `lead_ns` ahead; 0 if none are.
#[must_use]
pub fn gap(load: u64, other: u64, cpus: u64, mean_load: u64, lead_ns: u64) -> u64 {
    ffi::gap(load, other, cpus, mean_load, lead_ns)
}

/// When a queue looks at others again, after `now`; from one look to the next it takes between 3/8 and a half of the bound.
#[must_use]
pub fn next_look(now: u64, bound_ns: u64, seed: u64) -> u64 {
    ffi::next_look(now, bound_ns, seed)
}

/// `lead_ns`, if a client is to go to the queue that has this lead; 0: none is to.
#[must_use]
pub fn ahead(lead_ns: u64, gap: u64, bound_ns: u64) -> u64 {
    ffi::ahead(lead_ns, gap, bound_ns)
}

/// Where a waking client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On its own queue.
    Own,
    /// On a queue with an idle CPU.
    Idle,
    /// On the queue with the least load among its own one and the neighbours.
    Least,
}

/// Where a waking client waits; the first three say whether there is a CPU, and an idle one, on which it may run.
#[must_use]
pub fn waking_place(
    may_run_here: bool,
    idle_here: bool,
    idle_elsewhere: bool,
    is_new: bool,
) -> Place {
    let [here, idle, elsewhere, new] =
        [may_run_here, idle_here, idle_elsewhere, is_new].map(u32::from);
    let [_, to_idle, to_least] = PLACES;
    match ffi::waking_place(here, idle, elsewhere, new) {
        place if place == to_idle => Place::Idle,
        place if place == to_least => Place::Least,
        _ => Place::Own,
    }
}

/// Does a CPU that would idle take a client from a queue with this load rather than from one with load `best` (0 at first)?
#[must_use]
pub fn pulls_from(waiting: bool, load: u64, best: u64) -> bool {
    ffi::pulls_from(u32::from(waiting), load, best) != 0
}

/// A queue's load in MQS's rule.
#[must_use]
pub fn mqs_load(waiting: u64, running: u64, cpus: u64) -> u64 {
    ffi::mqs_load(waiting, running, cpus)
}

/// The three neighbours of queue `i` of `n` in MQS's rule; `i` itself stands for one that does not exist.
#[must_use]
pub fn mqs_neighbours(i: u32, n: u32) -> [u32; 3] {
    [0, 1, 2].map(|k| ffi::mqs_neighbour(i, n, k))
}

/// The number of the neighbour that gets a client by MQS's rule, from the loads of the queue and of its neighbours.
#[must_use]
pub fn mqs_push(own: u64, neighbours: [u64; 3]) -> Option<usize> {
    let [first, second, third] = neighbours;
    let to = ffi::mqs_push(own, first, second, third) as usize;
    (to < neighbours.len()).then_some(to)
}

/// Is its lead so large that a client moves although it does not fit ([`may_move`])?
#[must_use]
pub fn is_far(lead_ns: u64, bound_ns: u64) -> bool {
    ffi::is_far(lead_ns, bound_ns) != 0
}

/// Is a bound leaf better off where so many others are bound to its CPUs ([`crate::Economy::crowd`])?
#[must_use]
pub fn is_crowded(here: u32, there: u32) -> bool {
    ffi::is_crowded(here, there) != 0
}

/// May a client worth `v` move, or had a smaller one better wait first?
#[must_use]
pub fn may_move(gap: u64, v: u64, is_far: bool) -> bool {
    ffi::may_move(gap, v, u32::from(is_far)) != 0
}

/// Does a client worth `v` fit the gap between two queues better than one worth `best`? 0 stands for none.
#[must_use]
pub fn fits_better(gap: u64, v: u64, best: u64) -> bool {
    ffi::fits_better(gap, v, best) != 0
}

/// The pass of a part with `tickets` at `pass` after `more` tickets have come from a part at `from`.
#[must_use]
pub fn merged(pass: u64, tickets: u64, from: u64, more: u64) -> u64 {
    ffi::merged(pass, tickets, from, more)
}

/// The neighbours of queue `i` of `n`; the same one may come twice.
pub fn neighbours(i: u32, n: u32) -> impl Iterator<Item = u32> {
    (0..4)
        .map(move |k| ffi::neighbour(i, n, k))
        .filter(move |&other| other != i)
}
