//! Parsers for the numbers that users type: tickets, shares and PIDs.

use std::ops::RangeInclusive;
use tombola_kernel::abi;
use tombola_kernel::percent::Percent;

const TICKETS: RangeInclusive<u32> = abi::TICKETS_MIN..=abi::TICKETS_MAX;
pub const BASE_TICKETS: RangeInclusive<u32> = abi::BASE_TICKETS_MIN..=abi::BASE_TICKETS_MAX;
/// The tickets of a frozen client.
pub const FROZEN: u32 = 0;
/// A reservation, in percent of one CPU; at most all of the 512 CPUs that the scheduler supports.
pub const SHARE: RangeInclusive<Percent> = Percent::whole(1)..=Percent::whole(51_200);

/// For the argument parser: tickets of a process or a currency, not 0.
pub fn tickets(text: &str) -> Result<u32, String> {
    amount(text, TICKETS).ok_or_else(|| range("tickets", TICKETS, ""))
}

/// For the argument parser: tickets of a process or a currency, or 0.
pub fn tickets_or_freeze(text: &str) -> Result<u32, String> {
    amount_or_freeze(text, TICKETS).ok_or_else(|| range("tickets", TICKETS, OR_FREEZE))
}

/// For the argument parser: a user's base tickets, or 0.
pub fn base_tickets_or_freeze(text: &str) -> Result<u32, String> {
    amount_or_freeze(text, BASE_TICKETS)
        .ok_or_else(|| range("base tickets", BASE_TICKETS, OR_FREEZE))
}

/// For the argument parser: the share of a reservation.
pub fn share(text: &str) -> Result<Percent, String> {
    let (least, most) = SHARE.into_inner();
    match text.parse() {
        Ok(share) if SHARE.contains(&share) => Ok(share),
        Ok(_) => Err(format!(
            "a share of one CPU is from {least} to {most}{SAME}"
        )),
        Err(no_percent) => Err(format!("{no_percent}{SAME}")),
    }
}

/// The printed form of a number of tickets.
pub fn told(tickets: u32) -> String {
    match tickets {
        FROZEN => "frozen".into(),
        some => some.to_string(),
    }
}

/// For the argument parser: a PID.
pub fn pid(text: &str) -> Result<u32, String> {
    let range = 1..=i32::MAX as u32;
    text.parse()
        .ok()
        .filter(|pid| range.contains(pid))
        .ok_or_else(|| format!("a PID is a whole number from 1 up; ps -e lists them{SAME}"))
}

const SAME: &str = "; nothing was changed";

const OR_FREEZE: &str = ", or 0, which freezes";

fn amount(text: &str, range: RangeInclusive<u32>) -> Option<u32> {
    text.parse().ok().filter(|number| range.contains(number))
}

fn amount_or_freeze(text: &str, range: RangeInclusive<u32>) -> Option<u32> {
    amount(text, FROZEN..=FROZEN).or_else(|| amount(text, range))
}

fn range(what: &str, range: RangeInclusive<u32>, or_else: &str) -> String {
    let (min, max) = range.into_inner();
    format!("{what} are a whole number from {min} to {max}{or_else}{SAME}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_range_are_in_it() {
        assert_eq!(tickets("1"), Ok(1));
        assert_eq!(tickets("10000"), Ok(10_000));
        assert_eq!(tickets_or_freeze("10000"), Ok(10_000));
        assert_eq!(base_tickets_or_freeze("100"), Ok(100));
        assert_eq!(base_tickets_or_freeze("10000"), Ok(10_000));
        assert_eq!(share("1%"), Ok(Percent::whole(1)));
        assert_eq!(share("51200%"), Ok(Percent::whole(51_200)));
    }

    #[test]
    fn other_tickets_are_refused_with_the_range() {
        for text in ["-1", "10001", "abc", "", "1.5", " 5", "4294967297"] {
            for parse in [tickets, tickets_or_freeze] {
                let error = parse(text).unwrap_err();
                assert!(error.contains("from 1 to 10000"), "{text}: {error}");
            }
        }
        let error = base_tickets_or_freeze("99").unwrap_err();
        assert!(error.contains("from 100 to 10000, or 0"), "{error}");
    }

    #[test]
    fn zero_is_accepted_only_where_it_freezes() {
        assert_eq!(tickets_or_freeze("0"), Ok(FROZEN));
        assert_eq!(base_tickets_or_freeze("0"), Ok(FROZEN));
        assert!(tickets("0").unwrap_err().contains("from 1 to 10000;"));
    }

    #[test]
    fn other_shares_are_refused_with_the_range_or_an_example() {
        for text in ["0%", "0.99%", "51201%"] {
            let error = share(text).unwrap_err();
            assert!(error.contains("from 1% to 51200%"), "{text}: {error}");
        }
        for text in ["30", "abc", "", "-30%"] {
            let error = share(text).unwrap_err();
            assert!(error.contains("as in 30%"), "{text}: {error}");
        }
    }

    #[test]
    fn a_pid_is_in_the_kernels_range() {
        assert_eq!(pid("1"), Ok(1));
        for text in ["0", "-1", "2147483648", "init"] {
            assert!(pid(text).is_err(), "{text}");
        }
    }
}
