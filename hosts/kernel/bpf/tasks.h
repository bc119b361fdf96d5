/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Processes and threads start, change their user and exit.
 *
 *   thread of a new process   a leaf beside its parent's process, in the same currency, with as many tickets
 *   second thread             its process becomes a currency where the leaf was, both threads are leaves in it
 *   setuid                    seen when the run is settled: the thread, or its process, moves to the other user
 *   exit                      the child that it forked last, or else its parent, is charged for what it consumed (charge_heir)
 */
#pragma once
#include "account.h"
#include "balance.h"
#include "lending.h"
#include "users.h"

static __always_inline u32 uid_of(struct task_struct *p)
{
	const struct cred *cred = p->real_cred;

	return cred ? cred->uid.val : 0;
}

/* An empty process that is to replace `leaf` in its currency; a client of TB_FROZEN until take_place. 0: no slot is left. */
__noinline u64 step_new_process(u32 leaf, u32 tgid)
{
	struct run_queue *rq = first_queue();
	u64 number = 0;
	u32 made, user = state_of(leaf)->user;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	made = may_own_group(user) ?
		new_group(&rq->economy, TB_KIND_PROCESS, TB_FROZEN, TB_TICKETS_DEFAULT, user, tgid, tgid) : TB_NONE;
	if (made)
		number = number_of(made);
	bpf_spin_unlock(&rq->lock);
	attach(made);
	return number;
}

/* The process of `leaf`, its only thread, becomes a currency, with the leaf in it. TB_NONE: no slot is left. */
static __always_inline u32 process_from(u32 leaf, u32 tgid)
{
	u64 made = step_new_process(leaf, tgid), precharged = state_of(leaf)->precharge_ns;
	u32 process = (u32)made;

	if (!made)
		return TB_NONE;
	settle_bill(leaf, 0);
	move(number_of(leaf), made, AT_ONCE);
	if (several())
		move_like(process, part_on(process, place_of_leaf(leaf)));
	fund_client(number_of(leaf), TB_TICKETS_DEFAULT, SAME_LIMIT, 0);
	settle_bill(leaf, precharged);
	if (transfers() && state_of(process)->lent)
		relabel_accounts(FIRST_SLOT, number_of(leaf), made);
	bpf_map_update_elem(&processes, &tgid, &process, BPF_ANY);
	__sync_fetch_and_add(&nr_processes, 1);
	return process;
}

/* The currency of the process of `before`, in which a thread joins it; it is made now if there was none. */
static __always_inline u32 process_with(struct task *before)
{
	struct run_queue *rq = first_queue();
	u32 process;

	if (!rq || !before->client)
		return TB_NONE;
	process = process_of(&rq->economy, before->client);
	return process == before->client ? process_from(process, before->tgid) : process;
}

/* Of a new thread: its tid, and in the upper half its tgid. */
static __always_inline u64 numbers_of(struct task_struct *p)
{
	return (u64)(u32)p->tgid << 32 | (u32)p->pid;
}

/* A slot for a thread of `user`; TB_NONE: none is left for it. */
__noinline u32 step_new_leaf(u32 user)
{
	struct run_queue *rq = first_queue();
	u32 leaf = TB_NONE;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (may_own(user) && (!several() || tb_global_pool.free || tb_global_pool.fresh < LEAVES_END))
		leaf = tb_new(&rq->economy, TB_KIND_THREAD, TB_NONE, TB_TICKETS_DEFAULT << ticket_shift());
	bpf_spin_unlock(&rq->lock);
	return leaf;
}

__noinline int step_free_leaf(u32 leaf)
{
	struct run_queue *rq = first_queue();

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	tb_free(&rq->economy, leaf);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* Under its queue's lock: a new leaf becomes a client of `group`, if that is not just being freed. */
static __always_inline bool put_leaf(struct tb_queue *q, u32 leaf, u32 group, u32 user, u64 numbers, u32 place)
{
	if (!enter(group))
		return false;
	task_at(leaf)->queue = place;
	task_at(leaf)->arriving = 0;
	__builtin_memset(part_at(leaf), 0, sizeof(struct part));
	put_new(q, leaf, part_on(group, place));
	client_state_init(leaf, (u32)numbers, (u32)(numbers >> 32), user);
	return true;
}

/*
 * `leaf` is for a thread that was forked by `forker`, which has run for ran_ns since it was settled. It becomes a client of
 * `process`, or is beside the forker's process if that is TB_NONE. 0: that process is just being freed.
 */
__noinline int step_new_thread(u64 leaf_of_forker, u32 process, u64 numbers, u64 ran_ns)
{
	u32 forker = (u32)leaf_of_forker, leaf = (u32)(leaf_of_forker >> 32), place = place_of_leaf(forker);
	struct run_queue *rq = queue_at(place);
	bool pays = account_of(forker) == forker;
	struct tb_run run = { .ran_ns = pays ? ran_ns : 0, .precharge_ns = pays ? state_of(forker)->precharge_ns : 0 };
	u32 beside, user = state_of(forker)->user, parent = process, put;
	struct client_state *forking, *state;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	beside = process_of(&rq->economy, forker);
	forking = state_of(beside);
	/* A thread may have another user than its process. */
	if (!parent)
		parent = user == forking->user ? parent_of(&rq->economy, beside) : user;
	put = put_leaf(&rq->economy, leaf, parent, user, numbers, place);
	if (put) {
		state = state_of(leaf);
		state->frozen_ns = state_of(forker)->frozen_ns;
		if (!process) {
			set_tickets(&rq->economy, leaf, tickets_at(&rq->economy, beside));
			state->home = forking->home;
			state->limit = forking->limit;
			state->frozen = forking->frozen;
			state->serves = user == forking->user ? forking->serves : 0;
			forking->child = leaf;
			forking->child_tid = (u32)numbers;
			forking->forked_ns = tb_at(&rq->economy, part_on(beside, place))->young_ns + ran_ns;
		}
		tb_fork(&rq->economy, leaf, forker, &run);
	}
	bpf_spin_unlock(&rq->lock);
	return put;
}

/*
 * `leaf` is for a thread on queue `place` that none of ours forked. It becomes a client of `process`, or else of its user's own
 * currency. 0: one of these was removed.
 */
__noinline int step_found_thread(u64 user, u64 process_and_leaf, u64 numbers, u32 place)
{
	struct run_queue *rq = queue_at(place);
	u32 owner = (u32)user, process = (u32)process_and_leaf, leaf = (u32)(process_and_leaf >> 32), put = 0;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, user) && !state_of(owner)->closed)
		put = put_leaf(&rq->economy, leaf, process ? process : owner, owner, numbers, place);
	bpf_spin_unlock(&rq->lock);
	return put;
}

static __always_inline u32 forked(struct task_struct *p, struct task *forker)
{
	struct cpu *c = cpu_of((s32)bpf_get_smp_processor_id());
	u32 process = TB_NONE, leaf;
	u64 ran_ns;

	if (p->tgid != p->pid) {
		process = process_with(forker);
		if (!process)
			return TB_NONE;
	}
	leaf = step_new_leaf(state_of(forker->client)->user);
	if (!leaf)
		return TB_NONE;
	ran_ns = c->leaf == forker->client ? now_ns() - c->since_ns : 0;
	if (step_new_thread((u64)leaf << 32 | forker->client, process, numbers_of(p), ran_ns)) {
		forker->forked = number_of(leaf);
		return leaf;
	}
	step_free_leaf(leaf);
	return TB_NONE;
}

static __always_inline u32 found(struct task_struct *p)
{
	const struct cred *cred = p->real_cred;
	struct signal_struct *signal = p->signal;
	u32 process = TB_NONE, tgid = (u32)p->tgid, leaf, *known;
	u64 user;

	if (!cred)
		return TB_NONE;
	known = p->tgid != p->pid ? bpf_map_lookup_elem(&processes, &tgid) : NULL;
	if (known)
		process = *known;
	user = user_of(payer_of(cred, cred->uid.val));
	leaf = step_new_leaf(TB_NONE);
	if (leaf && !step_found_thread(user, (u64)leaf << 32 | process, numbers_of(p), place_of_cpu(scx_bpf_task_cpu(p)))) {
		step_free_leaf(leaf);
		leaf = TB_NONE;
	}
	/* Not only when its second thread is found: the first may have exited, and is not found then. */
	if (leaf && !process && signal && signal->nr_threads > 1)
		process_from(leaf, tgid);
	return leaf;
}

/* A thread starts, forked by `forker` if that is ours, or is found when the scheduler begins. TB_NONE: no slot is left. */
static __always_inline u32 task_init(struct task_struct *p, struct task *forker)
{
	u32 leaf = forker->client ? forked(p, forker) : found(p), uid = uid_of(p);
	struct task *t = task_at(leaf);

	/* A single load for both would be from two kinds of memory, which the verifier refuses. */
	tb_forget(uid);
	if (forker->client)
		uid = forker->uid;
	if (!leaf) {
		count(TOMBOLA_COUNT_NO_SLOT);
		return TB_NONE;
	}
	t->uid = uid;
	t->tgid = (u32)p->tgid;
	t->unpaid_ns = 0;
	t->exec_ns = p->se.sum_exec_runtime;
	t->sliced_ns = 0;
	t->payer = TB_NONE;
	t->pays_for = TB_NONE;
	t->loan = 0;
	t->loans_stay = 0;
	t->will_lend_to = 0;
	t->lender = 0;
	t->until_ns = 0;
	t->forked = 0;
	t->client = leaf;
	return leaf;
}

static __always_inline void belongs_to(u32 client, u32 user)
{
	struct client_state *state = state_of(client);

	if (state->user != user)
		state->serves = 0; /* the rules name a server of the former user's */
	disown(state->user);
	__sync_fetch_and_add(&state_of(user)->owned, 1);
	if (several() && !is_leaf(client)) {
		__sync_fetch_and_sub(&state_of(state->user)->groups, 1);
		__sync_fetch_and_add(&state_of(user)->groups, 1);
	}
	state->user = user;
}

/*
 * A thread and its process belong to another user from now on. A freeze by the former user ends. 1: they belong to that user
 * already, or have entered a currency of that user since the change. -ENOENT: that user was just removed.
 */
__noinline int step_change_user(u32 leaf, u64 number)
{
	struct run_queue *rq = queue_of(leaf);
	u32 process, home, former, user = (u32)number;
	int ret = -ENOENT;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number) && !state_of(user)->closed) {
		process = process_of(&rq->economy, leaf);
		home = home_of(&rq->economy, process);
		former = state_of(process)->user;
		ret = (state_of(leaf)->user == user && state_of(process)->user == user) ||
		      (tb_at(&rq->economy, home)->kind == TB_KIND_CURRENCY && state_of(home)->user == user);
		belongs_to(leaf, user);
		if (process != leaf)
			belongs_to(process, user);
		if (!ret && state_of(process)->limit == TOMBOLA_NO_LIMIT) {
			state_of(process)->frozen = 0;
			/* The other user's, perhaps many, count for nothing here. Root's are an administrator's. */
			if (former != root_client)
				set_tickets(&rq->economy, process, TB_TICKETS_DEFAULT);
		}
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}

/*
 * If p has changed its uid meanwhile, it is settled and moves to the other user with the other threads of its process. It keeps a
 * reservation, and it stays frozen if an administrator froze it.
 */
static __always_inline void update_owner(struct task_struct *p, struct task *t)
{
	const struct cred *cred = p->real_cred;
	u32 uid = uid_of(p);
	struct run_queue *rq;
	u64 user, process;
	int same;

	if (t->uid == uid || !cred || !(rq = first_queue()))
		return;
	user = user_of(payer_of(cred, cred->uid.val));
	same = step_change_user(t->client, user);
	if (same < 0)
		return;
	t->uid = uid;
	t->will_lend_to = 0;
	if (same)
		return;
	count(TOMBOLA_COUNT_USER_CHANGED);
	settle_bill(t->client, 0);
	process = number_of(process_of(&rq->economy, t->client));
	lose_lender((u32)process);
	move(process, user, 0);
	move(process, BY_TICKETS, AT_ONCE);
	kick_idle(); /* the former user may have frozen it */
}

/*
 * The current thread is about to fork, and its child will be beside it. Without this, a chain of forks, each too short to be
 * settled, would stay with the first one's user for ever.
 */
static __always_inline void update_forker(struct task_struct *p, struct task *t)
{
	u64 precharged;

	if (!t->client || t->uid == uid_of(p))
		return;
	precharged = state_of(t->client)->precharge_ns;
	update_owner(p, t);
	settle_bill(t->client, precharged);
}

/*
 * A frozen thread is killed: it exits in its user's currency, or if the user is frozen in root's, with the default tickets. It
 * remains frozen while it dumps core, which may take long.
 */
static __always_inline void thaw_to_die(struct task_struct *p, struct task *t)
{
	struct run_queue *rq = first_queue();
	struct signal_struct *signal = p->signal;
	u32 process, tickets;

	if (!rq || !t->client || !signal || !(signal->flags & SIGNAL_GROUP_EXIT) || signal->core_state ||
	    !looks_frozen(t->client))
		return;
	process = process_of(&rq->economy, t->client);
	tickets = looks_frozen(state_of(process)->user) ? TB_TICKETS_DEFAULT : tickets_at(&rq->economy, process);
	fund_client(number_of(process), tickets, SAME_LIMIT, 0);
	move(number_of(process), TO_DIE, AT_ONCE);
	kick_idle();
}

/*
 * The thread is exiting, and stops, perhaps not for the last time. Once all threads of its process have begun to exit, what the
 * process consumed since it last forked is charged to the child of that fork, as the next link of a chain; or else all that it
 * consumed to `parent`, which may be waiting for it.
 */
static __always_inline void charge_heir(struct task_struct *p, struct task *t, u32 parent)
{
	struct run_queue *rq = first_queue();
	struct signal_struct *signal = p->signal;
	struct client_state *state;
	u32 process, place, heir = parent;
	u64 forked_ns = 0;

	/* The kernel's count of threads, not the process's clients: kernels before 6.18 report an exit late. */
	if (!rq || !signal || signal->live.counter)
		return;
	/* Nor must the parent take a thread of the dead process for its heir, if it exits before this is reported. */
	if (parent) {
		u32 *child = &state_of(process_of(&rq->economy, parent))->child, last = *child;

		if (last && state_of(last)->tgid == (u32)p->tgid)
			__sync_val_compare_and_swap(child, last, TB_NONE);
	}
	process = process_of(&rq->economy, t->client);
	state = state_of(process);
	if (state->child && state_of(state->child)->id == state->child_tid &&
	    tb_at(&rq->economy, state->child)->kind == TB_KIND_THREAD) {
		heir = state->child;
		forked_ns = state->forked_ns;
	}
	if (!heir)
		return;
	place = place_of_leaf(heir);
	if (several() && process == t->client)
		change_queue(process, place);
	step_charge_heir(process, heir, forked_ns, place);
}

#define LAST (1ull << 32)
#define HAS_LENDERS (1ull << 33)

/*
 * A leaf that is inactive is no client any more. Returns the group that it was in, and LAST if that has no clients now; or
 * HAS_LENDERS: somebody has lent to it meanwhile, and nothing was done.
 */
__noinline u64 step_remove_leaf(u32 leaf)
{
	struct run_queue *rq = queue_of(leaf);
	u64 group;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (transfers() && tb_at(&rq->economy, leaf)->lender) {
		bpf_spin_unlock(&rq->lock);
		return HAS_LENDERS;
	}
	group = parent_of(&rq->economy, leaf);
	if (several())
		uncount_leaf(&rq->economy, leaf);
	tb_put(&rq->economy, leaf, TB_NONE, 0);
	if (left_group((u32)group))
		group |= LAST;
	state_of(leaf)->tgid = 0;
	disown(state_of(leaf)->user);
	bpf_spin_unlock(&rq->lock);
	return group;
}

/* The thread has exited: free its client, and its process's with the last thread. */
static __always_inline void task_exit(struct task *t)
{
	u32 leaf = t->client, group, place, tgid = t->tgid, *known;
	u64 left;

	if (!leaf)
		return;
	t->client = TB_NONE;
	end_all_loans(leaf);
	leave(leaf);
	place = place_of_leaf(leaf);
	left = step_remove_leaf(leaf);
	if (left & HAS_LENDERS) {
		end_all_loans(leaf);
		left = step_remove_leaf(leaf);
	}
	group = (u32)left;
	if (several())
		follow(part_on(group, place), place, 0);
	step_free_leaf(leaf);
	free_empty_reservation(group);
	lose_lender(leaf);
	if (tb_global_pool.client[slot(group)].kind != TB_KIND_PROCESS || !(left & LAST))
		return;
	/* Another process may have the tgid by now: kernels before 6.18 report an exit late. */
	known = bpf_map_lookup_elem(&processes, &tgid);
	if (known && *known == group)
		bpf_map_delete_elem(&processes, &tgid);
	__sync_fetch_and_sub(&nr_processes, 1);
	free_group(number_of(group));
	lose_lender(group);
}
