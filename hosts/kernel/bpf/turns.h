/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slices out of turn: for leaves that have waited too long, and for frozen threads that may hold a kernel lock. All of this is
 * done under the lock of the queue.
 */
#pragma once
#include "state.h"

/* A draw out of turn: the leaf has waited too long, or is frozen in a system call. */
#define DRAW_OVERDUE (1ull << 32)
#define DRAW_URGENT (1ull << 33)
/* Beside DRAW_OVERDUE: it has waited for so long that its slice ends as soon as it begins. */
#define DRAW_LATE (1ull << 34)

/*
 * Needs a frozen thread no more urgent turns? Its last stop was an interrupt in user mode, so it holds no kernel lock; or it has
 * used URGENT_MOST_NS since it was frozen.
 */
static __always_inline bool needs_no_turn(u32 leaf)
{
	struct client_state *state = state_of(leaf);

	return (state->interrupted_ns && state->interrupted_ns == task_at(leaf)->exec_ns) || state->frozen_ns > URGENT_MOST_NS;
}

/*
 * A leaf that waits and is frozen may hold a lock that others need, if its thread is in a system call. It gets its slices sooner,
 * until it is interrupted in user mode. If there are too many, the rest wait as long as any frozen thread.
 */
static __always_inline void wait_urgently(struct run_queue *rq, u32 leaf)
{
	struct urgent_leaf *urgent = &rq->urgent_leaves[rq->urgent_last & (NR_URGENT - 1)];
	u32 user = state_of(leaf)->user;

	if (needs_no_turn(leaf) || state_of(leaf)->urgent || rq->urgent_last - rq->urgent_first >= NR_URGENT ||
	    state_of(user)->nr_urgent >= NR_URGENT_OF_USER)
		return;
	urgent->number = number_of(leaf);
	urgent->user = user;
	state_of(leaf)->urgent = 1;
	rq->urgent_last++;
	state_of(user)->nr_urgent++;
}

/* The first urgent leaf, if it may run on a CPU of `mask`. */
static __noinline u32 next_urgent(struct run_queue *rq, u64 mask)
{
	struct urgent_leaf *first = &rq->urgent_leaves[rq->urgent_first & (NR_URGENT - 1)];
	struct tb_queue *q = &rq->economy;
	u32 leaf;

	if (rq->urgent_first == rq->urgent_last)
		return TB_NONE;
	leaf = client_of(q, first->number);
	rq->urgent_first++;
	state_of(first->user)->nr_urgent--;
	if (!leaf)
		return TB_NONE;
	state_of(leaf)->urgent = 0;
	if (!tb_frozen(q, leaf) || needs_no_turn(leaf) || !(tb_at(q, leaf)->state & TB_QUEUED))
		return TB_NONE;
	if (tb_at(q, leaf)->mask & mask)
		return leaf;
	/* Another CPU is to run it. */
	wait_urgently(rq, leaf);
	return TB_NONE;
}

/* On the CPU itself: a slice out of turn ends, if there is one. */
static __always_inline void end_turn(struct cpu *c, u64 now)
{
	if (!c->turn_ns)
		return;
	c->turn_took_ns = now - c->turn_ns;
	c->turn_end_ns = now;
	c->turn_ns = 0;
	c->late = TB_NONE;
}

/*
 * The leaf that gets the CPU out of turn. After such a slice a pause follows on a CPU that others want, so all such leaves
 * together get a small part of it, however many of them a user makes. Overdue and urgent leaves alternate. Once the overdue leaf
 * is late (4 x patience_ns), the pause is shorter and urgent ones wait; from 5 x patience_ns on, the pause and all slices in turn
 * are SLICE_MIN_NS.
 */
static __noinline u64 out_of_turn(struct run_queue *rq, struct cpu *c, u64 now, u64 mask, bool wanted)
{
	struct tb_queue *q = &rq->economy;
	u32 overdue = tb_overdue(q, now, tombola_config.patience_ns, mask), urgent = TB_NONE;
	u64 waited_ns = overdue ? now - tb_at(q, overdue)->since : 0, pause_ns;
	bool late = waited_ns >= 4 * tombola_config.patience_ns;

	pause_ns = c->turn_took_ns * (late ? LATE_PAUSE : c->turn_was_urgent ? URGENT_PAUSE : OVERDUE_PAUSE);
	c->shortest = waited_ns >= 5 * tombola_config.patience_ns;
	if (c->shortest)
		pause_ns = SLICE_MIN_NS;
	if (wanted && now - c->turn_end_ns < pause_ns)
		return TB_NONE;
	if (!overdue || (!c->turn_was_urgent && !late))
		urgent = next_urgent(rq, mask);
	if (urgent || overdue)
		c->turn_was_urgent = !!urgent;
	if (urgent)
		return urgent | DRAW_URGENT;
	if (!overdue)
		return TB_NONE;
	return overdue | DRAW_OVERDUE | (late ? DRAW_LATE : 0);
}
