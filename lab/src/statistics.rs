//! How far chance may take a lottery's shares, and medians.

use statrs::distribution::{ChiSquared, ContinuousCDF};

/// The scheduler's default quantum, in seconds: the time that one draw decides.
pub const QUANTUM_S: f64 = 0.001;

/// How many standard errors of the binomial a lottery's share is off, if `part` was due of `seconds` of CPU time.
pub fn standard_errors(measured: f64, part: f64, seconds: f64) -> f64 {
    standard_errors_of(seconds / QUANTUM_S, measured, part)
}

/// The same of so many draws.
pub fn standard_errors_of(draws: f64, measured: f64, part: f64) -> f64 {
    (measured - part) / (part * (1.0 - part) / draws).sqrt()
}

/// The same for the ratio of two shares, each of its own time: their relative variances add up.
pub fn ratio_errors(measured: f64, parts: [f64; 2], seconds: f64) -> f64 {
    let draws = seconds / QUANTUM_S;
    let variance: f64 = parts.iter().map(|part| (1.0 - part) / part / draws).sum();
    (measured / (parts[0] / parts[1]) - 1.0) / variance.sqrt()
}

/// The probability that errors of the binomial, in standard errors, are together at least as large as these. With so many draws
/// each is approximately normal, and the sum of their squares chi-square.
pub fn chance_of(errors: &[f64]) -> f64 {
    let sum: f64 = errors.iter().map(|error| error * error).sum();
    let chi_square = ChiSquared::new(errors.len() as f64).expect("there are errors");
    chi_square.sf(sum)
}

pub fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// The middle value, or the mean of the two in the middle; `None` if there are no values.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![9.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn one_standard_error_of_a_half_over_ten_seconds() {
        // 10000 draws: the standard error of a half is 0.005.
        assert!((standard_errors(0.505, 0.5, 10.0) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_ratio_of_two_like_shares_is_off_by_both() {
        let error = ratio_errors(1.01, [0.5, 0.5], 10.0);
        assert!((error - 0.01 / (2.0f64 / 10_000.0).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn large_errors_are_unlikely() {
        // The normal: beyond 1.96 standard errors on either side once in twenty.
        assert!((chance_of(&[1.959_964]) - 0.05).abs() < 1e-6);
        assert!(chance_of(&[0.5, -0.5, 1.0]) > 0.5);
        assert!(chance_of(&[3.0, -3.0, 3.0]) < 0.001);
    }
}
