//! Runs a plan.

use super::accounts::Accounts;
use super::model::{Change, Kind, Phase, Plan, Program, Step};
use super::report::{Report, Sample};
use crate::historic::{Linux24, Mach, Plan9, RoundRobin, Thesis};
use crate::machine::ANYWHERE;
use crate::program::{self, Act, hog};
use crate::scheduler::Scheduler;
use crate::simulation::Simulation;
use crate::tombola::Tombola;
use std::rc::Rc;

/// The longest time for which an entitlement is computed, ns.
const WINDOW_NS: u64 = 100_000_000;

/// A fork failed: too many tasks lived at once. [`Plan::tasks_max`] is the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyTasks {
    /// When it was noticed, ns.
    pub at_ns: u64,
}

/// Runs a plan, and tells `watch` of the end of each window of time, the first of which is empty.
///
/// # Errors
///
/// [`TooManyTasks`], if the programs fork faster than their children end.
///
/// # Panics
///
/// If the plan has an index that does not exist, no CPU, no tickets, or from the beginning more tasks than
/// [`Plan::tasks_max`]; and if a program that takes no time has no end.
pub fn run(plan: &Plan, watch: impl FnMut(Sample)) -> Result<Report, TooManyTasks> {
    match plan.scheduler {
        Kind::Tombola(rules, run_queues) => {
            let scheduler = Tombola::with_run_queues(rules, plan.topology, run_queues);
            simulate(plan, scheduler, watch)
        }
        Kind::Linux24(sharing) => simulate(plan, Linux24::new(sharing), watch),
        Kind::Thesis { enhanced } => simulate(plan, Thesis::new(enhanced, plan.seed as u32), watch),
        Kind::Mach => simulate(plan, Mach::default(), watch),
        Kind::Plan9(rules) => simulate(plan, Plan9::new(rules), watch),
        Kind::RoundRobin(quantum_ns) => simulate(plan, RoundRobin::new(quantum_ns), watch),
    }
}

fn simulate<S: Scheduler>(
    plan: &Plan,
    scheduler: S,
    mut watch: impl FnMut(Sample),
) -> Result<Report, TooManyTasks> {
    let mut running = Running::new(plan, scheduler);
    watch(running.accounts.sample());
    let mut changes = plan.changes.iter().peekable();
    for end in plan.moments() {
        while running.simulation.machine.now < end {
            running.run_window(end)?;
            watch(running.accounts.sample());
        }
        running.end_tasks(end);
        while let Some((_, change)) = changes.next_if(|(at, _)| *at <= end) {
            running.change(*change);
        }
    }
    let Simulation { machine, scheduler } = &running.simulation;
    Ok(running.accounts.report(machine, scheduler.run_queues()))
}

impl Plan {
    /// When something changes, in order, and the end.
    fn moments(&self) -> Vec<u64> {
        let starts = self.tasks.iter().map(|task| task.starts_ns);
        let ends = self.tasks.iter().filter_map(|task| task.ends_ns);
        let changes = self.changes.iter().map(|(at, _)| *at);
        let mut moments: Vec<u64> = starts
            .chain(ends)
            .chain(changes)
            .filter(|&at| at < self.span_ns)
            .chain([self.span_ns])
            .collect();
        moments.sort_unstable();
        moments.dedup();
        moments
    }
}

impl Program {
    /// Its step of this number, from 0 on; `None`: it is over.
    fn step(&self, number: u64) -> Option<Step> {
        let length = |phase: &Phase| phase.times * phase.steps.len() as u64;
        let all: u64 = self.phases.iter().map(length).sum();
        let round = number.checked_div(all)?;
        if self.times.is_some_and(|times| round >= times) {
            return None;
        }
        let mut left = number % all;
        for phase in &self.phases {
            if left < length(phase) {
                return Some(phase.steps[(left % phase.steps.len() as u64) as usize]);
            }
            left -= length(phase);
        }
        None
    }
}

/// What the tasks of a program do, and their children, whose programs are among the same.
fn acts(programs: &Rc<[Program]>, index: usize) -> program::Program {
    let programs = Rc::clone(programs);
    Rc::new(move |act, _| match programs[index].step(act - 1) {
        None => Act::Exit,
        Some(Step::Run(ns)) => Act::Run(ns),
        Some(Step::Sleep(ns)) => Act::Nap(ns),
        Some(Step::Timer(ns)) => Act::Timer(ns),
        Some(Step::Lock(lock)) => Act::Lock(lock),
        Some(Step::Unlock(lock)) => Act::Unlock(lock),
        Some(Step::Yield) => Act::Yield,
        Some(Step::Fork(child)) => Act::Fork(acts(&programs, child)),
        Some(Step::Await) => Act::Await,
        Some(Step::AwaitFewer(children)) => Act::AwaitFewer(children),
    })
}

struct Running<'a, S> {
    plan: &'a Plan,
    simulation: Simulation<S>,
    /// The scheduler's numbers of the plan's currencies.
    groups: Vec<u32>,
    accounts: Accounts<'a>,
}

impl<'a, S: Scheduler> Running<'a, S> {
    fn new(plan: &'a Plan, mut scheduler: S) -> Self {
        let mut groups: Vec<u32> = Vec::new();
        for currency in &plan.currencies {
            groups.push(match currency.parent {
                None => scheduler.user(currency.tickets),
                Some(parent) => scheduler.currency(groups[parent], currency.tickets),
            });
        }
        let mut simulation = Simulation::new(scheduler, plan.topology, plan.costs, plan.seed);
        simulation.limit_tasks(plan.tasks_max());
        let mut running = Self {
            plan,
            simulation,
            groups,
            accounts: Accounts::new(plan),
        };
        running.make_tasks();
        running
    }

    fn make_tasks(&mut self) {
        let programs: Rc<[Program]> = self.plan.programs.as_slice().into();
        for (row, task) in self.plan.tasks.iter().enumerate() {
            let group = self.groups[task.currency];
            let program = task
                .program
                .map_or_else(hog, |index| acts(&programs, index));
            for _ in 0..task.count {
                let program = Rc::clone(&program);
                let made = (self.simulation).make(group, task.tickets, task.nice, program);
                if task.mask != ANYWHERE {
                    self.simulation.set_mask(made, task.mask);
                }
                self.simulation.wake_at(task.starts_ns, made);
                self.accounts.add_task(row);
            }
        }
    }

    fn run_window(&mut self, end: u64) -> Result<(), TooManyTasks> {
        let machine = &self.simulation.machine;
        let next = (machine.now / WINDOW_NS + 1) * WINDOW_NS;
        self.simulation.run_until(next.min(end));
        let machine = &mut self.simulation.machine;
        self.accounts.end_window(machine);
        match machine.failed_forks {
            0 => Ok(()),
            _ => Err(TooManyTasks { at_ns: machine.now }),
        }
    }

    fn end_tasks(&mut self, now: u64) {
        for (row, task) in self.plan.tasks.iter().enumerate() {
            if task.ends_ns == Some(now) {
                for task in self.accounts.living(row) {
                    self.simulation.end(task);
                }
                self.accounts.end(row);
            }
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Task(row, tickets) => {
                for task in self.accounts.living(row) {
                    self.simulation.set_tickets(task, tickets);
                }
            }
            Change::Currency(currency, tickets) => {
                self.accounts.set_tickets(currency, tickets);
                let group = self.groups[currency];
                let parent = self.plan.currencies[currency].parent;
                // A scheduler without currencies has the group of the user.
                if parent.is_none_or(|parent| self.groups[parent] != group) {
                    self.simulation.scheduler.set_group_tickets(group, tickets);
                }
            }
        }
    }
}
