/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slices out of turn: for leaves that have waited too long, and for urgent ones. All of this is done under the lock of the queue,
 * but for end_turn.
 *
 * A leaf that waits is urgent if others may wait for its thread:
 *
 *   - It is frozen in a system call, and may hold a kernel lock.
 *   - It lost the CPU in an RCU read section, or where it left one, and a grace period does not end (grace_s). The kernel reports
 *     a stall after 21 s, and ends the scheduler.
 *
 * Where the next leaf is of the user that pays for the first urgent leaf of a kind, that one runs instead, at once: nobody else's
 * turn is taken. Elsewhere a pause follows each slice out of turn on a CPU that others want. So all such leaves together get a
 * small part of it, however many of them a user makes.
 */
#pragma once
#include "paying.h"

/* A draw that is not the next leaf: the leaf has waited too long, or is urgent. */
#define DRAW_OVERDUE (1ull << 32)
#define DRAW_URGENT (1ull << 33)
/* No draw: this account was picked, but is to rest (tb_rests). */
#define DRAW_AGAIN (1ull << 34)
/* With DRAW_URGENT: it has a longer turn, as no other is to run. */
#define DRAW_LONGER (1ull << 35)

static __always_inline bool is_stuck_reader(struct run_queue *rq, u32 leaf)
{
	return grace_s && state_of(leaf)->stopped_at >= LEFT_RCU_SECTION;
}

/* Is it frozen where it may hold a kernel lock? Not if it lost the CPU in user mode. */
static __always_inline bool is_frozen_inside(struct run_queue *rq, u32 leaf)
{
	u64 stopped_at = state_of(leaf)->stopped_at;

	return !(stopped_at && stopped_at == task_at(leaf)->exec_ns) && is_frozen(&rq->economy, leaf);
}

/* Has it had all its time as an urgent leaf since it was frozen? */
static __always_inline bool has_spent(u32 leaf)
{
	return state_of(leaf)->frozen_ns > URGENT_MOST_NS;
}

static __always_inline bool has_room(struct run_queue *rq, u32 leaf, enum urgency why)
{
	struct urgent_leaves *urgent = urgent_of(rq, why);
	u32 most = why == URGENT_READER ? NR_READERS_OF_USER : NR_FROZEN_OF_USER;

	return !(state_of(leaf)->urgent & 1 << why) && state_of(state_of(leaf)->user)->nr_urgent[why] < most &&
	       urgent->last - urgent->first < NR_URGENT;
}

static __always_inline void add_urgent(struct urgent_leaves *list, u32 leaf, enum urgency why)
{
	struct urgent_leaf *urgent = &list->leaf[list->last & (NR_URGENT - 1)];
	u32 user = state_of(leaf)->user;

	urgent->number = number_of(leaf);
	urgent->user = user;
	state_of(leaf)->urgent |= 1 << why;
	list->last++;
	__sync_fetch_and_add(&state_of(user)->nr_urgent[why], 1);
}

/* Why a waiting leaf is to be added to the urgent ones; URGENCIES: it is not. If there are too many, the rest wait as usual. */
static __always_inline enum urgency becomes_urgent(struct run_queue *rq, u32 leaf)
{
	enum urgency why = is_stuck_reader(rq, leaf) ? URGENT_READER : URGENT_FROZEN;

	return has_room(rq, leaf, why) && (why == URGENT_READER || is_frozen_inside(rq, leaf)) ? why : URGENCIES;
}

/* Add it, if it is urgent. */
static __always_inline bool wait_urgently(struct run_queue *rq, u32 leaf)
{
	enum urgency why = becomes_urgent(rq, leaf);

	if (why == URGENCIES)
		return false;
	add_urgent(urgent_of(rq, why & 1), leaf, why & 1);
	return true;
}

/* The leaf that became urgent first; TB_NONE if it was removed since, or there is none. */
static __always_inline u32 first_urgent(struct tb_queue *q, const struct urgent_leaves *list)
{
	return list->first == list->last ? TB_NONE : client_of(q, list->leaf[list->first & (NR_URGENT - 1)].number);
}

/* Remove it, and return it if it still waits here, is urgent and may run on `mask`; or else TB_NONE. */
static __noinline u32 take_urgent(struct run_queue *rq, u64 mask, enum urgency why)
{
	struct urgent_leaves *list = urgent_of(rq, why & 1);
	struct tb_queue *q = &rq->economy;
	u32 leaf, user;

	if (list->first == list->last)
		return TB_NONE;
	leaf = first_urgent(q, list);
	user = list->leaf[list->first++ & (NR_URGENT - 1)].user;
	/* Its user may have had no other clients for some time (purge_users). */
	if (__sync_fetch_and_sub(&state_of(user)->nr_urgent[why & 1], 1) == 1 && !state_of(user)->owned)
		purge_pending = 1;
	if (!leaf)
		return TB_NONE;
	state_of(leaf)->urgent &= ~(1 << (why & 1));
	if ((several() && place_of_leaf(leaf) != rq->number) || !(tb_at(q, leaf)->state & TB_QUEUED) ||
	    !(is_stuck_reader(rq, leaf) || is_frozen_inside(rq, leaf)))
		return TB_NONE;
	if (tb_at(q, leaf)->mask & mask)
		return leaf;
	/* Another CPU is to run it. */
	add_urgent(list, leaf, why & 1);
	return TB_NONE;
}

static __always_inline bool is_empty(const struct urgent_leaves *urgent)
{
	return urgent->first == urgent->last;
}

static __always_inline bool urgent_wait(struct run_queue *rq)
{
	return !is_empty(urgent_of(rq, URGENT_FROZEN)) || !is_empty(urgent_of(rq, URGENT_READER));
}

/*
 * On the CPU itself: the slice out of turn ends. Called when its leaf stops, not only at the next draw: a real-time task that has
 * the CPU until then must not make the pause longer.
 */
static __always_inline void end_turn(struct cpu *c, u64 now)
{
	c->turn_took_ns = now - c->turn_ns;
	c->turn_end_ns = now;
	c->turn_leaf = TB_NONE;
	c->late = TB_NONE;
}

/* The user of best effort that pays for a leaf; TB_NONE: none does. */
static __noinline u32 paying_user(struct tb_queue *q, u32 leaf)
{
	return user_around(q, is_frozen(q, leaf) ? pays_for(q, leaf) : leaf);
}

/* Does the user of `next` pay for the first urgent leaf of a kind? Not for ever: a frozen leaf would not stop. */
static __always_inline bool is_own_turn(struct run_queue *rq, u32 next, enum urgency why)
{
	struct tb_queue *q = &rq->economy;
	u32 user = user_around(q, next), first = first_urgent(q, urgent_of(rq, why & 1));

	return user && !has_spent(first) && paying_user(q, first) == user;
}

/* The kinds take turns. */
static __always_inline enum urgency next_urgency(struct run_queue *rq)
{
	rq->last_urgency = (rq->last_urgency ^ 1) & 1;
	return is_empty(urgent_of(rq, rq->last_urgency)) ? rq->last_urgency ^ 1 : rq->last_urgency;
}

/*
 * The leaf that gets the CPU: `next` (TB_NONE: no leaf is to run in turn), or one out of turn. Overdue and urgent leaves
 * alternate. Once the overdue leaf is late (4 x patience_ns), the pause is shorter, and urgent leaves wait unless a grace period
 * lasts (grace_s). From 5 x patience_ns on, the pause and all slices in turn are SLICE_MIN_NS. While a grace period is late
 * (GRACE_LATE_S), the pause after an urgent turn is shorter, too.
 */
static __noinline u64 out_of_turn(struct run_queue *rq, struct cpu *c, u64 now, u64 mask, u32 next)
{
	struct tb_queue *q = &rq->economy;
	u32 overdue = thread_of(q, tb_overdue(q, now, tombola_config.patience_ns, mask)), urgent = TB_NONE;
	u64 waited_ns = overdue ? now - tb_at(q, overdue)->since : 0, pause_ns = c->turn_pause;
	bool was_urgent = c->turn_pause != OVERDUE_PAUSE, late = waited_ns >= 4 * tombola_config.patience_ns, pausing;
	enum urgency why = next_urgency(rq);

	if (late || (was_urgent && grace_s >= GRACE_LATE_S))
		pause_ns = LATE_PAUSE;
	pause_ns *= c->turn_took_ns;
	c->shortest = waited_ns >= 5 * tombola_config.patience_ns;
	if (c->shortest)
		pause_ns = SLICE_MIN_NS;
	pausing = (next || c->kthreads || c->turn_pause == SPENT_PAUSE) && now - c->turn_end_ns < pause_ns;
	if (pausing ? !c->shortest && is_own_turn(rq, next, why) : !overdue || (!was_urgent && (!late || grace_s)))
		urgent = take_urgent(rq, mask, why);
	if (!urgent && (pausing || !overdue))
		return next;
	if (!pausing) {
		c->turn_pause = !urgent ? OVERDUE_PAUSE : has_spent(urgent) ? SPENT_PAUSE : URGENT_PAUSE;
		c->turn_leaf = urgent ? urgent : overdue;
		c->late = late && !urgent ? overdue : TB_NONE;
		c->turn_ns = now;
	}
	if (urgent)
		return urgent | DRAW_URGENT | (next || c->kthreads || !has_spent(urgent) ? 0 : DRAW_LONGER);
	return overdue | DRAW_OVERDUE;
}
