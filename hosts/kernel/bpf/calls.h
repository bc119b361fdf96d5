/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The private system calls (tombola_abi.h): BPF programs that anyone may run, and that see who does.
 *
 * What they check is the caller's own credentials, as the kernel holds them; nothing that a program passes in is believed.
 */
#pragma once
#include "people.h"
#include "state.h"

static __always_inline bool may_nice(void)
{
	const struct cred *cred = bpf_get_current_task_btf()->cred;

	/* A capability counts only in the initial user namespace: in one's own, anybody has all. */
	return (cred->cap_effective.val >> CAP_SYS_NICE & 1) && cred->user_ns->level == 0;
}

static __always_inline u32 caller_uid(void)
{
	return bpf_get_current_task_btf()->cred->euid.val;
}

static __always_inline s64 call_info(struct tombola_call *call, struct run_queue *rq)
{
	call->out[TOMBOLA_INFO_ABI] = TOMBOLA_ABI;
	call->out[TOMBOLA_INFO_POLICY] = tombola_config.rules.lottery ? TOMBOLA_LOTTERY : TOMBOLA_STRIDE;
	call->out[TOMBOLA_INFO_QUANTUM_NS] = tombola_config.rules.quantum_ns;
	call->out[TOMBOLA_INFO_CPUS] = tombola_config.nr_cpus;
	call->out[TOMBOLA_INFO_CLIENTS] = rq->economy.used;
	call->out[TOMBOLA_INFO_WAITING] = rq->economy.waiting;
	call->out[TOMBOLA_INFO_PROCESSES] = nr_processes;
	call->out[TOMBOLA_INFO_NOW_NS] = bpf_ktime_get_ns();
	return 0;
}

static __always_inline s64 call_counter(struct tombola_call *call, struct run_queue *rq)
{
	if (call->id >= TOMBOLA_COUNTERS)
		return -EINVAL;
	call->out[0] = call->id == TOMBOLA_COUNT_CLAMPED ? rq->economy.clamped : counters[call->id & 15];
	return 0;
}

static __always_inline s64 call_base_tickets(struct tombola_call *call, struct run_queue *rq)
{
	u32 uid = call->id, *known, user;
	u64 tickets = call->value;

	if (call->op == TOMBOLA_GET_BASE_TICKETS) {
		known = bpf_map_lookup_elem(&users, &uid);
		call->out[0] = known ? tb_at(&rq->economy, *known)->tickets : TOMBOLA_BASE_TICKETS_DEFAULT;
		return 0;
	}
	if (tickets < TOMBOLA_BASE_TICKETS_MIN || tickets > TOMBOLA_BASE_TICKETS_MAX)
		return -ERANGE;
	if (!may_nice() && (uid != caller_uid() || tickets > TOMBOLA_BASE_TICKETS_DEFAULT))
		return -EPERM;
	user = user_of(uid);
	if (!user)
		return -ENOSPC;
	return step_set_tickets(0, user, 0, (u32)tickets);
}

/* The client of the process that pid belongs to. Its first thread may have ended before the others. */
static __always_inline u32 process_by(struct task *t, struct tb_queue *q, u32 tgid)
{
	u32 *known;

	if (t->client)
		return process_of(q, t->client);
	known = bpf_map_lookup_elem(&processes, &tgid);
	return known ? *known : TB_NONE;
}

static __always_inline s64 call_process(struct tombola_call *call, struct run_queue *rq, struct task_struct *p)
{
	u32 client = process_by(task_find(p), &rq->economy, (u32)p->tgid);
	struct seat *seat = seat_of(client);
	u64 tickets = call->value;

	if (!client)
		return -ESRCH;
	switch (call->op) {
	case TOMBOLA_GET_TICKETS:
		call->out[0] = tb_at(&rq->economy, client)->tickets;
		return 0;
	case TOMBOLA_GET_WINS:
		call->out[0] = seat->wins;
		return 0;
	case TOMBOLA_GET_QUANTUM_USE:
		for (u32 i = 0; i < TOMBOLA_QUANTUM_PARTS; i++)
			call->out[i] = seat->left[i];
		return 0;
	}
	if (tickets < TOMBOLA_TICKETS_MIN || tickets > TOMBOLA_TICKETS_MAX)
		return -ERANGE;
	if (!may_nice() && p->cred->uid.val != caller_uid() && p->cred->euid.val != caller_uid())
		return -EPERM;
	return step_set_tickets(0, client, (u32)p->tgid, (u32)tickets);
}

SEC("syscall")
int tombola_call(struct tombola_call *call)
{
	struct run_queue *rq = queue_of(0);
	struct task_struct *p;
	s64 ret;

	if (!rq || !running)
		return -ENODEV;
	if (call->op != TOMBOLA_SET_TICKETS && call->op != TOMBOLA_SET_BASE_TICKETS && call->value)
		return -EINVAL;
	switch (call->op) {
	case TOMBOLA_INFO:
		return (int)call_info(call, rq);
	case TOMBOLA_GET_COUNTER:
		return (int)call_counter(call, rq);
	case TOMBOLA_GET_BASE_TICKETS:
	case TOMBOLA_SET_BASE_TICKETS:
		bpf_rcu_read_lock();
		ret = call_base_tickets(call, rq);
		bpf_rcu_read_unlock();
		return (int)ret;
	case TOMBOLA_GET_TICKETS:
	case TOMBOLA_SET_TICKETS:
	case TOMBOLA_GET_WINS:
	case TOMBOLA_GET_QUANTUM_USE:
		break;
	default:
		return -ENOSYS;
	}
	p = bpf_task_from_vpid((s32)call->id);
	if (!p)
		return -ESRCH;
	bpf_rcu_read_lock();
	ret = call_process(call, rq, p);
	bpf_rcu_read_unlock();
	bpf_task_release(p);
	return (int)ret;
}

/* The first client in use from i on; TB_NONE, which counts as free itself, at the end. */
static __noinline u32 used_from(struct tb_queue *q, u32 i)
{
	tb_loop(TB_CLIENTS) {
		if (i >= q->fresh)
			return TB_NONE;
		if (tb_at(q, i)->kind != TB_KIND_FREE)
			break;
		i++;
	}
	return i < q->fresh ? i : TB_NONE;
}

static __always_inline void describe(struct tombola_node *node, struct tb_queue *q, u32 i)
{
	struct tb_client *c = tb_at(q, i);
	struct seat *seat = seat_of(i);

	node->index = i;
	node->parent = c->parent;
	node->kind = c->kind;
	node->id = seat->id;
	node->tickets = c->tickets;
	node->active = c->state & TB_ACTIVE;
	node->clients = c->active;
	node->tgid = seat->tgid;
	node->used_ns = c->used_ns;
	node->wins = seat->wins;
	node->weight = c->weight;
	node->reserved = 0;
}

/*
 * Nodes from tree->from on, as many as fit. Without the lock: each field is whole, the picture is of no single moment. The
 * loop is unrolled because kernels before 7 let a program write to its context at constant offsets only.
 */
SEC("syscall")
int tombola_tree(struct tombola_tree *tree)
{
	struct run_queue *rq = queue_of(0);
	u32 i, n = 0;

	if (!rq || !running)
		return -ENODEV;
	i = used_from(&rq->economy, tree->from);
#pragma clang loop unroll(full)
	for (u32 k = 0; k < TOMBOLA_TREE_NODES; k++) {
		if (i) {
			describe(&tree->node[k], &rq->economy, i);
			n = k + 1;
			i = used_from(&rq->economy, i + 1);
		}
	}
	tree->count = n;
	tree->from = i;
	return 0;
}
