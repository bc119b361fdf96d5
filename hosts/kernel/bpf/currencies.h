/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Currencies of users' own making, and reservations.
 *
 *   make     a client of the user's currency, or of another of hers      retire   what is in it falls to the one around it
 *   fund     more or fewer tickets: inflation and deflation              move     a process, or a currency with all in it
 *
 * A currency, or a process, with a reservation is a client of that, and one that is frozen is a client of limbo; where it comes
 * from is in its seat (home). How deep currencies are nested is counted along that way, so that coming home is never too deep.
 *
 * Moving a currency asks how much is nested in it, which takes a look at every client and is done without the lock. Whoever makes
 * or moves a currency meanwhile changes `structure`, and the move is to be tried again.
 */
#pragma once
#include "people.h"
#include "state.h"

/* The currency around a client, wherever that is at the moment. TB_NONE if it was retired. */
static __always_inline u32 around(struct tb_queue *q, u32 client)
{
	return is_away(q, client) ? client_of(q, seat_of(client)->home) : tb_at(q, client)->parent;
}

/* How many currencies there are from here up, a user's own not counted. */
static __noinline u32 nested(struct tb_queue *q, u32 client)
{
	u32 levels = 0;

	tb_loop(TB_DEPTH) {
		if (tb_at(q, client)->kind != TB_KIND_CURRENCY || levels > TB_NESTED_MAX)
			break;
		levels++;
		client = around(q, client);
	}
	return levels;
}

/* Is `client` the currency `outer`, or inside it? */
static __noinline bool is_inside(struct tb_queue *q, u32 client, u32 outer)
{
	tb_loop(TB_DEPTH) {
		if (!client || client == outer)
			break;
		client = around(q, client);
	}
	return client == outer;
}

__noinline u32 step_make(u32 queue, u64 inside, u32 tickets, u32 uid)
{
	struct run_queue *rq = queue_of(queue);
	u32 made = TB_NONE;

	if (!rq)
		return TB_NONE;
	bpf_spin_lock(&rq->lock);
	if (nr_currencies < NR_CURRENCIES && client_of(&rq->economy, inside) &&
	    nested(&rq->economy, (u32)inside) < TB_NESTED_MAX)
		made = tb_new(&rq->economy, TB_KIND_CURRENCY, (u32)inside, tickets);
	if (made) {
		seat_init(made, uid, 0, uid);
		nr_currencies++;
		structure++;
	}
	bpf_spin_unlock(&rq->lock);
	return made;
}

/* Without the lock: as they stand at the moment. */
__noinline u32 look_nested(u32 client)
{
	struct run_queue *rq = queue_of(0);

	return rq ? nested(&rq->economy, client) : 0;
}

__noinline u32 look_inside(u32 client, u32 outer)
{
	struct run_queue *rq = queue_of(0);

	return rq && is_inside(&rq->economy, client, outer);
}

/* How deep a currency is nested in `outer`, counted from that; 0 if it is none that is in there. */
__noinline u32 look_how_deep(u32 client, u32 outer)
{
	struct run_queue *rq = queue_of(0);

	if (!rq || tb_at(&rq->economy, client)->kind != TB_KIND_CURRENCY || !look_inside(client, outer))
		return 0;
	return look_nested(client) + 1 - look_nested(outer);
}

/* The deepest of those from i on; 1 if there is none in it. (The verifier follows a loop to its end if it knows from where.) */
__noinline u32 look_for_height(u32 i, u32 outer)
{
	struct run_queue *rq = queue_of(0);
	u32 height = 1, levels;

	if (!rq)
		return height;
	tb_loop(TB_CLIENTS) {
		if (i >= rq->economy.fresh)
			break;
		levels = look_how_deep(i, outer);
		if (levels > height)
			height = levels;
		i++;
	}
	return height;
}

/* All from i on that are in the currency `from`, or belong there, fall to `to`. */
__noinline int look_for_fallers(u32 i, u64 from, u64 to)
{
	struct run_queue *rq = queue_of(0);

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		if (i >= rq->economy.fresh)
			break;
		if (tb_at(&rq->economy, i)->parent == (u32)from || (seat_of(i)->home == from && is_away(&rq->economy, i)))
			step_move(number_of(i), to, *(volatile u32 *)&structure);
		i++;
	}
	return 0;
}

/* A reservation that nobody came to. */
__noinline int step_vacate(u32 reservation)
{
	struct run_queue *rq = queue_of(0);

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	vacate(&rq->economy, reservation);
	bpf_spin_unlock(&rq->lock);
	return 0;
}

/* 1: it was empty, and is gone. */
__noinline int step_retire(u64 number)
{
	struct run_queue *rq = queue_of(0);
	u32 client = (u32)number, parent;
	int ret = 0;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (client_of(&rq->economy, number) && !tb_at(&rq->economy, client)->clients) {
		parent = tb_at(&rq->economy, client)->parent;
		tb_free(&rq->economy, client);
		vacate(&rq->economy, parent);
		nr_currencies--;
		structure++;
		ret = 1;
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}

/* What of base nobody has been promised. */
static __always_inline u32 unreserved(struct tb_queue *q)
{
	return TB_MACHINE_TICKETS - tb_at(q, TB_BEST_EFFORT)->tickets - reserved;
}

/*
 * A reservation of so many tickets of base for a process or a currency: its own, changed, or a new one that it is still to be
 * placed in; or -EBUSY, too much.
 */
__noinline s64 step_reserve(u64 number, u32 tickets)
{
	struct run_queue *rq = queue_of(0);
	u32 client = (u32)number, reservation, held;
	struct tb_queue *q;
	s64 ret = -ESRCH;

	if (!rq)
		return ret;
	q = &rq->economy;
	bpf_spin_lock(&rq->lock);
	if (!client_of(q, number))
		goto out;
	reservation = tb_at(q, client)->parent;
	held = tb_at(q, reservation)->kind == TB_KIND_RESERVATION ? tb_at(q, reservation)->tickets : 0;
	ret = -EBUSY;
	if (tickets > unreserved(q) + held)
		goto out;
	if (held) {
		tb_set_tickets(q, RULES, reservation, tickets);
	} else {
		reservation = tb_new(q, TB_KIND_RESERVATION, TB_BASE, tickets);
		if (reservation)
			seat_init(reservation, 0, 0, 0);
	}
	ret = -ENOSPC;
	if (!reservation)
		goto out;
	reserved += tickets - held;
	ret = reservation;
out:
	bpf_spin_unlock(&rq->lock);
	return ret;
}

/* Best effort's part of base; not so much that reservations would be broken. */
__noinline int step_set_floor(u32 tickets)
{
	struct run_queue *rq = queue_of(0);
	int ret = -EBUSY;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (tickets + reserved <= TB_MACHINE_TICKETS) {
		tb_set_tickets(&rq->economy, RULES, TB_BEST_EFFORT, tickets);
		ret = 0;
	}
	bpf_spin_unlock(&rq->lock);
	return ret;
}
