//! Plays plans, on a real kernel or on a simulated machine. Their courses have the same form.

mod real;
mod simulated;

use crate::plan::{Course, Plan};
use anyhow::Result;

pub use simulated::obstacle;

/// The machine that Tombola runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// A virtual machine; the kernel's own scheduler runs there, too.
    Kernel,
    /// The one of `tombola simulate`, which does not have the kernel's own scheduler.
    Simulation,
}

/// Plans, and the course of each.
pub type Played = Vec<(Plan, Course)>;

/// Plays all plans that the machine can play. Historic schedulers are always simulated, and their plans come last.
pub fn play(on: On, batches: [Vec<Plan>; 2]) -> Result<Played> {
    let is_historic = |plan: &Plan| plan.scheduler.is_historic();
    let is_ours = |plan: &Plan| plan.scheduler.policy().is_some();
    let (historic, todays): (Vec<_>, Vec<_>) = batches.concat().into_iter().partition(is_historic);
    let (plans, mut courses) = match on {
        On::Kernel => {
            let batches = batches.map(|mut batch| {
                batch.retain(|plan| !is_historic(plan));
                batch
            });
            let courses = real::play([&batches[0], &batches[1]])?;
            (todays, courses)
        }
        On::Simulation => {
            let ours: Vec<Plan> = todays.into_iter().filter(is_ours).collect();
            let courses = simulated::play(&ours)?;
            (ours, courses)
        }
    };
    courses.extend(simulated::play(&historic)?);
    Ok(plans.into_iter().chain(historic).zip(courses).collect())
}
