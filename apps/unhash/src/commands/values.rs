//! What people type, and what they should have.

use super::Cli;
use clap::CommandFactory;
use clap::error::ErrorKind;
use std::fmt::Display;
use std::time::Duration;

/// What clap cannot see: two options that do not go together.
pub fn misused(words: impl Display) -> ! {
    Cli::command()
        .error(ErrorKind::ArgumentConflict, words)
        .exit()
}

pub fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("must be a number, 0 or more".to_owned()),
    }
}

/// A rate or a load.
pub fn positive(text: &str) -> Result<f64, String> {
    match not_negative(text) {
        Ok(number) if (0.001..=1e6).contains(&number) => Ok(number),
        _ => Err("must be a number, 0.001 to 1000000".to_owned()),
    }
}

pub fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}
