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
	state_of(user)->owned++;
}

/*
 * May a user have one more client? It may have as many as there are free slots. So a user that takes all it can gets half of
 * them, and the next one half of the rest. Root has no such bound.
 */
static __always_inline bool may_own(struct tb_queue *q, u32 user)
{
	return user == root_client || state_of(user)->owned < TB_CLIENTS - q->pool.used;
}

/* A new client, which belongs to `user`; TB_NONE: no slot is left. */
static __always_inline u32 new_client(struct tb_queue *q, u32 kind, u32 parent, u32 tickets, u32 user, u32 id, u32 tgid)
{
	u32 made = tb_new(q, kind, parent, tickets);

	if (made)
		client_state_init(made, id, tgid, user);
	return made;
}

/* A reservation ends with its last client. */
static __always_inline void free_empty_reservation(struct tb_queue *q, u32 parent)
{
	struct tb_client *p = tb_at(q, parent);

	if (p->kind != TB_KIND_RESERVATION || p->clients)
		return;
	reserved -= p->tickets;
	state_of(TB_NONE)->owned--;
	tb_free(q, parent);
}

/* Free a client that is idle and empty. */
static __always_inline void free_client(struct tb_queue *q, u32 client)
{
	u32 parent = tb_at(q, client)->parent, user = state_of(client)->user;

	state_of(client)->tgid = 0;
	state_of(user)->owned--;
	if (!state_of(user)->owned)
		purge_pending = 1;
	tb_free(q, client);
	free_empty_reservation(q, parent);
}

/* Is `client` the currency `outer`, or at home inside it? */
static __noinline bool is_inside(struct tb_queue *q, u32 client, u32 outer)
{
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
	u32 parent = tb_at(q, client)->parent, home;

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
		return tb_frozen(q, state->user) ? root_client : state->user;
	default:
		return client_of(q, to);
	}
}

/* A new process replaces a leaf in its currency; the leaf is then moved in as its first thread. */
static __always_inline void take_place(struct tb_queue *q, u32 process, u32 leaf)
{
	struct tb_client *made = tb_at(q, process), *c = tb_at(q, leaf);
	struct client_state *state = state_of(process), *of_leaf = state_of(leaf);

	tb_at(q, TB_FROZEN)->clients--;
	tb_at(q, c->parent)->clients++;
	made->parent = c->parent;
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
	struct run_queue *rq = the_queue();
	u32 structure_version;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	structure_version = *structure_of(client);
	bpf_spin_unlock(&rq->lock);
	return structure_version;
}

/*
 * May a client move to the currency `to` now? 1: yes. 0: it is away, and `to` is from now on its home. Otherwise a negative
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
		return 1;
	state_of(client)->home = number_of(to);
	return 0;
}

/* Record the home of a client that is about to be frozen or to get a reservation. */
static __always_inline void leave_home(struct tb_queue *q, u32 client)
{
	u32 parent = tb_at(q, client)->parent;
	u8 kind = tb_at(q, parent)->kind;

	if (kind == TB_KIND_USER || kind == TB_KIND_CURRENCY)
		state_of(client)->home = number_of(parent);
}

/*
 * Move a leaf, a process or a currency to the currency `to`; if that is a process that was made for a leaf, it replaces the leaf
 * first. -ESRCH: the client was removed. -ENOENT: `to` was removed, or is closed. -EPERM: the owner may not. -EAGAIN: it is a
 * currency, and one of its user was made or moved since `structure_version` was read; or it is a leaf that has just become one of
 * several; or it has another owner. What running threads were charged in advance moves with them (tb_move).
 */
__noinline int step_move(u64 number, u64 to, u64 how)
{
	struct run_queue *rq = the_queue();
	u32 client = (u32)number, from;
	int may = -ESRCH;

	if (!rq)
		return may;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number)) {
		rq->into = place_of(&rq->economy, client, to);
		/* It was its process's only thread when it was looked up, and is one of several now; or it has another owner. */
		may = -EAGAIN;
		if (tb_at(&rq->economy, tb_at(&rq->economy, client)->parent)->kind != TB_KIND_PROCESS &&
		    !has_other_owner(client, how))
			may = admit(&rq->economy, client, rq->into, how);
	}
	from = tb_at(&rq->economy, client)->parent;
	if (may == 1 && from != rq->into) {
		if (tb_at(&rq->economy, rq->into)->kind == TB_KIND_PROCESS)
			take_place(&rq->economy, rq->into, client);
		leave_home(&rq->economy, client);
		tb_move(&rq->economy, RULES, client, rq->into);
		free_empty_reservation(&rq->economy, from);
	}
	bpf_spin_unlock(&rq->lock);
	return may < 0 ? may : 0;
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
	struct run_queue *rq = the_queue();
	u32 client = (u32)number;
	int ret = -ESRCH;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number) && !(state_of(client)->closed && tb_at(&rq->economy, client)->kind == TB_KIND_USER))
		ret = how & BY_OWNER && tickets > most(&rq->economy, client) ? -EPERM : 0;
	if (how & BY_OWNER && tb_at(&rq->economy, tb_at(&rq->economy, client)->parent)->kind == TB_KIND_PROCESS)
		ret = -EAGAIN; /* as in step_move */
	if (has_other_owner(client, how))
		ret = -EAGAIN;
	if (!ret) {
		if (limit != SAME_LIMIT)
			state_of(client)->limit = (u16)limit;
		state_of(client)->frozen = !tickets;
		if (tickets)
			tb_set_tickets(&rq->economy, RULES, client, tickets);
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}

static __always_inline bool runs_inside(struct tb_queue *q, u32 leaf, u32 client)
{
	tb_loop(TB_DEPTH) {
		if (!leaf || leaf == client)
			break;
		leaf = tb_at(q, leaf)->parent;
	}
	return leaf == client;
}

/*
 * If the thread that runs on `cpu` is `client` or in it, charge it now for what it has used, in the currencies that it is in,
 * although the kernel has not counted that yet. A thread that stops at the same moment may be charged twice; its next charge
 * deducts that.
 */
__noinline int step_settle_running(s32 cpu, u32 client, u64 now, u32 seed)
{
	struct run_queue *rq = the_queue();
	struct cpu *c = cpu_of(cpu);
	struct tb_bill *bill;
	u64 ran_ns;
	u32 leaf;

	if (!rq)
		return 0;
	bill = &rq->economy.bill;
	bpf_spin_lock(&rq->lock);
	leaf = c->leaf;
	ran_ns = now - c->since_ns;
	if (leaf && (s64)ran_ns > 0 && tb_at(&rq->economy, leaf)->state & TB_ACTIVE && runs_inside(&rq->economy, leaf, client)) {
		c->since_ns = now;
		state_of(leaf)->uncounted_ns += ran_ns;
		bill->used_ns = ran_ns;
		bill->precharge_ns = 0;
		bill->next_ns = 0;
		bill->seed = seed;
		if (tb_at(&rq->economy, TB_FROZEN)->clients)
			rq->economy.charge_also = pays_for(&rq->economy, leaf);
		tb_charge(&rq->economy, RULES, leaf);
	}
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* On each CPU where `client` or a thread in it runs: settle the run if `kick` is 0, otherwise preempt it. */
__noinline int for_each_running(u32 client, u64 now, u32 kick)
{
	struct run_queue *rq = the_queue();

	if (!rq)
		return 0;
	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
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
	struct run_queue *rq = the_queue();
	u32 client = (u32)number, was_frozen;
	int ret;

	if (!rq)
		return -ESRCH;
	was_frozen = tb_frozen(&rq->economy, client);
	for_each_running(client, now_ns(), 0);
	ret = step_move(number, to, how);
	if (ret)
		return ret;
	if (tb_frozen(&rq->economy, client))
		for_each_running(client, 0, 1);
	else if (was_frozen)
		kick_idle();
	return 0;
}

/* Close a currency, so that nothing may be moved into it, or open it again. -ESRCH: it was removed. */
__noinline int step_close(u64 number, u32 closed)
{
	struct run_queue *rq = the_queue();
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

/* Free a client that is idle and empty; not a process in which a new thread has started meanwhile. */
__noinline int step_free(u64 number)
{
	struct run_queue *rq = the_queue();

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number) && !tb_at(&rq->economy, (u32)number)->clients)
		free_client(&rq->economy, (u32)number);
	bpf_spin_unlock(&rq->lock);
	return 0;
}
