/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Slices out of turn: for leaves that have waited too long, and for urgent ones. All of this is done under the lock of the queue.
 *
 * A leaf that waits is urgent if others may wait for its thread:
 *
 *   - It is frozen in a system call, and may hold a kernel lock.
 *   - It lost the CPU in an RCU read section, and a grace period does not end (grace_s). The kernel reports a stall after 21 s,
 *     and ends the scheduler.
 *
 * Where the next leaf is of the same user, an urgent one runs instead, at once: nobody else's turn is taken. Otherwise a pause
 * follows each slice out of turn on a CPU that others want, so all such leaves together get a small part of it, however many of
 * them a user makes.
 */
#pragma once
#include "state.h"

/* A draw out of turn: the leaf has waited too long, or is frozen in a system call. */
#define DRAW_OVERDUE (1ull << 32)
#define DRAW_URGENT (1ull << 33)
/* Beside DRAW_OVERDUE: it has waited for so long that its slice ends as soon as it begins. */
#define DRAW_LATE (1ull << 34)

static __always_inline bool is_stuck_reader(struct run_queue *rq, u32 leaf)
{
	return rq->grace_s && state_of(leaf)->interrupted_ns == IN_RCU_SECTION;
}

/* Was its last stop an interrupt in user mode? Then it holds no kernel lock. */
static __always_inline bool was_in_user_mode(u32 leaf)
{
	struct client_state *state = state_of(leaf);

	return state->interrupted_ns && state->interrupted_ns == task_at(leaf)->exec_ns;
}

/* May a leaf that waits hold others up? A frozen one no more once it has used URGENT_MOST_NS since it was frozen. */
static __always_inline bool is_urgent(struct run_queue *rq, u32 leaf)
{
	return is_stuck_reader(rq, leaf) || (!was_in_user_mode(leaf) && state_of(leaf)->frozen_ns <= URGENT_MOST_NS &&
					     tb_frozen(&rq->economy, leaf));
}

/* May the user have one more urgent leaf? */
static __always_inline bool may_be_urgent(struct run_queue *rq, u32 leaf)
{
	u32 most = is_stuck_reader(rq, leaf) ? NR_READERS_OF_USER : NR_FROZEN_OF_USER;

	return !state_of(leaf)->urgent && state_of(state_of(leaf)->user)->nr_urgent < most;
}

static __always_inline void add_urgent(struct run_queue *rq, u32 leaf)
{
	struct urgent_leaf *urgent = &urgent_leaves[rq->urgent_last & (NR_URGENT - 1)];
	u32 user = state_of(leaf)->user;

	urgent->number = number_of(leaf);
	urgent->user = user;
	state_of(leaf)->urgent = 1;
	rq->urgent_last++;
	state_of(user)->nr_urgent++;
}

/* A leaf that waits gets its slices sooner if it is urgent. If there are too many, the rest wait as long as any other. */
static __always_inline void wait_urgently(struct run_queue *rq, u32 leaf)
{
	if (may_be_urgent(rq, leaf) && rq->urgent_last - rq->urgent_first < NR_URGENT && is_urgent(rq, leaf))
		add_urgent(rq, leaf);
}

/* The first urgent leaf, if it may run on a CPU of `mask`. */
static __noinline u32 next_urgent(struct run_queue *rq, u64 mask)
{
	struct urgent_leaf *first = &urgent_leaves[rq->urgent_first & (NR_URGENT - 1)];
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
	if (!(tb_at(q, leaf)->state & TB_QUEUED) || !is_urgent(rq, leaf))
		return TB_NONE;
	if (tb_at(q, leaf)->mask & mask)
		return leaf;
	/* Another CPU is to run it. */
	add_urgent(rq, leaf);
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

/* Is the first urgent leaf of the same user as `next`? */
static __always_inline bool is_own_turn(struct run_queue *rq, u32 next)
{
	return next && rq->urgent_first != rq->urgent_last &&
	       urgent_leaves[rq->urgent_first & (NR_URGENT - 1)].user == state_of(next)->user;
}

/*
 * The leaf that gets the CPU: `next`, which is TB_NONE on a CPU that nobody wants, or one out of turn. Overdue and urgent leaves
 * alternate. Once the overdue leaf is late (4 x patience_ns), the pause is shorter and frozen ones wait; from 5 x patience_ns on,
 * the pause and all slices in turn are SLICE_MIN_NS. If a grace period is late (GRACE_LATE_S), the pause is shorter, too.
 */
static __noinline u64 out_of_turn(struct run_queue *rq, struct cpu *c, u64 now, u64 mask, u32 next)
{
	struct tb_queue *q = &rq->economy;
	u32 overdue = tb_overdue(q, now, tombola_config.patience_ns, mask), urgent = TB_NONE;
	u64 waited_ns = overdue ? now - tb_at(q, overdue)->since : 0, pause_ns;
	bool late = waited_ns >= 4 * tombola_config.patience_ns, pausing;

	pause_ns = late || rq->grace_s >= GRACE_LATE_S ? LATE_PAUSE : c->turn_was_urgent ? URGENT_PAUSE : OVERDUE_PAUSE;
	pause_ns *= c->turn_took_ns;
	c->shortest = waited_ns >= 5 * tombola_config.patience_ns;
	if (c->shortest)
		pause_ns = SLICE_MIN_NS;
	pausing = (next || c->kthreads) && now - c->turn_end_ns < pause_ns;
	if (pausing ? is_own_turn(rq, next) && !c->shortest : !overdue || (!c->turn_was_urgent && (!late || rq->grace_s)))
		urgent = next_urgent(rq, mask);
	if (!urgent && (pausing || !overdue))
		return next;
	if (!pausing) {
		c->turn_was_urgent = !!urgent;
		c->turn_ns = now;
	}
	if (urgent)
		return urgent | DRAW_URGENT;
	return overdue | DRAW_OVERDUE | (late ? DRAW_LATE : 0);
}
