/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The steps that change an economy: each takes the queue's lock, does one whole thing, and gives the lock back.
 *
 * They are global functions of scalars, which the verifier proves once, by themselves, for all arguments. Inlined, or static,
 * it would walk them again for every path that leads to them, and on kernels before 6.18 give up on the longer programs.
 *
 * Between two steps of one decision others may take theirs. Each step leaves the economy whole, so what can happen is that a
 * pick does not yet see a precharge, or sees a client that has just gone: one quantum goes to the second best, or the pick
 * is repeated.
 */
#pragma once
#include "state.h"

/* Is a client in the frozen root, or with a reservation, and not where it is at home? */
static __always_inline bool is_away(struct tb_queue *q, u32 client)
{
	u8 kind = tb_at(q, tb_at(q, client)->parent)->kind;

	return kind == TB_KIND_RESERVATION || kind == TB_KIND_FROZEN;
}

/* The currency that a client is at home in. */
static __noinline u32 home_of(struct tb_queue *q, u32 client)
{
	u32 home = tb_at(q, client)->parent;
	u8 kind;

	if (tb_at(q, client)->kind == TB_KIND_USER)
		return TB_BEST_EFFORT;
	if (is_away(q, client))
		home = client_of(q, state_of(client)->home);
	kind = tb_at(q, home)->kind;
	return kind == TB_KIND_USER || kind == TB_KIND_CURRENCY ? home : state_of(client)->user;
}

/* Of a leaf that is frozen, or in something that is: the currency which that comes from. TB_NONE: nobody, a user is frozen. */
static __noinline u32 pays_for(struct tb_queue *q, u32 leaf)
{
	tb_loop(TB_DEPTH) {
		u32 parent = tb_at(q, leaf)->parent;

		if (!parent || parent == TB_FROZEN)
			break;
		leaf = parent;
	}
	if (tb_at(q, leaf)->parent != TB_FROZEN || tb_at(q, leaf)->kind == TB_KIND_USER)
		return TB_NONE;
	return home_of(q, leaf);
}

/*
 * Under the lock: charge a leaf and its currencies for what it used, undo what its pick had charged in advance, and charge its
 * next run in advance. What task and state say of both belongs to whoever holds the leaf: the CPU it runs on, or the one that has
 * just withdrawn it. What it was charged before that was counted (step_settle_running) is taken off. What one that is frozen uses
 * all the same is charged to the currency that it comes from, too.
 */
static __always_inline void charge(struct tb_queue *q, u32 leaf, u64 next_ns, u32 seed)
{
	struct client_state *state = state_of(leaf);
	struct task *t = task_at(leaf);
	struct tb_bill *bill = &q->bill;
	u64 counted_ns = tb_min(state->uncounted_ns, t->unpaid_ns);

	bill->used_ns = t->unpaid_ns - counted_ns;
	bill->precharge_ns = state->precharge_ns;
	bill->next_ns = next_ns;
	bill->seed = seed;
	if (bill->used_ns && tb_at(q, TB_FROZEN)->clients)
		q->moves_to = pays_for(q, leaf);
	t->unpaid_ns = 0;
	state->uncounted_ns -= counted_ns;
	state->precharge_ns = next_ns;
	tb_charge(q, RULES, leaf);
}

/* Every other time there is nothing to charge. */
static __always_inline bool owes(u32 leaf, u64 next_ns)
{
	return task_at(leaf)->unpaid_ns | (state_of(leaf)->precharge_ns ^ next_ns);
}

/* Only what was used is drawn for. */
static __always_inline u32 new_seed(u32 leaf)
{
	return tombola_config.rules.lottery && task_at(leaf)->unpaid_ns ? bpf_get_prandom_u32() : 0;
}

__noinline int step_settle(u32 queue, u32 leaf, u64 next_ns)
{
	struct run_queue *rq = queue_of(queue);
	u32 seed = new_seed(leaf);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	charge(&rq->economy, leaf, next_ns, seed);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

static __always_inline void settle_bill(u32 queue, u32 leaf, u64 next_ns)
{
	if (owes(leaf, next_ns))
		step_settle(queue, leaf, next_ns);
}

/* A draw out of turn, of one that has waited too long or of one that is frozen in a system call. */
#define DRAW_OVERDUE (1ull << 32)
#define DRAW_URGENT (1ull << 33)

/* A frozen thread that is seen at the border to user mode holds nothing of the kernel's. One that never is has had its time. */
static __always_inline bool is_done(u32 leaf)
{
	struct client_state *state = state_of(leaf);

	return (state->border_ns && state->border_ns == task_at(leaf)->exec_ns) || state->frozen_ns > URGENT_MOST_NS;
}

/*
 * A frozen thread that was stopped in a system call may hold a lock that others need. It is to have its turns sooner, until it is
 * seen at the border to user mode; and so are all that are frozen with a currency, as nobody knows yet. If there are too many,
 * the rest waits as long as any frozen one.
 */
static __always_inline void wait_urgently(struct run_queue *rq, u32 client)
{
	struct urgent *urgent = &rq->urgent[rq->urgent_last & (NR_URGENT - 1)];
	u32 user = state_of(client)->user;

	if (is_done(client) || rq->urgent_last - rq->urgent_first >= NR_URGENT || state_of(user)->urgent >= NR_URGENT_OF_USER)
		return;
	urgent->number = number_of(client);
	urgent->user = user;
	rq->urgent_last++;
	state_of(user)->urgent++;
}

/* Of the leaves that wait in a client, or the client itself: whose turn it is on a CPU of `mask`. */
static __noinline u32 first_in(struct tb_queue *q, u32 client, u64 mask)
{
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, client);

		if (!client || c->kind == TB_KIND_THREAD)
			break;
		client = tb_order_first(q, c, c->vnow + (1ull << 62), mask);
	}
	return tb_at(q, client)->state & TB_QUEUED && tb_at(q, client)->mask & mask ? client : TB_NONE;
}

/* The first of them that may have a CPU of `mask`. A currency goes to the end, until all in it were seen at the border. */
static __noinline u32 next_urgent(struct run_queue *rq, u64 mask)
{
	struct urgent *first = &rq->urgent[rq->urgent_first & (NR_URGENT - 1)];
	struct tb_queue *q = &rq->economy;
	u32 client = client_of(q, first->number), leaf;

	if (rq->urgent_first == rq->urgent_last)
		return TB_NONE;
	rq->urgent_first++;
	state_of(first->user)->urgent--;
	if (!tb_frozen(q, client))
		return TB_NONE;
	leaf = first_in(q, client, mask);
	if (is_done(leaf))
		return TB_NONE;
	if (leaf != client && tb_at(q, client)->state & TB_QUEUED)
		wait_urgently(rq, client);
	return leaf;
}

/*
 * Who is to have the CPU although it is not its turn. All such together have a small part of a CPU that others want, however
 * many a user makes of them; a larger one when it would become too late for the oldest.
 */
static __noinline u64 out_of_turn(struct run_queue *rq, struct cpu *c, u64 now, u64 mask, bool wanted)
{
	struct tb_queue *q = &rq->economy;
	u32 overdue = tb_overdue(q, now, tombola_config.patience_ns, mask), urgent = TB_NONE;
	u64 part = c->urgent ? URGENT_PART : OVERDUE_PART;

	if (overdue && (s64)(now - tb_at(q, overdue)->since - 4 * tombola_config.patience_ns) >= 0)
		part = LATE_PART;
	if (c->turn_ns) {
		c->turn_took_ns = now - c->turn_ns;
		c->turn_end_ns = now;
		c->turn_ns = 0;
	}
	if (wanted && now - c->turn_end_ns < c->turn_took_ns * part)
		return TB_NONE;
	if (!overdue || !c->urgent)
		urgent = next_urgent(rq, mask);
	c->urgent = !!urgent;
	if (urgent)
		return urgent | DRAW_URGENT;
	return overdue ? overdue | DRAW_OVERDUE : TB_NONE;
}

/*
 * Who is to have a CPU, which threads of `mask` may run on: `held`, which is settled first and could go on, or TB_NONE; or the
 * best of those who wait, who then waits no more. TB_NONE if nobody may run there.
 */
__noinline u64 step_draw(u32 cpu, u32 held, u64 now, u64 mask)
{
	struct run_queue *rq = queue_of(0);
	struct cpu *c = cpu_of((s32)cpu);
	u64 drawn;
	u32 best, seed = new_seed(held);

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (held && owes(held, 0))
		charge(&rq->economy, held, 0, seed);
	if (held && tb_frozen(&rq->economy, held))
		held = TB_NONE;
	best = tb_pick(&rq->economy, RULES, mask);
	rq->drawn = out_of_turn(rq, c, now, mask, best || held);
	if (rq->drawn)
		c->turn_ns = now;
	else if (held && (!best || tb_keeps(&rq->economy, RULES, held, best)))
		rq->drawn = held;
	else
		rq->drawn = best;
	drawn = rq->drawn;
	if ((u32)drawn != held)
		tb_withdraw(&rq->economy, (u32)drawn);
	bpf_spin_unlock(&rq->lock);
	return drawn;
}

/*
 * With the number of the CPU on which a thread begins to wait: it woke up there; it was who has that CPU that woke it; and who
 * said that it will sleep now.
 */
#define WOKEN (1 << 28)
#define WOKEN_HERE (1 << 29)
#define WOKEN_SYNC (1 << 30)

/* Who has the CPU goes on; loses it now; or is to lose it later. And the thread need not wait, since it is next. */
enum preempt { PREEMPT_NONE = 0, PREEMPT_NOW = 1, PREEMPT_LATER = 2, PREEMPT_NEXT = 4 };

/*
 * A thread is there to run while somebody has the CPU it woke on: take the CPU away, or plan for when the newcomer will be the
 * better choice.
 */
static __noinline u32 check_preempt(struct tb_queue *q, u64 both, u32 waker, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	struct tb_run run;
	u64 crossing_ns;

	if (!c->leaf || c->leaf == waker || !(tb_at(q, c->leaf)->state & TB_ACTIVE))
		return PREEMPT_NONE;
	run.ran_ns = now - c->since_ns;
	run.precharge_ns = state_of(c->leaf)->precharge_ns;
	run.woke = cpu & WOKEN_HERE;
	crossing_ns = tb_crossing_ns(q, RULES, both, c->leaf, &run);
	if (!crossing_ns)
		return PREEMPT_NOW;
	/* Nobody waited before: the slice was for a thread alone. */
	if (crossing_ns > tombola_config.rules.quantum_ns)
		crossing_ns = tombola_config.rules.quantum_ns;
	if (crossing_ns < SLICE_MIN_NS)
		crossing_ns = SLICE_MIN_NS;
	if ((s64)(c->end_ns - now - crossing_ns) <= 0)
		return PREEMPT_NONE;
	c->end_ns = now + crossing_ns;
	return PREEMPT_LATER;
}

/* Would an active thread that does not wait be drawn before all who do? While a frozen one is active, it may be that one. */
static __always_inline u32 is_best(struct tb_queue *q, u32 leaf, u64 mask, u64 now)
{
	u32 best;

	if (tb_at(q, TB_FROZEN)->active || tb_overdue(q, now, tombola_config.patience_ns, mask))
		return 0;
	best = q->waiting ? tb_pick(q, RULES, mask) : TB_NONE;
	return !best || tb_keeps(q, RULES, leaf, best);
}

/*
 * Who wakes another mostly sleeps soon. So a thread that would be drawn then goes to the CPU's own queue at once, and the kernel
 * need not ask. If the waker comes back to wait before it runs, or one wakes up that takes the CPU, it is compared with who waits
 * when it begins (step_stays). One at a time. Where other CPUs may be free before this one, only who takes it, or whose waker
 * says that it will sleep; where the waker's slice cannot be cut but by taking the CPU, only who takes it.
 */
static __always_inline u32 is_next(struct tb_queue *q, u32 leaf, s32 cpu, u64 now, u32 verdict)
{
	struct cpu *c = cpu_of(cpu);
	bool only_won = (tombola_config.nr_cpus > 1 && !(cpu & WOKEN_SYNC)) || tombola_config.tick_slices;

	if (c->next) {
		c->doubtful |= leaf != c->beaten && (!(cpu & WOKEN) || verdict == PREEMPT_NOW);
		return 0;
	}
	if (!(cpu & WOKEN) || (only_won && verdict != PREEMPT_NOW) || !is_best(q, leaf, cpu_mask(cpu), now))
		return 0;
	c->next = leaf;
	c->beaten = verdict == PREEMPT_NOW ? c->leaf : TB_NONE;
	c->doubtful = 0;
	return PREEMPT_NEXT;
}

/*
 * Root's base tickets rise with those of all others who want to run, so that an administrator gets in however many these are:
 * to root_share of best effort, or as many as arithmetic takes.
 */
static __always_inline void root_keeps_up(struct tb_queue *q, u32 leaf)
{
	struct tb_client *c, *p = tb_at(q, TB_BEST_EFFORT);
	u64 others = tb_active_tickets(p), tickets;
	u32 root = root_client;

	if (task_at(leaf)->uid || !root)
		return;
	c = tb_at(q, root);
	if (c->parent != TB_BEST_EFFORT)
		return;
	if (c->state & TB_ACTIVE)
		others -= c->tickets;
	tickets = others * root_share / (TOMBOLA_SHARE_ONE - root_share);
	if (tickets < root_base)
		tickets = root_base;
	if (tickets > TB_TICKETS_LIMIT)
		tickets = TB_TICKETS_LIMIT;
	if (tickets != c->tickets)
		tb_set_tickets(q, RULES, root, (u32)tickets);
}

/*
 * A thread that may run on `mask` is there to run on `cpu`, and waits unless it is next. Who waits already is enqueued again
 * when the CPUs it may run on change.
 */
__noinline u32 step_wait(u32 queue, u32 leaf, u64 mask, u64 now, s32 cpu)
{
	struct run_queue *rq = queue_of(queue);
	u32 verdict, runner = cpu_of(cpu)->leaf;
	u64 both;

	if (!rq)
		return PREEMPT_NONE;
	bpf_spin_lock(&rq->lock);
	root_keeps_up(&rq->economy, leaf);
	rq->meeting = 0;
	if (runner)
		rq->meeting = tb_meet(&rq->economy, leaf, runner);
	both = rq->meeting;
	tb_join(&rq->economy, RULES, leaf, mask, cpu & WOKEN_HERE ? tb_at(&rq->economy, (u32)both)->parent : TB_NONE);
	tb_withdraw(&rq->economy, leaf);
	rq->verdict = check_preempt(&rq->economy, both, leaf, cpu, now);
	rq->verdict |= is_next(&rq->economy, leaf, cpu, now, rq->verdict);
	verdict = rq->verdict;
	if (!(verdict & PREEMPT_NEXT))
		tb_wait(&rq->economy, RULES, leaf, mask, now);
	if (tb_frozen(&rq->economy, leaf))
		wait_urgently(rq, leaf);
	bpf_spin_unlock(&rq->lock);
	return verdict;
}

/* Shall a thread that has just got a CPU of `mask` stay there, although others came to wait? */
__noinline u32 step_stays(u32 queue, u32 leaf, u64 mask, u64 now)
{
	struct run_queue *rq = queue_of(queue);
	u32 stays;

	if (!rq)
		return 1;
	bpf_spin_lock(&rq->lock);
	stays = is_best(&rq->economy, leaf, mask, now);
	bpf_spin_unlock(&rq->lock);
	return stays;
}

/* A thread runs that was not drawn. */
__noinline int step_join(u32 queue, u32 leaf, u64 mask)
{
	struct run_queue *rq = queue_of(queue);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	root_keeps_up(&rq->economy, leaf);
	tb_withdraw(&rq->economy, leaf);
	tb_join(&rq->economy, RULES, leaf, mask, TB_NONE);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* A thread is no longer runnable. It is settled, and leaves. */
__noinline int step_leave(u32 queue, u32 leaf)
{
	struct run_queue *rq = queue_of(queue);
	u32 seed = new_seed(leaf);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (owes(leaf, 0))
		charge(&rq->economy, leaf, 0, seed);
	tb_withdraw(&rq->economy, leaf);
	tb_leave(&rq->economy, RULES, leaf);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* A dying client leaves what it still owes to `heir`. */
__noinline int step_died(u32 queue, u32 client, u32 heir)
{
	struct run_queue *rq = queue_of(queue);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	tb_died(&rq->economy, RULES, client, heir);
	tb_at(&rq->economy, client)->young_ns = 0;
	bpf_spin_unlock(&rq->lock);
	return 0;
}
