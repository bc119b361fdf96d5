/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The private system calls, used through tombola.h and misused beside it, by a process without privileges.
 *
 * One line for each expectation. Status 0: all met; 1: not; 3: Tombola is not running.
 */
#include "tombola.h"

#include <stdio.h>
#include <stdlib.h>

enum { NOT_RUNNING = 3, NO_PID = 0x7ffffffe };

static int failures;

static void expect(const char *what, long long wanted, long long found)
{
	printf("%s %s: %lld\n", wanted == found ? "ok" : "FAILED", what, found);
	if (wanted != found)
		printf("       expected %lld (%s)\n", wanted, wanted < 0 ? strerror((int)-wanted) : "a value");
	failures += wanted != found;
}

static int raw(int fd, unsigned int op, unsigned int id, unsigned long long value)
{
	struct tombola_call call;

	memset(&call, 0, sizeof(call));
	call.op = op;
	call.id = id;
	call.value = value;
	return tombola_run_(fd, &call, sizeof(call));
}

static void use(int fd)
{
	pid_t self = getpid();

	expect("set own tickets", 0, tombola_set_tickets(fd, self, 500));
	expect("get own tickets", 500, tombola_get_tickets(fd, self));
	expect("lowest tickets", 0, tombola_set_tickets(fd, self, TOMBOLA_TICKETS_MIN));
	expect("highest tickets", 0, tombola_set_tickets(fd, self, TOMBOLA_TICKETS_MAX));
	expect("tickets again", 0, tombola_set_tickets(fd, self, 300));
	expect("lower own base tickets", 0, tombola_set_base_tickets(fd, getuid(), 500));
	expect("get own base tickets", 500, tombola_get_base_tickets(fd, getuid()));
	expect("default base tickets", 0, tombola_set_base_tickets(fd, getuid(), TOMBOLA_BASE_TICKETS_DEFAULT));
	expect("has won", 1, tombola_get_wins(fd, self) >= 0);
	expect("has a histogram", 1, tombola_get_quantum_use(fd, self, 6) >= 0);
}

static void be_refused(int fd)
{
	pid_t self = getpid();

	expect("0 tickets", -ERANGE, tombola_set_tickets(fd, self, 0));
	expect("-1 tickets", -ERANGE, tombola_set_tickets(fd, self, (unsigned int)-1));
	expect("10001 tickets", -ERANGE, tombola_set_tickets(fd, self, 10001));
	expect("99 base tickets", -ERANGE, tombola_set_base_tickets(fd, getuid(), 99));
	expect("base tickets above the default", -EPERM, tombola_set_base_tickets(fd, getuid(), 1001));
	expect("another user's base tickets", -EPERM, tombola_set_base_tickets(fd, 0, 100));
	expect("another user's process", -EPERM, tombola_set_tickets(fd, 1, 100));
	expect("no such process, set", -ESRCH, tombola_set_tickets(fd, NO_PID, 100));
	expect("no such process, get", -ESRCH, tombola_get_tickets(fd, NO_PID));
	expect("process 0", -ESRCH, tombola_get_tickets(fd, 0));
	expect("process -1", -ESRCH, tombola_get_tickets(fd, -1));
	expect("a seventh sixth", -EINVAL, tombola_get_quantum_use(fd, self, 7));
}

static void tamper(int fd, int tree_fd)
{
	unsigned int self = (unsigned int)getpid();
	struct tombola_tree tree;
	char large[4096];

	expect("garbage operation", -ENOSYS, raw(fd, 0xdeadbeef, self, 0));
	expect("next operation", -ENOSYS, raw(fd, TOMBOLA_GET_COUNTER + 1, self, 0));
	expect("counter beyond the last", -EINVAL, raw(fd, TOMBOLA_GET_COUNTER, TOMBOLA_COUNTERS, 0));
	expect("oversized counter", -EINVAL, raw(fd, TOMBOLA_GET_COUNTER, 0xffffffff, 0));
	expect("oversized process", -ESRCH, raw(fd, TOMBOLA_GET_TICKETS, 0xffffffff, 0));
	expect("value where none belongs", -EINVAL, raw(fd, TOMBOLA_GET_TICKETS, self, 1));
	expect("amount of 2^32 + 100", -ERANGE, raw(fd, TOMBOLA_SET_TICKETS, self, (1ull << 32) + 100));
	expect("amount of 2^64 - 1", -ERANGE, raw(fd, TOMBOLA_SET_TICKETS, self, ~0ull));

	memset(large, 0xff, sizeof(large));
	expect("no context", -EINVAL, tombola_run_(fd, large, 0));
	expect("half a context", -EINVAL, tombola_run_(fd, large, sizeof(struct tombola_call) / 2));
	expect("a large context of ones", -1, tombola_run_(fd, large, sizeof(large)) < 0 ? -1 : 0);
	expect("a null context", -EINVAL, tombola_run_(fd, NULL, sizeof(struct tombola_call)));

	memset(&tree, 0xff, sizeof(tree));
	expect("a tree from beyond the last", 0, tombola_run_(tree_fd, &tree, sizeof(tree)));
	expect("has no nodes", 0, tree.count);
	expect("half a tree", -EINVAL, tombola_run_(tree_fd, &tree, sizeof(tree) / 2));
	expect("the trace's pins", -EACCES, tombola_open_pin_(TOMBOLA_PIN_DIR "/trace/draws"));
}

int main(void)
{
	int fd = tombola_open(), tree_fd = tombola_open_pin_(TOMBOLA_PIN_TREE);
	long long root_base;

	if (fd < 0 || tree_fd < 0) {
		fprintf(stderr, "Tombola is not running: %s\n", strerror(-(fd < 0 ? fd : tree_fd)));
		return NOT_RUNNING;
	}
	root_base = tombola_get_base_tickets(fd, 0);
	use(fd);
	be_refused(fd);
	tamper(fd, tree_fd);
	expect("tickets are unchanged", 300, tombola_get_tickets(fd, getpid()));
	expect("base tickets are unchanged", TOMBOLA_BASE_TICKETS_DEFAULT, tombola_get_base_tickets(fd, getuid()));
	expect("root's base tickets are unchanged", root_base, tombola_get_base_tickets(fd, 0));
	printf("%d failed\n", failures);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
