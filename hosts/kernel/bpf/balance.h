/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several run queues: which thread is on which (core/include/tombola/queues.h has the rules).
 *
 *   wakes up, or is run by the kernel itself   on the queue of that CPU (change_queue)
 *   forked                                     on the queue with the least load, its forker's or a neighbour (cpu_for_new)
 *   a CPU finds no thread                      takes one that waits on another queue (pull_to)
 *   a queue's clock is behind another's        the queue gives one away, when one of its CPUs looks for a thread (balance);
 *   a thread bound to some CPUs starves        the same, if fewer threads are bound to its CPUs elsewhere
 *   no CPU of a queue is active any more       those that wait there go to another queue, by the price timer (empty_queue)
 *
 * A waiting thread changes its queue in steps, each under one queue's lock: it is taken off the one and is inactive then; it
 * leaves the parts of its groups there, whose passes are recorded; it comes into those on the other queue, whose passes move
 * towards these; and it is put there, to wait. From the first step on, task.queue is the other queue, and task.arriving says that
 * it is to be put there. An operation of the thread itself does not wait for that: it clears task.arriving, and the thread is
 * then wherever the operation puts it.
 */
#pragma once
#include "moves.h"
#include "slice.h"

/* The levels of groups around a thread. */
#define LEVELS 16
_Static_assert(LEVELS >= TB_DEPTH && (LEVELS & (LEVELS - 1)) == 0, "one for each level, and the index is masked");

/* A thread on its way. In memory, as the verifier would tell apart each value of local variables. */
struct way {
	u64 counted[LEVELS + 1]; /* how many tickets of it count in each of its groups, from the innermost one up */
	u64 pass[LEVELS];        /* the pass of each group's part that it has left */
	u32 group[LEVELS];
	u32 levels;
	/* Before it is chosen (best_fit): */
	u64 best_worth;
	u32 best;
	u32 looks;
	u64 queues; /* to which one of them may go (queues_from) */
	u64 ahead; /* how far the queue is ahead that is to get one (partner_of) */
	u64 starved; /* the CPUs to which those are bound that starve (balance_bound) */
};

/* One may be under way on a CPU when the timer interrupts, and begins another. */
struct way ways[IF_SEVERAL(NR_CPUS)][2];

static __always_inline struct way *way_of(u32 cpu, u32 own)
{
	return &ways[several() ? cpu & (NR_CPUS - 1) : 0][own & 1];
}

/* Under the lock of its queue: a leaf that is inactive goes to another one. */
static __always_inline void bring(struct tb_queue *q, u32 leaf, u32 to)
{
	u32 here = tb_at(q, leaf)->parent, there = part_on(whole_of(here), to);

	tb_put(q, leaf, there, offset_to_come(there) - offset_of(here));
}

/* Take a thread off queue `from`, if it still waits there, to be put on `to`. Returns its currency's part there, or TB_NONE. */
__noinline u32 step_take(u32 leaf, u32 from, u32 to, u32 cpu, u32 own)
{
	struct run_queue *rq = queue_at(from);
	struct way *way = way_of(cpu, own);
	struct task *t = task_at(leaf);
	struct tb_client *c;
	u32 part = TB_NONE;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	c = tb_at(&rq->economy, leaf);
	if (t->queue == from && c->state & TB_QUEUED && !is_frozen(&rq->economy, leaf)) {
		part = c->parent;
		way->counted[0] = part_at(leaf)->counts.usable;
		way->levels = 0;
		tb_take(&rq->economy, RULES, leaf);
		bring(&rq->economy, leaf, to);
		t->queue = to;
		t->arriving = 1;
	}
	bpf_spin_unlock(&rq->lock);
	return part;
}

/* It leaves a part, which keeps its pass. Returns the part around that. */
__noinline u32 step_move_out(u32 i, u32 from, u32 cpu, u32 own)
{
	struct run_queue *rq = queue_at(from);
	struct way *way = way_of(cpu, own);
	struct part *part = part_at(i);
	struct group *group = group_at(i);
	u32 level = way->levels, parent, tickets;
	u64 before, stays;

	if (!rq || level >= LEVELS)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	parent = tb_at(&rq->economy, i)->parent;
	way->group[level & (LEVELS - 1)] = whole_of(i);
	part->here -= way->counted[level & (LEVELS - 1)];
	if (parent) {
		way->pass[level & (LEVELS - 1)] = tb_at(&rq->economy, i)->pass - offset_of(parent);
		tickets = (u32)portion_of(part, group, group->tickets);
		if (tickets && tickets != tb_at(&rq->economy, i)->tickets)
			tb_set_share(&rq->economy, RULES, i, tickets, tb_at(&rq->economy, i)->pass);
		before = part->counts.usable;
		/* Where none but sleeping threads stay behind, so do the tickets that these count. */
		set_counts(i, parent, portion_of(part, group, group->usable), tb_min(portion_asleep(part, group), before));
		stays = before ? part->counts.slept : 0;
		count_in(parent, 0 - stays);
		way->counted[(level & (LEVELS - 1)) + 1] = before - part->counts.usable - stays;
	}
	way->levels = level + 1;
	bpf_spin_unlock(&rq->lock);
	return parent;
}

/*
 * It comes into its group's part on the other queue; of the way's groups, the one with number `level`. An idle part begins at the
 * pass of the one that was left, and threads that sleep there add nothing to what it is behind. Another one moves towards that by
 * as much as the tickets that come weigh.
 */
__noinline int step_move_in(u32 level, u32 to, u32 cpu, u32 own)
{
	struct run_queue *rq = queue_at(to);
	struct way *way = way_of(cpu, own);
	u32 i = part_on(way->group[level & (LEVELS - 1)], to), tickets;
	struct part *part = part_at(i);
	struct group *group = group_at(i);
	u64 pass = way->pass[level & (LEVELS - 1)];
	struct tb_client *c;
	u64 kept;
	u32 more;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	c = tb_at(&rq->economy, i);
	come_to(i);
	part->here += way->counted[level & (LEVELS - 1)];
	if (c->parent) {
		pass += offset_of(c->parent);
		tickets = (u32)portion_of(part, group, group->tickets);
		if (!tickets)
			tickets = c->tickets;
		if (c->state & TB_ACTIVE) {
			kept = c->pass;
			more = tickets > c->tickets ? tickets - c->tickets : 0;
		} else {
			kept = tb_at(&rq->economy, c->parent)->vnow;
			if (tb_before(kept, c->pass))
				kept = c->pass;
			more = (u32)portion_awake(part, tickets);
		}
		tb_set_share(&rq->economy, RULES, i, tickets, tb_merged(kept, tickets - more, pass, more));
		set_counts(i, c->parent, part->counts.usable + way->counted[(level & (LEVELS - 1)) + 1], 0);
	}
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* It is put on the other queue, and waits there. 0: an operation of the thread was first. */
__noinline u32 step_put(u32 leaf, u32 to, u64 mask)
{
	struct run_queue *rq = queue_at(to);
	struct task *t = task_at(leaf);
	u64 now = now_ns();
	u32 puts;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	puts = t->queue == to && t->arriving;
	if (puts) {
		t->arriving = 0;
		tb_join(&rq->economy, RULES, leaf, mask, TB_NONE);
		tb_wait(&rq->economy, RULES, leaf, mask, now);
	}
	bpf_spin_unlock(&rq->lock);
	return puts;
}

/* A waiting thread goes to another queue, where it may run on the CPUs of `mask`. 1: it did. */
static __always_inline u32 migrate(u32 leaf, u32 to, u64 mask, u32 own)
{
	u32 cpu = bpf_get_smp_processor_id(), from = task_at(leaf)->queue, part, level;
	struct way *way = way_of(cpu, own);

	look_at_clocks_on(leaf, to);
	part = step_take(leaf, from, to, cpu, own);
	if (!part)
		return 0;
	tb_loop(TB_DEPTH) {
		if (!part)
			break;
		part = step_move_out(part, from, cpu, own);
	}
	level = way->levels;
	tb_loop(TB_DEPTH) {
		if (!level)
			break;
		level--;
		step_move_in(level, to, cpu, own);
	}
	count(TOMBOLA_COUNT_MOVED);
	return step_put(leaf, to, mask);
}

/*
 * In an operation of its thread, a leaf that does not run goes to queue `to`, where it is inactive. It keeps its pass. Returns
 * the part that it left, which is to follow; TB_NONE: it was there already.
 */
__noinline u32 step_change_queue(u32 leaf, u32 from, u32 to, u32 seed)
{
	struct run_queue *rq = queue_at(from);
	struct task *t = task_at(leaf);
	u32 part = TB_NONE;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (t->queue == from) {
		if (owes(leaf, 0))
			charge(&rq->economy, leaf, 0, seed);
		tb_withdraw(&rq->economy, leaf);
		tb_leave(&rq->economy, RULES, leaf);
		uncount_leaf(&rq->economy, leaf);
		part = tb_at(&rq->economy, leaf)->parent;
		bring(&rq->economy, leaf, to);
		t->queue = to;
		t->arriving = 0;
	}
	bpf_spin_unlock(&rq->lock);
	return part;
}

/* The thread's queue may change meanwhile, if it waits: then again. */
static __always_inline void change_queue(u32 leaf, u32 to)
{
	struct task *t = task_at(leaf);
	u32 from, part;

	tb_loop(8) {
		from = t->queue;
		if (from == to)
			break;
		part = step_change_queue(leaf, from, to, new_seed(leaf));
		follow(part, from, 1);
	}
}

/* How many of the threads that have waited longest on a queue are looked at before one moves. */
#define CANDIDATES 32

/* These threads. Counted in memory, as the verifier would walk the body for each value of a local variable. */
#define for_each_candidate(leaf, rq, way) \
	for (leaf = (rq)->economy.oldest, (way)->looks = 0; leaf && (way)->looks++ < CANDIDATES && can_loop; \
	     leaf = tb_at(&(rq)->economy, leaf)->newer)

/* What a leaf that waits on queue `from` is worth there (worth_of), if it may run on `to`; else 0. */
__noinline u64 worth_to(u32 leaf, u32 from, u32 to)
{
	struct run_queue *rq = queue_at(from);
	struct task *t = task_at(leaf);

	if (!rq || t->queue != from || !(t->queues >> (to & 63) & 1))
		return 0;
	return worth_of(&rq->economy, leaf, part_at(leaf)->counts.usable);
}

/* Does a leaf fit a gap better than those before? In a global function and in memory, or the verifier would walk each history. */
__noinline int consider(u32 leaf, u32 from, u32 to, u64 gap, u32 cpu)
{
	struct way *way = way_of(cpu, 1);
	u64 worth = worth_to(leaf, from, to);

	if (worth && tb_fits_better(gap, worth, way->best_worth)) {
		way->best_worth = worth;
		way->best = leaf;
	}
	return 0;
}

/*
 * Of the threads that have waited longest on queue `from`, the one that fits a gap to another queue best, and in the upper half
 * what it is worth. Without the lock: threads may come and go meanwhile, and step_take looks again.
 */
__noinline u64 best_fit(u32 from, u32 to, u64 gap)
{
	u32 cpu = bpf_get_smp_processor_id(), leaf;
	struct run_queue *rq = queue_at(from);
	struct way *way = way_of(cpu, 1);

	if (!rq)
		return 0;
	way->best_worth = 0;
	way->best = TB_NONE;
	for_each_candidate(leaf, rq, way) {
		consider(leaf, from, to, gap, cpu);
	}
	/* Cut to 32 bits: what counts is whether it is more than some gaps (tb_may_move). */
	return tb_min(way->best_worth, ~0u) << 32 | way->best;
}

/* Where a leaf's thread may run on a queue; 0: it has exited. */
static __noinline u64 mask_of_leaf(u32 leaf, u32 queue)
{
	struct task_struct *p = bpf_task_from_pid((s32)state_of(leaf)->id);
	u64 mask;

	if (!p)
		return 0;
	mask = mask_of(p, queue);
	bpf_task_release(p);
	return mask;
}

static __always_inline u32 waits_on(u32 queue)
{
	struct run_queue *rq = queue_at(queue);

	return rq ? rq->economy.waiting : 0;
}

/* A CPU that finds no thread takes one that waits on queue `from`. 1: it did. */
__noinline u32 pull_from(u32 from, s32 cpu)
{
	u32 to = place_of_cpu(cpu), leaf = (u32)best_fit(from, to, 1ull << 50);
	u64 mask;

	if (!leaf)
		return 0;
	mask = mask_of_leaf(leaf, to);
	return mask & cpu_mask(cpu) && migrate(leaf, to, mask, 1);
}

/* Of two queues the one with more load, if threads wait on `queue`. `most`: `own` if there is none yet. Global, like consider. */
__noinline u32 busier(u32 most, u32 queue, u32 own)
{
	if (queue == own || !waits_on(queue))
		return most;
	return most == own || load_of(queue) > load_of(most) ? queue : most;
}

/* From a neighbour, or else from the queue with most load. */
__noinline u32 pull_to(s32 cpu)
{
	u32 own = place_of_cpu(cpu), most = own, n = tombola_config.nr_queues;

	if (tombola_config.mqs)
		return 0;
	for (u32 k = 0; k < 4; k++) {
		u32 from = tb_neighbour(own, n, k);

		if (from != own && waits_on(from) && pull_from(from, cpu))
			return 1;
	}
	for_each_queue(queue) {
		most = busier(most, queue, own);
	}
	return most != own && pull_from(most, cpu);
}

/* A new thread goes to the queue with the least load: the one of its forker's CPU, or a neighbour. Returns a CPU there. */
static __noinline s32 cpu_for_new(struct task_struct *p, u32 leaf, s32 cpu)
{
	u32 own = place_of_cpu(cpu), least = own, group = whole_of(tb_global_pool.client[slot(leaf)].parent);
	u64 least_load = load_for(part_on(group, own), own);
	s32 found;

	for (u32 k = 0; k < 4; k++) {
		u32 other = tb_neighbour(own, tombola_config.nr_queues, k);
		u64 load = load_for(part_on(group, other), other);

		if (other != own && load < least_load && mask_on(other, cpus_of(p), ACTIVE_CPUS)) {
			least = other;
			least_load = load;
		}
	}
	found = (s32)queue_cpus[least & (NR_QUEUES - 1)].first;
	return least != own && bpf_cpumask_test_cpu((u32)found, p->cpus_ptr) && !is_inactive(found) ? found : cpu;
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
__noinline u32 place_to_wait(s32 cpu)
{
	u32 place = place_of_cpu(cpu);

	if (!is_inactive(cpu) || is_served(place))
		return place;
	for_each_queue(queue) {
		if (is_served(queue))
			return queue;
	}
	return place;
}

/* A thread that has just come to a queue may be better than those that run there: a CPU decides anew. */
static __always_inline void kick_queue(u32 queue)
{
	scx_bpf_kick_cpu((s32)queue_cpus[queue & (NR_QUEUES - 1)].first, SCX_KICK_PREEMPT);
}

/* A waiting thread is given to another queue, where it may run on the CPUs of `mask`; 0: on none. 1: it was. */
static __always_inline u32 give(u32 leaf, u32 to, u64 mask)
{
	if (!mask || !migrate(leaf, to, mask, 1))
		return 0;
	kick_queue(to);
	return 1;
}

/* How far the clock of queue `other` is ahead of another's. */
static __always_inline u64 lead_of(u32 own, u32 other)
{
	return tb_lead_ns(clock_of(own), clock_of(other), mean_load());
}

/* How many tickets queue `own` is to give to one that leads by lead_ns. */
static __always_inline u64 gap_to(u32 own, u32 other, u64 lead_ns)
{
	return tb_gap(load_of(own), load_of(other), queue_cpus[own & (NR_QUEUES - 1)].cpus, mean_load(), lead_ns);
}

/* How far `other` is ahead of queue `own`, if a thread is to go there that may go to these queues; else 0. */
__noinline u64 ahead_of(u32 own, u32 other, u64 queues)
{
	u64 lead_ns;

	if (other == own || !(queues >> (other & 63) & 1) || !is_served(other))
		return 0;
	lead_ns = lead_of(own, other);
	return tb_ahead(lead_ns, gap_to(own, other, lead_ns), tombola_config.bound_ns);
}

/* The queues to which one of the threads may go that have waited longest on a queue. */
__noinline u64 queues_from(u32 from)
{
	struct run_queue *rq = queue_at(from);
	struct way *way = way_of(bpf_get_smp_processor_id(), 1);
	u32 leaf;

	if (!rq)
		return 0;
	way->queues = 0;
	for_each_candidate(leaf, rq, way) {
		way->queues |= task_at(leaf)->queues;
	}
	return way->queues;
}

/* Of `partner` and another queue the one that is further ahead; way->ahead is how far. Global and in memory, like consider. */
__noinline u32 further(u32 partner, u32 other, u32 own, u64 queues)
{
	struct way *way = way_of(bpf_get_smp_processor_id(), 1);
	u64 ahead = ahead_of(own, other, queues);

	if (ahead <= way->ahead)
		return partner;
	way->ahead = ahead;
	return other;
}

/*
 * Of the queues to which one of the threads may go that wait on a queue: the neighbour that is ahead most, or if none is to get a
 * thread the fastest queue, if that is, or else the one of all that is ahead most; or `own`.
 */
static __noinline u32 partner_of(u32 own)
{
	u64 queues = queues_from(own);
	u32 n = tombola_config.nr_queues, partner = own;

	way_of(bpf_get_smp_processor_id(), 1)->ahead = 0;
	for (u32 k = 0; k < 4; k++) {
		partner = further(partner, tb_neighbour(own, n, k), own, queues);
	}
	if (partner != own)
		return partner;
	if (ahead_of(own, fastest_queue, queues))
		return fastest_queue;
	for_each_queue(other) {
		partner = further(partner, other, own, queues);
	}
	return partner;
}

_Static_assert(NR_QUEUES <= TB_PARTNERS, "a queue looks at all others");

/* A queue whose clock is behind another's gives a thread away. 1: it did. */
__noinline u32 balance_clocks(u32 own)
{
	u32 to = partner_of(own), leaf;
	u64 fit, gap, lead_ns = lead_of(own, to);

	if (to == own)
		return 0;
	gap = gap_to(own, to, lead_ns);
	fit = best_fit(own, to, gap);
	leaf = (u32)fit;
	if (!leaf || !tb_may_move(gap, fit >> 32, tb_is_far(lead_ns, tombola_config.bound_ns)))
		return 0;
	return give(leaf, to, mask_of_leaf(leaf, to));
}

/* May a bound thread run on a queue, and are fewer than `crowd` bound to its CPUs there? */
__noinline u32 is_roomier(u32 leaf, u32 own, u32 to, u32 crowd)
{
	struct run_queue *rq = queue_at(to);
	u64 there;

	if (!rq || to == own || !(task_at(leaf)->queues >> (to & 63) & 1))
		return 0;
	there = mask_of_leaf(leaf, to);
	return there && tb_is_crowded(crowd, tb_crowd(&rq->economy, there));
}

/* The first such queue; `own` if there is none. */
__noinline u32 roomier_queue(u32 leaf, u32 own, u32 crowd)
{
	for_each_queue(to) {
		if (is_roomier(leaf, own, to, crowd))
			return to;
	}
	return own;
}

/* A thread bound to one of these CPUs goes where fewer are bound to its CPUs, if there is such a queue. 1: it did. */
__noinline u32 spread(u32 leaf, u32 own, u64 starved)
{
	u64 here = tb_global_pool.client[slot(leaf)].mask;
	struct run_queue *rq = queue_at(own);
	u32 to;

	if (!rq || !~here || !(here & starved) || task_at(leaf)->queue != own)
		return 0;
	to = roomier_queue(leaf, own, tb_crowd(&rq->economy, here));
	return to != own && give(leaf, to, mask_of_leaf(leaf, to));
}

/* Threads bound to some of a queue's CPUs starve: one that is bound there goes, if it has a better place. */
__noinline int balance_bound(u32 own)
{
	struct way *way = way_of(bpf_get_smp_processor_id(), 1);
	struct run_queue *rq = queue_at(own);
	u32 leaf;

	if (!rq)
		return 0;
	way->starved = 0;
	for_each_candidate(leaf, rq, way) {
		if (tb_starves(&rq->economy, RULES, leaf))
			way->starved |= tb_at(&rq->economy, leaf)->mask;
	}
	if (!way->starved)
		return 0;
	for_each_candidate(leaf, rq, way) {
		if (spread(leaf, own, way->starved))
			break;
	}
	return 0;
}

/* MQS's load of a queue. Running threads are those of its CPUs that have one. */
static __noinline u64 mqs_load_of(u32 queue)
{
	u64 running = 0;

	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		if (cpu >= tombola_config.nr_cpus)
			break;
		if (place_of_cpu((s32)cpu) == queue && cpus[cpu].leaf)
			running++;
	}
	return tb_mqs_load(waits_on(queue), running, queue_cpus[queue & (NR_QUEUES - 1)].cpus);
}

/* MQS's rule: the thread that has waited longest goes to a neighbour with less load, if it has waited for long enough. */
__noinline int balance_like_mqs(u32 own, u64 now)
{
	u32 n = tombola_config.nr_queues, k, to, leaf;
	struct run_queue *rq = queue_at(own);

	if (!rq)
		return 0;
	k = tb_mqs_push(mqs_load_of(own), mqs_load_of(tb_mqs_neighbour(own, n, 0)), mqs_load_of(tb_mqs_neighbour(own, n, 1)),
			mqs_load_of(tb_mqs_neighbour(own, n, 2)));
	leaf = rq->economy.oldest;
	if (k >= TB_MQS_NEIGHBOURS || !leaf || now - tb_at(&rq->economy, leaf)->since < TB_MQS_WAIT_NS)
		return 0;
	to = tb_mqs_neighbour(own, n, k);
	if (to == own || !worth_to(leaf, own, to))
		return 0;
	give(leaf, to, mask_of_leaf(leaf, to));
	return 0;
}

/* A CPU of a queue on which threads wait looks for one: is another queue to have one of them? */
static __always_inline void balance(struct run_queue *rq, u32 own, u64 now)
{
	if (!rq->economy.waiting || (s64)(now - rq->look_ns) < 0)
		return;
	if (tombola_config.mqs) {
		rq->look_ns = now + TB_MQS_TICK_NS;
		balance_like_mqs(own, now);
	} else {
		rq->look_ns = tb_next_look(now, tombola_config.bound_ns, bpf_get_prandom_u32());
		if (!balance_clocks(own) && rq->economy.bound_leaves)
			balance_bound(own);
	}
}

/* No CPU of a queue is active: what waits there goes to another one. */
__noinline int empty_queue(u32 queue)
{
	u32 to, leaf;
	u64 mask;

	if (!waits_on(queue) || is_served(queue))
		return 0;
	to = place_to_wait((s32)queue_cpus[queue & (NR_QUEUES - 1)].first);
	tb_loop(CANDIDATES) {
		struct run_queue *rq = queue_at(queue);

		if (to == queue || !rq || !(leaf = rq->economy.oldest))
			break;
		mask = mask_of_leaf(leaf, to);
		if (!mask || !migrate(leaf, to, mask, 0))
			break;
	}
	kick_queue(to);
	return 0;
}

struct price_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct price_timer);
} price_timer SEC(".maps");

static int price_timer_fired(void *map, u32 *key, struct price_timer *value)
{
	u64 now = now_ns();

	bpf_timer_start(&value->timer, tombola_config.bound_ns / 2, 0);
	periods++;
	period_ns = now - renewed_ns;
	renewed_ns = now;
	renew_root();
	renew_price(TB_BASE);
	renew_price(TB_BEST_EFFORT);
	renew_price(TB_FROZEN);
	renew_prices(FIRST_GROUP);
	for_each_queue(queue) {
		empty_queue(queue);
	}
	find_fastest();
	return 0;
}

static __always_inline int price_timer_init(void)
{
	u32 key = 0;
	struct price_timer *timer = bpf_map_lookup_elem(&price_timer, &key);

	if (!timer)
		return -EINVAL;
	renewed_ns = now_ns();
	bpf_timer_init(&timer->timer, &price_timer, CLOCK_MONOTONIC);
	bpf_timer_set_callback(&timer->timer, price_timer_fired);
	return (int)bpf_timer_start(&timer->timer, tombola_config.bound_ns / 2, 0);
}
