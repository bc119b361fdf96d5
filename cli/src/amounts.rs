//! Numbers of tickets, as people type them.

use std::ops::RangeInclusive;
use tombola_kernel::abi;

/// For the argument parser: a process's tickets.
pub fn tickets(text: &str) -> Result<u32, String> {
    amount(text, "tickets", abi::TICKETS_MIN..=abi::TICKETS_MAX)
}

/// For the argument parser: a user's base tickets.
pub fn base_tickets(text: &str) -> Result<u32, String> {
    amount(
        text,
        "base tickets",
        abi::BASE_TICKETS_MIN..=abi::BASE_TICKETS_MAX,
    )
}

/// For the argument parser: a process's number.
pub fn pid(text: &str) -> Result<u32, String> {
    let range = 1..=i32::MAX as u32;
    text.parse()
        .ok()
        .filter(|pid| range.contains(pid))
        .ok_or_else(|| {
            format!("a process's number is a whole number from 1 up; ps -e shows them{SAME}")
        })
}

const SAME: &str = "; nothing was changed";

fn amount(text: &str, what: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number: Result<u32, _> = text.parse();
    number
        .ok()
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let (min, max) = range.into_inner();
            format!("{what} are a whole number from {min} to {max}{SAME}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_range_are_in_it() {
        assert_eq!(tickets("1"), Ok(1));
        assert_eq!(tickets("10000"), Ok(10_000));
        assert_eq!(base_tickets("100"), Ok(100));
        assert_eq!(base_tickets("10000"), Ok(10_000));
    }

    #[test]
    fn what_is_no_number_of_tickets_is_told_the_range() {
        for text in ["0", "-1", "10001", "abc", "", "1.5", " 5", "4294967297"] {
            let error = tickets(text).unwrap_err();
            assert!(error.contains("from 1 to 10000"), "{text}: {error}");
        }
        assert!(
            base_tickets("99")
                .unwrap_err()
                .contains("from 100 to 10000")
        );
    }

    #[test]
    fn a_process_has_a_number_that_the_kernel_may_give() {
        assert_eq!(pid("1"), Ok(1));
        for text in ["0", "-1", "2147483648", "init"] {
            assert!(pid(text).is_err(), "{text}");
        }
    }
}
