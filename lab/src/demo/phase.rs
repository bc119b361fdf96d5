//! What the guest's script measures.

use crate::vm::{Machine, Mode, Progress, tombola_image};
use anyhow::{Context, Result, bail};
use std::time::Duration;

pub(super) const USERS: [&str; 3] = ["alice", "bob", "carol"];
const CPUS: u32 = 2;
const SCRIPT: &str = include_str!("demo.sh");
/// The bar in stride mode: a share is within this of what the tickets give.
const STRIDE_ERROR_MAX: f64 = 0.01;
/// The bar in lottery mode, in standard errors of the binomial.
const LOTTERY_ERRORS_MAX: f64 = 3.0;
const QUANTUM_S: f64 = 0.001;

/// One phase: a policy and the users' tickets.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub policy: String,
    pub tickets: [u32; 3],
    pub samples: Vec<Sample>,
}

/// CPU time of each user since the programs began, in seconds, at a time in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub at_s: f64,
    pub used_s: [f64; 3],
}

pub(super) fn measure() -> Result<Vec<Phase>> {
    let machine = Machine {
        cpus: CPUS,
        mode: Mode::Kvm,
        timeout: Duration::from_secs(300),
        ..Machine::default()
    };
    eprintln!("demo: booting a kernel with sched_ext on {CPUS} virtual CPUs");
    let outcome = machine.shell(&tombola_image()?, SCRIPT, |progress| match progress {
        Progress::Boot { number, how } => eprintln!("demo: boot {number}, {how}"),
        Progress::Line(line) if line.starts_with("sample ") => {}
        Progress::Line(line) => eprintln!("demo: {line}"),
    })?;
    let mut phases = Vec::new();
    for line in outcome.success()?.lines() {
        take(line, &mut phases)?;
    }
    if phases.is_empty() {
        bail!("the machine measured nothing: its script printed no phase");
    }
    Ok(phases)
}

/// One line of the guest's script: `phase POLICY A B C`, `sample UPTIME_S NS_A NS_B NS_C`, or a remark, which is only
/// shown.
fn take(line: &str, phases: &mut Vec<Phase>) -> Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["phase", policy, a, b, c] => {
            phases.push(Phase {
                policy: policy.to_string(),
                tickets: [a.parse()?, b.parse()?, c.parse()?],
                samples: Vec::new(),
            });
        }
        ["sample", at, a, b, c] => {
            let phase = phases
                .last_mut()
                .context("a sample came before any phase")?;
            let seconds = |ns: &str| ns.parse::<f64>().map(|ns| ns / 1e9);
            phase.samples.push(Sample {
                at_s: at.parse()?,
                used_s: [seconds(a)?, seconds(b)?, seconds(c)?],
            });
        }
        _ => {}
    }
    Ok(())
}

impl Phase {
    pub fn used_s(&self, user: usize) -> f64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => last.used_s[user] - first.used_s[user],
            _ => 0.0,
        }
    }

    pub fn total_s(&self) -> f64 {
        (0..USERS.len()).map(|user| self.used_s(user)).sum()
    }

    pub fn measured(&self, user: usize) -> f64 {
        self.used_s(user) / self.total_s()
    }

    pub fn entitled(&self, user: usize) -> f64 {
        f64::from(self.tickets[user]) / f64::from(self.tickets.iter().sum::<u32>())
    }

    pub fn error(&self, user: usize) -> f64 {
        self.measured(user) / self.entitled(user) - 1.0
    }

    /// The largest error that the bar allows, as a part of the entitled share.
    pub fn error_max(&self, user: usize) -> f64 {
        if self.policy != "lottery" {
            return STRIDE_ERROR_MAX;
        }
        // The share of wins among n draws has the standard error sqrt(p (1 - p) / n).
        let draws = self.total_s() / QUANTUM_S;
        let share = self.entitled(user);
        LOTTERY_ERRORS_MAX * (share * (1.0 - share) / draws).sqrt() / share
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn phase(policy: &str, used_s: [f64; 3]) -> Phase {
        let mut phases = Vec::new();
        take(&format!("phase {policy} 3000 2000 1000"), &mut phases).unwrap();
        take("sample 10.00 0 0 0", &mut phases).unwrap();
        let [a, b, c] = used_s.map(|s| (s * 1e9) as u64);
        take(&format!("sample 16.00 {a} {b} {c}"), &mut phases).unwrap();
        phases.remove(0)
    }
}
