/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel threads, and user threads in the last steps of their exit, do not wait for tickets. A kernel thread that wakes up
 * preempts; an exiting thread is the next one in the local DSQ. One whose slice is over waits in a DSQ of its CPU's own. Such
 * threads and draws alternate: a quantum of draws, then a slice of a quantum, which a waking thread may end after protect_ns, or
 * at once from another CPU or with tick_slices. In the local DSQ two of them would keep all others from the CPU for as long as
 * they compute: the kernel does not call dispatch while the local DSQ has a thread.
 */
#pragma once
#include "slice.h"

/* DSQ n is CPU n's. The kernel has locked the run queue of that CPU, as in run_kthread. */
static __always_inline void insert_kthread(struct task_struct *p, u64 enq_flags)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (enq_flags & SCX_ENQ_WAKEUP) {
		/* An exiting thread does not preempt others. */
		if (!task_of(p)->client)
			enq_flags |= SCX_ENQ_PREEMPT;
		scx_bpf_dsq_insert(p, TB_DSQ_LOCAL, tombola_config.rules.quantum_ns, enq_flags);
		return;
	}
	cpu_of(cpu)->kthreads = 1;
	scx_bpf_dsq_insert(p, (u32)cpu, tombola_config.rules.quantum_ns, enq_flags);
}

/* Have draws had the CPU for a quantum since kernel threads had it? */
static __always_inline bool kthreads_are_due(struct cpu *c, u64 now)
{
	return c->kthreads && c->drawn_ns && now - c->drawn_ns + TIMER_SLACK_NS >= tombola_config.rules.quantum_ns;
}

/* The next kernel thread that waits for this CPU gets it. False: none waits. */
static __always_inline bool run_kthread(s32 cpu, struct cpu *c)
{
	if (!c->kthreads)
		return false;
	c->kthreads = scx_bpf_dsq_move_to_local((u32)cpu);
	if (!c->kthreads)
		return false;
	c->drawn_ns = 0;
	return true;
}

/* A kernel thread begins to run. The tick alone would end its slice up to 4 ms late. */
static __always_inline void kthread_begins(s32 cpu, struct cpu *c)
{
	struct run_queue *rq = queue_of_cpu(cpu);
	u64 now = now_ns();

	c->since_ns = now;
	c->end_ns = now + (c->shortest ? SLICE_MIN_NS : tombola_config.rules.quantum_ns);
	if (rq && (rq->economy.waiting || c->kthreads))
		slice_timer_wind(cpu, c, now);
}

/* A kernel thread that could go on. */
static __always_inline bool is_runnable_kthread(struct task_struct *prev)
{
	return prev && prev->scx.flags & SCX_TASK_QUEUED && !task_of(prev)->client;
}

/*
 * A CPU that goes offline calls dispatch no more. What waits in its DSQ then goes to its local DSQ. Rare: the kernel itself
 * inserts there whatever it enqueues from then on.
 */
static __noinline int release_kthreads(void)
{
	struct task_struct *p;

	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		struct bpf_iter_scx_dsq it;

		if (cpu >= tombola_config.nr_cpus)
			break;
		if (!cpu_of((s32)cpu)->kthreads || !is_inactive((s32)cpu))
			continue;
		/* Kernels of 6.16 take a timer's function for as sleepable as the operation that sets it. */
		bpf_rcu_read_lock();
		bpf_iter_scx_dsq_new(&it, cpu, 0);
		while ((p = bpf_iter_scx_dsq_next(&it)))
			scx_bpf_dsq_move(&it, p, TB_DSQ_LOCAL_ON(cpu), 0);
		bpf_iter_scx_dsq_destroy(&it);
		bpf_rcu_read_unlock();
		scx_bpf_kick_cpu((s32)cpu, 0);
	}
	return 0;
}

static __always_inline int kthreads_init(void)
{
	s32 ret = 0;

	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		if (cpu >= tombola_config.nr_cpus || ret)
			break;
		ret = scx_bpf_create_dsq(cpu, -1);
	}
	return ret;
}
