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

/*
 * Under the lock: charge a leaf and its currencies for what it used, undo what its pick had charged in advance, and charge its
 * next run in advance. What the seat says of both belongs to whoever holds the leaf: the CPU it runs on, or the one that has
 * just withdrawn it.
 */
static __always_inline void charge(struct tb_queue *q, u32 leaf, u64 next_ns, u32 seed)
{
	struct seat *seat = seat_of(leaf);
	struct tb_bill *bill = &q->bill;

	bill->used_ns = seat->unpaid_ns;
	bill->precharge_ns = seat->precharge_ns;
	bill->next_ns = next_ns;
	bill->seed = seed;
	seat->unpaid_ns = 0;
	seat->precharge_ns = next_ns;
	tb_charge(q, RULES, leaf);
}

/* Every other time there is nothing to charge. */
static __always_inline bool owes(u32 leaf, u64 next_ns)
{
	return seat_of(leaf)->unpaid_ns | (seat_of(leaf)->precharge_ns ^ next_ns);
}

/* Only what was used is drawn for. */
static __always_inline u32 new_seed(u32 leaf)
{
	return tombola_config.rules.lottery && seat_of(leaf)->unpaid_ns ? bpf_get_prandom_u32() : 0;
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

/* A draw out of turn, for who has waited too long; who is frozen has the shortest turn that there is. */
#define DRAW_OVERDUE (1ull << 32)
#define DRAW_FROZEN (1ull << 33)

/*
 * Who is to have a CPU of `mask`: `held`, which is settled first and could go on, or TB_NONE; or the best of those who wait, who
 * then waits no more. TB_NONE if nobody may run there.
 */
__noinline u64 step_draw(u32 queue, u32 held, u64 now, u64 mask)
{
	struct run_queue *rq = queue_of(queue);
	u64 flags = 0;
	u32 best, seed = new_seed(held);

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (held && owes(held, 0))
		charge(&rq->economy, held, 0, seed);
	if (held && tb_frozen(&rq->economy, held))
		held = TB_NONE;
	best = tb_overdue(&rq->economy, now, tombola_config.patience_ns, mask);
	if (best)
		flags = DRAW_OVERDUE | (tb_frozen(&rq->economy, best) ? DRAW_FROZEN : 0);
	else
		best = tb_pick(&rq->economy, RULES, mask);
	if (held && (!best || (!flags && tb_keeps(&rq->economy, RULES, held, best))))
		best = held;
	else
		tb_withdraw(&rq->economy, best);
	bpf_spin_unlock(&rq->lock);
	return best | flags;
}

/*
 * With the number of the CPU on which a thread begins to wait: it woke up there; it was who has that CPU that woke it; and who
 * said that it will sleep now.
 */
#define WOKEN (1 << 28)
#define WOKEN_HERE (1 << 29)
#define WOKEN_SYNC (1 << 30)

/* Who has the CPU goes on; loses it now; or is to lose it later. And the thread need not wait, since it is next. */
enum challenge { CHALLENGE_NONE = 0, CHALLENGE_WON = 1, CHALLENGE_LATER = 2, CHALLENGE_NEXT = 4 };

/*
 * A thread is there to run while somebody has the CPU it woke on: take the CPU away, or plan for when the newcomer will be the
 * better choice.
 */
static __noinline u32 challenge(struct tb_queue *q, u64 both, u32 waker, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	struct tb_run run;
	u64 crossing_ns;

	if (!c->leaf || c->leaf == waker || !(tb_at(q, c->leaf)->state & TB_ACTIVE))
		return CHALLENGE_NONE;
	run.ran_ns = now - c->since_ns;
	run.precharge_ns = seat_of(c->leaf)->precharge_ns;
	run.woke = cpu & WOKEN_HERE;
	crossing_ns = tb_crossing_ns(q, RULES, both, c->leaf, &run);
	if (!crossing_ns)
		return CHALLENGE_WON;
	/* Nobody waited before: the slice was for a thread alone. */
	if (crossing_ns > tombola_config.rules.quantum_ns)
		crossing_ns = tombola_config.rules.quantum_ns;
	if (crossing_ns < SLICE_MIN_NS)
		crossing_ns = SLICE_MIN_NS;
	if ((s64)(c->end_ns - now - crossing_ns) <= 0)
		return CHALLENGE_NONE;
	c->end_ns = now + crossing_ns;
	return CHALLENGE_LATER;
}

/* Would an active thread that does not wait be drawn before all who do? While a frozen one is active, it may be that one. */
static __always_inline u32 is_best(struct tb_queue *q, u32 leaf, u64 mask, u64 now)
{
	u32 best;

	if (tb_at(q, TB_LIMBO)->active || tb_overdue(q, now, tombola_config.patience_ns, mask))
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
		c->doubtful |= leaf != c->beaten && (!(cpu & WOKEN) || verdict == CHALLENGE_WON);
		return 0;
	}
	if (!(cpu & WOKEN) || (only_won && verdict != CHALLENGE_WON) || !is_best(q, leaf, cpu_mask(cpu), now))
		return 0;
	c->next = leaf;
	c->beaten = verdict == CHALLENGE_WON ? c->leaf : TB_NONE;
	c->doubtful = 0;
	return CHALLENGE_NEXT;
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
		return CHALLENGE_NONE;
	bpf_spin_lock(&rq->lock);
	root_keeps_up(&rq->economy, leaf);
	rq->meeting = 0;
	if (runner)
		rq->meeting = tb_meet(&rq->economy, leaf, runner);
	both = rq->meeting;
	tb_join(&rq->economy, RULES, leaf, mask, cpu & WOKEN_HERE ? tb_at(&rq->economy, (u32)both)->parent : TB_NONE);
	tb_withdraw(&rq->economy, leaf);
	rq->verdict = challenge(&rq->economy, both, leaf, cpu, now);
	rq->verdict |= is_next(&rq->economy, leaf, cpu, now, rq->verdict);
	verdict = rq->verdict;
	if (!(verdict & CHALLENGE_NEXT))
		tb_wait(&rq->economy, RULES, leaf, mask, now);
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

__noinline u32 step_new(u32 queue, u32 kind, u32 parent, u32 tickets)
{
	struct run_queue *rq = queue_of(queue);
	u32 made;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	made = tb_new(&rq->economy, kind, parent, tickets);
	bpf_spin_unlock(&rq->lock);
	return made;
}

/* A reservation ends with the last who had it. */
static __always_inline void vacate(struct tb_queue *q, u32 parent)
{
	struct tb_client *p = tb_at(q, parent);

	if (p->kind != TB_KIND_RESERVATION || p->clients)
		return;
	reserved -= p->tickets;
	tb_free(q, parent);
}

__noinline int step_free(u32 queue, u32 client)
{
	struct run_queue *rq = queue_of(queue);
	u32 parent;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	parent = tb_at(&rq->economy, client)->parent;
	tb_free(&rq->economy, client);
	vacate(&rq->economy, parent);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* Is a client in limbo, or with a reservation, and not where it is at home? */
static __always_inline bool is_away(struct tb_queue *q, u32 client)
{
	u8 kind = tb_at(q, tb_at(q, client)->parent)->kind;

	return kind == TB_KIND_RESERVATION || kind == TB_KIND_LIMBO;
}

/* Of a client that is to go to limbo or to have a reservation: where it comes from. */
static __always_inline void leave_home(struct tb_queue *q, u32 client)
{
	u32 parent = tb_at(q, client)->parent;
	u8 kind = tb_at(q, parent)->kind;

	if (kind == TB_KIND_USER || kind == TB_KIND_CURRENCY)
		seat_of(client)->home = number_of(parent);
}

/* May a client change to the currency `to` now? Otherwise a negative error, or 0: it is away and will come home there. */
static __always_inline int may_come(struct tb_queue *q, u32 client, u64 to, u32 seen)
{
	if (tb_at(q, client)->kind == TB_KIND_CURRENCY) {
		if (structure != seen)
			return -EAGAIN;
		structure++;
	}
	if (!is_away(q, client))
		return 1;
	seat_of(client)->home = to;
	return 0;
}

/* What `seen` is for who goes away, or home, or to its own process's currency. */
#define AT_ONCE (1ull << 32)

/*
 * A leaf, a process or a currency changes to the currency `to`: AT_ONCE, or unless it is away; then it will come home there.
 * -EAGAIN if it is a currency, and any was made or moved since `structure` was `seen`. What threads that run just now were
 * charged in advance goes with them (tb_move).
 */
__noinline int step_move(u64 number, u64 to, u64 seen)
{
	struct run_queue *rq = queue_of(0);
	u32 client = (u32)number, from;
	int may = seen == AT_ONCE ? -ESRCH : -ENOENT;

	if (!rq)
		return may;
	bpf_spin_lock(&rq->lock);
	if (!client_of(&rq->economy, number) || !client_of(&rq->economy, to))
		goto out;
	may = 1;
	if (seen == AT_ONCE)
		leave_home(&rq->economy, client);
	else
		may = may_come(&rq->economy, client, to, (u32)seen);
	from = tb_at(&rq->economy, client)->parent;
	if (may == 1 && from != (u32)to) {
		tb_move(&rq->economy, RULES, client, (u32)to);
		vacate(&rq->economy, from);
	}
out:
	bpf_spin_unlock(&rq->lock);
	return may < 0 ? may : 0;
}

/* Other tickets for a client, more than none. */
__noinline int step_set_tickets(u64 number, u32 tickets)
{
	struct run_queue *rq = queue_of(0);
	u32 client = (u32)number;
	int ret = -ESRCH;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number)) {
		tb_set_tickets(&rq->economy, RULES, client, tickets);
		ret = 0;
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
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
