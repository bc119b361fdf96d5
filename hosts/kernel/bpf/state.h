/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's state, and the lock that protects it.
 *
 *   run_queue      the economy (core/include/tombola/economy.h): passes, orders, waiting clients. Written under its own lock,
 *                  but for grace_s (minor_timer); read without it where an outdated answer does no harm.
 *   client_state   what this host adds to a client of the economy; same index. Written under the same lock, except for a leaf's
 *                  stopped_at, frozen_ns and id, which its thread's operations write; counts (wins, left); and a currency's
 *                  name, whose first letter is written last. Read without the lock where one number is wanted.
 *   task           a thread's own accounts; by its leaf. Written by its own operations, which the kernel serializes.
 *   cpu            what runs on a CPU, and its slice timer. Written by that CPU, and some fields by others; see slice.h.
 *
 * There is one run queue (the_queue) for all CPUs.
 */
#pragma once
#include "kernel.h"

#include <tombola/economy.h>
#include <tombola_abi.h>

/* After the roots, which are never freed. */
#define FIRST_SLOT (TB_FROZEN + 1)
#define NR_CPUS 512
/* At most so many users and currencies. Threads share the same slots; may_own bounds what one user takes. */
#define NR_USERS (TB_CLIENTS / 2)
#define NR_CURRENCIES (TB_CLIENTS / 2)
/* The most ranges of subordinate uids (/etc/subuid). A power of two. */
#define NR_SUBORDINATE 4096

/* The slice of a thread while no other waits. */
#define SLICE_ALONE_NS 20000000ull
/*
 * Slices out of turn. The first is for a thread that has waited longer than patience_ns, frozen or not: with the switches
 * to it and away again less than 1 ms in 40 s. The second is for an urgent thread (turns.h).
 */
#define SLICE_OVERDUE_NS 20000ull
#define SLICE_URGENT_NS 250000ull
/* After a slice out of turn, a CPU that others want is theirs for so many times as long as that slice took. */
#define OVERDUE_PAUSE 100
#define URGENT_PAUSE 30
/*
 * The same once the overdue leaf has waited for 4 x tombola_config.patience_ns, and for urgent turns once a grace period is late.
 * From 5 x patience_ns on, the pauses, and all slices that are not out of turn, are SLICE_MIN_NS. The kernel's watchdog waits for
 * 6 x patience_ns. An overdue leaf that has waited for 4 x patience_ns is preempted as soon as it is switched to: that is all the
 * watchdog asks for. Where a thread loses the CPU it can lose it again at once, but if it went on, a system call that cannot be
 * preempted might last for tens of milliseconds.
 */
#define LATE_PAUSE 5
/*
 * Urgent leaves of a kind (enum urgency) at a time: at most so many in all, a power of two; and of one user, frozen ones and
 * readers. A frozen one is urgent for so much CPU time.
 */
#define NR_URGENT 2048
#define NR_FROZEN_OF_USER 32
#define NR_READERS_OF_USER 256
#define URGENT_MOST_NS 1000000000ull
/* A grace period that has lasted for so long, s, is late (turns.h). The kernel reports a stall after 21 s. */
#define GRACE_LATE_S 10
/* Slices are shortened, not below SLICE_MIN_NS, so that equal threads all run within so much CPU time (slice_for). */
#define ROUND_NS 2000000000ull
/* How often a slice is halved for a client with few tickets. */
#define SLICE_HALVINGS_MAX 2
/*
 * Shorter are only the slices of overdue leaves, and of a leaf that was frozen after it was drawn. A preemption may end any slice
 * at once.
 */
#define SLICE_MIN_NS 100000ull

/* Set before load, constant afterwards. */
const volatile struct {
	struct tb_rules rules;
	u64 patience_ns; /* a leaf that has waited for longer is overdue; minor_timer fires five times as often */
	u32 nr_cpus;     /* possible ones */
	u32 online_cpus; /* for shares of one CPU */
	/* The addresses of variables of the kernel's */
	u64 active_cpus; /* __cpu_active_mask */
	u64 rcu_state;   /* 0: there is none */
	u32 tick_slices; /* let slices longer than SLICE_URGENT_NS end at the tick, without timers */
} tombola_config = {
	.patience_ns = 5000000000,
	.nr_cpus = 1,
	.online_cpus = 1,
};

/* The core takes a plain pointer. The compiler must not see its origin, or it would take the values above for constants. */
static __always_inline const struct tb_rules *rules(void)
{
	const struct tb_rules *r = (const struct tb_rules *)&tombola_config.rules;

	tb_forget(r);
	return r;
}

#define RULES rules()

struct run_queue {
	struct bpf_spin_lock lock;
	/* Of the step that has the lock. Not local variables: the verifier would walk what follows once for each value. */
	volatile u32 verdict;
	volatile u64 both;    /* of a wait: where its leaf and the running one meet (tb_meet); 0: none runs */
	volatile u32 into;    /* of a move: the currency that it leads into */
	volatile u64 drawn;   /* of a draw: the winner, and the DRAW_ bits */
	u32 grace_s; /* so many seconds, at least, an RCU grace period has lasted; 0: none has for long */
	struct tb_queue economy;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct run_queue);
} run_queue SEC(".maps");

/* Why a waiting leaf is urgent (turns.h): it is frozen in a system call, or keeps an RCU grace period from ending. */
enum urgency { URGENT_FROZEN, URGENT_READER, URGENCIES };

/* Urgent leaves of each kind, from `first` to before `last`. Under the lock. In run_queue they would make offsets large. */
struct urgent_leaf {
	u64 number;
	u32 user; /* its user's client when it was added */
};

struct urgent_leaves {
	u32 first;
	u32 last;
	struct urgent_leaf leaf[NR_URGENT];
} urgent_leaves[URGENCIES];

/*
 * client_state.stopped_at of a thread that lost the CPU in an RCU read section, or in the slice in which it left one: the kernel
 * forgets the section before it reports its end, and the thread can lose the CPU in between. No exec_ns is as large.
 */
#define IN_RCU_SECTION (~0ull)
#define LEFT_RCU_SECTION (~0ull - 1)

struct client_state {
	u64 precharge_ns; /* what a leaf was charged in advance for its run */
	u64 uncounted_ns; /* charged for its run before the kernel had counted it (step_settle_running) */
	u64 wins;
	union {
		u32 left[TOMBOLA_QUANTUM_PARTS]; /* of a process: how much of its slices was left */
		char name[TOMBOLA_NAME]; /* of a currency */
	};
	u32 serial;  /* how often this slot was taken: slots are reused */
	u32 id;      /* uid of a user and of a currency's owner, tgid, tid */
	u32 tgid;    /* of a thread or process */
	u32 user;    /* its user's client, which outlives it */
	u32 owned;   /* of a user: clients that belong to it */
	u32 made;    /* of a user: its currencies */
	u32 structure_version; /* of a user: changes when a currency of it is made, moved, closed, opened again or retired */
	u32 nr_urgent[URGENCIES]; /* of a user: entries of urgent_leaves */
	/* Of a process: the first thread of the process that it forked last. charge_heir clears this client atomically. */
	u32 child;
	u32 child_tid; /* that thread's tid, */
	u64 forked_ns; /* and its own young_ns then, with the run that was not charged yet */
	/* Of a leaf: where it lost the CPU last. IN_RCU_SECTION, LEFT_RCU_SECTION; in user mode: its exec_ns; else 0. */
	u64 stopped_at;
	u64 frozen_ns; /* of a leaf: CPU time used since it was frozen, and by its forker before the fork */
	u64 home;    /* of a client of the frozen root or of a reservation: number of the currency that it comes from */
	u16 limit;   /* the most tickets that its owner may give it, set by an administrator; or TOMBOLA_NO_LIMIT */
	u8 frozen;   /* it was given no tickets, and belongs into the frozen root */
	u8 urgent;   /* of a leaf: it is among urgent_leaves, a bit for each kind */
	u8 closed;   /* of a currency or user that is about to be removed: nothing may be moved into it */
	u8 empty;    /* of a user: no client belonged to it when purge_users looked last */
};

struct client_state client_states[TB_CLIENTS];

struct task {
	u32 client; /* leaf in the economy; TB_NONE: it has exited */
	u32 uid;    /* its real uid when it was last looked at */
	u32 tgid;
	u64 unpaid_ns; /* CPU time that was counted but not charged yet */
	u64 exec_ns;  /* the kernel's count of its CPU time at the last settlement */
	u64 slice_ns; /* how long it may run */
	u64 sliced_ns; /* how much of that it has used */
	u64 woken_sync; /* its waker is about to sleep; from select_cpu to enqueue */
};

struct task tasks[TB_CLIENTS];

/* A thread's leaf. TB_NONE: we do not schedule it, or no slot was left. */
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

/* Ranges of uids that belong to other users, in ascending order; entries after the last are zero. Written by the daemon. */
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
	u32 leaf;       /* the leaf that runs here; TB_NONE: none of ours */
	u32 armed;      /* the timer is running */
	u32 next;       /* the leaf that woke up, is in the local DSQ and has not run since */
	u32 preempted;  /* the leaf that it preempts; TB_NONE: none */
	u32 recheck;    /* whether another leaf may be the better choice by now */
	u64 since_ns;   /* when its run began, or was last settled */
	u64 end_ns;     /* when the slice is to end; 0: none of a thread in our class is running */
	u64 timer_ns;   /* when the timer will fire */
	u32 turn_leaf;  /* the leaf that has, or is about to have, a slice out of turn; TB_NONE: none */
	u64 turn_ns;    /* when that began */
	u64 turn_end_ns; /* when the last of these slices ended, */
	u64 turn_took_ns; /* how long it took, */
	u32 turn_was_urgent; /* and whether its leaf was urgent */
	u32 late;       /* the leaf whose slice out of turn ends as soon as it begins; TB_NONE: there is none */
	u32 offline;    /* it calls dispatch no more */
	u32 kthreads;   /* kernel threads may wait in its DSQ (kthreads.h); */
	u64 drawn_ns;   /* since when draws have had the CPU, not kernel threads; 0: they have not */
	u32 shortest;   /* a leaf has waited for so long that all slices in turn are the shortest */
} __attribute__((aligned(64)));

struct cpu cpus[NR_CPUS];
u32 nr_subordinates; /* ranges in `subordinates`; written by the daemon */
u32 purge_pending; /* a user may have no clients any more: purge_users is to look. minor_timer clears it */
u32 lone_slices; /* some CPU may have the long slice of a lone thread */
u64 counters[TOMBOLA_COUNTERS];
u64 nr_processes; /* entries of `processes` */
u32 root_client; /* root's currency */
u32 default_base = TB_BASE_TICKETS_DEFAULT; /* base tickets of new users */
u32 root_base = TB_BASE_TICKETS_DEFAULT; /* base tickets of root, which may hold more (root_keeps_up) */
u32 root_share = TOMBOLA_ROOT_DEFAULT;
#define ROOT_OTHERS_NONE (~0ull)
u64 root_others = ROOT_OTHERS_NONE; /* the others' tickets for which root's were set last; none since base or share has changed */
u32 reserved; /* tickets of all reservations. Under the lock */
u32 nr_currencies; /* made by users. Under the lock */
u32 base_changed; /* since the daemon last looked, users were added or have other base tickets; the daemon clears it */
u32 running; /* 1 between ops.init and ops.exit */
u32 trace_on SEC(".data.trace"); /* in a map of its own, which `tombola trace` opens and writes */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} runs SEC(".maps");

/* Wakes the daemon, which sleeps until it has something to do, and then looks up itself what has changed. */
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
 * Wake the daemon once for all changes until it has looked: no user can keep it busy. The exchange is a barrier, as the daemon's
 * is: the daemon sees the change, or is woken.
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
 * The clock of all decisions. Not scx_bpf_now: in a timer or a remote wake-up it returns the run queue's clock of the last
 * scheduling event, up to a tick old.
 */
static __always_inline u64 now_ns(void)
{
	return bpf_ktime_get_ns();
}

static __always_inline struct run_queue *the_queue(void)
{
	u32 key = 0;

	return bpf_map_lookup_elem(&run_queue, &key);
}

static __always_inline struct task *task_at(u32 client)
{
	return &tasks[client & (TB_CLIENTS - 1)];
}

/*
 * Of a thread that we schedule; called several times at each switch. The index of its leaf is in dsq_vtime, which only DSQs
 * ordered by virtual time would use; there are none here (tombola_enable).
 */
static __always_inline struct task *task_of(struct task_struct *p)
{
	return task_at((u32)p->scx.dsq_vtime);
}

/* Of any thread, also of another class. */
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

/* The CPUs that the kernel has as active, of 64 from 64 x word on. */
static __always_inline u64 active_cpus(u32 word)
{
	u64 active = 0;

	bpf_probe_read_kernel(&active, sizeof(active), (const u64 *)tombola_config.active_cpus + word);
	return active;
}

/*
 * Has a CPU ceased to call dispatch: is it offline, or going offline? It stops when it is no longer active. The kernel tells us
 * (ops.cpu_offline) only after all RCU readers have finished, and one of them may wait for that very CPU.
 */
static __always_inline bool is_inactive(s32 cpu)
{
	return tombola_config.nr_cpus > 1 && !(active_cpus(((u32)cpu & (NR_CPUS - 1)) / 64) & cpu_mask(cpu));
}

/*
 * The inactive CPUs, as cpu_mask has them. A thread all of whose CPUs are inactive waits until the kernel lifts its affinity,
 * which happens when it is put on the dying CPU. So any CPU may draw it, and sends it there. With more than 64 CPUs, another one
 * of the same bit draws it.
 */
static __always_inline u64 inactive_cpus(void)
{
	if (tombola_config.nr_cpus == 1 || tombola_config.nr_cpus > 64)
		return 0;
	return ~active_cpus(0) & (tombola_config.nr_cpus == 64 ? ~0ull : (1ull << (tombola_config.nr_cpus & 63)) - 1);
}

/* Make idle CPUs call dispatch. */
static __noinline int kick_idle(void)
{
	for (u32 cpu = 0; cpu < NR_CPUS && can_loop; cpu++) {
		if (cpu >= tombola_config.nr_cpus)
			break;
		scx_bpf_kick_cpu((s32)cpu, SCX_KICK_IDLE);
	}
	return 0;
}

/*
 * Does a thread have migration disabled? A running BPF program itself disables it for the current thread, so there the first
 * count means nothing.
 */
static __always_inline bool is_bound(struct task_struct *p)
{
	return p->migration_disabled > (p == bpf_get_current_task_btf());
}

/*
 * CPUs on which a thread may run, inactive ones only if there is no other; all on a machine with more than 64, where only
 * dispatch_task looks at its affinity.
 */
static __always_inline u64 mask_of(struct task_struct *p)
{
	u64 mask;

	if (is_bound(p))
		return cpu_mask(scx_bpf_task_cpu(p));
	if ((u32)p->nr_cpus_allowed >= tombola_config.nr_cpus || tombola_config.nr_cpus > 64)
		return ~0ull;
	mask = p->cpus_ptr->bits[0] & ~inactive_cpus();
	return mask ? mask : p->cpus_ptr->bits[0];
}

/* A client's number for user space, never reused; and the client of a number, TB_NONE if it was removed. */
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

/* The client that holds a process's tickets: the leaf itself, or the currency of its threads. Stale at times without the lock. */
static __always_inline u32 process_of(struct tb_queue *q, u32 leaf)
{
	u32 parent = tb_at(q, leaf)->parent;

	return tb_at(q, parent)->kind == TB_KIND_PROCESS ? parent : leaf;
}
