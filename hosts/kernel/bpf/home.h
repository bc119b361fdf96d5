/* SPDX-License-Identifier: GPL-2.0-only */
/* Where a client is at home, and who pays for a frozen one. Read under the lock, or where an outdated answer does no harm. */
#pragma once
#include "state.h"

/* Is a client away from its home, in the frozen root or in a reservation? */
static __always_inline bool is_away(struct tb_queue *q, u32 client)
{
	u8 kind = tb_at(q, parent_of(q, client))->kind;

	return kind == TB_KIND_RESERVATION || kind == TB_KIND_FROZEN;
}

/* Of a process, currency or user, its home: the currency that it is in while it is not frozen and has no reservation. */
static __noinline u32 home_of(struct tb_queue *q, u32 client)
{
	u32 home = parent_of(q, client);
	u8 kind;

	if (tb_at(q, client)->kind == TB_KIND_USER)
		return TB_BEST_EFFORT;
	if (is_away(q, client))
		home = client_of(q, state_of(client)->home);
	kind = tb_at(q, home)->kind;
	return kind == TB_KIND_USER || kind == TB_KIND_CURRENCY ? home : state_of(client)->user;
}

/*
 * The home of the frozen client that a leaf is or is in; if a currency around that home is frozen, too, the home of that one.
 * TB_NONE: no client is frozen, or a user is and no currency pays.
 */
static __noinline u32 pays_for(struct tb_queue *q, u32 leaf)
{
	u32 payer = TB_NONE;

	tb_loop(2 * TB_DEPTH) {
		u32 parent = parent_of(q, leaf);

		if (!parent || tb_at(q, leaf)->kind == TB_KIND_USER)
			break;
		if (parent == TB_FROZEN)
			parent = payer = home_of(q, leaf);
		leaf = parent;
	}
	return parent_of(q, leaf) == TB_FROZEN ? TB_NONE : payer;
}

/* Is it frozen? Mostly none is. */
static __always_inline bool is_frozen(struct tb_queue *q, u32 client)
{
	return state_of(TB_FROZEN)->members && tb_frozen(q, client);
}

/* The user of best effort that a client is or is in; TB_NONE: it is in none. */
static __noinline u32 user_around(struct tb_queue *q, u32 client)
{
	tb_loop(TB_DEPTH) {
		if (!client || parent_of(q, client) == TB_BEST_EFFORT)
			break;
		client = parent_of(q, client);
	}
	return client;
}
