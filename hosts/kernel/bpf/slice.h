/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a slice is, and what ends it.
 *
 * sched_ext looks at slices at the tick, 4 ms apart at HZ=250. Shares over short windows want shorter ones, so each CPU has
 * a timer that ends the slice where it should. It is armed once, by the first slice that needs it, and then goes from slice
 * to slice by itself: when it fires at a slice's end it takes the CPU away and winds itself up for one quantum more; when
 * it fires early, because a wake-up has changed the plan meanwhile, for what is left. Only a slice that must end before the
 * timer would fire winds it anew.
 *
 * cpu.end_ns and cpu.leaf are written by their own CPU without the lock, end_ns also by wake-ups elsewhere under it; the timer
 * reads them without it. A stale end ends a slice one plan too early or leaves it to the tick; what was used is charged either
 * way.
 */
#pragma once
#include "users.h"

struct slice_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_CPUS);
	__type(key, u32);
	__type(value, struct slice_timer);
} slice_timers SEC(".maps");

/* An end that is nearer than this to the timer's time is met by it. */
#define TIMER_SLACK_NS 50000ull

/*
 * How long a thread may run. Who holds few tickets beside its neighbours runs less at a time, and so the more often. Between 20
 * tickets and 6000 of others a quantum of 1 ms comes three times a second, and whether one came just now or comes just then is
 * 1 % of what is due in 30 s; a quarter of it makes that 8 s. Beyond a quarter, switches would cost more than they bring. Of
 * many, each runs less at a time, so that all have a turn within ROUND_NS; how many there are is counted in the thread's own
 * currencies only, for other users are not to have shorter slices because one has many threads.
 *
 * Read without the lock: an account that changes meanwhile makes one slice longer or shorter, and what is used is charged.
 */
static __noinline u64 slice_for(struct tb_queue *q, u32 leaf, u32 waiting)
{
	u64 slice_ns = tombola_config.rules.quantum_ns, turns = 1;
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
		if (turns < ROUND_NS / SLICE_MIN_NS)
			turns *= p->active;
		if (halvings < SLICE_HALVINGS_MAX && beside_mean * 2 <= p->weight)
			halvings = beside_mean * 4 <= p->weight ? 2 : 1;
		leaf = c->parent;
	}
	if (turns * slice_ns > ROUND_NS)
		slice_ns = ROUND_NS / turns;
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

	/* Nobody's slice, or a CPU that went offline and left its timer to another: the next slice there winds it up. */
	if (!c->leaf || bpf_get_smp_processor_id() != *key) {
		c->armed = 0;
		return 0;
	}
	if (slice_is_over(c, now))
		scx_bpf_kick_cpu((s32)*key, SCX_KICK_PREEMPT);
	else
		next = c->end_ns - now;
	/* It was for one turn that is shorter than a tick. */
	if (tombola_config.tick_slices) {
		c->armed = 0;
		return 0;
	}
	c->timer_ns = now + next;
	bpf_timer_start(&value->timer, next, BPF_F_TIMER_CPU_PIN);
	return 0;
}

/* A slice is over and somebody waits: those who have a CPU to themselves must share it from now on. */
static __noinline int slices_share(u64 now)
{
	lone_slices = 0;
	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		if (cpu >= tombola_config.nr_cpus)
			break;
		if (cpus[cpu].leaf && (s64)(cpus[cpu].end_ns - now - tombola_config.rules.quantum_ns) > 0)
			scx_bpf_kick_cpu((s32)cpu, SCX_KICK_PREEMPT);
	}
	return 0;
}

/* On the CPU itself: see that the timer fires by the slice's end. */
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

/*
 * Who is frozen has a turn of the shortest slice each config.patience_ns, or the kernel would call it a stall, and a lock of the
 * kernel's that it holds would be held for ever. On a CPU where nobody else wants to run, nobody asks: it is made to. The timer
 * goes on by itself: if freezing somebody started it, who freezes again and again would keep it from ever firing. It also looks
 * for users who have gone.
 */
static int frozen_timer_fired(void *map, u32 *key, struct slice_timer *value)
{
	struct run_queue *rq = queue_of(0);

	bpf_timer_start(&value->timer, tombola_config.patience_ns / 5, 0);
	if (users_left) {
		users_left = 0;
		purge_users(TB_FROZEN);
	}
	if (rq && tb_at(&rq->economy, TB_FROZEN)->active)
		kick_idle();
	return 0;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct slice_timer);
} frozen_timer SEC(".maps");

static __always_inline int frozen_timer_init(void)
{
	u32 key = 0;
	struct slice_timer *timer = bpf_map_lookup_elem(&frozen_timer, &key);

	if (!timer)
		return -EINVAL;
	bpf_timer_init(&timer->timer, &frozen_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, frozen_timer_fired);
	return (int)bpf_timer_start(&timer->timer, tombola_config.patience_ns / 5, 0);
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
