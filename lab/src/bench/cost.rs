//! What a switch costs, in instructions of the guest: which programs to run, and what follows from what they print.
//!
//! A second of counted time is 125 million instructions. Busy processes need 1000 for a pass of their loop, and count the
//! passes. All else is the cost of scheduling and of the clock's tick, which is there without scheduling, too.
//! The tick alone is what a single busy process leaves under the kernel's own scheduler, measured in the same boot before
//! the one in question starts; some schedulers decide anew at every tick even if there is no other process, so a single one under
//! them would not measure the tick alone. So for N busy processes
//!
//! ```text
//!   slice end = (passes a second of 1 − passes a second of N) · 1000 / (switches a second of N − those of 1)
//! ```
//!
//! with the median of ten seconds for each, so that a second in which the kernel had other things to do does not count.
//!
//! A round trip of two processes that wake each other is two times (write, wake the other, block in read, switch), and a
//! write and a read are known from a process that reads what it has written itself. Where a crowd of busy processes waits
//! beside the two, some switches are slice ends of theirs; nearly all are wake-ups, and what is not useful work is divided
//! among all:
//!
//! ```text
//!   wake and switch = (instructions − passes · 1000 − round trips · 2 · (write and read)) / switches
//! ```

use super::boot::{self, Boot};
use super::scheduler::Scheduler;
use crate::statistics::median;
use crate::vm::{Kernel, Mode};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::path::Path;

const NS_PER_INSTRUCTION: f64 = 8.0;
const INSTRUCTIONS_PER_PASS: f64 = 1000.0;

/// Busy processes, and among how many users they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    pub tasks: u32,
    pub users: u32,
    /// Currencies of the one user that they are spread over, nested as deep as may be; 0: none.
    pub currencies: u32,
}

#[derive(Clone, Copy)]
pub struct Contestant {
    pub scheduler: &'static Scheduler,
    pub kernel: Kernel,
    pub seed: u64,
}

#[derive(Clone, Debug)]
pub struct Cost {
    pub crowd: Crowd,
    pub slice_end: f64,
    pub switches_per_second: f64,
    /// The part of all instructions that was not work while the crowd was busy.
    pub overhead: f64,
    pub wake: f64,
    /// Part of the CPU that the crowd took from the two that wake each other.
    pub taken: f64,
}

pub struct Costs {
    pub contestant: Contestant,
    /// Two processes that wake each other, without a crowd.
    pub wake_alone: f64,
    /// In the order of the crowds asked for.
    pub costs: Vec<Cost>,
}

/// Without schedulers that were ejected.
pub fn measure(
    contestants: &[Contestant],
    crowds: &[Crowd],
    programs: &Path,
) -> Result<Vec<Costs>> {
    let boots: Vec<Boot> = contestants.iter().map(|c| c.boot(crowds)).collect();
    let printed = boot::run_all(&boots, programs)?;
    let mut all = Vec::new();
    for (contestant, printed) in contestants.iter().zip(&printed) {
        let complete: Option<Vec<&str>> = printed.iter().map(Option::as_deref).collect();
        if let Some(texts) = complete {
            all.push(contestant.understand(crowds, &texts)?);
        }
    }
    Ok(all)
}

#[derive(Deserialize)]
struct Hogs {
    at_ns: Vec<u64>,
    passes: Vec<u64>,
    switches: Vec<u64>,
}

#[derive(Deserialize)]
struct Ping {
    rounds: u64,
    alone_ns: u64,
    elapsed_ns: u64,
    passes: u64,
    switches: u64,
}

const EMPTY: Crowd = Crowd {
    tasks: 0,
    users: 1,
    currencies: 0,
};
/// Memory of a busy process, and of the machine without them.
const PROCESS_KIB: u32 = 200;
const MEMORY_MIB: u32 = 1024;

impl Contestant {
    fn boot(&self, crowds: &[Crowd]) -> Boot {
        let by = self.scheduler.by.name();
        let command = |probe: &str, crowd: &Crowd| {
            let Crowd {
                tasks,
                users,
                currencies,
            } = crowd;
            format!(
                "cost-probe --by {by} --hogs {tasks} --users {users} --currencies {currencies} {probe}"
            )
        };
        let most = crowds.iter().map(|crowd| crowd.tasks).max().unwrap_or(0);
        let mut commands = vec![command("ping", &EMPTY)];
        for crowd in crowds {
            commands.push(command("hogs", crowd));
            commands.push(command("ping", crowd));
        }
        Boot {
            scheduler: self.scheduler,
            kernel: self.kernel,
            cpus: 1,
            caches: 1,
            memory_mib: MEMORY_MIB + most * PROCESS_KIB / 1024,
            mode: Mode::seeded(self.seed),
            timed: false,
            tools: boot::probes,
            before: vec!["cost-probe --hogs 1 hogs".into()],
            commands,
        }
    }

    fn understand(&self, crowds: &[Crowd], texts: &[&str]) -> Result<Costs> {
        let single: Hogs = parse(texts[0])?;
        let alone: Ping = parse(texts[1])?;
        let costs: Result<Vec<Cost>> = crowds
            .iter()
            .zip(texts[2..].chunks(2))
            .map(|(&crowd, texts)| cost(crowd, &single, &parse(texts[0])?, &parse(texts[1])?))
            .collect();
        Ok(Costs {
            contestant: *self,
            wake_alone: alone.instructions_per_switch(),
            costs: costs?,
        })
    }
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T> {
    serde_json::from_str(text).with_context(|| format!("cost-probe printed {text}"))
}

fn cost(crowd: Crowd, single: &Hogs, hogs: &Hogs, ping: &Ping) -> Result<Cost> {
    let lost = single.per_second(&single.passes) - hogs.per_second(&hogs.passes);
    let more_switches = hogs.per_second(&hogs.switches) - single.per_second(&single.switches);
    ensure!(
        more_switches > 0.0,
        "{crowd:?} switched no more often than a single process"
    );
    let all = 1e9 / NS_PER_INSTRUCTION;
    Ok(Cost {
        crowd,
        slice_end: lost * INSTRUCTIONS_PER_PASS / more_switches,
        switches_per_second: hogs.per_second(&hogs.switches),
        overhead: 1.0 - hogs.per_second(&hogs.passes) * INSTRUCTIONS_PER_PASS / all,
        wake: ping.instructions_per_switch(),
        taken: ping.useful() / ping.instructions(),
    })
}

impl Hogs {
    /// The median over the intervals between readings.
    fn per_second(&self, counts: &[u64]) -> f64 {
        let rates = self
            .at_ns
            .windows(2)
            .zip(counts.windows(2))
            .map(|(at, count)| (count[1] - count[0]) as f64 * 1e9 / (at[1] - at[0]) as f64);
        median(rates.collect()).expect("there are two readings")
    }
}

impl Ping {
    fn instructions(&self) -> f64 {
        self.elapsed_ns as f64 / NS_PER_INSTRUCTION
    }

    fn useful(&self) -> f64 {
        self.passes as f64 * INSTRUCTIONS_PER_PASS
    }

    fn instructions_per_switch(&self) -> f64 {
        let write_and_read = self.alone_ns as f64 / NS_PER_INSTRUCTION / self.rounds as f64;
        let pipes = self.rounds as f64 * 2.0 * write_and_read;
        (self.instructions() - self.useful() - pipes) / self.switches as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_end_is_work_lost_by_switches_gained() {
        // Alone 124000 passes a second, and in one second of three the kernel takes 9000 of them; with others 120000.
        let single = Hogs {
            at_ns: vec![0, 1_000_000_000, 2_000_000_000, 3_000_000_000],
            passes: vec![0, 124_000, 239_000, 363_000],
            switches: vec![0, 10, 20, 30],
        };
        let hogs = Hogs {
            at_ns: vec![0, 1_000_000_000, 2_000_000_000],
            passes: vec![0, 120_000, 240_000],
            switches: vec![0, 1010, 2020],
        };
        let ping = Ping {
            rounds: 10,
            alone_ns: 10 * 2000 * 8,
            elapsed_ns: (10 * 2 * (2000 + 7000) + 5 * 1000) * 8,
            passes: 5,
            switches: 20,
        };
        let crowd = Crowd { tasks: 2, ..EMPTY };
        let cost = cost(crowd, &single, &hogs, &ping).unwrap();
        assert!((cost.slice_end - 4000.0).abs() < 1e-6, "{cost:?}");
        assert!((cost.overhead - 0.04).abs() < 1e-9, "{cost:?}");
        assert!((cost.wake - 7000.0).abs() < 1e-6, "{cost:?}");
    }
}
