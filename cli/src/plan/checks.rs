//! What must be true of every plan, whatever its file looks like.

use super::example::EXAMPLE_COMMAND;
use super::schedulers::{Balance, RunQueue, Scheduler, name};
use crate::faults::Fault;
use tombola_sim::plan::{CLIENTS_MAX, Change, Plan, Program, Step};
use tombola_sim::{RunQueues, Topology, limits};

/// The most CPUs of a machine.
pub const CPUS_MAX: u64 = 4096;

/// Masks name CPUs up to this one.
const MASKED_CPUS: usize = 64;

pub(super) fn scheduler(scheduler: Scheduler, cpus: usize) -> Option<Fault> {
    (cpus > 1 && scheduler.is_for_one_cpu()).then(|| {
        Fault::of_file(
            format!("{} runs on one CPU only, not on {cpus}", scheduler.name()),
            "the thesis's kernel did not support several",
            "set one CPU (cpus = 1, or --cpus 1), or choose another scheduler",
        )
    })
}

/// The run queues that were asked for. Without `caches` it is not known which CPUs share one.
pub(super) fn run_queues(
    scheduler: Scheduler,
    wanted: RunQueue,
    balance: Option<Balance>,
    topology: Topology,
    caches: bool,
) -> Result<RunQueues, Fault> {
    let own = scheduler.own_run_queue();
    if let Some(own) = own.filter(|own| wanted != RunQueue::Auto && wanted != *own) {
        let (scheduler, own) = (scheduler.name(), name(own));
        return Err(Fault::of_file(
            format!("{scheduler} cannot have run-queue = {:?}", name(wanted)),
            format!("{scheduler} is simulated as its source has it, with run-queue = {own:?}"),
            "choose auto, or the scheduler stride or lottery",
        ));
    }
    let rule = balance.map_or(tombola_sim::Balance::default(), Balance::rule);
    match wanted {
        RunQueue::Auto => Ok(RunQueues::of_topology(topology, rule)),
        RunQueue::Machine => Ok(RunQueues::Machine),
        RunQueue::Cpu => Ok(RunQueues::PerCpu(rule)),
        RunQueue::Llc if caches => Ok(RunQueues::PerCache(rule)),
        RunQueue::Llc => Err(Fault::of_file(
            "the machine has no caches for run-queue = \"llc\"",
            "the plan does not say which CPUs share a last-level cache",
            "add cpus-per-cache to [machine] of a plan in TOML, or choose machine or cpu",
        )),
    }
}

/// A rule by which tasks move between several run queues of Tombola's was asked for.
pub(super) fn balance(scheduler: Scheduler, balance: Balance, queues: RunQueues) -> Option<Fault> {
    let (fact, cause, next) = if scheduler.own_run_queue().is_some() {
        (
            format!(
                "{} cannot have balance = {:?}",
                scheduler.name(),
                name(balance)
            ),
            "a historic scheduler is simulated as its source has it",
            "leave it out, or choose the scheduler stride or lottery",
        )
    } else if queues == RunQueues::Machine {
        (
            format!("balance = {:?}, but there is one run queue", name(balance)),
            "tasks move between several run queues only",
            "leave it out, or choose run-queue llc or cpu",
        )
    } else {
        return None;
    };
    Some(Fault::of_file(fact, cause, next))
}

/// A mask of these CPUs; bit = CPU.
pub(super) fn mask(list: &[i64], cpus: usize) -> Result<u64, Fault> {
    let fault = |cause| {
        let next =
            "change the list, or the number of CPUs; without the list the task may run on all";
        Err(Fault::of_file("these CPUs are out of range", cause, next))
    };
    if cpus > MASKED_CPUS {
        return fault(format!(
            "a list can be set on machines of up to {MASKED_CPUS} CPUs, and this one has {cpus}"
        ));
    }
    let mut mask = 0;
    for &cpu in list {
        match usize::try_from(cpu) {
            Ok(cpu) if cpu < cpus => mask |= 1 << cpu,
            _ => {
                return fault(format!(
                    "the machine has CPUs 0 to {}, and not {cpu}",
                    cpus - 1
                ));
            }
        }
    }
    match mask {
        0 => fault("a task needs at least one".to_owned()),
        _ => Ok(mask),
    }
}

pub(super) fn number_of_clients(plan: &Plan) -> Option<Fault> {
    let tasks: usize = plan.tasks.iter().map(|task| task.count).sum();
    let (currencies, queues) = (plan.currencies.len(), plan.run_queues());
    if tasks <= plan.tasks_max() {
        return None;
    }
    Some(if queues == 1 {
        Fault::of_file(
            format!(
                "the plan has {} users, currencies and tasks",
                currencies + tasks
            ),
            format!("together they are at most {CLIENTS_MAX}"),
            "let some tasks count less",
        )
    } else {
        Fault::of_file(
            format!(
                "the plan has {tasks} tasks, and {currencies} users and currencies on {queues} run queues"
            ),
            format!(
                "tasks are at most {}, as each user and currency takes a place on each queue where it has tasks",
                plan.tasks_max()
            ),
            "let some tasks count less, or choose fewer run queues",
        )
    })
}

/// With several run queues, the tickets of what is in one currency must fit into the core's numbers on one queue.
pub(super) fn sums_of_tickets(plan: &Plan) -> Option<Fault> {
    if plan.run_queues() == 1 {
        return None;
    }
    let changes = || plan.changes.iter().map(|(_, change)| *change);
    let mut sums = vec![0; 1 + plan.currencies.len()];
    for (i, currency) in plan.currencies.iter().enumerate() {
        let later = changes().filter_map(|change| match change {
            Change::Currency(of, tickets) if of == i => Some(tickets),
            _ => None,
        });
        let most = later.fold(currency.tickets, u32::max);
        sums[currency.parent.map_or(0, |parent| 1 + parent)] += u64::from(most);
    }
    for (i, task) in plan.tasks.iter().enumerate() {
        let later = changes().filter_map(|change| match change {
            Change::Task(of, tickets) if of == i => Some(tickets),
            _ => None,
        });
        let most = later.fold(task.tickets, u32::max);
        sums[1 + task.currency] += u64::from(most) * task.count as u64;
    }
    let too_many = sums
        .iter()
        .position(|&sum| sum > limits::SHARED_TICKETS_MAX)?;
    let whose = match too_many {
        0 => "all users".to_owned(),
        of => format!("what is in {}", plan.currencies[of - 1].name),
    };
    Some(Fault::of_file(
        format!("the tickets of {whose} add up to {}", sums[too_many]),
        format!(
            "with several run queues that is at most {}",
            limits::SHARED_TICKETS_MAX
        ),
        "give each fewer tickets in the same proportions",
    ))
}

/// A program must take time, or the simulation would not end; and the number of tasks must not grow without end.
pub(super) fn program(programs: &[Program], index: usize) -> Option<Fault> {
    if forks_itself(programs, index) {
        return Some(Fault::of_file(
            "this program forks itself, or a program that forks it",
            "the number of tasks would grow without end",
            "remove one of the forks",
        ));
    }
    let is_endless = (0..programs.len()).any(|index| forks_itself(programs, index));
    let takes_no_time = !is_endless && !takes_time(programs, index);
    (takes_no_time && programs[index].times.is_none()).then(|| {
        Fault::of_file(
            "these steps take no time",
            "they would be repeated for ever at the same moment",
            format!(
                "add a step that runs, sleeps, or awaits children that do; {EXAMPLE_COMMAND} shows some"
            ),
        )
    })
}

fn steps(program: &Program) -> impl Iterator<Item = Step> {
    (program.phases.iter()).flat_map(|phase| phase.steps.iter().copied())
}

fn forks(program: &Program) -> impl Iterator<Item = usize> {
    steps(program).filter_map(|step| match step {
        Step::Fork(child) => Some(child),
        _ => None,
    })
}

fn forks_itself(programs: &[Program], index: usize) -> bool {
    let mut seen = vec![false; programs.len()];
    let mut next: Vec<usize> = forks(&programs[index]).collect();
    while let Some(child) = next.pop() {
        if !std::mem::replace(&mut seen[child], true) {
            next.extend(forks(&programs[child]));
        }
    }
    seen[index]
}

/// Not for programs that fork themselves.
fn takes_time(programs: &[Program], index: usize) -> bool {
    let program = &programs[index];
    let own = steps(program).any(|step| match step {
        Step::Run(ns) | Step::Sleep(ns) | Step::Timer(ns) => ns > 0,
        _ => false,
    });
    let waits = steps(program).any(|step| matches!(step, Step::Await | Step::AwaitFewer(_)));
    own || (waits && forks(program).any(|child| takes_time(programs, child)))
}
