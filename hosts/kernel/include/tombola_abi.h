/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Tombola's private system calls: what a program writes and reads.
 *
 * The scheduler pins two BPF programs in a bpffs of its own, /run/tombola/bpf/{call,tree}. Any process may open them
 * (BPF_OBJ_GET) and run them (BPF_PROG_TEST_RUN with one of these structures as ctx_in). They run in the kernel as the
 * caller, check the caller's credentials, and enforce the rules; no daemon is asked. They return 0 or a negative errno:
 *
 *   -ENODEV  the scheduler that pinned this program has ended
 *   -ESRCH   no such process, or one without tickets (a thread of the kernel, a zombie)
 *   -ENOENT  no such currency, or it was retired; no such loan
 *   -EPERM   not yours, or beyond what you may give yourself without CAP_SYS_NICE
 *   -ERANGE  an amount out of its range
 *   -EINVAL  a field that must be zero is not, an index out of range, or an invalid name
 *   -EEXIST  the user has a currency of that name
 *   -EXDEV   the two currencies belong to different users
 *   -ELOOP   the currency would be inside itself
 *   -E2BIG   currencies would be nested deeper than TOMBOLA_NESTED_MAX
 *   -EBUSY   more than is left to reserve; TOMBOLA_RESERVE says in out[0] how much is left. Or the borrower has as many lenders
 *            as can be
 *   -EAGAIN  others changed the same clients meanwhile, or the process has just changed its user: call again
 *   -ENOSYS  no such operation
 *   -EOPNOTSUPP  the scheduler was started without loans
 *   -ENOSPC  no slot is left for a user, a currency or a client
 */
#pragma once

#define TOMBOLA_ABI 5

#define TOMBOLA_RUN_DIR "/run/tombola"
#define TOMBOLA_PIN_DIR TOMBOLA_RUN_DIR "/bpf"
#define TOMBOLA_PIN_CALL TOMBOLA_PIN_DIR "/call"
#define TOMBOLA_PIN_TREE TOMBOLA_PIN_DIR "/tree"

/* Ranges, both ends included (Zepp 2012, sections 3.1.1 and 3.1.3). */
#define TOMBOLA_TICKETS_MIN 1
#define TOMBOLA_TICKETS_MAX 10000
#define TOMBOLA_TICKETS_DEFAULT 100
#define TOMBOLA_BASE_TICKETS_MIN 100
#define TOMBOLA_BASE_TICKETS_MAX 10000
#define TOMBOLA_BASE_TICKETS_DEFAULT 1000

/*
 * Tickets that an administrator sets for another user's client are also the most that the owner may set from then on. The upper
 * half of a value that sets tickets sets another limit: a number of tickets, or TOMBOLA_NO_LIMIT for none. With CAP_SYS_NICE.
 */
#define TOMBOLA_LIMIT_SHIFT 32
#define TOMBOLA_NO_LIMIT 0xffff

/* Currencies nested in one another, a user's own not counted; and all currencies of one user. */
#define TOMBOLA_NESTED_MAX 8
#define TOMBOLA_CURRENCIES_MAX 1024
/* Bytes of a currency's name with the NUL at its end: letters, digits, '_', '.' and '-', but '-' not first. */
#define TOMBOLA_NAME 24
/* Shares are counted in hundredths of a percent, of one CPU or of the machine. */
#define TOMBOLA_SHARE_ONE 10000
#define TOMBOLA_FLOOR_DEFAULT 2500
#define TOMBOLA_ROOT_DEFAULT 500
#define TOMBOLA_ROOT_MAX 5000

/* How much of its quantum was left when a process gave up the CPU, in sixths: 0 (all used) to 6 (nothing used). */
#define TOMBOLA_QUANTUM_PARTS 7

enum tombola_op {
	TOMBOLA_INFO = 0,              /* out[i]: i of enum tombola_info */
	TOMBOLA_GET_TICKETS = 1,       /* id: pid; out[0]: tickets */
	TOMBOLA_SET_TICKETS = 2,       /* id: pid; value: tickets, 0 freezes. Its owner, or CAP_SYS_NICE */
	TOMBOLA_GET_BASE_TICKETS = 3,  /* id: uid; out[0]: base tickets */
	TOMBOLA_SET_BASE_TICKETS = 4,  /* id: uid; value: base tickets, 0 freezes. Own ones, not 0, up to the default or an
	                                * administrator's limit; else CAP_SYS_NICE */
	TOMBOLA_GET_WINS = 5,          /* id: pid; out[0]: slices begun, drawn or not */
	TOMBOLA_GET_QUANTUM_USE = 6,   /* id: pid; out[i]: how often i sixths of the quantum were left, i = 0..6 */
	TOMBOLA_GET_COUNTER = 7,       /* id: of enum tombola_counter; out[0]: its value */

	/* A currency is named by its owner's uid and a name, and identified by a number that is never reused. */
	TOMBOLA_FIND_CURRENCY = 8,     /* id: uid; name; out[0]: its number, out[1]: its tickets */
	TOMBOLA_MAKE_CURRENCY = 9,     /* id: uid; name; value: tickets; currency: parent, 0 the user's own; out[0]: number */
	TOMBOLA_FUND_CURRENCY = 10,    /* currency; value: tickets */
	TOMBOLA_MOVE_CURRENCY = 11,    /* currency; value: number of the one to move into, 0 the user's own */
	TOMBOLA_RETIRE_CURRENCY = 12,  /* currency; its clients move to the one around it */
	TOMBOLA_MOVE_PROCESS = 13,     /* id: pid; currency: the new one, 0 its user's own */

	TOMBOLA_RESERVE = 14,          /* id: pid, or currency; value: share of one CPU, 0 releases it. CAP_SYS_NICE */
	TOMBOLA_GET_RESERVED = 15,     /* out[i]: i of enum tombola_reserved */
	TOMBOLA_SET_FLOOR = 16,        /* value: best effort's least share of the machine. CAP_SYS_NICE */
	TOMBOLA_SET_ROOT = 17,         /* value: root's least share of best effort. CAP_SYS_NICE */
	TOMBOLA_SET_DEFAULT = 18,      /* value: base tickets of new users. CAP_SYS_NICE */

	/* Loans; `to`: tid. The owner of both, or CAP_SYS_NICE */
	TOMBOLA_LEND = 19,             /* id: pid; to; value: tickets, fewer than it has; ms: for how long, 0 without end */
	TOMBOLA_LEND_WAITING = 20,     /* id: tid; to; all that the thread has whenever it sleeps; value: 1 only once, 0 always */
	TOMBOLA_RECLAIM = 21,          /* id: pid; to, 0 for anybody; out[0]: how many have ended. The owner of one of them */
	TOMBOLA_SET_SERVER = 22,       /* id: pid; value: 1 other users, too, lend to it while they wait, 0 not. CAP_SYS_NICE */
};

struct tombola_call {
	__u32 op;
	__u32 id;
	__u64 value;
	__u64 currency;
	__u32 to; /* the thread to which a loan goes */
	__u32 ms; /* for how long */
	char name[TOMBOLA_NAME];
	__u64 out[8];
};

/* out[] of TOMBOLA_GET_RESERVED: the first three in shares of one CPU, then two other settings */
enum tombola_reserved {
	TOMBOLA_RESERVED_MACHINE = 0, /* the whole machine */
	TOMBOLA_RESERVED_ALL = 1,     /* all reservations together */
	TOMBOLA_RESERVED_FLOOR = 2,   /* best effort's least share */
	TOMBOLA_RESERVED_ROOT = 3,    /* root's least share of best effort, in hundredths of a percent */
	TOMBOLA_RESERVED_DEFAULT = 4, /* base tickets of new users */
};

enum tombola_policy {
	TOMBOLA_STRIDE = 0,
	TOMBOLA_LOTTERY = 1,
};

/* out[] of TOMBOLA_INFO */
enum tombola_info {
	TOMBOLA_INFO_ABI = 0,
	TOMBOLA_INFO_POLICY = 1,
	TOMBOLA_INFO_QUANTUM_NS = 2,
	TOMBOLA_INFO_CPUS = 3,
	TOMBOLA_INFO_CLIENTS = 4, /* clients in use, threads and currencies */
	TOMBOLA_INFO_WAITING = 5, /* threads waiting for a CPU */
	TOMBOLA_INFO_PROCESSES = 6, /* processes that are currencies: they have or had several threads */
	TOMBOLA_INFO_NOW_NS = 7, /* the kernel's monotonic clock */
};

/* Events that are counted; TOMBOLA_GET_COUNTER reads them, `tombola status` shows them. */
enum tombola_counter {
	TOMBOLA_COUNT_DRAWS,              /* decisions that gave a CPU to a waiting thread */
	TOMBOLA_COUNT_KEPT,               /* decisions that left the CPU to the same thread */
	TOMBOLA_COUNT_PREEMPTIONS,        /* wake-ups that preempted the running thread at once */
	TOMBOLA_COUNT_SLICE_SHORTENED,    /* wake-ups that shortened the running slice */
	TOMBOLA_COUNT_OVERDUE,            /* picks of overdue and of urgent threads */
	TOMBOLA_COUNT_CLAMPED,            /* charges cut because the client was too far ahead (TB_AHEAD_MAX_NS) */
	TOMBOLA_COUNT_MISPLACED,          /* picks of threads that could not run on that CPU, or not yet */
	TOMBOLA_COUNT_EXITED_BEFORE_RUN,  /* picks whose thread had exited */
	TOMBOLA_COUNT_USER_CHANGED,       /* threads that changed user */
	TOMBOLA_COUNT_RAN_UNPICKED,       /* threads that ran without a draw, and were charged all the same */
	TOMBOLA_COUNT_NO_SLOT,            /* forks refused: the user has as many clients as are free, or none is free */
	TOMBOLA_COUNT_UNTRACED,           /* runs for which the trace had no room: its reader was too slow */
	TOMBOLA_COUNT_MOVED,              /* waiting threads that went to another run queue */
	TOMBOLA_COUNT_LENT,               /* loans made by threads that went to sleep, and by calls */
	TOMBOLA_COUNT_NOT_LENT,           /* loans not made although it was known to whom: that thread sleeps, is frozen, belongs
	                                   * to another user, or has as many lenders as count */
	TOMBOLA_COUNTERS,
};

/* One node of the tree, as `tree` returns it. */
struct tombola_node {
	__u32 index;   /* its slot, which is reused after it was removed */
	__u32 parent;  /* the slot of the currency that it is a client of; 0 for base and the frozen root */
	__u32 kind;    /* 1 base, 2 best-effort, 3 user, 4 process, 5 thread, 6 currency, 7 reservation, 8 frozen, 9 loan of
	                * tickets; 0 removed */
	__u32 id;      /* uid of a user and of a currency's owner, tgid of a process, tid of a thread, borrower's of a loan */
	__u32 tickets; /* in the parent's currency */
	__u32 active;  /* 1 if runnable, or a currency with a runnable thread */
	__u32 clients; /* active clients, if it is a currency */
	__u32 tgid;    /* of a thread or process; the lender's, of a loan */
	__u32 uid;     /* the owner's, of a user, a process, a currency */
	__u32 limit;   /* the most tickets that its owner may give it; TOMBOLA_NO_LIMIT: no administrator has set one */
	__u32 lends_to; /* tid of the thread to which a thread, or a loan, lends now; 0: to none */
	__u32 lent;    /* tickets that a process has lent by calls */
	__u32 serves;  /* of a process: 1 if threads of all users lend to it while they wait for it (TOMBOLA_SET_SERVER) */
	__u32 unused;
	__u64 used_ns; /* CPU time received or paid for since it began, up to its last settlement */
	__u64 lent_ns; /* and what of it others have used, of a thread or a loan */
	__u64 wins;    /* slices begun, drawn or not, of a process or a thread that is one */
	__u64 weight;  /* tickets of the active clients, if it is a currency */
	__u64 number;  /* never reused; calls take the numbers of currencies */
	char name[TOMBOLA_NAME]; /* of a currency */
};

#define TOMBOLA_KIND_LOAN 9

#define TOMBOLA_TREE_NODES 32

struct tombola_tree {
	__u32 from;  /* in: first index to look at; out: where to go on, 0 at the end */
	__u32 count; /* out: nodes filled in; more may follow even if it is 0 */
	struct tombola_node node[TOMBOLA_TREE_NODES];
};

/* One record of the trace, as the ring buffer holds it (root only). */
struct tombola_traced_run {
	__u64 at_ns;               /* when the run ended, the kernel's monotonic clock */
	__u64 ran_ns;              /* CPU time it used */
	__u32 cpu;
	__u32 tid;
	__u32 tgid;
	__u32 uid;
	__u32 payer;               /* tgid of the process that paid for the run: its own, or a lender's */
	__u32 tickets;             /* the winner's, in the currency that it is in */
	__u32 draw_tickets;        /* tickets in that currency's draw */
	__u32 base_value_ppm;      /* the winner's share of the machine's draw, in millionths */
	__u32 compensation_ppm;    /* what its tickets gain for the unused part of its quantum, in millionths */
	__u32 kept;                /* 1 if it keeps the CPU for another slice after this run */
	__u32 preempted;           /* 1 if its slice was cut to 0: mostly by another thread's wake-up, also by a yield */
};
