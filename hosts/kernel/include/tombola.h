/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tombola's private system calls for C programs. Nothing to link with: each function is bpf(2) on a pinned program.
 *
 *	int fd = tombola_open();
 *
 *	if (fd >= 0 && !tombola_set_tickets(fd, getpid(), 500))
 *		printf("%lld tickets\n", (long long)tombola_get_tickets(fd, getpid()));
 *
 * Every function returns 0 or more, or a negative errno; errno itself is left alone. A call that fails has mostly changed
 * nothing, but a retirement may have moved some clients out. A call takes a few microseconds, needs no privilege to read, and may
 * be made by several threads at once. tombola_abi.h says who may set what.
 *
 *   -ENOENT   Tombola is not running (tombola_open); no such currency, it was retired, or it is another user's
 *   -ENODEV   it has ended since tombola_open
 *   -ESRCH    no such process, or one without tickets, as the kernel's own are
 *   -EPERM    not the caller's, or more than it may give itself; also if a filter (seccomp) forbids bpf(2)
 *   -ERANGE   a number out of its range
 *   -ENOSPC   every place for a user or a currency is taken
 *   -EAGAIN   others changed the same clients all the while, or the process has just changed its user
 *
 * The comment of each function about currencies and reservations lists its other errors. Currencies:
 *
 *	unsigned long long build;
 *
 *	if (!tombola_make_currency(fd, getuid(), "build", 300, 0, &build))
 *		tombola_enter(fd, getpid(), build);
 */
#pragma once

#include <errno.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "tombola_abi.h"

static inline int tombola_bpf_(int command, union bpf_attr *attr)
{
	int errno_before = errno, ret = (int)syscall(SYS_bpf, command, attr, sizeof(*attr));

	if (ret < 0) {
		ret = -errno;
		errno = errno_before;
	}
	return ret;
}

static inline int tombola_open_pin_(const char *path)
{
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.pathname = (__u64)(unsigned long)path;
	return tombola_bpf_(BPF_OBJ_GET, &attr);
}

/* The kernel copies the context in, and out again after the program has changed it. After -EAGAIN it is called again. */
static inline int tombola_run_(int fd, void *context, unsigned int size)
{
	union bpf_attr attr;
	int ret, tries = 100;

	do {
		memset(&attr, 0, sizeof(attr));
		attr.test.prog_fd = (__u32)fd;
		attr.test.ctx_in = (__u64)(unsigned long)context;
		attr.test.ctx_size_in = size;
		ret = tombola_bpf_(BPF_PROG_TEST_RUN, &attr);
		if (!ret)
			ret = (int)attr.test.retval;
	} while (ret == -EAGAIN && --tries && !sched_yield());
	return ret;
}

static inline long long tombola_call_(int fd, enum tombola_op op, unsigned int id, unsigned long long value)
{
	struct tombola_call call;
	int ret;

	memset(&call, 0, sizeof(call));
	call.op = (__u32)op;
	call.id = id;
	call.value = value;
	ret = tombola_run_(fd, &call, sizeof(call));
	return ret < 0 ? ret : (long long)call.out[0];
}

/* A descriptor for the functions below, closed on exec; close(2) it when done. */
static inline int tombola_open(void)
{
	return tombola_open_pin_(TOMBOLA_PIN_CALL);
}

/* Tickets of a process in the currency that it is in; 0: frozen. */
static inline long long tombola_get_tickets(int fd, pid_t pid)
{
	return tombola_call_(fd, TOMBOLA_GET_TICKETS, (unsigned int)pid, 0);
}

/*
 * TOMBOLA_TICKETS_MIN to _MAX, 1 to 10000, or 0: it is frozen until it is given others, and ends a reservation of its own. For
 * the owner of the process, or with CAP_SYS_NICE. The tickets that a caller with CAP_SYS_NICE sets for another user's process are
 * the most that the owner may set from then on (-EPERM). The first process cannot be frozen (-ERANGE).
 */
static inline int tombola_set_tickets(int fd, pid_t pid, unsigned int tickets)
{
	long long ret = tombola_call_(fd, TOMBOLA_SET_TICKETS, (unsigned int)pid, tickets);

	return ret < 0 ? (int)ret : 0;
}

/* Base tickets of a user, 0: frozen; the default if the scheduler has not seen the user yet. */
static inline long long tombola_get_base_tickets(int fd, uid_t uid)
{
	return tombola_call_(fd, TOMBOLA_GET_BASE_TICKETS, uid, 0);
}

/*
 * TOMBOLA_BASE_TICKETS_MIN to _MAX, 100 to 10000, or 0: all that is the user's is frozen, except what has a reservation. Without
 * CAP_SYS_NICE one's own only, not 0, and at most the default (1000 if the rules don't say otherwise) or what was last set with
 * CAP_SYS_NICE. Root cannot be frozen (-ERANGE).
 */
static inline int tombola_set_base_tickets(int fd, uid_t uid, unsigned int tickets)
{
	long long ret = tombola_call_(fd, TOMBOLA_SET_BASE_TICKETS, uid, tickets);

	return ret < 0 ? (int)ret : 0;
}

/* Slices that a process has begun, drawn or not, since it started. */
static inline long long tombola_get_wins(int fd, pid_t pid)
{
	return tombola_call_(fd, TOMBOLA_GET_WINS, (unsigned int)pid, 0);
}

/*
 * How often a process gave up the CPU with `sixths` sixths of its quantum left: 0 (all was used) to 6 (nothing was). Its
 * kind of work shows in it: one that computes collects zeros, one that waits for others collects sixes. -EINVAL above 6.
 */
static inline long long tombola_get_quantum_use(int fd, pid_t pid, unsigned int sixths)
{
	struct tombola_call call;
	int ret;

	if (sixths >= TOMBOLA_QUANTUM_PARTS)
		return -EINVAL;
	memset(&call, 0, sizeof(call));
	call.op = TOMBOLA_GET_QUANTUM_USE;
	call.id = (__u32)pid;
	ret = tombola_run_(fd, &call, sizeof(call));
	return ret < 0 ? ret : (long long)call.out[sixths];
}

static inline int tombola_named_(int fd, enum tombola_op op, uid_t owner, const char *name, struct tombola_call *call)
{
	size_t length = strlen(name);

	call->op = (__u32)op;
	call->id = owner;
	if (!length || length >= TOMBOLA_NAME)
		return -EINVAL;
	memcpy(call->name, name, length);
	return tombola_run_(fd, call, sizeof(*call));
}

static inline int tombola_about_(int fd, enum tombola_op op, pid_t pid, unsigned long long currency,
				 unsigned long long value, struct tombola_call *call)
{
	memset(call, 0, sizeof(*call));
	call->op = (__u32)op;
	call->id = (__u32)pid;
	call->currency = currency;
	call->value = value;
	return tombola_run_(fd, call, sizeof(*call));
}

/*
 * A currency of `owner`'s, by its name, in *currency: a number that is never another's. -EINVAL: no currency can be called that
 * (1 to 23 letters, digits, '_', '.' and '-', but '-' not first). -EPERM: another user's, whether there is one of that name or
 * not.
 */
static inline int tombola_find_currency(int fd, uid_t owner, const char *name, unsigned long long *currency)
{
	struct tombola_call call = { 0 };
	int ret = tombola_named_(fd, TOMBOLA_FIND_CURRENCY, owner, name, &call);

	if (!ret)
		*currency = call.out[0];
	return ret;
}

/* Tickets of a currency in the one around it; 0: frozen. Errors as tombola_find_currency. */
static inline long long tombola_get_currency_tickets(int fd, uid_t owner, const char *name)
{
	struct tombola_call call = { 0 };
	int ret = tombola_named_(fd, TOMBOLA_FIND_CURRENCY, owner, name, &call);

	return ret < 0 ? ret : (long long)call.out[1];
}

/*
 * A currency with 1 to 10000 tickets in the currency `inside`, which is the same owner's; 0: directly in the owner's own
 * currency. Its number is then in *currency. For the owner, or with CAP_SYS_NICE. -EEXIST: there is one of that name. -EXDEV:
 * `inside` is another user's. -E2BIG: TOMBOLA_NESTED_MAX are inside one another already. -EINVAL, -EPERM as
 * tombola_find_currency.
 */
static inline int tombola_make_currency(int fd, uid_t owner, const char *name, unsigned int tickets,
					unsigned long long inside, unsigned long long *currency)
{
	struct tombola_call call = { 0 };
	int ret;

	call.value = tickets;
	call.currency = inside;
	ret = tombola_named_(fd, TOMBOLA_MAKE_CURRENCY, owner, name, &call);
	if (!ret)
		*currency = call.out[0];
	return ret;
}

/* Other tickets for a currency, 1 to 10000, or 0: all that is in it is frozen. For the owner, or with CAP_SYS_NICE. */
static inline int tombola_fund_currency(int fd, unsigned long long currency, unsigned int tickets)
{
	struct tombola_call call;

	return tombola_about_(fd, TOMBOLA_FUND_CURRENCY, 0, currency, tickets, &call);
}

/*
 * Into the currency `inside`; 0: directly into the owner's own currency. For the owner, or with CAP_SYS_NICE. -EXDEV and -E2BIG
 * as tombola_make_currency. -ELOOP: it would be inside itself. -EAGAIN: others changed currencies meanwhile; call again.
 */
static inline int tombola_move_currency(int fd, unsigned long long currency, unsigned long long inside)
{
	struct tombola_call call;

	return tombola_about_(fd, TOMBOLA_MOVE_CURRENCY, 0, currency, inside, &call);
}

/*
 * Ends a currency, and a reservation of its own. Its clients move to the currency around it; another user's process moves to that
 * user's own currency. For the owner, or with CAP_SYS_NICE. -EPERM also: a limit of an administrator's keeps a client inside.
 * -EAGAIN: something came into it meanwhile; call again. After an error some clients may have moved out.
 */
static inline int tombola_retire_currency(int fd, unsigned long long currency)
{
	struct tombola_call call;

	return tombola_about_(fd, TOMBOLA_RETIRE_CURRENCY, 0, currency, 0, &call);
}

/*
 * A process, with all that it forks from now on, into a currency. For the owner of both; with CAP_SYS_NICE, any process into any
 * currency.
 */
static inline int tombola_enter(int fd, pid_t pid, unsigned long long currency)
{
	struct tombola_call call;

	return currency ? tombola_about_(fd, TOMBOLA_MOVE_PROCESS, pid, currency, 0, &call) : -ENOENT;
}

/* Back into its user's own currency. For its owner, or with CAP_SYS_NICE. */
static inline int tombola_leave(int fd, pid_t pid)
{
	struct tombola_call call;

	return tombola_about_(fd, TOMBOLA_MOVE_PROCESS, pid, 0, 0, &call);
}

static inline int tombola_reserve_(int fd, pid_t pid, unsigned long long currency, unsigned int share,
				   unsigned long long *left)
{
	struct tombola_call call;
	int ret = tombola_about_(fd, TOMBOLA_RESERVE, pid, currency, share, &call);

	if (ret == -EBUSY && left)
		*left = call.out[0];
	return ret;
}

/*
 * A reservation for a process and all that it forks from now on, until the last of them has ended: so many hundredths of a
 * percent of one CPU (TOMBOLA_SHARE_ONE: a whole one), 0 ends it. One that is frozen is thawed. With CAP_SYS_NICE. -ERANGE: more
 * than the machine. -EBUSY: more than is left, and that is in *left, which may be NULL.
 */
static inline int tombola_reserve_process(int fd, pid_t pid, unsigned int share, unsigned long long *left)
{
	return tombola_reserve_(fd, pid, 0, share, left);
}

/* The same for a currency, until it is retired. */
static inline int tombola_reserve_currency(int fd, unsigned long long currency, unsigned int share,
					   unsigned long long *left)
{
	return currency ? tombola_reserve_(fd, 0, currency, share, left) : -ENOENT;
}

/* What is reserved, and for how much there is room: enum tombola_reserved says which it is. -EINVAL for any other. */
static inline long long tombola_get_reserved(int fd, enum tombola_reserved which)
{
	struct tombola_call call;
	int ret;

	if ((unsigned int)which > TOMBOLA_RESERVED_DEFAULT)
		return -EINVAL;
	ret = tombola_about_(fd, TOMBOLA_GET_RESERVED, 0, 0, 0, &call);
	return ret < 0 ? ret : (long long)call.out[which];
}

/*
 * What holds for everybody; with CAP_SYS_NICE. The floor, in hundredths of a percent of the machine, 1 to 10000, is best effort's
 * at least; -EBUSY: reservations hold more than would be left. Root's part is of best effort, 0 to TOMBOLA_ROOT_MAX.
 */
static inline int tombola_set_floor(int fd, unsigned int share)
{
	struct tombola_call call;

	return tombola_about_(fd, TOMBOLA_SET_FLOOR, 0, 0, share, &call);
}

static inline int tombola_set_root(int fd, unsigned int share)
{
	struct tombola_call call;

	return tombola_about_(fd, TOMBOLA_SET_ROOT, 0, 0, share, &call);
}

/* Base tickets of users whom the scheduler sees for the first time from now on; with CAP_SYS_NICE. */
static inline int tombola_set_default(int fd, unsigned int tickets)
{
	struct tombola_call call;

	return tombola_about_(fd, TOMBOLA_SET_DEFAULT, 0, 0, tickets, &call);
}

static inline int tombola_loan_(int fd, enum tombola_op op, pid_t from, pid_t to, unsigned int value, unsigned int ms,
				unsigned long long *ended)
{
	struct tombola_call call;
	int ret;

	memset(&call, 0, sizeof(call));
	call.op = (__u32)op;
	call.id = (__u32)from;
	call.to = (__u32)to;
	call.value = value;
	call.ms = ms;
	ret = tombola_run_(fd, &call, sizeof(call));
	if (ended)
		*ended = call.out[0];
	return ret;
}

/*
 * Process `from` lends so many of its tickets, fewer than it has, to thread `to`, and has the others meanwhile: until
 * tombola_reclaim, or for `ms` milliseconds if that is not 0; or until one of the two exits, or the lender gets other tickets, is
 * moved or frozen, or changes its user. For the owner of both, or with CAP_SYS_NICE. -ERANGE: as many as it has, or more, or 0.
 * -EINVAL: to itself. -EBUSY: the borrower has as many lenders as can be. -EOPNOTSUPP: the scheduler runs without loans.
 */
static inline int tombola_lend(int fd, pid_t from, pid_t to, unsigned int tickets, unsigned int ms)
{
	return tombola_loan_(fd, TOMBOLA_LEND, from, to, tickets, ms, 0);
}

/*
 * Thread `from` lends all that it has to thread `to` while it waits, for whatever that is: the next time only (`once` is not 0),
 * or whenever it does, until tombola_reclaim. A client calls this before it sends a request to a server and waits for the answer.
 * For the owner of both, or with CAP_SYS_NICE. -EINVAL: to itself. -EOPNOTSUPP as tombola_lend.
 */
static inline int tombola_lend_while_waiting(int fd, pid_t from, pid_t to, int once)
{
	return tombola_loan_(fd, TOMBOLA_LEND_WAITING, from, to, once != 0, 0, 0);
}

/*
 * Threads of other users, too, lend their tickets to a process while they wait for it to answer, and to those that it forks from
 * now on (`serves` is not 0); or not, as at first. That ends with a change of user. With CAP_SYS_NICE. It counts with
 * `--transfer auto` only. If the rules name servers, the daemon makes each second what they say of it.
 */
static inline int tombola_set_server(int fd, pid_t pid, int serves)
{
	return (int)tombola_call_(fd, TOMBOLA_SET_SERVER, (unsigned int)pid, serves != 0);
}

/*
 * Ends the loans of process `from` and of its thread with the same number, those to thread `to`, or all if that is 0. For the
 * owner of the lender; with `to`, also for the borrower's, who so refuses them. Returns how many have ended; -ENOENT: there is
 * none. -EOPNOTSUPP as tombola_lend.
 */
static inline int tombola_reclaim(int fd, pid_t from, pid_t to)
{
	unsigned long long ended = 0;
	int ret = tombola_loan_(fd, TOMBOLA_RECLAIM, from, to, 0, 0, &ended);

	return ret < 0 ? ret : (int)ended;
}
