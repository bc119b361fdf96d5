/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tombola: CPU time by tickets, as a sched_ext scheduler.
 *
 * Waiting threads are kept here, in the economy's orders, not in the kernel's dispatch queues (DSQs). A DSQ orders tasks only;
 * here a draw chooses a user first, then a process of the user, then a thread.
 *
 *      wake-up                      dispatch: settle the previous thread,
 *   ┌──────────> enqueue ─ wait ──> pick, keep or withdraw  ──> running ─> stopping ─┐ sleeps: settled, then inactive
 *   │    ^                                                                           │
 *   │    └─────────────────────── slice over, still runnable ────────────────────────┤
 *   └────────────────────────────────────────────────────────────────────────────────┘
 *
 * Some threads run without having been picked. All but kernel threads are charged like picked threads (running, stopping):
 *
 *   - kernel threads, and threads that have exited but for the last few steps (kthreads.h)
 *   - a waking thread for which the kernel finds an idle CPU, and one that would be drawn next (is_next)
 *   - on a machine of one CPU, a thread that a real-time class has preempted and that the kernel puts back itself
 *   - a thread on a CPU that goes offline: the kernel inserts it itself
 *   - a running thread whose affinity, nice value or class changes: the kernel dequeues it and puts it back on its CPU
 *
 * Between the pick, under the lock, and the insertion, without it, the kernel may dequeue the thread (its affinity or class
 * changes) and enqueue it again. It then waits again, and runs all the same; after the insertion, the kernel drops that.
 */
#include "state.h"
#include "steps.h"
#include "account.h"
#include "slice.h"
#include "kthreads.h"
#include "urgent.h"
#include "balance.h"
#include "waits.h"
#include "lending.h"
#include "tasks.h"
#include "calls.h"
#include "tree.h"
#include "dump.h"

char _license[] SEC("license") = "GPL";

struct {
	s32 kind;
	s64 code;
	char reason[128];
	char msg[1024];
	char dump[32768]; /* as long as the kernel's by default */
} tombola_exit;

/*
 * If no CPU is idle, a waking thread goes to its waker's CPU. On its previous CPU it might preempt a thread that has nothing to
 * do with it. A waker that says so (SCX_WAKE_SYNC) is about to sleep.
 */
s32 BPF_STRUCT_OPS(tombola_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	struct run_queue *rq;
	struct task *t = task_of(p);
	bool idle = false;
	s32 here = (s32)bpf_get_smp_processor_id(), cpu = select_cpu(p, prev_cpu, wake_flags, &idle);

	if (idle && (rq = queue_of(t->client)) && !is_frozen(&rq->economy, t->client)) {
		scx_bpf_dsq_insert(p, TB_DSQ_LOCAL, tombola_config.rules.quantum_ns, 0);
		woken(p, t);
	}
	if (!idle && several() && wake_flags & SCX_WAKE_FORK)
		return cpu_for_new(p, t->client, cpu);
	if (idle || !outside_hardirq() || !bpf_cpumask_test_cpu((u32)here, p->cpus_ptr))
		return cpu;
	/* Its queue stays the same. */
	if (several() && place_of_cpu(here) != t->queue)
		return cpu;
	t->woken_sync = wake_flags & SCX_WAKE_SYNC;
	return here;
}

/* A woken thread that would be drawn next on its CPU (is_next) goes into the local DSQ of that CPU. */
static __always_inline void insert_next(struct task_struct *p, struct task *t, u64 enq_flags)
{
	struct run_queue *rq = queue_of(t->client);
	u64 slice_ns;

	if (!rq)
		return;
	slice_ns = slice_for(&rq->economy, account_of(t->client), rq->economy.waiting);
	count(TOMBOLA_COUNT_DRAWS);
	scx_bpf_dsq_insert(p, TB_DSQ_LOCAL, slice_ns, enq_flags);
}

/*
 * An idle CPU for a thread that waits on the queue of `cpu`; negative: there is none. With several queues first that CPU
 * itself: a CPU of another queue may find that the thread is not to move (pull_to), and then nobody would look for the thread.
 */
static __always_inline s32 idle_cpu_for(struct task_struct *p, s32 cpu)
{
	if (several() && scx_bpf_test_and_clear_cpu_idle(cpu))
		return cpu;
	return scx_bpf_pick_idle_cpu(p->cpus_ptr, 0);
}

void BPF_STRUCT_OPS(tombola_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task *t = task_of(p);
	u64 mask, now;
	s32 cpu = scx_bpf_task_cpu(p), idle, how;
	u32 verdict;
	bool here;
	struct cpu *c = cpu_of(cpu);

	/* In the last steps of its exit a thread may have lost its pid, by which dispatch_task would find it. */
	if (!t->client || p->exit_state) {
		insert_kthread(p, enq_flags);
		return;
	}
	/* A thread that executes a program and is not its process's first takes over the pid of the first. */
	state_of(t->client)->id = (u32)p->pid;
	if (several()) {
		note_affinity(t, p);
		change_queue(t->client, place_to_wait(cpu));
	}
	mask = mask_of(p, place_of_leaf(t->client));
	now = now_ns();
	here = cpu == (s32)bpf_get_smp_processor_id();
	how = enq_flags & SCX_ENQ_WAKEUP ? WOKEN : 0;
	if (how && here && outside_hardirq())
		how |= WOKEN_HERE | (t->woken_sync ? WOKEN_SYNC : 0);
	t->woken_sync = 0;
	if (how)
		woken(p, t);
	verdict = step_wait(t->client, mask, now, cpu | how);
	if (several() && verdict & PREEMPT_MOVED) {
		change_queue(t->client, place_to_wait(cpu));
		verdict = step_wait(t->client, mask, now, cpu | how);
	}
	if (several())
		follow_leaf(t->client);
	if (has_lenders(t->client))
		follow_up(t->client, now);

	if (verdict & PREEMPT_NEXT) {
		insert_next(p, t, enq_flags | (verdict & PREEMPT_NOW ? SCX_ENQ_PREEMPT : 0));
	} else if (tombola_config.nr_cpus > 1) {
		idle = idle_cpu_for(p, cpu);
		if (idle >= 0) {
			scx_bpf_kick_cpu(idle, SCX_KICK_IDLE);
			return;
		}
	}
	if (verdict & PREEMPT_NOW) {
		count(TOMBOLA_COUNT_PREEMPTIONS);
		if (!(verdict & PREEMPT_NEXT))
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (verdict & PREEMPT_LATER) {
		count(TOMBOLA_COUNT_SLICE_SHORTENED);
		/* A timer is set on its own CPU only. Another CPU, or one without timers, decides anew now, with a new slice. */
		if (here && !tombola_config.tick_slices)
			slice_timer_wind(cpu, c, now);
		else
			scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	}
}

/* A slice begins, drawn or not: it counts as a win, and the CPU is to end it in time. */
static __always_inline void begin(s32 cpu, struct run_queue *rq, struct task *t, u64 now)
{
	struct cpu *c = cpu_of(cpu);

	state_of(process_of(&rq->economy, t->client))->wins++;
	t->sliced_ns = 0;
	c->since_ns = now;
	c->end_ns = now + t->slice_ns;
	t->cpu = (u32)cpu;
	c->leaf = t->client; /* last: run_until counts from since_ns on */
	if (several())
		recount(t->client);
	if (t->slice_ns <= tombola_config.rules.quantum_ns)
		slice_timer_wind(cpu, c, now);
	else
		rq->lone_slices = 1;
}

/*
 * Insert a picked thread into a DSQ. It is looked up by its pid: a reference held in the meantime would keep the thread from
 * being freed, and kernels before 6.18 tell a scheduler of an exit only then.
 */
static __always_inline void dispatch_task(u32 leaf, s32 cpu, u64 slice_ns)
{
	struct task_struct *p = bpf_task_from_pid((s32)state_of(leaf)->id);
	bool from_goes_offline;
	s32 from;

	if (!p) {
		/* It exited between the pick and here. Decide anew. */
		count(TOMBOLA_COUNT_EXITED_BEFORE_RUN);
		scx_bpf_kick_cpu(cpu, 0);
		return;
	}
	from = scx_bpf_task_cpu(p);
	from_goes_offline = from != cpu && is_inactive(from);
	/*
	 * The thread may not run on this CPU, or not yet: while `from` is still switching away from it, each BPF program that
	 * runs there disables its migration for that long. The kernel ejects a scheduler that inserts a thread into the local
	 * DSQ of a CPU where it may not run; while its affinity changes, that may be its own CPU. In the global DSQ, which each
	 * CPU checks when its local one is empty, the thread waits for a CPU that may run it. A CPU that goes offline takes
	 * nothing from the global DSQ, and waits until its threads have left; these go into its local DSQ. The kernel calls
	 * dispatch again if this CPU found nothing.
	 */
	scx_bpf_dsq_insert(p, TB_DSQ_LOCAL, slice_ns, 0);
	/* Not before: if its affinity changes from here on, the kernel drops the insertion. */
	if (!bpf_cpumask_test_cpu((u32)cpu, p->cpus_ptr) || (from != cpu && (p->on_cpu || is_bound(p)))) {
		count(TOMBOLA_COUNT_MISPLACED);
		scx_bpf_dispatch_cancel();
		scx_bpf_dsq_insert(p, from_goes_offline ? TB_DSQ_LOCAL_ON(from) : TB_DSQ_GLOBAL, slice_ns, 0);
		scx_bpf_kick_cpu(from, 0);
	} else if (from_goes_offline) {
		/* A CPU that goes offline checks whether it is empty only when it schedules: make it do so. */
		scx_bpf_kick_cpu(from, 0);
	}
	bpf_task_release(p);
}

/* The leaf of the thread that has the CPU, if it could go on, or TB_NONE. */
static __noinline u32 holder(struct task_struct *prev)
{
	struct task *t = task_of(prev);

	if (!(prev->scx.flags & SCX_TASK_QUEUED) || !t->client)
		return TB_NONE;
	account_runtime(prev, t);
	update_owner(prev, t);
	return t->client;
}

/* The thread keeps the CPU, with a new slice. */
static __always_inline void keep(s32 cpu, struct task_struct *p, struct run_queue *rq, u64 now, u64 slice_ns)
{
	struct task *t = task_of(p);

	count(TOMBOLA_COUNT_KEPT);
	note_use(&rq->economy, t);
	if (trace_on)
		trace_run(p, t, &rq->economy, 1);
	t->slice_ns = slice_ns;
	/* From now on the kernel waits for this section's end, as if the thread had stopped. */
	if (in_rcu_section(p))
		state_of(t->client)->stopped_at = IN_RCU_SECTION;
	begin(cpu, rq, t, now);
	task_set_slice(p, slice_ns);
}

/* Which thread gets the CPU (step_draw). */
static __always_inline u64 draw(s32 cpu, u32 held, u64 now, u64 mask)
{
	u64 drawn = TB_NONE;

	tb_loop(TB_CLIENTS) {
		drawn = step_draw((u32)cpu, held, now, mask);
		if (!(drawn & DRAW_AGAIN))
			break;
		step_follow_down((u32)drawn, (u32)drawn);
	}
	if ((u32)drawn != held && others_wait((u32)drawn))
		follow_down((u32)drawn);
	return drawn;
}

void BPF_STRUCT_OPS(tombola_dispatch, s32 cpu, struct task_struct *prev)
{
	struct run_queue *rq = queue_of_cpu(cpu);
	struct cpu *c = cpu_of(cpu);
	u64 now = now_ns(), drawn;
	u32 held = prev ? holder(prev) : TB_NONE, winner, waiting;
	bool kthread = is_runnable_kthread(prev);
	u64 slice_ns;

	if (!rq)
		return;
	if (c->turn_leaf)
		end_turn(c, now);
	if (kthreads_are_due(c, now) && run_kthread(cpu, c))
		return;
	/* Not after a kernel thread: the thread that it interrupted waits, but is the one that is to have this CPU. */
	if (several() && held)
		balance(rq, place_of_cpu(cpu), now);
	/*
	 * The long slices of lone threads on other CPUs end first, and are charged: beside passes that lack them, this thread
	 * would seem to be far ahead, and lose its CPU even if it is due all of it.
	 */
	if (rq->lone_slices && rq->economy.waiting && held && prev && slice_is_over(c, now) &&
	    slices_share(rq, place_of_cpu(cpu), now)) {
		charge_in_advance(held, SLICE_MIN_NS);
		keep(cpu, prev, rq, now, SLICE_MIN_NS);
		return;
	}
	drawn = draw(cpu, held, now, cpu_mask(cpu) | inactive_cpus(place_of_cpu(cpu)));
	if (several() && !(u32)drawn && !kthread && pull_to(cpu))
		drawn = draw(cpu, held, now, cpu_mask(cpu));
	winner = (u32)drawn;
	if (!winner) {
		if (run_kthread(cpu, c) || !prev)
			return;
		/* Without a new slice the kernel enqueues this thread (ENQ_LAST), and 6.16 then idles until something happens. */
		if (kthread)
			task_set_slice(prev, tombola_config.rules.quantum_ns);
		/* It is frozen. On an idle CPU it goes on until a slice ends in user mode. */
		else if (held && (in_rcu_section(prev) || !in_user_mode(prev)) && !has_spent(held)) {
			state_of(held)->frozen_ns += task_at(held)->sliced_ns;
			keep(cpu, prev, rq, now, SLICE_URGENT_NS);
		}
		return;
	}
	if (!c->drawn_ns && !c->turn_leaf)
		c->drawn_ns = now;
	waiting = rq->economy.waiting + (held && winner != held);
	if (drawn & DRAW_URGENT)
		slice_ns = drawn & DRAW_LONGER ? SLICE_SPENT_NS : SLICE_URGENT_NS;
	else if (drawn & DRAW_OVERDUE)
		slice_ns = SLICE_OVERDUE_NS;
	else if (c->shortest)
		slice_ns = SLICE_MIN_NS;
	else
		slice_ns = slice_for(&rq->economy, account_of(winner), waiting + c->kthreads + kthread);
	charge_in_advance(winner, slice_ns);
	if (winner == held && prev) {
		keep(cpu, prev, rq, now, slice_ns);
	} else {
		count(drawn & (DRAW_OVERDUE | DRAW_URGENT) ? TOMBOLA_COUNT_OVERDUE : TOMBOLA_COUNT_DRAWS);
		dispatch_task(winner, cpu, slice_ns);
	}
}

/*
 * A thread yields. In the protected part of its slice it goes on all the same: a thread that yields at each turn of a loop would
 * otherwise switch at each. `to` asks for a certain next thread, which no thread may choose.
 */
bool BPF_STRUCT_OPS(tombola_yield, struct task_struct *from, struct task_struct *to)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(from));

	if (!to && (!task_of(from)->client || now_ns() - c->since_ns >= tombola_config.rules.protect_ns))
		task_set_slice(from, 0);
	return false;
}

/* Does a thread that the kernel put back itself run before c->next? If the local DSQ is empty, c->next has left it meanwhile. */
static __always_inline bool is_before_next(struct cpu *c, u32 leaf)
{
	return c->next && c->next != leaf && scx_bpf_dsq_nr_queued(TB_DSQ_LOCAL) > 0;
}

void BPF_STRUCT_OPS(tombola_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct task *t = task_of(p);
	struct cpu *c = cpu_of(cpu);
	struct run_queue *rq;
	bool recheck;
	u64 now;
	u32 state;

	if (!t->client || !(rq = queue_of_cpu(cpu))) {
		c->leaf = TB_NONE;
		/* A kernel thread: see tombola_cpu_offline. */
		if (c->offline)
			task_set_slice(p, ~0ull);
		else
			kthread_begins(cpu, c);
		return;
	}
	state = tb_at(&rq->economy, t->client)->state;
	if ((state & (TB_ACTIVE | TB_QUEUED)) != TB_ACTIVE || lends(t->client) || (several() && t->queue != place_of_cpu(cpu))) {
		/*
		 * It was not drawn: an idle CPU took it when it woke up, it woke up on a CPU that goes offline, it was running
		 * when its affinity, nice value or class changed, it was enqueued again after the pick, or it has all but exited.
		 */
		count(TOMBOLA_COUNT_RAN_UNPICKED);
		if (several()) {
			note_affinity(t, p);
			change_queue(t->client, place_of_cpu(cpu));
		}
		step_join(t->client, mask_of(p, place_of_cpu(cpu)));
		if (several())
			follow_leaf(t->client);
		if (has_lenders(t->client))
			follow_up(t->client, now_ns());
	}
	/* It is next (is_next), or was not drawn. */
	if (has_lenders(t->client) && !t->payer)
		step_choose_payer(t->client);
	t->exec_ns = p->se.sum_exec_runtime;
	recheck = c->next == t->client && (c->recheck || tb_at(&rq->economy, tb_frozen_root(&rq->economy))->active);
	if (!is_before_next(c, t->client))
		c->next = TB_NONE;
	/* The slice is what the draw gave, or what a real-time task left of it. A thread that was alone then may no longer be. */
	if (p->scx.slice > tombola_config.rules.quantum_ns && (c->next || rq->economy.waiting))
		task_set_slice(p, tombola_config.rules.quantum_ns);
	/* It was frozen after it was drawn. */
	if (p->scx.slice > SLICE_URGENT_NS && c->turn_leaf != t->client && is_frozen(&rq->economy, t->client))
		task_set_slice(p, SLICE_OVERDUE_NS);
	t->slice_ns = p->scx.slice;
	/* A thread that was not drawn was not charged in advance. It need not be while none waits. */
	if (rq->economy.waiting)
		charge_in_advance(t->client, t->slice_ns);
	now = now_ns();
	begin(cpu, rq, t, now);
	if (c->late == t->client || (recheck && !step_stays(t->client, cpu_mask(cpu), now)))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

void BPF_STRUCT_OPS(tombola_stopping, struct task_struct *p, bool runnable)
{
	struct cpu *c = cpu_of(scx_bpf_task_cpu(p));
	struct task *t = task_of(p);
	struct task_struct *parent;
	struct run_queue *rq;
	struct client_state *state;

	c->end_ns = 0;
	if (!t->client || !(rq = queue_of(t->client)))
		return;
	account_runtime(p, t);
	if (c->turn_leaf == t->client)
		end_turn(c, now_ns());
	if (runnable) {
		settle_bill(t->client, 0);
		t->payer = TB_NONE;
		if (several())
			recount(t->client);
	} else {
		sleep(t->client, sleeps_for(p, t));
	}
	state = state_of(t->client);
	/*
	 * In case that it is frozen while it waits, or a grace period does not end. A page fault looks like user mode, so the
	 * section comes first. A thread in a section may stop although it does not sleep, as when its affinity changes.
	 */
	if (in_rcu_section(p))
		state->stopped_at = IN_RCU_SECTION;
	else if (!runnable)
		state->stopped_at = 0;
	else if (state->stopped_at == IN_RCU_SECTION)
		state->stopped_at = LEFT_RCU_SECTION;
	else
		state->stopped_at = in_user_mode(p) ? t->exec_ns : 0;
	if (is_frozen(&rq->economy, t->client)) {
		/* It may have been killed before it was frozen. */
		if (runnable)
			thaw_to_die(p, t);
		state->frozen_ns += t->sliced_ns;
	} else {
		state->frozen_ns = 0;
	}
	/* Not before: a thread that is frozen at this moment is charged here or by step_settle_running. */
	c->leaf = TB_NONE;
	if (t->sliced_ns) {
		note_use(&rq->economy, t);
		if (trace_on)
			trace_run(p, t, &rq->economy, 0);
	}
	/*
	 * A higher class takes the CPU. With slice left, the kernel would keep the thread here until that is done. Without, the
	 * kernel enqueues it, and another CPU may run it.
	 */
	if (runnable && p->scx.slice && tombola_config.nr_cpus > 1)
		task_set_slice(p, 0);
	if (runnable)
		return;
	update_owner(p, t);
	if (p->flags & PF_EXITING) {
		parent = p->real_parent;
		charge_heir(p, t, parent ? task_find(parent)->client : TB_NONE);
	}
}

/*
 * The thread changes to another class or exits; it may be waiting. (The operation `quiescent` is called then, too, but also at
 * each sleep, when stopping has done all.)
 */
void BPF_STRUCT_OPS(tombola_disable, struct task_struct *p)
{
	struct task *t = task_of(p);
	struct run_queue *rq;

	if (!t->client || !(rq = queue_of(t->client)))
		return;
	end_all_loans(t->client);
	if (tb_at(&rq->economy, t->client)->state || (several() && t->arriving))
		leave(t->client);
}

s32 BPF_STRUCT_OPS(tombola_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	u32 *leaf = bpf_task_storage_get(&leaves, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	struct task *forker = task_at(TB_NONE);

	if (!leaf)
		return -ENOMEM;
	if (p->flags & PF_KTHREAD)
		return 0;
	/* At a fork the current task is the parent; p->real_parent is still the parent's parent. */
	if (args->fork) {
		forker = task_find(bpf_get_current_task_btf());
		update_forker(bpf_get_current_task_btf(), forker);
	}
	*leaf = task_init(p, forker);
	return *leaf ? 0 : -EAGAIN;
}

/* The thread is in our class from here on, new or back from another one. */
void BPF_STRUCT_OPS(tombola_enable, struct task_struct *p)
{
	task_set_vtime(p, task_find(p)->client);
}

void BPF_STRUCT_OPS(tombola_exit_task, struct task_struct *p, struct scx_exit_task_args *args)
{
	u32 *leaf = bpf_task_storage_get(&leaves, p, 0, 0);

	if (!leaf)
		return;
	task_exit(task_at(*leaf));
	*leaf = TB_NONE;
}

/* This one and the next must exist: without them the kernel ejects the scheduler when a CPU goes online or offline. */
void BPF_STRUCT_OPS(tombola_cpu_online, s32 cpu)
{
	cpu_of(cpu)->offline = 0;
}

/*
 * Called by the kernel thread that takes the CPU offline, which has more to do there. From now on the CPU does not call dispatch.
 * A kernel thread whose slice ended would stay in the local DSQ for ever, because of ENQ_LAST; so its slices there do not end.
 */
void BPF_STRUCT_OPS(tombola_cpu_offline, s32 cpu)
{
	struct cpu *c = cpu_of(cpu);

	c->leaf = TB_NONE;
	c->next = TB_NONE;
	c->offline = 1;
	task_set_slice(bpf_get_current_task_btf(), ~0ull);
}

s32 BPF_STRUCT_OPS_SLEEPABLE(tombola_init)
{
	int ret;

	if (several())
		slots_init(TB_BASE);
	for_each_queue(queue) {
		step_queue_init(queue);
	}
	root_client = (u32)user_of(0);
	ret = kthreads_init();
	if (!ret)
		ret = slice_timers_init();
	if (!ret)
		ret = minor_timer_init();
	if (!ret && transfers())
		ret = loan_timer_init();
	if (!ret && several())
		ret = price_timer_init();
	running = !ret;
	return ret;
}

/* Not part of sched_ext: a tracepoint that each sent signal passes. */
SEC("tp_btf/signal_generate")
int BPF_PROG(tombola_signalled, int sig, void *info, struct task_struct *p)
{
	thaw_to_die(p, task_find(p));
	return 0;
}

void BPF_STRUCT_OPS(tombola_exit_op, struct scx_exit_info *info)
{
	running = 0;
	bpf_probe_read_kernel_str(tombola_exit.reason, sizeof(tombola_exit.reason), info->reason);
	bpf_probe_read_kernel_str(tombola_exit.msg, sizeof(tombola_exit.msg), info->msg);
	bpf_probe_read_kernel_str(tombola_exit.dump, sizeof(tombola_exit.dump), info->dump);
	tombola_exit.code = info->exit_code;
	tombola_exit.kind = (s32)info->kind;
	wake_daemon();
}

SEC(".struct_ops.link")
struct sched_ext_ops tombola_ops = {
	.select_cpu = (void *)tombola_select_cpu,
	.enqueue = (void *)tombola_enqueue,
	.dispatch = (void *)tombola_dispatch,
	.yield = (void *)tombola_yield,
	.running = (void *)tombola_running,
	.stopping = (void *)tombola_stopping,
	.enable = (void *)tombola_enable,
	.disable = (void *)tombola_disable,
	.init_task = (void *)tombola_init_task,
	.exit_task = (void *)tombola_exit_task,
	.dump = (void *)tombola_dump,
	.dump_cpu = (void *)tombola_dump_cpu,
	.dump_task = (void *)tombola_dump_task,
	.cpu_online = (void *)tombola_cpu_online,
	.cpu_offline = (void *)tombola_cpu_offline,
	.init = (void *)tombola_init,
	.exit = (void *)tombola_exit_op,
	/* Enqueue also the last runnable thread, exiting and migration-disabled ones; else the kernel runs them itself. */
	.flags = SCX_OPS_ENQ_LAST | SCX_OPS_ENQ_EXITING | SCX_OPS_ENQ_MIGRATION_DISABLED,
	.timeout_ms = 30000,
	.name = "tombola",
};
