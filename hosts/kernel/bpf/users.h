/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users: the user that pays for a uid, and that user's currency.
 *
 *   uid of the initial namespace        itself
 *   uid of a user namespace             the user that made the namespace; if root made it, the uid that is root inside
 *   uid in a range of /etc/subuid       the owner of the range, in every namespace
 *
 * A user is added when its first thread is seen. It is removed some seconds after its last client, unless its base tickets were
 * set. It is closed before that: code that has looked it up earlier finds it closed, and fails or tries again.
 */
#pragma once
#include "moves.h"

/* The owner of a uid by /etc/subuid, or the uid itself. A range that belongs to root counts as its first uid. */
static __noinline u32 owner_of(u32 uid)
{
	u32 from = 0, to = nr_subordinates, at;
	struct subordinate *range;

	/* The range that contains uid, if any, is in [from, to). */
	tb_loop(32) {
		if (to - from < 2 || to > NR_SUBORDINATE)
			break;
		at = (from + to) / 2;
		range = bpf_map_lookup_elem(&subordinates, &at);
		if (range && range->first <= uid)
			from = at;
		else
			to = at;
	}
	range = bpf_map_lookup_elem(&subordinates, &from);
	if (!range || uid - range->first >= range->count)
		return uid;
	return range->owner ? range->owner : range->first;
}

/* The user namespace of `cred` just below the initial one, or NULL. */
static __always_inline struct user_namespace *outermost(const struct cred *cred)
{
	struct user_namespace *ns = cred->user_ns;

	tb_loop(32) {
		if (!ns || ns->level <= 1)
			break;
		ns = ns->parent;
	}
	return ns && ns->level == 1 ? ns : 0;
}

/* The uid that pays for what a task with these credentials does as `uid`. Root pays for itself in every namespace. */
static __noinline u32 payer_of(const struct cred *cred, u32 uid)
{
	struct user_namespace *ns = outermost(cred);

	if (uid && ns) {
		if (ns->owner.val)
			uid = ns->owner.val;
		else if (ns->uid_map.nr_extents && ns->uid_map.nr_extents <= 5 && ns->uid_map.extent[0].lower_first)
			uid = ns->uid_map.extent[0].lower_first;
	}
	return owner_of(uid);
}

__noinline u64 step_new_user(u32 uid)
{
	struct run_queue *rq = first_queue();
	u64 number = 0;
	u32 made;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	made = new_group(&rq->economy, TB_KIND_USER, TB_BEST_EFFORT, default_base, TB_NONE, uid, 0);
	if (made)
		number = number_of(made);
	bpf_spin_unlock(&rq->lock);
	attach(made);
	return number;
}

/* The number of a user, which is added when first seen. If two CPUs add it at once, one frees its own. 0: no slot is left. */
__noinline u64 user_of(u32 uid)
{
	u64 *known = bpf_map_lookup_elem(&users, &uid), made;

	if (known)
		return *known;
	made = step_new_user(uid);
	if (!made)
		return 0;
	if (!bpf_map_update_elem(&users, &uid, &made, BPF_NOEXIST)) {
		tell_of_base();
		return made;
	}
	free_group(made);
	known = bpf_map_lookup_elem(&users, &uid);
	return known ? *known : 0;
}

/* Close a user that has no clients and no settings, now and at the last look. 1: it is closed. */
__noinline int step_close_user(u32 client)
{
	struct run_queue *rq = first_queue();
	struct client_state *state = state_of(client);
	struct tb_client *c;
	u32 idle, closed = 0;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	c = tb_at(&rq->economy, client);
	idle = c->kind == TB_KIND_USER && !state->closed && !state->owned && !state->nr_urgent[URGENT_FROZEN] &&
	       !state->nr_urgent[URGENT_READER] && !state->members && state->id && c->parent == TB_BEST_EFFORT &&
	       tickets_at(&rq->economy, client) == default_base && state->limit == TOMBOLA_NO_LIMIT;
	closed = idle && state->empty;
	state->empty = (u8)idle;
	state->closed |= (u8)closed;
	purge_pending |= idle;
	bpf_spin_unlock(&rq->lock);
	return (int)closed;
}

/* Of the slots from i up, remove users that have no clients, and had none at the last look. (For i see look_for_height.) */
__noinline int purge_users(u32 i)
{
	struct run_queue *rq = first_queue();

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		if (i >= slots_end())
			break;
		if (is_whole(i) && tb_at(&rq->economy, i)->kind == TB_KIND_USER && !state_of(i)->owned && step_close_user(i)) {
			u32 uid = state_of(i)->id;

			bpf_map_delete_elem(&users, &uid);
			free_group(number_of(i));
		}
		i++;
	}
	return 0;
}
