/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Frozen threads that may hold a kernel lock, and the timer for frozen threads, which also does what need not be done at once.
 */
#pragma once
#include "users.h"
#include "kthreads.h"

/* A thread may have been frozen while it waited. */
__noinline int step_urge(u32 leaf)
{
	struct run_queue *rq = the_queue();

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (tb_at(&rq->economy, leaf)->state & TB_QUEUED && tb_frozen(&rq->economy, leaf))
		wait_urgently(rq, leaf);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* Of the slots from i up, find the waiting frozen threads that may hold a kernel lock (wait_urgently). */
__noinline int urge_frozen(u32 i)
{
	struct run_queue *rq = the_queue();

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		struct tb_client *c = tb_at(&rq->economy, i);

		if (i >= rq->economy.pool.fresh)
			break;
		if (c->kind == TB_KIND_THREAD && c->state & TB_QUEUED && !needs_no_turn(i) && !state_of(i)->urgent &&
		    state_of(state_of(i)->user)->nr_urgent < NR_URGENT_OF_USER && tb_frozen(&rq->economy, i))
			step_urge(i);
		i++;
	}
	return 0;
}

struct frozen_timer {
	struct bpf_timer timer;
};

/*
 * A frozen thread gets a slice of SLICE_OVERDUE_NS each patience_ns. Otherwise the kernel's watchdog would call it a stall, and
 * a lock of the kernel's that it holds would never be released. An idle CPU does not call dispatch, so the timer kicks it. The
 * timer always runs: if a freeze started it, a user that freezes again and again would keep it from ever firing.
 */
static int frozen_timer_fired(void *map, u32 *key, struct frozen_timer *value)
{
	struct run_queue *rq = the_queue();

	bpf_timer_start(&value->timer, tombola_config.patience_ns / 5, 0);
	if (purge_pending) {
		purge_pending = 0;
		purge_users(FIRST_SLOT);
	}
	release_kthreads();
	if (rq && tb_at(&rq->economy, TB_FROZEN)->active)
		kick_idle();
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct frozen_timer);
} frozen_timer SEC(".maps");

static __always_inline int frozen_timer_init(void)
{
	u32 key = 0;
	struct frozen_timer *timer = bpf_map_lookup_elem(&frozen_timer, &key);

	if (!timer)
		return -EINVAL;
	bpf_timer_init(&timer->timer, &frozen_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, frozen_timer_fired);
	return (int)bpf_timer_start(&timer->timer, tombola_config.patience_ns / 5, 0);
}
