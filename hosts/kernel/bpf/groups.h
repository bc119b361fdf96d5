/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several run queues: groups on them (core/include/tombola/queues.h has the rules).
 *
 * A group has a slot for each queue (part_on), so a thread's way up on its queue is found without a map, also under a lock. The
 * sums of a group over all queues are changed by atomic operations, and read without a lock: shares that are computed from a sum
 * that is just changing are corrected when the thread's next slice begins (step_recount).
 *
 *   step_arrive    before a thread becomes runnable     its usable tickets count in its groups
 *   step_recount   a slice begins                       prices and other queues may have changed
 *   step_depart    after it is no longer runnable
 */
#pragma once
#include "state.h"

/* What a group has on one queue. Under the lock of that queue. */
struct part {
	u64 here;    /* usable tickets of its active clients there */
	u64 counted; /* how many of the group's usable tickets count there; 0 while no client is active */
};

struct part parts[TB_CLIENTS];

/* A group on all queues; at its first slot. */
struct group {
	u64 tickets; /* its own, shifted (ticket_shift). Written under the first queue's lock */
	u64 usable;  /* as many of them as it can use. This and the price are written by the balance timer */
	u64 price;   /* tb_price */
	u64 all;     /* usable tickets in all parts */
	u64 threads; /* runnable threads in it */
	u64 clock;   /* the latest vnow of a part; it goes on with each charge */
};

struct group groups[TB_CLIENTS];

static __always_inline struct part *part_at(u32 client)
{
	return &parts[slot(client)];
}

/* Of a client or any of its parts. */
static __always_inline struct group *group_at(u32 client)
{
	return &groups[slot(whole_of(client))];
}

/*
 * Why the tickets of a thread's groups change on its queue. FOLLOW: what it can use has changed. ARRIVE, DEPART: it becomes
 * runnable, or no longer is. LEAVE, COME: it goes to another queue while it waits. The parts there come nearer to the passes that
 * the parts had here.
 */
enum why { FOLLOW, ARRIVE, DEPART, LEAVE, COME };

/* Passes of the parts that a moving leaf leaves, from the innermost one up. */
#define PASSES 16
_Static_assert(PASSES >= TB_DEPTH && (PASSES & (PASSES - 1)) == 0, "one for each level, and the index is masked");

struct passes {
	u64 of[PASSES];
	u64 level; /* of the present one; in memory, as the verifier would tell apart each value of a local variable */
};

/* The pass at which a part goes on with so many tickets. */
static __always_inline u64 pass_of_part(const struct tb_client *c, u32 tickets, u64 from)
{
	if (!(c->state & TB_ACTIVE))
		return from;
	return tb_merged(c->pass, c->tickets, from, tickets > c->tickets ? tickets - c->tickets : 0);
}

/*
 * From a part up: usable tickets of its clients have changed by so much. The tickets of the part, and of those around it, follow.
 * Their lags stay; where a thread changes its queue, their passes.
 */
static __noinline int count_usable(struct tb_queue *q, u32 i, u64 change, enum why why, struct passes *passes)
{
	if (why == LEAVE || why == COME)
		passes->level = 0;
	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i);
		struct part *part = part_at(i);
		struct group *group = group_at(i);
		u64 *left = &passes->of[passes->level & (PASSES - 1)], before = part->counted, pass = c->pass;
		u32 tickets;

		if (why == ARRIVE)
			__sync_fetch_and_add(&group->threads, 1);
		if (why == DEPART)
			__sync_fetch_and_sub(&group->threads, 1);
		if (why == ARRIVE || why == COME)
			tb_catch_clock(c, group->clock);
		else if (tb_before(group->clock, c->vnow))
			group->clock = c->vnow;
		part->here += change;
		__sync_fetch_and_add(&group->all, change);
		if (!c->parent)
			break;
		tickets = part->here ? (u32)tb_share(group->tickets, part->here, group->all) : c->tickets;
		if (why == COME)
			pass = pass_of_part(c, tickets, *left);
		if (why == LEAVE || why == COME) {
			if (tickets != c->tickets || pass != c->pass)
				tb_set_share(q, RULES, i, tickets, pass);
		} else if (tickets != c->tickets) {
			tb_set_tickets(q, RULES, i, tickets);
		}
		if (why == LEAVE)
			*left = c->pass;
		part->counted = part->here ? tb_share(group->usable, part->here, group->all) : 0;
		change = part->counted - before;
		i = c->parent;
		if (why == LEAVE || why == COME)
			passes->level++;
	}
	return 0;
}

/* As many of a thread's tickets as it can use. */
static __always_inline u64 usable_of(struct tb_queue *q, u32 leaf)
{
	struct tb_client *c = tb_at(q, leaf);

	return tb_capped(c->tickets, 1, group_at(c->parent)->price);
}

/* Space for passes, which only LEAVE and COME use. Two moves may be under way on a CPU: the timer's, and a thread's own. */
struct passes no_passes;
struct passes passes[NR_CPUS][2];

static __always_inline struct passes *passes_of(u32 cpu, u32 own)
{
	return &passes[cpu & (NR_CPUS - 1)][own & 1];
}

/* A thread is about to become runnable on its queue. */
__noinline int step_arrive(u32 leaf)
{
	struct run_queue *rq = queue_of(leaf);
	struct task *t = task_at(leaf);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (!t->usable) {
		t->usable = usable_of(&rq->economy, leaf);
		count_usable(&rq->economy, tb_at(&rq->economy, leaf)->parent, t->usable, ARRIVE, &no_passes);
	}
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* A runnable thread's slice begins. */
__noinline int step_recount(u32 leaf)
{
	struct run_queue *rq = queue_of(leaf);
	struct task *t = task_at(leaf);
	u64 before = t->usable;

	if (!rq || !before)
		return 0;
	bpf_spin_lock(&rq->lock);
	t->usable = usable_of(&rq->economy, leaf);
	count_usable(&rq->economy, tb_at(&rq->economy, leaf)->parent, t->usable - before, FOLLOW, &no_passes);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* Under the lock: a thread is no longer runnable. */
static __always_inline void depart(struct tb_queue *q, u32 leaf)
{
	struct task *t = task_at(leaf);

	if (!t->usable)
		return;
	count_usable(q, tb_at(q, leaf)->parent, -t->usable, DEPART, &no_passes);
	t->usable = 0;
}

/* An operation tries again for so long while a leaf is being moved, which takes some microseconds. */
#define MOVE_WAIT_NS 1000000ull

static __always_inline bool may_wait(u64 since_ns)
{
	return now_ns() - since_ns < MOVE_WAIT_NS;
}

/* Under the lock of the leaf's queue: if it is on its way to another one, it stays, not runnable. False: it is there already. */
static __always_inline bool stop_move(struct tb_queue *q, u32 leaf)
{
	struct task *t = task_at(leaf);
	u32 moving = t->moving;

	if (!moving)
		return true;
	if (__sync_val_compare_and_swap(&t->moving, moving, 0) != moving)
		return false;
	tb_at(q, tb_at(q, leaf)->parent)->clients++;
	count_usable(q, tb_at(q, leaf)->parent, 0, DEPART, &no_passes);
	t->usable = 0;
	return true;
}

__noinline int step_depart(u32 leaf)
{
	struct run_queue *rq = queue_of(leaf);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	depart(&rq->economy, leaf);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* What a thread that can use so many tickets is worth on its queue, beside others there. Without the lock. */
static __noinline u64 worth_of(struct tb_queue *q, u32 leaf, u64 usable)
{
	u32 i = tb_at(q, leaf)->parent;

	tb_loop(TB_DEPTH) {
		struct tb_client *c = tb_at(q, i);
		struct part *part = part_at(i);

		if (!c->parent)
			break;
		usable = tb_share(part->counted, usable, part->here);
		i = c->parent;
	}
	return usable;
}

/* A queue's load: the usable tickets of its runnable clients for each of its CPUs. */
static __always_inline u64 load_of(u32 queue)
{
	u32 cpus = queue_cpus[queue & (NR_QUEUES - 1)].cpus;

	return part_at(part_on(TB_BASE, queue))->here / (cpus ? cpus : 1);
}

static __always_inline u64 mean_load(void)
{
	return group_at(TB_BASE)->all / (tombola_config.online_cpus ? tombola_config.online_cpus : 1);
}

static __always_inline u64 clock_of(u32 queue)
{
	return tb_global_pool.client[slot(part_on(TB_BASE, queue))].vnow;
}

/* Compute a group's price anew, from the one of its currency. */
static __noinline int renew_price(u32 i)
{
	struct group *group = group_at(i);
	struct tb_client *c = &tb_global_pool.client[slot(i)];
	u64 above = c->parent ? group_at(c->parent)->price : 1;

	group->usable = c->parent ? tb_capped(group->tickets, group->threads, above) : tombola_config.online_cpus;
	group->price = tb_price(group->all, group->threads, group->usable, above, group->price);
	return 0;
}

static __always_inline void group_init(u32 i, u64 tickets)
{
	struct group *group = group_at(i);

	__builtin_memset(group, 0, sizeof(*group));
	group->tickets = tickets << ticket_shift();
	group->usable = group->tickets;
	group->price = TB_PRICE_MAX;
}
