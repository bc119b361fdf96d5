/* SPDX-License-Identifier: GPL-2.0-only */
/* Every limit of the model, in one place. The Rust crate repeats some of them (core/src/limits.rs), and a test compares these. */
#pragma once

/* Tickets of a process in its user's currency, and base tickets of a user (Zepp 2012, sections 3.1.1 and 3.1.3). */
#define TB_TICKETS_MIN 1
#define TB_TICKETS_MAX 10000
#define TB_TICKETS_DEFAULT 100
#define TB_BASE_TICKETS_MIN 100
#define TB_BASE_TICKETS_MAX 10000
#define TB_BASE_TICKETS_DEFAULT 1000

/* The whole machine in tickets of base's clients: reservations are guaranteed shares of it. */
#define TB_MACHINE_TICKETS 10000

/*
 * Clients on all run queues together: threads, and the currencies that hold them. A power of two; index 0 means "none". A host
 * with more memory defines a larger number, and the height that belongs to it.
 */
#ifndef TB_CLIENTS
#define TB_CLIENTS 32768
/* An AVL tree of TB_CLIENTS nodes is at most 1.4405 log2(32768 + 2) = 21.6 high. */
#define TB_HEIGHT 22
#endif
/* The square root of the largest number of run queues. */
#define TB_QUEUES_ROOT 64
/* Levels of nested currencies, a user's own not counted. */
#define TB_NESTED_MAX 8
/* base, best-effort, user, nested currencies, process, thread. */
#define TB_DEPTH (5 + TB_NESTED_MAX)

/* A pass is in units of 2^-16 ns of service for one ticket. */
#define TB_PASS_SHIFT 16
/* A draw is in units of 2^-20. Stride's draw is TB_DRAW_ONE; the largest draw of Exp(1) is 22.18. */
#define TB_DRAW_SHIFT 20
#define TB_DRAW_ONE (1u << TB_DRAW_SHIFT)
/* One charge is at most 2^38 ns (4.6 minutes). Times the largest draw, 2^24.5, that is still below 2^63. */
#define TB_CHARGE_MAX_NS (1ull << 38)

/* No settled pass is further ahead of vnow, in the client's service. Few steady loads come near; each use is counted. */
#define TB_AHEAD_MAX_NS ((1ull << 29) - 1)

/* Clients that are behind and share bound CPUs halve their lags every 2^25 ns, 34 ms (economy.h, tb_held_pass). */
#define TB_EPOCH_SHIFT 25

/* The most currencies that one pick passes over (economy.h, tb_pick). A power of two. */
#define TB_PASSED_MAX 8

/* The whole machine, in base values of clients (economy.h, tb_base_value). */
#define TB_VALUE_ONE (1ull << 30)

/* The most accounts of a thread beside its own: those of its lenders, and of theirs (loans.h). */
#define TB_LENT_MAX 8

/* Up to this much of an exiting client's service, ns, is charged in full to its heir (arith.h, tb_returned_ns). */
#define TB_YOUNG_NS 50000000ull

_Static_assert((TB_CLIENTS & (TB_CLIENTS - 1)) == 0, "client indices are masked");
/*
 * The most tickets of a client; more than it may be given. With several queues, times 2^TB_SHARE_SHIFT: at most 1024 such clients
 * then fit into the weight (u32) of a currency on one queue.
 */
#define TB_TICKETS_LIMIT ((1 << 14) - 1)
_Static_assert(TB_TICKETS_MAX <= TB_TICKETS_LIMIT && TB_BASE_TICKETS_MAX <= TB_TICKETS_LIMIT &&
	       TB_MACHINE_TICKETS <= TB_TICKETS_LIMIT, "tickets have 14 bits");
