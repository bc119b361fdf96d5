/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Currencies that users make, and reservations.
 *
 *   make      a client of the user's own currency, or of one in it
 *   fund      more or fewer tickets: inflation and deflation; 0 freezes it
 *   move      a process, or a currency with all that is in it, goes into another currency
 *   retire    its clients move to the currency around it, processes of other users to those users' own currencies (way_out)
 *   reserve   a process or a currency becomes the client of a reservation
 */
#pragma once
#include "users.h"

/* How many currencies there are from `client` up, itself included, the user's own not counted. */
static __noinline u32 nested(struct tb_queue *q, u32 client)
{
	u32 levels = 0;

	tb_loop(TB_DEPTH) {
		if (tb_at(q, client)->kind != TB_KIND_CURRENCY || levels > TB_NESTED_MAX)
			break;
		levels++;
		client = home_of(q, client);
	}
	return levels;
}

/* A currency of `user` in another of the same user; usable once it has a name. 0: `inside` was removed, or no slot is left. */
__noinline u64 step_make(u64 inside, u32 tickets, u32 user)
{
	struct run_queue *rq = first_queue();
	u64 number = 0;
	u32 made = TB_NONE;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	if (nr_currencies < NR_CURRENCIES && client_of(&rq->economy, inside) && !state_of((u32)inside)->closed &&
	    nested(&rq->economy, (u32)inside) < TB_NESTED_MAX && may_own_group(user) &&
	    state_of(user)->made < TOMBOLA_CURRENCIES_MAX)
		made = new_group(&rq->economy, TB_KIND_CURRENCY, (u32)inside, tickets, user, state_of(user)->id, 0);
	if (made) {
		number = number_of(made);
		state_of(user)->made++;
		nr_currencies++;
		++*structure_of(made);
	}
	bpf_spin_unlock(&rq->lock);
	attach(made);
	return number;
}

/* Without the lock: the answer may be outdated. */
__noinline u32 look_nested(u32 client)
{
	struct run_queue *rq = first_queue();

	return rq ? nested(&rq->economy, client) : 0;
}

__noinline u32 look_inside(u32 client, u32 outer)
{
	struct run_queue *rq = first_queue();

	return rq && is_inside(&rq->economy, client, outer);
}

/* How deep a currency is nested in `outer`, which itself counts as 1; 0 if `client` is no currency in there. */
__noinline u32 look_how_deep(u32 client, u32 outer)
{
	struct run_queue *rq = first_queue();

	if (!rq || tb_at(&rq->economy, client)->kind != TB_KIND_CURRENCY || !look_inside(client, outer))
		return 0;
	return look_nested(client) + 1 - look_nested(outer);
}

/* The largest look_how_deep of the slots from i up; at least 1. (The verifier walks each round of a loop from a constant i.) */
__noinline u32 look_for_height(u32 i, u32 outer)
{
	struct run_queue *rq = first_queue();
	u32 height = 1, levels;

	if (!rq)
		return height;
	tb_loop(TB_CLIENTS) {
		if (i >= slots_end())
			break;
		levels = look_how_deep(i, outer);
		if (levels > height)
			height = levels;
		i++;
	}
	return height;
}

/*
 * Move the clients that are in the currency `from`, or at home in it, out of it; of the slots from i up. A negative error: one or
 * more have not moved.
 */
__noinline int reparent_children(u32 i, u64 from, u64 by)
{
	struct run_queue *rq = first_queue();
	int ret = 0, error;

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		if (i >= slots_end())
			break;
		if (!is_whole(i) || tb_at(&rq->economy, i)->kind == TB_KIND_FREE) {
			i++;
			continue;
		}
		if (parent_of(&rq->economy, i) == (u32)from || (state_of(i)->home == from && is_away(&rq->economy, i))) {
			/* The present number: out of a currency, nothing can be nested deeper than it was. */
			error = move(number_of(i), OUT, by | step_structure(i));
			if (error && error != -ESRCH) /* removed meanwhile, or long ago */
				ret = error;
		}
		i++;
	}
	return ret;
}

/* Remove an empty currency. 1: it was removed. */
__noinline int retire(u64 number)
{
	u32 client = (u32)number, user = state_of(client)->user;
	u32 *structure_version = structure_of(client);

	if (!free_group(number))
		return 0;
	__sync_fetch_and_sub(&state_of(user)->made, 1);
	__sync_fetch_and_add(structure_version, 1);
	__sync_fetch_and_sub(&nr_currencies, 1);
	return 1;
}

/* Tickets of base that neither best effort's floor nor reservations hold. */
static __always_inline u32 unreserved(struct tb_queue *q)
{
	return TB_MACHINE_TICKETS - tickets_at(q, TB_BEST_EFFORT) - reserved;
}

/*
 * Reserve so many tickets of base for a process or a currency. Returns the reservation's number: its present one, changed, or a
 * new one that the caller then moves it into. -EBUSY: more than is left.
 */
__noinline s64 step_reserve(u64 number, u32 tickets)
{
	struct run_queue *rq = first_queue();
	u32 client = (u32)number, reservation, held;
	struct tb_queue *q;
	s64 ret = -ESRCH;

	if (!rq)
		return ret;
	q = &rq->economy;
	bpf_spin_lock(&rq->lock);
	if (!client_of(q, number))
		goto out;
	reservation = parent_of(q, client);
	held = tb_at(q, reservation)->kind == TB_KIND_RESERVATION ? tickets_at(q, reservation) : 0;
	ret = -EBUSY;
	if (tickets > unreserved(q) + held)
		goto out;
	if (held)
		set_tickets(q, reservation, tickets);
	else
		reservation = new_group(q, TB_KIND_RESERVATION, TB_BASE, tickets, TB_NONE, 0, 0);
	ret = -ENOSPC;
	if (!reservation)
		goto out;
	reserved += tickets - held;
	state_of(client)->frozen = 0;
	ret = (s64)number_of(reservation);
out:
	bpf_spin_unlock(&rq->lock);
	if (several() && ret > 0 && held)
		follow_all((u32)ret);
	else if (ret > 0)
		attach((u32)ret);
	return ret;
}

/* Set best effort's part of base. -EBUSY: too much for the reservations beside it. */
__noinline int step_set_floor(u32 tickets)
{
	struct run_queue *rq = first_queue();
	int ret = -EBUSY;

	if (!rq)
		return ret;
	bpf_spin_lock(&rq->lock);
	if (tickets + reserved <= TB_MACHINE_TICKETS) {
		set_tickets(&rq->economy, TB_BEST_EFFORT, tickets);
		ret = 0;
	}
	bpf_spin_unlock(&rq->lock);
	if (several())
		follow_all(TB_BEST_EFFORT);
	return ret;
}
