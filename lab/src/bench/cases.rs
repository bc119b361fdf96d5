//! The cases in which share error is measured: busy processes of unequal weight, alone and in groups.

use super::weight_of_nice;
use super::windows::Groups;

pub struct Case {
    pub name: &'static str,
    /// Numbers of CPUs for which the case is meant.
    pub cpus: &'static [u32],
    /// Weight of a group, and the nice values of its processes.
    groups: &'static [(u32, &'static [i32])],
}

const ONE: &[i32] = &[0];

#[rustfmt::skip]
pub const CASES: [Case; 16] = [
    Case { name: "eq3", cpus: &[1, 2, 4], groups: &[(100, &[0, 0, 0])] },
    Case { name: "n005", cpus: &[1, 2], groups: &[(100, &[0, 0, 5])] },
    Case { name: "n00010", cpus: &[1, 2], groups: &[(100, &[0, 0, 0, 10])] },
    Case { name: "c5", cpus: &[1, 2, 4], groups: &[(100, ONE), (200, ONE), (300, ONE), (400, ONE), (500, ONE)] },
    Case { name: "c9", cpus: &[1, 2, 4], groups: &[
        (50, ONE), (80, ONE), (100, ONE), (100, ONE), (200, ONE), (300, ONE), (400, ONE), (600, ONE), (600, ONE),
    ] },
    Case { name: "c20", cpus: &[1, 2, 4, 8], groups: &[
        (20, ONE), (30, ONE), (50, ONE), (70, ONE), (100, ONE), (100, ONE), (100, ONE), (100, ONE), (150, ONE), (200, ONE),
        (200, ONE), (250, ONE), (300, ONE), (350, ONE), (400, ONE), (500, ONE), (600, ONE), (700, ONE), (800, ONE), (1000, ONE),
    ] },
    Case { name: "c1v10", cpus: &[1, 2], groups: &[(100, ONE), (100, &[0; 10])] },
    Case { name: "infeas", cpus: &[4], groups: &[(1000, ONE), (100, &[0, 0]), (100, &[0, 0])] },
    Case { name: "infeas1", cpus: &[2], groups: &[(900, ONE), (90, ONE), (10, ONE)] },
    Case { name: "infeas2", cpus: &[3], groups: &[(900, ONE), (900, ONE), (90, ONE), (10, ONE)] },
    Case { name: "infeas2x2", cpus: &[3, 4], groups: &[(900, ONE), (900, ONE), (90, &[0, 0]), (10, &[0, 0])] },
    Case { name: "infeas3", cpus: &[4], groups: &[(900, ONE), (900, ONE), (900, ONE), (90, ONE), (10, ONE)] },
    Case { name: "eq6", cpus: &[4], groups: &[(100, &[0; 6])] },
    Case { name: "eq12", cpus: &[8], groups: &[(100, &[0; 12])] },
    Case { name: "n12", cpus: &[8], groups: &[(100, &[0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 10, 10])] },
    Case { name: "n00000510", cpus: &[4], groups: &[(100, &[0, 0, 0, 0, 5, 10])] },
];

impl Case {
    pub fn groups(&self) -> Groups {
        let weights = |nice: &[i32]| {
            nice.iter()
                .map(|&nice| f64::from(weight_of_nice(nice)))
                .collect()
        };
        Groups(
            self.groups
                .iter()
                .map(|(weight, nice)| (f64::from(*weight), weights(nice)))
                .collect(),
        )
    }

    /// As the sampler takes them: WEIGHT:NICE,NICE,…
    pub fn arguments(&self) -> Vec<String> {
        let list = |nice: &[i32]| {
            nice.iter()
                .map(i32::to_string)
                .collect::<Vec<_>>()
                .join(",")
        };
        self.groups
            .iter()
            .map(|(weight, nice)| format!("--group={weight}:{}", list(nice)))
            .collect()
    }
}
