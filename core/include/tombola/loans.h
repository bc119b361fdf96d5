/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Transfers: a thread that waits for another one lends it its tickets (Mach's lottery scheduler, Waldspurger & Weihl 1994, 4.6).
 *
 *   client A (800) ──lends──┐
 *                           ├──> worker C (1) ──lends──> server D (1)       A, B and C sleep; D is runnable.
 *   client B (200) ──lends──┘
 *
 * What is lent is an account: the lender's leaf in the economy, with its tickets and pass, in its own currency. Who lends a
 * number of tickets, and may go on running, lends an account that is made for them: a leaf without a thread, a client of the same
 * currency, at vnow. The lender has fewer tickets, and its lag. When the loan ends, the account gives them back (tb_merge).
 * A thread's accounts are its own leaf and those of its lenders, of their lenders, and so on; D has four. They become runnable,
 * wait and go to sleep together. The thread runs when any of them is picked, and that one, the payer, is charged for the run. So
 * shares add up by themselves, each currency pays for its own clients and for no others, and no account is charged for what it
 * did not lend. If C has used up its part, D still runs at the positions of A and B.
 *
 * The economy (economy.h) knows nothing of loans. To it a lent leaf is a leaf like any other. While the thread runs, its other
 * accounts are active and do not wait: they cannot use their tickets meanwhile, as the thread is on one CPU, and the economy
 * measures that (tb_level_switch). At each decision the best of them becomes the payer (tb_best_account).
 *
 *   sleeps for a known thread ── tb_lend ──>  lender  ── tb_reclaim ──> wakes up, exits, or calls its loan back
 *
 * The loans of several lenders form a tree, whose root is the thread that can run. A thread has at most TB_LENT_MAX accounts
 * beside its own. A loan beyond that is not made, unless the host ends another one for it: its lender just sleeps. That bounds
 * each step under the lock, however many threads wait for one, and chains, too. A loan that would close a circle is not made
 * either: a circle consists of sleepers.
 *
 * Not decided here: whom a thread waits for, who may lend to whom, and when a loan ends because the borrower sleeps. All accounts
 * of a thread are on one queue.
 */
#pragma once
#include "economy.h"

/* The thread that runs when this leaf is picked: the root of its loans, mostly itself. */
TB_FN u32 tb_borrower(struct tb_queue *q, u32 i)
{
	tb_loop(TB_LENT_MAX + 1) {
		if (!tb_at(q, i)->lends_to)
			break;
		i = tb_at(q, i)->lends_to;
	}
	return i;
}

/* The account of `thread` after `i`, from itself on, a lender before its own lenders. TB_NONE after the last one. */
TB_FN u32 tb_next_account(struct tb_queue *q, u32 thread, u32 i)
{
	if (tb_at(q, i)->lender)
		return tb_at(q, i)->lender;
	tb_loop(TB_LENT_MAX + 1) {
		if (i == thread || tb_at(q, i)->next_lender)
			break;
		i = tb_at(q, i)->lends_to;
	}
	return i == thread ? TB_NONE : tb_at(q, i)->next_lender;
}

#define tb_for_each_account(q, thread, i) \
	for (u32 i = (thread), left = TB_LENT_MAX + 1; i && left; i = tb_next_account((q), (thread), i), left--)

/*
 * Does an account rest, although it may wait still? Its thread does not wait, or is frozen: an account that is lent to a frozen
 * thread sleeps.
 */
TB_FN u32 tb_rests(struct tb_queue *q, u32 account)
{
	u32 thread = tb_borrower(q, account);

	return thread != account && (!(tb_at(q, thread)->state & TB_QUEUED) || tb_frozen(q, thread));
}

/*
 * An account does what its thread does: it waits with it, is active while that runs, and sleeps while that sleeps. The steps of a
 * thread change its own leaf; then its other accounts are to follow, one after the other. An account that has not yet may be
 * picked (tb_rests). The first of these two is for a thread that has become runnable, or waits; the second for one that does not
 * wait any more, or sleeps. For another one, and for a thread's own leaf, they do nothing.
 */
TB_FN u32 tb_follow_up(struct tb_queue *q, const struct tb_rules *r, u32 account, u64 now)
{
	u32 thread = tb_borrower(q, account), state = tb_at(q, thread)->state;
	u64 mask = tb_at(q, thread)->mask;

	if (thread == account || !(state & TB_ACTIVE) || tb_frozen(q, thread))
		return 0;
	tb_join(q, r, account, mask, TB_NONE);
	if (state & TB_QUEUED)
		tb_wait(q, r, account, mask, now);
	return 0;
}

TB_FN u32 tb_follow_down(struct tb_queue *q, const struct tb_rules *r, u32 account)
{
	u32 thread = tb_borrower(q, account), state = tb_at(q, thread)->state, frozen;

	if (thread == account)
		return 0;
	frozen = tb_frozen(q, thread);
	if (state & TB_QUEUED && !frozen)
		return 0;
	tb_withdraw(q, account);
	if (!(state & TB_ACTIVE) || frozen)
		tb_leave(q, r, account);
	return 0;
}

/* All accounts of a thread, or of a lender, follow. */
TB_FN u32 tb_follow_all(struct tb_queue *q, const struct tb_rules *r, u32 thread, u64 now)
{
	tb_for_each_account(q, thread, i) {
		tb_follow_up(q, r, i, now);
		tb_follow_down(q, r, i);
	}
	return 0;
}

/*
 * Of two accounts of a runnable thread, settled, that does not wait, the one that is to pay for its next run: the one that the
 * economy would pick if only these waited. `i` must be active to be that. Frozen accounts do not pay, unless all are.
 */
TB_FN u32 tb_better_account(struct tb_queue *q, const struct tb_rules *r, u32 best, u32 i)
{
	struct tb_client *c = tb_at(q, i), *b = tb_at(q, best), *p;

	if (i == best || !(c->state & TB_ACTIVE))
		return best;
	if (c->parent != b->parent) {
		u64 both = tb_meet(q, i, best);

		c = tb_at(q, (u32)(both >> 32)), b = tb_at(q, (u32)both);
	}
	p = tb_at(q, c->parent);
	if (!c->parent)
		return b->kind == TB_KIND_FROZEN ? i : best;
	return tb_better(tb_eligible_until(r, p->vnow), c->pass, c->key, b->pass, b->key) ? i : best;
}

/* Of all its accounts. */
TB_FN u32 tb_best_account(struct tb_queue *q, const struct tb_rules *r, u32 thread)
{
	u32 best = thread;

	tb_for_each_account(q, thread, i) {
		best = tb_better_account(q, r, best, i);
	}
	return best;
}

/* As tb_pick: the account that is next on a CPU of `mask`. Its thread waits, and is not frozen, unless the account itself is. */
TB_FN u32 tb_pick_account(struct tb_queue *q, const struct tb_rules *r, u64 mask)
{
	u32 account = TB_NONE;

	tb_loop(TB_CLIENTS) {
		account = tb_pick(q, r, mask);
		if (!account || !tb_rests(q, account))
			break;
		tb_follow_down(q, r, account);
	}
	return account;
}

/* The accounts of `i` and its lenders are now so many more, or fewer, of each borrower above it. */
TB_FN u32 tb_count_lent(struct tb_queue *q, u32 i, u32 by)
{
	tb_loop(TB_LENT_MAX + 1) {
		i = tb_at(q, i)->lends_to;
		if (!i)
			break;
		tb_at(q, i)->lent += by;
	}
	return 0;
}

/*
 * A thread that goes to sleep, or sleeps, and lends to nobody, lends to another one, with its own lenders. Their accounts and its
 * own, which do not wait and are settled, are then to follow. Returns the thread that can run, or TB_NONE: the loan would be one
 * too many, or close a circle, and nothing was done.
 */
TB_FN u32 tb_lend(struct tb_queue *q, u32 lender, u32 to)
{
	struct tb_client *l = tb_at(q, lender), *b = tb_at(q, to);
	u32 thread = tb_borrower(q, to), lent = l->lent + 1;

	if (thread == lender || tb_at(q, thread)->lent + lent > TB_LENT_MAX)
		return TB_NONE;
	l->lends_to = to;
	l->next_lender = b->lender;
	b->lender = lender;
	tb_count_lent(q, lender, lent);
	return thread;
}

/*
 * A loan ends. The lender's account is its own again, and does not wait; its lenders' are to follow. It is still active if it was
 * so: a lender that wakes up has lost nothing by having slept. One that sleeps on is to leave.
 */
TB_FN u32 tb_reclaim(struct tb_queue *q, u32 lender)
{
	struct tb_client *l = tb_at(q, lender), *b = tb_at(q, l->lends_to);
	u32 *link = &b->lender;

	if (!l->lends_to)
		return 0;
	tb_withdraw(q, lender);
	tb_loop(TB_LENT_MAX) {
		if (!*link || *link == lender)
			break;
		link = &tb_at(q, *link)->next_lender;
	}
	if (*link == lender)
		*link = l->next_lender;
	tb_count_lent(q, lender, 0 - (l->lent + 1));
	l->lends_to = TB_NONE;
	l->next_lender = TB_NONE;
	return 0;
}

/*
 * The account of a loan of some tickets, idle and about to be freed, gives them back to the lender, which is a client of the same
 * currency and gets no more than `most`; also what it has used beyond its due, or is owed.
 */
TB_FN u32 tb_merge(struct tb_queue *q, const struct tb_rules *r, u32 account, u32 lender, u32 most)
{
	struct tb_client *l = tb_at(q, lender), *a = tb_at(q, account);
	u64 vnow = tb_at(q, l->parent)->vnow, pass;

	/* As if it joined: it is owed no more than when it left. */
	pass = tb_bounded_for(a->pass, vnow, a->tickets, a->level, r->lag_ns);
	tb_set_tickets(q, r, lender, (u32)tb_min((u64)l->tickets + a->tickets, most));
	if (tb_before(pass, vnow))
		pass = l->pass - tb_exchanged(vnow - pass, a->tickets, l->tickets);
	else
		pass = l->pass + tb_exchanged(pass - vnow, a->tickets, l->tickets);
	return tb_set_pass(q, r, l, tb_bounded_for(pass, vnow, l->tickets, r->lag_ns, r->lag_ns));
}
