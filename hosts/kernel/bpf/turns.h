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

/* A frozen thread that was interrupted in user mode holds no lock of the kernel's. One that never is gets URGENT_MOST_NS. */
static __always_inline bool needs_no_turn(u32 leaf)
{
	struct client_state *state = state_of(leaf);

	return (state->interrupted_ns && state->interrupted_ns == task_at(leaf)->exec_ns) || state->frozen_ns > URGENT_MOST_NS;
}

/*
 * A thread that is frozen in a system call may hold a lock that others need. It gets its slices sooner, until it is interrupted
 * in user mode. So do all threads that are frozen with a currency, since it is not known yet where they are. If there are too
 * many, the rest wait as long as any frozen thread.
 */
static __always_inline void wait_urgently(struct run_queue *rq, u32 client)
{
	struct urgent *urgent = &rq->urgent[rq->urgent_last & (NR_URGENT - 1)];
	u32 user = state_of(client)->user;

	if (needs_no_turn(client) || rq->urgent_last - rq->urgent_first >= NR_URGENT ||
	    state_of(user)->urgent >= NR_URGENT_OF_USER)
		return;
	urgent->number = number_of(client);
	urgent->user = user;
	rq->urgent_last++;
	state_of(user)->urgent++;
}

/* Of the leaves that wait in a client, or of the client itself if it is a leaf: the next one for a CPU of `mask`. */
static __noinline u32 first_in(struct tb_queue *q, u32 client, u64 mask)
{
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, client);

		if (!client || c->kind == TB_KIND_THREAD)
			break;
		client = tb_order_first(q, c, c->vnow + (1ull << 62), mask);
	}
	return tb_at(q, client)->state & TB_QUEUED && tb_at(q, client)->mask & mask ? client : TB_NONE;
}

/* The first urgent client's leaf for a CPU of `mask`. A currency goes back to the end, until its next leaf is done. */
static __noinline u32 next_urgent(struct run_queue *rq, u64 mask)
{
	struct urgent *first = &rq->urgent[rq->urgent_first & (NR_URGENT - 1)];
	struct tb_queue *q = &rq->economy;
	u32 client, leaf;

	if (rq->urgent_first == rq->urgent_last)
		return TB_NONE;
	client = client_of(q, first->number);
	rq->urgent_first++;
	state_of(first->user)->urgent--;
	if (!tb_frozen(q, client))
		return TB_NONE;
	leaf = first_in(q, client, mask);
	if (needs_no_turn(leaf))
		return TB_NONE;
	if (leaf != client && tb_at(q, client)->state & TB_QUEUED)
		wait_urgently(rq, client);
	return leaf;
}

/* On the CPU itself: a slice out of turn ends, if there is one. */
static __always_inline void end_turn(struct cpu *c, u64 now)
{
	if (!c->turn_ns)
		return;
	c->turn_took_ns = now - c->turn_ns;
	c->turn_end_ns = now;
	c->turn_ns = 0;
}

/*
 * The leaf that gets the CPU out of turn. After such a slice a pause follows on a CPU that others want, so all such leaves
 * together get a small part of it, however many of them a user makes. The pause is shorter when it becomes late for the oldest.
 * At last the pauses, and all slices in turn, are the shortest, also after a leaf whose system call could not be preempted.
 */
static __noinline u64 out_of_turn(struct run_queue *rq, struct cpu *c, u64 now, u64 mask, bool wanted)
{
	struct tb_queue *q = &rq->economy;
	u32 overdue = tb_overdue(q, now, tombola_config.patience_ns, mask), urgent = TB_NONE;
	u64 waited_ns = overdue ? now - tb_at(q, overdue)->since : 0, pause_ns;
	bool late = waited_ns >= 4 * tombola_config.patience_ns;

	pause_ns = c->turn_took_ns * (late ? LATE_PAUSE : c->urgent ? URGENT_PAUSE : OVERDUE_PAUSE);
	c->shortest = waited_ns >= 5 * tombola_config.patience_ns;
	if (c->shortest)
		pause_ns = SLICE_MIN_NS;
	if (wanted && now - c->turn_end_ns < pause_ns)
		return TB_NONE;
	if (!overdue || (!c->urgent && !late))
		urgent = next_urgent(rq, mask);
	c->urgent = !!urgent;
	if (urgent)
		return urgent | DRAW_URGENT;
	return overdue ? overdue | DRAW_OVERDUE : TB_NONE;
}
