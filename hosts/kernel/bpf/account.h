/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a run used; the histogram; the trace.
 *
 * The charge is the kernel's own count of a thread's CPU time, never what its slice lacks: a yield or a preemption sets the
 * slice to zero. All of it is charged, also time that a hypervisor stole from the running thread, or shares drift.
 */
#pragma once
#include "steps.h"

/*
 * Charge a leaf that gets a CPU in advance, in a step after the draw; not on a queue of one CPU, since no other CPU picks there.
 * The slice of a lone thread is longer than a quantum, but will be cut when another thread waits.
 */
static __always_inline void charge_in_advance(u32 leaf, u64 slice_ns)
{
	if (CPUS_OF_A_QUEUE > 1)
		settle_bill(leaf, tb_min(slice_ns, tombola_config.rules.quantum_ns));
}

/*
 * At the end of a slice, count how much of it was left, in sixths. Threads of one process that end a slice at the same moment
 * may lose a count; no decision depends on it.
 */
static __always_inline void note_use(struct tb_queue *q, struct task *t)
{
	struct client_state *state = state_of(process_of(q, t->client));
	u64 sixths = 0;

	if (t->sliced_ns < t->slice_ns)
		sixths = ((t->slice_ns - t->sliced_ns) * (TOMBOLA_QUANTUM_PARTS - 1) + t->slice_ns / 2) / t->slice_ns;
	if (sixths < TOMBOLA_QUANTUM_PARTS)
		state->left[sixths]++;
}

/* Count p's run up to now, and who pays for it, for reports only. */
static __always_inline void account_runtime(struct task_struct *p, struct task *t)
{
	u64 exec_ns = p->se.sum_exec_runtime, used_ns = exec_ns - t->exec_ns;

	if (transfers()) {
		t->paid = t->payer;
		if (t->paid != t->client)
			state_of(t->paid)->lent_ns += used_ns;
	}
	t->exec_ns = exec_ns;
	t->sliced_ns += used_ns;
	t->unpaid_ns += used_ns;
}

static __always_inline u32 per_million(u64 part, u64 whole)
{
	return whole ? (u32)(part * 1000000 / whole) : 0;
}

/* Trace a run that ends. Without the lock: a record may mix two moments, the accounts do not. */
static __noinline int trace_run(struct task_struct *p, struct task *t, struct tb_queue *q, u32 kept)
{
	struct tombola_traced_run *d;
	u32 i = process_of(q, t->client);
	struct tb_client *c = tb_at(q, i);

	d = bpf_ringbuf_reserve(&runs, sizeof(*d), 0);
	if (!d) {
		count(TOMBOLA_COUNT_UNTRACED);
		return 0;
	}
	d->at_ns = now_ns();
	d->ran_ns = t->sliced_ns;
	d->cpu = (u32)scx_bpf_task_cpu(p);
	d->tid = (u32)p->pid;
	d->tgid = (u32)p->tgid;
	d->uid = t->uid;
	d->tickets = c->tickets;
	d->draw_tickets = (u32)tb_active_tickets(tb_at(q, c->parent));
	d->compensation_ppm = 0;
	if (t->sliced_ns && t->sliced_ns < t->slice_ns)
		d->compensation_ppm = per_million(t->slice_ns - t->sliced_ns, t->sliced_ns);
	d->kept = kept;
	d->payer = transfers() && t->paid ? state_of(process_of(q, t->paid))->tgid : d->tgid;
	d->preempted = p->scx.slice == 0 && t->sliced_ns < t->slice_ns;
	d->base_value_ppm = (u32)(tb_base_value(q, i) * 1000000 / TB_VALUE_ONE);
	bpf_ringbuf_submit(d, 0);
	return 0;
}
