/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the kernel that the scheduler uses: a few types, fields and functions.
 *
 * Everything is relocated against the running kernel's own BTF when the program is loaded (CO-RE). So this is no copy of a
 * kernel's layout, and no generated vmlinux.h is needed. Names and types are the kernel's.
 */
#pragma once

/* For the core: can_loop (below) bounds its loops, not n; its larger functions are not inlined but verified at each call. */
#define TB_FN static __attribute__((noinline, unused))
#define tb_loop(n) while (can_loop)
#define TB_GLOBAL_POOL
#include <tombola/types.h>

typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_F_TIMER_CPU_PIN = 2 };
enum { CLOCK_MONOTONIC = 1 };
enum {
	EPERM = 1,
	ENOENT = 2,
	ESRCH = 3,
	E2BIG = 7,
	EAGAIN = 11,
	ENOMEM = 12,
	EBUSY = 16,
	EOPNOTSUPP = 95,
	EEXIST = 17,
	EXDEV = 18,
	ENODEV = 19,
	EINVAL = 22,
	ENOSPC = 28,
	ERANGE = 34,
	ENOSYS = 38,
	ELOOP = 40,
};
enum { PF_EXITING = 0x00000004, PF_USER_WORKER = 0x00004000, PF_KTHREAD = 0x00200000 };
enum { TASK_UNINTERRUPTIBLE = 0x00000002 };
/* Kinds of task_struct.blocker, of which 0 is a mutex and the others reader and writer of a semaphore; and flags of owners. */
#define BLOCKER_KINDS 3ull
enum { BLOCKER_SEMAPHORE = 1 };
#define OWNER_FLAGS 7ull
enum { RWSEM_READER_OWNED = 1 };
enum { TS_COMPAT = 0x0002 }; /* x86: in a system call of 32-bit programs */
enum { CAP_SYS_NICE = 23 };
enum { SIGNAL_GROUP_EXIT = 0x00000004 };

struct bpf_spin_lock {
	__u32 val;
};

struct bpf_timer {
	__u64 __opaque[2];
} __attribute__((aligned(8)));

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};
typedef struct cpumask cpumask_t;

typedef struct {
	u32 val;
} kuid_t;

typedef struct {
	u64 val;
} kernel_cap_t;

struct uid_gid_extent {
	u32 first;
	u32 lower_first;
	u32 count;
};

struct uid_gid_map {
	u32 nr_extents;
	struct uid_gid_extent extent[1];
};

struct user_namespace {
	struct uid_gid_map uid_map;
	struct user_namespace *parent;
	int level;
	kuid_t owner;
};

struct cred {
	kuid_t uid;
	kuid_t euid;
	kuid_t suid;
	kernel_cap_t cap_effective;
	struct user_namespace *user_ns;
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct sched_ext_entity {
	u32 flags;
	u64 slice;
	u64 dsq_vtime;
};

struct core_state;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	unsigned int flags;
	int nr_threads;
	atomic_t live; /* threads that have not begun to exit */
	struct core_state *core_state; /* while the process dumps core */
};

/* The system call by which a thread entered the kernel, if it was one: each architecture has one of the two fields. */
struct pt_regs {
	unsigned long orig_ax;
	s32 syscallno;
	/* x86's arguments of the call */
	unsigned long di;
	unsigned long si;
	unsigned long dx;
};

/* What descriptors lead to. */
struct file {
	const void *f_op;
	void *private_data;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

typedef struct {
	void *net;
} possible_net_t;

struct sock_common {
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport; /* big endian */
	u16 skc_num;
	unsigned short skc_family;
	possible_net_t skc_net;
};

struct sock {
	struct sock_common __sk_common;
};

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
};

struct socket {
	struct sock *sk;
};

typedef struct {
	s64 counter;
} atomic_long_t;

/* Their owners' low bits are flags. */
struct mutex {
	atomic_long_t owner;
};

struct rw_semaphore {
	atomic_long_t owner;
};

struct nsproxy {
	void *ipc_ns;
};

struct list_head {
	struct list_head *next;
};

struct thread_info {
	u32 status; /* x86 */
	struct {
		u32 count;
	} preempt;
};

/* Of a kernel that preempts RCU read sections. */
union rcu_special {
	struct {
		u8 blocked; /* the task lost the CPU in such a section, and has not left it since */
	} b;
};

/* The low two bits of either are not 0 while a grace period lasts. */
struct rcu_state {
	unsigned long gp_seq;
	unsigned long expedited_sequence;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	struct sched_entity se;
	struct sched_ext_entity scx;
	const cpumask_t *cpus_ptr;
	int nr_cpus_allowed;
	unsigned int on_cpu; /* one byte since 7.2; the loader adapts reads of unsigned fields only */
	unsigned short migration_disabled;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	const struct cred *real_cred; /* the owner's */
	const struct cred *cred;      /* that it acts with; the kernel overrides them for a moment here and there */
	struct signal_struct *signal;
	int exit_state;
	unsigned long blocker; /* the lock that it sleeps for, with its kind in the low bits (6.16) */
	struct files_struct *files;
	struct nsproxy *nsproxy;
	void *mm;
	union rcu_special rcu_read_unlock_special;
};

struct bpf_iter_scx_dsq {
	u64 opaque[6];
};

struct scx_init_task_args {
	bool fork;
};

struct scx_exit_task_args {
	bool cancelled;
};

enum scx_exit_kind { SCX_EXIT_NONE = 0 };

struct scx_exit_info {
	enum scx_exit_kind kind;
	s64 exit_code;
	const char *reason;
	char *msg;
	char *dump;
};

#pragma clang attribute pop

struct scx_dump_ctx;

struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*exit_task)(struct task_struct *p, struct scx_exit_task_args *args);
	void (*dump)(struct scx_dump_ctx *dump);
	void (*dump_cpu)(struct scx_dump_ctx *dump, s32 cpu, bool idle);
	void (*dump_task)(struct scx_dump_ctx *dump, struct task_struct *p);
	void (*cpu_online)(s32 cpu);
	void (*cpu_offline)(s32 cpu);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

/*
 * Part of sched_ext's interface. With these flags the kernel also enqueues the last runnable thread of a CPU when its slice ends,
 * and threads that exit or have migration disabled (6.14). Without them the last two go to the CPU's local DSQ.
 */
enum { SCX_OPS_ENQ_LAST = 1 << 1, SCX_OPS_ENQ_EXITING = 1 << 2, SCX_OPS_ENQ_MIGRATION_DISABLED = 1 << 4 };

/* The values are read from the kernel's BTF at load; the numbers here only make the enums complete. */
enum scx_enq_flags { SCX_ENQ_WAKEUP = 1, SCX_ENQ_PREEMPT = 2 };
enum scx_wake_flags { SCX_WAKE_SYNC = 1, SCX_WAKE_FORK = 2 };
enum scx_kick_flags { SCX_KICK_IDLE = 1, SCX_KICK_PREEMPT = 2 };
enum scx_ent_flags { SCX_TASK_QUEUED = 1 };

#define SCX_ENQ_WAKEUP bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_WAKEUP)
#define SCX_ENQ_PREEMPT bpf_core_enum_value(enum scx_enq_flags, SCX_ENQ_PREEMPT)
#define SCX_WAKE_FORK bpf_core_enum_value(enum scx_wake_flags, SCX_WAKE_FORK)
#define SCX_WAKE_SYNC bpf_core_enum_value(enum scx_wake_flags, SCX_WAKE_SYNC)
#define SCX_KICK_IDLE bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_IDLE)
#define SCX_KICK_PREEMPT bpf_core_enum_value(enum scx_kick_flags, SCX_KICK_PREEMPT)
#define SCX_TASK_QUEUED bpf_core_enum_value(enum scx_ent_flags, SCX_TASK_QUEUED)

/*
 * IDs of the built-in dispatch queues (DSQs) are part of sched_ext's interface: bit 63 says "built in", the next one "local, on
 * the CPU in the low word".
 */
#define TB_DSQ_GLOBAL (1ull << 63 | 1)
#define TB_DSQ_LOCAL (1ull << 63 | 2)
#define TB_DSQ_LOCAL_ON(cpu) (3ull << 62 | (u32)(cpu))

s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) __ksym __weak;
s32 scx_bpf_pick_idle_cpu(const cpumask_t *cpus_allowed, u64 flags) __ksym;
bool scx_bpf_test_and_clear_cpu_idle(s32 cpu) __ksym;
void scx_bpf_kick_cpu(s32 cpu, u64 flags) __ksym;
s32 scx_bpf_dsq_nr_queued(u64 dsq_id) __ksym;
void scx_bpf_dispatch_cancel(void) __ksym;
s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) __ksym;
bool scx_bpf_dsq_move_to_local(u64 dsq_id) __ksym;
int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) __ksym;
struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) __ksym;
void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) __ksym;
bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) __ksym;
s32 scx_bpf_task_cpu(const struct task_struct *p) __ksym;
bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *cpumask) __ksym;
struct task_struct *bpf_task_from_pid(s32 pid) __ksym;
void bpf_task_release(struct task_struct *p) __ksym;
struct task_struct *bpf_task_from_vpid(s32 vpid) __ksym;
void *bpf_rdonly_cast(const void *from, u32 btf_id) __ksym;
void bpf_rcu_read_lock(void) __ksym;
void bpf_rcu_read_unlock(void) __ksym;
/* x86's preempt count, one for each CPU; elsewhere it is the task's (thread_info). */
extern const int __preempt_count __ksym __weak;
/* Exists since that count's interrupt bits moved from bit 16 to bit 24 (7.3). */
extern const unsigned long local_interrupt_disable_state __ksym __weak;

/* Prints into the kernel's dump, and only while the kernel makes one. */
void scx_bpf_dump_bstr(char *fmt, unsigned long long *data, u32 data__sz) __ksym __weak;

/* One line of the dump, with 1 to 12 numbers or addresses of strings. The verifier demands a writable format. */
#define dump_line(format, args...)                                                                  \
	({                                                                                          \
		static char fmt[] = format "\n";                                                    \
		unsigned long long data[] = { args };                                               \
		if (bpf_ksym_exists(scx_bpf_dump_bstr))                                             \
			scx_bpf_dump_bstr(fmt, data, sizeof(data));                                 \
	})

/* The variant without a return value, which all kernels have since 6.13. */
void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) __ksym;
/* Since 6.19; before, schedulers wrote the fields. */
bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) __ksym __weak;
bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime) __ksym __weak;

static __always_inline void task_set_slice(struct task_struct *p, u64 slice)
{
	if (bpf_ksym_exists(scx_bpf_task_set_slice))
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

static __always_inline void task_set_vtime(struct task_struct *p, u64 vtime)
{
	if (bpf_ksym_exists(scx_bpf_task_set_dsq_vtime))
		scx_bpf_task_set_dsq_vtime(p, vtime);
	else
		p->scx.dsq_vtime = vtime;
}

/*
 * An idle CPU for a waking thread, near prev_cpu if the kernel's own selection is available. Several builds of Debian's 7.2
 * describe some kernel functions wrongly in their BTF, this one among them; libbpf then takes a weak one for absent.
 */
static __always_inline s32 select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *idle)
{
	s32 cpu;

	if (bpf_ksym_exists(scx_bpf_select_cpu_dfl))
		return scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, idle);
	cpu = scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
	*idle = cpu >= 0;
	return *idle ? cpu : prev_cpu;
}

/*
 * Are we called outside hard interrupts? Only their bits of the preempt count are tested. So it is true in the current task's own
 * context, and in each softirq: one that works for the current task (loopback packets), and one that does not (a network device's
 * NAPI, the timer wheel). If unknown, it is false.
 */
static __always_inline bool outside_hardirq(void)
{
	struct task_struct *p = bpf_get_current_task_btf();
	u32 count = ~0u;

	if (bpf_ksym_exists(&__preempt_count))
		count = *(const u32 *)bpf_this_cpu_ptr(&__preempt_count);
	else if (bpf_core_field_exists(p->thread_info.preempt.count))
		count = p->thread_info.preempt.count;
	return !(count & (bpf_ksym_exists(&local_interrupt_disable_state) ? 0xf000000 : 0xf0000));
}

/*
 * The thread is runnable and being switched out. Was it interrupted in user mode, not in a system call? Then it holds no lock of
 * the kernel's. A page fault looks like an interrupt; it rarely lasts. So does what the kernel does before an interrupted thread
 * goes on (task work: a delayed close, for example). A worker of the kernel's (io_uring) is never in user mode, a thread that
 * exits or dumps core no longer: their registers are those of another moment.
 */
static __always_inline bool in_user_mode(struct task_struct *p)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);
	struct signal_struct *signal = p->signal;

	if (p->flags & (PF_USER_WORKER | PF_EXITING) || !signal || signal->core_state)
		return false;
	if (bpf_core_field_exists(regs->orig_ax))
		return regs->orig_ax == ~0ul;
	return !bpf_core_field_exists(regs->syscallno) || regs->syscallno < 0;
}

/* Does the kernel preempt RCU read sections? */
static __always_inline bool preempts_rcu_sections(void)
{
	return bpf_core_field_exists(((struct task_struct *)0)->rcu_read_unlock_special.b.blocked);
}

/* Did a thread that is not running, or is being switched out, lose the CPU in an RCU read section? */
static __always_inline bool in_rcu_section(struct task_struct *p)
{
	return preempts_rcu_sections() && p->rcu_read_unlock_special.b.blocked;
}

/* A pointer as one to a type of the kernel's. What it leads to may be invalid; a read then gives 0. */
#define as(pointer, type) ((type *)bpf_rdonly_cast((pointer), bpf_core_type_id_kernel(type)))
/* The pointer at an address, in an array of them. */
#define read_pointer(address, type) as(as((address), struct list_head)->next, type)

/* A loop condition that the verifier accepts, because the kernel ends the loop after many rounds (may_goto, 6.9). */
#define can_loop                                                                                    \
	({                                                                                          \
		__label__ l_break, l_continue;                                                      \
		bool ret = true;                                                                    \
		asm volatile goto("may_goto %l[l_break]" ::: : l_break);                            \
		goto l_continue;                                                                    \
	l_break:                                                                                    \
		ret = false;                                                                        \
	l_continue:;                                                                                \
		ret;                                                                                \
	})

/*
 * After a call the verifier takes the registers of its arguments for empty. 6.18's verifier refuses a program if such a register
 * holds a number when a loop is first entered, or after some of its iterations, and is empty after others ("verifier bug:
 * backtracking exit unexpected regs"). Then the loop empties them itself.
 */
static __noinline void empty_registers(void)
{
	asm volatile("");
}

#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) SEC("struct_ops.s/" #name) BPF_PROG(name, ##args)
