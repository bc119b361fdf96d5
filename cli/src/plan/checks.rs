//! What must be true of every plan, whatever its file looks like.

use super::example::EXAMPLE_COMMAND;
use super::schedulers::Scheduler;
use crate::faults::Fault;
use tombola_sim::plan::{CLIENTS_MAX, Plan, Program, Step};

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
    let clients = plan.currencies.len() + tasks;
    (clients > CLIENTS_MAX).then(|| {
        Fault::of_file(
            format!("the plan has {clients} users, currencies and tasks"),
            format!("together they are at most {CLIENTS_MAX}"),
            "let some tasks count less",
        )
    })
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
    let waits = steps(program).any(|step| step == Step::Await);
    own || (waits && forks(program).any(|child| takes_time(programs, child)))
}
