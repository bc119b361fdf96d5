//! The experiments, by what they are about.

pub mod cost;
pub mod cost_economy;
pub mod error_by_window;
pub mod insulation;
pub mod rate;
pub mod relative;
pub mod short_run;

use crate::result::Row;
use std::fmt::Display;

/// A share of a run, in stride mode: within 1 % of what the tickets give.
const STRIDE_ERROR_MAX: f64 = 0.01;
/// In lottery mode, in standard errors of the binomial.
const LOTTERY_ERRORS_MAX: f64 = 3.0;
/// A set of errors less likely than this is not chance.
const CHANCE_MIN: f64 = 0.01;

fn stride_row(name: String, measured: f64, due: f64, published: Option<f64>) -> Row {
    Row {
        name,
        measured,
        published,
        bar: format!("within 1 % of {due:.4}"),
        pass: Some((measured / due - 1.0).abs() <= STRIDE_ERROR_MAX),
    }
}

/// A figure of a run in lottery mode, `error` standard errors from what is due.
fn lottery_row(
    name: String,
    measured: f64,
    due: impl Display,
    error: f64,
    published: Option<f64>,
) -> Row {
    Row {
        name,
        measured,
        published,
        bar: format!("within {LOTTERY_ERRORS_MAX} standard errors of {due} (off by {error:+.2})"),
        pass: Some(error.abs() <= LOTTERY_ERRORS_MAX),
    }
}

/// Only there to compare with.
fn compared_row(name: String, measured: f64, due: f64) -> Row {
    Row {
        name,
        measured,
        published: None,
        bar: format!("(due {due:.4})"),
        pass: None,
    }
}
