/* SPDX-License-Identifier: GPL-2.0-only */
/* The call that reads all clients, for `tombola tree` and `tombola status`. */
#pragma once
#include "lending.h"
#include "permissions.h"

/* How many clients one call looks at: no other thread has the CPU meanwhile, and the caller may not be allowed to see many. */
#define TREE_LOOKS 1024

/* The first client in use from i on, and before `end`, that the caller may see; or TB_NONE, which counts as free. */
__noinline u32 used_from(u32 i, u32 end)
{
	struct run_queue *rq = first_queue();

	if (!rq)
		return TB_NONE;
	tb_loop(TREE_LOOKS) {
		if (i >= end || (is_whole(i) && tb_at(&rq->economy, i)->kind != TB_KIND_FREE && is_visible(&rq->economy, i)))
			break;
		i++;
	}
	return i < end ? i : TB_NONE;
}

enum of_parts { PARTS_STATE, PARTS_ACTIVE, PARTS_USED, PARTS_TICKETS };

static __always_inline u64 look_at(const struct tb_client *c, u32 what)
{
	switch (what) {
	case PARTS_STATE:
		return c->state;
	case PARTS_ACTIVE:
		return c->active;
	case PARTS_USED:
		return c->used_ns;
	default:
		return tb_active_tickets(c);
	}
}

/* One number of a client, or the sum over a group's parts; of states, all bits that any part has. */
__noinline u64 look_at_parts(u32 i, u32 what)
{
	u64 sum = 0, one;

	if (is_leaf(i))
		return look_at(&tb_global_pool.client[slot(i)], what);
	for_each_queue(queue) {
		one = look_at(&tb_global_pool.client[slot(part_on(i, queue))], what);
		sum = what == PARTS_STATE ? sum | one : sum + one;
	}
	return sum;
}

/*
 * Fill in a node. Like used_from a global function: in the unrolled loop below the verifier would walk a static one once for each
 * node. Another client, which the caller may not see, may take the slot while it is read. Then none of it is shown.
 */
__noinline int describe(struct tombola_node *node __arg_nonnull, u32 i)
{
	struct run_queue *rq = first_queue();
	struct client_state *state = state_of(i);
	struct tb_queue *q;
	struct tb_client *c;
	u64 shown;

	if (!rq)
		return 0;
	q = &rq->economy;
	c = tb_at(q, i);
	node->index = i;
	node->parent = parent_of(q, i);
	node->kind = is_account(i) && c->kind == TB_KIND_THREAD ? TOMBOLA_KIND_LOAN : c->kind;
	node->id = state->id;
	node->tickets = tickets_at(q, i);
	node->active = look_at_parts(i, PARTS_STATE) & TB_ACTIVE;
	node->clients = (u32)look_at_parts(i, PARTS_ACTIVE);
	node->tgid = state->tgid;
	node->uid = c->kind == TB_KIND_USER ? state->id : state_of(state->user)->id;
	node->limit = state->limit;
	node->lends_to = c->kind == TB_KIND_THREAD && c->lends_to ? state_of(c->lends_to)->id : 0;
	node->lent = state->lent;
	node->serves = state->serves;
	node->unused = 0;
	node->lent_ns = state->lent_ns;
	node->used_ns = look_at_parts(i, PARTS_USED);
	node->wins = state->wins;
	node->weight = look_at_parts(i, PARTS_TICKETS) >> ticket_shift();
	node->number = number_of(i);
	for (u32 k = 0; k < TOMBOLA_NAME / sizeof(u64); k++)
		((u64 *)node->name)[k] = ((u64 *)state->name)[k] & (0 - (u64)(c->kind == TB_KIND_CURRENCY));
	shown = 0 - (u64)(number_of(i) == node->number && is_visible(q, i));
	for (u32 k = 0; k < sizeof(*node) / sizeof(u64); k++)
		((u64 *)node)[k] &= shown;
	return 0;
}

/*
 * Nodes from tree->from on, as many as fit, or fewer. Without the lock: each field is whole, but fields may be of different
 * moments. The loop is unrolled because kernels before 7 let a program write to its context at constant offsets only.
 */
SEC("syscall")
int tombola_tree(struct tombola_tree *tree)
{
	struct run_queue *rq = first_queue();
	struct tombola_node node = {};
	u32 i, end, n = 0;

	if (!rq || !running)
		return -ENODEV;
	end = (tree->from | (TREE_LOOKS - 1)) + 1;
	if (end > slots_end())
		end = slots_end();
	i = used_from(tree->from, end);
#pragma clang loop unroll(full)
	for (u32 k = 0; k < TOMBOLA_TREE_NODES; k++) {
		if (i) {
			describe(&node, i);
			tree->node[k] = node;
			n = k + 1;
			i = used_from(i + 1, end);
		}
	}
	tree->count = n;
	if (!i && end < slots_end())
		i = end;
	tree->from = i;
	return 0;
}
