/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arithmetic of tickets: pure functions of scalars.
 *
 * pass = service / tickets, in ns * 2^16 for one ticket. Running 1 ms advances a client of 300 tickets by 1000000 * 65536 / 300 =
 * 218453333, and one of 100 tickets by 655360000. Passes wrap, so they are compared by difference. Lag is bounded (tb_bounded;
 * economy.h, tb_settle), so two passes that count in one currency's mean are never further apart than 2^50.
 */
#pragma once
#include "limits.h"
#include "types.h"

/* 1 if x is negative, else 0. The compiler would make a branch of it, and the verifier walk both ways to the end. */
TB_INLINE u32 tb_is_negative(u64 x)
{
	tb_forget(x);
	return (u32)(x >> 63);
}

/* 1 if x is not 0, else 0; also without a branch. */
TB_INLINE u32 tb_is_some(u64 x)
{
	return tb_is_negative(x | (0 - x));
}

/* The index of the lowest set bit of a mask that has one. BPF has no instruction for it. */
TB_INLINE u32 tb_lowest(u64 mask)
{
	mask &= 0 - mask;
	return tb_is_some(mask & 0xffffffff00000000ull) << 5 | tb_is_some(mask & 0xffff0000ffff0000ull) << 4 |
	       tb_is_some(mask & 0xff00ff00ff00ff00ull) << 3 | tb_is_some(mask & 0xf0f0f0f0f0f0f0f0ull) << 2 |
	       tb_is_some(mask & 0xccccccccccccccccull) << 1 | tb_is_some(mask & 0xaaaaaaaaaaaaaaaaull);
}

TB_INLINE u64 tb_before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

/* The earlier and the later of two passes, or the smaller and the larger of two numbers below 2^63; without a branch. */
TB_INLINE u64 tb_min(u64 a, u64 b)
{
	return b + ((a - b) & (0 - (u64)tb_is_negative(a - b)));
}

TB_INLINE u64 tb_max(u64 a, u64 b)
{
	return a + ((b - a) & (0 - (u64)tb_is_negative(a - b)));
}

/*
 * How far `used` ns of service advance a client's pass. draw is TB_DRAW_ONE for stride, Exp(1) for lottery. used <= 2^38 and draw
 * < 2^24.5, so the product stays below 2^63; shifted by 20 - 16 it stays below 2^59. The result is rounded down: at 10000 tickets
 * and 100 us the error is below 2e-6 of the step.
 */
TB_INLINE u64 tb_advance(u64 used_ns, u64 draw, u64 tickets)
{
	if (used_ns > TB_CHARGE_MAX_NS)
		used_ns = TB_CHARGE_MAX_NS;
	if (!tickets)
		tickets = 1;
	return ((used_ns * draw) >> (TB_DRAW_SHIFT - TB_PASS_SHIFT)) / tickets;
}

/* The service, in ns, that a (positive) distance of passes stands for. pass x tickets is below 2^46 ns x 2^16: fits. */
TB_INLINE u64 tb_service_ns(u64 pass, u64 tickets)
{
	return (pass * tickets) >> TB_PASS_SHIFT;
}

/* `pass`, clamped to at most `behind` before vnow and at most `ahead` after it. */
TB_INLINE u64 tb_bounded(u64 pass, u64 vnow, u64 behind, u64 ahead)
{
	return tb_min(tb_max(pass, vnow - behind), vnow + ahead);
}

/*
 * The part of an exited client's service that is charged to its heir (economy.h, tb_charge_heir). Up to TB_YOUNG_NS it is all of
 * the service. Beyond that the client has mostly been charged itself: the part shrinks, and is nothing from twice TB_YOUNG_NS
 * on. So forking gains nothing, and a shell does not owe for an hour's compile.
 */
TB_INLINE u64 tb_returned_ns(u64 service_ns)
{
	if (service_ns <= TB_YOUNG_NS)
		return service_ns;
	if (service_ns >= 2 * TB_YOUNG_NS)
		return 0;
	return 2 * TB_YOUNG_NS - service_ns;
}

/* A (positive) distance to vnow at `from` tickets, converted to `to` tickets. It is bounded to 2^29 ns x 2^16 / from: fits. */
TB_INLINE u64 tb_exchanged(u64 distance, u64 from, u64 to)
{
	return distance * from / (to ? to : 1);
}
