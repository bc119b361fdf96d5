//! What experiments on shares and costs have in common: weights, entitlements, errors over windows.

pub mod boot;
pub mod cases;
pub mod cli;
pub mod cost;
pub mod economy;
pub mod figures;
pub mod guest;
pub mod programs;
pub mod scheduler;
pub mod shares;
pub mod windows;

/// How a scheduler is given the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// nice for a process; for groups, if there are several, control groups with cpu.weight
    Weight,
    /// Process tickets; groups are users with base tickets
    Tickets,
}

impl By {
    /// As the programs in the guest take it.
    fn name(self) -> &'static str {
        match self {
            By::Weight => "weight",
            By::Tickets => "tickets",
        }
    }
}

/// The kernel's weight of each nice value from 0 to 19: 1024 / 1.25^nice, as `sched_prio_to_weight` rounds it.
const WEIGHTS: [u32; 20] = [
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// Panics outside 0..=19: experiments give no process more than the normal weight.
pub fn weight_of_nice(nice: i32) -> u32 {
    usize::try_from(nice)
        .ok()
        .and_then(|index| WEIGHTS.get(index).copied())
        .expect("a nice value from 0 to 19")
}
