//! What `unhash load` asks, and what `unhash simulate` is asked.

use super::values::{Misused, not_negative};
use crate::stream::{self, Asked, Random};
use clap::{Args, ValueEnum};

#[derive(Clone, Copy, ValueEnum)]
enum Preset {
    /// 20 requests of 10 numbers from 1 on, 100 ms apart, all of priority 1
    Initial,
    /// 100 requests of 30 million numbers, 600 ms apart, 20 % repeated, lambda 1.5
    Midway,
    /// 500 of them
    Final,
}

/// What the requests are like. The order and the units are those of the official client's arguments.
#[derive(Args)]
pub struct Stream {
    /// One of the official settings, of which the following change what is given
    #[arg(long, value_enum, default_value = "final")]
    settings: Preset,
    /// Requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    total: Option<u32>,
    /// First number of all ranges; 0: another for each request
    #[arg(long, value_name = "NUMBER")]
    start: Option<u64>,
    /// Numbers of a range
    #[arg(long, value_name = "NUMBERS", value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff))]
    difficulty: Option<u32>,
    /// A request repeats an earlier one with this chance and 1 % more
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    repeat: Option<u32>,
    /// Microseconds from one request to the next
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u64).range(0..=3_600_000_000))]
    delay: Option<u64>,
    /// Of the distribution of priorities; 0: all have priority 1
    #[arg(long, value_parser = not_negative)]
    lambda: Option<f64>,
    /// The same requests in ranges so many times smaller
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    smaller: u64,
}

impl Stream {
    pub fn settings(&self) -> Result<stream::Settings, Misused> {
        let preset = match self.settings {
            Preset::Initial => stream::Settings::INITIAL,
            Preset::Midway => stream::Settings::MIDWAY,
            Preset::Final => stream::Settings::FINAL,
        };
        let settings = stream::Settings {
            total: self.total.unwrap_or(preset.total),
            start: self.start.unwrap_or(preset.start),
            difficulty: self.difficulty.unwrap_or(preset.difficulty),
            repeat_percent: self.repeat.unwrap_or(preset.repeat_percent),
            delay_us: self.delay.unwrap_or(preset.delay_us),
            lambda: self.lambda.unwrap_or(preset.lambda),
        };
        if settings
            .start
            .checked_add(u64::from(settings.difficulty))
            .is_none()
        {
            return Err(Misused(format!(
                "a range of {} numbers from {} on goes beyond 2^64",
                settings.difficulty, settings.start
            )));
        }
        Ok(settings)
    }

    /// What the requests are like when they have been made smaller.
    pub fn as_made(&self, settings: &stream::Settings) -> stream::Settings {
        let difficulty = u64::from(settings.difficulty).div_ceil(self.smaller);
        stream::Settings {
            difficulty: u32::try_from(difficulty).expect("it is smaller"),
            ..*settings
        }
    }

    pub fn requests(&self, settings: &stream::Settings, random: &mut impl Random) -> Vec<Asked> {
        let all = stream::requests(settings, random);
        all.iter()
            .map(|asked| asked.smaller(self.smaller))
            .collect()
    }
}
