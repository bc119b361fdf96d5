//! The published requests, scaled to this machine.

use super::program::{live, our_rates, their_rate};
use super::rows::{Score, row};
use super::setting::{DELAY_US, REQUESTS, RUNS, SMALLER};
use crate::result::Row;
use anyhow::Result;

/// The published requests, scaled so that one core here, alone, has the load that one there had.
pub(super) struct Load {
    /// Million hashes a second of a core there, and here with the sha2 crate.
    pub theirs: f64,
    ours: f64,
    /// Seconds here for one second there.
    scale: f64,
}

impl Load {
    pub fn measure() -> Result<Self> {
        let (theirs, ours) = (their_rate()?, our_rates(1)?["portable"]);
        let scale = theirs / ours / SMALLER as f64;
        Ok(Self {
            theirs,
            ours,
            scale,
        })
    }

    /// The rates on which every score depends.
    pub fn rows(&self) -> Vec<Row> {
        let row = |name: &str, rate, why: &str| Row {
            bar: format!("(million hashes a second, {why})"),
            ..row(name, rate, None)
        };
        vec![
            row("a core there", self.theirs, "from the sequential score"),
            row("a core here", self.ours, "with the sha2 crate"),
        ]
    }

    /// The score of a server with these options.
    pub fn score(&self, options: &str, repeat_percent: u32) -> Result<Score> {
        let delay = (DELAY_US * self.scale) as u64;
        let requests =
            format!("{REQUESTS} --repeat {repeat_percent} --delay {delay} --smaller {SMALLER}");
        let run = |_| Ok(live(options, &requests)? / self.scale);
        let scores: Vec<f64> = (0..RUNS).map(run).collect::<Result<_>>()?;
        let score = Score {
            mean: scores.iter().sum::<f64>() / scores.len() as f64,
            least: scores.iter().copied().fold(f64::INFINITY, f64::min),
            most: scores.iter().copied().fold(0.0, f64::max),
        };
        eprintln!("{:8.3} million: unhash serve {options}", score.mean);
        Ok(score)
    }
}
