/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The economy of one run queue: which client runs next, and what a run costs each client that pays for it.
 *
 *   base ── best-effort ──┬── alice (1000) ──┬── make (100)         leaf: a process of one thread
 *                         │                  └── server (300) ──┬── thread (100)
 *                         │                                     └── thread (100)
 *                         └── bob (1000) ────── hog (100)
 *
 * Every node is a client of its parent and has a pass. Every node with children is a currency and orders them. Picking walks down
 * from base, charging walks up from the leaf. If all four leaves above are runnable, alice and bob get a half each; make gets 1/4
 * of alice's half = 1/8, each thread of server 3/16, hog 1/2. A fork inside alice changes nothing for bob.
 *
 *   tb_join ──> active ── tb_wait ──> queued ── tb_withdraw ──> (running) ── tb_charge ...   tb_leave ──> inactive
 *
 * The rules, and their sources where there are any:
 *
 * Draw. A charge of `used` ns advances a client's pass by used / tickets x draw. draw is 1 in stride scheduling, and Exp(1) in
 * lottery scheduling (draw.h) at every level with more than one active client. The charge is for the time used, not for the
 * quantum. That is the compensation ticket: a client that used a fraction f of its quantum pays f (Waldspurger & Weihl 1994,
 * 4.5).
 *
 * vnow is the mean of the passes of the clients that count, weighted by tickets: the global pass of stride scheduling
 * (Waldspurger & Weihl 1995), EEVDF's average vruntime. A charge adds tickets x step = used x draw to the sum, whatever the
 * tickets. The sum is kept relative to vnow, which moves by its quotient, so 0 <= sum < weight after every step and nothing
 * overflows: a step adds |pass - vnow| x tickets, which is below 2^29 ns x 2^16 = 2^45, since no settled pass is further ahead
 * (TB_AHEAD_MAX_NS; tb_settle). The lag of a waiting client is not clamped, but 2^18 times as much still fits.
 *
 * Next. In stride, the next client is the one with the earliest virtual deadline (pass + quantum / tickets) among the eligible
 * clients, whose pass is not after vnow (Stoica & Abdel-Wahab 1995). That bounds every lag by one quantum at each level, however
 * many clients there are. Plain stride lets a client with many tickets run ahead of n small ones by about n/2 quanta. In lottery,
 * the next client is the one with the smallest pass: eligibility would cut the exponential's tail.
 *
 * Tickets that cannot be used. A thread with nine tenths of the tickets of three CPUs can use only one CPU, and falls behind vnow
 * as fast as the others are served. If it counted, the others would all be ahead of their due, and share the rest by no rule. So
 * such a client is *behind*: it does not count until it has caught up (tb_settle_behind), and the others share the rest among
 * themselves. That is water-filling at every level; surplus fair scheduling (Chandra et al. 2000) has it for one level.
 *
 * There are two tests (tb_falls_behind). What a client could not use is measured as the service that others received beyond it
 * while it had all that it can use (tb_level_switch); waiting, naps and the debts of others do not add to that. A large lag alone
 * makes a client behind, too. But only what the first test measures is forgiven, and bound CPUs have rules of their own
 * (tb_held_pass). In a user or currency, a client that waits and may run on any CPU is never behind (tb_queue_up): it can use
 * more than it has, and will have its turn. If it did not count, vnow would soon be that of a few small clients, and everybody
 * far behind it. (Best effort's vnow is its queue's clock. It would be set back whenever a user waits, and threads that sleep
 * would move between queues for nothing.)
 *
 * A leaf that is behind, or whose currency is, needs its CPU all the time. It keeps the CPU although its currencies are a little
 * ahead; they give back another of their CPUs (tb_keeps). From a client that is behind, too, it does not keep the CPU so. And it
 * gives way to a leaf that is bound to its CPU and starves (tb_starves): if it may run on any CPU it soon has another one, and if
 * it is bound, too, the usual order decides.
 *
 * Passing over. A currency may be next on a CPU although all of its clients that wait for that CPU are ahead of their due inside
 * it. Its other clients run already, or wait for the CPUs that they are bound to, and would miss what these use. So the pick
 * passes over the currency there, unless the client that would run instead is far ahead (tb_pick). A leaf that runs all the same
 * gives its CPU back when another client is picked (tb_holds_up). A client that is behind does not count, so others are not ahead
 * of their due because of it. If it waits for a CPU that a leaf has which may run on all, the currency is passed over, too: that
 * leaf is to make room (tb_waits_elsewhere).
 *
 * Bound CPUs. A leaf bound to some of the CPUs may be behind because other bound leaves share these. They share them by their
 * passes, so nothing is forgiven meanwhile (tb_held_pass), and a leaf that joins them starts where they are (tb_entry).
 *
 * Waking. Passes are absolute: a client that was away returns with the pass that it had. Its lag is bounded by `credit_ns` of its
 * service, or by its lag when it left if that was larger, measured with the client itself in vnow again. So a client pays its
 * debts by waiting, asleep or not. A nap neither loses nor earns more than the client was entitled to meanwhile, up to the
 * credit.
 *
 * A waking client preempts a running one that has become the worse choice (tb_crossing_ns), but the beginning of a slice is
 * protected (tb_protected_ns). From clients that the runner wakes itself a whole quantum is protected, or two clients that wake
 * each other would switch at every message. For the same reason a client woken by another client of its currency returns without
 * credit, unless it is owed all of it: each of several clients that exchange messages then finds several messages. Between users
 * the credit stays: a client must not lose by serving another user (tb_credit_ns).
 *
 * Forking. A child starts at its parent's pass, charged up to this moment. When a client exits, an heir in its currency is
 * charged for what it consumed (tb_charge_heir, tb_returned_ns). The host names the heir: the child that was forked last, which
 * owes only what the client consumed after that fork; or else the parent, which owes all, also what the client had inherited
 * itself. So a chain of forks, fork-and-wait to any depth, and a few children at a time all get what one client gets.
 *
 * Several CPUs. After a pick, the host charges at most a quantum in advance, and the settlement corrects it. Otherwise CPUs that
 * decide in the same tick would all pick from the same user, whose pass moves only when a run ends.
 *
 * Reserving. A reservation is a client of base beside best-effort. Of TB_MACHINE_TICKETS, best-effort holds a floor, and all
 * reservations together hold at most the rest. So each has at least its part, however many clients want to run; and what is not
 * held or not wanted is shared in proportion (Syncopation, Koster 2000). The host decides how many tickets of base a client may
 * have.
 *
 * Freezing. A second root stands beside base, the frozen root. Clients in it keep their accounts and wait. tb_pick never reaches
 * them, so they run only out of turn (tb_overdue). To freeze a client, or a user with all its clients, is to move it there; to
 * thaw it is to move it back.
 *
 * Everything here runs under the host's lock of the queue; nothing here takes a lock.
 */
#pragma once
#include "arith.h"
#include "draw.h"
#include "limits.h"
#include "order.h"
#include "types.h"

/* No client; and the roots of the first queue. */
enum { TB_NONE = 0, TB_BASE = 1, TB_BEST_EFFORT = 2, TB_FROZEN = 3 };

/* A queue's roots. */
TB_INLINE u32 tb_base(const struct tb_queue *q)
{
	return q->base;
}

TB_INLINE u32 tb_frozen_root(const struct tb_queue *q)
{
	return tb_base(q) + (TB_FROZEN - TB_BASE);
}

struct tb_rules {
	u64 quantum_ns; /* the expected use of a run, and the request behind a deadline */
	u64 lag_ns;     /* the bound on lag, in the client's service, where a client joins, leaves or changes; below 2^29 */
	u64 credit_ns;  /* the largest lag with which a client returns, unless it left with a larger one */
	u64 behind_ns;  /* what a client may lag, or be unable to use, before it is behind (tb_falls_behind) */
	u64 protect_ns; /* how much of the beginning of a slice is protected from waking clients */
	u32 lottery;
};

/*
 * How often a reservation's quantum is halved, as a reservation is to hold over short times. With a twenty-fourth of the machine
 * or more, its turns come within three quanta of one another.
 */
TB_INLINE u32 tb_halvings(const struct tb_client *c)
{
	u32 within = 3 * c->tickets, all = TB_MACHINE_TICKETS;

	if (c->kind != TB_KIND_RESERVATION)
		return 0;
	return (u32)(within < all) + (within * 2 < all) + (within * 4 < all);
}

/* The deadline of c at `pass`: for a request of a quantum, or of a reservation's shorter one. In lottery it is the pass. */
TB_INLINE u64 tb_key(const struct tb_rules *r, const struct tb_client *c, u64 pass)
{
	return r->lottery ? pass : pass + tb_advance(r->quantum_ns >> tb_halvings(c), TB_DRAW_ONE, c->tickets);
}

/* The latest pass that is eligible. */
TB_INLINE u64 tb_eligible_until(const struct tb_rules *r, u64 vnow)
{
	return r->lottery ? vnow + (1ull << 62) : vnow;
}

/* A client that is further ahead of its due than this does not run instead of a currency that was passed over. */
TB_INLINE u64 tb_passing_ns(const struct tb_rules *r)
{
	return 6 * r->quantum_ns;
}

/* Is (a_pass, a_key) to run before (b_pass, b_key)? Eligible clients first, then the earlier key. */
TB_INLINE u64 tb_better(u64 limit, u64 a_pass, u64 a_key, u64 b_pass, u64 b_key)
{
	u64 a_late = tb_before(limit, a_pass), b_late = tb_before(limit, b_pass);

	return a_late != b_late ? b_late : tb_before(a_key, b_key);
}

/* Move vnow by the whole part of sum / weight, rounded towards the past, so that 0 <= sum < weight. */
TB_INLINE void tb_mean(struct tb_client *currency)
{
	u64 weight = currency->weight, sum = currency->sum, step;

	if (!weight) {
		currency->sum = 0;
		return;
	}
	if ((s64)sum < 0) {
		step = (0 - sum + weight - 1) / weight;
		currency->vnow -= step;
		currency->sum = sum + step * weight;
	} else if (sum >= weight) {
		step = sum / weight;
		currency->vnow += step;
		currency->sum = sum - step * weight;
	}
}

/* Does the client's pass count in its currency's mean? */
TB_INLINE u32 tb_counts(const struct tb_client *c)
{
	return (c->state & (TB_ACTIVE | TB_BEHIND)) == TB_ACTIVE;
}

/* Add c to the mean, at `pass`; or remove it, at its pass. */
TB_INLINE void tb_mean_add(struct tb_client *p, const struct tb_client *c, u64 pass)
{
	p->weight += c->tickets;
	p->sum += (pass - p->vnow) * c->tickets;
	tb_mean(p);
}

TB_INLINE void tb_mean_remove(struct tb_client *p, const struct tb_client *c)
{
	p->weight -= c->tickets;
	p->sum -= (c->pass - p->vnow) * c->tickets;
	tb_mean(p);
}

/* What was charged in advance to a client, in its passes. On one CPU there is none, and no division. */
TB_INLINE u64 tb_precharge(const struct tb_client *c)
{
	return c->precharged_ns ? tb_advance(c->precharged_ns, TB_DRAW_ONE, c->tickets) : 0;
}

/* The client's pass without what it was charged in advance. */
TB_INLINE u64 tb_settled(const struct tb_client *c)
{
	return c->pass - tb_precharge(c);
}

/*
 * Can a client use its tickets? Let d = served - pass, settled. Service to others increases d, the client's own decreases it. If
 * d grows although the client never has to wait, it has more tickets than it can use. Growth while it waits says nothing. So
 * while it runs, level is the smallest d, and d - level is what it could not use; while it waits, level is that difference, and
 * d is ignored. Both changes are the same subtraction: level = d - level.
 */
TB_INLINE void tb_level_switch(const struct tb_client *p, struct tb_client *c)
{
	c->level = p->served - tb_settled(c) - c->level;
}

/* The client is behind from now on; or, if it was, no longer. The caller updates the mean. */
TB_INLINE void tb_fall_behind(struct tb_queue *q, struct tb_client *p, struct tb_client *c)
{
	q->behind++;
	p->behind += c->tickets;
	c->state |= TB_BEHIND;
	c->epoch = q->epoch;
}

TB_INLINE void tb_catch_up(struct tb_queue *q, struct tb_client *p, struct tb_client *c)
{
	if (!(c->state & TB_BEHIND))
		return;
	q->behind--;
	p->behind -= c->tickets;
	c->state &= (u8)~TB_BEHIND;
}

/* The tickets of all active clients of a currency. */
TB_INLINE u64 tb_active_tickets(const struct tb_client *p)
{
	return (u64)p->weight + p->behind;
}

/*
 * The base value of a client, of TB_VALUE_ONE: the product of its part of each currency around it, of what is active now. 0: it
 * is frozen.
 */
TB_FN u64 tb_base_value(struct tb_queue *q, u32 i)
{
	u64 value = TB_VALUE_ONE;

	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i);
		u64 idle = 1 ^ tb_is_some(c->state & TB_ACTIVE);

		if (!c->parent)
			break;
		value = value * c->tickets / (tb_active_tickets(tb_at(q, c->parent)) + idle * c->tickets);
		i = c->parent;
	}
	return tb_at(q, i)->kind == TB_KIND_FROZEN ? 0 : value;
}

/* A pass that counts is about to change: update the mean. tb_place changes c itself. */
TB_INLINE void tb_mean_shift(struct tb_client *p, const struct tb_client *c, u64 pass)
{
	if (tb_counts(c)) {
		p->sum += (pass - c->pass) * c->tickets;
		tb_mean(p);
	}
}

/* Set c's pass and deadline, and its position in the order: behind equal deadlines. The caller has updated the mean. */
TB_FN u32 tb_place(struct tb_queue *q, const struct tb_rules *r, struct tb_client *c, u64 pass)
{
	struct tb_client *p = tb_at(q, c->parent);
	u64 alone = p->root == tb_index(q, c) && !c->child[0] && !c->child[1], ordered = c->state & TB_QUEUED && !alone;

	if (pass == c->pass)
		return 0;
	if (ordered)
		tb_order_remove(q, p, c);
	c->pass = pass;
	c->low_pass = pass;
	c->key = tb_key(r, c, pass);
	if (ordered)
		tb_order_insert(q, p, c);
	return 0;
}

/* Set a pass; the mean and the order follow. */
TB_INLINE u32 tb_set_pass(struct tb_queue *q, const struct tb_rules *r, struct tb_client *c, u64 pass)
{
	tb_mean_shift(tb_at(q, c->parent), c, pass);
	return tb_place(q, r, c, pass);
}

/* The same for the only active client of p. vnow moves along with it, and the order has no other client. */
TB_INLINE void tb_set_pass_alone(struct tb_client *p, struct tb_client *c, u64 pass)
{
	u64 by = pass - c->pass;

	p->vnow += by;
	c->pass = pass;
	c->low_pass = pass;
	c->key += by;
}

TB_INLINE u64 tb_bounded_for(u64 pass, u64 vnow, u64 tickets, u64 behind_ns, u64 ahead_ns)
{
	return tb_bounded(pass, vnow, tb_advance(behind_ns, TB_DRAW_ONE, tickets), tb_advance(ahead_ns, TB_DRAW_ONE, tickets));
}

/*
 * How far behind vnow a client that joins p may be, in ns of its service. After joining, its lag is at most what it was when it
 * left (its level meanwhile), or the credit if that is more; its own pass draws vnow towards it. 2^29 ns x 2^29 tickets: fits. It
 * is 0 if another client of p woke it (by_other is 0 then, otherwise 1), unless it is owed all of the credit.
 */
TB_INLINE u64 tb_credit_ns(const struct tb_rules *r, const struct tb_client *p, const struct tb_client *c, u64 by_other)
{
	u64 lag_ns = tb_max(c->level, r->credit_ns), weight = p->weight, some = tb_is_some(weight);
	u64 owed = tb_before(c->pass, p->vnow - tb_advance(r->credit_ns, TB_DRAW_ONE, c->tickets));

	lag_ns *= owed | by_other;
	return lag_ns + lag_ns * c->tickets * some / (weight | (1 ^ some));
}

/*
 * The latest pass at which a client of `mask` would have its turn on the best of its CPUs. It is vnow, except where a client that
 * is behind is next on every one of these CPUs. A client joining there at vnow would wait until those have caught up, which may
 * be never.
 */
TB_FN u64 tb_entry(struct tb_queue *q, struct tb_client *p, u64 mask)
{
	u64 entry = p->vnow - (1ull << 62);
	struct tb_client *o;

	tb_loop(64) {
		u64 cpu = mask & (0 - mask);

		if (!cpu)
			break;
		o = tb_at(q, tb_order_first(q, p, p->vnow, cpu));
		entry = o->state & TB_BEHIND ? tb_max(entry, o->pass) : p->vnow;
		mask = entry == p->vnow ? 0 : mask ^ cpu;
	}
	return entry;
}

/* A leaf bound to the CPUs of `mask` becomes active (1) or inactive (-1). */
TB_FN u32 tb_bind(struct tb_queue *q, u64 mask, u32 by)
{
	/* Another value is tested: from a test of the mask the verifier would learn it, and walk all that follows once more. */
	if (!tb_is_some(~mask))
		return 0;
	q->bound_leaves += by;
	tb_loop(64) {
		u64 cpu = mask & (0 - mask);
		u16 *bound = &q->bound[tb_lowest(mask)];

		if (!cpu)
			break;
		*bound += (u16)by;
		q->contested &= ~cpu;
		if (*bound > 1)
			q->contested |= cpu;
		mask ^= cpu;
	}
	return 0;
}

/*
 * A leaf that may run on `mask` becomes runnable, and with it those of its currencies that were idle. If another leaf woke it,
 * `shared` is the currency in which the two meet (tb_meet), otherwise TB_NONE.
 */
TB_FN u32 tb_join(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 mask, u32 shared)
{
	if (!(tb_at(q, i)->state & TB_ACTIVE))
		tb_bind(q, mask, 1);
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
		u64 entry = p->vnow, credit_ns, by_other;

		if (!c->parent || (c->state & TB_ACTIVE))
			break;
		if (q->behind && tb_is_some(~mask))
			entry = tb_entry(q, p, mask);
		/* Users and reservations have no siblings in this sense. */
		by_other = tb_is_some(c->parent ^ shared) | tb_is_negative((u64)p->kind - (TB_KIND_BEST_EFFORT + 1));
		credit_ns = tb_credit_ns(r, p, c, by_other);
		c->pass = tb_bounded_for(c->pass, entry, c->tickets, credit_ns, r->lag_ns);
		c->key = tb_key(r, c, c->pass);
		c->mask = mask;
		c->state |= TB_ACTIVE;
		p->active++;
		if (entry == p->vnow) {
			tb_mean_add(p, c, c->pass);
		} else {
			tb_fall_behind(q, p, c);
		}
		c->level = p->served - tb_settled(c);
		i = c->parent;
	}
	return 0;
}

/* A settled leaf that is not waiting goes to sleep, and with it those of its currencies that have no other active client. */
TB_FN u32 tb_leave(struct tb_queue *q, const struct tb_rules *r, u32 i)
{
	if (tb_at(q, i)->state & TB_ACTIVE)
		tb_bind(q, tb_at(q, i)->mask, 0 - 1u);
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
		u64 furthest;

		if (!c->parent || !(c->state & TB_ACTIVE))
			break;
		/* Bounded first: a client that shares bound CPUs may be so far behind that the product would not fit. */
		furthest = tb_max(c->pass, p->vnow - tb_advance(r->lag_ns, TB_DRAW_ONE, c->tickets));
		c->level = tb_before(furthest, p->vnow) ? tb_service_ns(p->vnow - furthest, c->tickets) : 0;
		if (tb_counts(c))
			tb_mean_remove(p, c);
		tb_catch_up(q, p, c);
		c->state &= (u8)~TB_ACTIVE;
		p->active--;
		if (p->active)
			break;
		i = c->parent;
	}
	return 0;
}

/* A client that was behind counts again; at vnow, if no other one counts. It is not in the order. */
TB_FN u32 tb_count_again(struct tb_queue *q, struct tb_client *p, struct tb_client *c)
{
	u64 by = p->weight ? 0 : p->vnow - c->pass;

	c->pass += by;
	c->low_pass = c->pass;
	c->key += by;
	tb_catch_up(q, p, c);
	tb_mean_add(p, c, c->pass);
	return 0;
}

/* An active client starts to wait, by itself or with the first client waiting in it. */
TB_INLINE void tb_queue_up(struct tb_queue *q, struct tb_client *p, struct tb_client *c)
{
	/* It waits, and may run on any CPU: it can use more than it has. */
	u64 again = (c->state & TB_BEHIND) * (1 ^ tb_is_some(~c->mask)) * tb_is_negative((u64)TB_KIND_BEST_EFFORT - p->kind);

	tb_forget(again);
	if (again)
		tb_count_again(q, p, c);
	c->state |= TB_QUEUED;
	tb_level_switch(p, c);
	tb_order_insert(q, p, c);
}

/* It waits no longer, nor does any client in it. */
TB_INLINE void tb_queue_off(struct tb_queue *q, struct tb_client *p, struct tb_client *c)
{
	c->state &= (u8)~TB_QUEUED;
	tb_level_switch(p, c);
	tb_order_remove(q, p, c);
}

/* The order inside c has changed: enter c into its parent's order, remove it, or change its mask there. 0: nothing changed. */
TB_INLINE u32 tb_order_follow(struct tb_queue *q, struct tb_client *c)
{
	struct tb_client *p = tb_at(q, c->parent);
	u64 mask;

	if (!c->parent)
		return 0;
	if (!c->root) {
		tb_queue_off(q, p, c);
		return 1;
	}
	mask = tb_at(q, c->root)->low_mask;
	if (!(c->state & TB_QUEUED)) {
		c->mask = mask;
		tb_queue_up(q, p, c);
		return 1;
	}
	if (mask == c->mask)
		return 0;
	c->mask = mask;
	tb_order_mend(q, p, c);
	return 1;
}

TB_INLINE void tb_order_follow_up(struct tb_queue *q, struct tb_client *c)
{
	tb_loop(TB_DEPTH) {
		c = tb_at(q, c->parent);
		if (!tb_order_follow(q, c))
			break;
	}
}

/* A leaf is the one that has waited for the shortest time. */
TB_INLINE void tb_wait_from(struct tb_queue *q, u32 i, u64 now)
{
	struct tb_client *c = tb_at(q, i);

	c->since = now;
	c->older = q->newest;
	c->newer = 0;
	if (q->newest)
		tb_at(q, q->newest)->newer = i;
	else
		q->oldest = i;
	q->newest = i;
	q->waiting++;
}

/*
 * An active leaf starts to wait at `now` for a CPU of `mask`. If it waits already, it has waited since it began: a user
 * who changes its mask again and again could otherwise keep it from ever being overdue.
 */
TB_FN u32 tb_wait(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 mask, u64 now)
{
	struct tb_client *c = tb_at(q, i);

	q->epoch = (u8)(now >> TB_EPOCH_SHIFT);
	if (c->state & TB_QUEUED) {
		tb_queue_off(q, tb_at(q, c->parent), c);
		tb_order_follow_up(q, c);
	} else {
		tb_wait_from(q, i, now);
	}
	if (c->mask != mask) {
		/* For other CPUs it waits beside other clients: it joins anew (tb_entry). */
		tb_leave(q, r, i);
		tb_join(q, r, i, mask, TB_NONE);
	}
	tb_queue_up(q, tb_at(q, c->parent), c);
	tb_order_follow_up(q, c);
	return 0;
}

/* A leaf stops waiting: it was picked, or is no longer runnable here. */
TB_FN u32 tb_withdraw(struct tb_queue *q, u32 i)
{
	struct tb_client *c = tb_at(q, i);

	if (!(c->state & TB_QUEUED))
		return 0;
	if (c->older)
		tb_at(q, c->older)->newer = c->newer;
	else
		q->oldest = c->newer;
	if (c->newer)
		tb_at(q, c->newer)->older = c->older;
	else
		q->newest = c->older;
	q->waiting--;
	tb_queue_off(q, tb_at(q, c->parent), c);
	tb_order_follow_up(q, c);
	return 0;
}

/*
 * By how much the distance to `served` has grown while the client had all that it can use (tb_level_switch). Lowers the level to
 * a smaller distance.
 */
TB_INLINE u64 tb_grown(const struct tb_client *p, struct tb_client *c, u64 pass)
{
	u64 distance = p->served - pass, runs = !(c->state & TB_QUEUED);

	/* A product: with a branch the verifier would walk all that follows for 0, and again for any value. */
	tb_forget(runs);
	if (runs && tb_before(distance, c->level))
		c->level = distance;
	return (distance - c->level) * runs;
}

/*
 * A settled client is behind if it could not use much (`grown`), or if its lag is large although it need not wait: it cannot use
 * its tickets, or too many clients share its bound CPUs. It then does not count in the mean, or the others would seem to be ahead
 * of their due.
 */
TB_INLINE u32 tb_falls_behind(const struct tb_rules *r, const struct tb_client *p, const struct tb_client *c, u64 pass, u64 grown)
{
	u64 far_ns = r->lottery ? r->lag_ns : r->behind_ns;

	/* A client that waits for any CPU runs when its turn is due: if others are ahead of it, that has other causes. */
	if (p->weight == c->tickets || (c->state & TB_QUEUED && !~c->mask))
		return 0;
	return grown > tb_advance(r->behind_ns, TB_DRAW_ONE, c->tickets) ||
	       tb_before(pass, p->vnow - tb_advance(far_ns, TB_DRAW_ONE, c->tickets));
}

/*
 * The pass at which a client that is behind is held. What it could not use is forgiven, except for `behind_ns` of it, and never
 * beyond vnow, as the client would owe for it. Leaves that share bound CPUs share them by their passes, so these fall back
 * freely. Their lags are halved now and then, all in one epoch: a leaf that fell back for long must not have a CPU to itself for
 * as long after the others have left.
 */
TB_FN u64 tb_held_pass(struct tb_queue *q, const struct tb_rules *r, struct tb_client *c, u64 pass, u64 grown)
{
	struct tb_client *p = tb_at(q, c->parent);
	u64 furthest = tb_advance(r->behind_ns, TB_DRAW_ONE, c->tickets);

	/* Two or more bound leaves may run on one of its CPUs; c, if it is a leaf, is one of them. */
	if (~c->mask && c->mask & q->contested) {
		if (c->epoch != q->epoch && tb_before(pass, p->vnow))
			pass += (p->vnow - pass) >> 1;
		c->epoch = q->epoch;
		return pass;
	}
	if (grown > furthest && tb_before(pass, p->vnow))
		pass = tb_min(pass + grown - furthest, p->vnow);
	return ~c->mask ? tb_max(pass, p->vnow - tb_advance(r->lag_ns, TB_DRAW_ONE, c->tickets)) : pass;
}

/* Settle a client that is behind, or falls behind now. Once it has caught up with vnow it counts again. */
TB_FN u64 tb_settle_behind(struct tb_queue *q, const struct tb_rules *r, struct tb_client *c, u64 pass, u64 grown)
{
	struct tb_client *p = tb_at(q, c->parent);

	if (tb_counts(c)) {
		tb_mean_remove(p, c);
		tb_fall_behind(q, p, c);
	} else if (!p->weight || !tb_before(pass, p->vnow)) {
		if (!p->weight)
			p->vnow = pass;
		tb_catch_up(q, p, c);
		pass += tb_precharge(c);
		tb_mean_add(p, c, pass);
		return pass;
	}
	return tb_held_pass(q, r, c, pass, grown) + tb_precharge(c);
}

/* The pass of an active client after a charge: bounded, and held if the client is behind. The mean follows. */
TB_FN u64 tb_settle(struct tb_queue *q, const struct tb_rules *r, struct tb_client *c, u64 pass)
{
	struct tb_client *p = tb_at(q, c->parent);
	u64 ahead = p->vnow + tb_advance(TB_AHEAD_MAX_NS, TB_DRAW_ONE, c->tickets), settled, grown;

	if (tb_before(ahead, pass)) {
		q->clamped++;
		pass = ahead;
	}
	settled = pass - tb_precharge(c);
	grown = tb_grown(p, c, settled);
	if (c->state & TB_BEHIND || tb_falls_behind(r, p, c, settled, grown))
		return tb_settle_behind(q, r, c, settled, grown);
	tb_mean_shift(p, c, pass);
	return pass;
}

/* Charge the queue's bill to a leaf and to each of its currencies: what it used, and its next run in advance. */
TB_INLINE u32 tb_charge(struct tb_queue *q, const struct tb_rules *r, u32 i)
{
	struct tb_bill *bill = &q->bill;

	tb_loop(2 * TB_DEPTH) {
		struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
		u64 draw = TB_DRAW_ONE, pass = c->pass;

		if (!c->parent && !q->charge_also)
			break;
		if (!c->parent) {
			i = q->charge_also;
			q->charge_also = TB_NONE;
			/* Time used is charged there once more. Without it, what was charged in advance moves there. */
			bill->next_ns = bill->used_ns ? 0 : bill->precharge_ns;
			bill->precharge_ns = 0;
			continue;
		}
		/* Most bills have only one of the three. */
		if (bill->used_ns) {
			u64 advance;

			if (p->active > 1 && r->lottery)
				draw = tb_draw_exp(tb_mix(bill->seed, c->parent));
			advance = tb_advance(bill->used_ns, draw, c->tickets);
			pass += advance;
			/* No second division where one client has all the tickets. */
			if (tb_counts(c))
				p->served += p->weight == c->tickets ? advance : tb_advance(bill->used_ns, draw, p->weight);
			c->used_ns += bill->used_ns;
			c->young_ns += bill->used_ns;
		}
		if (bill->next_ns | bill->precharge_ns) {
			c->precharged_ns += bill->next_ns - bill->precharge_ns;
			if (bill->next_ns)
				pass += tb_advance(bill->next_ns, TB_DRAW_ONE, c->tickets);
			if (bill->precharge_ns)
				pass -= tb_advance(bill->precharge_ns, TB_DRAW_ONE, c->tickets);
		}
		if (p->active == 1 && tb_counts(c)) {
			tb_set_pass_alone(p, c, pass);
		} else {
			if (c->state & TB_ACTIVE && !bill->next_ns)
				pass = tb_settle(q, r, c, pass);
			else
				tb_mean_shift(p, c, pass);
			tb_place(q, r, c, pass);
		}
		i = c->parent;
	}
	return 0;
}

/* i, or the one of its currencies that is a client of `parent`; TB_NONE if i is not below `parent`. */
TB_FN u32 tb_child_of(struct tb_queue *q, u32 parent, u32 i)
{
	tb_loop(TB_DEPTH) {
		if (!i || tb_at(q, i)->parent == parent)
			break;
		i = tb_at(q, i)->parent;
	}
	return i;
}

/* How far ahead a currency may be for its leaf to keep a CPU because that leaf is behind. */
TB_INLINE u64 tb_slack_limit(const struct tb_rules *r, const struct tb_client *p, const struct tb_client *c)
{
	return p->vnow + tb_advance(r->behind_ns, TB_DRAW_ONE, c->tickets);
}

/*
 * Is a running leaf, or one of its currencies up to `top`, behind, while `waiting`, the client beside `top` that could run
 * instead, is not? Then the leaf needs its CPU all the time. So it keeps the CPU although `top` is a little ahead, and `top`
 * gives back another of its CPUs when a slice ends there. Where both are behind, the usual order decides: clients that are
 * behind do not count in vnow, so however long `waiting` has waited, `top` would not be ahead.
 */
TB_FN u32 tb_is_behind(struct tb_queue *q, u32 leaf, u32 top, const struct tb_client *waiting)
{
	u32 behind = 0;

	if (!q->behind || waiting->state & TB_BEHIND)
		return 0;
	tb_loop(TB_DEPTH) {
		behind |= tb_at(q, leaf)->state & TB_BEHIND;
		if (leaf == top || !leaf)
			break;
		leaf = tb_at(q, leaf)->parent;
	}
	return behind;
}

/* For the rest of this pick, take the CPUs of `mask` from currency i. */
TB_INLINE void tb_pass_over(struct tb_queue *q, u32 i, u64 mask)
{
	struct tb_client *c = tb_at(q, i);
	u32 k = q->passed++ & (TB_PASSED_MAX - 1);

	q->passed_over[k] = i;
	q->passed_mask[k] = c->mask & mask;
	tb_order_mask(q, c, c->mask & ~mask);
}

/* At the end of the pick, give them back. */
TB_FN u32 tb_pass_over_no_more(struct tb_queue *q)
{
	tb_loop(TB_PASSED_MAX) {
		u32 k = (q->passed - 1) & (TB_PASSED_MAX - 1);
		struct tb_client *c = tb_at(q, q->passed_over[k]);

		if (!q->passed)
			break;
		q->passed--;
		tb_order_mask(q, c, c->mask | q->passed_mask[k]);
	}
	return 0;
}

/* Is it the only client that waits in its currency, and that one in its own, up to base? */
TB_FN u32 tb_waits_alone(struct tb_queue *q, u32 i)
{
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);

		if (i == tb_base(q) || p->root != i || c->child[0] || c->child[1])
			break;
		i = c->parent;
	}
	return i == tb_base(q);
}

/* Is `next` ahead of its due in p by more than by_ns? */
TB_INLINE u32 tb_is_ahead(const struct tb_client *p, const struct tb_client *next, u64 by_ns)
{
	u64 limit = p->vnow + tb_advance(by_ns, TB_DRAW_ONE, next->tickets);

	return (u32)(p->weight && tb_before(limit, next->pass));
}

/* A leaf begins to run on the CPU of `mask`, or goes on there; TB_NONE, which may run nowhere: the CPU idles. */
TB_FN u32 tb_runs(struct tb_queue *q, u32 leaf, u64 mask)
{
	u64 movable = 1 ^ tb_is_some(~tb_at(q, leaf)->mask);

	q->movable = (q->movable & ~mask) | movable * mask;
	return 0;
}

/*
 * Does a client of p that is behind wait, and not for the CPUs of `mask`, but for one that a leaf has which may run on all? Best
 * effort is not passed over: who else would run?
 */
TB_FN u32 tb_waits_elsewhere(struct tb_queue *q, const struct tb_rules *r, const struct tb_client *p, u64 mask)
{
	struct tb_client *first;

	if (!p->behind || p->kind <= TB_KIND_BEST_EFFORT)
		return 0;
	first = tb_at(q, tb_order_first(q, p, tb_eligible_until(r, p->vnow), q->movable & ~mask));
	return first->state & TB_BEHIND && !(first->mask & mask);
}

/*
 * The waiting leaf that is next on a CPU of `mask`; TB_NONE if none may run there. The currency that was passed over first is
 * picked from after all if no other client is left, or only one that is far ahead.
 */
TB_FN u32 tb_pick(struct tb_queue *q, const struct tb_rules *r, u64 mask)
{
	u32 i = tb_base(q);

	q->passed = 0;
	q->after_all = 0;
	tb_loop(TB_DEPTH * (TB_PASSED_MAX + 2)) {
		struct tb_client *p = tb_at(q, i);
		u32 next = tb_order_first(q, p, tb_eligible_until(r, p->vnow), mask);
		u32 is_others = !next || (tb_is_ahead(p, tb_at(q, next), 0) && !tb_waits_alone(q, i)) ||
				tb_waits_elsewhere(q, r, p, mask);

		if (is_others && i != tb_base(q) && q->passed < TB_PASSED_MAX && !q->after_all) {
			tb_pass_over(q, i, mask);
			i = tb_base(q);
		} else if (q->passed && !q->after_all && (!next || tb_is_ahead(p, tb_at(q, next), tb_passing_ns(r)))) {
			q->after_all = 1;
			i = q->passed_over[0];
		} else {
			i = next;
			if (!i || tb_at(q, i)->kind == TB_KIND_THREAD)
				break;
		}
	}
	/* From here on in memory: the verifier would go on once for each way out of the loop. */
	q->picked = i;
	tb_pass_over_no_more(q);
	return q->picked;
}

/*
 * Of the four oldest waiting leaves, the first that may run on `mask`, if it has waited for more than patience_ns of real time:
 * the kernel's watchdog knows nothing of shares.
 */
TB_INLINE u32 tb_overdue(struct tb_queue *q, u64 now, u64 patience_ns, u64 mask)
{
	u32 i = q->oldest;

	for (u32 k = 0; k < 4; k++) {
		if (!i || (s64)(now - tb_at(q, i)->since - patience_ns) < 0)
			return 0;
		if (tb_at(q, i)->mask & mask)
			return i;
		i = tb_at(q, i)->newer;
	}
	return 0;
}

/*
 * Where two leaves meet: those of them or of their currencies that are clients of the same currency, a's in the upper half, b's
 * in the lower. If one leaf is frozen and the other is not, they are base and the frozen root. Both ways up are walked at once,
 * and each goes on at its end from the other's beginning. So after as many steps as both ways have they are at the same height,
 * with sides swapped.
 */
TB_FN u64 tb_meet(struct tb_queue *q, u32 a, u32 b)
{
	u32 from_a = a, from_b = b, changed = 0;

	tb_loop(3 * TB_DEPTH) {
		u32 above_a = tb_at(q, a)->parent, above_b = tb_at(q, b)->parent;

		if (above_a == above_b)
			break;
		changed |= !above_a;
		a = above_a ? above_a : from_b;
		b = above_b ? above_b : from_a;
	}
	return changed ? (u64)b << 32 | a : (u64)a << 32 | b;
}

/* Base or the frozen root: where the way up from a client ends. */
TB_FN u32 tb_root_of(struct tb_queue *q, u32 i)
{
	tb_loop(TB_DEPTH) {
		if (!tb_at(q, i)->parent)
			break;
		i = tb_at(q, i)->parent;
	}
	return i;
}

/* Is it a client of the frozen root, or in a currency that is? */
TB_INLINE u32 tb_frozen(struct tb_queue *q, u32 i)
{
	return tb_root_of(q, i) == tb_frozen_root(q);
}

/*
 * Is a running, settled leaf ahead of its due in one of its currencies below `top`, while a client that is not ahead waits there?
 * (It mostly waits for another CPU: otherwise the pick would have found it.)
 */
TB_FN u32 tb_holds_up(struct tb_queue *q, u32 leaf, u32 top)
{
	u64 holds_up = 0;

	if (!q->bound_leaves)
		return 0;
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, leaf), *p = tb_at(q, c->parent);

		if (holds_up || leaf == top || !c->parent)
			break;
		holds_up = tb_before(p->vnow, tb_settled(c)) && p->root && !tb_before(p->vnow, tb_at(q, p->root)->low_pass);
		leaf = c->parent;
	}
	return (u32)holds_up;
}

/* Is a waiting leaf bound to some CPUs, and it or one of its currencies owed more than what makes a client behind? */
TB_FN u32 tb_starves(struct tb_queue *q, const struct tb_rules *r, u32 leaf)
{
	u64 starves = 0, bound = tb_is_some(~tb_at(q, leaf)->mask);

	if (!q->bound_leaves)
		return 0;
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, leaf);

		if (!c->parent)
			break;
		starves |= tb_before(c->pass, tb_at(q, c->parent)->vnow - tb_advance(r->behind_ns, TB_DRAW_ONE, c->tickets));
		leaf = c->parent;
	}
	starves &= bound;
	tb_forget(starves);
	return (u32)starves;
}

/*
 * Does `held`, settled and not waiting, go on, rather than give way to `best`, the pick among the waiting leaves? The two are
 * compared where their currencies meet; above that the pick has compared already. On a tie `held` keeps the CPU.
 */
TB_FN u32 tb_keeps(struct tb_queue *q, const struct tb_rules *r, u32 held, u32 best)
{
	u64 both = tb_meet(q, best, held);
	struct tb_client *b = tb_at(q, (u32)(both >> 32)), *h = tb_at(q, (u32)both), *p = tb_at(q, h->parent);
	u64 better, gives_way;

	if (!h->parent)
		return h->kind != TB_KIND_FROZEN;
	better = tb_better(tb_eligible_until(r, p->vnow), b->pass, b->key, h->pass, h->key);
	tb_forget(better);
	if (tb_is_behind(q, held, (u32)both, b)) {
		gives_way = tb_is_some(~tb_at(q, held)->mask) ? better : 1 ^ tb_before(p->vnow, b->pass);
		gives_way &= tb_starves(q, r, best);
		tb_forget(gives_way);
		return !gives_way && !tb_before(tb_slack_limit(r, p, h), tb_settled(h));
	}
	if (tb_holds_up(q, held, (u32)both))
		return 0;
	return !better;
}

#define TB_NEVER (~0ull)

/* A run of a leaf: ran_ns since its last settlement, with precharge_ns charged in advance. */
struct tb_run {
	u64 ran_ns;
	u64 precharge_ns;
	u64 woke; /* not 0: this leaf woke the client that wakes up */
};

/* The pass of a running leaf, or of one of its currencies, if it were settled now at draw 1. */
TB_INLINE u64 tb_projected(const struct tb_client *c, const struct tb_run *run)
{
	u64 ran = tb_advance(run->ran_ns, TB_DRAW_ONE, c->tickets);

	return c->pass + ran - tb_advance(run->precharge_ns, TB_DRAW_ONE, c->tickets);
}

/*
 * For how many more ns a slice is protected. From a client that the runner itself woke: for a quantum, as two clients that wake
 * each other would otherwise preempt each other at every message. From others: for its first protect_ns, as long as the runner is
 * not ahead of its due by more than that. A larger limit would cost clients that nap often.
 */
TB_INLINE u64 tb_protected_ns(const struct tb_rules *r, const struct tb_client *p, const struct tb_client *c, u64 stands,
			      const struct tb_run *run)
{
	u64 limit = p->vnow + tb_advance(r->protect_ns, TB_DRAW_ONE, c->tickets);
	u64 until_ns = run->woke ? r->quantum_ns : r->protect_ns;

	if (run->ran_ns >= until_ns)
		return 0;
	if (run->woke)
		return until_ns - run->ran_ns;
	if (!tb_before(stands, limit))
		return 0;
	return tb_min(tb_service_ns(limit - stands, c->tickets), until_ns - run->ran_ns);
}

/*
 * For how many more ns a running leaf may go on before the waking leaf is the better choice. 0 is "preempt", TB_NEVER is "not
 * before another client is charged". `both` says where the waking leaf and the runner meet (tb_meet). The runner becomes the
 * worse choice when it has passed vnow, or when its deadline has passed the waking client's. The waking client must be eligible,
 * too: vnow advances by 1 / weight per ns, and will make it so.
 */
TB_FN u64 tb_crossing_ns(struct tb_queue *q, const struct tb_rules *r, u64 both, u32 runner, const struct tb_run *run)
{
	struct tb_client *w = tb_at(q, (u32)(both >> 32)), *h = tb_at(q, (u32)both), *p = tb_at(q, h->parent);
	u64 until, stands = tb_projected(h, run), eligible_ns = 0, loses_ns = 0;

	if (w == h)
		return TB_NEVER;
	if (!h->parent)
		return h->kind == TB_KIND_FROZEN ? 0 : TB_NEVER;
	until = w->pass;
	if (tb_is_behind(q, runner, (u32)both, w)) {
		/* `stands` includes what other leaves below h were charged in advance, which is not to count. */
		until = tb_slack_limit(r, p, h) + (h->pass - tb_settled(h));
		until -= tb_advance(run->precharge_ns, TB_DRAW_ONE, h->tickets);
	} else if (!r->lottery) {
		until = tb_min(p->vnow, w->key - (h->key - h->pass));
		if (tb_before(p->vnow, w->pass))
			eligible_ns = ((w->pass - p->vnow) >> TB_PASS_SHIFT) * p->weight;
	}
	if (tb_before(stands, until))
		loses_ns = tb_service_ns(until - stands, h->tickets) + 1;
	if (w->kind != TB_KIND_RESERVATION)
		loses_ns = tb_max(loses_ns, tb_protected_ns(r, p, h, stands, run));
	return tb_max(eligible_ns, loses_ns);
}

/*
 * Change a client's tickets. Its lag in service stays: the distance to vnow is converted at the ratio of old to new. The distance
 * is bounded first: a client that slept for a minute may be so far behind that the product would not fit. What its distance to
 * `served` has grown by (tb_level_switch) is converted alike.
 */
TB_FN u32 tb_set_tickets(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 tickets)
{
	struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
	u64 pass = c->pass, old = c->tickets;
	u64 grown = c->state & TB_QUEUED ? c->level : p->served - tb_settled(c) - c->level;

	grown = tb_bounded_for(grown, 0, old, 0, TB_AHEAD_MAX_NS);
	pass = tb_bounded_for(pass, p->vnow, old, r->lag_ns, r->lag_ns);
	if (tb_before(pass, p->vnow))
		pass = p->vnow - tb_exchanged(p->vnow - pass, old, tickets);
	else
		pass = p->vnow + tb_exchanged(pass - p->vnow, old, tickets);
	if (c->state & TB_QUEUED)
		tb_order_remove(q, p, c);
	if (tb_counts(c))
		tb_mean_remove(p, c);
	if (c->state & TB_BEHIND)
		p->behind += tickets - c->tickets;
	c->tickets = tickets;
	c->pass = pass;
	c->key = tb_key(r, c, pass);
	if (tb_counts(c))
		tb_mean_add(p, c, c->pass);
	grown = tb_exchanged(grown, old, tickets);
	if (c->state & TB_ACTIVE)
		c->level = c->state & TB_QUEUED ? grown : p->served - tb_settled(c) - grown;
	if (c->state & TB_QUEUED)
		tb_order_insert(q, p, c);
	return 0;
}

/* An unused slot becomes an idle client of `parent`, or of none yet, at vnow. */
TB_FN u32 tb_init(struct tb_queue *q, u32 i, u32 kind, u32 parent, u32 tickets)
{
	struct tb_client *c = tb_at(q, i), *p = tb_at(q, parent);

	c->pass = p->vnow;
	c->key = p->vnow;
	c->mask = 0;
	c->parent = parent;
	c->tickets = tickets;
	c->state = 0;
	c->kind = (u8)kind;
	c->older = 0;
	c->vnow = 0;
	c->level = 0;
	c->sum = 0;
	c->served = 0;
	c->weight = 0;
	c->behind = 0;
	c->root = 0;
	c->active = 0;
	c->precharged_ns = 0;
	c->used_ns = 0;
	c->young_ns = 0;
	return i;
}

/* A new client; TB_NONE if all are in use. */
TB_FN u32 tb_new(struct tb_queue *q, u32 kind, u32 parent, u32 tickets)
{
	struct tb_pool *pool = tb_pool(q);
	u32 i = pool->free;

	if (i) {
		pool->free = tb_at(q, i)->up;
	} else {
		i = pool->fresh;
		if (!i || i >= TB_CLIENTS)
			return TB_NONE;
		pool->fresh = i + 1;
	}
	pool->used++;
	return tb_init(q, i, kind, parent, tickets);
}

/* Free a client that is idle and has no children. */
TB_FN u32 tb_free(struct tb_queue *q, u32 i)
{
	struct tb_client *c = tb_at(q, i);

	if (!i || c->kind == TB_KIND_FREE)
		return 0;
	c->kind = TB_KIND_FREE;
	c->up = tb_pool(q)->free;
	tb_pool(q)->free = i;
	tb_pool(q)->used--;
	return 0;
}

/*
 * Give a zeroed queue its base, its best-effort currency with `floor` tickets, and the frozen root. The pool has no free client.
 */
TB_FN u32 tb_queue_init(struct tb_queue *q, u32 floor)
{
	if (!tb_pool(q)->fresh)
		tb_pool(q)->fresh = TB_BASE;
	q->base = tb_new(q, TB_KIND_BASE, TB_NONE, TB_MACHINE_TICKETS);
	tb_new(q, TB_KIND_BEST_EFFORT, q->base, floor);
	return tb_new(q, TB_KIND_FROZEN, TB_NONE, TB_MACHINE_TICKETS);
}

/* Take what c was charged in advance off c's currencies, and charge it to `parent` and the currencies above that. */
TB_INLINE void tb_move_precharge(struct tb_queue *q, const struct tb_rules *r, const struct tb_client *c, u32 parent)
{
	q->bill.used_ns = 0;
	q->bill.precharge_ns = c->precharged_ns;
	q->bill.next_ns = 0;
	q->charge_also = parent;
	if (c->precharged_ns)
		tb_charge(q, r, c->parent);
	q->charge_also = TB_NONE;
}

/*
 * Move a client, idle, running or waiting, to another currency, with all that is in it. It keeps its distance to vnow, within the
 * bounds for a client that joins.
 */
TB_FN u32 tb_move(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 parent)
{
	struct tb_client *c = tb_at(q, i);
	u32 state = c->state;

	tb_move_precharge(q, r, c, parent);
	if (state & TB_QUEUED) {
		tb_queue_off(q, tb_at(q, c->parent), c);
		tb_order_follow_up(q, c);
	}
	tb_forget(state);
	if (state & TB_ACTIVE)
		tb_leave(q, r, i);
	tb_forget(state);
	c->pass = tb_at(q, parent)->vnow + (c->pass - tb_at(q, c->parent)->vnow);
	c->parent = parent;
	c->young_ns = 0;
	if (state & TB_ACTIVE)
		tb_join(q, r, i, c->mask, TB_NONE);
	tb_forget(state);
	if (state & TB_QUEUED) {
		tb_queue_up(q, tb_at(q, parent), c);
		tb_order_follow_up(q, c);
	}
	return 0;
}

/* A new leaf starts at the projected pass of the running leaf that forked it. */
TB_FN u32 tb_fork(struct tb_queue *q, u32 child, u32 forker, const struct tb_run *run)
{
	struct tb_client *c = tb_at(q, child);
	u32 s = tb_child_of(q, c->parent, forker);

	if (!s)
		return 0;
	c->pass = tb_projected(tb_at(q, s), run);
	return 0;
}

/*
 * A client is about to be freed. Of its young_ns, what is beyond `forked_ns` (tb_returned_ns) is charged to `heir`, or to the one
 * of the heir's currencies that is a client of the same currency; to none if there is no such one. forked_ns: if the heir is a
 * child, the young_ns that the client had when it forked that, and the run that was not charged yet; if not, 0.
 */
TB_FN u32 tb_charge_heir(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 heir, u64 forked_ns)
{
	struct tb_client *c = tb_at(q, i), *h;
	u64 vnow = tb_at(q, c->parent)->vnow, limit, owed_ns;
	u32 s = tb_child_of(q, c->parent, heir);

	if (!s || s == i)
		return 0;
	h = tb_at(q, s);
	/* No further ahead than the bound, unless it is already. */
	limit = tb_max(h->pass, vnow + tb_advance(r->lag_ns, TB_DRAW_ONE, h->tickets));
	owed_ns = c->young_ns > forked_ns ? c->young_ns - forked_ns : 0;
	tb_set_pass(q, r, h, tb_min(h->pass + tb_advance(tb_returned_ns(owed_ns), TB_DRAW_ONE, h->tickets), limit));
	h->young_ns += c->young_ns;
	return 0;
}
