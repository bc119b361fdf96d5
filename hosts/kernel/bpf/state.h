/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the scheduler remembers, and under which lock.
 *
 *   run_queue      the economy (core/include/tombola/economy.h): passes, orders, who waits. Under its own lock, always.
 *   client_state   what this host adds to a client of the economy; same index. Written under the same lock, but for what only
 *                  the CPU writes that has the leaf (precharge_ns, border_ns, frozen_ns, id), counts (wins, left) and a
 *                  currency's name, whose first letter is written last. Read without it where one number is wanted.
 *   task           what a thread knows of itself; by its leaf. Only from its own operations, which the kernel serializes.
 *   cpu            what runs where, and the slice timer. Written by that CPU; others read it, see slice.h for the races.
 *
 * There is one run queue: NR_QUEUES says so, and queue_of(0), which stands for it in what is not about one task. A task records
 * its queue, and accounting follows that, never the CPU on which the task is seen.
 */
#pragma once
#include "kernel.h"

#include <tombola/economy.h>
#include <tombola_abi.h>

#define NR_QUEUES 1
#define NR_CPUS 512
/* The other half of the clients is left for threads, however many users there are and currencies they make. */
#define NR_USERS (TB_CLIENTS / 2)
#define NR_CURRENCIES (TB_CLIENTS / 2)
/* Ranges of subordinate uids (/etc/subuid), at most. A power of two. */
#define NR_SUBORDINATE 4096

/* Nobody waits: look again after this long. */
#define SLICE_ALONE_NS 20000000ull
/*
 * Slices out of turn. For one that has waited longer than config.patience_ns, frozen or not: with what it takes to switch to it
 * and away again less than 1 ms in 40 s. And for one that is frozen in a system call.
 */
#define SLICE_OVERDUE_NS 20000ull
#define SLICE_URGENT_NS 250000ull
/* Such turns, and the switches to them, have one part in so many of a CPU that others want. */
#define OVERDUE_PART 100
#define URGENT_PART 30
/* The same when the oldest has waited for four times config.patience_ns: the kernel's watchdog waits for six times that. */
#define LATE_PART 5
/* Threads that are frozen in system calls and have turns for that, together and of one user, and how long one has them. */
#define NR_URGENT 512
#define NR_URGENT_OF_USER 32
#define URGENT_MOST_NS 1000000000ull
/* Each of a user's threads gets a slice in so much of the user's time, however many they are. */
#define ROUND_NS 2000000000ull
/* How often a slice is halved for who has few tickets. */
#define SLICE_HALVINGS_MAX 2
/* No other slice, and no cut of one, is shorter. */
#define SLICE_MIN_NS 100000ull

/* Set before load, constant afterwards. */
const volatile struct {
	struct tb_rules rules;
	u64 patience_ns;
	u32 nr_cpus;     /* that there may be */
	u32 online_cpus; /* that there are, for shares of one CPU */
	u32 tick_slices; /* let slices end at the tick, without timers */
} tombola_config = {
	.patience_ns = 5000000000,
	.nr_cpus = 1,
	.online_cpus = 1,
};

/* The core takes a plain pointer. The compiler must not see whose, or it would take the values above for the last word. */
static __always_inline const struct tb_rules *rules(void)
{
	const struct tb_rules *r = (const struct tb_rules *)&tombola_config.rules;

	asm volatile("" : "+r"(r));
	return r;
}

#define RULES rules()

struct run_queue {
	struct bpf_spin_lock lock;
	/* Of the wake-up that has the lock; here, as the verifier would tell apart each value of a local one. */
	volatile u32 verdict;
	volatile u64 meeting; /* where it and who has the CPU meet (tb_meet) */
	volatile u32 into;    /* the same of a move: the currency that it leads into */
	volatile u64 drawn;   /* and of a draw: who has won */
	/* Clients that wait in the frozen root and may hold something of the kernel's, from the first to before the last. */
	struct urgent {
		u64 number;
		u32 user; /* its user's client, when it came */
	} urgent[NR_URGENT];
	u32 urgent_first;
	u32 urgent_last;
	struct tb_queue economy;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_QUEUES);
	__type(key, u32);
	__type(value, struct run_queue);
} queues SEC(".maps");

struct client_state {
	u64 precharge_ns; /* what the pick of a running leaf charged in advance */
	u64 uncounted_ns; /* what it was charged for its run before the kernel had counted that (step_settle_running) */
	u64 wins;
	union {
		u32 left[TOMBOLA_QUANTUM_PARTS]; /* of a process: how much of its slices was left */
		char name[TOMBOLA_NAME]; /* of a currency */
	};
	u32 serial;  /* how often this state was taken: clients are used again */
	u32 id;      /* uid of a user and of a currency's owner, tgid, tid */
	u32 tgid;    /* of a thread or process */
	u32 user;    /* the client of the user that it belongs to; that one outlives it */
	u32 owned;   /* of a user: clients that belong to it */
	u32 made;    /* of a user: currencies */
	u32 urgent;  /* of a user: entries of run_queue.urgent */
	u32 child;   /* the client that it forked last, */
	u32 child_tid; /* and whose that was */
	u64 border_ns; /* of a frozen leaf: its CPU time when seen at the border to user mode, holding nothing of the kernel's */
	u64 frozen_ns; /* of a leaf: CPU time that it has had since it was frozen */
	u64 home;    /* of one in the frozen root or with a reservation: number of the currency that it comes from */
	u16 limit;   /* the most tickets that its owner may give it, as an administrator said; or TOMBOLA_NO_LIMIT */
	u8 frozen;   /* it has no tickets, and belongs into the frozen root */
	u8 closed;   /* of a currency that is about to end: nothing may come into it */
	u8 empty;    /* of a user: nothing belonged to it when purge_users looked last */
};

struct client_state client_states[TB_CLIENTS];

struct task {
	u32 queue;
	u32 client; /* leaf in that queue's economy; TB_NONE: gone */
	u32 uid;    /* its real one, when it was looked at last */
	u32 tgid;
	u64 unpaid_ns; /* what it has used, as far as counted, and was not charged yet */
	u64 exec_ns;  /* the kernel's count of its CPU time at the last settlement */
	u64 slice_ns; /* how long it may run */
	u64 sliced_ns; /* of that, used */
	u64 woken_sync; /* its waker is to sleep; from select_cpu to enqueue */
};

struct task tasks[TB_CLIENTS];

/* Which is a thread's. TB_NONE: not ours, or no place left. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u32);
} leaves SEC(".maps");

/* uid -> number of the user's client (number_of). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NR_USERS);
	__type(key, u32);
	__type(value, u64);
} users SEC(".maps");

/* Ranges of uids that belong to other users, in ascending order; what is behind the last one is zero. Written by the daemon. */
struct subordinate {
	u32 first;
	u32 count;
	u32 owner;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, NR_SUBORDINATE);
	__type(key, u32);
	__type(value, struct subordinate);
} subordinates SEC(".maps");

/* tgid of a process with several threads -> client. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TB_CLIENTS);
	__type(key, u32);
	__type(value, u32);
} processes SEC(".maps");

/* Owner and name -> number of the client. */
struct currency_name {
	u32 uid;
	char name[TOMBOLA_NAME];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NR_CURRENCIES);
	__type(key, struct currency_name);
	__type(value, u64);
} currencies SEC(".maps");

struct cpu {
	u32 leaf;       /* who runs here; TB_NONE: nobody of ours */
	u32 armed;      /* the timer is running */
	u32 next;       /* who woke up, is in the CPU's own queue and has not run since */
	u32 beaten;     /* from whom it takes the CPU; TB_NONE: that one goes on */
	u32 doubtful;   /* whether another may be the better choice by now */
	u64 since_ns;   /* since when, or since the last settlement */
	u64 end_ns;     /* when the slice is to end */
	u64 timer_ns;   /* when the timer will fire */
	u64 turn_ns;    /* since when one has it out of turn; 0: none */
	u64 turn_end_ns; /* when the last one had had it, */
	u64 turn_took_ns; /* for how long, */
	u32 urgent;     /* and whether it was an urgent one's turn */
} __attribute__((aligned(64)));

struct cpu cpus[NR_CPUS];
u32 nr_subordinates; /* ranges in `subordinates`; written by the daemon */
u32 users_left; /* some user may have nothing any more (purge_users) */
u32 lone_slices; /* some CPU may have a slice for a thread alone */
u64 counters[TOMBOLA_COUNTERS];
u64 nr_processes; /* entries of `processes` */
u32 root_client; /* root's currency */
u32 default_base = TB_BASE_TICKETS_DEFAULT; /* base tickets of users who come */
u32 root_base = TB_BASE_TICKETS_DEFAULT; /* base tickets of root, who may hold more (root_keeps_up) */
u32 root_share = TOMBOLA_ROOT_DEFAULT;
u32 reserved; /* tickets of all reservations. Under the lock */
u32 nr_currencies; /* that users have made. Under the lock */
u32 base_changed; /* since the daemon last looked, users have come or have other base tickets; the daemon clears it */
u32 structure; /* how often currencies were made or moved. Under the lock */
u32 running; /* 1 between ops.init and ops.exit */
u32 trace_on SEC(".data.trace"); /* in a map of its own, which `tombola trace` opens and writes */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} draws SEC(".maps");

/* Wakes the daemon, which sleeps until it has something to do. What it is about, it looks up itself. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 12);
} daemon_events SEC(".maps");

static __always_inline void wake_daemon(void)
{
	u64 nothing = 0;

	bpf_ringbuf_output(&daemon_events, &nothing, sizeof(nothing), 0);
}

/*
 * Once for all changes until it has looked: nobody can keep it busy. The exchange is a barrier, as the daemon's is: it sees the
 * change, or is told of it.
 */
static __always_inline void tell_of_base(void)
{
	if (!__sync_lock_test_and_set(&base_changed, 1))
		wake_daemon();
}

static __always_inline void count(enum tombola_counter what)
{
	__sync_fetch_and_add(&counters[what], 1);
}

/*
 * The clock of all plans. Not scx_bpf_now: it repeats the run queue's clock of the last scheduling event where a timer or
 * a remote wake-up asks, up to a tick ago.
 */
static __always_inline u64 now_ns(void)
{
	return bpf_ktime_get_ns();
}

static __always_inline struct run_queue *queue_of(u32 queue)
{
	return bpf_map_lookup_elem(&queues, &queue);
}

static __always_inline struct task *task_at(u32 client)
{
	return &tasks[client & (TB_CLIENTS - 1)];
}

/*
 * A thread in the kernel's hands and ours: asked several times at each switch. The number of its leaf is in a word that is
 * the scheduler's and that only queues ordered by time would use, which there are none of here (tombola_enable).
 */
static __always_inline struct task *task_of(struct task_struct *p)
{
	return task_at((u32)p->scx.dsq_vtime);
}

/* Any thread, of another class too. */
static __always_inline struct task *task_find(struct task_struct *p)
{
	u32 *leaf = bpf_task_storage_get(&leaves, p, 0, 0);

	return task_at(leaf ? *leaf : TB_NONE);
}

static __always_inline struct client_state *state_of(u32 client)
{
	return &client_states[client & (TB_CLIENTS - 1)];
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[(u32)cpu & (NR_CPUS - 1)];
}

static __always_inline u64 cpu_mask(s32 cpu)
{
	return 1ull << ((u32)cpu & 63);
}

/*
 * CPUs that do not ask for work, as cpu_mask has them: switched off, or on their way. The kernel stops asking when the CPU
 * ceases to be active, and says so (ops.cpu_offline) only when all RCU readers are through; one of them may wait for that very
 * CPU. A thread that may run on such a one only waits there until the kernel lifts its affinity, which it does when it is put
 * on the dying CPU: so anybody may draw it, and sends it there.
 */
static __always_inline u64 inactive_cpus(void)
{
	u64 active[NR_CPUS / 64], mask = 0;
	u32 words = (tombola_config.nr_cpus + 63) / 64, last = tombola_config.nr_cpus % 64;

	if (tombola_config.nr_cpus == 1)
		return 0;
	__builtin_memset(active, 0, sizeof(active));
	if (words > NR_CPUS / 64)
		words = NR_CPUS / 64;
	bpf_probe_read_kernel(active, words * sizeof(u64), &__cpu_active_mask);
	for (u32 i = 0; i < NR_CPUS / 64; i++) {
		if (i < words)
			mask |= ~active[i] & (i + 1 == words && last ? (1ull << last) - 1 : ~0ull);
	}
	return mask;
}

/*
 * May a thread not leave its CPU just now? A BPF program itself keeps the current thread where it is while it runs, so of the
 * current one the first count says nothing.
 */
static __always_inline bool is_bound(struct task_struct *p)
{
	return p->migration_disabled > (p == bpf_get_current_task_btf());
}

/* Where a thread may run, CPUs folded to 64 bits; a fold that misleads is found out when it is picked (dispatch). */
static __always_inline u64 mask_of(struct task_struct *p)
{
	if (is_bound(p))
		return cpu_mask(scx_bpf_task_cpu(p));
	if ((u32)p->nr_cpus_allowed >= tombola_config.nr_cpus || tombola_config.nr_cpus > 64)
		return ~0ull;
	return p->cpus_ptr->bits[0];
}

/* A client's number for user space: never that of another. Of a number, the client; TB_NONE if it is gone. */
static __always_inline u64 number_of(u32 client)
{
	return (u64)state_of(client)->serial << 32 | client;
}

static __always_inline u32 client_of(struct tb_queue *q, u64 number)
{
	u32 client = (u32)number;

	if (!client || client >= TB_CLIENTS || state_of(client)->serial != number >> 32)
		return TB_NONE;
	return tb_at(q, client)->kind == TB_KIND_FREE ? TB_NONE : client;
}

/* The client whose tickets are a process's: the leaf itself, or the currency of its threads. Under the lock. */
static __always_inline u32 process_of(struct tb_queue *q, u32 leaf)
{
	u32 parent = tb_at(q, leaf)->parent;

	return tb_at(q, parent)->kind == TB_KIND_PROCESS ? parent : leaf;
}
