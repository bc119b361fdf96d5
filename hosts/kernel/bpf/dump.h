/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The economy in the kernel's dump. The kernel makes a dump when it ejects a scheduler for a fault or a stall, and at SysRq-D:
 * first our queue, then each CPU, and below each CPU the threads that run or wait there.
 *
 * Nothing here takes a lock. The kernel makes the dump with interrupts off and, but for the queue, under a lock of its own that
 * our steps are also called under; the CPU may have been interrupted in the middle of a step. So the accounts may change while
 * they are read: each number was true, two numbers may be of different moments. Indices are masked, and the kernel ends a loop
 * after very many rounds (can_loop). So a walk through a changing tree ends, too; at worst it shows the currencies of another
 * client.
 */
#pragma once
#include "state.h"

/* By enum tb_kind, as `tombola tree` names them. The rest is never used, but the index is masked. */
static const char kind_names[16][16] = {
	"none", "base", "best-effort", "user", "process", "thread", "currency", "reservation", "frozen",
};

static __always_inline u64 kind_name(const struct tb_client *c)
{
	return (u64)kind_names[c->kind & 15];
}

/* The service that its currency owes a client; negative: it is ahead. Shifted first: the lag may be large (tb_held_pass). */
static __always_inline s64 lag_ns(const struct tb_client *p, const struct tb_client *c)
{
	return ((s64)(p->vnow - c->pass) >> TB_PASS_SHIFT) * (s64)c->tickets;
}

static __always_inline u64 waited_us(const struct tb_client *c)
{
	return c->state & TB_QUEUED ? (now_ns() - c->since) / 1000 : 0;
}

static __always_inline void dump_queue(u32 queue)
{
	struct run_queue *rq = queue_at(queue);
	struct tb_queue *q;
	u32 oldest;

	if (!rq)
		return;
	q = &rq->economy;
	oldest = q->oldest;
	dump_line("Tombola's queue %u: clients %u of %u, waiting %u, behind %u, frozen and runnable %u", queue,
		  nr_clients(), TB_CLIENTS, q->waiting, q->behind, tb_at(q, tb_frozen_root(q))->active);
	if (oldest)
		dump_line("  the oldest waiting: client %u, thread %u, for %llu us", oldest, state_of(oldest)->id,
			  waited_us(tb_at(q, oldest)));
}

void BPF_STRUCT_OPS(tombola_dump, struct scx_dump_ctx *dump)
{
	for_each_queue(queue) {
		dump_queue(queue);
	}
}

void BPF_STRUCT_OPS(tombola_dump_cpu, struct scx_dump_ctx *dump, s32 cpu, bool idle)
{
	struct cpu *c = cpu_of(cpu);

	/* The kernel omits an idle CPU for which nothing is printed. */
	if (c->leaf || c->next)
		dump_line("runs client %u, for %lld ns more; next in its own queue: client %u", c->leaf, c->end_ns - now_ns(),
			  c->next);
}

/* One client, in the currency around it. */
static __noinline int dump_client(struct tb_queue *q, u32 i)
{
	struct tb_client *c = tb_at(q, i), *p = tb_at(q, c->parent);
	struct client_state *state = state_of(i);
	bool is_named = c->kind == TB_KIND_CURRENCY;

	dump_line("  %s %u%s%s: %u of %llu tickets, lag %lld ns%s%s%s", kind_name(c), state->id,
		  (u64)(is_named ? ":" : ""), (u64)(is_named ? state->name : ""), c->tickets, tb_active_tickets(p), lag_ns(p, c),
		  (u64)(c->state & TB_ACTIVE ? ", runnable" : ""), (u64)(c->state & TB_QUEUED ? ", waiting" : ""),
		  (u64)(c->state & TB_BEHIND ? ", behind" : ""));
	return 0;
}

/* The thread's client and, from it up, all currencies that pay for it. */
void BPF_STRUCT_OPS(tombola_dump_task, struct scx_dump_ctx *dump, struct task_struct *p)
{
	struct task *t = task_of(p);
	struct run_queue *rq = queue_of(t->client);
	u32 i = t->client;

	if (!rq || !i)
		return;
	dump_line("client %u, waiting for %llu us", i, waited_us(tb_at(&rq->economy, i)));
	tb_loop(TB_DEPTH) {
		if (!tb_at(&rq->economy, i)->parent)
			break;
		dump_client(&rq->economy, i);
		i = tb_at(&rq->economy, i)->parent;
	}
	dump_line("  %s", kind_name(tb_at(&rq->economy, i)));
}
