/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The shared C under names that Rust can link to: one function a name, nothing decided here. Preconditions are Rust's to
 * check (lib.rs); memory is safe without them, because every index is masked and every loop ends.
 */
#include <stddef.h>
#include <tombola/loans.h>
#include <tombola/queues.h>

#define EXPORT(name) tombola_##name

u64 EXPORT(advance)(u64 used_ns, u64 draw, u64 tickets)
{
	return tb_advance(used_ns, draw, tickets);
}

u64 EXPORT(returned_ns)(u64 service_ns)
{
	return tb_returned_ns(service_ns);
}

u64 EXPORT(draw_exp)(u32 r)
{
	return tb_draw_exp(r);
}

u32 EXPORT(mix)(u64 seed, u32 counter)
{
	return tb_mix(seed, counter);
}

u32 EXPORT(log2_table)(u32 i)
{
	return i <= 256 ? tb_log2_table[i] : 0;
}

u32 EXPORT(queue_init)(struct tb_queue *q, u32 floor)
{
	return tb_queue_init(q, floor);
}

u32 EXPORT(new)(struct tb_queue *q, u32 kind, u32 parent, u32 tickets)
{
	return tb_new(q, kind, parent, tickets);
}

u32 EXPORT(free)(struct tb_queue *q, u32 i)
{
	return tb_free(q, i);
}

u32 EXPORT(join)(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 mask)
{
	return tb_join(q, r, i, mask, TB_NONE);
}

u32 EXPORT(leave)(struct tb_queue *q, const struct tb_rules *r, u32 i)
{
	return tb_leave(q, r, i);
}

u32 EXPORT(wait)(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 mask, u64 now)
{
	return tb_wait(q, r, i, mask, now);
}

u32 EXPORT(withdraw)(struct tb_queue *q, u32 i)
{
	return tb_withdraw(q, i);
}

u32 EXPORT(charge)(struct tb_queue *q, const struct tb_rules *r, u32 i, const struct tb_bill *bill)
{
	q->bill = *bill;
	return tb_charge(q, r, i);
}

u32 EXPORT(pick)(struct tb_queue *q, const struct tb_rules *r, u64 mask)
{
	return tb_pick(q, r, mask);
}

u32 EXPORT(runs)(struct tb_queue *q, u32 leaf, u64 mask)
{
	return tb_runs(q, leaf, mask);
}

u32 EXPORT(overdue)(struct tb_queue *q, u64 now, u64 patience_ns, u64 mask)
{
	return tb_overdue(q, now, patience_ns, mask);
}

u64 EXPORT(meet)(struct tb_queue *q, u32 a, u32 b)
{
	return tb_meet(q, a, b);
}

u32 EXPORT(keeps)(struct tb_queue *q, const struct tb_rules *r, u32 held, u32 best)
{
	return tb_keeps(q, r, held, best);
}

u64 EXPORT(crossing_ns)(struct tb_queue *q, const struct tb_rules *r, u32 waker, u32 runner, const struct tb_run *run)
{
	return tb_crossing_ns(q, r, tb_meet(q, waker, runner), runner, run);
}

u32 EXPORT(pick_account)(struct tb_queue *q, const struct tb_rules *r, u64 mask)
{
	return tb_pick_account(q, r, mask);
}

u32 EXPORT(borrower)(struct tb_queue *q, u32 i)
{
	return tb_borrower(q, i);
}

u32 EXPORT(next_account)(struct tb_queue *q, u32 thread, u32 i)
{
	return tb_next_account(q, thread, i);
}

u32 EXPORT(best_account)(struct tb_queue *q, const struct tb_rules *r, u32 thread)
{
	return tb_best_account(q, r, thread);
}

u64 EXPORT(base_value)(struct tb_queue *q, u32 i)
{
	return tb_base_value(q, i);
}

u32 EXPORT(join_accounts)(struct tb_queue *q, const struct tb_rules *r, u32 thread, u64 mask, u32 waker)
{
	tb_join(q, r, thread, mask, waker ? tb_at(q, (u32)tb_meet(q, thread, waker))->parent : TB_NONE);
	return tb_follow_all(q, r, thread, 0);
}

u32 EXPORT(wait_accounts)(struct tb_queue *q, const struct tb_rules *r, u32 thread, u64 mask, u64 now)
{
	tb_wait(q, r, thread, mask, now);
	return tb_follow_all(q, r, thread, now);
}

u32 EXPORT(withdraw_accounts)(struct tb_queue *q, const struct tb_rules *r, u32 thread)
{
	tb_withdraw(q, thread);
	return tb_follow_all(q, r, thread, 0);
}

u32 EXPORT(leave_accounts)(struct tb_queue *q, const struct tb_rules *r, u32 thread)
{
	tb_leave(q, r, thread);
	return tb_follow_all(q, r, thread, 0);
}

u32 EXPORT(lend)(struct tb_queue *q, const struct tb_rules *r, u32 lender, u32 to, u64 now)
{
	if (!tb_lend(q, lender, to))
		return 0;
	tb_follow_all(q, r, lender, now);
	return 1;
}

u32 EXPORT(reclaim)(struct tb_queue *q, const struct tb_rules *r, u32 lender)
{
	tb_reclaim(q, lender);
	return tb_follow_all(q, r, lender, 0);
}

u32 EXPORT(merge)(struct tb_queue *q, const struct tb_rules *r, u32 account, u32 lender, u32 most)
{
	return tb_merge(q, r, account, lender, most);
}

u32 EXPORT(set_pass)(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 pass)
{
	return tb_set_pass(q, r, tb_at(q, i), pass);
}

u32 EXPORT(set_tickets)(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 tickets)
{
	return tb_set_tickets(q, r, i, tickets);
}

u32 EXPORT(move)(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 parent)
{
	return tb_move(q, r, i, parent);
}

u32 EXPORT(child_of)(struct tb_queue *q, u32 parent, u32 i)
{
	return tb_child_of(q, parent, i);
}

u32 EXPORT(fork)(struct tb_queue *q, u32 child, u32 forker, const struct tb_run *run)
{
	return tb_fork(q, child, forker, run);
}

u32 EXPORT(frozen)(struct tb_queue *q, u32 i)
{
	return tb_frozen(q, i);
}

u32 EXPORT(charge_heir)(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 heir, u64 forked_ns)
{
	return tb_charge_heir(q, r, i, heir, forked_ns);
}

u64 EXPORT(share)(u64 tickets, u64 here, u64 all)
{
	return tb_share(tickets, here, all);
}

u64 EXPORT(usable)(u64 tickets, u64 width, u64 price, u64 cpus)
{
	return tb_usable(tickets, width, price, cpus);
}

u64 EXPORT(entitled)(u64 usable, u64 width, u64 price, u64 cpus)
{
	return tb_entitled(usable, width, price, cpus);
}

u64 EXPORT(price)(u64 active, u64 cpus)
{
	return tb_price(active, cpus);
}

u64 EXPORT(held_within)(const struct tb_rules *r, u64 price, u64 tickets, u64 bound_ns)
{
	return tb_held_within(r, price, tickets, bound_ns);
}

u32 EXPORT(hold)(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 group_pass, u64 within)
{
	return tb_hold(q, r, i, group_pass, within);
}

void EXPORT(shift)(struct tb_queue *q, const struct tb_rules *r, u32 i, u64 by)
{
	tb_shift(q, r, i, by);
}

u64 EXPORT(off_of)(u64 group_pass, u64 pass, u64 tickets)
{
	return tb_off_of(group_pass, pass, tickets);
}

u64 EXPORT(off)(u64 sum, u64 tickets)
{
	return tb_off(sum, tickets);
}

u64 EXPORT(faded)(u64 asleep)
{
	return tb_faded(asleep);
}

u64 EXPORT(count)(struct tb_counts *c, u64 usable, u64 asleep, u64 there, u32 period)
{
	return tb_count(c, usable, asleep, there, period);
}

u64 EXPORT(widest)(u64 former, u64 width)
{
	return tb_widest(former, width);
}

u64 EXPORT(width)(u64 widest)
{
	return tb_width(widest);
}

u64 EXPORT(group_clock)(u64 former, u64 ns, u64 price, u64 slowest, u64 fastest)
{
	return tb_group_clock(former, ns, price, slowest, fastest);
}

u64 EXPORT(excess)(u64 clock, u64 of_group, u64 bound_ns, u64 price)
{
	return tb_excess(clock, of_group, bound_ns, price);
}

u64 EXPORT(lead_ns)(u64 own, u64 other, u64 mean_load)
{
	return tb_lead_ns(own, other, mean_load);
}

u64 EXPORT(gap)(u64 load, u64 other, u64 cpus, u64 mean_load, u64 lead_ns)
{
	return tb_gap(load, other, cpus, mean_load, lead_ns);
}

u64 EXPORT(next_look)(u64 now, u64 bound_ns, u64 seed)
{
	return tb_next_look(now, bound_ns, seed);
}

u64 EXPORT(ahead)(u64 lead_ns, u64 gap, u64 bound_ns)
{
	return tb_ahead(lead_ns, gap, bound_ns);
}

u32 EXPORT(is_far)(u64 lead_ns, u64 bound_ns)
{
	return tb_is_far(lead_ns, bound_ns);
}

u32 EXPORT(starves)(struct tb_queue *q, const struct tb_rules *r, u32 leaf)
{
	return tb_starves(q, r, leaf);
}

u32 EXPORT(crowd)(struct tb_queue *q, u64 mask)
{
	return tb_crowd(q, mask);
}

u32 EXPORT(is_crowded)(u32 here, u32 there)
{
	return tb_is_crowded(here, there);
}

u32 EXPORT(may_move)(u64 gap, u64 v, u32 is_far)
{
	return tb_may_move(gap, v, is_far);
}

u32 EXPORT(fits_better)(u64 gap, u64 v, u64 best)
{
	return tb_fits_better(gap, v, best);
}

u32 EXPORT(waking_place)(u32 may_run_here, u32 idle_here, u32 idle_elsewhere, u32 is_new)
{
	return tb_waking_place(may_run_here, idle_here, idle_elsewhere, is_new);
}

u32 EXPORT(pulls_from)(u32 waiting, u64 load, u64 best)
{
	return tb_pulls_from(waiting, load, best);
}

u64 EXPORT(mqs_load)(u64 waiting, u64 running, u64 cpus)
{
	return tb_mqs_load(waiting, running, cpus);
}

u32 EXPORT(mqs_neighbour)(u32 i, u32 n, u32 k)
{
	return tb_mqs_neighbour(i, n, k);
}

u32 EXPORT(mqs_push)(u64 own, u64 first, u64 second, u64 third)
{
	return tb_mqs_push(own, first, second, third);
}

u64 EXPORT(merged)(u64 pass, u64 tickets, u64 from, u64 more)
{
	return tb_merged(pass, tickets, from, more);
}

u32 EXPORT(neighbour)(u32 i, u32 n, u32 k)
{
	return tb_neighbour(i, n, k);
}

u32 EXPORT(set_share)(struct tb_queue *q, const struct tb_rules *r, u32 i, u32 tickets, u64 pass)
{
	return tb_set_share(q, r, i, tickets, pass);
}

u32 EXPORT(take)(struct tb_queue *q, const struct tb_rules *r, u32 leaf)
{
	return tb_take(q, r, leaf);
}

u32 EXPORT(put)(struct tb_queue *q, u32 i, u32 parent, u64 offset)
{
	return tb_put(q, i, parent, offset);
}

/* Not a rule: where a currency without active clients has its clock, so that tests may begin close to a wrap-around. */
void EXPORT(start_at)(struct tb_queue *q, u32 currency, u64 vnow)
{
	tb_at(q, currency)->vnow = vnow;
}

/* The numbers that Rust repeats, in the order of limits.rs. */
u64 EXPORT(limit)(u32 which)
{
	static const u64 limits[] = {
		TB_TICKETS_MIN,
		TB_TICKETS_MAX,
		TB_TICKETS_DEFAULT,
		TB_BASE_TICKETS_MIN,
		TB_BASE_TICKETS_MAX,
		TB_BASE_TICKETS_DEFAULT,
		TB_CLIENTS,
		TB_NESTED_MAX,
		TB_MACHINE_TICKETS,
		TB_TICKETS_LIMIT,
		TB_DEPTH,
		TB_HEIGHT,
		TB_PASS_SHIFT,
		TB_DRAW_SHIFT,
		TB_CHARGE_MAX_NS,
		TB_YOUNG_NS,
		TB_AHEAD_MAX_NS,
		TB_EPOCH_SHIFT,
		TB_PASSED_MAX,
		TB_LENT_MAX,
		TB_VALUE_ONE,
		TB_NEVER,
		1u << TB_SHARE_SHIFT,
		TB_PRICE_MAX,
		TB_CPU,
		TB_APART_MAX,
		TB_REACH_PERIODS,
		TB_PARTNERS,
		TB_MQS_TICK_NS,
		TB_MQS_WAIT_NS,
		TB_WAKING_OWN,
		TB_WAKING_IDLE,
		TB_WAKING_LEAST,
	};

	return which < sizeof(limits) / sizeof(limits[0]) ? limits[which] : 0;
}

#define AT(field) offsetof(struct tb_client, field)
#define IN(field) offsetof(struct tb_queue, field)

/* Sizes and offsets of the structures that cross, in the order of ffi.rs; 0 ends them. */
u64 EXPORT(layout)(u32 which)
{
	static const u64 layout[] = {
		sizeof(struct tb_client), AT(pass), AT(key), AT(mask), AT(parent), AT(tickets), AT(low_pass), AT(low_mask),
		AT(child), AT(up), AT(height), AT(state), AT(kind), AT(epoch),
		AT(vnow), AT(sum), AT(served), AT(older), AT(weight), AT(behind),
		AT(root), AT(active), AT(level), AT(precharged_ns), AT(used_ns), AT(young_ns),
		sizeof(struct tb_pool), offsetof(struct tb_pool, free), offsetof(struct tb_pool, used),
		offsetof(struct tb_pool, fresh), offsetof(struct tb_pool, client),
		sizeof(struct tb_queue), IN(base), IN(oldest), IN(newest), IN(waiting),
		IN(behind), IN(bound_leaves), IN(passed_mask), IN(passed_over),
		IN(passed), IN(after_all), IN(picked), IN(epoch),
		IN(bound), IN(contested), IN(movable), IN(clamped), IN(charge_also), IN(bill), IN(pool),
		sizeof(struct tb_rules), offsetof(struct tb_rules, quantum_ns), offsetof(struct tb_rules, lag_ns),
		offsetof(struct tb_rules, credit_ns), offsetof(struct tb_rules, behind_ns),
		offsetof(struct tb_rules, protect_ns), offsetof(struct tb_rules, lottery),
		sizeof(struct tb_bill), offsetof(struct tb_bill, used_ns), offsetof(struct tb_bill, precharge_ns),
		offsetof(struct tb_bill, next_ns), offsetof(struct tb_bill, seed),
		sizeof(struct tb_run), offsetof(struct tb_run, ran_ns), offsetof(struct tb_run, precharge_ns),
		offsetof(struct tb_run, woke),
		sizeof(struct tb_counts), offsetof(struct tb_counts, usable), offsetof(struct tb_counts, slept),
		offsetof(struct tb_counts, since),
	};

	return which < sizeof(layout) / sizeof(layout[0]) ? layout[which] : ~0ull;
}
