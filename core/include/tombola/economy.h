/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The economy of one run queue: who is next, and what running costs whom.
 *
 *   base ── best-effort ──┬── alice (1000) ──┬── make (100)         leaf: a process of one thread
 *                         │                  └── server (300) ──┬── thread (100)
 *                         │                                     └── thread (100)
 *                         └── bob (1000) ────── hog (100)
 *
 * Every node is a client of its parent and has a pass; every node with children is a currency and orders them. Picking walks
 * down from base, charging walks up from the leaf. If all four leaves above are runnable, alice and bob get a half each;
 * make gets 1/4 of alice's half = 1/8, each thread of server 3/16, hog 1/2. A fork inside alice changes nothing for bob.
 *
 *   tb_join ──> active ── tb_wait ──> queued ── tb_withdraw ──> (running) ── tb_charge ...   tb_leave ──> inactive
 *
 * Rules, each with its source:
 *
 * Draw. A charge of `used` ns moves a client's pass by used / tickets x draw; draw is 1 in stride scheduling and Exp(1) in
 * lottery scheduling (draw.h), at every level where there is somebody to win against. Charging what was used, not the quantum,
 * is the compensation ticket: who used a fraction f of the quantum pays f (Waldspurger & Weihl 1994, 4.5).
 *
 * vnow is the mean of the active clients' passes weighted by tickets: the paper's global pass, EEVDF's average vruntime.
 * A charge adds tickets x step = used x draw to the sum, whatever the tickets. The sum is kept relative to vnow itself and
 * vnow moves by its quotient, so 0 <= sum < weight after every step and nothing overflows: a step adds |pass - vnow| x tickets,
 * which is below 2^29 ns x 2^16 = 2^45 by the lag bound.
 *
 * Next is, in stride, the earliest virtual deadline (pass + quantum / tickets) among the eligible, whose pass is not after
 * vnow (Stoica & Abdel-Wahab 1995). That bounds everybody's lag by one quantum at each level, however many clients there
 * are; plain stride lets one with many tickets run ahead of n small ones by about n/2 quanta. In lottery it is simply the
 * smallest pass: eligibility would cut the exponential's tail.
 *
 * Lag is bounded at every charge. A client that cannot use its share (one thread with most tickets of four CPUs) falls
 * behind without end otherwise, and takes everything for as long when it can.
 *
 * Waking. Passes are absolute: a client that was away comes back where it left, but with a lag of at most `credit_ns` of its
 * service, counted when its own place is in vnow again. So debts are paid by waiting whether asleep or not, and a nap neither
 * loses nor earns more than what the client was entitled to meanwhile, up to the credit.
 *
 * Forking. A child starts where its parent stands, charged up to this moment; when it dies, its
 * parent answers for what it consumed since (tb_returned_ns). So a chain of forks, fork-and-wait and handfuls of children
 * are all as one client.
 *
 * With several CPUs the pick pre-charges a quantum and the settlement corrects it; otherwise CPUs that decide in the same
 * tick would all pick from the same user, whose pass moves only when somebody stops.
 *
 * Reserving. A reservation is a client of base beside best-effort. Of TB_MACHINE_TICKETS, best-effort holds a floor and the
 * reservations, together, no more than the rest: so each has at least its part, whoever else wants to run, and what nobody
 * holds or wants is shared in proportion (Syncopation). Who may have how many tickets of base is the host's to decide.
 *
 * Freezing. A currency stands beside base that is nobody's client, limbo: what is in it keeps its accounts and waits, and is
 * never picked but for having waited too long (tb_overdue). To freeze a client, or a user with all that is hers, is to
 * move it there; to thaw it, to move it home.
 *
 * Everything here runs under the host's lock of the queue; nothing here takes one.
 */
#pragma once
#include "arith.h"
#include "draw.h"
#include "limits.h"
#include "order.h"
#include "types.h"

enum { TB_NONE = 0, TB_BASE = 1, TB_BEST_EFFORT = 2, TB_LIMBO = 3 };

struct tb_rules {
	u64 quantum_ns; /* what a pick expects to be used, and the request behind a deadline */
	u64 lag_ns;     /* how far a pass may be from vnow, in the client's service; below 2^29 */
	u64 credit_ns;  /* the largest lag with which a client that was away comes back */
	u32 lottery;
};

/*
 * How often a quantum is halved for a reservation, which holds over short times: so that one of a twenty-fourth of the machine or
 * more has its turns within three quanta of one another.
 */
TB_INLINE u32 tb_halvings(const struct tb_client *c)
{
	u32 within = 3 * c->tickets, all = TB_MACHINE_TICKETS;

	if (c->kind != TB_KIND_RESERVATION)
		return 0;
	return (u32)(within < all) + (within * 2 < all) + (within * 4 < all);
}

/* Its deadline, for a request of a quantum or of what a reservation has instead. */
TB_INLINE u64 tb_key(const struct tb_rules *r, const struct tb_client *c, u64 pass)
{
	return r->lottery ? pass : pass + tb_advance(r->quantum_ns >> tb_halvings(c), TB_DRAW_ONE, c->tickets);
}

/* The latest pass that is eligible. */
TB_INLINE u64 tb_limit(const struct tb_rules *r, u64 vnow)
{
	return r->lottery ? vnow + (1ull << 62) : vnow;
}

/* Is (a_pass, a_key) to run before (b_pass, b_key)? Eligible ones first, then the earlier key. */
TB_INLINE u64 tb_better(u64 limit, u64 a_pass, u64 a_key, u64 b_pass, u64 b_key)
{
	u64 a_late = tb_before(limit, a_pass), b_late = tb_before(limit, b_pass);

	return a_late != b_late ? b_late : tb_before(a_key, b_key);
}

/* vnow takes the whole part of sum / weight, rounding towards the past, so that 0 <= sum < weight. */
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

/* The setter of a pass: mean and order follow. */
TB_FN u32 tb_set_pass(struct tb_queue *q, const struct tb_rules *r, struct tb_client *c, u64 pass)
{
	struct tb_client *p = tb_at(q, c->parent);
	u64 alone = p->root == tb_index(q, c) && !c->child[0] && !c->child[1], key = tb_key(r, c, pass);

	if (c->state & TB_ACTIVE) {
		p->sum += (pass - c->pass) * c->tickets;
		tb_mean(p);
	}
	if (!(c->state & TB_QUEUED) || alone) {
		c->pass = pass;
		c->low_pass = pass;
		c->key = key;
		return 0;
	}
	tb_order_remove(q, p, c);
	c->pass = pass;
	c->key = key;
	return tb_order_insert(q, p, c);
}

/* The same for the only active client of p: vnow is where it stands, and nobody else is in p's order. */
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
 * How far behind vnow a client may be that is to join clients of `weight` tickets, so that its lag is credit_ns when it has: its
 * own place draws vnow towards it. 2^29 ns x 2^29 tickets: fits.
 */
TB_INLINE u64 tb_credit_ns(const struct tb_rules *r, u64 weight, u64 tickets)
{
	return weight ? r->credit_ns * (weight + tickets) / weight : r->credit_ns;
}

/* A leaf becomes runnable, and with it those of its currencies that were idle. */
TB_FN u32 tb_join(struct tb_queue *q, const struct tb_rules *r, u32 i)
{
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);

		if (!c->parent || (c->state & TB_ACTIVE))
			break;
		c->pass = tb_bounded_for(c->pass, p->vnow, c->tickets, tb_credit_ns(r, p->weight, c->tickets), r->lag_ns);
		c->key = tb_key(r, c, c->pass);
		c->state |= TB_ACTIVE;
		p->weight += c->tickets;
		p->sum += (c->pass - p->vnow) * c->tickets;
		p->active++;
		tb_mean(p);
		i = c->parent;
	}
	return 0;
}

/* A settled leaf that is not waiting goes to sleep, and with it those of its currencies that have nobody else. */
TB_FN u32 tb_leave(struct tb_queue *q, u32 i)
{
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);

		if (!c->parent || !(c->state & TB_ACTIVE))
			break;
		c->state &= (u8)~TB_ACTIVE;
		p->weight -= c->tickets;
		p->sum -= (c->pass - p->vnow) * c->tickets;
		p->active--;
		tb_mean(p);
		if (p->active)
			break;
		i = c->parent;
	}
	return 0;
}

/* After the order inside p changed, let p's own place say so: p enters, leaves or changes its mask. 0: nothing changed. */
TB_INLINE u32 tb_order_follow(struct tb_queue *q, struct tb_client *c)
{
	struct tb_client *p = tb_at(q, c->parent);
	u64 mask;

	if (!c->parent)
		return 0;
	if (!c->root) {
		c->state &= (u8)~TB_QUEUED;
		tb_order_remove(q, p, c);
		return 1;
	}
	mask = tb_at(q, c->root)->low_mask;
	if (!(c->state & TB_QUEUED)) {
		c->mask = mask;
		c->state |= TB_QUEUED;
		tb_order_insert(q, p, c);
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

/* An active leaf starts to wait, from `now` on, for a CPU of `mask`. */
TB_FN u32 tb_wait(struct tb_queue *q, u32 i, u64 mask, u64 now)
{
	struct tb_client *c = tb_at(q, i);

	c->mask = mask;
	c->since = now;
	c->older = q->newest;
	c->newer = 0;
	if (q->newest)
		tb_at(q, q->newest)->newer = i;
	else
		q->oldest = i;
	q->newest = i;
	q->waiting++;
	c->state |= TB_QUEUED;
	tb_order_insert(q, tb_at(q, c->parent), c);
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
	c->state &= (u8)~TB_QUEUED;
	tb_order_remove(q, tb_at(q, c->parent), c);
	tb_order_follow_up(q, c);
	return 0;
}

/* Settle the run in the queue's bill on everyone who pays for it, from the leaf up, and charge the next one in advance. */
TB_FN u32 tb_charge(struct tb_queue *q, const struct tb_rules *r, u32 i)
{
	const struct tb_bill *bill = &q->bill;

	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
		u64 draw = TB_DRAW_ONE, alone, pass = c->pass, bounded;

		if (!c->parent)
			break;
		alone = c->state & TB_ACTIVE && p->weight == c->tickets;
		/* Most bills have but one of the three. */
		if (bill->used_ns) {
			if (r->lottery && !alone)
				draw = tb_draw_exp(tb_mix(bill->seed, c->parent));
			pass += tb_advance(bill->used_ns, draw, c->tickets);
			c->used_ns += bill->used_ns;
			c->young_ns += bill->used_ns;
		}
		if (bill->next_ns)
			pass += tb_advance(bill->next_ns, TB_DRAW_ONE, c->tickets);
		if (bill->precharge_ns)
			pass -= tb_advance(bill->precharge_ns, TB_DRAW_ONE, c->tickets);
		if (alone) {
			tb_set_pass_alone(p, c, pass);
		} else {
			bounded = tb_bounded_for(pass, p->vnow, c->tickets, r->lag_ns, r->lag_ns);
			q->clamped += bounded != pass;
			if (bounded != c->pass)
				tb_set_pass(q, r, c, bounded);
		}
		i = c->parent;
	}
	return 0;
}

/* Whose turn it is on a CPU of `mask`, among those who wait; TB_NONE if nobody may run there. */
TB_FN u32 tb_pick(struct tb_queue *q, const struct tb_rules *r, u64 mask)
{
	u32 i = TB_BASE;

	tb_loop(TB_DEPTH) {
		i = tb_order_first(q, tb_at(q, i), tb_limit(r, tb_at(q, i)->vnow), mask);
		if (!i || tb_at(q, i)->kind == TB_KIND_THREAD)
			break;
	}
	return i;
}

/* Whoever of the oldest few has waited for longer than patience_ns of real time: the kernel's watchdog has no sense of shares. */
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
 * The ancestors-or-selves of two leaves that are clients of one currency: a's in the upper half, b's in the lower. They are base
 * and limbo if one of the two leaves is frozen. Both ways up are walked at once, and at their ends each the other's: so they are
 * at the same height, with sides changed, when as many steps are done as there are on both.
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

/* Base, or limbo: what the way up from a client ends at. */
TB_FN u32 tb_root_of(struct tb_queue *q, u32 i)
{
	tb_loop(TB_DEPTH) {
		if (!tb_at(q, i)->parent)
			break;
		i = tb_at(q, i)->parent;
	}
	return i;
}

/* Is it in limbo, or in a currency that is? Mostly nobody is. */
TB_INLINE u32 tb_frozen(struct tb_queue *q, u32 i)
{
	return tb_at(q, TB_LIMBO)->clients && tb_root_of(q, i) == TB_LIMBO;
}

/*
 * Shall `held`, settled and not waiting, go on rather than give way to `best`, the pick among those who wait? The two are
 * compared where their currencies meet; above that the pick has compared already. A draw goes to who has the CPU.
 */
TB_FN u32 tb_keeps(struct tb_queue *q, const struct tb_rules *r, u32 held, u32 best)
{
	u64 both = tb_meet(q, best, held);
	struct tb_client *b = tb_at(q, (u32)(both >> 32)), *h = tb_at(q, (u32)both);

	if (!h->parent)
		return h->kind != TB_KIND_LIMBO;
	return !tb_better(tb_limit(r, tb_at(q, h->parent)->vnow), b->pass, b->key, h->pass, h->key);
}

#define TB_NEVER (~0ull)

/* How a leaf is running: since its last settlement for ran_ns, with precharge_ns charged in advance. */
struct tb_run {
	u64 ran_ns;
	u64 precharge_ns;
};

/* Where a running leaf, or one of its currencies, would stand if it were settled now at draw 1. */
TB_INLINE u64 tb_projected(const struct tb_client *c, const struct tb_run *run)
{
	u64 ran = tb_advance(run->ran_ns, TB_DRAW_ONE, c->tickets);

	return c->pass + ran - tb_advance(run->precharge_ns, TB_DRAW_ONE, c->tickets);
}

/*
 * For how many more ns a running leaf may go on before the waking one is the better choice: 0 is "preempt", TB_NEVER "not
 * before somebody else is charged". The runner loses its place when it has passed vnow, or when its deadline has passed
 * the waker's; the waker must be eligible, which vnow's progress, 1 / weight a ns, will make it.
 */
TB_FN u64 tb_crossing_ns(struct tb_queue *q, const struct tb_rules *r, u32 waker, u32 runner, const struct tb_run *run)
{
	u64 both = tb_meet(q, waker, runner);
	struct tb_client *w = tb_at(q, (u32)(both >> 32)), *h = tb_at(q, (u32)both), *p = tb_at(q, h->parent);
	u64 until, stands = tb_projected(h, run), eligible_ns = 0, loses_ns = 0;

	if (w == h)
		return TB_NEVER;
	if (!h->parent)
		return h->kind == TB_KIND_LIMBO ? 0 : TB_NEVER;
	until = w->pass;
	if (!r->lottery) {
		until = tb_min_pass(p->vnow, w->key - (h->key - h->pass));
		if (tb_before(p->vnow, w->pass))
			eligible_ns = ((w->pass - p->vnow) >> TB_PASS_SHIFT) * p->weight;
	}
	if (tb_before(stands, until))
		loses_ns = tb_service_ns(until - stands, h->tickets) + 1;
	return eligible_ns > loses_ns ? eligible_ns : loses_ns;
}

/*
 * Change a client's tickets. Its lag in service stays: the distance to vnow is exchanged at the rate of old to new. It is
 * bounded first: who slept for a minute may be so far behind that the product would not fit.
 */
TB_FN u32 tb_set_tickets(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 tickets)
{
	struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
	u64 pass, old = c->tickets;

	pass = tb_bounded_for(c->pass, p->vnow, old, r->lag_ns, r->lag_ns);
	if (tb_before(pass, p->vnow))
		pass = p->vnow - tb_exchanged(p->vnow - pass, old, tickets);
	else
		pass = p->vnow + tb_exchanged(pass - p->vnow, old, tickets);
	if (c->state & TB_QUEUED)
		tb_order_remove(q, tb_at(q, c->parent), c);
	if (c->state & TB_ACTIVE) {
		p->sum -= (c->pass - p->vnow) * old;
		p->sum += (pass - p->vnow) * tickets;
		p->weight += tickets;
		p->weight -= old;
		tb_mean(p);
	}
	c->tickets = tickets;
	c->pass = pass;
	c->key = tb_key(r, c, pass);
	if (c->state & TB_QUEUED)
		tb_order_insert(q, tb_at(q, c->parent), c);
	return 0;
}

/* A new, idle client of `parent`; TB_NONE when all are in use. It starts at vnow. */
TB_FN u32 tb_new(struct tb_queue *q, u32 kind, u32 parent, u32 tickets)
{
	u32 i = q->free;
	struct tb_client *c, *p = tb_at(q, parent);

	if (i) {
		q->free = tb_at(q, i)->up;
	} else {
		i = q->fresh;
		if (!i || i >= TB_CLIENTS)
			return TB_NONE;
		q->fresh = i + 1;
	}
	q->used++;
	c = tb_at(q, i);
	c->pass = p->vnow;
	c->key = p->vnow;
	c->mask = 0;
	c->parent = parent;
	c->tickets = tickets;
	c->state = 0;
	c->kind = (u8)kind;
	c->clients = 0;
	c->vnow = 0;
	c->sum = 0;
	c->weight = 0;
	c->root = 0;
	c->active = 0;
	c->used_ns = 0;
	c->young_ns = 0;
	if (parent)
		p->clients++;
	return i;
}

/* Give back a client that is idle and has no children. */
TB_FN u32 tb_free(struct tb_queue *q, u32 i)
{
	struct tb_client *c = tb_at(q, i);

	if (!i || c->kind == TB_KIND_FREE)
		return 0;
	if (c->parent)
		tb_at(q, c->parent)->clients--;
	c->kind = TB_KIND_FREE;
	c->up = q->free;
	q->free = i;
	q->used--;
	return 0;
}

/* A zeroed queue gets its base, its best-effort currency with `floor` tickets, and limbo. */
TB_FN u32 tb_queue_init(struct tb_queue *q, u32 floor)
{
	q->fresh = TB_BASE;
	tb_new(q, TB_KIND_BASE, TB_NONE, TB_MACHINE_TICKETS);
	tb_new(q, TB_KIND_BEST_EFFORT, TB_BASE, floor);
	return tb_new(q, TB_KIND_LIMBO, TB_NONE, TB_MACHINE_TICKETS);
}

/*
 * A client, idle, running or waiting, changes to another currency, with all that is in it. Its distance to vnow goes with it,
 * as far as a newcomer's may. A running leaf's precharge must have been undone.
 */
TB_FN u32 tb_move(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 parent)
{
	struct tb_client *c = tb_at(q, i);
	u32 state = c->state;

	if (state & TB_QUEUED) {
		c->state &= (u8)~TB_QUEUED;
		tb_order_remove(q, tb_at(q, c->parent), c);
		tb_order_follow_up(q, c);
	}
	if (state & TB_ACTIVE)
		tb_leave(q, i);
	c->pass = tb_at(q, parent)->vnow + (c->pass - tb_at(q, c->parent)->vnow);
	tb_at(q, c->parent)->clients--;
	tb_at(q, parent)->clients++;
	c->parent = parent;
	c->young_ns = 0;
	if (state & TB_ACTIVE)
		tb_join(q, r, i);
	if (state & TB_QUEUED) {
		c->state |= TB_QUEUED;
		tb_order_insert(q, tb_at(q, parent), c);
		tb_order_follow_up(q, c);
	}
	return 0;
}

/* i, or that one of its currencies which is a client of `parent`; TB_NONE if i is not below it. */
TB_FN u32 tb_child_of(struct tb_queue *q, u32 parent, u32 i)
{
	tb_loop(TB_DEPTH) {
		if (!i || tb_at(q, i)->parent == parent)
			break;
		i = tb_at(q, i)->parent;
	}
	return i;
}

/* A new leaf takes its place beside the running leaf that forked it. */
TB_FN u32 tb_born(struct tb_queue *q, u32 child, u32 forker, const struct tb_run *run)
{
	struct tb_client *c = tb_at(q, child);
	u32 s = tb_child_of(q, c->parent, forker);

	if (!s)
		return 0;
	c->pass = tb_projected(tb_at(q, s), run);
	/* The present run is in the child's place already and not yet charged: it must not be answered for twice. */
	tb_at(q, s)->young_ns = 0 - run->ran_ns;
	return 0;
}

/* A client that is about to be freed leaves what it still owes to `heir`, if that one is in the same currency. */
TB_FN u32 tb_died(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 heir)
{
	struct tb_client *c = tb_at(q, i), *h;
	u64 vnow = tb_at(q, c->parent)->vnow;
	u32 s = tb_child_of(q, c->parent, heir);

	if (!s || s == i)
		return 0;
	h = tb_at(q, s);
	tb_set_pass(q, r, h, tb_bounded_for(h->pass + tb_advance(tb_returned_ns(c->young_ns), TB_DRAW_ONE, h->tickets),
					    vnow, h->tickets, r->lag_ns, r->lag_ns));
	return 0;
}
