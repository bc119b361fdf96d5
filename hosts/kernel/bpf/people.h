/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who there is: users, processes and threads come, change sides and go.
 *
 *   thread of a new process   a leaf beside its parent's process, in the same currency, with as many tickets
 *   second thread             its process becomes a currency in the leaf's place, both threads are leaves in it
 *   setuid                    seen when the run is settled: the thread, or its process, moves to the other user
 *   exit                      the parent answers for the service that a mere errand consumed (economy.h, Forking)
 */
#pragma once
#include "settle.h"
#include "state.h"

static __always_inline u32 uid_of(struct task_struct *p)
{
	const struct cred *cred = p->cred;

	return cred ? cred->uid.val : 0;
}

static __always_inline struct seat *seat_init(u32 client, u32 id, u32 tgid, u32 uid)
{
	struct seat *seat = seat_of(client);
	u32 serial = seat->serial + 1;

	__builtin_memset(seat, 0, sizeof(*seat));
	seat->serial = serial;
	seat->id = id;
	seat->tgid = tgid;
	seat->uid = uid;
	return seat;
}

/* The currency of a user, made when the uid is first seen. Two CPUs may see it at once: the loser gives its own back. */
__noinline u32 user_of(u32 uid)
{
	u32 *known = bpf_map_lookup_elem(&users, &uid), made;

	if (known)
		return *known;
	made = step_new(0, TB_KIND_USER, TB_BEST_EFFORT, default_base);
	if (!made)
		return TB_NONE;
	seat_init(made, uid, 0, uid);
	if (!bpf_map_update_elem(&users, &uid, &made, BPF_NOEXIST)) {
		tell_of_base();
		return made;
	}
	step_free(0, made);
	known = bpf_map_lookup_elem(&users, &uid);
	return known ? *known : TB_NONE;
}

/* Where a client in limbo or with a reservation belongs. */
__noinline u32 home_of(u32 client)
{
	struct run_queue *rq = queue_of(0);
	struct seat *seat = seat_of(client);
	u32 home;
	u8 kind;

	if (!rq || tb_at(&rq->economy, client)->kind == TB_KIND_USER)
		return TB_BEST_EFFORT;
	home = client_of(&rq->economy, seat->home);
	kind = tb_at(&rq->economy, home)->kind;
	return kind == TB_KIND_USER || kind == TB_KIND_CURRENCY ? home : user_of(seat->uid);
}

/* The process of `leaf`, its only thread, becomes a currency, with the leaf in it. */
static __always_inline u32 process_from(u32 queue, u32 leaf, u32 tgid)
{
	struct run_queue *rq = queue_of(queue);
	struct seat *seat = seat_of(leaf);
	u64 precharged = seat->precharge_ns;
	struct tb_client *c, *made;
	u32 process;

	if (!rq)
		return TB_NONE;
	c = tb_at(&rq->economy, leaf);
	process = step_new(queue, TB_KIND_PROCESS, c->parent, c->tickets);
	if (!process)
		return TB_NONE;
	seat_init(process, tgid, tgid, seat->uid);
	seat_of(process)->home = seat->home;
	seat_of(process)->wins = seat->wins;
	__builtin_memcpy(seat_of(process)->left, seat->left, sizeof(seat->left));
	settle_bill(queue, leaf, 0);
	made = tb_at(&rq->economy, process);
	bpf_spin_lock(&rq->lock);
	made->pass = c->pass;
	made->used_ns = c->used_ns;
	bpf_spin_unlock(&rq->lock);
	step_move(number_of(leaf), number_of(process), AT_ONCE);
	step_set_tickets(number_of(leaf), TB_TICKETS_DEFAULT);
	settle_bill(queue, leaf, precharged);
	return process;
}

/* The currency of p's threads, given one that was there before. TB_NONE: p is the first, or there is no place left. */
static __always_inline u32 process_for(struct task_struct *p, struct task *before)
{
	u32 tgid = (u32)p->tgid, *known, process = TB_NONE;

	if (p->tgid == p->pid)
		return TB_NONE;
	known = bpf_map_lookup_elem(&processes, &tgid);
	if (known)
		return *known;
	if (before->client && before->tgid == tgid) {
		process = process_from(before->queue, before->client, tgid);
		if (process && !bpf_map_update_elem(&processes, &tgid, &process, BPF_NOEXIST))
			__sync_fetch_and_add(&nr_processes, 1);
	}
	return process;
}

/* A thread comes, forked by `forker` if that is ours, or found when the scheduler began. Its leaf, if there is place for it. */
static __always_inline u32 arrive(struct task_struct *p, struct task *forker, struct task *before)
{
	struct run_queue *rq = queue_of(0);
	struct tb_run run = {};
	struct seat *forking, *seat;
	u32 parent = process_for(p, before), leaf, tickets = TB_TICKETS_DEFAULT, of_forker = forker->client, beside;
	u32 uid = uid_of(p);
	u64 home = 0;
	struct task *t;

	/* One load for both would be of two kinds of memory, which the verifier refuses. */
	asm volatile("" : "+r"(uid));
	if (of_forker)
		uid = forker->uid;
	if (!parent && !of_forker)
		parent = user_of(uid);
	if (!rq || (!parent && !of_forker)) {
		count(TOMBOLA_COUNT_FULL);
		return TB_NONE;
	}
	if (of_forker) {
		struct cpu *c = cpu_of((s32)bpf_get_smp_processor_id());

		if (c->leaf == of_forker) {
			run.ran_ns = now_ns() - c->since_ns;
			run.precharge_ns = seat_of(of_forker)->precharge_ns;
		}
	}
	bpf_spin_lock(&rq->lock);
	beside = process_of(&rq->economy, of_forker);
	forking = seat_of(beside);
	if (!parent) {
		parent = tb_at(&rq->economy, beside)->parent;
		tickets = tb_at(&rq->economy, beside)->tickets;
		home = forking->home;
	}
	leaf = tb_new(&rq->economy, TB_KIND_THREAD, parent, tickets);
	if (leaf && of_forker) {
		tb_born(&rq->economy, leaf, of_forker, &run);
		forking->child = leaf;
		forking->child_tid = (u32)p->pid;
	}
	bpf_spin_unlock(&rq->lock);
	if (!leaf) {
		count(TOMBOLA_COUNT_FULL);
		return TB_NONE;
	}
	seat = seat_init(leaf, (u32)p->pid, (u32)p->tgid, uid);
	seat->home = home;
	t = task_at(leaf);
	t->queue = 0;
	t->uid = uid;
	t->tgid = (u32)p->tgid;
	t->exec_ns = p->se.sum_exec_runtime;
	t->sliced_ns = 0;
	t->client = leaf;
	return leaf;
}

/*
 * p may have changed its uid meanwhile: it is settled and goes to the other user, and its process's other threads with it. A
 * reservation it keeps, and frozen it stays.
 */
static __always_inline void rehome(struct task_struct *p, struct task *t)
{
	struct run_queue *rq = queue_of(t->queue);
	u32 uid = uid_of(p), user, process;

	if (t->uid == uid)
		return;
	user = user_of(uid);
	if (!rq || !user)
		return;
	t->uid = uid;
	count(TOMBOLA_COUNT_REHOMED);
	settle_bill(t->queue, t->client, 0);
	process = process_of(&rq->economy, t->client);
	seat_of(process)->uid = uid;
	step_move(number_of(process), number_of(user), 0);
}

/*
 * The current thread is about to fork, and its child will stand beside it. A chain of forks, each too short to be settled, would
 * stay with the first one's user for ever.
 */
static __always_inline void rehome_forker(struct task_struct *p, struct task *t)
{
	u64 precharged;

	if (!t->client || t->uid == uid_of(p))
		return;
	precharged = seat_of(t->client)->precharge_ns;
	rehome(p, t);
	settle_bill(t->queue, t->client, precharged);
}

/* A frozen thread is killed: it ends at root's expense. */
static __always_inline void thaw_to_die(struct task_struct *p, struct task *t)
{
	struct run_queue *rq = queue_of(t->queue);
	struct signal_struct *signal = p->signal;

	if (!rq || !t->client || !signal || !(signal->flags & SIGNAL_GROUP_EXIT) || !tb_frozen(&rq->economy, t->client))
		return;
	step_move(number_of(process_of(&rq->economy, t->client)), number_of(root_client), AT_ONCE);
}

/*
 * The thread is dying. For what its process consumed since it last forked, the child it forked answers, as the next link of
 * a chain, or else `parent`, who may wait for it.
 */
static __always_inline void bequeath(struct task *t, u32 parent)
{
	struct run_queue *rq = queue_of(t->queue);
	struct seat *seat;
	u32 process;

	if (!rq)
		return;
	process = process_of(&rq->economy, t->client);
	seat = seat_of(process);
	if (process != t->client && tb_at(&rq->economy, process)->clients > 1)
		return;
	if (seat->child && seat_of(seat->child)->id == seat->child_tid &&
	    tb_at(&rq->economy, seat->child)->kind == TB_KIND_THREAD)
		parent = seat->child;
	if (parent)
		step_died(t->queue, process, parent);
}

/* The thread is gone: its client goes, and its process with the last one. */
static __always_inline void depart(struct task *t)
{
	struct run_queue *rq = queue_of(t->queue);
	u32 leaf = t->client, process, parent, last = 0, tgid = t->tgid;

	if (!rq || !leaf)
		return;
	t->client = TB_NONE;
	step_leave(t->queue, leaf);
	bpf_spin_lock(&rq->lock);
	process = process_of(&rq->economy, leaf);
	parent = tb_at(&rq->economy, leaf)->parent;
	seat_of(leaf)->tgid = 0;
	tb_free(&rq->economy, leaf);
	if (process != leaf)
		last = tb_at(&rq->economy, process)->clients == 0;
	else
		vacate(&rq->economy, parent);
	bpf_spin_unlock(&rq->lock);
	if (!last)
		return;
	if (!bpf_map_delete_elem(&processes, &tgid))
		__sync_fetch_and_sub(&nr_processes, 1);
	seat_of(process)->tgid = 0;
	step_free(t->queue, process);
}
