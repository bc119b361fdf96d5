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
 * cpu.end_ns and cpu.leaf are written by their own CPU and by wake-ups elsewhere, under the lock; the timer reads them
 * without it. A stale end ends a slice one plan too early or leaves it to the tick; what was used is charged either way.
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

/* An end that is nearer than this to the timer's time is met by it. */
#define TIMER_SLACK_NS 50000ull

static __always_inline u64 slice_for(u32 waiting)
{
	u64 quantum_ns = tombola_config.rules.quantum_ns;

	if (!waiting)
		return quantum_ns > SLICE_ALONE_NS ? quantum_ns : SLICE_ALONE_NS;
	if (waiting * quantum_ns > ROUND_NS)
		quantum_ns = ROUND_NS / waiting;
	return quantum_ns < SLICE_MIN_NS ? SLICE_MIN_NS : quantum_ns;
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

	if (tombola_config.tick_slices || (c->armed && (s64)(c->end_ns + TIMER_SLACK_NS - c->timer_ns) >= 0))
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
