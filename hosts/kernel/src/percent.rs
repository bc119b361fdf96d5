//! Percentages, as users type them: 30%, 12.5%.

use std::fmt::{self, Display};
use std::ops::Add;
use std::str::FromStr;

/// Counted in hundredths of a percent, so that admitted shares add up exactly. Texts from 0% to 999999.99% are parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u32);

/// With at most so many digits before the point, the hundredths fit in 32 bits.
const WHOLE_DIGITS_MAX: usize = 6;
const DECIMALS_MAX: usize = 2;

impl Percent {
    pub const fn whole(percent: u32) -> Self {
        Percent(percent * 100)
    }

    pub const fn of_hundredths(hundredths: u32) -> Self {
        Percent(hundredths)
    }

    pub const fn hundredths(self) -> u32 {
        self.0
    }
}

/// A sum saturates.
impl Add for Percent {
    type Output = Percent;

    fn add(self, other: Percent) -> Percent {
        Percent(self.0.saturating_add(other.0))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct NoPercent;

impl Display for NoPercent {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(
            "a percentage is a number of at most six digits and two decimals with % right behind it, \
             as in 30% or 12.5%",
        )
    }
}

impl std::error::Error for NoPercent {}

impl FromStr for Percent {
    type Err = NoPercent;

    fn from_str(text: &str) -> Result<Self, NoPercent> {
        let number = text.strip_suffix('%').ok_or(NoPercent)?;
        let (whole, decimals) = match number.split_once('.') {
            Some((whole, decimals)) => (whole, decimals),
            None => (number, "0"),
        };
        let whole = digits(whole, WHOLE_DIGITS_MAX)?;
        let hundredths = match decimals.len() {
            1 => digits(decimals, DECIMALS_MAX)? * 10,
            _ => digits(decimals, DECIMALS_MAX)?,
        };
        Ok(Percent(whole * 100 + hundredths))
    }
}

// Stricter than the parser of u32, which takes a sign.
fn digits(text: &str, most: usize) -> Result<u32, NoPercent> {
    let is_number = text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
    match is_number {
        true => text.parse().map_err(|_| NoPercent),
        false => Err(NoPercent),
    }
}

impl Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let text = match (self.0 / 100, self.0 % 100) {
            (whole, 0) => format!("{whole}%"),
            (whole, rest) if rest % 10 == 0 => format!("{whole}.{}%", rest / 10),
            (whole, rest) => format!("{whole}.{rest:02}%"),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_has_up_to_two_decimals() {
        for (text, hundredths) in [
            ("30%", 3_000),
            ("0%", 0),
            ("12.5%", 1_250),
            ("0.25%", 25),
            ("1.05%", 105),
            ("150%", 15_000),
            ("999999.99%", 99_999_999),
        ] {
            let percent: Percent = text.parse().unwrap();
            assert_eq!(percent.hundredths(), hundredths, "{text}");
            assert_eq!(percent.to_string(), text);
        }
        assert_eq!("007.50%".parse(), Ok(Percent(750)));
    }

    #[test]
    fn all_other_texts_are_refused() {
        for text in [
            "30", "30 %", " 30%", "30% ", "-1%", "+1%", "abc", "1e3%", "%", "", ".5%", "5.%",
            "1.234%", "1.2.3%", "1,5%", "30%%", "0x1%", "1_0%", "1000000%", "٣%",
        ] {
            assert_eq!(text.parse::<Percent>(), Err(NoPercent), "{text}");
        }
    }
}
