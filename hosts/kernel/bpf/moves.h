/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a client is in the tree, and who may move it.
 *
 *   made, freed         a slot among the clients, counted for the user that the client belongs to (may_own)
 *   tickets             0 move a client to the frozen root, any others move it home (step_fund, step_move BY_TICKETS)
 *   moved               into another currency, a reservation, or out of a currency that is retired
 *
 * A limit that an administrator has set (client_state.limit) binds the owner. The owner cannot give the client more tickets,
 * cannot move it, and cannot move anything out of a limited currency. The check and the change are made under one lock.
 *
 * A currency or process with a reservation is a client of that reservation; a frozen one is a client of the frozen root.
 * client_state.home says where it comes from.
 *
 * Before a currency is moved, its nesting is checked. That takes a look at every client, without the lock. If a currency of the
 * same user is made or moved meanwhile, `structure_version` has changed, and the move must be tried again.
 */
#pragma once
#include "state.h"
#include "steps.h"

static __always_inline void client_state_init(u32 client, u32 id, u32 tgid, u32 user)
{
	struct client_state *state = state_of(client);
	u32 serial = state->serial + 1;

	__builtin_memset(state, 0, sizeof(*state));
	state->serial = serial;
	state->id = id;
	state->tgid = tgid;
	state->user = user;
	state->limit = TOMBOLA_NO_LIMIT;
	__sync_fetch_and_add(&state_of(user)->owned, 1);
}

/* It no longer belongs to its user. */
static __always_inline void disown(u32 user)
{
	if (__sync_fetch_and_sub(&state_of(user)->owned, 1) == 1)
		purge_pending = 1;
}

/*
 * May a user have one more client? It may have as many as there are free slots. So a user that takes all it can gets half of
 * them, and the next one half of the rest. Root has no such bound.
 */
static __always_inline bool may_own(u32 user)
{
	return user == root_client || state_of(user)->owned < LEAVES_END - tb_global_pool.used;
}

/* The same for groups, which with several queues have slots of their own. */
static __always_inline bool may_own_group(u32 user)
{
	u32 most = (TB_CLIENTS - FIRST_GROUP) / tombola_config.group_slots;

	if (!several())
		return may_own(user);
	return user == root_client || state_of(user)->groups < most - groups_used;
}

/* Under the first queue's lock: slots for a group, all of them clients of none yet. TB_NONE: there are none. */
static __noinline u32 new_slots(struct tb_queue *q, u32 kind, u32 tickets)
{
	u32 made = groups_free;

	if (made) {
		groups_free = tb_at(q, made)->up;
	} else {
		made = groups_fresh ? groups_fresh : FIRST_GROUP;
		if (made + tombola_config.group_slots > TB_CLIENTS)
			return TB_NONE;
		groups_fresh = made + tombola_config.group_slots;
	}
	groups_used++;
	for_each_queue(queue) {
		__builtin_memset(part_at(made + queue), 0, sizeof(struct part));
		tb_init(q, made + queue, kind, TB_NONE, tickets);
	}
	return made;
}

/* A queue's roots; with several, the ones of the first stand for the groups. */
__noinline int step_queue_init(u32 queue)
{
	struct run_queue *rq = queue_at(queue);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	rq->number = queue;
	tb_queue_init(&rq->economy, TOMBOLA_FLOOR_DEFAULT << ticket_shift());
	bpf_spin_unlock(&rq->lock);
	if (several() && !queue) {
		group_init(TB_BASE, TB_MACHINE_TICKETS);
		group_init(TB_BEST_EFFORT, TOMBOLA_FLOOR_DEFAULT);
		group_init(TB_FROZEN, TB_MACHINE_TICKETS);
	}
	return 0;
}

/* A client of none becomes one of `parent`, at vnow. */
static __always_inline void put_new(struct tb_queue *q, u32 i, u32 parent)
{
	tb_put(q, i, parent, 0);
	tb_at(q, i)->pass = tb_at(q, parent)->vnow;
	tb_at(q, i)->key = tb_at(q, parent)->vnow;
}

/*
 * Under the first queue's lock: a new group, a client of `parent` there, which belongs to `user`. With several queues, attach()
 * must follow. TB_NONE: no slot is left.
 */
static __always_inline u32 new_group(struct tb_queue *q, u32 kind, u32 parent, u32 tickets, u32 user, u32 id, u32 tgid)
{
	u32 made;

	if (!several()) {
		made = tb_new(q, kind, parent, tickets);
	} else {
		made = new_slots(q, kind, tickets << ticket_shift());
		if (made) {
			put_new(q, made, parent);
			group_init(made, tickets);
			__sync_fetch_and_add(&state_of(user)->groups, 1);
		}
	}
	if (made) {
		client_state_init(made, id, tgid, user);
		__sync_fetch_and_add(&state_of(parent)->members, 1);
	}
	return made;
}

/* A client has left a group. True: it was the last one. */
static __always_inline bool left_group(u32 group)
{
	return __sync_fetch_and_sub(&state_of(group)->members, 1) == 1;
}

/* A client's tickets. With several queues, what a group's parts hold are shares of them. */
static __always_inline u32 tickets_at(struct tb_queue *q, u32 client)
{
	if (is_leaf(client))
		return tb_at(q, client)->tickets >> ticket_shift();
	return (u32)(group_at(client)->tickets >> ticket_shift());
}

/* Under the lock of its queue; those of a group then need follow_all. */
static __always_inline void set_tickets(struct tb_queue *q, u32 client, u32 tickets)
{
	if (is_leaf(client)) {
		tb_set_tickets(q, RULES, client, tickets << ticket_shift());
	} else {
		group_at(client)->tickets = (u64)tickets << ticket_shift();
		adopt_pass(client);
	}
}

/* Is a frozen thread runnable, on any queue? */
__noinline u32 frozen_are_active(void)
{
	u32 active = 0;

	for_each_queue(queue) {
		active += tb_global_pool.client[slot(part_on(TB_FROZEN, queue))].active;
	}
	return active;
}

static __always_inline u32 looks_frozen(u32 client)
{
	struct run_queue *rq = home_queue(client);

	return rq && is_frozen(&rq->economy, client);
}

/* A leaf has been moved. */
__noinline int step_count(u32 leaf, u32 place)
{
	struct run_queue *rq = queue_at(place);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (task_at(leaf)->queue == place && tb_at(&rq->economy, leaf)->state & TB_ACTIVE)
		count_leaf(&rq->economy, leaf, true);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* The same, or a group's part on a queue, came from the part `from`: all that changes by that follows. */
__noinline int count_again(u32 client, u32 from, u32 place)
{
	struct run_queue *rq = queue_at(place);

	if (!rq)
		return 0;
	if (is_leaf(client))
		step_count(client, place);
	follow(is_leaf(client) ? tb_at(&rq->economy, client)->parent : client, place, 1);
	return follow(from, place, 1);
}

__noinline int step_attach_new(u32 group, u32 place)
{
	struct run_queue *rq = queue_at(place);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	put_new(&rq->economy, part_on(group, place), part_on(parent_of(&rq->economy, group), place));
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* A group was made: its parts on the other queues become clients, too. */
static __always_inline void attach(u32 group)
{
	if (!several() || !group)
		return;
	for (u32 queue = 1; queue < NR_QUEUES && can_loop; queue++) {
		if (queue >= tombola_config.nr_queues)
			break;
		step_attach_new(group, queue);
	}
}

/* A group is about to be freed: its part on a queue is no client any more. */
__noinline int step_detach(u32 group, u32 place)
{
	struct run_queue *rq = queue_at(place);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	tb_put(&rq->economy, part_on(group, place), TB_NONE, 0);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/*
 * Under the first queue's lock: may a group be freed? It has no members, and gets none from now on (enter).
 */
static __always_inline bool may_free(u32 group)
{
	struct client_state *state = state_of(group);

	__sync_lock_test_and_set(&state->freed, 1);
	if (!__sync_fetch_and_add(&state->members, 0))
		return true;
	state->freed = 0;
	return false;
}

/* A client is about to enter a group. False: the group is just being freed. */
static __always_inline bool enter(u32 group)
{
	__sync_fetch_and_add(&state_of(group)->members, 1);
	if (!state_of(group)->freed)
		return true;
	left_group(group);
	return false;
}

/* Under the first queue's lock: free the slots of a group that is no client any more, or with one queue is idle and empty. */
static __always_inline void free_slots(struct tb_queue *q, u32 group)
{
	struct client_state *state = state_of(group);

	state->tgid = 0;
	disown(state->user);
	if (!several()) {
		tb_free(q, group);
		return;
	}
	__sync_fetch_and_sub(&state_of(state->user)->groups, 1);
	for_each_queue(queue) {
		tb_at(q, group + queue)->kind = TB_KIND_FREE;
	}
	tb_at(q, group)->up = groups_free;
	groups_free = group;
	groups_used--;
}

/* Is `client` the currency `outer`, or at home inside it? */
static __noinline bool is_inside(struct tb_queue *q, u32 client, u32 outer)
{
	empty_registers();
	tb_loop(TB_DEPTH) {
		if (!client || client == outer || tb_at(q, client)->kind <= TB_KIND_USER)
			break;
		client = home_of(q, client);
	}
	return client == outer;
}

/* The innermost limited currency around a client; TB_NONE: there is none. */
static __noinline u32 limited_around(struct tb_queue *q, u32 client)
{
	tb_loop(TB_DEPTH) {
		client = home_of(q, client);
		if (tb_at(q, client)->kind != TB_KIND_CURRENCY)
			return TB_NONE;
		if (state_of(client)->limit != TOMBOLA_NO_LIMIT)
			break;
	}
	return client;
}

/* May the owner of a client move it to `to`? */
static __always_inline bool may_take(struct tb_queue *q, u32 client, u32 to)
{
	u32 limited = limited_around(q, client);

	return state_of(client)->limit == TOMBOLA_NO_LIMIT && (!limited || is_inside(q, to, limited));
}

/* Where a move may lead, other than into the currency with a number. */
enum {
	BY_TICKETS = ~0ull,     /* to the frozen root if it has none; home from there if it has some */
	OUT = ~0ull - 1,        /* out of its home currency, which is closed, into the one around that */
	HOME = ~0ull - 2,       /* out of a reservation, home */
	TO_DIE = ~0ull - 3,     /* to its user, or to root if the user is frozen, to exit */
};

/* How. Low half: its user's `structure_version` at the decision. AT_ONCE: ignore that, and move also a client that is away. */
#define AT_ONCE (1ull << 32)
/* The owner asks for it, not an administrator. */
#define BY_OWNER (1ull << 33)
/* A group's part follows another part of the group, `to`, which has been moved; the low half is its queue. */
#define LIKE (several() ? 1ull << 34 : 0)
/* From here on: the user whom a process had when its owner was checked, for it may have another since; else TB_NONE. */
#define OWNER_SHIFT 48

static __always_inline bool has_other_owner(u32 client, u64 how)
{
	return how >> OWNER_SHIFT && how >> OWNER_SHIFT != state_of(client)->user;
}

/*
 * A client's home. If that is closed: the currency around it, or for a process in another user's currency its own user's, since
 * otherwise it would have the other user's CPU time.
 */
static __noinline u32 way_out(struct tb_queue *q, u32 client)
{
	u32 home = home_of(q, client), user = state_of(client)->user;

	if (!state_of(home)->closed)
		return home;
	return state_of(home)->user == user ? home_of(q, home) : user;
}

static __noinline u32 place_of(struct tb_queue *q, u32 client, u64 to)
{
	struct client_state *state = state_of(client);
	u32 parent = parent_of(q, client), home;

	switch (to) {
	case BY_TICKETS:
		if (state->frozen)
			return TB_FROZEN;
		if (parent != TB_FROZEN)
			return parent;
		/* Not out of a limited currency that its owner has just closed, and may not retire (admit then refuses). */
		home = home_of(q, client);
		return state_of(home)->limit == TOMBOLA_NO_LIMIT ? way_out(q, client) : home;
	case OUT:
		return way_out(q, client);
	case HOME:
		return tb_at(q, parent)->kind == TB_KIND_RESERVATION ? way_out(q, client) : parent;
	case TO_DIE:
		return is_frozen(q, state->user) ? root_client : state->user;
	default:
		return client_of(q, to);
	}
}

/* A new process replaces a leaf in its currency; the leaf is then moved in as its first thread. */
static __always_inline void take_place(struct tb_queue *q, u32 process, u32 leaf)
{
	u32 part = part_on(process, place_of_leaf(leaf));
	struct tb_client *made = tb_at(q, part), *c = tb_at(q, leaf);
	struct client_state *state = state_of(process), *of_leaf = state_of(leaf);

	tb_put(q, part, c->parent, 0);
	left_group(TB_FROZEN);
	__sync_fetch_and_add(&state_of(whole_of(c->parent))->members, 1);
	if (several())
		group_at(process)->tickets = c->tickets;
	made->tickets = c->tickets;
	made->pass = c->pass;
	made->used_ns = c->used_ns;
	made->young_ns = c->young_ns;
	made->level = tombola_config.rules.lag_ns; /* it joins with all of its lag, like any client that moves */
	state->home = of_leaf->home;
	state->limit = of_leaf->limit;
	state->frozen = of_leaf->frozen;
	state->wins = of_leaf->wins;
	state->child = of_leaf->child;
	state->child_tid = of_leaf->child_tid;
	state->forked_ns = of_leaf->forked_ns;
	state->lent = of_leaf->lent;
	state->serves = of_leaf->serves;
	of_leaf->lent = 0;
	of_leaf->serves = 0;
	__builtin_memcpy(state->left, of_leaf->left, sizeof(state->left));
	of_leaf->limit = TOMBOLA_NO_LIMIT;
	of_leaf->frozen = 0;
}

static __always_inline u32 *structure_of(u32 client)
{
	return &state_of(state_of(client)->user)->structure_version;
}

/* Without the lock, a caller could read the number that a move has just changed, and then check the tree before that move. */
__noinline u32 step_structure(u32 client)
{
	struct run_queue *rq = first_queue();
	u32 structure_version;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	structure_version = *structure_of(client);
	bpf_spin_unlock(&rq->lock);
	return structure_version;
}

/* What admit and step_move decide; negative: an error. */
enum { MOVES = 1, MOVES_OTHER = TB_CLIENTS };

/*
 * May a client move to the currency `to` now? MOVES: yes. 0: it is away, and `to` is from now on its home. Otherwise a negative
 * error, and nothing has changed.
 */
static __always_inline int admit(struct tb_queue *q, u32 client, u32 to, u64 how)
{
	if (!to || state_of(to)->closed)
		return -ENOENT;
	if (how & BY_OWNER && !may_take(q, client, to))
		return -EPERM;
	if (tb_at(q, client)->kind == TB_KIND_CURRENCY && !(how & AT_ONCE)) {
		if (*structure_of(client) != (u32)how)
			return -EAGAIN;
		++*structure_of(client);
	}
	if (how & AT_ONCE || !is_away(q, client))
		return MOVES;
	state_of(client)->home = number_of(to);
	return 0;
}

/* Record the home of a client that is about to be frozen or to get a reservation. */
static __always_inline void leave_home(struct tb_queue *q, u32 client)
{
	u32 parent = parent_of(q, client);
	u8 kind = tb_at(q, parent)->kind;

	if (kind == TB_KIND_USER || kind == TB_KIND_CURRENCY)
		state_of(client)->home = number_of(parent);
}

/* A thread that is on its way to another queue has arrived after some microseconds: an operation on it tries again so often. */
#define MOVE_TRIES 100000

/* Is a leaf on the queue with number `place`, and not on its way there? */
static __always_inline bool is_at(u32 client, u32 place)
{
	return !several() || !is_leaf(client) || (task_at(client)->queue == place && !task_at(client)->arriving);
}

/*
 * A part is to come into the part `into`, which may still be inside it, if a group between the two has been moved away on the
 * first queue and not here yet. Such a group's part here; `part` if there is none at this moment; TB_NONE if `into` is not
 * inside.
 */
static __noinline u32 part_between(struct tb_queue *q, u32 part, u32 into)
{
	u32 found = part, i = into, parent;

	tb_loop(TB_DEPTH) {
		if (!i || i == part)
			break;
		parent = tb_at(q, i)->parent;
		if (parent_of(q, whole_of(i)) != whole_of(parent))
			found = i;
		i = parent;
	}
	return i ? found : TB_NONE;
}

/*
 * Move a leaf, a process or a currency to the currency `to`; if that is a process that was made for a leaf, it replaces the leaf
 * first. Returns the group that it was in, which it does not count as left yet (left_group); 0: it was there already. -ESRCH: the
 * client was removed. -ENOENT: `to` was removed, or is closed. -EPERM: the owner may not. -EAGAIN: it is a currency, and one of
 * its user was made or moved since `structure_version` was read; or it is a leaf that has just become one of several, or is
 * going to another queue; or it has another owner. What running threads were charged in advance moves with them (tb_move).
 *
 * With several queues, only the part on the first one moves, or the leaf. The other parts then move LIKE that one. Currencies may
 * be moved meanwhile, and so it can be that `to` is still inside the client there (part_between). What is between the two first
 * comes to its user (-EAGAIN), from where its own move will fetch it.
 */
__noinline int step_move(u64 number, u64 to, u64 how)
{
	u32 client = (u32)number, place = how & LIKE ? (u32)how : is_leaf(client) ? place_of_leaf(client) : 0, from, between;
	struct run_queue *rq = queue_at(place);
	int may = -ESRCH;

	if (!rq)
		return may;
	bpf_spin_lock(&rq->lock);
	from = parent_of(&rq->economy, client);
	rq->moved = client;
	if (how & LIKE) {
		rq->into = parent_of(&rq->economy, (u32)to);
		may = from && rq->into;
		between = part_between(&rq->economy, client, part_on(rq->into, place));
		if (may && between) {
			may = between == client ? -EAGAIN : MOVES_OTHER;
			rq->moved = between;
			rq->into = state_of(whole_of(between))->user;
		}
	} else if (client_of(&rq->economy, number) && from) {
		rq->into = place_of(&rq->economy, client, to);
		/* It was its process's only thread when it was looked up, and is one of several now; or it has another owner. */
		may = -EAGAIN;
		if (tb_at(&rq->economy, from)->kind != TB_KIND_PROCESS && !has_other_owner(client, how) && is_at(client, place))
			may = admit(&rq->economy, client, rq->into, how);
	}
	if (may == MOVES && from == rq->into)
		may = 0;
	if (may == MOVES && !(how & LIKE)) {
		if (!enter(rq->into)) {
			may = -ENOENT;
		} else {
			if (tb_at(&rq->economy, rq->into)->kind == TB_KIND_PROCESS)
				take_place(&rq->economy, rq->into, client);
			leave_home(&rq->economy, client);
			may = (int)from;
		}
	}
	rq->verdict = (u32)may;
	rq->into = part_on(rq->into, place);
	if ((s32)rq->verdict > 0) {
		if (several())
			tell(&rq->economy, rq->moved, 0, 0);
		tb_move(&rq->economy, RULES, rq->moved, rq->into);
		if (!is_leaf(rq->moved))
			adopt_pass(rq->moved);
	}
	may = (s32)rq->verdict;
	bpf_spin_unlock(&rq->lock);
	return may == MOVES_OTHER ? -EAGAIN : may;
}

/* Free a group that is idle and empty. Returns the group that it was in; TB_NONE: it has clients, or was freed already. */
__noinline u32 step_free(u64 number)
{
	struct run_queue *rq = first_queue();
	u32 group = (u32)number, parent = TB_NONE;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number))
		parent = parent_of(&rq->economy, group);
	if (parent && may_free(group)) {
		if (tb_at(&rq->economy, group)->kind == TB_KIND_RESERVATION)
			reserved -= tickets_at(&rq->economy, group);
		left_group(parent);
		/* With several queues it keeps its slots. But it is no client any more: a move would leave `parent` again. */
		if (several())
			tb_put(&rq->economy, group, TB_NONE, 0);
		else
			free_slots(&rq->economy, group);
	} else {
		parent = TB_NONE;
	}
	bpf_spin_unlock(&rq->lock);
	if (!several() || !parent)
		return parent;
	for_each_queue(queue) {
		step_detach(group, queue);
	}
	bpf_spin_lock(&rq->lock);
	free_slots(&rq->economy, group);
	bpf_spin_unlock(&rq->lock);
	return parent;
}

/* A reservation ends with its last client. */
__noinline int free_empty_reservation(u32 group)
{
	struct run_queue *rq = first_queue();

	if (rq && tb_at(&rq->economy, group)->kind == TB_KIND_RESERVATION && !state_of(group)->members)
		step_free(number_of(group));
	return 0;
}

/* Free a group that is idle and empty, and its reservation with it. Returns the group that it was in; TB_NONE: it has clients. */
static __always_inline u32 free_group(u64 number)
{
	u32 around = step_free(number);

	free_empty_reservation(around);
	return around;
}

/* A group's part on a queue follows the part `like`. (Inline: see follow.) */
static __always_inline int move_part(u32 group, u32 like, u32 queue)
{
	struct run_queue *rq = queue_at(queue);
	u32 part = part_on(group, queue), from;

	if (!rq || part == like)
		return 0;
	from = tb_at(&rq->economy, part)->parent;
	tb_loop(MOVE_TRIES) {
		if (step_move(part, like, LIKE | queue) != -EAGAIN)
			break;
	}
	return count_again(part, from, queue);
}

/* All parts of a group but `like` follow that one. */
static __always_inline void move_like(u32 group, u32 like)
{
	for_each_queue(queue) {
		move_part(group, like, queue);
	}
	adopt_pass(group);
}

/* step_move, on all queues. */
static __always_inline int move(u64 number, u64 to, u64 how)
{
	u32 client = (u32)number, from, place;
	int ret = -ESRCH;

	tb_loop(MOVE_TRIES) {
		ret = step_move(number, to, how);
		if (!several() || ret != -EAGAIN || !is_leaf(client) || !task_at(client)->arriving)
			break;
	}
	if (ret <= 0)
		return ret;
	from = (u32)ret;
	if (several()) {
		place = is_leaf(client) ? place_of_leaf(client) : 0;
		count_again(client, part_on(from, place), place);
		if (!is_leaf(client))
			move_like(client, client);
	}
	left_group(from);
	free_empty_reservation(from);
	return 0;
}

/* The limit stays as it is. */
#define SAME_LIMIT (1u << 16)

/* The most tickets that its owner may give a client. */
static __always_inline u32 most(struct tb_queue *q, u32 client)
{
	if (state_of(client)->limit == TOMBOLA_NO_LIMIT && tb_at(q, client)->kind == TB_KIND_USER)
		return default_base;
	return state_of(client)->limit;
}

/* Change a client's tickets; 0 are for the frozen root. The caller then moves it BY_TICKETS. */
__noinline int step_fund(u64 number, u32 tickets, u32 limit, u64 how)
{
	u32 client = (u32)number, place = is_leaf(client) ? place_of_leaf(client) : 0;
	struct run_queue *rq = queue_at(place);
	int ret = -ESRCH;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number) && !(state_of(client)->closed && tb_at(&rq->economy, client)->kind == TB_KIND_USER))
		ret = how & BY_OWNER && tickets + state_of(client)->lent > most(&rq->economy, client) ? -EPERM : 0;
	if (how & BY_OWNER && tb_at(&rq->economy, parent_of(&rq->economy, client))->kind == TB_KIND_PROCESS)
		ret = -EAGAIN; /* as in step_move */
	if (has_other_owner(client, how) || !is_at(client, place))
		ret = -EAGAIN;
	if (!ret) {
		if (limit != SAME_LIMIT)
			state_of(client)->limit = (u16)limit;
		state_of(client)->frozen = !tickets;
		if (tickets)
			set_tickets(&rq->economy, client, tickets);
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}

/* step_fund, on all queues. */
static __always_inline int fund_client(u64 number, u32 tickets, u32 limit, u64 how)
{
	u32 client = (u32)number;
	int ret = -ESRCH;

	tb_loop(MOVE_TRIES) {
		ret = step_fund(number, tickets, limit, how);
		if (!several() || ret != -EAGAIN || !is_leaf(client) || !task_at(client)->arriving)
			break;
	}
	if (several() && !ret) {
		if (is_leaf(client))
			count_again(client, TB_NONE, place_of_leaf(client));
		else
			follow_all(client);
	}
	return ret;
}

static __always_inline bool is_or_is_in(struct tb_queue *q, u32 leaf, u32 client)
{
	tb_loop(TB_DEPTH) {
		if (!leaf || leaf == client)
			break;
		leaf = parent_of(q, leaf);
	}
	return leaf == client;
}

/* Is a running thread, or the account that pays for it, `client` or in it? */
static __always_inline bool runs_inside(struct tb_queue *q, u32 leaf, u32 client)
{
	return is_or_is_in(q, leaf, client) || (transfers() && is_or_is_in(q, account_of(leaf), client));
}

/*
 * If the thread that runs on `cpu`, or the account that pays for it, is `client` or in it, charge it now for what it has used, in
 * the currencies that it is in.
 */
__noinline int step_settle_running(s32 cpu, u32 client, u64 now, u32 seed)
{
	struct run_queue *rq = queue_of_cpu(cpu);
	struct cpu *c = cpu_of(cpu);
	u32 leaf;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	leaf = c->leaf;
	if (leaf && tb_at(&rq->economy, leaf)->state & TB_ACTIVE && runs_inside(&rq->economy, leaf, client))
		charge_payer(&rq->economy, leaf, run_until(c, now), state_of(leaf)->precharge_ns, seed);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* On each CPU where `client` or a thread in it runs: settle the run if `kick` is 0, otherwise preempt it. */
__noinline int for_each_running(u32 client, u64 now, u32 kick)
{
	struct run_queue *rq = first_queue();

	if (!rq)
		return 0;
	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; empty_registers(), cpu++) {
		if (cpu >= tombola_config.nr_cpus)
			break;
		if (!runs_inside(&rq->economy, cpus[cpu].leaf, client))
			continue;
		if (kick)
			scx_bpf_kick_cpu((s32)cpu, SCX_KICK_PREEMPT);
		else
			step_settle_running((s32)cpu, client, now, tombola_config.rules.lottery ? bpf_get_prandom_u32() : 0);
	}
	return 0;
}

/*
 * Move a client. Its running threads are charged before, and are preempted after if they are frozen now. If the move thaws it,
 * idle CPUs are kicked to run it.
 */
__noinline int move_running(u64 number, u64 to, u64 how)
{
	u32 client = (u32)number, was_frozen = looks_frozen(client);
	int ret;

	for_each_running(client, now_ns(), 0);
	ret = move(number, to, how);
	if (ret)
		return ret;
	if (looks_frozen(client))
		for_each_running(client, 0, 1);
	else if (was_frozen)
		kick_idle();
	return 0;
}

/* Close a currency, so that nothing may be moved into it, or open it again. -ESRCH: it was removed. */
__noinline int step_close(u64 number, u32 closed)
{
	struct run_queue *rq = first_queue();
	int ret = -ESRCH;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number) && tb_at(&rq->economy, (u32)number)->kind == TB_KIND_CURRENCY) {
		state_of((u32)number)->closed = (u8)closed;
		++*structure_of((u32)number);
		ret = 0;
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}
