/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Who pays for a run: an account of the thread, its own or one that is lent to it (core/include/tombola/loans.h). All of this is
 * done under the lock of the queue.
 *
 * A thread's payer is chosen at each draw, and where the thread begins to run without one. A run is settled before its payer
 * changes, also when a loan ends. How loans are made is in loans.h.
 */
#pragma once
#include "groups.h"
#include "home.h"

#include <tombola/loans.h>

/* Does anybody lend? With several queues nobody does. */
static __always_inline bool transfers(void)
{
	return !several() && tombola_config.transfer;
}

static __always_inline u32 account_of(u32 leaf)
{
	u32 payer = transfers() ? task_at(leaf)->payer : TB_NONE;

	return payer ? payer : leaf;
}

/* The account with which a running thread is compared to a waking one. The waking one's own may pay still (reclaim). */
static __always_inline u32 payer_beside(u32 woken, u32 runner)
{
	u32 payer = account_of(runner);

	return transfers() && payer == woken ? runner : payer;
}

/*
 * Charge the payer of a thread and its currencies for the time that the thread used, undo what was charged in advance, and charge
 * the next run in advance. What a frozen leaf uses is also charged to the currency that it comes from.
 */
static __always_inline void charge_payer(struct tb_queue *q, u32 leaf, u64 used_ns, u64 next_ns, u32 seed)
{
	struct client_state *state = state_of(leaf);
	struct tb_bill *bill = &q->bill;
	u64 ns = used_ns + next_ns - state->precharge_ns;
	u32 payer = account_of(leaf), also = TB_NONE;

	bill->used_ns = used_ns;
	bill->precharge_ns = state->precharge_ns;
	bill->next_ns = next_ns;
	bill->seed = seed;
	if (used_ns && state_of(TB_FROZEN)->members)
		also = part_on(pays_for(q, payer), place_of_leaf(leaf));
	q->charge_also = also;
	state->precharge_ns = next_ns;
	tb_charge(q, RULES, payer);
	charge_groups(q, tb_at(q, payer)->parent, ns);
	if (several() && also)
		charge_groups(q, also, used_ns);
}

/*
 * The same for the time that the kernel has counted. One CPU at a time does so for a leaf: its thread runs there, that CPU has
 * just withdrawn it, or the thread leaves. Time that was charged before it was counted is deducted (uncounted_ns, which any CPU
 * may add to: run_until).
 */
static __always_inline void charge(struct tb_queue *q, u32 leaf, u64 next_ns, u32 seed)
{
	struct client_state *state = state_of(leaf);
	struct task *t = task_at(leaf);
	u64 counted_ns = tb_min(state->uncounted_ns, t->unpaid_ns), used_ns = t->unpaid_ns - counted_ns;

	t->unpaid_ns = 0;
	state->uncounted_ns -= counted_ns;
	charge_payer(q, leaf, used_ns, next_ns, seed);
}

/* Is there anything to charge? Often there is not. */
static __always_inline bool owes(u32 leaf, u64 next_ns)
{
	return task_at(leaf)->unpaid_ns | (state_of(leaf)->precharge_ns ^ next_ns);
}

/* Only a charge for used time needs a random number. */
static __always_inline u32 new_seed(u32 leaf)
{
	return tombola_config.rules.lottery && task_at(leaf)->unpaid_ns ? bpf_get_prandom_u32() : 0;
}

/*
 * What the thread that runs on a CPU has used until now, to be charged although the kernel has not counted it yet. If the thread
 * stops at the same moment, it may be charged twice; its next charge deducts that.
 */
static __always_inline u64 run_until(struct cpu *c, u64 now)
{
	u64 ran_ns = now - c->since_ns;

	if ((s64)ran_ns <= 0)
		return 0;
	c->since_ns = now;
	state_of(c->leaf)->uncounted_ns += ran_ns;
	return ran_ns;
}

/* The waiting thread of a waiting account; TB_NONE: it does not wait any longer (tb_rests). */
static __always_inline u32 thread_of(struct tb_queue *q, u32 account)
{
	u32 thread;

	if (!transfers())
		return account;
	thread = tb_borrower(q, account);
	return tb_at(q, thread)->state & TB_QUEUED ? thread : TB_NONE;
}

/* An account has been drawn, with DRAW_ bits in the upper half: it pays for its thread, which takes its place in the result. */
static __always_inline u64 has_drawn(struct tb_queue *q, u64 drawn)
{
	u32 payer = (u32)drawn, thread;

	if (!transfers() || !payer)
		return drawn;
	thread = tb_borrower(q, payer);
	task_at(thread)->payer = payer;
	return (drawn >> 32 << 32) | thread;
}

static __always_inline bool lends(u32 leaf)
{
	return transfers() && tb_global_pool.client[slot(leaf)].lends_to;
}

/* Is an account the lender's own, or lent to the lender? */
static __always_inline bool is_lent_by(struct tb_queue *q, u32 account, u32 lender)
{
	tb_loop(TB_LENT_MAX + 1) {
		if (!account || account == lender)
			break;
		account = tb_at(q, account)->lends_to;
	}
	return account == lender;
}

/* The payer of a thread is about to change: what that has used until now, if it runs, is charged to the payer, and returned. */
static __always_inline u64 settle_until(struct tb_queue *q, u32 thread, u64 now, u32 seed)
{
	struct cpu *c = cpu_of((s32)task_at(thread)->cpu);
	u64 ran_ns = c->leaf == thread ? run_until(c, now) : 0;

	charge_payer(q, thread, ran_ns, 0, seed);
	return ran_ns;
}

/*
 * Where a loan ends, a run may be charged if the borrower has other lenders, also through this one, or lends itself, or is
 * another user's.
 */
static __always_inline u32 new_seed_of_loan(u32 lender)
{
	u32 to = tb_global_pool.client[slot(lender)].lends_to;
	struct tb_client *b = &tb_global_pool.client[slot(to)];

	if (!tombola_config.rules.lottery || !lends(lender))
		return 0;
	if (!b->lends_to && b->lent == 1 && state_of(to)->user == state_of(lender)->user)
		return 0;
	return bpf_get_prandom_u32();
}

/* May the payer of a thread be chosen? It does not wait, and is settled. */
static __always_inline bool is_settled(struct tb_queue *q, u32 thread)
{
	return (tb_at(q, thread)->state & (TB_ACTIVE | TB_QUEUED)) == TB_ACTIVE && !state_of(thread)->precharge_ns;
}

/* The best account of a thread pays for its next run, if it has several. */
static __always_inline void choose_payer(struct tb_queue *q, u32 leaf)
{
	if (tb_at(q, leaf)->lender && is_settled(q, leaf))
		task_at(leaf)->payer = tb_best_account(q, RULES, leaf);
}

/*
 * Must an account whose loan has ended not pay for the end of a run? That of a loan by a call (lending.h), which may be freed at
 * any time, another user's, and one that pays for the end of another thread's run still. (Without branches, for the verifier.)
 */
static __always_inline u64 must_not_go_on(u32 account, u32 thread)
{
	u32 other = task_at(account)->pays_for;
	u64 pays = 1 ^ tb_is_some(task_at(other)->payer ^ account);

	return tb_is_some(task_at(account)->lender) | tb_is_some(state_of(account)->user ^ state_of(thread)->user) |
	       (pays & tb_is_some(other) & tb_is_some(other ^ thread));
}

/*
 * A lender wakes up: its loan ends. If one of its accounts pays for a run, another lender's account of the same user pays for
 * the rest. If there is none, this one goes on paying until the thread's next draw or sleep, at most a slice: what a server
 * does at the end of a request it does for the client that it has just answered, and its own account may have next to no
 * tickets. But not for another user's thread: that thread's own account pays until its slice ends, which is at once
 * (end_run_for_stranger, waits.h). For a thread that does not lend, this does nothing.
 */
static __always_inline void reclaim(struct tb_queue *q, u32 lender, u64 now, u32 seed)
{
	u32 thread, payer, next;
	u64 ran_ns, rest_ns, passes_on;

	if (!lends(lender))
		return;
	thread = tb_borrower(q, lender);
	payer = task_at(thread)->payer;
	tb_reclaim(q, lender);
	if (!is_lent_by(q, payer, lender))
		return;
	next = tb_at(q, thread)->lender;
	passes_on = tb_is_some(tb_at(q, next)->state & TB_ACTIVE);
	passes_on &= 1 ^ tb_is_some(state_of(next)->user ^ state_of(payer)->user);
	if (!(passes_on | must_not_go_on(payer, thread))) {
		task_at(payer)->pays_for = thread;
		return;
	}
	next &= 0 - (u32)passes_on;
	rest_ns = state_of(thread)->precharge_ns;
	ran_ns = settle_until(q, thread, now, seed);
	task_at(thread)->payer = next;
	if (rest_ns > ran_ns)
		charge_payer(q, thread, 0, rest_ns - ran_ns, 0);
}
