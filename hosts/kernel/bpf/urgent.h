/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which waiting threads have become urgent (turns.h), and the timer for what need not be done at once.
 */
#pragma once
#include "users.h"
#include "kthreads.h"

/*
 * If a waiting thread has become urgent since it began to wait, add it to the urgent ones. Were the CPU idle where it ran last,
 * it would not look for it.
 */
__noinline int step_urge(u32 leaf)
{
	struct run_queue *rq = queue_of(leaf);
	bool added = false;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	/* The slot may have been given to a client of another kind since it was looked at. */
	if (tb_at(&rq->economy, leaf)->kind == TB_KIND_THREAD && tb_at(&rq->economy, leaf)->state & TB_QUEUED &&
	    (!several() || place_of_leaf(leaf) == rq->number))
		added = wait_urgently(rq, leaf);
	bpf_spin_unlock(&rq->lock);
	if (added)
		scx_bpf_kick_cpu((s32)task_at(leaf)->cpu, SCX_KICK_IDLE);
	return 0;
}

/* The same for each waiting thread of the slots from i up. Looks without the lock, so that only urgent ones take it. */
__noinline int urge_waiting(u32 i)
{
	struct run_queue *rq = first_queue();

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		struct tb_client *c = tb_at(&rq->economy, i);

		if (i >= tb_global_pool.fresh)
			break;
		rq = queue_of(i);
		if (!rq)
			break;
		if (c->kind == TB_KIND_THREAD && c->state & TB_QUEUED && becomes_urgent(rq, i) != URGENCIES)
			step_urge(i);
		i++;
	}
	return 0;
}

/* An RCU grace period, normal or expedited. */
struct grace {
	u64 sequence; /* its number when minor_timer fired last; 0: none lasted then */
	u32 seconds;  /* how often in a row the timer found one that it had found before */
} grace_normal, grace_expedited;

/* Of numbers between grace periods, the low bits are 0. */
static __always_inline void watch_grace_period(struct grace *grace, u64 sequence)
{
	grace->seconds = sequence & 3 && sequence == grace->sequence ? grace->seconds + 1 : 0;
	grace->sequence = sequence & 3 ? sequence : 0;
}

/*
 * Each second: has a grace period lasted since the last one? Then waiting threads that lost the CPU in an RCU read section are
 * urgent, also those that entered it later and do not keep this grace period from ending.
 */
static __always_inline void watch_grace_periods(void)
{
	const struct rcu_state *state = (const struct rcu_state *)tombola_config.rcu_state;
	u64 sequence = 0, expedited = 0;

	if (!state || !preempts_rcu_sections())
		return;
	bpf_probe_read_kernel(&sequence, sizeof(sequence), &state->gp_seq);
	bpf_probe_read_kernel(&expedited, sizeof(expedited), &state->expedited_sequence);
	watch_grace_period(&grace_normal, sequence);
	watch_grace_period(&grace_expedited, expedited);
	grace_s = (u32)tb_max(grace_normal.seconds, grace_expedited.seconds);
	if (grace_s)
		urge_waiting(FIRST_SLOT);
}

struct minor_timer {
	struct bpf_timer timer;
};

/*
 * Fires five times in patience_ns, for what need not be done at once: users without clients, kernel threads of CPUs that went
 * offline, grace periods that do not end, and idle CPUs, which do not call dispatch, for frozen threads.
 *
 * A frozen thread gets a slice of SLICE_OVERDUE_NS each patience_ns. Otherwise the kernel's watchdog would call it a stall, and
 * a lock of the kernel's that it holds would never be released. An idle CPU does not call dispatch, so the timer kicks it. The
 * timer always runs: if a freeze started it, a user that freezes again and again would keep it from ever firing.
 */
static int minor_timer_fired(void *map, u32 *key, struct minor_timer *value)
{
	bpf_timer_start(&value->timer, tombola_config.patience_ns / 5, 0);
	if (purge_pending) {
		purge_pending = 0;
		purge_users(FIRST_SLOT);
	}
	release_kthreads();
	watch_grace_periods();
	if (frozen_are_active())
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
