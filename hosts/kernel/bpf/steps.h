/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The steps that change an economy: each takes the queue's lock, makes one whole change, and releases the lock.
 *
 * They are global functions of scalars, which the verifier proves once, by themselves, for all arguments. Inlined or static ones
 * it would walk again for every path that leads to them, and kernels before 6.18 would refuse the longer programs.
 *
 * Between two steps of one decision other CPUs may take theirs. Each step leaves the economy consistent, so at worst a pick
 * does not see a precharge yet, or picks a client that has just exited: one quantum goes to the second best, or the pick is
 * repeated.
 */
#pragma once
#include "cpus.h"
#include "groups.h"
#include "home.h"
#include "paying.h"
#include "turns.h"

__noinline int step_settle(u32 leaf, u64 next_ns)
{
	struct run_queue *rq = queue_of(leaf);
	u32 seed = new_seed(leaf);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	charge(&rq->economy, leaf, next_ns, seed);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

static __always_inline void settle_bill(u32 leaf, u64 next_ns)
{
	if (owes(leaf, next_ns))
		step_settle(leaf, next_ns);
}

/*
 * The leaf that gets a CPU, among those that may run on `mask`: `held`, which has the CPU and could go on, and is settled first
 * (TB_NONE: there is none); or the best waiting leaf; or a leaf out of turn, with DRAW_OVERDUE or DRAW_URGENT in the upper
 * half. A waiting leaf is then withdrawn, with the account that pays. TB_NONE if none may run there.
 */
__noinline u64 step_draw(u32 cpu, u32 held, u64 now, u64 mask)
{
	struct run_queue *rq = queue_of_cpu((s32)cpu);
	struct cpu *c = cpu_of((s32)cpu);
	u64 drawn;
	u32 best, seed = new_seed(held);

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (held && owes(held, 0))
		charge(&rq->economy, held, 0, seed);
	if (transfers() && held) {
		task_at(held)->payer = TB_NONE;
		choose_payer(&rq->economy, held);
	}
	if (held && is_frozen(&rq->economy, held))
		held = TB_NONE;
	best = tb_pick(&rq->economy, RULES, mask);
	if (transfers() && best && tb_rests(&rq->economy, best)) {
		bpf_spin_unlock(&rq->lock);
		return DRAW_AGAIN | best;
	}
	rq->drawn = held && (!best || tb_keeps(&rq->economy, RULES, account_of(held), best)) ? account_of(held) : best;
	c->shortest = 0;
	if (urgent_wait(rq) || tb_overdue(&rq->economy, now, tombola_config.patience_ns, mask))
		rq->drawn = out_of_turn(rq, c, now, mask, (u32)rq->drawn);
	drawn = has_drawn(&rq->economy, rq->drawn);
	if ((u32)drawn != held) {
		tb_withdraw(&rq->economy, (u32)drawn);
		if (transfers() && (u32)drawn != (u32)rq->drawn)
			tb_withdraw(&rq->economy, (u32)rq->drawn);
	}
	tb_runs(&rq->economy, (u32)rq->drawn, mask);
	bpf_spin_unlock(&rq->lock);
	return drawn;
}

/*
 * Flags beside the number of the CPU on which a thread becomes runnable. WOKEN: it woke up. WOKEN_HERE: that CPU woke it, outside
 * hard interrupts (outside_hardirq), so the thread that runs there counts as its waker. WOKEN_SYNC: the waker is about to sleep.
 */
#define WOKEN (1 << 28)
#define WOKEN_HERE (1 << 29)
#define WOKEN_SYNC (1 << 30)

/*
 * The running thread goes on; is preempted now; or is preempted later. NEXT: the waking thread is next, and need not wait. MOVED:
 * it waited already, and has gone to another queue since that was looked up; nothing was done.
 */
enum preempt { PREEMPT_NONE = 0, PREEMPT_NOW = 1, PREEMPT_LATER = 2, PREEMPT_NEXT = 4, PREEMPT_MOVED = 8 };

/*
 * A thread wakes up during a kernel thread's slice, which ends then, but not before protect_ns of it if the CPU can set its timer
 * (tombola_enqueue); otherwise at once.
 */
static __always_inline u32 shorten_kthread(struct cpu *c, u64 now)
{
	u64 protected_ns = c->since_ns + tombola_config.rules.protect_ns;

	if (!c->end_ns)
		return PREEMPT_NONE;
	if ((s64)(now - protected_ns) >= 0)
		return PREEMPT_NOW;
	if ((s64)(c->end_ns - protected_ns) <= 0)
		return PREEMPT_NONE;
	c->end_ns = protected_ns;
	return PREEMPT_LATER;
}

/*
 * A thread becomes runnable while another runs on its CPU: preempt, or end the slice when the new thread will be the better
 * choice.
 */
static __noinline u32 check_preempt(struct tb_queue *q, u64 both, u32 woken, s32 cpu, u64 now)
{
	struct cpu *c = cpu_of(cpu);
	struct tb_run run;
	u64 crossing_ns;

	if (!c->leaf)
		return cpu & WOKEN ? shorten_kthread(c, now) : PREEMPT_NONE;
	if (c->leaf == woken || !(tb_at(q, c->leaf)->state & TB_ACTIVE))
		return PREEMPT_NONE;
	run.ran_ns = now - c->since_ns;
	run.precharge_ns = state_of(c->leaf)->precharge_ns;
	run.woke = cpu & WOKEN_HERE;
	crossing_ns = tb_crossing_ns(q, RULES, both, payer_beside(woken, c->leaf), &run);
	if (!crossing_ns)
		return PREEMPT_NOW;
	/* If no thread waited before, the running one has the long slice of a lone thread. */
	if (crossing_ns > tombola_config.rules.quantum_ns)
		crossing_ns = tombola_config.rules.quantum_ns;
	if (crossing_ns < SLICE_MIN_NS)
		crossing_ns = SLICE_MIN_NS;
	if ((s64)(c->end_ns - now - crossing_ns) <= 0)
		return PREEMPT_NONE;
	c->end_ns = now + crossing_ns;
	return PREEMPT_LATER;
}

/*
 * Would an active thread that does not wait be picked before all that wait, and does no overdue or frozen one want a turn? Urgent
 * leaves that are not frozen are not asked: they wait for the next draw.
 */
static __always_inline u32 is_best(struct tb_queue *q, u32 leaf, u64 mask, u64 now)
{
	u32 best;

	if (tb_at(q, tb_frozen_root(q))->active || tb_overdue(q, now, tombola_config.patience_ns, mask))
		return 0;
	best = q->waiting ? tb_pick(q, RULES, mask) : TB_NONE;
	return !best || tb_keeps(q, RULES, account_of(leaf), best);
}

/*
 * A waker mostly sleeps soon. So a thread that would be drawn then goes to the local DSQ at once, and the kernel need not call
 * dispatch. If the waker waits again before that thread runs, or another waking thread preempts, the thread is compared with the
 * waiting ones when it begins (step_stays). One thread at a time. With several CPUs another one may be free first, so only a
 * thread that preempts goes there, or one whose waker is about to sleep. With tick_slices, only a thread that preempts goes
 * there: the waker's slice cannot be shortened.
 */
static __always_inline u32 is_next(struct tb_queue *q, u32 leaf, s32 cpu, u64 now, u32 verdict)
{
	struct cpu *c = cpu_of(cpu);
	bool must_preempt = (tombola_config.nr_cpus > 1 && !(cpu & WOKEN_SYNC)) || tombola_config.tick_slices;

	if (c->next) {
		c->recheck |= leaf != c->preempted && (!(cpu & WOKEN) || verdict == PREEMPT_NOW);
		return 0;
	}
	/* Waiting kernel threads get the CPU only when dispatch is called. */
	if (c->kthreads || !(cpu & WOKEN) || (must_preempt && verdict != PREEMPT_NOW) || !is_best(q, leaf, cpu_mask(cpu), now))
		return 0;
	c->next = leaf;
	c->preempted = verdict == PREEMPT_NOW ? c->leaf : TB_NONE;
	c->recheck = 0;
	return PREEMPT_NEXT;
}

/*
 * Root's base tickets rise with those of all other runnable users, to root_share of best effort or as many as arithmetic takes.
 * So an administrator can log in, however many users there are.
 */
static __always_inline void root_keeps_up(struct tb_queue *q, u32 leaf)
{
	struct tb_client *c, *p = tb_at(q, TB_BEST_EFFORT);
	u64 others, tickets;
	u32 root = root_client;

	/* With several queues, the balance timer does it. */
	if (several() || task_at(leaf)->uid || !root)
		return;
	c = tb_at(q, root);
	if (c->parent != TB_BEST_EFFORT)
		return;
	others = tb_active_tickets(p);
	if (c->state & TB_ACTIVE)
		others -= c->tickets;
	if (others == root_others)
		return;
	/* Before the two below are read: if they change now, the next one sets root's tickets again. */
	root_others = others;
	barrier();
	tickets = others * root_share / (TOMBOLA_SHARE_ONE - root_share);
	if (tickets < root_base)
		tickets = root_base;
	if (tickets > TB_TICKETS_LIMIT)
		tickets = TB_TICKETS_LIMIT;
	if (tickets != c->tickets)
		tb_set_tickets(q, RULES, root, (u32)tickets);
}

/* Under the lock: with several queues, a leaf is about to join its currency's part. */
static __always_inline void arrive(struct tb_queue *q, u32 leaf)
{
	if (!several())
		return;
	task_at(leaf)->arriving = 0;
	wake_groups(q, leaf);
	count_leaf(q, leaf, true);
}

/*
 * A thread that may run on `mask` becomes runnable on `cpu`, and waits unless it is next. A waiting thread is enqueued again when
 * the CPUs change on which it may run.
 */
__noinline u32 step_wait(u32 leaf, u64 mask, u64 now, s32 cpu)
{
	struct run_queue *rq = queue_of(leaf);
	u32 verdict, runner = cpu_of(cpu)->leaf, seed = new_seed_of_loan(leaf);
	u64 both;

	if (!rq)
		return PREEMPT_NONE;
	bpf_spin_lock(&rq->lock);
	root_keeps_up(&rq->economy, leaf);
	if (several() && place_of_leaf(leaf) != rq->number) {
		bpf_spin_unlock(&rq->lock);
		return PREEMPT_MOVED;
	}
	arrive(&rq->economy, leaf);
	reclaim(&rq->economy, leaf, now, seed);
	rq->both = 0;
	if (runner)
		rq->both = tb_meet(&rq->economy, leaf, payer_beside(leaf, runner));
	both = rq->both;
	tb_join(&rq->economy, RULES, leaf, mask, cpu & WOKEN_HERE ? tb_at(&rq->economy, (u32)both)->parent : TB_NONE);
	tb_forget(cpu);
	/* One that waits already goes on waiting. */
	if (cpu & WOKEN)
		tb_withdraw(&rq->economy, leaf);
	tb_forget(cpu);
	rq->verdict = check_preempt(&rq->economy, both, leaf, cpu, now);
	tb_forget(cpu);
	rq->verdict |= is_next(&rq->economy, leaf, cpu, now, rq->verdict);
	verdict = rq->verdict;
	if (!(verdict & PREEMPT_NEXT))
		tb_wait(&rq->economy, RULES, leaf, mask, now);
	if (grace_s || is_frozen(&rq->economy, leaf))
		wait_urgently(rq, leaf);
	bpf_spin_unlock(&rq->lock);
	return verdict;
}

/* Does a thread that has just got a CPU of `mask` keep it, although others have begun to wait? */
__noinline u32 step_stays(u32 leaf, u64 mask, u64 now)
{
	struct run_queue *rq = queue_of(leaf);
	u32 stays;

	if (!rq)
		return 1;
	bpf_spin_lock(&rq->lock);
	stays = is_best(&rq->economy, leaf, mask, now);
	bpf_spin_unlock(&rq->lock);
	return stays;
}

/* A thread runs without having been drawn. 0: as PREEMPT_MOVED. */
__noinline int step_join(u32 leaf, u64 mask)
{
	struct run_queue *rq = queue_of(leaf);
	u32 seed = new_seed_of_loan(leaf);
	u64 now = lends(leaf) ? now_ns() : 0;
	int joins;

	if (!rq)
		return 1;
	bpf_spin_lock(&rq->lock);
	joins = !several() || place_of_leaf(leaf) == rq->number;
	if (joins) {
		root_keeps_up(&rq->economy, leaf);
		arrive(&rq->economy, leaf);
		reclaim(&rq->economy, leaf, now, seed);
		tb_withdraw(&rq->economy, leaf);
		tb_join(&rq->economy, RULES, leaf, mask, TB_NONE);
	}
	bpf_spin_unlock(&rq->lock);
	return joins;
}

/* A thread is no longer runnable: it is settled, and becomes inactive. 0: as PREEMPT_MOVED. */
__noinline int step_leave(u32 leaf)
{
	struct run_queue *rq = queue_of(leaf);
	u32 seed = new_seed(leaf);
	int leaves;

	if (!rq)
		return 1;
	bpf_spin_lock(&rq->lock);
	leaves = !several() || place_of_leaf(leaf) == rq->number;
	if (leaves) {
		if (owes(leaf, 0))
			charge(&rq->economy, leaf, 0, seed);
		tb_withdraw(&rq->economy, leaf);
		tb_leave(&rq->economy, RULES, leaf);
		if (several()) {
			task_at(leaf)->arriving = 0;
			count_leaf(&rq->economy, leaf, false);
		}
	}
	bpf_spin_unlock(&rq->lock);
	return leaves;
}

static __always_inline void leave(u32 leaf)
{
	if (!several()) {
		step_leave(leaf);
		return;
	}
	tb_loop(8) {
		if (step_leave(leaf))
			break;
	}
	follow_leaf(leaf);
}

/*
 * What an exiting client consumed beyond forked_ns is charged to `heir`, in the same currency (tb_charge_heir). With several
 * queues the heir's is the one with number `place`: a thread has gone there, of a process with several threads its part there
 * pays.
 */
__noinline int step_charge_heir(u32 client, u32 heir, u64 forked_ns, u32 place)
{
	struct run_queue *rq = queue_at(place);
	u32 part = part_on(client, place), paying;
	u64 pass;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	paying = tb_child_of(&rq->economy, tb_at(&rq->economy, part)->parent, heir);
	pass = tb_at(&rq->economy, paying)->pass;
	tb_charge_heir(&rq->economy, RULES, part, heir, forked_ns);
	if (several() && paying && !is_leaf(paying)) {
		pass = tb_at(&rq->economy, paying)->pass - pass;
		pass = tb_service_ns(pass, tb_at(&rq->economy, paying)->tickets);
		__sync_fetch_and_add(&group_at(paying)->pass, tb_advance(pass, TB_DRAW_ONE, group_at(paying)->tickets));
	}
	/* An exiting thread may sleep before its last stop: what it uses from here on is counted from 0. */
	tb_at(&rq->economy, part)->young_ns = 0;
	state_of(client)->forked_ns = 0;
	bpf_spin_unlock(&rq->lock);
	return 0;
}
