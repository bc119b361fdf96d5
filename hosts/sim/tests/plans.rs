//! Plans: what is due to their tasks, what they receive, and what is counted of them.

use tombola_sim::historic::{Plan9Rules, Sharing};
use tombola_sim::plan::{
    CLIENTS_MAX, Change, Currency, Kind, Phase, Plan, Program, Report, Row, Sample, Step, Task,
    TooManyTasks, run,
};
use tombola_sim::{
    ANYWHERE, Balance, Costs, MS, QueueLock, Random, Rules, RunQueues, SECOND, Topology,
};

const KINDS: [Kind; 13] = [
    Kind::Tombola(Rules::stride(MS), RunQueues::Machine),
    Kind::Tombola(Rules::lottery(MS), RunQueues::Machine),
    Kind::Tombola(Rules::stride(MS), RunQueues::PerCpu(Balance::Clock)),
    Kind::Tombola(Rules::lottery(MS), RunQueues::PerCpu(Balance::Clock)),
    Kind::Tombola(Rules::stride(MS), RunQueues::PerCpu(Balance::Mqs)),
    Kind::Linux24(Sharing::Tasks),
    Kind::Linux24(Sharing::Users),
    Kind::Thesis { enhanced: false },
    Kind::Thesis { enhanced: true },
    Kind::Mach,
    Kind::Plan9(Plan9Rules::ONE_QUEUE),
    Kind::Plan9(Plan9Rules::MQS),
    Kind::RoundRobin(MS),
];

fn user(name: &str, tickets: u32) -> Currency {
    Currency {
        name: name.to_owned(),
        parent: None,
        tickets,
    }
}

/// A task that computes for ever.
fn hog(name: &str, currency: usize) -> Task {
    Task {
        name: name.to_owned(),
        count: 1,
        currency,
        tickets: 100,
        nice: 0,
        mask: ANYWHERE,
        starts_ns: 0,
        ends_ns: None,
        program: None,
    }
}

fn runs(name: &str, currency: usize, program: usize) -> Task {
    Task {
        program: Some(program),
        ..hog(name, currency)
    }
}

/// Steps, repeated for ever or so often.
fn program(steps: &[Step], times: Option<u64>) -> Program {
    let steps = steps.to_vec();
    Program {
        phases: vec![Phase { times: 1, steps }],
        times,
    }
}

/// Ten seconds of one CPU under stride, with users of 3000 and 1000 base tickets.
fn plan(tasks: Vec<Task>) -> Plan {
    Plan {
        topology: Topology::from(1),
        costs: Costs::default(),
        scheduler: Kind::Tombola(Rules::stride(MS), RunQueues::Machine),
        span_ns: 10 * SECOND,
        seed: 1,
        currencies: vec![user("alice", 3000), user("bob", 1000)],
        programs: Vec::new(),
        tasks,
        changes: Vec::new(),
    }
}

fn done(plan: &Plan) -> Report {
    run(plan, |_| {}).expect("few tasks")
}

fn assert_near(value: u64, wanted: u64, most: u64) {
    assert!(
        value.abs_diff(wanted) <= most,
        "{value}, not {wanted} ± {most}"
    );
}

fn assert_row(row: &Row, entitled_ns: u64, most: u64) {
    assert_near(row.entitled_ns, entitled_ns, 1000);
    assert_near(row.received_ns, entitled_ns, most);
}

#[test]
fn users_share_by_base_tickets() {
    let report = done(&plan(vec![hog("a", 0), hog("b", 1), hog("c", 1)]));
    assert_row(&report.currencies[0], 7500 * MS, 2 * MS);
    assert_row(&report.currencies[1], 2500 * MS, 2 * MS);
    for row in &report.tasks[1..] {
        assert_row(row, 1250 * MS, 3 * MS);
        assert!(row.worst_ns <= 3 * MS, "{row:?}");
    }
    assert_eq!(report.tasks[1].parent.as_deref(), Some("bob"));
    assert_eq!((report.cpus, report.migrations), (1, 0));
}

#[test]
fn round_robin_ignores_tickets() {
    let mut plan = plan(vec![hog("a", 0), hog("b", 1)]);
    plan.scheduler = Kind::RoundRobin(MS);
    let report = done(&plan);
    assert_near(report.tasks[0].entitled_ns, 7500 * MS, 1000);
    assert_near(report.tasks[0].received_ns, 5000 * MS, MS);
    assert_near(report.tasks[0].worst_ns, 2500 * MS, MS);
}

#[test]
fn nested_currencies_count_for_those_around_them() {
    let mut plan = plan(vec![hog("a", 0), hog("b", 1), hog("inner", 3)]);
    let inside = |name: &str, parent| Currency {
        parent: Some(parent),
        ..user(name, 300)
    };
    plan.currencies
        .extend([inside("alice:x", 0), inside("alice:x:y", 2)]);
    let report = done(&plan);
    // Alice's own task has 100 of 400 tickets of her three quarters, the rest is the nested currency's.
    for (row, entitled_ms) in [(0, 7500), (1, 2500), (2, 5625), (3, 5625)] {
        assert_row(&report.currencies[row], entitled_ms * MS, 3 * MS);
    }
    assert_row(&report.tasks[0], 1875 * MS, 3 * MS);
    assert_eq!(
        report.currencies[3].switches, report.tasks[2].switches,
        "a currency has the switches of its tasks"
    );
    let of_alice = report.tasks[0].switches + report.tasks[2].switches;
    assert_eq!(report.currencies[0].switches, of_alice);
}

#[test]
fn tickets_change_at_half_time() {
    let mut plan = plan(vec![hog("a", 0), hog("b", 1)]);
    plan.changes = vec![(5 * SECOND, Change::Currency(1, 9000))];
    let report = done(&plan);
    assert_row(&report.tasks[0], 5000 * MS, 3 * MS);
    plan.tasks.push(hog("c", 1));
    plan.changes = vec![(5 * SECOND, Change::Task(2, 300))];
    let report = done(&plan);
    assert_row(&report.tasks[1], 937_500_000, 4 * MS);
    assert_row(&report.tasks[2], 1_562_500_000, 4 * MS);
}

/// A task's tickets, a nested currency's and a user's, on a queue for each of four CPUs.
#[test]
fn tickets_change_on_several_run_queues() {
    let mut plan = plan(vec![hog("a", 0), hog("b", 1), hog("c", 2), hog("d", 2)]);
    plan.currencies.push(Currency {
        parent: Some(0),
        ..user("alice:x", 100)
    });
    for task in &mut plan.tasks {
        task.count = 4;
    }
    plan.topology = Topology::from(4);
    plan.scheduler = Kind::Tombola(Rules::stride(MS), RunQueues::PerCpu(Balance::Clock));
    plan.changes = vec![
        (2 * SECOND, Change::Task(3, 300)),
        (4 * SECOND, Change::Currency(2, 1000)),
        (6 * SECOND, Change::Currency(1, 4000)),
    ];
    let report = done(&plan);
    for row in report.tasks.iter().chain(&report.currencies) {
        assert_near(row.received_ns, row.entitled_ns, row.entitled_ns / 100);
    }
    let queues = report.run_queues.expect("there are several");
    assert_eq!(queues.count, 4);
    assert!(queues.slices >= report.switches, "{queues:?}");
    plan.changes.clear();
    let unchanged = done(&plan);
    for i in [0, 1, 3] {
        let difference = report.tasks[i]
            .received_ns
            .abs_diff(unchanged.tasks[i].received_ns);
        assert!(difference > SECOND, "{:?}", report.tasks[i]);
    }
}

/// Busy tasks, twice as many as CPUs, under a queue's lock that each decision holds for so long.
fn locked(kind: Kind, cpus: usize, lock_hold_ns: u64) -> (Report, QueueLock) {
    let mut plan = plan(vec![hog("a", 0), hog("b", 1)]);
    for task in &mut plan.tasks {
        task.count = cpus;
    }
    plan.currencies[0].tickets = plan.currencies[1].tickets;
    plan.topology = Topology {
        cpus,
        cpus_per_cache: cpus / 4,
        cpus_per_node: cpus,
    };
    plan.scheduler = kind;
    plan.span_ns = SECOND;
    plan.costs.lock_hold_ns = lock_hold_ns;
    let report = done(&plan);
    let lock = report.busiest_lock.expect("locks are modelled");
    (report, lock)
}

/// With one queue, and more tasks than CPUs, a CPU either runs a task, or waits for the lock, or holds it. The lock of 64 CPUs,
/// each of which would ask every 200 us, is held for 6 us each time: they can decide half as often as they would.
#[test]
fn a_lock_takes_the_time_of_its_cpus() {
    let rules = [Rules::stride(MS / 5), Rules::lottery(MS / 5)];
    let kinds = rules.map(|rules| Kind::Tombola(rules, RunQueues::Machine));
    for kind in [kinds[0], kinds[1], Kind::RoundRobin(MS / 5)] {
        for (cpus, hold_ns) in [(4, 1000), (64, 500), (64, 6000)] {
            let (report, lock) = locked(kind, cpus, hold_ns);
            let received_ns = report.tasks.iter().map(|row| row.received_ns).sum::<u64>();
            let sum = received_ns + lock.held_ns + lock.waited_ns;
            // At the end, each CPU may still wait for all others.
            let open_ns = cpus as u64 * (cpus as u64 + 1) * hold_ns;
            assert_near(sum, cpus as u64 * SECOND, open_ns);
            let is_saturated = lock.held_ns > SECOND * 99 / 100;
            assert_eq!(is_saturated, hold_ns == 6000, "{kind:?} {cpus}: {lock:?}");
            assert!(lock.held_ns <= SECOND, "{lock:?}");
        }
    }
    let mut plan = plan(vec![hog("a", 0)]);
    plan.scheduler = Kind::RoundRobin(MS);
    assert_eq!(done(&plan).busiest_lock, None);
}

/// What saturates one lock is divided among several. Each queue's is held as long as those of the others.
#[test]
fn several_run_queues_have_locks_of_their_own() {
    let of = |queues| Kind::Tombola(Rules::stride(MS / 5), queues);
    let (machine, one) = locked(of(RunQueues::Machine), 64, 6000);
    let (caches, busiest) = locked(of(RunQueues::PerCache(Balance::Clock)), 64, 6000);
    assert!(busiest.queue < 4);
    // 16 CPUs, 6 us of each 206 us.
    assert_near(busiest.held_ns, SECOND * 16 * 6 / 206, SECOND / 50);
    assert!(
        busiest.waited_ns * 10 < one.waited_ns,
        "{busiest:?}, {one:?}"
    );
    let received_ns = |report: &Report| report.tasks.iter().map(|row| row.received_ns).sum::<u64>();
    assert!(received_ns(&caches) > received_ns(&machine) * 5 / 4);
    let (_, of_cpu) = locked(Kind::Plan9(Plan9Rules::MQS), 64, 6000);
    assert!(of_cpu.held_ns < SECOND / 20, "{of_cpu:?}");
}

/// A CPU spends the time of a wake-up, and the woken task's CPU that of the choice. A task alone on one CPU: it sleeps exactly as
/// long as it says, and its next burst begins after both.
#[test]
fn wake_ups_and_sleeps_are_decisions() {
    let mut plan = plan(vec![runs("a", 0, 0)]);
    plan.programs = vec![program(&[Step::Run(MS), Step::Sleep(MS)], Some(100))];
    plan.costs.lock_hold_ns = 10_000;
    let report = done(&plan);
    let lock = report.busiest_lock.expect("locks are modelled");
    // It starts and wakes up 101 times, is chosen as often, and falls asleep or exits as often.
    assert_eq!((lock.takes, lock.waited_ns), (3 * 101, 0));
    assert_eq!(lock.held_ns, lock.takes * 10_000);
    assert_eq!(report.tasks[0].received_ns, 100 * MS);
    // The wake-up's hold, and the choice's.
    let latency = report.tasks[0].latency;
    assert_near(latency.max_ns, 20_000, 20);
    assert_near(latency.mean_ns, 20_000, 20);
}

/// With run queues for each of three caches, the last of which has fewer CPUs.
#[test]
fn caches_may_differ_in_size() {
    let mut plan = plan(vec![hog("a", 0), hog("b", 1)]);
    (plan.tasks[0].count, plan.tasks[1].count) = (12, 20);
    plan.topology = Topology {
        cpus: 10,
        cpus_per_cache: 4,
        cpus_per_node: 10,
    };
    let run_queues = RunQueues::of_topology(plan.topology, Balance::Clock);
    assert_eq!(run_queues, RunQueues::PerCache(Balance::Clock));
    plan.scheduler = Kind::Tombola(Rules::stride(MS), run_queues);
    let report = done(&plan);
    assert_eq!(report.run_queues.expect("there are several").count, 3);
    for row in &report.currencies {
        assert_near(row.received_ns, row.entitled_ns, row.entitled_ns / 200);
    }
    plan.scheduler = Kind::Tombola(Rules::stride(MS), RunQueues::Machine);
    assert_eq!(done(&plan).run_queues.expect("there is one").count, 1);
}

#[test]
fn without_currencies_a_change_of_one_is_not_the_users() {
    for kind in KINDS {
        let mut plan = plan(vec![hog("a", 2), hog("b", 1)]);
        plan.currencies.push(Currency {
            parent: Some(0),
            ..user("alice:x", 100)
        });
        plan.scheduler = kind;
        let without = done(&plan).tasks;
        plan.changes = vec![(0, Change::Currency(2, 10_000))];
        assert_eq!(done(&plan).tasks, without, "{kind:?}");
    }
}

#[test]
fn tasks_start_and_end() {
    for kind in KINDS {
        let mut plan = plan(vec![hog("a", 0), hog("b", 1)]);
        plan.scheduler = kind;
        plan.tasks[1].starts_ns = 2 * SECOND;
        plan.tasks[1].ends_ns = Some(6 * SECOND);
        let mut samples: Vec<Sample> = Vec::new();
        let report = run(&plan, |sample| samples.push(sample)).expect("few tasks");
        assert_near(report.tasks[1].entitled_ns, 1000 * MS, 100_000);
        let b_at = |at_ns| {
            let sample = samples.iter().find(|sample| sample.at_ns == at_ns);
            sample.expect("a window's end").received_ns[1]
        };
        assert_eq!(b_at(2 * SECOND), 0, "{kind:?}");
        // It ends when it next has a CPU, and runs no more.
        assert_eq!(b_at(6 * SECOND), report.tasks[1].received_ns, "{kind:?}");
        assert_eq!(
            report.tasks[0].received_ns + report.tasks[1].received_ns,
            10 * SECOND,
            "{kind:?}: no CPU idles"
        );
    }
}

#[test]
fn a_sleeping_task_ends_with_its_children() {
    for kind in KINDS {
        let mut plan = plan(vec![runs("parent", 0, 0), hog("b", 1)]);
        plan.scheduler = kind;
        plan.programs = vec![
            program(&[Step::Fork(1), Step::Await], Some(1)),
            program(&[Step::Run(MS), Step::Sleep(20 * SECOND)], None),
        ];
        plan.tasks[0].ends_ns = Some(SECOND);
        let report = done(&plan);
        assert_eq!(report.tasks[0].received_ns, MS, "{kind:?}");
        // Parent and child, and both again to end.
        assert_eq!(report.tasks[0].latency.wakeups, 4, "{kind:?}");
    }
}

#[test]
fn a_lock_goes_to_tasks_in_the_order_in_which_they_asked() {
    let mut plan = plan(vec![runs("a", 0, 0), runs("b", 0, 1), runs("c", 0, 1)]);
    let (lock, unlock) = (Step::Lock(0), Step::Unlock(0));
    plan.programs = vec![
        program(
            &[lock, Step::Sleep(10 * MS), unlock, Step::Sleep(SECOND)],
            None,
        ),
        program(
            &[
                Step::Run(MS),
                lock,
                Step::Sleep(10 * MS),
                unlock,
                Step::Run(MS),
            ],
            Some(1),
        ),
    ];
    plan.span_ns = 100 * MS;
    let mut received: Vec<Vec<u64>> = Vec::new();
    for span_ms in [9, 15, 25, 35] {
        plan.span_ns = span_ms * MS;
        received.push(
            done(&plan)
                .tasks
                .iter()
                .map(|row| row.received_ns / MS)
                .collect(),
        );
    }
    // a holds it for the first 10 ms, b up to 20 ms, c up to 30 ms.
    assert_eq!(
        received,
        [vec![0, 1, 1], vec![0, 1, 1], vec![0, 2, 1], vec![0, 2, 2]]
    );
}

#[test]
fn a_task_that_ends_frees_its_locks() {
    let mut plan = plan(vec![runs("a", 0, 0), runs("b", 0, 0), runs("c", 0, 0)]);
    plan.programs = vec![program(
        &[Step::Lock(0), Step::Run(MS), Step::Sleep(9 * MS)],
        Some(1),
    )];
    plan.span_ns = 25 * MS;
    let report = done(&plan);
    let received: Vec<u64> = report.tasks.iter().map(|row| row.received_ns).collect();
    assert_eq!(received, [MS; 3]);
    // b waits for the lock when it is ended, so c has it after a.
    plan.tasks[1].ends_ns = Some(5 * MS);
    plan.span_ns = 15 * MS;
    let report = done(&plan);
    assert_eq!(report.tasks[1].received_ns, 0);
    assert_eq!(report.tasks[2].received_ns, MS);
}

#[test]
fn a_timer_does_not_lose_time_to_waiting() {
    let mut plan = plan(vec![runs("timer", 0, 0), hog("b", 1)]);
    plan.programs = vec![program(&[Step::Run(2 * MS), Step::Timer(10 * MS)], None)];
    for kind in [plan.scheduler, Kind::RoundRobin(3 * MS)] {
        plan.scheduler = kind;
        let report = done(&plan);
        assert_row(&report.tasks[0], 2000 * MS, 0);
        assert_row(&report.tasks[1], 8000 * MS, 0);
        assert_near(report.tasks[0].latency.wakeups, 1000, 1);
    }
    // With a period of 1 ms no sleep is left.
    plan.scheduler = Kind::Tombola(Rules::stride(MS), RunQueues::Machine);
    plan.programs = vec![program(&[Step::Run(2 * MS), Step::Timer(MS)], None)];
    assert_row(&done(&plan).tasks[0], 7500 * MS, 3 * MS);
}

#[test]
fn a_task_that_sleeps_often_has_its_share_of_what_it_wants() {
    let mut plan = plan(vec![runs("napper", 1, 0), hog("b", 1)]);
    plan.programs = vec![program(&[Step::Run(3 * MS), Step::Sleep(MS / 10)], None)];
    let report = done(&plan);
    assert_row(&report.tasks[0], 5000 * MS, 3 * MS);
    plan.scheduler = Kind::RoundRobin(10 * MS);
    let report = done(&plan);
    assert_near(report.tasks[0].entitled_ns, 5000 * MS, 50 * MS);
    assert!(report.tasks[0].received_ns < 3000 * MS, "{report:?}");
}

#[test]
fn a_parent_awaits_its_children_and_phases_are_repeated() {
    let mut plan = plan(vec![runs("make", 0, 0)]);
    let repeat = |times, step| Phase {
        times,
        steps: vec![step],
    };
    plan.programs = vec![
        Program {
            phases: vec![
                repeat(3, Step::Fork(1)),
                repeat(1, Step::Await),
                repeat(2, Step::Run(MS)),
            ],
            times: Some(2),
        },
        program(&[Step::Run(10 * MS)], Some(1)),
    ];
    let report = done(&plan);
    assert_eq!(report.tasks[0].received_ns, 2 * (30 + 2) * MS);
    assert_eq!(report.currencies[0].received_ns, 64 * MS);
    // The start, six children, and the parent after each three.
    assert_eq!(report.tasks[0].latency.wakeups, 1 + 6 + 2);
}

/// With at most two children at a time, of 10, 10 and 20 ms; the third begins when the first two end, on two CPUs.
#[test]
fn a_parent_awaits_fewer_children_and_the_end_of_all_is_known() {
    for kind in [
        Kind::Tombola(Rules::stride(MS), RunQueues::Machine),
        Kind::RoundRobin(MS),
        Kind::Plan9(Plan9Rules::MQS),
    ] {
        let mut plan = plan(vec![runs("make", 0, 0), hog("b", 1)]);
        plan.scheduler = kind;
        plan.topology = Topology::from(2);
        plan.tasks[1].ends_ns = Some(1);
        let fork = |child| [Step::Fork(child), Step::AwaitFewer(2)];
        let steps = [fork(1), fork(1), fork(2), [Step::Await, Step::Run(MS)]].concat();
        plan.programs = vec![
            program(&steps, Some(1)),
            program(&[Step::Run(10 * MS)], Some(1)),
            program(&[Step::Run(20 * MS)], Some(1)),
        ];
        let report = done(&plan);
        let make = &report.tasks[0];
        let ended_ns = make.ended_ns.expect("it ends");
        assert_near(ended_ns, 31 * MS, 3 * MS);
        assert_eq!(make.received_ns, 41 * MS);
        assert_eq!(report.currencies[0].ended_ns, Some(ended_ns));
        plan.span_ns = 20 * MS;
        assert_eq!(done(&plan).tasks[0].ended_ns, None);
    }
}

#[test]
fn forks_without_end_are_too_many_tasks() {
    for kind in [
        Kind::Tombola(Rules::stride(MS), RunQueues::Machine),
        Kind::RoundRobin(MS),
    ] {
        let mut plan = plan(vec![runs("bomb", 0, 0)]);
        plan.scheduler = kind;
        plan.topology = Topology::from(2);
        plan.programs = vec![
            Program {
                phases: vec![
                    Phase {
                        times: CLIENTS_MAX as u64,
                        steps: vec![Step::Fork(1)],
                    },
                    Phase {
                        times: 1,
                        steps: vec![Step::Run(MS)],
                    },
                ],
                times: None,
            },
            program(&[Step::Sleep(20 * SECOND)], Some(1)),
        ];
        let error = run(&plan, |_| {}).expect_err("too many tasks");
        assert_eq!(error, TooManyTasks { at_ns: 100 * MS }, "{kind:?}");
    }
}

#[test]
fn as_many_tasks_as_the_run_queue_takes() {
    let mut plan = plan(vec![hog("a", 0)]);
    plan.tasks[0].count = CLIENTS_MAX - plan.currencies.len();
    plan.span_ns = 2 * MS;
    assert_near(done(&plan).tasks[0].received_ns, 2 * MS, 0);
}

#[test]
fn switches_and_migrations_cost_what_the_plan_says() {
    let mut plan = plan(vec![runs("a", 0, 0)]);
    plan.programs = vec![program(&[Step::Run(MS), Step::Sleep(MS)], Some(100))];
    plan.costs.switch_ns = 10_000;
    let report = done(&plan);
    assert_eq!(report.tasks[0].switches, 101, "the last one to end");
    assert_eq!(report.tasks[0].received_ns, 100 * MS + 101 * 10_000);
    // Three tasks on CPUs with two caches and one node.
    plan = self::plan(vec![runs("a", 0, 0), runs("b", 0, 0), runs("c", 0, 0)]);
    plan.programs = vec![program(&[Step::Run(500 * MS)], Some(1))];
    plan.topology = Topology {
        cpus: 2,
        cpus_per_cache: 1,
        cpus_per_node: 2,
    };
    plan.costs = Costs {
        migration_ns: 1000,
        cache_ns: 100_000,
        node_ns: 10_000_000,
        ..Costs::default()
    };
    let report = done(&plan);
    for row in &report.tasks {
        assert!(row.migrations > 0, "{row:?}");
        assert_eq!(row.received_ns, 500 * MS + row.migrations * 101_000);
    }
    let all: u64 = report.tasks.iter().map(|row| row.migrations).sum();
    assert_eq!(report.migrations, all);
}

#[test]
fn a_bound_task_stays_on_its_cpus() {
    for kind in KINDS {
        if matches!(kind, Kind::Thesis { .. }) {
            continue;
        }
        let mut plan = plan(vec![hog("bound", 0), hog("b", 1), hog("c", 1)]);
        plan.scheduler = kind;
        plan.topology = Topology::from(2);
        for task in &mut plan.tasks[..2] {
            task.mask = 1 << 1;
        }
        let report = done(&plan);
        assert_eq!(report.tasks[0].migrations, 0, "{kind:?}");
        assert_near(report.tasks[2].entitled_ns, 10 * SECOND, 1000);
        assert_near(report.tasks[2].received_ns, 10 * SECOND, 0);
        // Some schedulers leave a CPU idle up to the first tick.
        let received_ns = report.tasks[0].received_ns + report.tasks[1].received_ns;
        assert_near(received_ns, 10 * SECOND, 10 * MS);
    }
}

#[test]
fn latency_is_counted_after_each_wake_up() {
    let mut plan = plan(vec![runs("sleeper", 0, 0), hog("b", 1)]);
    plan.programs = vec![program(&[Step::Run(MS), Step::Sleep(5 * MS)], None)];
    plan.scheduler = Kind::RoundRobin(4 * MS);
    plan.tasks.push(hog("late", 1));
    plan.tasks[2].starts_ns = 20 * SECOND;
    let report = done(&plan);
    let latency = report.tasks[0].latency;
    assert!(latency.wakeups > 1000, "{latency:?}");
    assert!(latency.mean_ns <= latency.p99_ns && latency.p99_ns <= latency.max_ns);
    // It wakes up 1 ms after the beginning of a slice of 4 ms.
    assert_near(latency.max_ns, 3 * MS, 3000);
    assert_eq!(report.currencies[0].latency, latency);
    let never = &report.tasks[2];
    assert_eq!((never.latency.wakeups, never.latency.max_ns), (0, 0));
    assert_eq!(
        (never.entitled_ns, never.received_ns, never.worst_ns),
        (0, 0, 0)
    );
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let mut plan = plan(vec![hog("a", 0), hog("b", 1)]);
    plan.scheduler = Kind::Tombola(Rules::lottery(MS), RunQueues::Machine);
    let first = done(&plan);
    assert_eq!(first, done(&plan));
    plan.seed = 2;
    assert_ne!(first.tasks, done(&plan).tasks);
}

const LOCKS: u64 = 2;
const PROGRAMS: u64 = 5;

/// Fork only later programs, and take some time.
fn random_program(random: &mut Random, index: u64) -> Program {
    let mut steps = vec![Step::Run(MS / 10 + random.below(5 * MS))];
    for _ in 0..random.below(6) {
        let ns = random.below(20 * MS);
        steps.push(match random.below(9) {
            0 => Step::Run(ns),
            1 => Step::Sleep(ns),
            2 => Step::Timer(1 + ns),
            3 => Step::Lock(random.below(LOCKS) as usize),
            4 => Step::Unlock(random.below(LOCKS) as usize),
            5 => Step::Yield,
            6 => Step::Await,
            _ if index + 1 < PROGRAMS => {
                Step::Fork((index + 1 + random.below(PROGRAMS - index - 1)) as usize)
            }
            _ => Step::Run(0),
        });
    }
    let times = 1 + random.below(3);
    Program {
        phases: vec![Phase { times, steps }],
        // Children end, or there would soon be very many.
        times: (index > 1 || random.below(2) == 0).then(|| 1 + random.below(4)),
    }
}

fn random_task(random: &mut Random, currencies: u64, cpus: u64) -> Task {
    let starts_ns = random.below(2) * random.below(400 * MS);
    let ends = random.below(3) == 0;
    let mask = 1 + random.below((1 << cpus) - 1);
    Task {
        count: 1 + random.below(3) as usize,
        tickets: 1 + random.below(500) as u32,
        nice: random.below(40) as i32 - 20,
        mask: if random.below(3) == 0 { mask } else { ANYWHERE },
        starts_ns,
        ends_ns: ends.then(|| starts_ns + 1 + random.below(300 * MS)),
        program: (random.below(3) > 0).then(|| random.below(PROGRAMS) as usize),
        ..hog("task", random.below(currencies) as usize)
    }
}

fn random_plan(seed: u64, kind: Kind) -> Plan {
    let mut random = Random(seed);
    let random = &mut random;
    let cpus = match kind {
        Kind::Thesis { .. } => 1,
        _ => 1 + random.below(6),
    };
    let mut plan = plan(Vec::new());
    plan.scheduler = kind;
    plan.seed = seed;
    plan.span_ns = 500 * MS;
    plan.topology = Topology {
        cpus: cpus as usize,
        cpus_per_cache: 1 + random.below(2) as usize,
        cpus_per_node: 2,
    };
    plan.costs.switch_ns = random.below(2) * 1000;
    plan.costs.cache_ns = random.below(2) * 20_000;
    plan.costs.lock_hold_ns = (seed % 2) * seed * 500;
    for parent in [0, 1, 2] {
        plan.currencies.push(Currency {
            parent: Some(parent),
            ..user("inner", 1 + random.below(1000) as u32)
        });
    }
    let currencies = plan.currencies.len() as u64;
    plan.programs = (0..PROGRAMS).map(|i| random_program(random, i)).collect();
    let tasks = 1 + random.below(8);
    plan.tasks = (0..tasks)
        .map(|_| random_task(random, currencies, cpus))
        .collect();
    for _ in 0..random.below(5) {
        let tickets = 100 + random.below(9900) as u32;
        let change = match random.below(2) {
            0 => Change::Task(random.below(tasks) as usize, tickets),
            _ => Change::Currency(random.below(currencies) as usize, tickets),
        };
        plan.changes.push((random.below(500 * MS), change));
    }
    plan.changes.sort_by_key(|(at, _)| *at);
    plan
}

#[test]
fn random_plans_run_under_every_scheduler() {
    for seed in 0..100 {
        for kind in KINDS {
            let plan = random_plan(seed, kind);

            let mut samples = Vec::new();
            let report = run(&plan, |sample| samples.push(sample)).expect("few tasks");
            let sum = |rows: &[Row], of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
            let users = &report.currencies[..2];
            let what = format!("seed {seed}, {kind:?}");
            let whole_ns = plan.span_ns * report.cpus as u64;
            let received_ns = sum(&report.tasks, |row| row.received_ns);
            assert!(received_ns <= whole_ns, "{what}: {received_ns}");
            assert_eq!(received_ns, sum(users, |row| row.received_ns), "{what}");
            assert_eq!(report.switches, sum(users, |row| row.switches), "{what}");
            assert_eq!(
                report.migrations,
                sum(users, |row| row.migrations),
                "{what}"
            );
            let entitled_ns = sum(&report.tasks, |row| row.entitled_ns);
            assert!(entitled_ns <= whole_ns + 10, "{what}: {entitled_ns}");
            assert_near(entitled_ns, sum(users, |row| row.entitled_ns), 10);
            let last = samples.last().expect("a sample");
            assert_eq!(last.at_ns, plan.span_ns);
            assert_eq!(last.received_ns.iter().sum::<u64>(), received_ns, "{what}");
        }
    }
}
