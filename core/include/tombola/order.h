/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The order of a currency's waiting clients: an AVL tree by key, whose nodes are the clients themselves.
 *
 * The key is a client's virtual deadline: its pass plus the cost of one request (economy.h, tb_key). Every node also stores two
 * facts of its subtree: the smallest pass (is any client in it eligible?) and the union of the CPU masks (may any client in it
 * run here?). So one way down finds the client with the earliest deadline among the eligible ones that may run on a CPU, as in
 * EEVDF. A second way down follows if there seems to be none, as with clients that are bound to CPUs (tb_order_first). Insertion,
 * removal and search are O(log n), as TB_HEIGHT bounds the height. (It bounds the loops of native code; for BPF see types.h.)
 *
 * It is an AVL tree because its height is bounded without randomness or amortization: a scheduler wants no slow pick.
 *
 * Client 0 stands for "none". Its `up` may be written, which saves a test, and is never read. Its other fields never change.
 */
#pragma once
#include "arith.h"
#include "limits.h"
#include "types.h"

/* The kind of a client. User space sees the value. */
enum tb_kind {
	TB_KIND_FREE = 0,
	TB_KIND_BASE = 1,
	TB_KIND_BEST_EFFORT = 2,
	TB_KIND_USER = 3,
	TB_KIND_PROCESS = 4, /* the currency of a process with several threads */
	TB_KIND_THREAD = 5,  /* a leaf; for a process with one thread also the process */
	TB_KIND_CURRENCY = 6, /* made by a user inside the user's own currency */
	TB_KIND_RESERVATION = 7, /* a client of base that is guaranteed a part of the machine */
	TB_KIND_FROZEN = 8, /* the frozen root */
};

enum tb_state {
	TB_ACTIVE = 1, /* runnable, or a currency with a runnable client: counts in the parent's mean, unless behind */
	TB_QUEUED = 2, /* waiting, or a currency with a waiting client: in the parent's order */
	TB_BEHIND = 4, /* active, but gets less than its tickets give (tb_falls_behind): does not count in the parent's mean */
};

struct tb_client {
	/* As a client of its parent. A pass that counts in the parent's mean changes with the mean (economy.h, tb_set_pass). */
	u64 pass;
	u64 key;
	u64 mask; /* CPUs that it, or any client waiting below it, may run on; bit = cpu mod 64 */
	u32 parent;
	u32 tickets;

	/* Its node in the parent's order; valid while TB_QUEUED. */
	u64 low_pass;
	u64 low_mask;
	u32 child[2];
	u32 up;
	u8 height;
	u8 state;
	u8 kind;
	u8 epoch; /* while TB_BEHIND: when its lag was last halved */

	/*
	 * As a currency: vnow = mean pass of the clients that count, weighted by tickets; sum = the remainder of its division;
	 * served = service per ticket of the clients that count. As a leaf: since when it waits, and its neighbours in the
	 * list of all waiting leaves (oldest first); and its loans (loans.h): to which leaf it lends, the first of its lenders,
	 * the next lender to the same leaf, and how many accounts its lenders have together.
	 */
	union {
		u64 vnow;
		struct {
			u32 lends_to;
			u32 lender;
		};
	};
	union {
		u64 sum;
		u64 since;
	};
	union {
		u64 served;
		u32 newer;
	};
	u32 older;
	union {
		u32 weight;
		u32 next_lender;
	};
	union {
		u32 behind; /* tickets of active clients that do not count */
		u32 lent;
	};
	u32 root;
	u32 active;

	/*
	 * While it runs, the smallest distance of its pass to its currency's `served`; while it waits, by how much that distance
	 * had grown (tb_level_switch); while it is inactive, its lag when it left, ns.
	 */
	u64 level;
	u64 precharged_ns; /* charged in advance to it, for its own run or for those of leaves below it */
	u64 used_ns;  /* service received so far */
	u64 young_ns; /* the part of it since its creation or last move, and what it has inherited since (tb_charge_heir) */
};

_Static_assert(sizeof(struct tb_client) == 144, "as small as may be: there are many");

/* One settlement of a leaf's run. */
struct tb_bill {
	u64 used_ns;      /* run time since the last settlement */
	u64 precharge_ns; /* what was charged in advance for this run; to be undone */
	u64 next_ns;      /* to be charged in advance for the next run */
	u64 seed;         /* lottery: at least 32 random bits */
};

/* The clients of all run queues. Each client in use belongs to one of them. */
struct tb_pool {
	u32 free;  /* first unused client */
	u32 used;  /* clients in use, "none" not counted */
	u32 fresh; /* clients from here on were never used */
	struct tb_client client[TB_CLIENTS];
};

struct tb_queue {
	u32 base; /* its roots: base, then best effort and the frozen root */
	u32 oldest;
	u32 newest;
	u32 waiting;
	u32 behind; /* clients that are TB_BEHIND */
	u32 bound_leaves; /* active leaves that may not run on all CPUs */
	/*
	 * Of the current pick: the currencies passed over, and the CPUs taken from their masks; whether the first of them is
	 * picked from after all; the result.
	 */
	u64 passed_mask[TB_PASSED_MAX];
	u32 passed_over[TB_PASSED_MAX];
	u32 passed;
	u32 after_all;
	u32 picked;
	u8 epoch;   /* real time in units of 2^TB_EPOCH_SHIFT ns */
	u16 bound[64]; /* how many of the bound leaves may run on each CPU */
	u64 contested; /* CPUs on which two or more of the bound leaves may run */
	u64 movable; /* CPUs on which a leaf runs that may run on all (tb_runs) */
	u64 clamped; /* charges cut by TB_AHEAD_MAX_NS */
	u32 charge_also; /* a charge goes on here after its root: the new parent of a moving client, or a frozen leaf's home */
	struct tb_bill bill; /* the current charge; in memory, as the verifier would tell apart each value of a local variable */
#ifndef TB_GLOBAL_POOL
	struct tb_pool *pool;
#endif
};

#ifdef TB_GLOBAL_POOL
struct tb_pool tb_global_pool;
#endif

TB_INLINE struct tb_pool *tb_pool(struct tb_queue *q)
{
#ifdef TB_GLOBAL_POOL
	(void)q;
	return &tb_global_pool;
#else
	return q->pool;
#endif
}

TB_INLINE struct tb_client *tb_at(struct tb_queue *q, u32 i)
{
	return &tb_pool(q)->client[i & (TB_CLIENTS - 1)];
}

TB_INLINE u32 tb_index(struct tb_queue *q, const struct tb_client *c)
{
	return (u32)(c - tb_pool(q)->client);
}

/*
 * A child by its side. The compiler must not know side's range. If it knew that side is 0 or 1 it could drop the mask, and
 * the BPF verifier would not see why that is safe.
 */
TB_INLINE u32 *tb_child(struct tb_client *c, u32 side)
{
	tb_forget(side);
	return &c->child[side & 1];
}

/* 1 if the right one is higher, else 0. */
TB_INLINE u32 tb_higher_side(const struct tb_client *l, const struct tb_client *r)
{
	return tb_is_negative((u64)l->height - r->height);
}

/* Recompute what c stores of its subtree from its two children l and r. Returns whether anything changed. */
TB_INLINE u32 tb_order_sum_up(struct tb_client *c, const struct tb_client *l, const struct tb_client *r)
{
	u8 height = (u8)(tb_max(l->height, r->height) + 1);
	u64 pass = c->pass, mask = c->mask | l->low_mask | r->low_mask;
	u64 changed;

	if (c->child[0])
		pass = tb_min(pass, l->low_pass);
	if (c->child[1])
		pass = tb_min(pass, r->low_pass);
	changed = (u64)(height ^ c->height) | (pass ^ c->low_pass) | (mask ^ c->low_mask);
	c->height = height;
	c->low_pass = pass;
	c->low_mask = mask;
	return tb_is_some(changed);
}

TB_INLINE u32 tb_order_refresh(struct tb_queue *q, struct tb_client *c)
{
	return tb_order_sum_up(c, tb_at(q, c->child[0]), tb_at(q, c->child[1]));
}

/* Put `to` into the position of `from`, below `up`. */
TB_INLINE void tb_order_replace(struct tb_queue *q, struct tb_client *owner, u32 up, u32 from, u32 to)
{
	if (!up)
		owner->root = to;
	else
		*tb_child(tb_at(q, up), tb_at(q, up)->child[1] == from) = to;
	tb_at(q, to)->up = up;
}

/* Rotate c's child on the other side than `side` above c, and return it. Both are refreshed. */
TB_FN struct tb_client *tb_order_rotate(struct tb_queue *q, struct tb_client *owner, struct tb_client *c, u32 side)
{
	u32 n = tb_index(q, c), k = *tb_child(c, side ^ 1), inner;
	struct tb_client *lifted = tb_at(q, k);

	inner = *tb_child(lifted, side);
	*tb_child(c, side ^ 1) = inner;
	tb_at(q, inner)->up = n;
	*tb_child(lifted, side) = n;
	tb_order_replace(q, owner, c->up, n, k);
	c->up = k;
	tb_order_refresh(q, c);
	tb_order_refresh(q, lifted);
	return lifted;
}

/* From c up to the root: refresh, and rebalance. Stops where nothing changes any more. */
TB_FN u32 tb_order_mend(struct tb_queue *q, struct tb_client *owner, struct tb_client *c)
{
	tb_loop(2 * TB_HEIGHT + 2) {
		struct tb_client *l = tb_at(q, c->child[0]), *r = tb_at(q, c->child[1]), *k;
		u32 side, inner;

		if (l->height > r->height + 1 || r->height > l->height + 1) {
			/* The higher side is rotated above c; if its inner child is the higher one, first that one above it. */
			side = tb_higher_side(l, r);
			k = tb_at(q, *tb_child(c, side));
			inner = tb_higher_side(tb_at(q, *tb_child(k, side)), tb_at(q, *tb_child(k, side ^ 1)));
			c = tb_order_rotate(q, owner, inner ? k : c, side ^ inner ^ 1);
		} else if (!tb_order_sum_up(c, l, r)) {
			break;
		}
		if (!c->up)
			break;
		c = tb_at(q, c->up);
	}
	return 0;
}

/* Insert c, whose key, pass and mask are set, into owner's order. Equal keys: first come, first served. */
TB_FN u32 tb_order_insert(struct tb_queue *q, struct tb_client *owner, struct tb_client *c)
{
	u32 up = 0, n = owner->root, side = 0;

	tb_loop(TB_HEIGHT + 1) {
		if (!n)
			break;
		up = n;
		side = 1 ^ tb_is_negative(c->key - tb_at(q, n)->key);
		n = *tb_child(tb_at(q, n), side);
	}
	c->child[0] = 0;
	c->child[1] = 0;
	c->height = 1;
	c->low_pass = c->pass;
	c->low_mask = c->mask;
	c->up = up;
	if (!up) {
		owner->root = tb_index(q, c);
		return 0;
	}
	*tb_child(tb_at(q, up), side) = tb_index(q, c);
	return tb_order_mend(q, owner, tb_at(q, up));
}

TB_FN u32 tb_order_remove(struct tb_queue *q, struct tb_client *owner, struct tb_client *c)
{
	u32 l = c->child[0], r = c->child[1], successor = r ? r : l, from = c->up;
	struct tb_client *h;

	if (l && r) {
		/* Two children: c's successor, the leftmost node of the right side, takes its position. */
		tb_loop(TB_HEIGHT) {
			if (!tb_at(q, successor)->child[0])
				break;
			successor = tb_at(q, successor)->child[0];
		}
		h = tb_at(q, successor);
		from = successor;
		if (successor != r) {
			from = h->up;
			tb_order_replace(q, owner, from, successor, h->child[1]);
			h->child[1] = r;
			tb_at(q, r)->up = successor;
		}
		h->child[0] = l;
		tb_at(q, l)->up = successor;
		/* It takes over what c stored of the subtree, so that tb_order_mend sees whether that changed. */
		h->height = c->height;
		h->low_pass = c->low_pass;
		h->low_mask = c->low_mask;
	}
	tb_order_replace(q, owner, c->up, tb_index(q, c), successor);
	if (!from)
		return 0;
	tb_order_mend(q, owner, tb_at(q, from));
	/* Mending may have stopped below the successor. (Asked of memory, or the verifier would mend twice.) */
	if (c->child[0] && c->child[1])
		tb_order_mend(q, owner, tb_at(q, successor));
	return 0;
}

/* Change the CPUs of a waiting client. Its position stays. */
TB_FN u32 tb_order_mask(struct tb_queue *q, struct tb_client *c, u64 mask)
{
	c->mask = mask;
	tb_loop(TB_HEIGHT + 1) {
		if (!tb_order_refresh(q, c) || !c->up)
			break;
		c = tb_at(q, c->up);
	}
	return 0;
}

/*
 * The client with the earliest key among those whose CPUs overlap `mask` and whose pass is not after `limit`, if the first way
 * down finds one. Otherwise a second way down gives up eligibility, and finds the earliest key among those whose CPUs overlap
 * `mask`.
 *
 * The first way never turns back. While every mask is full it finds an eligible client if there is one. With clients bound to
 * CPUs, a subtree may hold an eligible client and an allowed one that are not the same, and the way may end there with neither.
 */
TB_FN u32 tb_order_first(struct tb_queue *q, const struct tb_client *owner, u64 limit, u64 mask)
{
	u32 n = owner->root, found = 0;

	tb_loop(TB_HEIGHT + 1) {
		struct tb_client *c = tb_at(q, n), *l;

		if (!n)
			break;
		l = tb_at(q, c->child[0]);
		if (c->child[0] && (l->low_mask & mask) && !tb_before(limit, l->low_pass)) {
			n = c->child[0];
			continue;
		}
		if ((c->mask & mask) && !tb_before(limit, c->pass)) {
			found = n;
			break;
		}
		n = c->child[1];
	}
	if (found)
		return found;
	n = owner->root;
	tb_loop(TB_HEIGHT + 1) {
		struct tb_client *c = tb_at(q, n);

		if (!n)
			break;
		if (tb_at(q, c->child[0])->low_mask & mask) {
			n = c->child[0];
			continue;
		}
		if (c->mask & mask) {
			found = n;
			break;
		}
		n = c->child[1];
	}
	return found;
}
