/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loans of threads (core/include/tombola/loans.h), step by step. Steps that concern one thread's own leaf (steps.h) know nothing
 * of its lenders. For a thread that has any, or lends, the steps here follow them. Until then another CPU may meet an account
 * that should not wait any longer; it then draws again (tb_rests). So threads without loans pay nothing for those of others.
 *
 * Loans are made where a thread goes to sleep, and end:
 *
 *   - when the lender wakes up, for whatever reason
 *   - when the borrower goes to sleep, unless it lends itself to a thread that it waits for, or sleeps uninterruptibly, as for a
 *     disk. A loan to the holder of a lock lasts: whatever the holder waits for, the lock's waiters wait for it. A loan to a
 *     server that waits for its next client passes to the thread that it has forked for this one, if it has
 *   - when either exits or changes to another class
 *   - when the borrower has as many lenders as it can, and one that is worth more comes
 *
 * So clients that idle beside an idle server cost nothing when that wakes up. With several run queues, nobody lends. Loans that
 * calls ask for are made in the same steps; lending.h has those of some tickets only.
 */
#pragma once
#include "answers.h"
#include "steps.h"

static __always_inline bool has_lenders(u32 leaf)
{
	return transfers() && tb_global_pool.client[slot(leaf)].lender;
}

/* The account of a lender after this one; TB_NONE: it was the last, or is not lent by it any longer. */
static __always_inline u32 next_lent(struct tb_queue *q, u32 lender, u32 account)
{
	return is_lent_by(q, account, lender) ? tb_next_account(q, lender, account) : TB_NONE;
}

/* Has a thread that was just drawn accounts beside its own leaf and the one that pays, which were withdrawn? */
static __always_inline bool others_wait(u32 leaf)
{
	return transfers() && tb_global_pool.client[slot(leaf)].lent > (task_at(leaf)->payer != leaf);
}

/* An account follows its thread (tb_follow_up). Returns the next one of the lender, or of the thread. */
__noinline u32 step_follow_up(u32 lender, u32 account, u64 now)
{
	struct run_queue *rq = queue_of(lender);
	u32 next;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	next = next_lent(&rq->economy, lender, account);
	tb_follow_up(&rq->economy, RULES, account, now);
	bpf_spin_unlock(&rq->lock);
	return next;
}

/* The same, with tb_follow_down. */
__noinline u32 step_follow_down(u32 lender, u32 account)
{
	struct run_queue *rq = queue_of(lender);
	u32 next;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	next = next_lent(&rq->economy, lender, account);
	tb_follow_down(&rq->economy, RULES, account);
	bpf_spin_unlock(&rq->lock);
	return next;
}

/* All accounts of a lender follow; or of a thread, but its own leaf, whose steps are its own. */
static __always_inline u32 first_to_follow(u32 leaf)
{
	struct tb_client *c = &tb_global_pool.client[slot(leaf)];

	return c->lends_to ? leaf : c->lender;
}

static __always_inline void follow_up(u32 lender, u64 now)
{
	u32 account = first_to_follow(lender);

	tb_loop(2 * TB_LENT_MAX) {
		if (!account)
			break;
		account = step_follow_up(lender, account, now);
	}
}

static __always_inline void follow_down(u32 lender)
{
	u32 account = first_to_follow(lender);

	tb_loop(2 * TB_LENT_MAX) {
		if (!account)
			break;
		account = step_follow_down(lender, account);
	}
}

/*
 * A loan ends although its lender does not wake up, and the lender sleeps on: it pays for nobody any more, not even for the end
 * of a run. Returns the lender; TB_NONE: it was removed.
 */
__noinline u32 step_recall(u64 number, u64 now)
{
	struct run_queue *rq = first_queue();
	u32 leaf, thread, seed = tombola_config.rules.lottery ? bpf_get_prandom_u32() : 0;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	leaf = client_of(&rq->economy, number);
	if (tb_at(&rq->economy, leaf)->kind != TB_KIND_THREAD)
		leaf = TB_NONE;
	thread = leaf && lends(leaf) ? tb_borrower(&rq->economy, leaf) : task_at(leaf)->pays_for;
	if (thread && is_lent_by(&rq->economy, task_at(thread)->payer, leaf)) {
		settle_until(&rq->economy, thread, now, seed);
		task_at(thread)->payer = TB_NONE;
	}
	task_at(leaf)->pays_for = TB_NONE;
	if (leaf && lends(leaf)) {
		tb_reclaim(&rq->economy, leaf);
		tb_leave(&rq->economy, RULES, leaf);
	}
	bpf_spin_unlock(&rq->lock);
	return leaf;
}

/* The best account of a thread that begins to run without a payer pays. If the thread waits, the one that is drawn will. */
__noinline int step_choose_payer(u32 leaf)
{
	struct run_queue *rq = queue_of(leaf);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	choose_payer(&rq->economy, leaf);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/*
 * What becomes of loans when a thread goes to sleep: flags beside the number of the thread that it waits for, which it lends to
 * (0: none).
 */
#define LOAN_LASTS (1ull << 31) /* its own loan lasts while the borrower sleeps */
#define LOANS_STAY (1ull << 30) /* loans to it do not end: it sleeps uninterruptibly */
#define LOANS_END (1ull << 29)  /* all loans to it end, also those that last */
#define LOANS_PASS (1ull << 28) /* loans to it pass to the thread that it has forked since it slept last, if any */
#define LOAN_BY_CALL (1ull << 27) /* a call asked for it, which has checked whether this thread may lend to that one */
#define LOAN_OF_CLIENT (1ull << 26) /* it waits for an answer on a connection that it has made */
#define LOAN_FLAGS (LOAN_LASTS | LOANS_STAY | LOANS_END | LOANS_PASS | LOAN_BY_CALL | LOAN_OF_CLIENT)

/*
 * The leaf that a sleeping thread may lend to; TB_NONE: none. Nobody lends to a thread that sleeps for something unknown.
 * Clients of other users lend to servers that an administrator has named, on connections that they have made: who was connected
 * to may wait for its next request. A loan that lasts is not made between users: who sleeps says itself whose lock it waits
 * for, and could keep the borrower's places from all others.
 */
static __always_inline u32 may_lend_to(struct tb_queue *q, u32 leaf, u64 loan)
{
	u32 to = client_of(q, loan & ~LOAN_FLAGS), thread;

	if (!to || tb_at(q, to)->kind != TB_KIND_THREAD)
		return TB_NONE;
	if (state_of(to)->user != state_of(leaf)->user && !(loan & LOAN_BY_CALL) &&
	    ((loan & (LOAN_LASTS | LOAN_OF_CLIENT)) != LOAN_OF_CLIENT || !state_of(process_of(q, to))->serves))
		return TB_NONE;
	thread = tb_borrower(q, to);
	if (is_frozen(q, thread))
		return TB_NONE;
	/* A thread that is just exiting sleeps for good. */
	if (loan & LOAN_LASTS)
		return task_at(to)->client == to ? to : TB_NONE;
	return tb_at(q, thread)->state & TB_ACTIVE || task_at(thread)->loans_stay ? to : TB_NONE;
}

/*
 * May a lender of a thread give way, with its own lenders, to `leaf` and its lenders, which lend to `to`? It makes room for
 * them, was not asked to lend by a call, does not lend to or for `to`, and does not pay for the present run.
 */
static __always_inline bool may_give_way(struct tb_queue *q, u32 lender, u32 leaf, u32 to)
{
	struct tb_client *c = tb_at(q, lender);

	return c->lends_to && c->lent >= tb_at(q, leaf)->lent && !(task_at(lender)->loan & LOAN_BY_CALL) &&
	       !is_lent_by(q, to, lender) && !is_lent_by(q, task_at(tb_borrower(q, to))->payer, lender);
}

/* The mean base value of a lender and of those that lend to it. A global function, so that the verifier walks it once. */
__noinline u64 mean_base_value(u32 lender)
{
	struct run_queue *rq = first_queue();
	u64 sum = 0;

	if (!rq)
		return 0;
	tb_for_each_account(&rq->economy, lender, i) {
		sum += tb_base_value(&rq->economy, i);
	}
	return sum / (tb_at(&rq->economy, lender)->lent + 1);
}

/*
 * A thread has as many accounts as it can have, and one more is to lend to it. The lender that gives way, or TB_NONE: the one
 * with the least base value, if that is less than the new one's. (Each of a user's accounts leaves less to the others. So a
 * user that takes all places gives them to other users' clients. While the thread sleeps, its lenders are valued as if each
 * were awake alone.) Without the lock.
 */
__noinline u32 gives_way(u32 leaf, u64 loan)
{
	struct run_queue *rq = queue_of(leaf);
	u64 least, value;
	u32 to, thread, found = TB_NONE;

	if (!rq)
		return TB_NONE;
	to = client_of(&rq->economy, loan & ~LOAN_FLAGS);
	thread = tb_borrower(&rq->economy, to);
	if (!to || thread == leaf)
		return TB_NONE;
	least = mean_base_value(leaf);
	tb_for_each_account(&rq->economy, thread, i) {
		empty_registers();
		value = mean_base_value(i);
		if (value >= least || !may_give_way(&rq->economy, i, leaf, to))
			continue;
		least = value;
		found = i;
	}
	return found;
}

/* Is there a place now for a loan that found none? A lender that gives way sleeps on; its lenders are to follow. */
__noinline int step_make_place(u32 leaf, u64 loan, u32 lender)
{
	struct run_queue *rq = queue_of(leaf);
	u32 to, given = 0;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	to = may_lend_to(&rq->economy, leaf, loan);
	if (to && tb_borrower(&rq->economy, lender) == tb_borrower(&rq->economy, to) &&
	    may_give_way(&rq->economy, lender, leaf, to)) {
		tb_reclaim(&rq->economy, lender);
		tb_leave(&rq->economy, RULES, lender);
		given = 1;
	}
	bpf_spin_unlock(&rq->lock);
	return (int)given;
}

enum { LENT = 1, LENT_FOLLOW = 2, LENT_NO_PLACE = 4 };

/*
 * A thread goes to sleep: it is settled, and lends (LENT). 0 and LENT_NO_PLACE: it does not, and is to leave; in the second case
 * only the number of accounts was too large, or the loan would have closed a circle. A lender's account keeps its position: it
 * does not leave before it follows its borrower (LENT_FOLLOW). There is nothing to follow if that neither waits nor sleeps; if it
 * is about to run, the account may pay for that run.
 */
__noinline int step_lend(u32 leaf, u64 loan)
{
	struct run_queue *rq = queue_of(leaf);
	struct task *t = task_at(leaf);
	u32 to, thread = TB_NONE, seed = new_seed(leaf), follow = 0;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	to = may_lend_to(&rq->economy, leaf, loan);
	if (to && !(tb_at(&rq->economy, leaf)->state & TB_QUEUED)) {
		if (owes(leaf, 0))
			charge(&rq->economy, leaf, 0, seed);
		t->payer = TB_NONE;
		t->loan = (u32)loan;
		thread = tb_lend(&rq->economy, leaf, to);
		if (!thread)
			follow = LENT_NO_PLACE;
		else if (tb_at(&rq->economy, leaf)->lender || tb_at(&rq->economy, thread)->state != TB_ACTIVE)
			follow = LENT_FOLLOW;
		else if (cpu_of((s32)task_at(thread)->cpu)->leaf != thread && is_settled(&rq->economy, thread))
			task_at(thread)->payer = tb_better_account(&rq->economy, RULES, account_of(thread), leaf);
	}
	bpf_spin_unlock(&rq->lock);
	return (int)((thread ? LENT : 0) | follow);
}

/* The same; a lender that is worth less may give way. */
static __always_inline int lend(u32 leaf, u64 loan)
{
	int lent = step_lend(leaf, loan);
	u32 lender = lent == LENT_NO_PLACE ? gives_way(leaf, loan) : TB_NONE;

	if (lender && step_make_place(leaf, loan, lender)) {
		if (has_lenders(lender))
			follow_down(lender);
		lent = step_lend(leaf, loan);
	}
	count(lent & LENT ? TOMBOLA_COUNT_LENT : TOMBOLA_COUNT_NOT_LENT);
	return lent & ~LENT_NO_PLACE;
}

/*
 * The first of the loans to a sleeping thread that is to end does, or passes to the thread with the number `heir`. Returns its
 * lender; TB_NONE: there was none.
 */
__noinline u32 step_end_loan(u32 leaf, u64 loan, u64 heir)
{
	struct run_queue *rq = queue_of(leaf);
	u32 lender, to;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	lender = tb_at(&rq->economy, leaf)->lender;
	tb_loop(TB_LENT_MAX) {
		if (!lender || loan & LOANS_END || !(task_at(lender)->loan & LOAN_LASTS))
			break;
		lender = tb_at(&rq->economy, lender)->next_lender;
	}
	if (lender) {
		to = may_lend_to(&rq->economy, lender, heir | (task_at(lender)->loan & LOAN_OF_CLIENT));
		tb_reclaim(&rq->economy, lender);
		if (!to || !tb_lend(&rq->economy, lender, to))
			tb_leave(&rq->economy, RULES, lender);
	}
	bpf_spin_unlock(&rq->lock);
	return lender;
}

/* A loan has been made: the accounts of its lender follow the borrower. */
static __always_inline void follow_borrower(u32 lender)
{
	follow_up(lender, now_ns());
	/* The borrower sleeps. */
	if (tb_global_pool.client[slot(lender)].state == TB_ACTIVE)
		follow_down(lender);
}

static __always_inline void loan_timer_look(void); /* lending.h */

static __always_inline void end_loans(u32 leaf, u64 loan, u64 heir)
{
	u32 lender;

	tb_loop(TB_LENT_MAX) {
		if (!has_lenders(leaf))
			break;
		lender = step_end_loan(leaf, loan, heir);
		if (!lender)
			break;
		if (task_at(lender)->lender) {
			loan_timer_look();
		} else if (lends(lender)) {
			note_request(&task_at(lender)->end.here, heir);
			follow_borrower(lender);
		} else if (has_lenders(lender)) {
			follow_down(lender);
		}
	}
	if (has_lenders(leaf))
		follow_down(leaf);
}

/* A thread goes to sleep. */
static __always_inline void sleep(u32 leaf, u64 loan)
{
	int lent = loan & ~LOAN_FLAGS ? lend(leaf, loan) : 0;
	struct task *t = task_at(leaf);
	u64 heir = loan & LOANS_PASS ? t->forked : 0;

	/* A server that has forked may wait for memory before it waits for its next client. */
	if (!(loan & LOANS_STAY))
		t->forked = 0;
	if (lent & LENT_FOLLOW)
		follow_borrower(leaf);
	if (lent)
		return;
	leave(leaf);
	if (!transfers())
		return;
	t->payer = TB_NONE;
	t->loans_stay = !!(loan & LOANS_STAY);
	if (!(loan & LOANS_STAY))
		end_loans(leaf, loan, heir);
	else if (has_lenders(leaf))
		follow_down(leaf);
}

/* A thread exits, or leaves our class. */
static __always_inline void end_all_loans(u32 leaf)
{
	task_at(leaf)->payer = TB_NONE;
	if (lends(leaf) || (transfers() && task_at(leaf)->pays_for))
		step_recall(number_of(leaf), now_ns());
	end_loans(leaf, LOANS_END, 0);
}
