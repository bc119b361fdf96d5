/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several run queues: how many tickets count on each, and which client goes from one to another.
 *
 * Each queue has a tree of its own (economy.h), whose leaves are the threads that wait and run there. A group is a user, a
 * currency or a process with several threads. It has one client in the tree of each queue on which it has threads: its part
 * there. (The kernel's fair class divides a task_group among CPUs in the same way.)
 *
 *   alice, 3000 tickets ─┬─ part on queue 0, 3000 x 200/300 = 2000 ─┬─ thread (100)
 *                        │                                          └─ thread (100)
 *                        └─ part on queue 1, 3000 x 100/300 = 1000 ─── thread (100)
 *
 * Tickets of a part (tb_share). A group's tickets count on each queue in proportion to the usable tickets of what is runnable in
 * it there, or fell asleep a short time ago: a sleeping thread's tickets fade (tb_faded). If they counted on the other queues at
 * once, a user would gain by naps. The part where the thread sleeps keeps what it is behind, and gets it after the nap, and the
 * user's threads elsewhere would have had all of the user's tickets meanwhile. A part's tickets follow when a slice begins or
 * ends in it, or while none of its threads runs; not whenever a thread of the group wakes up, is forked or exits. What runs at
 * that moment was not charged yet, and would be divided by the new tickets: a chain of forks, of which there are two threads
 * whenever one exits, got seven sixths of its due on two queues.
 *
 * The group's pass (tb_hold). A group also has one pass for all queues, which advances by what is charged to any of its parts, by
 * all of its tickets. So the group gets its due on all queues together, whatever its parts lose or gain when their tickets
 * change: if they are ahead of it or behind it in the mean, all are shifted (tb_off). And a part's pass is held near it. While
 * all queues' clocks advance alike, so do the passes of all parts, and nothing is held. But where threads are bound to the CPUs
 * of a slow queue, its clock falls back for good, whatever else moves. Then the parts there of groups that also have threads
 * elsewhere would run by that slow clock. Held, they leave these CPUs to those that have no others, and their groups get the rest
 * of their due where the clocks are fast: max-min fairness. Queues of one CPU hold none: many users would be alone on a queue,
 * and their held passes be its clock, which must tell how loaded it is. Nor is a part held that has all of its group's runnable
 * threads: the group's pass follows it. Held, a process with several threads would lose what it is owed when a clock forgets
 * (below), and a thread beside it would not.
 *
 * Usable tickets (tb_price, tb_usable). A thread uses at most one CPU, and a group at most as many as its runnable threads can
 * have at once: its width. Within a queue the economy handles tickets beyond that, so the tree has them all. But they would make
 * a queue seem busier than it is, and draw tickets away from the group's other parts. So in loads and in shares, tickets are
 * capped at what they can buy.
 * A group's price is the tickets for each CPU that the group is entitled to. Each period the prices are computed from the usable
 * tickets of the last one, from base down. That is water-filling by iteration: it converges by the ratio of what capped clients
 * can use to the group's CPUs.
 *
 * Clock rule (tb_ahead). Passes are absolute: best effort's vnow is each queue's clock, and clocks of different queues can be
 * compared. It advances by 1 / load, load being the queue's usable tickets for each of its CPUs. So the difference of two clocks
 * is the service that clients of the slow queue are behind those of the fast one, per ticket. When it exceeds a bound, one
 * waiting thread moves from the slow queue to the fast one, if that also has less load, or hardly more (tb_gap). It keeps its
 * pass, so the difference is its credit there; and of its groups' parts as much moves as it holds tickets (tb_merged). The
 * tickets of sleeping threads on the other queue get no such credit: a thread of a few tickets that went to and fro, from where
 * it had half of its group's to where another thread slept, had half as much again as is due. Only queues are considered where
 * one of the waiting threads may run.
 *
 * What is forgotten (tb_excess). A client of one ticket that is for some milliseconds the only one on its queue advances vnow
 * by as much as others do in minutes. Clocks that remembered this would be of no use: nobody would leave that queue until the
 * others had caught up, and whoever came would be that much behind and keep its CPUs from those that were there. So a clock is
 * vnow less an offset, which changes whenever the clock is too far from that of the machine (tb_group_clock) when a period
 * ends. A queue that was idle joins with the fastest clock. And a pass that goes from one queue to another is compared with
 * both clocks (tb_put). The same holds for the vnows of all parts of a group: their offsets keep them near the group's clock.
 * Without, a process of few tickets that was alone in one part of its user put all threads that later came to this part
 * behind, or ahead, of those that were there. These vnows are also looked at when a waiting thread is about to come, as a long
 * slice of that process may just have ended. (Best effort's are not: shares were twice as far off.)
 *
 * What moves (tb_fits_better). Let gap be the tickets that are to go from the slow queue to the fast one (tb_gap). A client of
 * more than gap / 2 turns the imbalance round, so that the clocks meet again. The smallest such client turns it least. If there
 * is none, the largest one reduces it most. Only what waits can move, and on a queue of one CPU a thread with nearly all of the
 * tickets hardly waits. When it is the only one that does, it stays, unless the clocks are far apart (tb_may_move).
 *
 * Bound CPUs (tb_crowd). Clocks and loads are of whole queues, and say nothing of threads that are bound to some CPUs of a queue.
 * Three threads bound to a CPU each of two queues may all be on one of these. So when no thread moves by the clocks, and a
 * waiting bound leaf starves (tb_starves), one that is bound to the same CPU goes to a queue where fewer are bound to its CPUs.
 *
 * Waking up and idling (tb_waking_place, tb_pulls_from). A waking client takes an idle CPU, of its own queue if there is one.
 * Without one, a client stays where it is, and a new one goes to the queue with the least load nearby. A CPU that would idle
 * takes a client that waits elsewhere.
 *
 * MQS (tb_mqs_push). The historic rule, to compare with: a queue gives a client to a neighbour with a quarter less load, whatever
 * their clocks.
 *
 * Bound. Let all clients be busy, none due nearly a whole CPU and none bound to CPUs, on at most TB_PARTNERS queues. Let L be the
 * mean load, w what a client is worth, D the bound on clocks, p the period of looks, q a quantum, l the bound on lag (tb_rules).
 * Service advances passes, and with a pass go the tickets it is of. So the mean of all passes, weighted by worth, advances by
 * what is due, and is among the queues' clocks. The machine's clock is the fastest of these, and at each look none is more than
 * TB_APART_MAX D behind it, nor then from the mean. Until the next look a client receives at most p. On its queue a client is
 * within l + q of the clock on each level. So no client is further from its due, ahead or behind, than
 *
 *   TB_APART_MAX D w / L + p + (l + q) x levels
 *
 * while no clock forgets anything and no lag is cut to l. Both may happen when a queue has nothing but clients of few tickets.
 * hosts/sim/tests/lag.rs plays histories.
 */
#pragma once
#include "economy.h"

/*
 * Tickets are multiplied by 2^TB_SHARE_SHIFT where they are divided among queues, or small ones could not be divided. Usable
 * tickets, prices and loads have TB_USABLE_SHIFT bits more.
 */
#define TB_SHARE_SHIFT 8
#define TB_USABLE_SHIFT 8
/* Prices are between a ticket, which caps all to the same, and this, which caps none. */
#define TB_PRICE_MIN (1ull << (TB_SHARE_SHIFT + TB_USABLE_SHIFT))
#define TB_PRICE_MAX (1ull << 40)
/* One CPU, where CPUs are counted. */
#define TB_CPU (1ull << 20)

/*
 * The tickets of a group that count on one queue: `here` of its `all` active tickets are there. Rounded to the nearest, at least
 * 1.
 */
TB_INLINE u64 tb_share(u64 tickets, u64 here, u64 all)
{
	u64 share = all ? (tickets * here + all / 2) / all : tickets;

	return share ? share : 1;
}

/*
 * By how much the tickets of a part's sleeping clients fade in a period. Of 300 users with a hog for each CPU, beside one whose
 * threads take naps of .1 to 12.8 ms, two lost more than 1 %, up to 2.8 %, where they were gone after a period; with a half none
 * did, but up to .9 %, with a quarter up to .5 %. What has not faded is missing where the group's threads run.
 */
#define TB_ASLEEP_FADE 4

TB_INLINE u64 tb_faded(u64 asleep)
{
	return (asleep + TB_ASLEEP_FADE - 1) / TB_ASLEEP_FADE;
}

/* What is left of tickets that have faded for so many periods. After 64 there are less than 2^-26 of them. */
TB_INLINE u64 tb_not_faded(u64 asleep, u32 periods)
{
	u64 left = 1u << 16, each = (1u << 16) - (1u << 16) / TB_ASLEEP_FADE;

	if (periods >= 64)
		return 0;
	tb_loop(64) {
		if (!periods)
			break;
		if (periods & 1)
			left = left * each >> 16;
		each = each * each >> 16;
		periods >>= 1;
	}
	return asleep * left >> 16;
}

/* What a client, a thread or a group's part, counts in the part around it. */
struct tb_counts {
	u64 usable; /* its usable tickets, while it is runnable; */
	u64 slept;  /* while it sleeps, those that it fell asleep with, */
	u32 since;  /* in this period */
	u32 unused;
};

/*
 * A client counts so many usable tickets from now on; or none, and it falls asleep with some, or has left (0). Returns what that
 * adds to those of the sleeping clients around it, `there` until now.
 */
TB_INLINE u64 tb_count(struct tb_counts *c, u64 usable, u64 asleep, u64 there, u32 period)
{
	u64 left = tb_min(tb_not_faded(c->slept, period - c->since), there);
	u32 sleeps = !usable && asleep;

	if (sleeps && c->slept)
		return 0;
	c->usable = usable;
	c->slept = sleeps ? asleep : 0;
	c->since = period;
	return c->slept - left;
}

/*
 * A group's width: on how many CPUs its runnable threads can be at once. A thread that may run on all CPUs adds one. Those that
 * are bound to some add no more than these are. Where they are does not matter: if two threads of a group that are on a queue of
 * one CPU counted as one, the group could seem to have all that it can use, and neither would leave. To count the threads for
 * each CPU on which they may run would take too long. So a group has a set of such CPUs, the reach of its bound threads. A thread
 * adds its own at each slice, and what is older than TB_REACH_PERIODS periods is forgotten, in the next ones after that. A
 * group's bound threads and reach are told to the group around it.
 *
 * Threads sleep and wake up. So what counts is the largest width of late, which falls by 1/64 each period, in whole CPUs. A group
 * in which no thread is runnable counts with one CPU: it will use that when one becomes runnable.
 */
#define TB_REACH_PERIODS 64
#define TB_WIDTH_FALL 64

TB_INLINE u64 tb_widest(u64 former, u64 width)
{
	return tb_max(width * TB_CPU, former - former / TB_WIDTH_FALL);
}

TB_INLINE u64 tb_width(u64 widest)
{
	return tb_max((widest + TB_CPU - 1) / TB_CPU, 1);
}

/*
 * As many of these tickets as can be used on `width` CPUs in a group that is entitled to `cpus`, each worth `price`. A client
 * that is as wide as the group can use all of them: it is due no more than the group.
 */
TB_INLINE u64 tb_usable(u64 tickets, u64 width, u64 price, u64 cpus)
{
	tickets <<= TB_USABLE_SHIFT;
	return width * TB_CPU < cpus ? tb_min(tickets, width * price) : tickets;
}

/* The CPUs to which a group with these usable tickets and this width is entitled, in a group that is entitled to `cpus`. */
TB_INLINE u64 tb_entitled(u64 usable, u64 width, u64 price, u64 cpus)
{
	return tb_min(usable * TB_CPU / price, tb_min(width * TB_CPU, cpus));
}

/*
 * The price of a group that is entitled to `cpus`, and whose runnable clients have `active` usable tickets, capped by its former
 * price. Where all are capped, the price rises if they are wider together than that, and falls if they are narrower. Rounded up,
 * or it would cap tickets that can be used.
 */
TB_INLINE u64 tb_price(u64 active, u64 cpus)
{
	if (!active || !cpus)
		return TB_PRICE_MAX;
	return tb_min(tb_max((active * TB_CPU + cpus - 1) / cpus, TB_PRICE_MIN), TB_PRICE_MAX);
}

/*
 * A part's pass is held within so many bounds on clocks of its group's, or so many quanta of its own if that is more: twice as
 * many as make a client behind, or a bound leaf in it could not starve (tb_starves).
 */
#define TB_HELD_BOUNDS 4
#define TB_HELD_QUANTA 16

/* What a pass advances by so many ns of a CPU, which is worth `price`: a group's price, or a load. */
TB_INLINE u64 tb_advance_at(u64 ns, u64 price)
{
	return tb_advance(ns, TB_DRAW_ONE, tb_min(tb_max(price >> TB_USABLE_SHIFT, 1), 1ull << 30));
}

/*
 * How far a part with `tickets` may be from its group's pass. `price` is that of the group around it, its tickets for each CPU.
 * Clocks that are bound_ns apart, at that price, are normal, and so are some quanta, by which a part with few tickets is ahead
 * after a single slice.
 */
TB_INLINE u64 tb_held_within(const struct tb_rules *r, u64 price, u64 tickets, u64 bound_ns)
{
	return tb_max(tb_advance_at(TB_HELD_BOUNDS * bound_ns, price),
		      tb_advance(TB_HELD_QUANTA * r->quantum_ns, TB_DRAW_ONE, tickets));
}

/* Set the pass of an active part; not so far from vnow that arithmetic would not fit. */
TB_INLINE u32 tb_put_near(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 pass)
{
	struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);

	pass = tb_bounded_for(pass, p->vnow, c->tickets, TB_AHEAD_MAX_NS, TB_AHEAD_MAX_NS);
	/* The distance to `served` changes, and not by service (tb_level_switch). */
	if (!(c->state & TB_QUEUED))
		c->level -= pass - c->pass;
	return tb_set_pass(q, r, c, pass);
}

/* Shift a part with all parts of its group. */
TB_INLINE void tb_shift(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 by)
{
	if (by && tb_at(q, i)->state & TB_ACTIVE)
		tb_put_near(q, r, i, tb_at(q, i)->pass + by);
}

/*
 * Hold a part, just charged, near its group's pass. A part that cannot use its tickets is not held back: its queue has forgiven
 * what it could not use. 1: the part was too far from the group's pass. Then it is time for tb_off.
 */
TB_INLINE u32 tb_hold(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 group_pass, u64 within)
{
	struct tb_client *c = tb_at(q, i);
	u64 pass = tb_bounded(c->pass, group_pass, within, within);

	if (!(c->state & TB_ACTIVE) || pass == c->pass)
		return 0;
	if (!(c->state & TB_BEHIND) || tb_before(c->pass, pass))
		tb_put_near(q, r, i, pass);
	return 1;
}

/*
 * How far a part is ahead of its group's pass, or behind (negative), in service: to be added up for tb_off. The sum is below
 * 2^60, as all tickets of a group are below 2^22.
 */
#define TB_OFF_MAX (1ull << 38)

TB_INLINE u64 tb_off_of(u64 group_pass, u64 pass, u64 tickets)
{
	return (tb_bounded(pass, group_pass, TB_OFF_MAX, TB_OFF_MAX) - group_pass) * tickets;
}

/*
 * By how much the active parts of a group are ahead of its pass, or behind it (negative), in the mean by tickets. Service
 * advances this mean as it does the group's pass, so the difference is what was lost or gained otherwise: mostly what parts were
 * held. If a part can use its tickets, all are shifted back by that. If none can, the group's pass follows them: what the group
 * could not use is forgiven.
 */
TB_INLINE u64 tb_off(u64 sum, u64 tickets)
{
	if (!tickets)
		return 0;
	return tb_is_negative(sum) ? 0 - (0 - sum) / tickets : sum / tickets;
}

/*
 * A group's clock, with which those of its parts are compared; best effort's is the machine's. It is the fastest of theirs,
 * unless that runs away: it advances at most a little faster, by 1/64, than that of a part would that has the group's price;
 * for best effort, the mean load. If it could fall behind, all parts would be too far ahead in the end, and nobody would know
 * by how much. (Slower ones do not tell: on a queue where one thread needs all of the CPU, the clock falls back, and nobody
 * else is there.)
 */
TB_INLINE u64 tb_group_clock(u64 former, u64 ns, u64 price, u64 slowest, u64 fastest)
{
	u64 clock = former + tb_advance_at(ns + ns / 64, price);

	if (tb_before(clock, slowest))
		return slowest;
	return tb_before(fastest, clock) ? fastest : clock;
}

/* A part's clock is within so many bounds of its group's. With 5, 38 of 200 accounts of random economies were off, with 10 22. */
#define TB_APART_MAX 10

/* By how much a clock is further ahead of the group's than that, or behind (negative): that is forgotten. */
TB_INLINE u64 tb_excess(u64 clock, u64 of_group, u64 bound_ns, u64 price)
{
	u64 most = tb_advance_at(TB_APART_MAX * bound_ns, price);

	return clock - tb_bounded(clock, of_group, most, most);
}

/* How far another queue's clock is ahead, in ns of a CPU's service at the mean load; 0 if it is not. */
TB_INLINE u64 tb_lead_ns(u64 own, u64 other, u64 mean_load)
{
	return tb_before(own, other) ? tb_service_ns(other - own, mean_load >> TB_USABLE_SHIFT) : 0;
}

/* So far apart that a client moves although it does not fit the gap. */
TB_INLINE u32 tb_is_far(u64 lead_ns, u64 bound_ns)
{
	return lead_ns > 3 * bound_ns;
}

/*
 * The tickets, for all CPUs of a queue, that are to go to another one whose clock is lead_ns ahead; 0: none are. They are those
 * by which its load exceeds the other's, and as many more as would bring the clocks together in 2^TB_CLOSE_SHIFT ns. For loads
 * say what clients could use, not what they receive: of two queues with the same load, one may serve its clients less for good.
 */
#define TB_CLOSE_SHIFT 32

TB_INLINE u64 tb_gap(u64 load, u64 other, u64 cpus, u64 mean_load, u64 lead_ns)
{
	/* Below 2^30 x 2^22. */
	load += (mean_load >> 10) * (tb_min(lead_ns, 1ull << TB_CLOSE_SHIFT) >> 10) >> (TB_CLOSE_SHIFT - 20);
	return load > other ? (load - other) * cpus : 0;
}

/*
 * When a queue looks at others again, after `now`: within bound_ns / 2, up to a quarter of that sooner at random. Looks at even
 * intervals would keep step with slices: of two clients that alternate, the same one would wait each time.
 */
TB_INLINE u64 tb_next_look(u64 now, u64 bound_ns, u64 seed)
{
	u64 period_ns = bound_ns / 2;

	return now + period_ns - (period_ns / 4 * (seed & 0xffff) >> 16);
}

/* A queue looks at so many others at a time; on a larger machine at other ones each time. */
#define TB_PARTNERS 64

/*
 * How far another queue's clock is ahead if a client is to go there: by more than the bound, and there is a gap. 0: none is to.
 * The neighbour that is ahead most gets the client. If no neighbour is to get one, the queue does whose clock was fastest of all
 * at the last look; or else the one that is ahead most, of all or of TB_PARTNERS.
 */
TB_INLINE u64 tb_ahead(u64 lead_ns, u64 gap, u64 bound_ns)
{
	return gap && lead_ns > bound_ns ? lead_ns : 0;
}

/* Does a client worth `v` fit the gap between two queues better than one worth `best`? 0 stands for none. */
TB_INLINE u32 tb_fits_better(u64 gap, u64 v, u64 best)
{
	u32 turns = v > gap / 2, best_turns = best > gap / 2;

	if (turns != best_turns || !best)
		return turns || !best;
	return turns ? v < best : v > best;
}

/* A client worth much more than the gap turns the imbalance round by far. It had better wait for one that fits better to wait. */
TB_INLINE u32 tb_may_move(u64 gap, u64 v, u32 is_far)
{
	return v <= 3 * gap || is_far;
}

/* How many bound leaves may run on the CPU of `mask` where fewest may. 0 where a mask has all CPUs of the queue. */
TB_FN u32 tb_crowd(struct tb_queue *q, u64 mask)
{
	u32 least = ~0u;

	tb_loop(64) {
		if (!mask)
			break;
		least = (u32)tb_min(least, q->bound[tb_lowest(mask)]);
		mask &= mask - 1;
	}
	return least;
}

/* Is a bound leaf better off on a queue where this is `there`? It will be one more. */
TB_INLINE u32 tb_is_crowded(u32 here, u32 there)
{
	return there + 1 < here;
}

/* Where a waking client waits: on its own queue, on one with an idle CPU, or on the one with the least load. */
enum { TB_WAKING_OWN, TB_WAKING_IDLE, TB_WAKING_LEAST };

/*
 * `idle_here` and `idle_elsewhere`: a CPU idles on which it may run. A new client has no cache to return to, and neither has one
 * that may run on no CPU of its queue. They go to the queue with the least load of those where they may run, among their own
 * queue and its neighbours, or if there is none, to any queue.
 */
TB_INLINE u32 tb_waking_place(u32 may_run_here, u32 idle_here, u32 idle_elsewhere, u32 is_new)
{
	if (idle_here)
		return TB_WAKING_OWN;
	if (idle_elsewhere)
		return TB_WAKING_IDLE;
	return is_new || !may_run_here ? TB_WAKING_LEAST : TB_WAKING_OWN;
}

/*
 * A CPU would idle. Does it take a client from a queue with this load rather than from one with load `best` (0 at first)? Clients
 * that may run on it must wait there. It looks at its queue's neighbours, and if none has such a client, at all queues.
 */
TB_INLINE u32 tb_pulls_from(u32 waiting, u64 load, u64 best)
{
	return waiting && load >= best;
}

/*
 * MQS, Plan 9's scheduler with a queue for each CPU (mqs-nix, bf80a24, port/proc.c). At each tick of TB_MQS_TICK_NS a queue in
 * which clients wait looks at its neighbours. The first without load gets a client. If all have some, the first whose load
 * differs by a quarter of the mean of both gets one, or none does if that has more. The client must have waited for
 * TB_MQS_WAIT_NS. Other than in the source, the load is that of the moment and no mean over a second, a queue may have several
 * CPUs, and waking clients and idle CPUs are found as above or not at all, as the host likes.
 */
#define TB_MQS_TICK_NS 1000000ull
#define TB_MQS_WAIT_NS 500000ull
#define TB_MQS_NEIGHBOURS 3

/* Thousandths of a client for each CPU, waiting or running. */
TB_INLINE u64 tb_mqs_load(u64 waiting, u64 running, u64 cpus)
{
	return cpus ? 1000 * (waiting + running) / cpus : 0;
}

/* The k-th neighbour, k < TB_MQS_NEIGHBOURS, of queue i of n: the next ones by number. i itself if there is none. */
TB_INLINE u32 tb_mqs_neighbour(u32 i, u32 n, u32 k)
{
	return k + 1 < n ? (i + k + 1) % n : i;
}

TB_INLINE u32 tb_mqs_differs(u64 own, u64 other)
{
	u64 apart = own < other ? other - own : own - other;

	return 200 * apart >= 25 * (own + other);
}

/*
 * Which neighbour gets a client, by the load of the queue and of its neighbours; TB_MQS_NEIGHBOURS: none does. A neighbour that
 * is the queue itself gets none.
 */
TB_INLINE u32 tb_mqs_push(u64 own, u64 first, u64 second, u64 third)
{
	if (!own)
		return TB_MQS_NEIGHBOURS;
	if (!first || !second || !third)
		return !first ? 0 : !second ? 1 : 2;
	if (tb_mqs_differs(own, first))
		return first < own ? 0 : TB_MQS_NEIGHBOURS;
	if (tb_mqs_differs(own, second))
		return second < own ? 1 : TB_MQS_NEIGHBOURS;
	if (tb_mqs_differs(own, third) && third < own)
		return 2;
	return TB_MQS_NEIGHBOURS;
}

/* The pass of a part with `tickets` at `pass` after `more` tickets have come from a part at `from`. */
TB_INLINE u64 tb_merged(u64 pass, u64 tickets, u64 from, u64 more)
{
	u64 all = tickets + more, part;

	if (!all)
		return pass;
	if (!tickets)
		return from;
	part = (more << 16) / all;
	if (tb_before(pass, from))
		return pass + ((from - pass) >> 16) * part;
	return pass - ((pass - from) >> 16) * part;
}

/*
 * The k-th neighbour, k < 4, of queue i of n: i itself if there is none. The neighbours are i + 1, i + s, i - 1 and i - s, s
 * being the root of n rounded up: a torus whose rows are joined with a twist. It is connected for every n and looks the same from
 * each queue. Queues of CPUs that share a cache have consecutive numbers, so the first and third neighbours mostly share it.
 */
TB_FN u32 tb_neighbour(u32 i, u32 n, u32 k)
{
	u32 s = 2, by;

	tb_loop(TB_QUEUES_ROOT) {
		if (s * s >= n)
			break;
		s++;
	}
	by = k & 1 ? s % n : 1 % n;
	return k & 2 ? (i + n - by) % n : (i + by) % n;
}

/*
 * Change a client's tickets and its pass at once, both given by other queues. What was charged in advance is converted to the new
 * tickets, as its settlement will undo it at those. An inactive client joins with all of its lag.
 */
TB_FN u32 tb_set_share(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 tickets, u64 pass)
{
	struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
	u64 grown = p->served - tb_settled(c) - c->level; /* if it runs */

	if (c->state & TB_QUEUED)
		tb_order_remove(q, p, c);
	if (tb_counts(c))
		tb_mean_remove(p, c);
	if (c->state & TB_BEHIND)
		p->behind += tickets - c->tickets;
	pass -= tb_advance(c->precharged_ns, TB_DRAW_ONE, c->tickets);
	pass += tb_advance(c->precharged_ns, TB_DRAW_ONE, tickets);
	c->tickets = tickets;
	c->pass = pass;
	c->key = tb_key(r, c, pass);
	if (tb_counts(c))
		tb_mean_add(p, c, pass);
	if (!(c->state & TB_ACTIVE))
		c->level = r->lag_ns;
	else if (!(c->state & TB_QUEUED))
		c->level = p->served - tb_settled(c) - grown;
	if (c->state & TB_QUEUED)
		tb_order_insert(q, p, c);
	return 0;
}

/*
 * Take a waiting leaf off its queue, to be put on another one (tb_put): it is inactive then, but keeps its pass, and joins again
 * with all of its lag.
 */
TB_INLINE u32 tb_take(struct tb_queue *q, const struct tb_rules *r, u32 leaf)
{
	tb_withdraw(q, leaf);
	tb_leave(q, r, leaf);
	tb_at(q, leaf)->level = r->lag_ns;
	return 0;
}

/*
 * An inactive client becomes one of `parent`, which may be on another queue, where the offset is larger by so much. So its pass
 * is as far from the clock there as it was here.
 */
TB_FN u32 tb_put(struct tb_queue *q, u32 i, u32 parent, u64 offset)
{
	tb_at(q, i)->parent = parent;
	tb_at(q, i)->pass += offset;
	return 0;
}
