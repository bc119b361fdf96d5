/* SPDX-License-Identifier: GPL-2.0-only */
/* The call that reads all clients, for `tombola tree` and `tombola status`. */
#pragma once
#include "permissions.h"

/* How many clients one call looks at: no other thread has the CPU meanwhile, and the caller may not be allowed to see many. */
#define TREE_LOOKS 1024

/* The first client in use from i on, and before `end`, that the caller may see; or TB_NONE, which counts as free. */
static __noinline u32 used_from(struct tb_queue *q, u32 i, u32 end)
{
	tb_loop(TREE_LOOKS) {
		if (i >= end || (tb_at(q, i)->kind != TB_KIND_FREE && is_visible(q, i)))
			break;
		i++;
	}
	return i < end ? i : TB_NONE;
}

static __always_inline void describe(struct tombola_node *node, struct tb_queue *q, u32 i)
{
	struct tb_client *c = tb_at(q, i);
	struct client_state *state = state_of(i);

	node->index = i;
	node->parent = c->parent;
	node->kind = c->kind;
	node->id = state->id;
	node->tickets = c->tickets;
	node->active = c->state & TB_ACTIVE;
	node->clients = c->active;
	node->tgid = state->tgid;
	node->uid = c->kind == TB_KIND_USER ? state->id : state_of(state->user)->id;
	node->limit = state->limit;
	node->used_ns = c->used_ns;
	node->wins = state->wins;
	node->weight = tb_active_tickets(c);
	node->number = number_of(i);
	/* Word by word: kernels before 7 take constant offsets only. */
	for (u32 k = 0; k < TOMBOLA_NAME / sizeof(u64); k++)
		((u64 *)node->name)[k] = ((u64 *)state->name)[k] & (0 - (u64)(c->kind == TB_KIND_CURRENCY));
}

/* Another client, which the caller may not see, may have taken the slot while it was read. Then none of it is shown. */
static __always_inline void hide_other(struct tombola_node *node, struct tb_queue *q, u32 i)
{
	u64 shown = 0 - (u64)(number_of(i) == node->number && is_visible(q, i));

	for (u32 k = 0; k < sizeof(*node) / sizeof(u64); k++)
		((u64 *)node)[k] &= shown;
}

/*
 * Nodes from tree->from on, as many as fit, or fewer. Without the lock: each field is whole, but fields may be of different
 * moments. The loop is unrolled because kernels before 7 let a program write to its context at constant offsets only.
 */
SEC("syscall")
int tombola_tree(struct tombola_tree *tree)
{
	struct run_queue *rq = the_queue();
	u32 i, end, n = 0;

	if (!rq || !running)
		return -ENODEV;
	end = (tree->from | (TREE_LOOKS - 1)) + 1;
	if (end > rq->economy.pool.fresh)
		end = rq->economy.pool.fresh;
	i = used_from(&rq->economy, tree->from, end);
#pragma clang loop unroll(full)
	for (u32 k = 0; k < TOMBOLA_TREE_NODES; k++) {
		if (i) {
			describe(&tree->node[k], &rq->economy, i);
			hide_other(&tree->node[k], &rq->economy, i);
			n = k + 1;
			i = used_from(&rq->economy, i + 1, end);
		}
	}
	tree->count = n;
	if (!i && end < rq->economy.pool.fresh)
		i = end;
	tree->from = i;
	return 0;
}
