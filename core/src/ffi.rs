//! The interface to C: its structures, and the only `unsafe` of this crate.
//!
//! C masks every index and bounds every loop, so a call is memory-safe whatever its arguments; the safe functions in `lib.rs`
//! check the economy's own preconditions.

use crate::limits::{CLIENTS, PASSED_MAX};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

/// A node of the tree: `struct tb_client`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Service per ticket so far, ns * 2^16, wrapping.
    pub pass: u64,
    /// The virtual deadline that orders it.
    pub key: u64,
    /// CPUs that it, or any client waiting below it, may run on; bit = cpu mod 64.
    pub mask: u64,
    /// Its currency.
    pub parent: u32,
    /// Its tickets in that currency.
    pub tickets: u32,
    /// The smallest pass of its subtree in the currency's order.
    pub low_pass: u64,
    /// The union of the masks of its subtree.
    pub low_mask: u64,
    /// Its children in the tree of the order.
    pub child: [u32; 2],
    /// Its parent in that tree; of an unused client, the next unused one.
    pub up: u32,
    /// The height of its subtree.
    pub height: u8,
    /// [`ACTIVE`], [`QUEUED`] and [`BEHIND`].
    pub state: u8,
    /// A [`crate::Kind`], or 0 if unused.
    pub kind: u8,
    /// While it is [`BEHIND`]: when its lag was last halved.
    pub epoch: u8,
    /// As a currency: the mean pass of the clients that count, weighted by tickets, rounded down. As a leaf: to which leaf it
    /// lends, and in the upper half the first of its lenders.
    pub vnow: u64,
    /// As a currency: the remainder of the division by `weight`. As a leaf: since when it waits, ns.
    pub sum: u64,
    /// As a currency: service per ticket of the clients that count. As a leaf: the next newer one of the waiting leaves.
    pub served: u64,
    /// As a leaf: the next older one of the waiting leaves.
    pub older: u32,
    /// Tickets of the clients that count in `vnow`. As a leaf: the next lender to the same leaf.
    pub weight: u32,
    /// Tickets of active clients that do not count. As a leaf: how many accounts its lenders have together.
    pub behind: u32,
    /// The root of the order of its clients, 0 if none waits.
    pub root: u32,
    /// How many clients are active.
    pub active: u32,
    /// While it runs, the smallest distance of its pass to its currency's `served`; while it waits, by how much that distance
    /// had grown; while it is inactive, its lag when it left, ns.
    pub level: u64,
    /// Charged in advance to it, for its own run or for those of leaves below it, ns.
    pub precharged_ns: u64,
    /// Service received so far, ns.
    pub used_ns: u64,
    /// The part of it since its creation or last move, and what it has inherited since, ns.
    pub young_ns: u64,
}

/// In [`Client::state`]: runnable, or a currency with a runnable client.
pub const ACTIVE: u8 = 1;
/// In [`Client::state`]: waiting, or a currency with a waiting client.
pub const QUEUED: u8 = 2;
/// In [`Client::state`]: active, but unable to use its tickets, and not counted in its currency's vnow.
pub const BEHIND: u8 = 4;

/// The rules that a host sets: `struct tb_rules`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The expected use of a run, and the request behind a deadline, ns.
    pub quantum_ns: u64,
    /// The bound on lag, in the client's service, where a client joins, leaves or changes, ns; below 2^29.
    pub lag_ns: u64,
    /// The largest lag with which a client returns, unless it left with a larger one, ns.
    pub credit_ns: u64,
    /// With a larger lag, ns, a client is behind: it cannot use its tickets, and does not count in vnow.
    pub behind_ns: u64,
    /// How much of the beginning of a slice is protected from waking clients, ns.
    pub protect_ns: u64,
    /// 0: stride; 1: lottery.
    pub lottery: u32,
}

/// One settlement of a leaf's run: `struct tb_bill`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Bill {
    /// Run since the last settlement, ns.
    pub used_ns: u64,
    /// Charged in advance by the pick, ns; to be undone.
    pub precharge_ns: u64,
    /// To be charged in advance for the next run, ns.
    pub next_ns: u64,
    /// Lottery: at least 32 random bits.
    pub seed: u64,
}

/// A run of a leaf: `struct tb_run`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Time since its last settlement, ns.
    pub ran_ns: u64,
    /// What was charged in advance, ns.
    pub precharge_ns: u64,
    /// Not 0: this leaf woke the client that wakes up.
    pub woke: u64,
}

/// What a client of several queues counts in the part around it: `struct tb_counts`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Its usable tickets, while it is runnable.
    pub usable: u64,
    /// While it sleeps, those that it fell asleep with.
    pub slept: u64,
    /// In which period it did.
    pub since: u32,
    unused: u32,
}

/// `struct tb_pool`.
#[repr(C)]
pub(crate) struct Pool {
    pub free: u32,
    pub used: u32,
    pub fresh: u32,
    pub client: [Client; CLIENTS as usize],
}

/// `struct tb_queue`.
#[repr(C)]
pub(crate) struct Queue {
    pub base: u32,
    pub oldest: u32,
    pub newest: u32,
    pub waiting: u32,
    pub behind: u32,
    pub bound_leaves: u32,
    pub passed_mask: [u64; PASSED_MAX as usize],
    pub passed_over: [u32; PASSED_MAX as usize],
    pub passed: u32,
    pub after_all: u32,
    pub picked: u32,
    pub epoch: u8,
    pub bound: [u16; 64],
    pub contested: u64,
    pub movable: u64,
    pub clamped: u64,
    pub charge_also: u32,
    pub bill: Bill,
    pub pool: *mut Pool,
}

impl Pool {
    /// 38 megabytes of zeroes, which never pass over the stack.
    pub(crate) fn boxed() -> Box<Self> {
        let layout = Layout::new::<Self>();
        // SAFETY: the layout is not empty; all-zero bytes are a valid Pool, which holds integers only; the box frees
        // with the same layout and allocator.
        unsafe {
            let pool = alloc_zeroed(layout).cast::<Self>();
            if pool.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(pool)
        }
    }
}

impl Queue {
    /// All zeroes.
    pub(crate) fn empty() -> Self {
        // SAFETY: all-zero bytes are a valid Queue, which holds integers and a pointer.
        unsafe { std::mem::zeroed() }
    }
}

// SAFETY: the pointer is set before each call of C, which alone follows it (Economy::on).
unsafe impl Send for Queue {}
// SAFETY: the same; a shared Queue is never given to C.
unsafe impl Sync for Queue {}

/// Declares C's functions and a safe function of the same name for each.
macro_rules! c_functions {
    ($($(#[$meta:meta])* $symbol:literal $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        mod c {
            use super::{Bill, Counts, Queue, Rules, Run};
            unsafe extern "C" {
                $($(#[$meta])* #[link_name = $symbol] pub fn $name($($arg: $type),*) $(-> $result)?;)*
            }
        }
        $($(#[$meta])* pub(crate) fn $name($($arg: $type),*) $(-> $result)? {
            // SAFETY: C keeps no pointer, masks indices and reads only what the references cover.
            unsafe { c::$name($($arg),*) }
        })*
    };
}

c_functions! {
    "tombola_advance" advance(used_ns: u64, draw: u64, tickets: u64) -> u64;
    "tombola_returned_ns" returned_ns(service_ns: u64) -> u64;
    "tombola_draw_exp" draw_exp(r: u32) -> u64;
    "tombola_mix" mix(seed: u64, counter: u32) -> u32;
    "tombola_log2_table" log2_table(i: u32) -> u32;
    "tombola_queue_init" queue_init(q: &mut Queue, floor: u32) -> u32;
    "tombola_new" new(q: &mut Queue, kind: u32, parent: u32, tickets: u32) -> u32;
    "tombola_free" free(q: &mut Queue, i: u32) -> u32;
    "tombola_join" join(q: &mut Queue, r: &Rules, i: u32, mask: u64) -> u32;
    "tombola_leave" leave(q: &mut Queue, r: &Rules, i: u32) -> u32;
    "tombola_wait" wait(q: &mut Queue, r: &Rules, i: u32, mask: u64, now: u64) -> u32;
    "tombola_withdraw" withdraw(q: &mut Queue, i: u32) -> u32;
    "tombola_charge" charge(q: &mut Queue, r: &Rules, i: u32, bill: &Bill) -> u32;
    "tombola_pick" pick(q: &mut Queue, r: &Rules, mask: u64) -> u32;
    "tombola_runs" runs(q: &mut Queue, leaf: u32, mask: u64) -> u32;
    "tombola_overdue" overdue(q: &mut Queue, now: u64, patience_ns: u64, mask: u64) -> u32;
    "tombola_meet" meet(q: &mut Queue, a: u32, b: u32) -> u64;
    "tombola_keeps" keeps(q: &mut Queue, r: &Rules, held: u32, best: u32) -> u32;
    "tombola_starves" starves(q: &mut Queue, r: &Rules, leaf: u32) -> u32;
    "tombola_crowd" crowd(q: &mut Queue, mask: u64) -> u32;
    "tombola_is_crowded" is_crowded(here: u32, there: u32) -> u32;
    "tombola_crossing_ns" crossing_ns(q: &mut Queue, r: &Rules, waking: u32, runner: u32, run: &Run) -> u64;
    "tombola_pick_account" pick_account(q: &mut Queue, r: &Rules, mask: u64) -> u32;
    "tombola_borrower" borrower(q: &mut Queue, i: u32) -> u32;
    "tombola_next_account" next_account(q: &mut Queue, thread: u32, i: u32) -> u32;
    "tombola_best_account" best_account(q: &mut Queue, r: &Rules, thread: u32) -> u32;
    "tombola_base_value" base_value(q: &mut Queue, i: u32) -> u64;
    "tombola_join_accounts" join_accounts(q: &mut Queue, r: &Rules, thread: u32, mask: u64, waker: u32) -> u32;
    "tombola_wait_accounts" wait_accounts(q: &mut Queue, r: &Rules, thread: u32, mask: u64, now: u64) -> u32;
    "tombola_withdraw_accounts" withdraw_accounts(q: &mut Queue, r: &Rules, thread: u32) -> u32;
    "tombola_leave_accounts" leave_accounts(q: &mut Queue, r: &Rules, thread: u32) -> u32;
    "tombola_lend" lend(q: &mut Queue, r: &Rules, lender: u32, to: u32, now: u64) -> u32;
    "tombola_reclaim" reclaim(q: &mut Queue, r: &Rules, lender: u32) -> u32;
    "tombola_merge" merge(q: &mut Queue, r: &Rules, account: u32, lender: u32, most: u32) -> u32;
    "tombola_set_pass" set_pass(q: &mut Queue, r: &Rules, i: u32, pass: u64) -> u32;
    "tombola_set_tickets" set_tickets(q: &mut Queue, r: &Rules, i: u32, tickets: u32) -> u32;
    "tombola_move" move_to(q: &mut Queue, r: &Rules, i: u32, parent: u32) -> u32;
    "tombola_child_of" child_of(q: &mut Queue, parent: u32, i: u32) -> u32;
    "tombola_fork" fork(q: &mut Queue, child: u32, forker: u32, run: &Run) -> u32;
    "tombola_charge_heir" charge_heir(q: &mut Queue, r: &Rules, i: u32, heir: u32, forked_ns: u64) -> u32;
    "tombola_frozen" frozen(q: &mut Queue, i: u32) -> u32;
    "tombola_share" share(tickets: u64, here: u64, all: u64) -> u64;
    "tombola_usable" usable(tickets: u64, width: u64, price: u64, cpus: u64) -> u64;
    "tombola_price" price(active: u64, cpus: u64) -> u64;
    "tombola_entitled" entitled(usable: u64, width: u64, price: u64, cpus: u64) -> u64;
    "tombola_held_within" held_within(r: &Rules, price: u64, tickets: u64, bound_ns: u64) -> u64;
    "tombola_hold" hold(q: &mut Queue, r: &Rules, i: u32, group_pass: u64, within: u64) -> u32;
    "tombola_shift" shift(q: &mut Queue, r: &Rules, i: u32, by: u64);
    "tombola_off_of" off_of(group_pass: u64, pass: u64, tickets: u64) -> u64;
    "tombola_off" off(sum: u64, tickets: u64) -> u64;
    "tombola_faded" faded(asleep: u64) -> u64;
    "tombola_count" count(c: &mut Counts, usable: u64, asleep: u64, there: u64, period: u32) -> u64;
    "tombola_widest" widest(former: u64, width: u64) -> u64;
    "tombola_width" width(widest: u64) -> u64;
    "tombola_excess" excess(clock: u64, of_group: u64, bound_ns: u64, price: u64) -> u64;
    "tombola_group_clock" group_clock(former: u64, ns: u64, price: u64, slowest: u64, fastest: u64) -> u64;
    "tombola_lead_ns" lead_ns(own: u64, other: u64, mean_load: u64) -> u64;
    "tombola_gap" gap(load: u64, other: u64, cpus: u64, mean_load: u64, lead_ns: u64) -> u64;
    "tombola_next_look" next_look(now: u64, bound_ns: u64, seed: u64) -> u64;
    "tombola_ahead" ahead(lead_ns: u64, gap: u64, bound_ns: u64) -> u64;
    "tombola_is_far" is_far(lead_ns: u64, bound_ns: u64) -> u32;
    "tombola_may_move" may_move(gap: u64, v: u64, is_far: u32) -> u32;
    "tombola_fits_better" fits_better(gap: u64, v: u64, best: u64) -> u32;
    "tombola_waking_place" waking_place(may_run_here: u32, idle_here: u32, idle_elsewhere: u32, is_new: u32) -> u32;
    "tombola_pulls_from" pulls_from(waiting: u32, load: u64, best: u64) -> u32;
    "tombola_mqs_load" mqs_load(waiting: u64, running: u64, cpus: u64) -> u64;
    "tombola_mqs_neighbour" mqs_neighbour(i: u32, n: u32, k: u32) -> u32;
    "tombola_mqs_push" mqs_push(own: u64, first: u64, second: u64, third: u64) -> u32;
    "tombola_merged" merged(pass: u64, tickets: u64, from: u64, more: u64) -> u64;
    "tombola_neighbour" neighbour(i: u32, n: u32, k: u32) -> u32;
    "tombola_set_share" set_share(q: &mut Queue, r: &Rules, i: u32, tickets: u32, pass: u64) -> u32;
    "tombola_take" take(q: &mut Queue, r: &Rules, leaf: u32) -> u32;
    "tombola_put" put(q: &mut Queue, i: u32, parent: u32, offset: u64) -> u32;
    "tombola_start_at" start_at(q: &mut Queue, currency: u32, vnow: u64);
    #[cfg(test)]
    "tombola_limit" limit(which: u32) -> u64;
    #[cfg(test)]
    "tombola_layout" layout(which: u32) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits;
    use std::mem::{offset_of, size_of};

    #[test]
    fn limits_are_those_of_c() {
        for (which, &limit) in (0..).zip(&limits::ALL) {
            assert_eq!(
                limit,
                super::limit(which),
                "limit {which} of limits.rs differs from native.c's"
            );
        }
        assert_eq!(
            0,
            super::limit(limits::ALL.len() as u32),
            "native.c has a limit that limits.rs lacks"
        );
    }

    #[test]
    fn structures_are_laid_out_as_in_c() {
        macro_rules! layout {
            ($type:ty: $($field:ident)*) => { [size_of::<$type>(), $(offset_of!($type, $field)),*] };
        }
        let client = layout!(Client: pass key mask parent tickets low_pass low_mask child up height state kind epoch
            vnow sum served older weight behind root active level precharged_ns used_ns young_ns);
        let pool = layout!(Pool: free used fresh client);
        let queue = layout!(Queue: base oldest newest waiting behind bound_leaves passed_mask passed_over passed
            after_all picked epoch
            bound contested movable clamped charge_also bill pool);
        let rules = layout!(Rules: quantum_ns lag_ns credit_ns behind_ns protect_ns lottery);
        let bill = layout!(Bill: used_ns precharge_ns next_ns seed);
        let run = layout!(Run: ran_ns precharge_ns woke);
        let counts = layout!(Counts: usable slept since);
        let all = client
            .iter()
            .chain(&pool)
            .chain(&queue)
            .chain(&rules)
            .chain(&bill)
            .chain(&run)
            .chain(&counts);
        let mut count = 0;
        for &ours in all {
            assert_eq!(ours as u64, layout(count), "item {count} of the layout");
            count += 1;
        }
        assert_eq!(u64::MAX, layout(count), "C lists more fields than Rust");
    }
}
