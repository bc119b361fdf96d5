//! Parsers for the times that users type: 500us, 2ms, 1s.

use std::time::Duration;
use tombola_kernel::scheduler::{QUANTUM_NS_MAX, QUANTUM_NS_MIN};

/// For the argument parser: a quantum.
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

/// For the argument parser: any time.
pub fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|_| "a time is a number and a unit, as in 500us, 2ms or 1s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_number_and_a_unit() {
        assert_eq!(parse("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(parse("2ms"), Ok(Duration::from_millis(2)));
        assert_eq!(parse("1s"), Ok(Duration::from_secs(1)));
        assert_eq!(parse("1.5s"), Ok(Duration::from_millis(1_500)));
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
    fn other_times_are_refused() {
        for text in ["", "2", "ms", "-2ms", "99999999999999999999s"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
