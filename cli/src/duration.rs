//! Times, as people type them: 500us, 2ms, 1s.

use std::time::Duration;
use tombola_kernel::scheduler::{QUANTUM_NS_MAX, QUANTUM_NS_MIN};

const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// For the argument parser: how long a slice is.
pub fn quantum(text: &str) -> Result<Duration, String> {
    let range = Duration::from_nanos(QUANTUM_NS_MIN)..=Duration::from_nanos(QUANTUM_NS_MAX);
    parse(text).and_then(|quantum| match range.contains(&quantum) {
        true => Ok(quantum),
        false => Err(format!(
            "a quantum is from {:?} to {:?}",
            range.start(),
            range.end()
        )),
    })
}

/// For the argument parser.
pub fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ns = UNITS.iter().find(|(name, _)| *name == unit);
    number
        .parse::<u64>()
        .ok()
        .zip(unit_ns)
        .and_then(|(number, (_, ns))| number.checked_mul(*ns))
        .map(Duration::from_nanos)
        .ok_or_else(|| "a time is a whole number and a unit, as in 500us, 2ms or 1s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(parse("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse("1s"), Ok(Duration::from_secs(1)));
    }

    #[test]
    fn a_quantum_is_neither_too_short_nor_too_long() {
        assert_eq!(quantum("100us"), Ok(Duration::from_micros(100)));
        assert_eq!(quantum("100ms"), Ok(Duration::from_millis(100)));
        for text in ["99us", "101ms", "1s", "0s"] {
            let error = quantum(text).unwrap_err();
            assert_eq!(error, "a quantum is from 100µs to 100ms", "{text}");
        }
    }

    #[test]
    fn anything_else_is_not() {
        for text in [
            "",
            "2",
            "ms",
            "-2ms",
            "1.5s",
            "2 ms",
            "99999999999999999999s",
            "99999999999999s",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
