/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Loans by calls. Of some of a process's tickets to a thread (TOMBOLA_LEND): both run as they please meanwhile.
 *
 *   alice (1000) ──┬── lender (10, before 40)
 *                  └── account (30) ──lends──> a thread of bob's
 *
 * The account (tb_merge) is a leaf like a thread's, and is lent like one; but it has no thread, and is never idle while its
 * borrower runs. task.lender says whose it is. So the lender's currency pays for what the borrower does with these tickets.
 *
 * It ends when it is reclaimed, or its time is over; when the borrower exits or changes to another class; and when the lender
 * exits, changes its user, or is about to be given other tickets, frozen, moved, or given a reservation. What need not be done at
 * that moment a timer does at once after it. Each of these may meet another one: a step takes a number, which is valid until the
 * account is freed, and does nothing after that.
 *
 * And of all that a thread has while it sleeps (TOMBOLA_LEND_WAITING): a loan like that of a thread which waits for a known one
 * (sleeps_for), but to whom the call says.
 */
#pragma once
#include "loans.h"
#include "moves.h"

static __always_inline bool is_account(u32 client)
{
	return transfers() && task_at(client)->lender;
}

/* Under the lock: why a process may not lend so many tickets to a thread; 0: it may. */
static __always_inline s64 may_lend_tickets(struct tb_queue *q, u64 lender, u64 to, u32 tickets)
{
	u32 client = client_of(q, lender), borrower = client_of(q, to);

	/* Either may be just exiting. */
	if (!client || !tb_at(q, client)->parent || !borrower || task_at(borrower)->client != borrower)
		return -ESRCH;
	if (client == borrower)
		return -EINVAL;
	/* It has just become one of several threads. */
	if (tb_at(q, tb_at(q, client)->parent)->kind == TB_KIND_PROCESS)
		return -EAGAIN;
	if (state_of(client)->frozen || tickets >= tb_at(q, client)->tickets)
		return -ERANGE;
	if (tb_at(q, tb_borrower(q, borrower))->lent >= TB_LENT_MAX)
		return -EBUSY;
	return may_own(state_of(client)->user) ? 0 : -ENOSPC;
}

static __always_inline void account_init(u32 account, u64 lender, u64 until_ns)
{
	struct task *t = task_at(account);

	t->client = TB_NONE;
	t->unpaid_ns = 0;
	t->payer = TB_NONE;
	t->pays_for = TB_NONE;
	t->loan = (u32)(LOAN_LASTS | LOAN_BY_CALL);
	t->loans_stay = 0;
	t->until_ns = until_ns;
	t->lender = lender;
}

/* The number of the account, or an error. The lender's run, if it runs, has been settled. */
__noinline s64 step_lend_tickets(u64 lender, u64 to, u32 tickets, u64 until_ns)
{
	struct run_queue *rq = first_queue();
	u32 client = (u32)lender, account = TB_NONE, parent;
	s64 ret = -ESRCH;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	ret = may_lend_tickets(&rq->economy, lender, to, tickets);
	parent = tb_at(&rq->economy, client)->parent;
	if (!ret && enter(parent)) {
		account = tb_new(&rq->economy, TB_KIND_THREAD, parent, tickets);
		if (!account) {
			left_group(parent);
			ret = -ENOSPC;
		}
	}
	if (account) {
		client_state_init(account, state_of((u32)to)->id, state_of(client)->tgid, state_of(client)->user);
		account_init(account, lender, until_ns);
		state_of(client)->lent += tickets;
		set_tickets(&rq->economy, client, tb_at(&rq->economy, client)->tickets - tickets);
		tb_lend(&rq->economy, account, (u32)to);
		ret = (s64)number_of(account);
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}

/* How many tickets a lender may have after it got some back: no more than its limit, if it has not more already. */
static __always_inline u32 most_after(struct tb_queue *q, u32 lender)
{
	u32 limit = state_of(lender)->limit;

	limit = limit > TOMBOLA_TICKETS_MAX ? TOMBOLA_TICKETS_MAX : limit;
	return (u32)tb_max(tb_at(q, lender)->tickets, limit);
}

/*
 * An account whose loan has ended gives its tickets back, and is freed; if the lender has gone to another currency meanwhile, or
 * exited, they are no more. Returns the group that it was in; TB_NONE: it was freed before.
 */
__noinline u32 step_give_back(u64 number)
{
	struct run_queue *rq = first_queue();
	u32 account, lender, group = TB_NONE;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	account = client_of(&rq->economy, number);
	if (account && task_at(account)->lender && !tb_at(&rq->economy, account)->lends_to) {
		group = tb_at(&rq->economy, account)->parent;
		lender = client_of(&rq->economy, task_at(account)->lender);
		if (lender)
			lender = process_of(&rq->economy, lender);
		if (lender)
			state_of(lender)->lent -= tb_at(&rq->economy, account)->tickets;
		if (lender && tb_at(&rq->economy, lender)->parent == group && state_of(lender)->user == state_of(account)->user)
			tb_merge(&rq->economy, RULES, account, lender, most_after(&rq->economy, lender));
		task_at(account)->lender = 0;
		task_at(account)->until_ns = 0;
		tb_put(&rq->economy, account, TB_NONE, 0);
		left_group(group);
		disown(state_of(account)->user);
		tb_free(&rq->economy, account);
	}
	bpf_spin_unlock(&rq->lock);
	return group;
}

/* End a loan of some tickets. True: it has ended now. (Inline: see follow, groups.h.) */
static __always_inline bool give_back(u64 number)
{
	u32 group;

	if (!step_recall(number, now_ns()))
		return false;
	group = step_give_back(number);
	free_empty_reservation(group);
	return group != TB_NONE;
}

/*
 * End all loans of a process's tickets, or those to the leaf `to`; accounts from slot i up. Returns how many there were. (For i
 * see look_for_height.)
 */
__noinline int give_all_back(u32 i, u64 lender, u32 to)
{
	struct run_queue *rq = first_queue();
	int ended = 0;
	u64 number;

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		if (i >= tb_global_pool.fresh)
			break;
		/* Before the look: what is found then is what has this number, or nothing has it any more. */
		number = number_of(i);
		barrier();
		if (task_at(i)->lender == lender && (!to || tb_at(&rq->economy, i)->lends_to == to))
			ended += give_back(number);
		i++;
	}
	return ended;
}

/* All, before and after the lender is changed: another thread may lend meanwhile. */
static __always_inline void end_loans_of(u32 client)
{
	if (transfers() && state_of(client)->lent)
		give_all_back(FIRST_SLOT, number_of(client), TB_NONE);
}

__noinline int step_relabel(u32 account, u64 from, u64 to)
{
	struct run_queue *rq = first_queue();

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (task_at(account)->lender == from)
		task_at(account)->lender = to;
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* A process has become a currency: accounts that were its only thread's are its own. */
__noinline int relabel_accounts(u32 i, u64 from, u64 to)
{
	tb_loop(TB_CLIENTS) {
		if (i >= tb_global_pool.fresh)
			break;
		empty_registers();
		if (task_at(i)->lender == from)
			step_relabel(i, from, to);
		i++;
	}
	return 0;
}

/* Other users lend to a process that they wait for, and to what it forks; or not (may_lend_to). */
__noinline int step_set_server(u64 number, u64 serves)
{
	struct run_queue *rq = first_queue();
	int ret = -ESRCH;

	if (serves > 1)
		return -ERANGE;
	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number)) {
		/* It may just have become one of several threads. */
		state_of(process_of(&rq->economy, (u32)number))->serves = (u8)serves;
		ret = 0;
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}

/* Has the borrower of an account exited, or the lender, or has that changed its user? */
static __always_inline bool is_lost(struct tb_queue *q, u32 account)
{
	u64 number = task_at(account)->lender;
	u32 lender = client_of(q, number);

	return number && (!tb_at(q, account)->lends_to || !lender || state_of(lender)->user != state_of(account)->user);
}

struct loan_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct loan_timer);
} loan_timer SEC(".maps");

u32 first_account = 1; /* not a constant: the verifier would walk each round of the loop below from a known slot */
u32 loan_timer_looks; /* so often has the timer been told to look: it sees that it has missed one */

/*
 * Ends loans whose time is over, or that have lost their borrower or lender. Returns when the next one's time is over; 0: none
 * has a time. (Inline: see follow, groups.h.)
 */
static __always_inline u64 end_overdue_loans(struct tb_queue *q, u64 now)
{
	u64 next_ns = 0, until_ns, number;
	u32 i = first_account;

	tb_loop(TB_CLIENTS) {
		if (i >= tb_global_pool.fresh)
			break;
		number = number_of(i);
		barrier();
		until_ns = task_at(i)->until_ns;
		if ((until_ns && until_ns <= now) || is_lost(q, i))
			give_back(number);
		else if (until_ns && (!next_ns || until_ns < next_ns))
			next_ns = until_ns;
		i++;
	}
	return next_ns;
}

static int loan_timer_fired(void *map, u32 *key, struct loan_timer *value)
{
	struct run_queue *rq = first_queue();
	u32 seen = loan_timer_looks;
	u64 now, next_ns;

	if (!rq)
		return 0;
	barrier();
	now = now_ns();
	next_ns = end_overdue_loans(&rq->economy, now);
	if (next_ns)
		bpf_timer_start(&value->timer, next_ns - now, 0);
	if (seen != loan_timer_looks)
		bpf_timer_start(&value->timer, 0, 0);
	return 0;
}

/* A loan with a time has been made, or one is lost: the timer looks itself what is to be done, and when it fires next. */
static __always_inline void loan_timer_look(void)
{
	u32 key = 0;
	struct loan_timer *timer = bpf_map_lookup_elem(&loan_timer, &key);

	__sync_fetch_and_add(&loan_timer_looks, 1);
	if (timer)
		bpf_timer_start(&timer->timer, 0, 0);
}

static __always_inline int loan_timer_init(void)
{
	u32 key = 0;
	struct loan_timer *timer = bpf_map_lookup_elem(&loan_timer, &key);

	if (!timer)
		return -EINVAL;
	bpf_timer_init(&timer->timer, &loan_timer, CLOCK_MONOTONIC);
	return (int)bpf_timer_set_callback(&timer->timer, loan_timer_fired);
}

/* A lender has exited, or changed its user: the timer ends its loans. */
static __always_inline void lose_lender(u32 client)
{
	if (transfers() && state_of(client)->lent)
		loan_timer_look();
}

/* A global function, like steps (steps.h). */
__noinline s64 lend_tickets(u64 lender, u64 to, u64 tickets, u32 ms)
{
	u64 until_ns = ms ? now_ns() + (u64)ms * 1000000 : 0;
	s64 account;

	if (tickets < TOMBOLA_TICKETS_MIN || tickets > TOMBOLA_TICKETS_MAX)
		return -ERANGE;
	for_each_running((u32)lender, now_ns(), 0);
	account = step_lend_tickets(lender, to, (u32)tickets, until_ns);
	if (account < 0)
		return account;
	count(TOMBOLA_COUNT_LENT);
	follow_borrower((u32)account);
	if (until_ns)
		loan_timer_look();
	return 0;
}

/* From its next sleep on, a thread lends all that it has whenever it sleeps, or only once; `to` 0: no longer. */
__noinline s64 step_will_lend(u64 number, u64 to, u32 once)
{
	struct run_queue *rq = first_queue();
	u32 leaf = (u32)number;
	s64 ret = -ESRCH;

	if (!rq)
		return ret;
	if (leaf == (u32)to)
		return -EINVAL;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number)) {
		task_at(leaf)->once = once & 1;
		task_at(leaf)->will_lend_to = to;
		ret = 0;
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}

/* A thread lends no more by a call, or not to the leaf `to`. Returns whether it would have, or does. */
__noinline u64 lend_waiting_no_more(u64 thread, u64 to)
{
	u32 leaf = (u32)thread, lends_to = tb_global_pool.client[slot(leaf)].lends_to;
	struct task *t = task_at(leaf);
	u64 ended = 0;

	if (t->will_lend_to && (!to || t->will_lend_to == to)) {
		step_will_lend(thread, 0, 0);
		ended = 1;
	}
	if (t->loan & LOAN_BY_CALL && lends(leaf) && (!to || lends_to == (u32)to)) {
		step_recall(thread, now_ns());
		if (has_lenders(leaf))
			follow_down(leaf);
		ended = 1;
	}
	return ended;
}
