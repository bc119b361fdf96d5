/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several run queues: which thread is on which (core/include/tombola/queues.h has the rules).
 *
 *   wakes up, or is run by the kernel itself   on the queue of that CPU (change_queue)
 *   forked                                     on the queue with the least load, its forker's or a neighbour (cpu_for_new)
 *   a CPU finds no thread                      takes one that waits on another queue (pull_to)
 *   each half bound_ns                         queues whose clock is behind give one away (balance)
 *
 * A waiting leaf changes its queue in two steps, each under one queue's lock: it is taken off the one, and put on the other. In
 * between task.moving says where it goes, and no other operation waits for it: one that makes the thread inactive stops the move
 * (stop_move), any other finds it waiting afterwards. The exchange of task.moving decides between the two.
 */
#pragma once
#include "moves.h"
#include "slice.h"

/*
 * Take a leaf off its queue, to be put on `to`. A waiting one keeps its pass, and is to wait there again; the passes of the
 * groups' parts are noted. For a thread's own operation (`own`) it becomes inactive. 1: taken. 0: it does not wait here any more;
 * for an own operation, it has just been put on another queue.
 */
__noinline int step_take(u32 leaf, u32 to, u32 own, u32 cpu)
{
	struct passes *left = passes_of(cpu, own);
	struct task *t = task_at(leaf);
	u32 place = t->queue, taken = 0, state;
	struct run_queue *rq = queue_at(place);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	state = tb_at(&rq->economy, leaf)->state;
	if (t->queue == place && place != to && (own ? stop_move(&rq->economy, leaf) : state & TB_QUEUED && !t->moving)) {
		u32 part = tb_at(&rq->economy, leaf)->parent;

		if (state & TB_ACTIVE) {
			u64 usable = t->usable;

			tb_take(&rq->economy, RULES, leaf);
			count_usable(&rq->economy, part, -usable, own ? DEPART : LEAVE, left);
			if (own)
				t->usable = 0;
		}
		tb_at(&rq->economy, part)->clients--;
		t->moving = to + 1;
		taken = 1;
	}
	bpf_spin_unlock(&rq->lock);
	return (int)taken;
}

/* Put a leaf that was taken on the queue `to`. 1: it waits there; 0: the move was stopped, or it is inactive. */
__noinline u32 step_put(u32 leaf, u32 to, u64 mask, u64 now, u32 cpu)
{
	struct run_queue *rq = queue_at(to);
	struct passes *left = passes_of(cpu, 0);
	struct task *t = task_at(leaf);
	u32 from = t->queue, waits = 0;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	/* Before the exchange: an operation that fails to stop the move then finds the leaf here. */
	t->queue = to;
	if (__sync_val_compare_and_swap(&t->moving, to + 1, 0) != to + 1) {
		t->queue = from;
	} else {
		struct tb_client *c = tb_at(&rq->economy, leaf);
		u32 part = part_on(whole_of(c->parent), to);

		c->parent = part;
		tb_at(&rq->economy, part)->clients++;
		waits = t->usable > 0;
		if (waits) {
			count_usable(&rq->economy, part, t->usable, COME, left);
			tb_join(&rq->economy, RULES, leaf, mask, TB_NONE);
			tb_wait(&rq->economy, RULES, leaf, mask, now);
		}
	}
	bpf_spin_unlock(&rq->lock);
	return waits;
}

/* In an operation of its thread: a leaf goes to another queue, where it is inactive. */
static __always_inline void change_queue(u32 leaf, u32 to)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 begun_ns = now_ns();

	if (task_at(leaf)->queue == to)
		return;
	settle_bill(leaf, 0);
	while (can_loop)
		if (step_take(leaf, to, 1, cpu) || task_at(leaf)->queue == to || !may_wait(begun_ns))
			break;
	step_put(leaf, to, 0, 0, cpu);
}

/* A waiting leaf goes to another queue; `mask` is of the CPUs there. 1: it did. */
static __always_inline u32 migrate(u32 leaf, u32 to, u64 mask)
{
	u32 cpu = bpf_get_smp_processor_id();

	return step_take(leaf, to, 0, cpu) && step_put(leaf, to, mask, now_ns(), cpu);
}

/* How many of the leaves that have waited longest on a queue are looked at before one moves. */
#define CANDIDATES 32

/* What a leaf that waits on queue `from` is worth there (worth_of), if it may run on `to`; else 0. */
__noinline u64 worth_to(u32 leaf, u32 from, u32 to)
{
	struct task *t = task_at(leaf);
	struct run_queue *rq = queue_at(from);

	if (!rq || t->queue != from || !(t->queues >> (to & 63) & 1))
		return 0;
	return worth_of(&rq->economy, leaf, t->usable);
}

/*
 * Of the leaves that have waited longest on queue `from`, the one that fits a gap to another queue best. Without the lock: leaves
 * may come and go meanwhile, and step_take looks again.
 */
__noinline u64 best_fit(u32 from, u32 to, u64 gap)
{
	struct run_queue *rq = queue_at(from);
	u64 best_worth = 0, worth;
	u32 best = TB_NONE, leaf, looks = 0;

	if (!rq)
		return 0;
	leaf = rq->economy.oldest;
	while (can_loop) {
		if (!leaf || looks++ >= CANDIDATES)
			break;
		worth = worth_to(leaf, from, to);
		if (worth && tb_fits_better(gap, worth, best_worth)) {
			best_worth = worth;
			best = leaf;
		}
		leaf = tb_at(&rq->economy, leaf)->newer;
	}
	return best_worth << 32 | best;
}

/* Where a leaf's thread may run on a queue; 0: it has exited. */
static __always_inline u64 mask_of_leaf(u32 leaf, u32 queue)
{
	struct task_struct *p = bpf_task_from_pid((s32)state_of(leaf)->id);
	u64 mask;

	if (!p)
		return 0;
	mask = mask_of(p, queue);
	bpf_task_release(p);
	return mask;
}

/* An idle CPU takes a leaf that waits on another queue: from a neighbour if there is one, else from the queue with most load. */
__noinline u32 pull_from(u32 from, s32 cpu)
{
	u32 to = place_of_cpu(cpu), leaf = (u32)best_fit(from, to, 1ull << 40);
	u64 mask;

	if (!leaf)
		return 0;
	mask = mask_of_leaf(leaf, to);
	return mask & cpu_mask(cpu) && migrate(leaf, to, mask);
}

static __always_inline u32 waits_on(u32 queue)
{
	struct run_queue *rq = queue_at(queue);

	return rq ? rq->economy.waiting : 0;
}

static __always_inline u32 pull_to(s32 cpu, u64 now)
{
	u32 own = place_of_cpu(cpu), most = own, n = tombola_config.nr_queues;

	for (u32 k = 0; k < 4; k++) {
		u32 from = tb_neighbour(own, n, k);

		if (from != own && waits_on(from) && pull_from(from, cpu))
			return 1;
	}
	for (u32 queue = 0; queue < NR_QUEUES && can_loop; queue++) {
		if (queue >= n)
			break;
		if (queue != own && waits_on(queue) && (most == own || load_of(queue) > load_of(most)))
			most = queue;
	}
	return most != own && pull_from(most, cpu);
}

/* A new thread goes to the queue with the least load: the one of its forker's CPU, or a neighbour. Returns a CPU there. */
static __noinline s32 cpu_for_new(struct task_struct *p, s32 cpu)
{
	u32 own = place_of_cpu(cpu), least = own;
	u64 queues = queues_of(p);
	s32 found;

	for (u32 k = 0; k < 4; k++) {
		u32 other = tb_neighbour(own, tombola_config.nr_queues, k);

		if (queues >> (other & 63) & 1 && load_of(other) < load_of(least))
			least = other;
	}
	found = (s32)queue_cpus[least & (NR_QUEUES - 1)].first;
	return least != own && bpf_cpumask_test_cpu((u32)found, p->cpus_ptr) ? found : cpu;
}

/* Does a queue have an active CPU? */
static __always_inline bool is_served(u32 queue)
{
	return mask_on(queue, 0, ACTIVE_CPUS) != 0;
}

/*
 * The queue on which a thread waits that becomes runnable on a CPU: that CPU's, or if none of its CPUs is active another one,
 * from where the thread is sent to its CPU.
 */
static __noinline u32 place_to_wait(s32 cpu)
{
	u32 place = place_of_cpu(cpu);

	if (!is_inactive(cpu) || is_served(place))
		return place;
	for (u32 queue = 0; queue < NR_QUEUES && can_loop; queue++) {
		if (queue >= tombola_config.nr_queues)
			break;
		if (is_served(queue))
			return queue;
	}
	return place;
}

struct balance_timer {
	struct bpf_timer timer;
	u32 fastest; /* the queue whose clock is ahead of all others */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct balance_timer);
} balance_timer SEC(".maps");

/* Is `other` a queue to give a leaf to: is its clock too far ahead, and its load less? */
static __always_inline bool is_partner(u32 own, u32 other)
{
	return other != own && is_served(other) && load_of(other) < load_of(own) &&
	       tb_is_fast(clock_of(own), clock_of(other), mean_load(), tombola_config.bound_ns);
}

/* Of a queue's neighbours, or if none qualifies the fastest queue, the one whose clock is furthest ahead; or itself. */
static __noinline u32 partner_of(u32 own, u32 fastest)
{
	u32 partner = own;

	for (u32 k = 0; k < 4; k++) {
		u32 other = tb_neighbour(own, tombola_config.nr_queues, k);

		if (is_partner(own, other) && (partner == own || tb_before(clock_of(partner), clock_of(other))))
			partner = other;
	}
	return partner == own && is_partner(own, fastest) ? fastest : partner;
}

/* A leaf that has just come to a queue may be better than the threads that run there: a CPU decides anew. */
static __always_inline void kick_queue(u32 queue)
{
	scx_bpf_kick_cpu((s32)queue_cpus[queue & (NR_QUEUES - 1)].first, SCX_KICK_PREEMPT);
}

/* A queue whose clock is behind another's gives a leaf away. */
__noinline int balance(u32 own, u32 fastest)
{
	u32 to, leaf;
	u64 fit, gap, mask;
	bool is_far;

	if (!waits_on(own))
		return 0;
	to = is_served(own) ? partner_of(own, fastest) : place_to_wait((s32)queue_cpus[own & (NR_QUEUES - 1)].first);
	if (to == own)
		return 0;
	gap = is_served(own) ? (load_of(own) - load_of(to)) * queue_cpus[own & (NR_QUEUES - 1)].cpus : ~0ull >> 1;
	fit = best_fit(own, to, gap);
	leaf = (u32)fit;
	is_far = !is_served(own) || tb_is_far(clock_of(own), clock_of(to), mean_load(), tombola_config.bound_ns);
	if (!leaf || !tb_may_move(gap, fit >> 32, is_far))
		return 0;
	mask = mask_of_leaf(leaf, to);
	if (mask && migrate(leaf, to, mask)) {
		kick_queue(to);
	}
	return 0;
}

/* Of the groups from slot i on, compute the prices anew. */
__noinline int renew_prices(u32 i)
{
	while (can_loop) {
		if (i >= slots_end())
			break;
		if (tb_global_pool.client[slot(i)].kind != TB_KIND_FREE)
			renew_price(i);
		i += tombola_config.group_slots;
	}
	return 0;
}

/* With several queues: see root_keeps_up. */
static __noinline int renew_root(void)
{
	struct group *root = group_at(root_client), *users = group_at(TB_BEST_EFFORT);
	u64 own = root->threads ? root->usable : 0, others = users->all > own ? users->all - own : 0, tickets;

	tickets = others * root_share / (TOMBOLA_SHARE_ONE - root_share) >> TB_SHARE_SHIFT;
	if (tickets < root_base)
		tickets = root_base;
	if (tickets > TB_TICKETS_LIMIT)
		tickets = TB_TICKETS_LIMIT;
	root->tickets = tickets << TB_SHARE_SHIFT;
	return 0;
}

static int balance_timer_fired(void *map, u32 *key, struct balance_timer *value)
{
	u32 fastest = 0;

	bpf_timer_start(&value->timer, tombola_config.bound_ns / 2, 0);
	renew_root();
	renew_price(TB_BASE);
	renew_price(TB_BEST_EFFORT);
	renew_price(TB_FROZEN);
	renew_prices(FIRST_GROUP);
	for (u32 queue = 0; queue < NR_QUEUES && can_loop; queue++) {
		if (queue >= tombola_config.nr_queues)
			break;
		if (tb_before(clock_of(fastest), clock_of(queue)))
			fastest = queue;
	}
	for (u32 queue = 0; queue < NR_QUEUES && can_loop; queue++) {
		if (queue >= tombola_config.nr_queues)
			break;
		balance(queue, fastest);
	}
	return 0;
}

static __always_inline int balance_timer_init(void)
{
	u32 key = 0;
	struct balance_timer *timer = bpf_map_lookup_elem(&balance_timer, &key);

	if (!timer)
		return -EINVAL;
	bpf_timer_init(&timer->timer, &balance_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, balance_timer_fired);
	return (int)bpf_timer_start(&timer->timer, tombola_config.bound_ns / 2, 0);
}
