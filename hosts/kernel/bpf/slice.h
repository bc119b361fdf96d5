/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a slice is, and what ends it.
 *
 * sched_ext checks slices at the tick, every 4 ms at HZ=250. Shares over short windows need shorter slices, so each CPU has a
 * timer that ends them. The first slice that needs the timer arms it; after that the timer rearms itself. When it fires at a
 * slice's end, it preempts and rearms for one quantum. When it fires early, because the slice has changed meanwhile, it rearms
 * for the rest. Only a slice that must end before the timer would fire sets it anew.
 *
 * A CPU writes its own struct cpu without our lock. In all operations for a CPU the kernel has the lock of that CPU's own run
 * queue. Other CPUs write under ours: a wake-up end_ns, next, preempted and recheck; step_settle_running and step_reclaim
 * since_ns. A CPU that enqueues a kernel thread for another one writes that one's kthreads, under the kernel's lock. The timer
 * reads end_ns and leaf without ours. A stale end_ns ends a slice too early or leaves it to the tick; what was used is charged
 * either way.
 */
#pragma once
#include "state.h"

struct slice_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_CPUS);
	__type(key, u32);
	__type(value, struct slice_timer);
} slice_timers SEC(".maps");

/* The timer ends a slice that is to end within this time of it. */
#define TIMER_SLACK_NS 50000ull

/*
 * How long a thread may run. A client with few tickets beside its neighbours gets shorter slices, and so gets them more often.
 * With 20 tickets beside 6000, a quantum of 1 ms comes three times a second, and one quantum more or less is 1 % of what is due
 * in 30 s; with a quarter of it, in 8 s. Below a quarter, switches would cost more than they gain. With many threads, slices are
 * shorter, so that each thread runs within ROUND_NS. Only clients of the thread's own currencies count for this: the many threads
 * of one user must not shorten the slices of others.
 *
 * Read without the lock: a change meanwhile makes one slice longer or shorter, and what is used is charged.
 */
static __noinline u64 slice_for(struct tb_queue *q, u32 leaf, u32 waiting)
{
	u64 slice_ns = tombola_config.rules.quantum_ns, sharing = 1;
	u32 halvings = 0;

	if (!waiting)
		return slice_ns > SLICE_ALONE_NS ? slice_ns : SLICE_ALONE_NS;
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, leaf), *p = tb_at(q, c->parent);
		u64 beside_mean = (u64)c->tickets * p->active;

		if (!c->parent)
			break;
		if (c->kind == TB_KIND_RESERVATION) {
			halvings += tb_halvings(c);
			break;
		}
		if (sharing < ROUND_NS / SLICE_MIN_NS)
			sharing *= p->active;
		if (halvings < SLICE_HALVINGS_MAX && beside_mean * 2 <= p->weight)
			halvings = beside_mean * 4 <= p->weight ? 2 : 1;
		leaf = c->parent;
	}
	if (sharing * slice_ns > ROUND_NS)
		slice_ns = ROUND_NS / sharing;
	if (!tombola_config.rules.lottery)
		slice_ns >>= halvings;
	return slice_ns < SLICE_MIN_NS ? SLICE_MIN_NS : slice_ns;
}

static __always_inline bool slice_is_over(const struct cpu *c, u64 now)
{
	return (s64)(now + TIMER_SLACK_NS - c->end_ns) >= 0;
}

static int slice_timer_fired(void *map, u32 *key, struct slice_timer *value)
{
	struct cpu *c = cpu_of((s32)*key);
	u64 now = now_ns(), next = tombola_config.rules.quantum_ns;
	bool over;

	/* No slice is to end, or the CPU went offline and left its timer to another: the next slice there arms it. */
	if (!c->end_ns || bpf_get_smp_processor_id() != *key) {
		c->armed = 0;
		return 0;
	}
	over = slice_is_over(c, now);
	if (over)
		scx_bpf_kick_cpu((s32)*key, SCX_KICK_PREEMPT);
	else
		next = c->end_ns - now;
	/* It was armed for one slice: that of a kernel thread, or one that is shorter than a tick. */
	if (tombola_config.tick_slices || (over && !c->leaf)) {
		c->armed = 0;
		return 0;
	}
	c->timer_ns = now + next;
	bpf_timer_start(&value->timer, next, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/*
 * A slice is over on a CPU of this queue and a thread waits: lone threads on its other CPUs must share theirs from now on.
 * Returns whether there are any.
 */
static __noinline u32 slices_share(struct run_queue *rq, u32 place, u64 now)
{
	u32 kicked = 0;

	rq->lone_slices = 0;
	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		if (cpu >= tombola_config.nr_cpus)
			break;
		if (place_of_cpu((s32)cpu) == place && cpus[cpu].leaf &&
		    (s64)(cpus[cpu].end_ns - now - tombola_config.rules.quantum_ns) > 0) {
			scx_bpf_kick_cpu((s32)cpu, SCX_KICK_PREEMPT);
			kicked = 1;
		}
	}
	return kicked;
}

/* On the CPU itself: make the timer fire by the slice's end. */
static __always_inline void slice_timer_wind(s32 cpu, struct cpu *c, u64 now)
{
	u32 key = (u32)cpu;
	struct slice_timer *timer;
	u64 left_ns = c->end_ns - now;

	if ((tombola_config.tick_slices && left_ns > SLICE_URGENT_NS) ||
	    (c->armed && (s64)(c->end_ns + TIMER_SLACK_NS - c->timer_ns) >= 0))
		return;
	timer = bpf_map_lookup_elem(&slice_timers, &key);
	if (!timer)
		return;
	if ((s64)left_ns < 0)
		left_ns = 0;
	c->timer_ns = now + left_ns;
	c->armed = 1;
	bpf_timer_start(&timer->timer, left_ns, BPF_F_TIMER_CPU_PIN);
}

static __always_inline int slice_timers_init(void)
{
	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		u32 key = cpu;
		struct slice_timer *timer;

		if (cpu >= tombola_config.nr_cpus)
			break;
		timer = bpf_map_lookup_elem(&slice_timers, &key);
		if (!timer)
			return -EINVAL;
		bpf_timer_init(&timer->timer, &slice_timers, CLOCK_MONOTONIC);
		bpf_timer_set_callback(&timer->timer, slice_timer_fired);
	}
	return 0;
}
