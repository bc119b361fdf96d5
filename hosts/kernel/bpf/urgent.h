/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which waiting threads have become urgent (turns.h), and the timer for what need not be done at once.
 */
#pragma once
#include "users.h"
#include "kthreads.h"

/* A thread may have become urgent while it waited. */
__noinline int step_urge(u32 leaf)
{
	struct run_queue *rq = the_queue();

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (tb_at(&rq->economy, leaf)->state & TB_QUEUED)
		wait_urgently(rq, leaf);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* Find the urgent ones among the waiting threads, of the slots from i up. */
__noinline int urge_waiting(u32 i)
{
	struct run_queue *rq = the_queue();

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		struct tb_client *c = tb_at(&rq->economy, i);

		if (i >= rq->economy.pool.fresh)
			break;
		if (c->kind == TB_KIND_THREAD && c->state & TB_QUEUED && may_be_urgent(rq, i) && !was_in_user_mode(i))
			step_urge(i);
		i++;
	}
	return 0;
}

/* The grace periods that lasted when the timer fired last; 0: none did. */
u64 lasting;
u64 lasting_expedited;

/* Does the grace period last that did at the last look? */
static __always_inline bool still_lasts(u64 sequence, u64 *last)
{
	bool same = sequence == *last;

	*last = sequence & 3 ? sequence : 0;
	return same && *last;
}

/* Called each second. If an RCU grace period has lasted since the last call, its readers among the waiting threads are urgent. */
static __always_inline void watch_grace_periods(struct run_queue *rq)
{
	const struct rcu_state *state = (const struct rcu_state *)&rcu_state;
	u64 sequence = 0, expedited = 0;
	bool lasts, lasts_expedited;

	if (!bpf_ksym_exists(&rcu_state))
		return;
	bpf_probe_read_kernel(&sequence, sizeof(sequence), &state->gp_seq);
	bpf_probe_read_kernel(&expedited, sizeof(expedited), &state->expedited_sequence);
	lasts = still_lasts(sequence, &lasting);
	lasts_expedited = still_lasts(expedited, &lasting_expedited);
	rq->grace_s = lasts || lasts_expedited ? rq->grace_s + 1 : 0;
	if (rq->grace_s)
		urge_waiting(FIRST_SLOT);
}

struct minor_timer {
	struct bpf_timer timer;
};

/*
 * A frozen thread gets a slice of SLICE_OVERDUE_NS each patience_ns. Otherwise the kernel's watchdog would call it a stall, and
 * a lock of the kernel's that it holds would never be released. An idle CPU does not call dispatch, so the timer kicks it. The
 * timer always runs: if a freeze started it, a user that freezes again and again would keep it from ever firing.
 */
static int minor_timer_fired(void *map, u32 *key, struct minor_timer *value)
{
	struct run_queue *rq = the_queue();

	bpf_timer_start(&value->timer, tombola_config.patience_ns / 5, 0);
	if (purge_pending) {
		purge_pending = 0;
		purge_users(FIRST_SLOT);
	}
	release_kthreads();
	if (!rq)
		return 0;
	watch_grace_periods(rq);
	if (tb_at(&rq->economy, TB_FROZEN)->active)
		kick_idle();
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct minor_timer);
} minor_timer SEC(".maps");

static __always_inline int minor_timer_init(void)
{
	u32 key = 0;
	struct minor_timer *timer = bpf_map_lookup_elem(&minor_timer, &key);

	if (!timer)
		return -EINVAL;
	bpf_timer_init(&timer->timer, &minor_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, minor_timer_fired);
	return (int)bpf_timer_start(&timer->timer, tombola_config.patience_ns / 5, 0);
}
