/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tombola's private system calls for C programs. Nothing to link with: each function is bpf(2) on a pinned program.
 *
 *	int fd = tombola_open();
 *
 *	if (fd >= 0 && !tombola_set_tickets(fd, getpid(), 500))
 *		printf("%lld tickets\n", (long long)tombola_get_tickets(fd, getpid()));
 *
 * Every function returns 0 or more, or a negative errno (nothing was changed then); errno itself is left alone. A call takes
 * a few microseconds, needs no privilege to read, and may be made by several threads at once. tombola_abi.h says who may
 * set what.
 *
 *   -ENOENT   Tombola is not running (tombola_open)
 *   -ENODEV   it has ended since tombola_open
 *   -ESRCH    no such process, or one without tickets, as the kernel's own are
 *   -EPERM    not the caller's, or more than it may give itself; also if a filter (seccomp) forbids bpf(2)
 *   -ERANGE   a number out of its range
 *   -ENOSPC   every place for a user is taken
 */
#pragma once

#include <errno.h>
#include <linux/bpf.h>
#include <linux/types.h>
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

/* The kernel copies the context in, and, changed, out again. */
static inline int tombola_run_(int fd, void *context, unsigned int size)
{
	union bpf_attr attr;
	int ret;

	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = (__u32)fd;
	attr.test.ctx_in = (__u64)(unsigned long)context;
	attr.test.ctx_size_in = size;
	ret = tombola_bpf_(BPF_PROG_TEST_RUN, &attr);
	return ret < 0 ? ret : (int)attr.test.retval;
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

/* Tickets of a process in its user's currency. */
static inline long long tombola_get_tickets(int fd, pid_t pid)
{
	return tombola_call_(fd, TOMBOLA_GET_TICKETS, (unsigned int)pid, 0);
}

/* TOMBOLA_TICKETS_MIN to _MAX, 1 to 10000. For the owner of the process, or with CAP_SYS_NICE. */
static inline int tombola_set_tickets(int fd, pid_t pid, unsigned int tickets)
{
	long long ret = tombola_call_(fd, TOMBOLA_SET_TICKETS, (unsigned int)pid, tickets);

	return ret < 0 ? (int)ret : 0;
}

/* Base tickets of a user; the default if the scheduler has not seen the user yet. */
static inline long long tombola_get_base_tickets(int fd, uid_t uid)
{
	return tombola_call_(fd, TOMBOLA_GET_BASE_TICKETS, uid, 0);
}

/*
 * TOMBOLA_BASE_TICKETS_MIN to _MAX, 100 to 10000. Without CAP_SYS_NICE one's own only, and at most the default, 1000.
 */
static inline int tombola_set_base_tickets(int fd, uid_t uid, unsigned int tickets)
{
	long long ret = tombola_call_(fd, TOMBOLA_SET_BASE_TICKETS, uid, tickets);

	return ret < 0 ? (int)ret : 0;
}

/* Draws that a process has won since it began. */
static inline long long tombola_get_wins(int fd, pid_t pid)
{
	return tombola_call_(fd, TOMBOLA_GET_WINS, (unsigned int)pid, 0);
}

/*
 * How often a process gave up the CPU with `sixths` sixths of its quantum left: 0 (all was used) to 6 (nothing was). Its
 * kind of work shows in it: who computes collects zeros, who waits for others collects sixes. -EINVAL above 6.
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
