/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * CPUs: which are active, on which of them a thread may run, and the masks that say so in the economy.
 *
 * A mask is of one run queue. With one queue, a CPU's bit is its number mod 64; on a machine with more than 64 CPUs all masks are
 * full then, and only dispatch_task looks at a thread's affinity. With several queues each CPU of a queue has a bit of its own.
 */
#pragma once
#include "state.h"

/* A CPU's bit in the masks of its queue. */
static __always_inline u64 cpu_mask(s32 cpu)
{
	u32 bit = several() ? cpu_places[(u32)cpu & (NR_CPUS - 1)].bit : (u32)cpu;

	return 1ull << (bit & 63);
}

/* The CPUs that the kernel has as active, of 64 from 64 x word on. */
static __always_inline u64 active_cpus(u32 word)
{
	u64 active = 0;

	bpf_probe_read_kernel(&active, sizeof(active), (const u64 *)tombola_config.active_cpus + word);
	return active;
}

/*
 * Has a CPU ceased to call dispatch: is it offline, or going offline? It stops when it is no longer active. The kernel tells us
 * (ops.cpu_offline) only after all RCU readers have finished, and one of them may wait for that very CPU.
 */
static __always_inline bool is_inactive(s32 cpu)
{
	return tombola_config.nr_cpus > 1 && !(active_cpus(((u32)cpu & (NR_CPUS - 1)) / 64) & 1ull << ((u32)cpu & 63));
}

/* All queues have as many. */
#define CPUS_OF_A_QUEUE (several() ? queue_cpus[0].cpus : tombola_config.nr_cpus)

enum which { ALL_CPUS, ACTIVE_CPUS, INACTIVE_CPUS };

/*
 * The mask of the CPUs of a queue that are in the cpumask at address `set` (0: in any), and active or inactive. A global function
 * of scalars, like steps (steps.h).
 */
__noinline u64 mask_on(u32 queue, u64 set, u32 which)
{
	u64 mask = 0;

	for (u32 w = 0; w < NR_CPU_WORDS && can_loop; w++) {
		u64 bits, allowed = ~0ull;
		u32 word = w, turn;

		/* Masked for the verifier; the compiler, which knows the range, would drop the mask. */
		asm volatile("" : "+r"(word));
		word &= NR_CPU_WORDS - 1;
		bits = queue_cpus[queue & (NR_QUEUES - 1)].words[word];
		turn = queue_cpus[queue & (NR_QUEUES - 1)].turns[word] & 63;
		if (!bits)
			continue;
		if (set)
			bpf_probe_read_kernel(&allowed, sizeof(allowed), (const u64 *)set + word);
		bits &= allowed;
		if (which != ALL_CPUS)
			bits &= active_cpus(word) ^ (which == INACTIVE_CPUS ? ~0ull : 0);
		mask |= bits << turn | bits >> (-turn & 63);
	}
	return mask;
}

/*
 * The inactive CPUs of a queue. A thread all of whose CPUs there are inactive waits until the kernel lifts its affinity, which
 * happens when it is put on the dying CPU. So any CPU may draw it, and sends it there.
 */
static __always_inline u64 inactive_cpus(u32 queue)
{
	if (tombola_config.nr_cpus == 1)
		return 0;
	if (several())
		return mask_on(queue, 0, INACTIVE_CPUS);
	if (tombola_config.nr_cpus > 64)
		return 0;
	return ~active_cpus(0) & (tombola_config.nr_cpus == 64 ? ~0ull : (1ull << (tombola_config.nr_cpus & 63)) - 1);
}

/* Make idle CPUs call dispatch. */
static __noinline int kick_idle(void)
{
	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		if (cpu >= tombola_config.nr_cpus)
			break;
		scx_bpf_kick_cpu((s32)cpu, SCX_KICK_IDLE);
	}
	return 0;
}

/*
 * Does a thread have migration disabled? A running BPF program itself disables it for the current thread, so there the first
 * count means nothing.
 */
static __always_inline bool is_bound(struct task_struct *p)
{
	return p->migration_disabled > (p == bpf_get_current_task_btf());
}

/* The address of the mask of the CPUs on which a thread may run. */
static __always_inline u64 cpus_of(struct task_struct *p)
{
	u64 address = 0;

	bpf_core_read(&address, sizeof(address), &p->cpus_ptr);
	return address;
}

/* The same as mask_of, of a thread that may not run on all CPUs of the machine. */
static __always_inline u64 mask_among_several(struct task_struct *p, u32 queue)
{
	u64 mask = mask_on(queue, cpus_of(p), ACTIVE_CPUS);

	/* It may run on all CPUs of this queue. */
	if (mask == mask_on(queue, 0, ACTIVE_CPUS))
		return ~0ull;
	if (!mask)
		mask = mask_on(queue, cpus_of(p), ALL_CPUS);
	/* It may run on none: it is here until it goes to another queue, and dispatch_task sends it to its CPU. */
	return mask ? mask : ~0ull;
}

/* CPUs of a queue on which a thread may run, inactive ones only if there is no other. */
static __always_inline u64 mask_of(struct task_struct *p, u32 queue)
{
	u64 mask;
	s32 cpu;

	if (is_bound(p)) {
		cpu = scx_bpf_task_cpu(p);
		return place_of_cpu(cpu) == queue ? cpu_mask(cpu) : ~0ull;
	}
	if ((u32)p->nr_cpus_allowed >= tombola_config.nr_cpus)
		return ~0ull;
	if (several())
		return mask_among_several(p, queue);
	if (tombola_config.nr_cpus > 64)
		return ~0ull;
	mask = p->cpus_ptr->bits[0] & ~inactive_cpus(queue);
	return mask ? mask : p->cpus_ptr->bits[0];
}

/* The active CPUs on which a thread may run, if not all; else 0. CPU n has bit n mod 64. */
static __noinline u64 reach_of(struct task_struct *p)
{
	u64 reach = 0, set = cpus_of(p);

	if (is_bound(p))
		return 1ull << (scx_bpf_task_cpu(p) & 63);
	if ((u32)p->nr_cpus_allowed >= tombola_config.nr_cpus)
		return 0;
	for (u32 word = 0; word < NR_CPU_WORDS && can_loop; word++) {
		u64 allowed = 0;

		bpf_probe_read_kernel(&allowed, sizeof(allowed), (const u64 *)set + word);
		reach |= allowed & active_cpus(word);
	}
	return reach;
}

/* The queues with an active CPU on which a thread may run, a bit each. */
static __noinline u64 queues_of(struct task_struct *p)
{
	u64 queues = 0;

	if (is_bound(p))
		return 1ull << (place_of_cpu(scx_bpf_task_cpu(p)) & 63);
	for_each_queue(queue) {
		if (mask_on(queue, cpus_of(p), ACTIVE_CPUS))
			queues |= 1ull << queue;
	}
	return queues;
}

/* Several run queues: where a thread may run now. */
static __always_inline void note_affinity(struct task *t, struct task_struct *p)
{
	t->queues = queues_of(p);
	t->reach = reach_of(p);
}
