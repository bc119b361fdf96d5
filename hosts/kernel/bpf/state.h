/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The scheduler's state, and the lock that protects it.
 *
 *   run_queues     the economy (core/include/tombola/economy.h): passes, orders, waiting clients. Written under its own lock;
 *                  read without it where an outdated answer does no harm.
 *   client_state   what this host adds to a client of the economy; same index. Written under the same lock, except for a leaf's
 *                  stopped_at, frozen_ns and id, which its thread's operations write; counts (wins, left); and a currency's
 *                  name, whose first letter is written last. Read without the lock where one number is wanted.
 *   task           a thread's own accounts; by its leaf. Written by its own operations, which the kernel serializes.
 *   cpu            what runs on a CPU, and its slice timer. Written by that CPU, and some fields by others; see slice.h.
 *   parts, groups  several run queues: what a group has on each, and on all; see groups.h.
 *
 * There is one run queue for all CPUs, or with -DSEVERAL_QUEUES nr_queues of them, each for some of the CPUs. A thread's leaf is
 * on the queue of the CPU where it last became runnable, and its lock is that queue's (queue_of). Users, currencies, processes
 * with several threads and reservations are groups, whose structure is under the lock of the first queue (first_queue).
 */
#pragma once
#include "kernel.h"

#include <tombola/queues.h>
#include <tombola_abi.h>

/* After the roots, which are never freed. */
#define FIRST_SLOT (tombola_config.nr_queues * TB_FROZEN + 1)
#define NR_CPUS 512
#define NR_CPU_WORDS (NR_CPUS / 64)
#define NR_QUEUES 64
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
/*
 * The same for one after which SPENT_PAUSE follows, while no other thread waits: the next turn there comes only when minor_timer
 * fires.
 */
#define SLICE_SPENT_NS 5000000ull
/* After a slice out of turn, a CPU that others want is theirs for so many times as long as that slice took. */
#define OVERDUE_PAUSE 100
#define URGENT_PAUSE 30
/* After that of a thread that has had more than URGENT_MOST_NS since it was frozen, also while no other thread waits. */
#define SPENT_PAUSE 150
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
 * readers. A frozen one that makes system calls without end is stopped only by chance, where it is in user mode. After so much
 * CPU time its turns are rarer (SPENT_PAUSE), so that a freeze stops it; but it has turns, since it may hold a lock.
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

/* None; those that calls ask for; also those of threads that wait for others, which need not know of loans. */
enum transfer { TRANSFER_OFF, TRANSFER_EXPLICIT, TRANSFER_AUTO };

/* Set before load, constant afterwards. */
const volatile struct {
	struct tb_rules rules;
	u64 patience_ns; /* a leaf that has waited for longer is overdue; minor_timer fires five times as often */
	u32 nr_cpus;     /* possible ones */
	u32 nr_queues;   /* run queues */
	u32 group_slots; /* so many slots a group has: nr_queues, rounded up to a power of two */
	u64 bound_ns;    /* between the clocks of two run queues; balance.h */
	u32 mqs;         /* threads go to other queues by the rule of MQS */
	u32 online_cpus; /* for shares of one CPU */
	/* The addresses of variables of the kernel's */
	u64 active_cpus; /* __cpu_active_mask */
	u64 rcu_state;   /* 0: there is none */
	u32 tick_slices; /* let slices longer than SLICE_URGENT_NS end at the tick, without timers */
	/* The addresses of the operations of files; 0: not known */
	u64 pipe_files;
	u64 fifo_files;
	u64 eventfd_files;
	u64 socket_files;
	u32 transfer; /* of enum transfer: which loans are made */
} tombola_config = {
	.patience_ns = 5000000000,
	.nr_cpus = 1,
	.nr_queues = 1,
	.group_slots = 1,
	.online_cpus = 1,
};

/* NR_QUEUES tells the verifier how large a number may be that is the index of an array. */
#define for_each_queue(queue) \
	for (u32 queue = 0; queue < NR_QUEUES && can_loop && queue < tombola_config.nr_queues; queue++)

/*
 * Several run queues: the CPUs of each. Bit n of word w is CPU 64 w + n. In a client's mask that CPU is bit (n + turns[w]) mod
 * 64, so that up to 64 CPUs of a queue have a bit each.
 */
const volatile struct {
	u64 words[NR_CPU_WORDS];
	u8 turns[NR_CPU_WORDS];
	u32 cpus;
	u32 first; /* one of them */
} queue_cpus[NR_QUEUES];

/* And of each CPU its queue, and its bit in the masks there. */
const volatile struct {
	u8 queue;
	u8 bit;
} cpu_places[NR_CPUS];

/*
 * Is the code for several run queues compiled in? With one queue it would only cost: instructions for the verifier to walk, and
 * at each switch. There is an object of each kind, and the loader takes the one that the machine needs. IF_SEVERAL and
 * IF_ONE: the size of an array that is needed with several only, or with one.
 */
#ifdef SEVERAL_QUEUES
#define SEVERAL true
#define IF_SEVERAL(n) (n)
#define IF_ONE(n) 1
#else
#define SEVERAL false
#define IF_SEVERAL(n) 1
#define IF_ONE(n) (n)
#endif

static __always_inline bool several(void)
{
	return SEVERAL;
}

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
	volatile u32 into;    /* of a move: the currency that it leads into, */
	volatile u32 moved;   /* and the client */
	volatile u64 drawn;   /* of a draw: the winner, and the DRAW_ bits */
	u32 number; /* its index */
	u32 last_urgency; /* the kind of urgent leaves that was asked last (turns.h) */
	u32 lone_slices; /* some of its CPUs may have the long slice of a lone thread */
	u64 look_ns; /* when it is asked next whether a thread is to go to another queue (balance.h) */
	struct tb_queue economy;
};

/* nr_queues of them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct run_queue);
} run_queues SEC(".maps");

/* Why a waiting leaf is urgent (turns.h): it is frozen in a system call, or keeps an RCU grace period from ending. */
enum urgency { URGENT_FROZEN, URGENT_READER, URGENCIES };

/* Urgent leaves of a queue and a kind, from `first` to before `last`. Under the lock of the queue. */
struct urgent_leaf {
	u64 number;
	u32 user; /* its user's client when it was added */
};

struct urgent_leaves {
	u32 first;
	u32 last;
	struct urgent_leaf leaf[NR_URGENT];
};

/* Not in run_queue: large offsets cost instructions. */
struct urgent_leaves urgent_leaves[IF_SEVERAL(NR_QUEUES) * URGENCIES];

static __always_inline struct urgent_leaves *urgent_of(const struct run_queue *rq, enum urgency why)
{
	u32 number = several() ? rq->number : 0;

	if (several())
		asm volatile("" : "+r"(number));
	return &urgent_leaves[(number & (NR_QUEUES - 1)) * URGENCIES + why];
}

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
	u32 owned;   /* of a user: clients that belong to it; changed by atomic operations, as queues have a lock each */
	u32 groups;  /* of a user: groups among these */
	u32 freed;   /* of a group: it is being freed, and gets no members any more (may_free) */
	u32 members; /* of a group: its clients, on whatever queues; changed by atomic operations */
	u32 made;    /* of a user: its currencies */
	u32 lent;    /* of a process: tickets that it has lent by calls (lending.h) */
	u64 lent_ns; /* of a leaf: CPU time for which it paid while others ran */
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
	u8 serves;   /* of a process: threads of other users, too, lend to its threads (may_lend_to) */
};

struct client_state client_states[TB_CLIENTS];

/*
 * What threads sleep on and send to (waits.h): its kind is the lowest byte of b. Volatile, as the verifier takes an address of
 * the kernel's for a number only once it has been stored in a map.
 */
struct object {
	volatile u64 a;
	volatile u64 b;
};

/* What a descriptor leads to: where its thread receives, and where what it sends arrives. */
struct endpoint {
	struct object here;
	struct object there;
};

struct task {
	u32 client; /* leaf in the economy; TB_NONE: it has exited */
	u32 uid;    /* its real uid when it was last looked at */
	u32 tgid;
	u64 unpaid_ns; /* CPU time that was counted but not charged yet */
	u64 exec_ns;  /* the kernel's count of its CPU time at the last settlement */
	u64 slice_ns; /* how long it may run */
	u64 sliced_ns; /* how much of that it has used */
	u64 woken_sync; /* its waker is about to sleep; from select_cpu to enqueue */
	/* Loans (paying.h). Under the lock. */
	u32 payer;     /* the account that pays for its run; TB_NONE: its own, or it does not run and none has been chosen */
	u32 pays_for;  /* it has lent to this thread, and may pay for the end of its run still */
	u32 cpu;       /* where it began to run last */
	u8 loans_stay; /* it sleeps, and loans to it have not ended by that */
	u8 once;       /* it will lend by a call for one wait only */
	u32 loan;      /* how it lends: LOAN_LASTS, LOAN_BY_CALL, LOAN_OF_CLIENT (loans.h) */
	u64 will_lend_to; /* the number of the thread to which a call has it lend whenever it sleeps; 0: none */
	u64 lender;    /* of the account of a loan (lending.h): the number of the process that lends; 0: it is a thread */
	u64 until_ns;  /* and when that loan ends; 0: not by itself */
	u32 paid;      /* of the run that it ends, the payer */
	u64 forked;    /* the number of the thread that it forked last, since it slept; written by its own operations */
	struct endpoint end; /* of the descriptor that it sleeps on or sends to (waits.h); written by its own operations */
	/* Several run queues. Written under the lock of the queue that the leaf is on: */
	u32 queue;
	u32 arriving; /* it is being moved there (balance.h) */
	/* and by the thread's own operations: */
	u64 queues;  /* on which it may run, a bit for each */
	u64 reach;   /* the CPUs on which it may run, if not on all (reach_of) */
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
	u32 turn_pause; /* and for how many times as long a pause follows */
	u32 late;       /* the leaf whose slice out of turn ends as soon as it begins; TB_NONE: there is none */
	u32 offline;    /* it calls dispatch no more */
	u32 kthreads;   /* kernel threads may wait in its DSQ (kthreads.h); */
	u64 drawn_ns;   /* since when draws have had the CPU, not kernel threads; 0: they have not */
	u32 shortest;   /* a leaf has waited for so long that all slices in turn are the shortest */
} __attribute__((aligned(64)));

struct cpu cpus[NR_CPUS];
/* Several run queues, under the lock of the first: slots for groups that were freed, that were never used, and in use. */
u32 groups_free;
u32 groups_fresh;
u32 groups_used;
u32 nr_subordinates; /* ranges in `subordinates`; written by the daemon */
u32 purge_pending; /* a user may have no clients any more: purge_users is to look. minor_timer clears it */
u32 grace_s; /* so many seconds, at least, an RCU grace period has lasted; 0: none has for long. Written by minor_timer */
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

static __always_inline struct run_queue *queue_at(u32 queue)
{
	return bpf_map_lookup_elem(&run_queues, &queue);
}

static __always_inline struct run_queue *first_queue(void)
{
	return queue_at(0);
}

/*
 * A client's index in the arrays below, masked for the verifier. Where the compiler knows a client's range, as of a leaf, it
 * would drop the mask.
 */
static __always_inline u32 slot(u32 client)
{
	if (several())
		asm volatile("" : "+r"(client));
	return client & (TB_CLIENTS - 1);
}

static __always_inline struct task *task_at(u32 client)
{
	return &tasks[slot(client)];
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
	return &client_states[slot(client)];
}

static __always_inline struct cpu *cpu_of(s32 cpu)
{
	return &cpus[(u32)cpu & (NR_CPUS - 1)];
}

/* The queue of a CPU, and that of a thread's leaf. */
static __always_inline u32 place_of_cpu(s32 cpu)
{
	return several() ? cpu_places[(u32)cpu & (NR_CPUS - 1)].queue : 0;
}

static __always_inline u32 place_of_leaf(u32 leaf)
{
	return several() ? task_at(leaf)->queue : 0;
}

static __always_inline struct run_queue *queue_of_cpu(s32 cpu)
{
	return queue_at(place_of_cpu(cpu));
}

static __always_inline struct run_queue *queue_of(u32 leaf)
{
	return queue_at(place_of_leaf(leaf));
}

/*
 * With several queues the slots of clients are divided: the roots of all queues come first, three for each; then leaves; groups
 * begin in the middle. A group's slots are consecutive: the n-th is its client on queue n, its part there, and the first one
 * stands for the group. (A table, filled by slots_init: with comparisons instead, the verifier would walk each loop up the tree
 * once for each kind of client, and loops over all clients from known constants.)
 */
#define FIRST_GROUP (TB_CLIENTS / 2)
#define LEAVES_END (several() ? FIRST_GROUP : TB_CLIENTS)

struct client_slot {
	u16 whole; /* of a part the slot of its group; else the slot itself */
	u8 step;   /* from a group's part on a queue to the one on the next queue; 0: it is no group */
	u8 leaf;
	u8 part; /* it is a group's client on another queue than the first */
};

struct client_slot client_slots[IF_SEVERAL(TB_CLIENTS)];

static __always_inline struct client_slot *slot_of(u32 client)
{
	return &client_slots[several() ? slot(client) : 0];
}

/* From slot i on. (Of a global function the verifier does not know the argument.) */
__noinline int slots_init(u32 i)
{
	tb_loop(TB_CLIENTS) {
		struct client_slot *s = slot_of(i);
		u32 step = i < FIRST_SLOT ? TB_FROZEN : i >= FIRST_GROUP;

		if (i >= TB_CLIENTS)
			break;
		s->step = (u8)step;
		s->leaf = !step;
		s->whole = (u16)i;
		if (i < FIRST_SLOT)
			s->whole = (u16)((i - 1) % TB_FROZEN + 1);
		else if (i >= FIRST_GROUP)
			s->whole = (u16)(i & ~(tombola_config.group_slots - 1));
		s->part = s->whole != i;
		i++;
	}
	return 0;
}

/* The group of a part; a leaf is itself. */
static __always_inline u32 whole_of(u32 client)
{
	return several() ? slot_of(client)->whole : client;
}

/* Is it a leaf, or stands for a group? */
static __always_inline bool is_whole(u32 client)
{
	return !several() || !slot_of(client)->part;
}

static __always_inline bool is_leaf(u32 client)
{
	return !several() || slot_of(client)->leaf;
}

/* A group's part on a queue; a leaf is itself. */
static __always_inline u32 part_on(u32 client, u32 queue)
{
	return several() ? client + slot_of(client)->step * queue : client;
}

/* No client is in a slot from here on. */
static __always_inline u32 slots_end(void)
{
	return several() && groups_fresh ? groups_fresh : tb_global_pool.fresh;
}

/* The lock of a client's accounts and of its position: a leaf's queue, and the first queue for a group. */
static __always_inline struct run_queue *home_queue(u32 client)
{
	return queue_at(is_leaf(client) ? place_of_leaf(client) : 0);
}

/* The group that a client is in. */
static __always_inline u32 parent_of(struct tb_queue *q, u32 client)
{
	return whole_of(tb_at(q, client)->parent);
}

/* With several queues, tickets in the economy are multiples of this. */
static __always_inline u32 ticket_shift(void)
{
	return several() ? TB_SHARE_SHIFT : 0;
}

/* How many clients there are, a group on several queues counted once. */
static __always_inline u32 nr_clients(void)
{
	return tb_global_pool.used - (tombola_config.nr_queues - 1) * TB_FROZEN + groups_used;
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
	u32 parent = parent_of(q, leaf);

	return tb_at(q, parent)->kind == TB_KIND_PROCESS ? parent : leaf;
}
