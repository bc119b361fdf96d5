//! Shares across several run queues.

mod several;

use several::Economy;
use std::rc::Rc;
use tombola_sim::entitlement::{Client, rates};
use tombola_sim::{
    ANYWHERE, Act, Balance, Costs, MS, Program, Random, Rules, RunQueues, SECOND, Scheduler,
    Simulation, Tombola, Topology, hog,
};

/// The worst of tasks that are due 5 % of a CPU or more, in windows of 10 s, in percent.
fn worst(cpus: usize, cpus_each: usize, bound_ms: u64, seed: u64) -> f64 {
    let outcome = Economy::new(cpus, cpus_each, bound_ms, seed).run(12);
    let worst = 100.0 * outcome.error(100).1;
    eprintln!(
        "{cpus} CPUs, {cpus_each} a queue, seed {seed}: {worst:.2} %, lag {:.1} ms, {:.2} moves a second and CPU",
        1000.0 * outcome.lag(),
        outcome.moves
    );
    assert!(outcome.moves <= 5.0, "{} moves", outcome.moves);
    worst
}

/// A machine with a queue for each `cpus_each` CPUs.
fn machine(cpus: usize, cpus_each: usize, bound_ms: u64) -> Simulation<Tombola> {
    let topology = Topology::from(cpus);
    let rules = Rules::stride(MS);
    let scheduler = Tombola::with_queues(rules, topology, cpus_each, bound_ms * MS);
    Simulation::new(scheduler, topology, Costs::default(), 1)
}

/// How much of a CPU each task has in so many ns.
fn parts(simulation: &mut Simulation<Tombola>, ns: u64) -> Vec<f64> {
    let ran = |simulation: &Simulation<Tombola>| -> Vec<u64> {
        let tasks = 0..simulation.machine.tasks().len();
        tasks.map(|task| simulation.machine.ran_ns(task)).collect()
    };
    let before = ran(simulation);
    simulation.run_for(ns);
    let after = ran(simulation).into_iter().zip(before);
    after
        .map(|(after, before)| (after - before) as f64 / ns as f64)
        .collect()
}

/// What is moved, and when, differs from seed to seed by chance: so the mean of 25.
fn mean_of_worst(cpus: usize, cpus_each: usize, bound_ms: u64) -> f64 {
    const SEEDS: u32 = 25;
    let worst = (1..=SEEDS).map(|seed| worst(cpus, cpus_each, bound_ms, seed.into()));
    worst.sum::<f64>() / f64::from(SEEDS)
}

#[test]
fn queues_of_eight_cpus_share_as_one_does() {
    let worst = mean_of_worst(16, 8, 10);
    assert!(worst <= 0.5, "{worst:.2} %");
}

#[test]
fn queues_of_one_cpu_share_as_one_does() {
    for cpus in [4, 16] {
        let worst = mean_of_worst(cpus, 1, 20);
        assert!(worst <= 0.6, "{cpus} CPUs: {worst:.2} %");
    }
}

/// Five hogs, three and one of users with 3, 2 and 1 tickets cannot be divided among four CPUs so that nobody need move. What
/// each user had of the machine in 20 s, as a part of its due, and the moves in that time.
fn without_a_partition(balance: Balance) -> ([f64; 3], u64) {
    let topology = Topology::from(4);
    let queues = RunQueues::PerCpu(balance);
    let scheduler = Tombola::with_run_queues(Rules::stride(MS), topology, queues);
    let mut simulation = Simulation::new(scheduler, topology, Costs::default(), 1);
    let mut of_users = Vec::new();
    for (hogs, base_tickets) in [(5, 3000), (3, 2000), (1, 1000)] {
        let user = simulation.scheduler.user(base_tickets);
        let tasks: Vec<_> = (0..hogs)
            .map(|_| simulation.task(user, 100, hog()))
            .collect();
        of_users.push(tasks);
    }
    simulation.run_until(SECOND);
    let used = |simulation: &Simulation<Tombola>| -> Vec<u64> {
        let of = |tasks: &Vec<usize>| tasks.iter().map(|&t| simulation.machine.ran_ns(t)).sum();
        of_users.iter().map(of).collect()
    };
    let (before, moved) = (used(&simulation), simulation.scheduler.moves);
    simulation.run_for(20 * SECOND);
    let after = used(&simulation);
    let due = [1.0 / 2.0, 1.0 / 3.0, 1.0 / 6.0].map(|due| due * (80 * SECOND) as f64);
    let parts = [0, 1, 2].map(|i| (after[i] - before[i]) as f64 / due[i]);
    (parts, simulation.scheduler.moves - moved)
}

#[test]
fn shares_hold_where_no_partition_gives_them() {
    let (parts, moves) = without_a_partition(Balance::Clock);
    assert!(
        parts.iter().all(|part| (part - 1.0).abs() < 0.01),
        "{parts:?}"
    );
    // One task waits on each queue, so any imbalance is turned round by a move.
    assert!(moves > 10, "{moves}");
}

/// By MQS's rule the queue with three tasks gives one to a queue with two, again and again, whatever was received. The user with
/// one task misses a part of its due for ever.
#[test]
fn mqs_s_rule_moves_more_and_shares_less() {
    let (parts, moves) = without_a_partition(Balance::Mqs);
    let (_, by_clock) = without_a_partition(Balance::Clock);
    assert!(parts[2] < 0.97, "{parts:?}");
    assert!(moves > 10 * by_clock, "{moves}, {by_clock}");
    // One a tick and queue at most.
    assert!(moves <= 4 * 20 * 1000, "{moves}");
}

/// A user has two threads on CPUs 0 and 1, beside two of another user that are bound to them, and two on CPUs 2 and 3. It is due
/// two thirds of the machine, and can have them: CPUs 2 and 3, and a third of the others. By the tickets on each queue alone, it
/// would have half of those, too, however much it gets elsewhere.
#[test]
fn a_user_is_held_back_where_others_are_bound() {
    let mut simulation = machine(4, 2, 10);
    let [rich, poor] = [2000, 1000].map(|tickets| simulation.scheduler.user(tickets));
    let kinds = [(rich, 0b0011), (rich, 0b1100), (poor, 0b0011)];
    for kind in [0, 1, 2, 0, 1, 2] {
        let (user, mask): (u32, u64) = kinds[kind];
        let task = simulation.task(user, 100, hog());
        simulation.set_mask(task, mask);
    }
    simulation.run_until(SECOND);
    let parts = parts(&mut simulation, 20 * SECOND);
    let rates = [0, 1, 2].map(|i| (parts[i] + parts[i + 3]) / 2.0);
    for (rate, due) in rates.into_iter().zip([1.0 / 3.0, 1.0, 2.0 / 3.0]) {
        assert!((rate - due).abs() < 0.01, "{rates:?}");
    }
}

/// While the sleepers of CPU 0 are away, a task with one ticket is for some milliseconds the only one there. If the queue's clock
/// ran ahead by as much as that task's pass, the hog that comes would not leave again when they are back, for many seconds.
#[test]
fn a_clock_does_not_run_away() {
    let mut simulation = machine(2, 1, 20);
    let naps: Program = Rc::new(|act, _| match act {
        1 => Act::Run(SECOND),
        2 => Act::Nap(100 * MS),
        _ => Act::Run(100 * SECOND),
    });
    let kinds = [(1, hog(), 1), (1000, naps.clone(), 1), (1000, naps, 1)];
    for (base_tickets, program, mask) in kinds {
        let user = simulation.scheduler.user(base_tickets);
        let task = simulation.task(user, 100, program);
        simulation.set_mask(task, mask);
    }
    for _ in 0..2 {
        let user = simulation.scheduler.user(1000);
        simulation.task(user, 100, hog());
    }
    simulation.run_until(5 * SECOND);
    let parts = parts(&mut simulation, 5 * SECOND);
    for part in &parts[1..] {
        assert!((part - 0.5).abs() < 0.01, "{parts:?}");
    }
}

/// Two tasks that are bound to CPUs 0 and 2 wait on queue 0, and queue 2 is not its neighbour.
#[test]
fn bound_tasks_find_a_queue_that_is_no_neighbour() {
    let mut simulation = machine(8, 1, 20);
    for task in 0..9 {
        let user = simulation.scheduler.user(1000);
        simulation.task(user, 100, hog());
        if task < 2 {
            simulation.set_mask(task, 0b001);
        }
    }
    simulation.run_until(SECOND);
    for task in 0..2 {
        simulation.set_mask(task, 0b101);
    }
    // What they have missed is made good first.
    simulation.run_until(10 * SECOND);
    let parts = parts(&mut simulation, 20 * SECOND);
    for part in &parts {
        assert!((part - 8.0 / 9.0).abs() < 0.01, "{parts:?}");
    }
}

/// A user is due three CPUs of four. Three of its tasks are bound to two CPUs, so they can use two, and its other task one.
#[test]
fn tasks_that_share_cpus_count_as_these() {
    let mut simulation = machine(4, 1, 20);
    let [rich, poor] = [3000, 1000].map(|tickets| simulation.scheduler.user(tickets));
    let bound = simulation.scheduler.currency(rich, 900);
    for task in 0..3 {
        simulation.task(bound, 100, hog());
        simulation.set_mask(task, 0b11);
    }
    simulation.task(rich, 100, hog());
    for _ in 0..4 {
        simulation.task(poor, 100, hog());
    }
    simulation.run_until(3 * SECOND);
    let parts = parts(&mut simulation, 10 * SECOND);
    assert!((parts[3] - 1.0).abs() < 0.02, "{parts:?}");
}

/// A task that forks four children at a time, which may run on other queues, owes for them as one client does.
#[test]
fn forking_gains_nothing_across_queues() {
    let topology = Topology::from(4);
    let queues = RunQueues::PerCpu(Balance::Clock);
    let scheduler = Tombola::with_run_queues(Rules::stride(MS), topology, queues);
    let mut simulation = Simulation::new(scheduler, topology, Costs::default(), 1);
    let user = simulation.scheduler.user(1000);
    let child: Program = Rc::new(|act, _| match act {
        1 => Act::Run(7 * MS),
        _ => Act::Exit,
    });
    let forker: Program = Rc::new(move |act, _| match act % 5 {
        0 => Act::Await,
        _ => Act::Fork(Rc::clone(&child)),
    });
    simulation.task(user, 100, forker);
    let hogs: Vec<_> = (0..6).map(|_| simulation.task(user, 100, hog())).collect();
    simulation.run_until(20 * SECOND);
    let used: u64 = hogs
        .iter()
        .map(|&task| simulation.machine.ran_ns(task))
        .sum();
    let of_hogs = used as f64 / (80 * SECOND) as f64;
    assert!((of_hogs - 6.0 / 7.0).abs() < 0.01, "{of_hogs}");
}

/// Runs so many ns, sleeps so many, and so on.
fn napper(run_ns: u64, sleep_ns: u64) -> Program {
    Rc::new(move |act, _| match act % 2 {
        0 => Act::Run(run_ns),
        _ => Act::Nap(sleep_ns),
    })
}

/// A user whose threads sleep and wake up, beside one with a hog for each CPU, who so can always use all that is due. What
/// she does not use is his; she gains nothing. (While one of her threads slept, all of her tickets once counted on the other
/// queues, and he had 7 % less than is due.)
#[test]
fn sleepers_take_nothing_from_others_on_several_queues() {
    let mut random = Random(3);
    let mut wrong = Vec::new();
    for economy in 0..100 {
        let cpus = [2, 4][random.below(2) as usize];
        let topology = Topology::from(cpus);
        let queues = RunQueues::PerCpu(Balance::Clock);
        let scheduler = Tombola::with_run_queues(Rules::stride(MS), topology, queues);
        let mut simulation = Simulation::new(scheduler, topology, Costs::default(), economy);
        let tickets = [random.below(3000) + 100, random.below(3000) + 100];
        let users = tickets.map(|tickets| simulation.scheduler.user(tickets as u32));
        let due = cpus as f64 * tickets[0] as f64 / (tickets[0] + tickets[1]) as f64;
        let hogs: Vec<_> = (0..cpus)
            .map(|_| simulation.task(users[0], 100, hog()))
            .collect();
        let currency = simulation
            .scheduler
            .currency(users[1], 50 + random.below(200) as u32);
        let mut nappers = Vec::new();
        for _ in 0..1 + random.below(2 * cpus as u64) {
            let (run_ns, sleep_ns) = ((MS / 10) << random.below(8), (MS / 10) << random.below(8));
            let of = [users[1], currency][random.below(2) as usize];
            simulation.task(of, 100, napper(run_ns, sleep_ns));
            nappers.push((run_ns, sleep_ns));
        }
        simulation.run_until(SECOND);
        let parts = parts(&mut simulation, 10 * SECOND);
        let of_hogs = hogs.iter().map(|&task| parts[task]).sum::<f64>() / due;
        if of_hogs < 0.99 {
            wrong.push(format!(
                "{economy}: {cpus} CPUs, {tickets:?}: {of_hogs:.4} of what is due, beside {nappers:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn link() -> Program {
    Rc::new(|act, _| match act {
        1 => Act::Run(MS / 2),
        2 => Act::Fork(link()),
        _ => Act::Exit,
    })
}

/// The forker and its child are there at once for a moment, always when the forker's run was not charged yet. If the user's
/// tickets on the queue rose at that moment, the run would be divided by them: the user got seven sixths of its due.
#[test]
fn a_chain_of_forks_gains_nothing_on_its_queue() {
    for cpus in [2, 4] {
        let topology = Topology::from(cpus);
        let queues = RunQueues::PerCpu(Balance::Clock);
        let scheduler = Tombola::with_run_queues(Rules::stride(MS), topology, queues);
        let mut simulation = Simulation::new(scheduler, topology, Costs::default(), 1);
        let users = [0, 1].map(|_| simulation.scheduler.user(1000));
        let hogs: Vec<_> = (0..cpus)
            .map(|_| simulation.task(users[0], 100, hog()))
            .collect();
        for _ in 0..cpus {
            simulation.task(users[1], 100, link());
        }
        simulation.run_until(5 * SECOND);
        let used = hogs.iter().map(|&task| simulation.machine.ran_ns(task));
        let of_hogs = used.sum::<u64>() as f64 / (cpus as u64 * 5 * SECOND) as f64;
        assert!((of_hogs - 0.5).abs() < 0.005, "{cpus} CPUs: {of_hogs}");
    }
}

/// What sleeps and wakes up changes its queue, and its group's tickets follow.
#[test]
fn idle_cpus_take_what_waits_elsewhere() {
    let mut simulation = machine(4, 2, 10);
    let user = simulation.scheduler.user(1000);
    let tasks: Vec<_> = (0..4).map(|_| simulation.task(user, 100, hog())).collect();
    simulation.run_until(SECOND);
    for task in tasks {
        assert!(simulation.machine.ran_ns(task) > 990 * MS, "{task}");
    }
}

/// Currencies of one thread and of three, in users, on a queue for each CPU.
#[test]
fn currencies_keep_their_shares_when_threads_move() {
    let mut simulation = machine(4, 1, 20);
    let mut clients = vec![Client::currency(None, 1)];
    let (mut tasks, mut leaves) = (Vec::new(), Vec::new());
    for base_tickets in [3000, 2000, 1000] {
        let user = simulation.scheduler.user(base_tickets);
        clients.push(Client::currency(Some(0), base_tickets));
        let of_user = clients.len() - 1;
        for (tickets, threads) in [(100, 1), (200, 3)] {
            let currency = simulation.scheduler.currency(user, tickets);
            clients.push(Client::currency(Some(of_user), tickets));
            let of_currency = clients.len() - 1;
            for _ in 0..threads {
                tasks.push(simulation.task(currency, 100, hog()));
                leaves.push(clients.len());
                clients.push(Client::leaf(of_currency, 100, ANYWHERE));
            }
        }
    }
    let due = rates(&clients, 4);
    simulation.run_until(SECOND);
    let used = |s: &Simulation<Tombola>| -> Vec<u64> {
        tasks.iter().map(|&task| s.machine.ran_ns(task)).collect()
    };
    let before = used(&simulation);
    simulation.run_for(20 * SECOND);
    let after = used(&simulation);
    for (i, &leaf) in leaves.iter().enumerate() {
        let rate = (after[i] - before[i]) as f64 / (20 * SECOND) as f64;
        let due = due[leaf];
        assert!(
            (rate - due).abs() < 0.01 * due,
            "task {i}: {rate:.4} of {due:.4}"
        );
    }
    assert!(simulation.scheduler.moves > 10);
}

/// Of three users that are due 1 and twice 1.5 CPUs of 4, the last one's tasks are bound to a CPU for a while. So it can use
/// one CPU, and the others what they have. When its tasks may run anywhere, one of them must leave the other: that they are
/// together does not mean that the user can use one CPU only.
#[test]
fn tasks_that_were_bound_to_one_cpu_come_apart() {
    let mut simulation = machine(4, 1, 20);
    let [most, other, bound] =
        [10_000, 500, 1000].map(|tickets| simulation.scheduler.user(tickets));
    for user in [most, other, other, bound, bound] {
        let task = simulation.task(user, 100, hog());
        if user == bound {
            simulation.set_mask(task, 1);
        }
    }
    simulation.run_until(3 * SECOND);
    simulation.scheduler.set_group_tickets(other, 1000);
    simulation.run_until(6 * SECOND);
    for task in [3, 4] {
        simulation.set_mask(task, ANYWHERE);
    }
    simulation.run_until(10 * SECOND);
    let parts = parts(&mut simulation, 20 * SECOND);
    for part in &parts[1..] {
        assert!((part - 0.75).abs() < 0.01, "{parts:?}");
    }
}

/// A process of two threads with 3000 tickets and a thread with 100 are bound to CPU 2, a thread with one ticket to CPU 3. Alice
/// can use no more, so that thread has its CPU to itself, and her vnow advances fast. What her clock forgets of that, and that
/// lags are halved, does not change how the others share theirs.
#[test]
fn bound_tasks_share_their_cpu_by_tickets() {
    let mut simulation = machine(4, 2, 10);
    let alice = simulation.scheduler.user(5000);
    let process = simulation.scheduler.currency(alice, 3000);
    let mut bound: Vec<usize> = (0..2)
        .map(|_| simulation.task(process, 100, hog()))
        .collect();
    bound.push(simulation.task(alice, 100, hog()));
    for &task in &bound {
        simulation.set_mask(task, 0b100);
    }
    let small = simulation.task(alice, 1, hog());
    simulation.set_mask(small, 0b1000);
    let bob = simulation.scheduler.user(5000);
    for _ in 0..6 {
        simulation.task(bob, 100, hog());
    }
    simulation.run_until(2 * SECOND);
    let parts = parts(&mut simulation, 20 * SECOND);
    let (of_process, of_thread) = (parts[0] + parts[1], parts[2]);
    assert!((of_process + of_thread - 1.0).abs() < 0.02, "{parts:?}");
    let part = of_thread / (of_process + of_thread);
    assert!((part - 100.0 / 3100.0).abs() < 0.005, "{part} {parts:?}");
}
