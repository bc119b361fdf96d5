/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whom a sleeping thread waits for, of programs that know nothing of loans. No system call is hooked: what a thread sleeps in is
 * read when it stops, and who woke it when it wakes up. In both operations the current task is the one that is asked about.
 *
 *   sleeps in                                          lends to
 *   read, recv, poll of one descriptor, msgrcv         the thread that answers there (answers.h)
 *   a glibc mutex, a priority-inheritance futex        its owner, whom the lock names
 *   another futex (a condition variable)               the thread that woke it last
 *   a mutex or a semaphore of the kernel's             its holder
 *   epoll, select, poll of several, accept             nobody: it serves others next (LOANS_PASS)
 *   wait, a pause, ...                                 nobody
 *
 * Who answers is learnt from wake-ups. A thread that sends to an object and so wakes a thread that sleeps on it has answered. And
 * the thread that was woken has the sender's request, and is to answer on the sender's own end; so is one that reads it, if that
 * wakes the sender. So a sleeper's object must be the one that was sent to: the same pipe, eventfd, queue or futex, or the other
 * end of the connection. Nobody else can make itself the one who answers.
 *
 * Where now one thread answers and now another, as several producers do, a sleeper waits for none of them in particular. So a
 * thread that has not got the request, and answers where another one answered last, is known to be the one when it answers again.
 *
 * Another thread may close or replace a descriptor meanwhile, and an entry may be outdated, or written by two at once. Then a
 * loan goes to another thread of the same user, or of a server that the rules name, and ends when the lender wakes up or the
 * borrower sleeps.
 */
#pragma once
#include "answers.h"
#include "loans.h"

/* System calls by what they do, of the numbers below NR_CALLS. Written by the loader, as the numbers are the architecture's. */
#define NR_CALLS 512
enum call { CALL_OTHER, CALL_RECEIVE, CALL_SEND, CALL_POLL, CALL_SERVE, CALL_FUTEX, CALL_RECEIVE_MESSAGE, CALL_SEND_MESSAGE };
const volatile u8 system_calls[NR_CALLS];

/* Operations of a futex that wait (futex(2)), and parts of an operation. */
enum {
	FUTEX_WAIT = 0,
	FUTEX_LOCK_PI = 6,
	FUTEX_WAIT_BITSET = 9,
	FUTEX_LOCK_PI2 = 13,
	FUTEX_COMMAND = 127,
	FUTEX_PRIVATE = 128,
	FUTEX_TID = 0x3fffffff, /* of the owner, in the word of a priority-inheritance futex */
};

/* What a glibc mutex holds while others wait for it, and where its owner's tid is, in words. Part of glibc's ABI. */
#define MUTEX_CONTENDED 2
#define MUTEX_OWNER 2

enum { AF_UNIX = 1, AF_INET = 2, AF_INET6 = 10 };

static __always_inline void set(struct object *object, enum object_kind kind, u64 a, u64 b)
{
	object->a = a;
	object->b = b << 8 | kind;
}

/* The two ends of an internet socket are known by their addresses and ports, in a network namespace. */
static __always_inline void internet_ends(struct sock *sk, struct endpoint *e)
{
	u64 local = sk->__sk_common.skc_rcv_saddr, remote = sk->__sk_common.skc_daddr;
	u64 port = sk->__sk_common.skc_num, to = bpf_ntohs(sk->__sk_common.skc_dport);
	u64 net;

	e->here.a = (u64)sk->__sk_common.skc_net.net;
	net = e->here.a >> 6 & 0xffffff;
	set(&e->here, INTERNET_SOCKET, local << 32 | remote, net << 32 | port << 16 | to);
	set(&e->there, INTERNET_SOCKET, remote << 32 | local, net << 32 | to << 16 | port);
}

/* Of a descriptor of the current task. Reads of pointers that are invalid by now give 0. No interrupt does this. */
static __noinline int look_up(struct task_struct *p, u32 fd, struct endpoint *e)
{
	struct files_struct *files = p->files;
	struct fdtable *table;
	struct file *file;
	u64 operations, private;

	e->here.b = e->there.b = NO_OBJECT;
	if (!files)
		return 0;
	table = files->fdt;
	if (fd >= table->max_fds)
		return 0;
	file = read_pointer(table->fd + fd, struct file);
	operations = (u64)file->f_op;
	private = (u64)file->private_data;
	if (!operations)
		return 0;
	if (operations == tombola_config.pipe_files || operations == tombola_config.fifo_files) {
		set(&e->here, PIPE, private, 0);
		e->there = e->here;
	} else if (operations == tombola_config.eventfd_files) {
		set(&e->here, EVENTFD, private, 0);
		e->there = e->here;
	} else if (operations == tombola_config.socket_files) {
		struct sock *sk = as(as(file->private_data, struct socket)->sk, struct sock);
		u16 family = sk->__sk_common.skc_family;

		if (family == AF_UNIX) {
			set(&e->here, UNIX_SOCKET, (u64)sk, 0);
			set(&e->there, UNIX_SOCKET, (u64)as(sk, struct unix_sock)->peer, 0);
		} else if (family == AF_INET || family == AF_INET6) {
			internet_ends(sk, e);
		}
	}
	return 0;
}

/*
 * Has the thread that sleeps there made the connection? The Unix socket that was connected to has an address, and the internet
 * socket the smaller port, since those that the kernel gives to connecting ends are from 32768 on.
 */
static __always_inline bool has_connected(const struct object *here)
{
	u64 kind = here->b & 0xff, ports = here->b >> 8;

	if (kind == UNIX_SOCKET)
		return !as((void *)here->a, struct unix_sock)->addr;
	return kind == INTERNET_SOCKET && (ports >> 16 & 0xffff) > (ports & 0xffff);
}

/* The system call that the current task is in. */
static __always_inline enum call call_of(struct task_struct *p, struct pt_regs *regs)
{
	u64 number = regs->orig_ax;

	if (p->flags & (PF_EXITING | PF_KTHREAD | PF_USER_WORKER) || p->thread_info.status & TS_COMPAT || number >= NR_CALLS)
		return CALL_OTHER;
	return system_calls[number];
}

static __always_inline void futex_object(struct task_struct *p, u64 address, struct object *object)
{
	set(object, FUTEX, (u64)p->mm, address);
}

static __always_inline void queue_object(struct task_struct *p, u64 id, struct object *object)
{
	set(object, QUEUE, (u64)p->nsproxy->ipc_ns, id);
}

/* A thread that is known by its address; 0: it is none of ours. */
static __always_inline u64 number_of_task(struct task_struct *p)
{
	u32 leaf = slot((u32)p->scx.dsq_vtime);

	return leaf && state_of(leaf)->id == (u32)p->pid ? number_of(leaf) : 0;
}

/* The owner of a lock, whose tid the current thread has read there: of the same process if the lock is private. */
static __always_inline u64 lock_owner(struct task_struct *p, u32 tid, bool private)
{
	struct task_struct *owner = bpf_task_from_vpid((s32)tid);
	u64 number = 0;

	if (!owner)
		return 0;
	if (!private || owner->tgid == p->tgid)
		number = number_of_task(owner) | LOAN_LASTS;
	bpf_task_release(owner);
	return number;
}

static __noinline u64 waits_for_futex(struct task_struct *p, struct pt_regs *regs, struct task *t)
{
	u32 op = (u32)regs->si & FUTEX_COMMAND, words[MUTEX_OWNER + 1];
	bool private = regs->si & FUTEX_PRIVATE;
	u64 address = regs->di;

	switch (op) {
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
		if (bpf_probe_read_user(words, sizeof(words[0]), (void *)address))
			return 0;
		return lock_owner(p, words[0] & FUTEX_TID, private);
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (!private && (u32)regs->dx != MUTEX_CONTENDED)
			return 0;
		if ((u32)regs->dx == MUTEX_CONTENDED && !bpf_probe_read_user(words, sizeof(words), (void *)address) &&
		    words[0] == MUTEX_CONTENDED && words[MUTEX_OWNER]) {
			u64 owner = lock_owner(p, words[MUTEX_OWNER], private);

			if (owner)
				return owner;
		}
		if (!private)
			return 0;
		futex_object(p, address, &t->end.here);
		return who_answers(&t->end.here);
	default:
		return 0;
	}
}

/*
 * A thread sleeps uninterruptibly. If the kernel notes for which lock (DETECT_HUNG_TASK_BLOCKER), and that is a mutex, or a
 * semaphore that a writer holds, it lends to the holder. A thread that has lost the CPU inside of a system call may hold one.
 */
static __noinline u64 waits_for_kernel_lock(struct task_struct *p)
{
	u64 blocker, holder;

	if (!bpf_core_field_exists(p->blocker))
		return 0;
	blocker = p->blocker;
	if (!(blocker & ~BLOCKER_KINDS) || (blocker & BLOCKER_KINDS) == BLOCKER_SEMAPHORE)
		return 0;
	if (blocker & BLOCKER_KINDS)
		holder = as((void *)(blocker & ~BLOCKER_KINDS), struct rw_semaphore)->owner.counter;
	else
		holder = as((void *)blocker, struct mutex)->owner.counter;
	if (blocker & BLOCKER_KINDS && holder & RWSEM_READER_OWNED)
		return 0;
	holder &= ~OWNER_FLAGS;
	return holder ? number_of_task(as((void *)holder, struct task_struct)) | LOAN_LASTS : 0;
}

/* Do threads lend that were not asked to? */
static __always_inline bool is_automatic(void)
{
	return transfers() && tombola_config.transfer == TRANSFER_AUTO;
}

/* What a thread lends by a call, it lends for the user that it had then. */
static __always_inline u64 lends_by_call(struct task_struct *p, struct task *t)
{
	const struct cred *cred = p->real_cred;
	u64 to = t->will_lend_to;
	bool other = !cred || cred->uid.val != t->uid;

	if (t->once || other)
		t->will_lend_to = 0;
	return other ? 0 : to | LOAN_LASTS | LOAN_BY_CALL;
}

/* The loan that is to be made as the current thread goes to sleep (LOAN_FLAGS, loans.h). */
static __noinline u64 sleeps_for(struct task_struct *p, struct task *t)
{
	struct object *here = &t->end.here;
	struct pt_regs *regs;
	struct {
		s32 fd, events;
	} polled;

	if (!transfers())
		return 0;
	here->b = NO_OBJECT;
	if (bpf_get_current_task_btf() != p)
		return 0;
	if (p->__state & TASK_UNINTERRUPTIBLE)
		return LOANS_STAY | (is_automatic() ? waits_for_kernel_lock(p) : 0);
	if (t->will_lend_to)
		return lends_by_call(p, t);
	if (!is_automatic())
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(p);
	switch (call_of(p, regs)) {
	case CALL_FUTEX:
		return waits_for_futex(p, regs, t);
	case CALL_RECEIVE_MESSAGE:
		queue_object(p, regs->di, here);
		break;
	case CALL_RECEIVE:
		look_up(p, (u32)regs->di, &t->end);
		break;
	case CALL_POLL:
		set(here, MANY, 0, 0);
		if (regs->si != 1 || bpf_probe_read_user(&polled, sizeof(polled), (void *)regs->di))
			return LOANS_PASS;
		look_up(p, (u32)polled.fd, &t->end);
		break;
	case CALL_SERVE:
		set(here, MANY, 0, 0);
		return LOANS_PASS;
	default:
		return 0;
	}
	return who_answers(here) | (has_connected(here) ? LOAN_OF_CLIENT : 0);
}

/* A thread wakes up: what does its waker, the current task, tell of who answers whom? */
static __noinline int note_waker(struct task_struct *p, struct task *t)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task *w = task_of(waker);
	struct object *sent = &w->end.there, *end = &w->end.here;
	struct pt_regs *regs;

	if (waker == p || !w->client)
		return 0;
	/* That it would answer has been known since the loan was made. */
	if (tb_global_pool.client[slot(t->client)].lends_to == w->client)
		return 0;
	if (state_of(w->client)->id != (u32)waker->pid || !outside_hardirq())
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(waker);
	switch (call_of(waker, regs)) {
	case CALL_SEND:
		look_up(waker, (u32)regs->di, &w->end);
		if (is_same(&t->end.here, sent))
			note_answer(sent, number_of(w->client));
		else if (t->end.here.b != MANY)
			return 0;
		if (end->b && !is_same(end, sent))
			note_request(end, number_of(t->client));
		return 0;
	case CALL_RECEIVE:
		/* A Unix stream wakes its other end when it is read, if only for space; a pipe may wake its next reader. */
		look_up(waker, (u32)regs->di, &w->end);
		if (is_same(&t->end.here, sent) && !is_same(end, sent))
			note_request(sent, number_of(w->client));
		return 0;
	case CALL_FUTEX:
		futex_object(waker, regs->di, sent);
		break;
	case CALL_SEND_MESSAGE:
		queue_object(waker, regs->di, sent);
		break;
	default:
		return 0;
	}
	if (is_same(&t->end.here, sent))
		note_answer(sent, number_of(w->client));
	return 0;
}

/*
 * A lender wakes up. If it pays for a run of another user's thread, that run's slice ends: a draw decides who pays for what
 * follows.
 */
static __noinline int end_run_for_stranger(u32 lender)
{
	struct run_queue *rq = first_queue();
	u32 thread;
	s32 cpu;

	if (!rq)
		return 0;
	thread = tb_borrower(&rq->economy, lender);
	cpu = (s32)task_at(thread)->cpu;
	if (state_of(thread)->user != state_of(lender)->user && cpu_of(cpu)->leaf == thread &&
	    is_lent_by(&rq->economy, account_of(thread), lender))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	return 0;
}

/* Called once for each wake-up, by the waker. */
static __always_inline void woken(struct task_struct *p, struct task *t)
{
	if (lends(t->client))
		end_run_for_stranger(t->client);
	if (is_automatic() && t->end.here.b)
		note_waker(p, t);
}
