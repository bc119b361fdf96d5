/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The private system calls, used through tombola.h and misused beside it, by a process without privileges.
 *
 * One line for each expectation. Status 0: all met; 1: not; 3: Tombola is not running.
 */
#include "tombola.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

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

static int raw_currency(int fd, unsigned int op, unsigned long long currency, unsigned long long value, const char *name)
{
	struct tombola_call call;

	memset(&call, 0, sizeof(call));
	call.op = op;
	if (op == TOMBOLA_MAKE_CURRENCY || op == TOMBOLA_FIND_CURRENCY)
		call.id = getuid();
	call.currency = currency;
	call.value = value;
	if (name)
		memcpy(call.name, name, TOMBOLA_NAME);
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

static void use_currencies(int fd)
{
	unsigned long long outer = 0, inner = 0, found = 0;
	uid_t uid = getuid();
	pid_t self = getpid();

	expect("make a currency", 0, tombola_make_currency(fd, uid, "outer", 300, 0, &outer));
	expect("make one inside", 0, tombola_make_currency(fd, uid, "inner", 10, outer, &inner));
	expect("find it", 0, tombola_find_currency(fd, uid, "inner", &found));
	expect("by its number", 1, found == inner && inner != outer);
	expect("its tickets", 10, tombola_get_currency_tickets(fd, uid, "inner"));
	expect("fund it", 0, tombola_fund_currency(fd, inner, 10000));
	expect("its new tickets", 10000, tombola_get_currency_tickets(fd, uid, "inner"));
	expect("enter", 0, tombola_enter(fd, self, inner));
	expect("move it", 0, tombola_move_currency(fd, inner, 0));
	expect("move it back", 0, tombola_move_currency(fd, inner, outer));
	expect("into itself", -ELOOP, tombola_move_currency(fd, inner, inner));
	expect("into what is in it", -ELOOP, tombola_move_currency(fd, outer, inner));
	expect("a name twice", -EEXIST, tombola_make_currency(fd, uid, "outer", 1, 0, &found));
	expect("0 tickets at first", -ERANGE, tombola_make_currency(fd, uid, "x", 0, 0, &found));
	expect("10001 tickets at first", -ERANGE, tombola_make_currency(fd, uid, "x", 10001, 0, &found));
	expect("10001 tickets for it", -ERANGE, tombola_fund_currency(fd, inner, 10001));
	expect("freeze an empty one", 0, tombola_fund_currency(fd, outer, 0) + tombola_fund_currency(fd, outer, 300));
	expect("leave", 0, tombola_leave(fd, self));
	expect("retire", 0, tombola_retire_currency(fd, inner));
	expect("retire twice", -ENOENT, tombola_retire_currency(fd, inner));
	expect("fund what was retired", -ENOENT, tombola_fund_currency(fd, inner, 100));
	expect("move what was retired", -ENOENT, tombola_move_currency(fd, inner, outer));
	expect("into what was retired", -ENOENT, tombola_move_currency(fd, outer, inner));
	expect("enter what was retired", -ENOENT, tombola_enter(fd, self, inner));
	expect("make in what was retired", -ENOENT, tombola_make_currency(fd, uid, "x", 1, inner, &found));
	expect("find what was retired", -ENOENT, tombola_find_currency(fd, uid, "inner", &found));
	expect("retire the outer", 0, tombola_retire_currency(fd, outer));
	expect("what is reserved", 1, tombola_get_reserved(fd, TOMBOLA_RESERVED_MACHINE) >= TOMBOLA_SHARE_ONE);
	expect("nothing reserved", 0, tombola_get_reserved(fd, TOMBOLA_RESERVED_ALL));
}

/* A process that sleeps. */
static pid_t sleeper(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	for (;;)
		pause();
}

/* It has 300 tickets. */
static void use_loans(int fd)
{
	pid_t self = getpid(), child = sleeper();

	expect("lend", 0, tombola_lend(fd, self, child, 100, 0));
	expect("tickets that are left", 200, tombola_get_tickets(fd, self));
	expect("lend for a time", 0, tombola_lend(fd, self, child, 50, 600000));
	expect("what the borrower has of its own", 300, tombola_get_tickets(fd, child));
	expect("lend all that is left", -ERANGE, tombola_lend(fd, self, child, 150, 0));
	expect("lend none", -ERANGE, tombola_lend(fd, self, child, 0, 0));
	expect("lend 2^32 - 1", -ERANGE, tombola_lend(fd, self, child, ~0u, 0));
	expect("lend to itself", -EINVAL, tombola_lend(fd, self, self, 10, 0));
	expect("lend to no process", -ESRCH, tombola_lend(fd, self, NO_PID, 10, 0));
	expect("lend to another user's", -EPERM, tombola_lend(fd, self, 1, 10, 0));
	expect("lend another user's", -EPERM, tombola_lend(fd, 1, self, 10, 0));
	expect("lend another user's while it waits", -EPERM, tombola_lend_while_waiting(fd, 1, self, 0));
	expect("reclaim another user's", -EPERM, tombola_reclaim(fd, 1, 0));
	expect("tickets are still so many", 150, tombola_get_tickets(fd, self));
	expect("reclaim", 2, tombola_reclaim(fd, self, child));
	expect("tickets again", 300, tombola_get_tickets(fd, self));
	expect("reclaim twice", -ENOENT, tombola_reclaim(fd, self, child));
	expect("lend while waiting", 0, tombola_lend_while_waiting(fd, self, child, 0));
	expect("to itself", -EINVAL, tombola_lend_while_waiting(fd, self, self, 0));
	expect("reclaim that", 1, tombola_reclaim(fd, self, 0));
	expect("lend the next time", 0, tombola_lend_while_waiting(fd, self, child, 1));
	expect("lend before the borrower exits", 0, tombola_lend(fd, self, child, 100, 0));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	/* Kernels before 6.18 may report the exit later. */
	tombola_reclaim(fd, self, 0);
	expect("tickets after that", 300, tombola_get_tickets(fd, self));
}

static void be_refused_currencies(int fd)
{
	static const char *const names[] = { "", "-a", "a b", "a/b", "a:b", "\xc3\xa4", "a-name-of-24-characters_" };
	unsigned long long left = 0, own = 0, found = 0;
	uid_t uid = getuid();
	pid_t self = getpid();

	expect("one of its own", 0, tombola_make_currency(fd, uid, "own", 100, 0, &own));
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		expect("a name that is none, make", -EINVAL, tombola_make_currency(fd, uid, names[i], 1, 0, &found));
		expect("a name that is none, find", -EINVAL, tombola_find_currency(fd, uid, names[i], &found));
	}
	expect("no such currency", -ENOENT, tombola_find_currency(fd, uid, "absent", &found));
	expect("another user's, make", -EPERM, tombola_make_currency(fd, 0, "x", 1, 0, &found));
	expect("another user's, find", -EPERM, tombola_find_currency(fd, 0, "x", &found));
	expect("another user's process, enter", -EPERM, tombola_enter(fd, 1, own));
	expect("another user's process, leave", -EPERM, tombola_leave(fd, 1));
	expect("no such process, enter", -ESRCH, tombola_enter(fd, NO_PID, own));
	expect("reserve for a process", -EPERM, tombola_reserve_process(fd, self, 100, &left));
	expect("reserve for a currency", -EPERM, tombola_reserve_currency(fd, own, 100, &left));
	expect("release", -EPERM, tombola_reserve_process(fd, self, 0, NULL));
	expect("the floor", -EPERM, tombola_set_floor(fd, 5000));
	expect("root's part", -EPERM, tombola_set_root(fd, 100));
	expect("the default", -EPERM, tombola_set_default(fd, 500));
	expect("a number that is nobody's", -ENOENT, tombola_fund_currency(fd, ~0ull, 100));
	/* A user, a process, base: they have numbers, too. */
	for (unsigned long long i = 1; i < 64; i++) {
		found = i | 1ull << 32;
		if (found != own && tombola_retire_currency(fd, found) != -ENOENT)
			expect("what is no currency, or another's, retire", -ENOENT, 0);
	}
	expect("its own is still there", 100, tombola_get_currency_tickets(fd, uid, "own"));
	expect("and goes", 0, tombola_retire_currency(fd, own));
}

static void be_refused(int fd)
{
	pid_t self = getpid();

	expect("0 base tickets of its own", -EPERM, tombola_set_base_tickets(fd, getuid(), 0));
	expect("0 base tickets of root", -ERANGE, tombola_set_base_tickets(fd, 0, 0));
	expect("0 tickets of the first process", -ERANGE, tombola_set_tickets(fd, 1, 0));
	expect("-1 tickets", -ERANGE, tombola_set_tickets(fd, self, (unsigned int)-1));
	expect("10001 tickets", -ERANGE, tombola_set_tickets(fd, self, 10001));
	expect("99 base tickets", -ERANGE, tombola_set_base_tickets(fd, getuid(), 99));
	expect("base tickets above the default", -EPERM, tombola_set_base_tickets(fd, getuid(), 1001));
	expect("another user's base tickets", -EPERM, tombola_set_base_tickets(fd, 0, 100));
	expect("another user's process", -EPERM, tombola_set_tickets(fd, 1, 100));
	expect("be a server for all", -EPERM, tombola_set_server(fd, self, 1));
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
	char large[4096], unended[TOMBOLA_NAME];

	expect("garbage operation", -ENOSYS, raw(fd, 0xdeadbeef, self, 0));
	expect("next operation", -ENOSYS, raw(fd, TOMBOLA_SET_SERVER + 1, self, 0));
	expect("counter beyond the last", -EINVAL, raw(fd, TOMBOLA_GET_COUNTER, TOMBOLA_COUNTERS, 0));
	expect("oversized counter", -EINVAL, raw(fd, TOMBOLA_GET_COUNTER, 0xffffffff, 0));
	expect("oversized process", -ESRCH, raw(fd, TOMBOLA_GET_TICKETS, 0xffffffff, 0));
	expect("value where none belongs", -EINVAL, raw(fd, TOMBOLA_GET_TICKETS, self, 1));
	expect("a limit, without privilege", -EPERM, raw(fd, TOMBOLA_SET_TICKETS, self, (1ull << TOMBOLA_LIMIT_SHIFT) + 100));
	expect("amount of 2^64 - 1", -ERANGE, raw(fd, TOMBOLA_SET_TICKETS, self, ~0ull));

	memset(unended, 'a', sizeof(unended));
	expect("a name without end", -EINVAL, raw_currency(fd, TOMBOLA_MAKE_CURRENCY, 0, 1, unended));
	unended[1] = 0;
	expect("a name that goes on after its end", -EINVAL, raw_currency(fd, TOMBOLA_MAKE_CURRENCY, 0, 1, unended));
	memset(unended + 1, 0, sizeof(unended) - 1);
	expect("a name where none belongs", -EINVAL, raw_currency(fd, TOMBOLA_FUND_CURRENCY, 1, 1, unended));
	expect("a currency where none belongs", -EINVAL, raw_currency(fd, TOMBOLA_FIND_CURRENCY, 1, 0, unended));
	expect("a value where none belongs", -EINVAL, raw_currency(fd, TOMBOLA_RETIRE_CURRENCY, 1, 1, NULL));
	expect("a currency of 2^32 + 100 tickets", -ERANGE,
	       raw_currency(fd, TOMBOLA_MAKE_CURRENCY, 0, (1ull << 32) + 100, unended));
	expect("a currency of 2^64 - 1 tickets", -ERANGE, raw_currency(fd, TOMBOLA_MAKE_CURRENCY, 0, ~0ull, unended));
	expect("which was not made", -ENOENT, raw_currency(fd, TOMBOLA_FIND_CURRENCY, 0, 0, unended));
	expect("a reservation of 2^64 - 1", -EPERM, raw(fd, TOMBOLA_RESERVE, self, ~0ull));
	expect("a floor of 2^64 - 1", -EPERM, raw(fd, TOMBOLA_SET_FLOOR, 0, ~0ull));

	memset(large, 0xff, sizeof(large));
	expect("no context", -EINVAL, tombola_run_(fd, large, 0));
	expect("half a context", -EINVAL, tombola_run_(fd, large, sizeof(struct tombola_call) / 2));
	expect("a large context of ones", -1, tombola_run_(fd, large, sizeof(large)) < 0 ? -1 : 0);
	expect("a null context", -EINVAL, tombola_run_(fd, NULL, sizeof(struct tombola_call)));

	memset(&tree, 0xff, sizeof(tree));
	expect("a tree from beyond the last", 0, tombola_run_(tree_fd, &tree, sizeof(tree)));
	expect("has no nodes", 0, tree.count);
	expect("half a tree", -EINVAL, tombola_run_(tree_fd, &tree, sizeof(tree) / 2));
	expect("the trace's pins", -EACCES, tombola_open_pin_(TOMBOLA_PIN_DIR "/trace/runs"));
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
	use_currencies(fd);
	use_loans(fd);
	be_refused(fd);
	be_refused_currencies(fd);
	tamper(fd, tree_fd);
	expect("tickets are unchanged", 300, tombola_get_tickets(fd, getpid()));
	expect("base tickets are unchanged", TOMBOLA_BASE_TICKETS_DEFAULT, tombola_get_base_tickets(fd, getuid()));
	expect("root's base tickets are unchanged", root_base, tombola_get_base_tickets(fd, 0));
	printf("%d failed\n", failures);
	return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
