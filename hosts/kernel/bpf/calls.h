/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The private system calls (tombola_abi.h): a BPF program that any process may run.
 */
#pragma once
#include "currencies.h"
#include "lending.h"
#include "permissions.h"
#include "tasks.h"

/*
 * The subject of a call, and which of `value`, `currency`, `name`, and `to` and `ms` it uses. The others (of the name, its first
 * letter) must be zero, so that a later version can give them a meaning. `id` is not checked.
 */
enum subject { ABOUT_NOTHING, ABOUT_INFO, ABOUT_COUNTER, ABOUT_USER, ABOUT_PROCESS, ABOUT_CURRENCY, ABOUT_MACHINE };
enum field { HAS_VALUE = 1, HAS_CURRENCY = 2, HAS_NAME = 4, HAS_LOAN = 8 };

#define OPERATIONS 32

const volatile struct {
	u8 subject;
	u8 has;
} operations[OPERATIONS] = {
	[TOMBOLA_INFO] = { ABOUT_INFO, 0 },
	[TOMBOLA_GET_COUNTER] = { ABOUT_COUNTER, 0 },
	[TOMBOLA_GET_BASE_TICKETS] = { ABOUT_USER, 0 },
	[TOMBOLA_SET_BASE_TICKETS] = { ABOUT_USER, HAS_VALUE },
	[TOMBOLA_GET_TICKETS] = { ABOUT_PROCESS, 0 },
	[TOMBOLA_SET_TICKETS] = { ABOUT_PROCESS, HAS_VALUE },
	[TOMBOLA_GET_WINS] = { ABOUT_PROCESS, 0 },
	[TOMBOLA_GET_QUANTUM_USE] = { ABOUT_PROCESS, 0 },
	[TOMBOLA_MOVE_PROCESS] = { ABOUT_PROCESS, HAS_CURRENCY },
	[TOMBOLA_RESERVE] = { ABOUT_PROCESS, HAS_VALUE | HAS_CURRENCY },
	[TOMBOLA_FIND_CURRENCY] = { ABOUT_CURRENCY, HAS_NAME },
	[TOMBOLA_MAKE_CURRENCY] = { ABOUT_CURRENCY, HAS_VALUE | HAS_CURRENCY | HAS_NAME },
	[TOMBOLA_FUND_CURRENCY] = { ABOUT_CURRENCY, HAS_VALUE | HAS_CURRENCY },
	[TOMBOLA_MOVE_CURRENCY] = { ABOUT_CURRENCY, HAS_VALUE | HAS_CURRENCY },
	[TOMBOLA_RETIRE_CURRENCY] = { ABOUT_CURRENCY, HAS_CURRENCY },
	[TOMBOLA_GET_RESERVED] = { ABOUT_MACHINE, 0 },
	[TOMBOLA_SET_FLOOR] = { ABOUT_MACHINE, HAS_VALUE },
	[TOMBOLA_SET_ROOT] = { ABOUT_MACHINE, HAS_VALUE },
	[TOMBOLA_SET_DEFAULT] = { ABOUT_MACHINE, HAS_VALUE },
	[TOMBOLA_LEND] = { ABOUT_PROCESS, HAS_VALUE | HAS_LOAN },
	[TOMBOLA_LEND_WAITING] = { ABOUT_PROCESS, HAS_VALUE | HAS_LOAN },
	[TOMBOLA_RECLAIM] = { ABOUT_PROCESS, HAS_LOAN },
	[TOMBOLA_SET_SERVER] = { ABOUT_PROCESS, HAS_VALUE },
};

static __noinline u64 nr_waiting(void)
{
	u64 waiting = 0;

	for_each_queue(queue)
		waiting += waits_on(queue);
	return waiting;
}

static __noinline u64 nr_clamped(void)
{
	u64 clamped = 0;

	for_each_queue(queue) {
		struct run_queue *rq = queue_at(queue);

		if (rq)
			clamped += rq->economy.clamped;
	}
	return clamped;
}

static __always_inline s64 call_info(struct tombola_call *call, struct run_queue *rq)
{
	call->out[TOMBOLA_INFO_ABI] = TOMBOLA_ABI;
	call->out[TOMBOLA_INFO_POLICY] = tombola_config.rules.lottery ? TOMBOLA_LOTTERY : TOMBOLA_STRIDE;
	call->out[TOMBOLA_INFO_QUANTUM_NS] = tombola_config.rules.quantum_ns;
	call->out[TOMBOLA_INFO_CPUS] = tombola_config.nr_cpus;
	call->out[TOMBOLA_INFO_CLIENTS] = nr_clients();
	call->out[TOMBOLA_INFO_WAITING] = nr_waiting();
	call->out[TOMBOLA_INFO_PROCESSES] = nr_processes;
	call->out[TOMBOLA_INFO_NOW_NS] = bpf_ktime_get_ns();
	return 0;
}

static __always_inline s64 call_counter(struct tombola_call *call, struct run_queue *rq)
{
	if (call->id >= TOMBOLA_COUNTERS)
		return -EINVAL;
	call->out[0] = call->id == TOMBOLA_COUNT_CLAMPED ? nr_clamped() : counters[call->id & 15];
	return 0;
}

/* A client's tickets: 0 if it is frozen, although the economy keeps the former number. */
static __always_inline u32 tickets_of(u32 client, struct tb_queue *q)
{
	return state_of(client)->frozen ? 0 : tickets_at(q, client);
}

/*
 * The limit of the owner after tickets are set by this value: what its upper half says, or the tickets themselves if an
 * administrator sets them for another user's client (`owner`: it is the caller's own, or root, which has no limit).
 */
static __always_inline s64 limit_by(u64 value, bool owner, u32 most)
{
	u64 limit = value >> TOMBOLA_LIMIT_SHIFT;

	if (!limit)
		return owner || !may_nice() ? SAME_LIMIT : (s64)(u32)value;
	if (!may_nice())
		return -EPERM;
	return limit == TOMBOLA_NO_LIMIT || limit <= most ? (s64)limit : -ERANGE;
}

/*
 * Set a client's tickets, the lower half of the value: 0 moves it to the frozen root, any others move it home. For `user` see
 * by_caller.
 */
static __always_inline s64 fund(u64 number, u64 value, u32 user, bool owner, u32 most)
{
	s64 ret = limit_by(value, owner, most);

	if (ret >= 0)
		ret = fund_client(number, (u32)value, (u32)ret, by_caller(user));
	return ret ? ret : move_running(number, BY_TICKETS, AT_ONCE);
}

static __always_inline s64 call_base_tickets(struct tombola_call *call, struct run_queue *rq)
{
	u32 uid = call->id, tickets = (u32)call->value;
	u64 *known, user;
	s64 ret;

	if (call->op == TOMBOLA_GET_BASE_TICKETS) {
		known = bpf_map_lookup_elem(&users, &uid);
		call->out[0] = default_base;
		if (!known)
			return 0;
		call->out[0] = uid ? tickets_of((u32)*known, &rq->economy) : root_base;
		return 0;
	}
	/* A user that froze itself could not thaw itself again; if root were frozen, nobody could thaw anybody. */
	if (tickets > TOMBOLA_BASE_TICKETS_MAX || (tickets < TOMBOLA_BASE_TICKETS_MIN && (tickets || !uid)))
		return -ERANGE;
	if (!may_act_for(uid) || (!tickets && !may_nice()))
		return -EPERM;
	user = user_of(uid);
	if (!user)
		return -ENOSPC;
	ret = fund(user, call->value, TB_NONE, !uid || uid == caller_uid(), TOMBOLA_BASE_TICKETS_MAX);
	/* The user had no clients left, and was just being removed. */
	if (ret == -ESRCH)
		return -EAGAIN;
	if (ret)
		return ret;
	if (!uid) {
		root_base = tickets;
		root_others = ROOT_OTHERS_NONE;
	}
	tell_of_base();
	return 0;
}

/* The client of the process that pid belongs to. Its first thread may have exited before the others. */
static __always_inline u32 process_by(struct task *t, struct tb_queue *q, u32 tgid)
{
	u32 *known;

	if (t->client)
		return process_of(q, t->client);
	known = bpf_map_lookup_elem(&processes, &tgid);
	return known ? *known : TB_NONE;
}

static __always_inline s64 get_of_process(struct tombola_call *call, struct tb_queue *q, u32 client)
{
	struct client_state *state = state_of(client);

	switch (call->op) {
	case TOMBOLA_GET_TICKETS:
		call->out[0] = tickets_of(client, q);
		break;
	case TOMBOLA_GET_WINS:
		call->out[0] = state->wins;
		break;
	default:
		for (u32 i = 0; i < TOMBOLA_QUANTUM_PARTS; i++)
			call->out[i] = state->left[i];
	}
	return 0;
}

/*
 * The number of the currency into which a call moves a client: `number`, or the one of the client's user if that is 0. 0: the
 * caller may not use it. The step that follows compares the number under the lock, so it must not be read from the slot here.
 */
static __always_inline u64 destination(struct tb_queue *q, u64 number, u32 client)
{
	if (number)
		return own_currency(q, number) ? number : 0;
	return number_of(state_of(client)->user);
}

/* Tickets of base as a share of one CPU, of which TOMBOLA_SHARE_ONE is the whole. */
static __always_inline u64 share_of(u64 tickets)
{
	return tickets * tombola_config.online_cpus * TOMBOLA_SHARE_ONE / TB_MACHINE_TICKETS;
}

static __always_inline s64 call_reserve(struct tombola_call *call, struct tb_queue *q, u64 number)
{
	u64 share = call->value, cpus = tombola_config.online_cpus;
	u32 tickets;
	s64 ret, reservation;

	if (!may_nice())
		return -EPERM;
	if (share > cpus * TOMBOLA_SHARE_ONE)
		return -ERANGE;
	/* A frozen client has no reservation, and stays frozen. */
	if (!share)
		return move_running(number, HOME, AT_ONCE);
	/* As a share of the machine, rounded up; exact where CPUs are few. */
	tickets = (u32)((share * TB_MACHINE_TICKETS / TOMBOLA_SHARE_ONE + cpus - 1) / (cpus ? cpus : 1));
	reservation = step_reserve(number, tickets);
	if (reservation == -EBUSY)
		call->out[0] = share_of(unreserved(q));
	if (reservation < 0)
		return reservation;
	ret = move_running(number, (u64)reservation, AT_ONCE);
	if (ret)
		free_group((u64)reservation);
	return ret;
}

static __always_inline s64 move_process(struct tombola_call *call, struct tb_queue *q, u64 number, u64 how)
{
	u64 to = destination(q, call->currency, (u32)number);

	return to ? move_running(number, to, how) : -ENOENT;
}

/* The number of the thread to which a loan goes, or a negative error. The caller must control that, or the lender (`mine`). */
static __always_inline s64 borrower_of(const struct tombola_call *call, bool mine)
{
	struct task_struct *p = bpf_task_from_vpid((s32)call->to);
	s64 ret = -ESRCH;
	u32 leaf;

	if (!p)
		return ret;
	leaf = task_find(p)->client;
	if (leaf)
		ret = mine || may_control(p) ? (s64)number_of(leaf) : -EPERM;
	bpf_task_release(p);
	return ret;
}

static __always_inline s64 call_lend(const struct tombola_call *call, u64 thread, u64 lender)
{
	s64 to = borrower_of(call, false);

	if (to < 0)
		return to;
	if (call->op == TOMBOLA_LEND_WAITING)
		return step_will_lend(thread, (u64)to, (u32)call->value);
	return lend_tickets(lender, (u64)to, call->value, call->ms);
}

/* For the lender's owner, or the borrower's. */
static __always_inline s64 call_reclaim(struct tombola_call *call, u64 thread, u64 lender, bool mine)
{
	s64 to = call->to ? borrower_of(call, mine) : mine ? 0 : -EPERM;

	if (to < 0)
		return to;
	call->out[0] = lend_waiting_no_more(thread, (u64)to) + (u64)give_all_back(FIRST_SLOT, lender, (u32)to);
	return call->out[0] ? 0 : -ENOENT;
}

/*
 * Does the process still count for a former user? What its owner asks for must count for the present one, which is looked up when
 * its slice ends (update_owner). If it runs, that is now.
 */
static __always_inline bool is_outdated(struct task_struct *p, struct task *t)
{
	s32 cpu = scx_bpf_task_cpu(p);

	if (!t->client || t->uid == uid_of(p) || may_nice())
		return false;
	if (cpu_of(cpu)->leaf == t->client)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return true;
}

static __always_inline s64 call_loans(struct tombola_call *call, struct task_struct *p, struct task *t, u64 lender)
{
	u64 thread = number_of(t->client);
	bool mine = may_control(p);

	if (!transfers())
		return -EOPNOTSUPP;
	/* Look again, as in call_process. The first thread of a process may have exited before the others. */
	if (task_find(p)->client != (u32)thread || (!(u32)thread && call->op == TOMBOLA_LEND_WAITING))
		return -ESRCH;
	if (call->op == TOMBOLA_RECLAIM)
		return call_reclaim(call, thread, lender, mine);
	if (!mine)
		return -EPERM;
	return is_outdated(p, t) ? -EAGAIN : call_lend(call, thread, lender);
}

static __always_inline bool is_about_loans(const struct tombola_call *call)
{
	return operations[call->op & (OPERATIONS - 1)].has & HAS_LOAN;
}

static __always_inline s64 call_process(struct tombola_call *call, struct run_queue *rq, struct task_struct *p)
{
	u32 client = process_by(task_find(p), &rq->economy, (u32)p->tgid);
	u64 number = number_of(client);
	struct task *t = task_find(p); /* for the second look, so after the number */
	u32 user; /* read before the check: the step refuses if the owner changes after it */
	s64 ret;

	/* Look again: the number is the client's only if the process still had the client when it was read. */
	if (!client || process_by(t, &rq->economy, (u32)p->tgid) != client)
		return -ESRCH;
	if (call->op == TOMBOLA_GET_TICKETS || call->op == TOMBOLA_GET_WINS || call->op == TOMBOLA_GET_QUANTUM_USE)
		return is_visible(&rq->economy, client) ? get_of_process(call, &rq->economy, client) : -EPERM;
	if (call->op == TOMBOLA_SET_SERVER)
		return may_nice() ? step_set_server(number, call->value) : -EPERM;
	if (is_about_loans(call))
		return call_loans(call, p, t, number);
	/* The first process must not be frozen: without it, no orphan is reaped. */
	if (call->op == TOMBOLA_SET_TICKETS && ((u32)call->value > TOMBOLA_TICKETS_MAX || (!(u32)call->value && p->tgid == 1)))
		return -ERANGE;
	user = state_of(client)->user;
	if (!(call->op == TOMBOLA_RESERVE ? may_nice() : may_control(p)))
		return -EPERM;
	if (is_outdated(p, t))
		return -EAGAIN;
	end_loans_of(client);
	if (call->op == TOMBOLA_RESERVE)
		ret = call_reserve(call, &rq->economy, number);
	else if (call->op == TOMBOLA_MOVE_PROCESS)
		ret = move_process(call, &rq->economy, number, by_caller(user));
	else
		ret = fund(number, call->value, user, p->real_cred->uid.val == caller_uid(), TOMBOLA_TICKETS_MAX);
	if (!ret)
		end_loans_of(client);
	return ret;
}

/* Letters, digits, '_', '.' and '-', but '-' not first; padded with NULs, at least one. */
static __noinline bool is_name(const struct currency_name *of)
{
	u32 ended = 0;

	for (u32 i = 0; i < TOMBOLA_NAME; i++) {
		char c = of->name[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';

		if (!c)
			ended = 1;
		else if (ended || !(letter || (c == '-' && i)))
			return false;
	}
	return ended && of->name[0];
}

/* Is it still there, and not about to be removed? */
static __always_inline bool usable(struct tb_queue *q, u64 number)
{
	return client_of(q, number) && !state_of((u32)number)->closed;
}

/* The name's first letter is written last: it makes the currency usable. */
static __always_inline s64 make_currency(struct tombola_call *call, struct tb_queue *q, const struct currency_name *key)
{
	u64 user = user_of(call->id), inside, made;

	if (!user)
		return -ENOSPC;
	inside = call->currency ? destination(q, call->currency, TB_NONE) : user;
	if (!inside)
		return -ENOENT;
	if (state_of((u32)inside)->id != call->id)
		return -EXDEV;
	if (look_nested((u32)inside) >= TB_NESTED_MAX)
		return -E2BIG;
	made = step_make(inside, (u32)call->value, (u32)user);
	if (!made)
		return usable(q, inside) ? -ENOSPC : call->currency ? -ENOENT : -EAGAIN;
	if (bpf_map_update_elem(&currencies, key, &made, BPF_NOEXIST)) {
		retire(made);
		return -EEXIST;
	}
	__builtin_memcpy(state_of((u32)made)->name + 1, key->name + 1, TOMBOLA_NAME - 1);
	asm volatile("" ::: "memory");
	state_of((u32)made)->name[0] = key->name[0];
	call->out[0] = made;
	return 0;
}

static __always_inline s64 retire_currency(struct tb_queue *q, u32 client, u64 number)
{
	struct currency_name key = { .uid = state_of(client)->id };
	u64 *known;
	u32 frozen = looks_frozen(client);
	s64 ret = step_close(number, 1);

	if (ret)
		return ret;
	ret = reparent_children(FIRST_SLOT, number, by_caller(TB_NONE));
	if (frozen)
		kick_idle(); /* its former clients may be thawed now */
	__builtin_memcpy(key.name, state_of(client)->name, TOMBOLA_NAME);
	if (ret || !retire(number)) {
		step_close(number, 0);
		return ret ? ret : -EAGAIN;
	}
	known = bpf_map_lookup_elem(&currencies, &key);
	if (known && *known == number)
		bpf_map_delete_elem(&currencies, &key);
	return 0;
}

/*
 * How many currencies are nested in a client, itself included. A look at all currencies takes long: it leaves the call's RCU read
 * section, for which grace periods would wait.
 */
static __always_inline u32 height_of(u32 client)
{
	u32 height;

	bpf_rcu_read_unlock();
	height = look_for_height(FIRST_SLOT, client);
	bpf_rcu_read_lock();
	return height;
}

static __always_inline s64 move_currency(struct tombola_call *call, struct tb_queue *q, u32 client)
{
	u32 seen = step_structure(client);
	u64 number = destination(q, call->value, client);
	u32 to = (u32)number;

	if (!number)
		return -ENOENT;
	if (state_of(to)->id != state_of(client)->id)
		return -EXDEV;
	if (look_inside(to, client))
		return -ELOOP;
	if (look_nested(to) + height_of(client) > TB_NESTED_MAX)
		return -E2BIG;
	return move_running(call->currency, number, seen | by_caller(TB_NONE));
}

static __always_inline s64 find_currency(struct tombola_call *call, struct tb_queue *q, const struct currency_name *key)
{
	u64 *known = bpf_map_lookup_elem(&currencies, key);

	if (!known || !client_of(q, *known))
		return -ENOENT;
	call->out[0] = *known;
	call->out[1] = tickets_of((u32)*known, q);
	return 0;
}

static __always_inline s64 call_currency(struct tombola_call *call, struct run_queue *rq)
{
	struct tb_queue *q = &rq->economy;
	struct currency_name key = { .uid = call->id };
	u32 client;

	if (call->op == TOMBOLA_MAKE_CURRENCY || call->op == TOMBOLA_FIND_CURRENCY) {
		__builtin_memcpy(key.name, call->name, TOMBOLA_NAME);
		if (!is_name(&key))
			return -EINVAL;
		if (!may_act_for(call->id))
			return -EPERM;
		if (call->op == TOMBOLA_FIND_CURRENCY)
			return find_currency(call, q, &key);
		if (call->value < TOMBOLA_TICKETS_MIN || call->value > TOMBOLA_TICKETS_MAX)
			return -ERANGE;
		return make_currency(call, q, &key);
	}
	client = own_currency(q, call->currency);
	if (!client)
		return -ENOENT;
	switch (call->op) {
	case TOMBOLA_FUND_CURRENCY:
		if ((u32)call->value > TOMBOLA_TICKETS_MAX)
			return -ERANGE;
		return fund(call->currency, call->value, TB_NONE, state_of(client)->id == caller_uid(), TOMBOLA_TICKETS_MAX);
	case TOMBOLA_MOVE_CURRENCY:
		return move_currency(call, q, client);
	case TOMBOLA_RESERVE:
		return call_reserve(call, q, call->currency);
	default:
		return retire_currency(q, client, call->currency);
	}
}

/* Settings of the whole machine. */
static __always_inline s64 call_machine(struct tombola_call *call, struct run_queue *rq)
{
	u64 cpus = tombola_config.online_cpus, value = call->value;

	if (call->op == TOMBOLA_GET_RESERVED) {
		call->out[TOMBOLA_RESERVED_MACHINE] = cpus * TOMBOLA_SHARE_ONE;
		call->out[TOMBOLA_RESERVED_ALL] = share_of(reserved);
		call->out[TOMBOLA_RESERVED_FLOOR] = share_of(tickets_at(&rq->economy, TB_BEST_EFFORT));
		call->out[TOMBOLA_RESERVED_ROOT] = root_share;
		call->out[TOMBOLA_RESERVED_DEFAULT] = default_base;
		return 0;
	}
	if (!may_nice())
		return -EPERM;
	switch (call->op) {
	case TOMBOLA_SET_FLOOR:
		return value < 1 || value > TOMBOLA_SHARE_ONE ? -ERANGE : step_set_floor((u32)value);
	case TOMBOLA_SET_ROOT:
		if (value > TOMBOLA_ROOT_MAX)
			return -ERANGE;
		root_share = (u32)value;
		root_others = ROOT_OTHERS_NONE;
		return 0;
	default:
		if (value < TOMBOLA_BASE_TICKETS_MIN || value > TOMBOLA_BASE_TICKETS_MAX)
			return -ERANGE;
		default_base = (u32)value;
		return 0;
	}
}

static __always_inline u32 subject_of(const struct tombola_call *call)
{
	if (call->op >= OPERATIONS)
		return ABOUT_NOTHING;
	return call->op == TOMBOLA_RESERVE && call->currency ? ABOUT_CURRENCY : operations[call->op].subject;
}

/* Does an operation change anything? */
static __always_inline bool changes(u32 op)
{
	return operations[op & (OPERATIONS - 1)].has & (HAS_VALUE | HAS_CURRENCY);
}

static __always_inline bool is_tidy(const struct tombola_call *call)
{
	u32 has = operations[call->op & (OPERATIONS - 1)].has;

	return (has & HAS_VALUE || !call->value) && (has & HAS_CURRENCY || !call->currency) &&
	       (has & HAS_NAME || !call->name[0]) && (has & HAS_LOAN || !(call->to | call->ms));
}

SEC("syscall")
int tombola_call(struct tombola_call *call)
{
	struct run_queue *rq = first_queue();
	u32 subject = subject_of(call);
	struct task_struct *p = 0;
	s64 ret;

	if (!rq || !running)
		return -ENODEV;
	if (subject == ABOUT_NOTHING)
		return -ENOSYS;
	if (!is_tidy(call))
		return -EINVAL;
	if (subject == ABOUT_INFO)
		return (int)call_info(call, rq);
	if (subject == ABOUT_COUNTER)
		return (int)call_counter(call, rq);
	if (subject == ABOUT_PROCESS) {
		p = bpf_task_from_vpid((s32)call->id);
		if (!p)
			return -ESRCH;
	}
	bpf_rcu_read_lock();
	if (p)
		ret = call_process(call, rq, p);
	else if (subject == ABOUT_USER)
		ret = call_base_tickets(call, rq);
	else if (subject == ABOUT_CURRENCY)
		ret = call_currency(call, rq);
	else
		ret = call_machine(call, rq);
	bpf_rcu_read_unlock();
	if (p)
		bpf_task_release(p);
	/* As in height_of, this look is outside of the RCU read section. */
	if (!ret && changes(call->op) && frozen_are_active())
		urge_waiting(FIRST_SLOT);
	return (int)ret;
}
