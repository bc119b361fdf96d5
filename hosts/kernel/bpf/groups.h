/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Several run queues: the tickets of groups on each (core/include/tombola/queues.h has the rules).
 *
 * A group has a slot for each queue (part_on), so a thread's way up on its queue is found without a map, also under a lock.
 *
 * What a thread can use is counted in its currency's part, under the lock of their queue (count_leaf). From there it is told from
 * part to part, up to the root, in a step for each level (follow). Each step makes the tickets of one part those that it is to
 * have, and tells the part around it what has changed since the last time. So nothing is counted twice or lost, whatever moves
 * between two steps; until the last one, shares are a little off.
 *
 * A group's pass and its sums over all queues are changed by atomic operations, and read without a lock. Parts on other queues
 * follow a changed sum when a slice of a thread begins in them (recount).
 */
#pragma once
#include "state.h"

/* What a group has on one queue. Under the lock of that queue. A leaf has only what it counts in the part around it. */
struct part {
	u64 here;    /* usable tickets of its runnable clients there; */
	u64 asleep;  /* and of those that sleep, which fade. The price timer writes it, too, without the lock */
	struct tb_counts counts; /* how many of the group's usable tickets count here, as the part around it was told */
	u64 shifted; /* by how much of its group's shift its pass was shifted */
	u64 offset;  /* vnow is ahead of its clock by so much (queues.h), */
	u64 cut;     /* and by what the price timer has cut from the clock, which takes no lock */
	u64 bound;   /* a leaf: 1, its thread counts as bound to some CPUs */
};

struct part parts[IF_SEVERAL(TB_CLIENTS)];

/* Threads that may run on all CPUs, and others; or on how many CPUs they can be at once. */
struct width {
	u64 free, bound;
};

/* A group on all queues; at its first slot. */
struct group {
	u64 tickets;      /* its own, shifted (ticket_shift). Written under the first queue's lock */
	u64 all;          /* the sum of `here` over its parts; 0: none of its threads is runnable */
	u64 asleep;       /* the sum of its parts' */
	u64 of_threads;   /* usable tickets of the runnable threads that are directly in it */
	struct width own; /* these threads */
	u64 reach;        /* the CPUs on which its bound threads may run (reach_of), since that was last forgotten; */
	u64 former_reach; /* and before */

	/* Written by the price timer (queues.h): */
	struct width inner; /* of the groups in it, since its last turn */
	u64 clock;     /* best effort's is the machine's */
	u64 fastest;   /* that of its parts whose clock is ahead of all others' */
	u64 of_groups; /* usable tickets of the groups in it, since its last turn */
	u64 widest;
	u64 usable;
	u64 cpus;  /* to which it is entitled */
	u64 price;
	u64 shift; /* by how much the passes of all parts have been shifted in all */

	u64 pass;   /* its pass, whichever queue its threads run on (queues.h) */
	u32 adopts; /* its pass is to be that of the next part charged: it was idle, has been moved, or has other tickets */
	u32 strays; /* a part was too far from that */
};

struct group groups[IF_SEVERAL(TB_CLIENTS)];

static __always_inline struct part *part_at(u32 client)
{
	return &parts[several() ? slot(client) : 0];
}

/* Of a client or any of its parts. */
static __always_inline struct group *group_at(u32 client)
{
	return &groups[several() ? slot(whole_of(client)) : 0];
}

static __always_inline void group_init(u32 i, u64 tickets)
{
	struct group *group = group_at(i);

	__builtin_memset(group, 0, sizeof(*group));
	group->tickets = tickets << ticket_shift();
	group->usable = tb_usable(group->tickets, 1, TB_PRICE_MAX, 0);
	group->price = TB_PRICE_MAX;
	group->adopts = 1;
}

/* Its passes, on other queues or in another currency, say nothing about the ones to come. */
static __always_inline void adopt_pass(u32 i)
{
	if (several())
		group_at(i)->adopts = 1;
}

static __always_inline u64 offset_of(u32 i)
{
	return part_at(i)->offset + part_at(i)->cut;
}

/*
 * Under the lock: a part and those around it were charged so much, as used and in advance (negative: less than before in
 * advance). So are their groups, whose passes hold the parts. Not in lottery scheduling: passes are to differ by luck. And not
 * on queues of one CPU (queues.h).
 */
static __always_inline void charge_groups(struct tb_queue *q, u32 i, u64 ns)
{
	if (!several() || CPUS_OF_A_QUEUE == 1 || RULES->lottery)
		return;
	tb_loop(TB_DEPTH) {
		struct group *group = group_at(i);
		struct part *part = part_at(i);
		u32 parent = tb_at(q, i)->parent;
		u64 by, within, shift, offset;

		if (!i || !parent)
			break;
		offset = offset_of(parent);
		by = tb_advance(tb_is_negative(ns) ? 0 - ns : ns, TB_DRAW_ONE, group->tickets);
		if (tb_is_negative(ns))
			by = 0 - by;
		if (group->adopts) {
			group->adopts = 0;
			group->pass = tb_at(q, i)->pass - offset;
		} else {
			__sync_fetch_and_add(&group->pass, by);
		}
		within = tb_held_within(RULES, group_at(parent)->price, tb_at(q, i)->tickets, tombola_config.bound_ns);
		shift = group->shift - part->shifted;
		part->shifted += shift;
		tb_shift(q, RULES, i, shift);
		if (part->here == group->all)
			group->pass = tb_at(q, i)->pass - offset;
		else if (tb_hold(q, RULES, i, group->pass + offset, within))
			group->strays = 1;
		i = parent;
	}
}

/* Under the lock: usable tickets of a part's clients have changed by so much. */
static __always_inline void count_in(u32 i, u64 usable)
{
	part_at(i)->here += usable;
	__sync_fetch_and_add(&group_at(i)->all, usable);
}

/* The same of those that sleep. By atomic operations: the group has the sum of its parts, whatever the price timer does. */
static __always_inline void count_asleep(u32 i, u64 usable)
{
	__sync_fetch_and_add(&part_at(i)->asleep, usable);
	__sync_fetch_and_add(&group_at(i)->asleep, usable);
}

/* May a thread not run on all CPUs? */
static __always_inline bool is_bound_to_some(u32 leaf)
{
	return task_at(leaf)->reach != 0;
}

static __always_inline void count_width(struct width *width, bool bound, u64 by)
{
	__sync_fetch_and_add(bound ? &width->bound : &width->free, by);
}

/* The CPUs on which a bound thread in a group may run. They are forgotten now and then, so it says so again. */
static __always_inline void note_reach(struct group *group, u64 reach)
{
	if (reach & ~group->reach)
		__sync_fetch_and_or(&group->reach, reach);
}

/* Under the lock: so many tickets of a leaf's thread count in its group from now on, 0 for none. */
static __always_inline void count_thread(u32 leaf, struct group *group, u64 usable)
{
	struct part *part = part_at(leaf);

	if (part->counts.usable)
		count_width(&group->own, part->bound, 0 - 1ull);
	part->bound = is_bound_to_some(leaf);
	if (usable)
		count_width(&group->own, part->bound, 1);
	if (usable && part->bound)
		note_reach(group, task_at(leaf)->reach);
}

/* Periods, each with new prices; when the last one ended, and how long it was. Written by the price timer. */
u32 periods;
u64 renewed_ns, period_ns;

static __always_inline u64 clock_of_part(u32 i)
{
	return tb_global_pool.client[slot(i)].vnow - offset_of(i);
}

static __always_inline u64 excess_of(u64 clock, const struct group *group)
{
	return tb_excess(clock, group->clock, tombola_config.bound_ns, group->price);
}

static __always_inline bool is_idle(u32 i)
{
	return !tb_global_pool.client[slot(i)].active;
}

/* The offset of a part to which a thread is about to come. An idle one begins with its group's fastest clock. */
static __always_inline u64 offset_to_come(u32 i)
{
	return is_idle(i) ? tb_global_pool.client[slot(i)].vnow - group_at(i)->fastest : offset_of(i);
}

/* Under the lock: a thread is about to come. */
static __always_inline void come_to(u32 i)
{
	if (is_idle(i))
		part_at(i)->offset = offset_to_come(i) - part_at(i)->cut;
}

/* Until the price timer's next turn it may be less than nothing (fade). */
static __always_inline u64 at_least_none(u64 asleep)
{
	return tb_is_negative(asleep) ? 0 : asleep;
}

/* A part's share of so many tickets of its group, if these are runnable in the part and in the group, beside what sleeps. */
static __always_inline u64 share_in(const struct part *part, const struct group *group, u64 tickets, u64 here, u64 all)
{
	here += at_least_none(part->asleep);
	all += at_least_none(group->asleep);
	/* Less than nothing in another part counts in the sum. */
	return tb_share(tickets, here, tb_max(all, here));
}

/*
 * A part's portion of so many tickets of its group, if so many more are runnable there. While a thread changes its queue, a part
 * may lack what it is to have for some microseconds, and have less than nothing.
 */
static __always_inline u64 portion(const struct part *part, const struct group *group, u64 tickets, u64 more)
{
	u64 here = part->here + more;

	return (s64)here > 0 ? share_in(part, group, tickets, here, group->all + more) : 0;
}

static __always_inline u64 portion_of(const struct part *part, const struct group *group, u64 tickets)
{
	return portion(part, group, tickets, 0);
}

/* What a part falls asleep with that has no runnable thread any more. */
static __always_inline u64 portion_asleep(const struct part *part, const struct group *group)
{
	return at_least_none(part->asleep) ? share_in(part, group, group->usable, 0, group->all) : 0;
}

/* How many of a part's tickets are those of its runnable threads. */
static __always_inline u64 portion_awake(const struct part *part, u64 tickets)
{
	u64 here = part->here;

	return (s64)here > 0 ? tb_share(tickets, here, here + at_least_none(part->asleep)) : tickets;
}

/* Under the lock: tell, but for `here` and `all` of the part around it. */
static __always_inline void set_counts(u32 i, u32 parent, u64 usable, u64 asleep)
{
	u64 there = at_least_none(part_at(parent)->asleep);
	u64 more = tb_count(&part_at(i)->counts, usable, asleep, there, periods);

	if (more)
		count_asleep(parent, more);
}

/*
 * Under the lock: so many usable tickets of a leaf or a part count in the part around it from now on; or none, and it falls
 * asleep with some, or leaves (0). True: that is a change.
 */
static __always_inline bool tell(struct tb_queue *q, u32 i, u64 usable, u64 asleep)
{
	struct part *part = part_at(i);
	u64 more = usable - part->counts.usable, slept = part->counts.slept;
	u32 parent = tb_at(q, i)->parent;

	if (is_leaf(i)) {
		__sync_fetch_and_add(&group_at(parent)->of_threads, more);
		count_thread(i, group_at(parent), usable);
	}
	count_in(parent, more);
	set_counts(i, parent, usable, asleep);
	return more || slept != part->counts.slept;
}

/*
 * A part tells the one around it what has changed in it, and if it is time, or none of its threads runs, its tickets are made
 * what they are to be (queues.h). On a queue of one CPU, an active part counts as running. Returns the part around it if that is
 * to follow, too.
 */
__noinline u32 step_follow(u32 i, u32 place, u32 is_time)
{
	struct run_queue *rq = queue_at(place);
	u32 parent, tickets, runs;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	parent = tb_at(&rq->economy, i)->parent;
	if (parent) {
		tickets = (u32)portion_of(part_at(i), group_at(i), group_at(i)->tickets);
		runs = part_at(i)->counts.usable && (CPUS_OF_A_QUEUE == 1 || tb_at(&rq->economy, i)->precharged_ns);
		if (tickets && tickets != tb_at(&rq->economy, i)->tickets && (is_time || !runs))
			tb_set_tickets(&rq->economy, RULES, i, tickets);
		if (!tell(&rq->economy, i, portion_of(part_at(i), group_at(i), group_at(i)->usable),
			  portion_asleep(part_at(i), group_at(i))))
			parent = TB_NONE;
	}
	bpf_spin_unlock(&rq->lock);
	return parent;
}

/* A part has changed: it, and those around it, follow. Inline: 6.16 allows eight functions that call each other. */
static __always_inline int follow(u32 i, u32 place, u32 is_time)
{
	tb_loop(TB_DEPTH) {
		if (!i)
			break;
		i = step_follow(i, place, is_time);
	}
	return 0;
}

/* A leaf has become runnable, or is no longer. */
static __always_inline void follow_leaf(u32 leaf)
{
	follow(tb_global_pool.client[slot(leaf)].parent, place_of_leaf(leaf), 0);
}

/* The tickets of a group have changed, and so have those of all parts of a group. */
__noinline int follow_all(u32 group)
{
	for_each_queue(queue) {
		follow(part_on(group, queue), queue, 1);
	}
	return 0;
}

/* As many of a thread's tickets as it can use. */
static __always_inline u64 usable_of(struct tb_queue *q, u32 leaf)
{
	struct tb_client *c = tb_at(q, leaf);
	struct group *group = group_at(c->parent);

	return tb_usable(c->tickets, 1, group->price, group->cpus);
}

/* Do so many tickets of a leaf count already, and its thread as bound or not, as it is now? */
static __always_inline bool is_counted(u32 leaf, u64 usable)
{
	return usable == part_at(leaf)->counts.usable && is_bound_to_some(leaf) == part_at(leaf)->bound;
}

/* Under the lock: as many tickets of a leaf count in its currency's part as it can use; none if it is not runnable. */
static __always_inline void count_leaf(struct tb_queue *q, u32 leaf, bool runnable)
{
	u64 usable = runnable ? usable_of(q, leaf) : 0;

	if (!is_counted(leaf, usable))
		tell(q, leaf, usable, runnable ? 0 : part_at(leaf)->counts.usable);
}

/* Under the lock: a leaf leaves its part. */
static __always_inline void uncount_leaf(struct tb_queue *q, u32 leaf)
{
	if (part_at(leaf)->counts.usable || part_at(leaf)->counts.slept)
		tell(q, leaf, 0, 0);
}

/*
 * Under the lock: a leaf is about to join parts that may have been idle, while their groups' clocks went on at other queues; or
 * whole groups were idle.
 */
static __always_inline void wake_groups(struct tb_queue *q, u32 i)
{
	tb_loop(TB_DEPTH) {
		i = tb_at(q, i)->parent;
		if (!i)
			break;
		come_to(i);
		if (!group_at(i)->all)
			group_at(i)->adopts = 1;
	}
}

__noinline int step_recount(u32 leaf, u32 place)
{
	struct run_queue *rq = queue_at(place);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (task_at(leaf)->queue == place && part_at(leaf)->counts.usable)
		count_leaf(&rq->economy, leaf, true);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* A slice of a runnable thread begins or ends. Prices and sums may have changed since the last one. */
__noinline int recount(u32 leaf)
{
	u32 place = task_at(leaf)->queue, i;
	struct run_queue *rq = queue_at(place);
	struct tb_queue *q;

	if (!rq)
		return 0;
	q = &rq->economy;
	i = tb_at(q, leaf)->parent;
	if (part_at(leaf)->counts.usable && !is_counted(leaf, usable_of(q, leaf)))
		step_recount(leaf, place);
	if (part_at(leaf)->bound)
		note_reach(group_at(i), task_at(leaf)->reach);
	tb_loop(TB_DEPTH) {
		struct part *part = part_at(i);
		struct group *group = group_at(i);

		if (!tb_at(q, i)->parent)
			break;
		if (portion_of(part, group, group->tickets) != tb_at(q, i)->tickets ||
		    portion_of(part, group, group->usable) != part->counts.usable)
			step_follow(i, place, 1);
		i = tb_at(q, i)->parent;
	}
	return 0;
}

/* What a thread that can use so many tickets is worth on its queue, in tickets of best effort, as its load. Without the lock. */
static __noinline u64 worth_of(struct tb_queue *q, u32 leaf, u64 usable)
{
	u32 i = tb_at(q, leaf)->parent;

	tb_loop(TB_DEPTH) {
		struct part *part = part_at(i);

		if (!tb_at(q, i)->parent || whole_of(i) == TB_BEST_EFFORT)
			break;
		usable = tb_share(part->counts.usable, usable, part->here);
		i = tb_at(q, i)->parent;
	}
	return usable;
}

/* A queue's load: the usable tickets of its runnable clients for each of its CPUs. */
static __always_inline u64 load_of(u32 queue)
{
	u32 cpus = queue_cpus[queue & (NR_QUEUES - 1)].cpus;

	return part_at(part_on(TB_BEST_EFFORT, queue))->here / (cpus ? cpus : 1);
}

/*
 * Its load as a thread in this part of it finds it. The part may have been counted when its group had more or less elsewhere: a
 * user that forks many threads at once would seem to be on the first queue only.
 */
__noinline u64 load_for(u32 i, u32 queue)
{
	u32 cpus = queue_cpus[queue & (NR_QUEUES - 1)].cpus;
	u64 change = 0;

	tb_loop(TB_DEPTH) {
		if (!i || whole_of(i) == TB_BEST_EFFORT)
			break;
		change = portion(part_at(i), group_at(i), group_at(i)->usable, change) - part_at(i)->counts.usable;
		i = tb_global_pool.client[slot(i)].parent;
	}
	return (part_at(part_on(TB_BEST_EFFORT, queue))->here + change) / (cpus ? cpus : 1);
}

static __always_inline u64 mean_load(void)
{
	return group_at(TB_BEST_EFFORT)->all / (tombola_config.online_cpus ? tombola_config.online_cpus : 1);
}

static __always_inline u64 clock_of(u32 queue)
{
	return clock_of_part(part_on(TB_BEST_EFFORT, queue));
}

/* The queue whose clock is ahead of all others. Written by the price timer. */
u32 fastest_queue;

static __noinline int find_fastest(void)
{
	for_each_queue(queue) {
		if (tb_before(clock_of(fastest_queue), clock_of(queue)))
			fastest_queue = queue;
	}
	return 0;
}

/* Where threads are. */
static __always_inline void look_at_clock(u32 part, const struct group *group)
{
	if (!is_idle(part))
		part_at(part)->cut += excess_of(clock_of_part(part), group);
}

/*
 * Look at the clocks of a group's parts in which threads are. Only clocks are in local variables, or the verifier would walk each
 * pair of queues that may be the slowest and the fastest.
 */
__noinline int look_at_clocks(u32 i)
{
	struct group *group = group_at(i);
	u64 slowest = group->clock + (1ull << 62), fastest = group->clock - (1ull << 62);

	for_each_queue(queue) {
		u32 part = part_on(i, queue);

		if (is_idle(part))
			continue;
		if (tb_before(clock_of_part(part), slowest))
			slowest = clock_of_part(part);
		if (tb_before(fastest, clock_of_part(part)))
			fastest = clock_of_part(part);
	}
	/* It is idle. */
	if (tb_before(fastest, slowest))
		return 0;
	group->clock = tb_group_clock(group->clock, period_ns, group->price, slowest, fastest);
	group->fastest = fastest - excess_of(fastest, group);
	if (group->fastest == fastest && !excess_of(slowest, group))
		return 0;
	for_each_queue(queue) {
		look_at_clock(part_on(i, queue), group);
	}
	return 0;
}

/*
 * A waiting thread is about to go to a queue: look at the clocks of its groups' parts there (queues.h). As the price timer does,
 * without a lock: two looks at once may cut once too often or too little, and the next one corrects that.
 */
__noinline int look_at_clocks_on(u32 leaf, u32 queue)
{
	u32 i = leaf;

	tb_loop(TB_DEPTH) {
		i = tb_global_pool.client[slot(i)].parent;
		if (!i || tb_global_pool.client[slot(i)].kind <= TB_KIND_BEST_EFFORT)
			break;
		look_at_clock(part_on(whole_of(i), queue), group_at(i));
	}
	return 0;
}

/* By how much the parts of a group are off its pass in the mean, they are shifted, or it follows them (queues.h). */
static __noinline int shift_parts(u32 i)
{
	struct group *group = group_at(i);
	u64 pass = group->pass, sum = 0, tickets = 0, off;
	u32 can_use = 0;

	group->strays = 0;
	for_each_queue(queue) {
		struct tb_client *c = &tb_global_pool.client[slot(part_on(i, queue))];
		/* With the shift that it has not got yet, not having been charged since. */
		u64 part = c->pass - offset_of(c->parent) + group->shift - part_at(part_on(i, queue))->shifted;

		if (!(c->state & TB_ACTIVE))
			continue;
		sum += tb_off_of(pass, part, c->tickets);
		tickets += c->tickets;
		can_use |= !(c->state & TB_BEHIND);
	}
	off = tb_off(sum, tickets);
	if (can_use)
		group->shift -= off;
	else if (!tb_is_negative(off))
		__sync_fetch_and_add(&group->pass, off);
	return 0;
}

/* How many CPUs these are (reach_of). */
static __noinline u64 cpus_in(u64 reach)
{
	u64 cpus = 0;

	tb_loop(64) {
		if (!reach)
			break;
		cpus += (tombola_config.nr_cpus + 63 - tb_lowest(reach)) / 64;
		reach &= reach - 1;
	}
	return cpus;
}

/* On how many CPUs a group's threads can be at once. The group around it is told. */
static __noinline int renew_width(u32 i)
{
	struct group *group = group_at(i);
	u32 parent = tb_global_pool.client[slot(i)].parent;
	u64 free = group->own.free + group->inner.free, bound = group->own.bound + group->inner.bound;
	u64 reach = group->reach | group->former_reach;

	if (bound)
		bound = tb_min(bound, cpus_in(reach));
	group->widest = tb_widest(group->widest, free + bound);
	group->inner.free = group->inner.bound = 0;
	if (!(periods % TB_REACH_PERIODS)) {
		group->former_reach = group->reach;
		group->reach = 0;
	}
	if (parent) {
		group_at(parent)->inner.free += free;
		group_at(parent)->inner.bound += bound;
		note_reach(group_at(parent), reach);
	}
	return 0;
}

/* Part for part, what sleeping threads count fades. If one of them wakes up between the two lines, less than nothing is left. */
static __noinline int fade(u32 i)
{
	for_each_queue(queue) {
		u32 part = part_on(i, queue);
		u64 asleep = part_at(part)->asleep;

		if (asleep)
			count_asleep(part, 0 - (tb_is_negative(asleep) ? asleep : tb_faded(asleep)));
	}
	return 0;
}

/* Compute a group's price anew, from the one of its currency. */
static __noinline int renew_price(u32 i)
{
	struct group *group = group_at(i);
	struct tb_client *c = &tb_global_pool.client[slot(i)];

	if (group->asleep)
		fade(i);
	if (group->strays)
		shift_parts(i);
	renew_width(i);
	if (c->parent) {
		struct group *around = group_at(c->parent);
		u64 width = tb_width(group->widest);

		group->usable = tb_usable(group->tickets, width, around->price, around->cpus);
		group->cpus = tb_entitled(group->usable, width, around->price, around->cpus);
		if (group->all)
			around->of_groups += group->usable;
	} else {
		group->cpus = tombola_config.online_cpus * TB_CPU;
	}
	group->price = tb_price(group->of_threads + group->of_groups, group->cpus);
	group->of_groups = 0;
	if (group->all)
		look_at_clocks(i);
	return 0;
}

/* Of the groups from slot i on. */
__noinline int renew_prices(u32 i)
{
	tb_loop(TB_CLIENTS) {
		if (i >= slots_end())
			break;
		if (tb_global_pool.client[slot(i)].kind != TB_KIND_FREE)
			renew_price(i);
		i += tombola_config.group_slots;
	}
	return 0;
}

/* See root_keeps_up, which does this for one queue. */
static __noinline int renew_root(void)
{
	struct group *root = group_at(root_client), *users = group_at(TB_BEST_EFFORT);
	u64 own = root->all ? root->usable : 0, others = users->all > own ? users->all - own : 0, tickets;

	tickets = others * root_share / (TOMBOLA_SHARE_ONE - root_share) >> (TB_SHARE_SHIFT + TB_USABLE_SHIFT);
	if (tickets < root_base)
		tickets = root_base;
	if (tickets > TB_TICKETS_LIMIT)
		tickets = TB_TICKETS_LIMIT;
	root->tickets = tickets << TB_SHARE_SHIFT;
	return 0;
}
