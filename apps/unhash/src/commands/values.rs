//! What people type, and what they should have.

use std::fmt::{self, Display};
use std::time::Duration;

/// What clap cannot see: two options that do not go together.
#[derive(Debug)]
pub struct Misused(pub String);

impl Display for Misused {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misused {}

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
