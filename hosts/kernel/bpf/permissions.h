/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the caller of a private system call may do. The caller's own credentials decide, as the kernel holds them; nothing that
 * the caller passes in does.
 */
#pragma once
#include "moves.h"
#include "users.h"

static __always_inline bool may_nice(void)
{
	const struct cred *cred = bpf_get_current_task_btf()->cred;

	/* A capability counts only in the initial user namespace: in its own, any process may have all. */
	return (cred->cap_effective.val >> CAP_SYS_NICE & 1) && cred->user_ns->level == 0;
}

static __always_inline u32 caller_uid(void)
{
	return bpf_get_current_task_btf()->cred->euid.val;
}

/* May the caller do what only the owner, `uid`, may? A uid for which another user pays owns nothing. */
static __always_inline bool may_act_for(u32 uid)
{
	return (uid == caller_uid() && payer_of(bpf_get_current_task_btf()->cred, uid) == uid) || may_nice();
}

/* The rule of kill(2): a process does not belong to a user for whom it only acts by its effective uid. */
static __always_inline bool may_control(struct task_struct *p)
{
	const struct cred *cred = p->real_cred, *caller = bpf_get_current_task_btf()->cred;
	u32 uid = cred->uid.val, saved = cred->suid.val;

	return caller->euid.val == uid || caller->euid.val == saved || caller->uid.val == uid || caller->uid.val == saved ||
	       may_nice();
}

/* How a step is to be taken that the caller asks for, on a process of `user` (TB_NONE: on a currency or a user). */
static __always_inline u64 by_caller(u32 user)
{
	return may_nice() ? 0 : BY_OWNER | (u64)user << OWNER_SHIFT;
}

/* May the caller see a client? Only the owner and administrators may see what is in a currency. */
static __noinline bool is_visible(struct tb_queue *q, u32 i)
{
	if (may_nice())
		return true;
	tb_loop(TB_DEPTH) {
		if (!i)
			break;
		if (tb_at(q, i)->kind == TB_KIND_CURRENCY && state_of(i)->id != caller_uid())
			break;
		i = is_away(q, i) ? home_of(q, i) : tb_at(q, i)->parent;
	}
	return !i;
}

/* TB_NONE also for another user's currency: the caller does not even learn that it exists. One without a name is being made. */
static __always_inline u32 own_currency(struct tb_queue *q, u64 number)
{
	u32 client = client_of(q, number);

	if (tb_at(q, client)->kind != TB_KIND_CURRENCY || !state_of(client)->name[0])
		return TB_NONE;
	return may_act_for(state_of(client)->id) ? client : TB_NONE;
}
