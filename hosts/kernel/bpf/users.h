/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Users: who pays for a uid, and the currency that is the user's.
 *
 *   uid of the machine's own            itself
 *   uid of a user namespace             who made the namespace; of one that root made, who is its root
 *   a range of /etc/subuid              its owner, wherever it is used
 *
 * A user comes when a thread of its is seen first, and goes some seconds after all that belonged to it has gone, if nobody has
 * set its base tickets. To go it is closed first: who has looked it up before finds that when it uses it, and asks again.
 */
#pragma once
#include "moves.h"

/* Whose a uid is according to /etc/subuid. Ranges that belong to root have no other owner: each counts as its first uid. */
static __noinline u32 owner_of(u32 uid)
{
	u32 from = 0, to = nr_subordinates, at;
	struct subordinate *range;

	/* The owner of uid, if any, has its range in [from, to). */
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

/* The user namespace below the initial one that `cred` is in, or NULL. */
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

/* Who pays for a task of such credentials. Root does so for itself wherever it goes. */
static __noinline u32 payer_of(const struct cred *cred)
{
	u32 uid = cred->uid.val;
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
	struct run_queue *rq = queue_of(0);
	u64 number = 0;
	u32 made;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	made = new_client(&rq->economy, TB_KIND_USER, TB_BEST_EFFORT, default_base, TB_NONE, uid, 0);
	if (made)
		number = number_of(made);
	bpf_spin_unlock(&rq->lock);
	return number;
}

/* The number of a user, made when its uid is first seen. Of two CPUs that see it at once one gives its own back. 0: no place. */
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
	step_free(made);
	known = bpf_map_lookup_elem(&users, &uid);
	return known ? *known : 0;
}

/* 1: nobody is left of a user, nothing was set for it, and it is closed now, if nobody was left the last time either. */
__noinline int step_close_user(u32 client)
{
	struct run_queue *rq = queue_of(0);
	struct client_state *state = state_of(client);
	struct tb_client *c;
	u32 idle, closed = 0;

	if (!rq)
		return 0;
	bpf_spin_lock(&rq->lock);
	c = tb_at(&rq->economy, client);
	idle = c->kind == TB_KIND_USER && !state->owned && !state->urgent && !c->clients && state->id &&
	       c->parent == TB_BEST_EFFORT && c->tickets == default_base && state->limit == TOMBOLA_NO_LIMIT;
	closed = idle && state->empty;
	state->empty = (u8)idle;
	state->closed |= (u8)closed;
	users_left |= idle;
	bpf_spin_unlock(&rq->lock);
	return (int)closed;
}

/* Users, from client i on, of whom nothing is left since the last look go. (The verifier follows loops from known numbers.) */
__noinline int purge_users(u32 i)
{
	struct run_queue *rq = queue_of(0);

	if (!rq)
		return 0;
	tb_loop(TB_CLIENTS) {
		if (i >= rq->economy.fresh)
			break;
		if (tb_at(&rq->economy, i)->kind == TB_KIND_USER && !state_of(i)->owned && step_close_user(i)) {
			u32 uid = state_of(i)->id;

			bpf_map_delete_elem(&users, &uid);
			step_free(number_of(i));
		}
		i++;
	}
	return 0;
}
