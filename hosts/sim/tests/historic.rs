//! The historic schedulers against what their sources and papers say of them.

use std::rc::Rc;
use tombola_sim::historic::{
    Linux24, Mach, Plan9, Plan9Rules, RoundRobin, Sharing, Thesis, compensation, enhancement,
    next_load, ticks_of,
};
use tombola_sim::{Act, Costs, MS, SECOND, Scheduler, Simulation, TaskId, hog};

fn machine<S: Scheduler>(scheduler: S) -> Simulation<S> {
    Simulation::new(scheduler, 1, Costs::default(), 1)
}

/// Hogs of these nice values, each of a user of its own; the CPU time of each, ns.
fn beside(nices: &[i32]) -> Vec<f64> {
    let mut simulation = machine(Linux24::new(Sharing::Tasks));
    let tasks: Vec<TaskId> = nices
        .iter()
        .map(|&nice| {
            let user = simulation.scheduler.user(1000);
            let task = simulation.make(user, 100, nice, hog());
            simulation.wake_at(0, task);
            task
        })
        .collect();
    simulation.run_until(1000 * SECOND);
    let ran = |&task: &TaskId| simulation.machine.ran_ns(task) as f64;
    tasks.iter().map(ran).collect()
}

#[test]
fn nice_values_of_linux_2_4_give_ratios_of_ticks() {
    assert_eq!(
        [-20, 0, 10, 15, 16, 17, 19].map(ticks_of),
        [11, 6, 3, 2, 2, 1, 1]
    );
    for (one, other, ratio) in [
        (0, 0, 1.0),
        (0, 10, 2.0),
        (0, 15, 3.0),
        (0, 16, 3.0),
        (0, 17, 6.0),
        (0, 19, 6.0),
        (-20, 19, 11.0),
    ] {
        let ran = beside(&[one, other]);
        let measured = ran[0] / ran[1];
        assert!(
            (measured - ratio).abs() < 0.01 * ratio,
            "nice {one} and {other}: {measured}, not {ratio}"
        );
    }
    let ran = beside(&[0, 17, 0]);
    assert!(
        (ran[0] / ran[1] - 6.0).abs() < 0.06,
        "beside a third one: {ran:?}"
    );
}

/// The part of one user's hog beside `n` of another user.
fn insulated<S: Scheduler>(scheduler: S, n: usize) -> f64 {
    let mut simulation = machine(scheduler);
    let (bill, paul) = (
        simulation.scheduler.user(1000),
        simulation.scheduler.user(1000),
    );
    let of_bill = simulation.task(bill, 100, hog());
    for _ in 0..n {
        simulation.task(paul, 100, hog());
    }
    simulation.run_until(1200 * SECOND);
    simulation.machine.ran_ns(of_bill) as f64 / simulation.machine.now as f64
}

#[test]
fn linux_2_4_does_not_insulate_users() {
    for n in [2, 10, 60] {
        let share = insulated(Linux24::new(Sharing::Tasks), n);
        let due = 1.0 / (n as f64 + 1.0);
        assert!(
            (share - due).abs() < 0.01 * due,
            "beside {n}: {share}, not {due}"
        );
    }
}

/// As its author's mail says; the figures for 10 and 60 are a model's by the patch's arithmetic.
#[test]
fn fairsched_insulates_users() {
    for (n, due) in [(2, 0.5000), (10, 0.4998), (60, 0.4985)] {
        let share = insulated(Linux24::new(Sharing::Users), n);
        assert!(
            (share - due).abs() < 0.001,
            "beside {n}: {share}, not {due}"
        );
    }
}

/// Table 4 of the thesis.
#[test]
fn the_thesis_s_compensation() {
    assert_eq!(compensation(200, 5), 40);
    assert_eq!(compensation(800, 2), 1600);
    assert_eq!(compensation(800, 0), 47_200);
    assert_eq!(
        [6, 5, 4, 3, 2, 1, 0].map(enhancement),
        [5, 25, 125, 625, 3125, 15_625, 78_125]
    );
}

/// A lottery of 20,000 wins: within three standard errors.
fn lottery(tickets: [u32; 2], enhanced: bool) -> f64 {
    let mut simulation = machine(Thesis::new(enhanced, 1994));
    let user = simulation.scheduler.user(1000);
    let tasks = tickets.map(|tickets| simulation.task(user, tickets, hog()));
    simulation.run_until(1200 * SECOND);
    let ran = tasks.map(|task| simulation.machine.ran_ns(task) as f64);
    ran[0] / (ran[0] + ran[1])
}

#[test]
fn the_thesis_s_lottery_shares_by_tickets() {
    for (ratio, due) in [(4, 0.8_f64), (3, 0.75)] {
        let share = lottery([100 * ratio, 100], false);
        let error = (due * (1.0 - due) / 20_000.0).sqrt();
        assert!(
            (share - due).abs() < 3.0 * error,
            "{ratio} to 1: {share}, not {due}"
        );
    }
}

#[test]
fn the_thesis_s_lottery_insulates_users() {
    for n in [2, 10, 60] {
        let share = insulated(Thesis::new(false, 1994), n);
        let error = (0.25_f64 / 20_000.0).sqrt();
        assert!((share - 0.5).abs() < 3.0 * error, "beside {n}: {share}");
    }
}

/// In 100 seconds equal hogs have equal parts of the CPUs, to within `off_ns`.
fn equal_hogs<S: Scheduler>(scheduler: S, cpus: usize, hogs: usize, off_ns: u64) {
    let mut simulation = Simulation::new(scheduler, cpus, Costs::default(), 1);
    let user = simulation.scheduler.user(1000);
    let tasks: Vec<TaskId> = (0..hogs)
        .map(|_| simulation.task(user, 100, hog()))
        .collect();
    simulation.run_until(100 * SECOND);
    let ran: Vec<u64> = tasks
        .iter()
        .map(|&task| simulation.machine.ran_ns(task))
        .collect();
    let due = 100 * SECOND * cpus as u64 / hogs as u64;
    assert!(
        ran.iter().all(|ran| ran.abs_diff(due) <= off_ns),
        "{ran:?}, due {due}"
    );
}

#[test]
fn round_robin_gives_equal_parts() {
    for (cpus, hogs) in [(1, 3), (4, 9), (64, 200)] {
        equal_hogs(RoundRobin::new(10 * MS), cpus, hogs, 20 * MS);
    }
}

/// On several CPUs a task that waits keeps the level of the moment when it began to.
#[test]
fn mach_gives_equal_hogs_equal_parts_of_one_cpu() {
    for hogs in [2, 3, 10] {
        equal_hogs(Mach::default(), 1, hogs, 2 * SECOND);
    }
}

/// A task that has used less has the CPU as soon as it wakes up.
#[test]
fn mach_favours_tasks_that_sleep() {
    let mut simulation = machine(Mach::default());
    let user = simulation.scheduler.user(1000);
    for _ in 0..3 {
        simulation.task(user, 100, hog());
    }
    let napper = simulation.task(
        user,
        100,
        Rc::new(|act, _| {
            if act % 2 == 1 {
                Act::Run(5 * MS)
            } else {
                Act::Nap(95 * MS)
            }
        }),
    );
    simulation.run_until(100 * SECOND);
    let ran = simulation.machine.ran_ns(napper);
    assert!(
        ran.abs_diff(5 * SECOND) < SECOND / 10,
        "it wants 5 s and has {ran} ns"
    );
}

/// Integer arithmetic loses almost one process at 1000 ticks a second, and a tenth of one at 100.
#[test]
fn the_load_of_plan_9_loses_by_rounding() {
    for (hz, processes, due) in [(1000, 1, 1), (1000, 3, 2001), (100, 3, 2901)] {
        let load = (0..100_000).fold(0, |load, _| next_load(load, processes, hz));
        assert_eq!(load, due, "{processes} processes at {hz} ticks a second");
    }
}

/// To a tenth of the time in which their means of use decay. On several CPUs they stay where they ran last, and so do not.
#[test]
fn plan_9_gives_equal_hogs_equal_parts_of_one_cpu() {
    for hogs in [2, 3, 10] {
        equal_hogs(Plan9::new(Plan9Rules::ONE_QUEUE), 1, hogs, 3 * SECOND);
    }
}

/// Of 32 processes that one forks: how many CPUs run one after 20 s, and what the processes have used by then.
fn busy(rules: Plan9Rules, cpus: usize) -> (usize, u64) {
    let mut simulation = Simulation::new(Plan9::new(rules), cpus, Costs::default(), 1);
    let user = simulation.scheduler.user(1000);
    let parent: tombola_sim::Program = Rc::new(move |act, _| match act {
        1..=32 => Act::Fork(hog()),
        _ => Act::Await,
    });
    simulation.task(user, 100, parent);
    simulation.run_until(20 * SECOND);
    let machine = &simulation.machine;
    let busy = (0..cpus).filter(|&cpu| machine.running(cpu).is_some());
    let tasks = 0..machine.tasks().len();
    (busy.count(), tasks.map(|task| machine.ran_ns(task)).sum())
}

/// All begin on one CPU, and are pushed from neighbour to neighbour.
#[test]
fn mqs_pushes_work_to_its_neighbours() {
    for cpus in [4, 16] {
        let (busy, used_ns) = busy(Plan9Rules::MQS, cpus);
        assert_eq!(busy, cpus);
        assert!(
            used_ns >= 19 * SECOND * cpus as u64,
            "{cpus} CPUs: used {used_ns} ns"
        );
    }
    // The load is a mean over a second: to a process that forks all at once, its CPU looks idle.
    let without_pushes = Plan9Rules {
        pushes: false,
        ..Plan9Rules::MQS
    };
    assert_eq!(busy(without_pushes, 16).0, 1);
}

/// When a parent and its children are done, on four CPUs: 40 processes that compute for 5 ms in all, and read 20 times meanwhile.
fn done_ns(rules: Plan9Rules) -> u64 {
    let mut simulation = Simulation::new(Plan9::new(rules), 4, Costs::default(), 1);
    let user = simulation.scheduler.user(1000);
    let child: tombola_sim::Program = Rc::new(|act, _| match act {
        1..=40 if act % 2 == 1 => Act::Run(MS / 4),
        1..=40 => Act::Nap(MS / 5),
        _ => Act::Exit,
    });
    let parent: tombola_sim::Program = Rc::new(move |act, _| match act {
        1..=80 if act % 2 == 1 => Act::Fork(Rc::clone(&child)),
        1..=80 => Act::AwaitFewer(4),
        81 => Act::Await,
        _ => Act::Exit,
    });
    let parent = simulation.task(user, 100, parent);
    while simulation.machine.is_alive(parent) {
        simulation.run_for(MS / 10);
    }
    simulation.machine.now
}

/// With the one queue, sleeping processes wait for a CPU's tick although CPUs idle.
#[test]
fn what_is_switched_off_in_plan_9_costs_time() {
    let (one, mqs) = (Plan9Rules::ONE_QUEUE, Plan9Rules::MQS);
    let at_once = done_ns(Plan9Rules {
        wakes_idle: true,
        ..one
    });
    assert!(
        done_ns(one) > at_once + 5 * MS,
        "{} and {at_once}",
        done_ns(one)
    );
    let at_ticks = done_ns(Plan9Rules {
        wakes_idle: false,
        ..mqs
    });
    let mqs = done_ns(mqs);
    assert!(at_ticks > mqs + 5 * MS, "{at_ticks} and {mqs}");
    // A child runs where its parent does, and before it.
    assert_ne!(
        done_ns(one),
        done_ns(Plan9Rules {
            readied_first: false,
            ..one
        })
    );
}
