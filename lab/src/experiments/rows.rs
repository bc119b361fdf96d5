//! Rows whose bars several experiments have in common.

use crate::plan::{Course, Plan, Scheduler};
use crate::result::Row;
use crate::statistics::{chance_of, standard_errors, standard_errors_of};
use std::fmt::Display;

/// A share of a run, in stride mode: within 1 % of what the tickets give.
pub(super) const STRIDE_ERROR_MAX: f64 = 0.01;
/// The same for clients that are insulated from others, or have a reservation.
pub(super) const TIGHT: f64 = 0.005;
/// The same in lottery mode, in standard errors of the binomial.
pub(super) const LOTTERY_ERRORS_MAX: f64 = 3.0;
/// A set of errors less likely than this is not chance.
pub(super) const CHANCE_MIN: f64 = 0.01;

/// The share due to one of the clients with these tickets, or percents of base.
pub(super) fn due(tickets: &[u32], client: usize) -> f64 {
    f64::from(tickets[client]) / f64::from(tickets.iter().sum::<u32>())
}

pub(super) fn stride_row(name: String, measured: f64, due: f64, published: Option<f64>) -> Row {
    within_row(name, measured, due, STRIDE_ERROR_MAX, published)
}

/// A figure that may differ from what is due by a part `error_max` of it.
pub(super) fn within_row(
    name: String,
    measured: f64,
    due: f64,
    error_max: f64,
    published: Option<f64>,
) -> Row {
    let percent = error_max * 100.0;
    let off = measured / due - 1.0;
    Row {
        name,
        measured,
        published,
        bar: format!(
            "within {percent} % of {due:.4} (off by {:+.3} %)",
            off * 100.0
        ),
        pass: Some(off.abs() <= error_max),
    }
}

/// A client's part of what all received. SCHED_DEADLINE promises a part of all time instead, of which the real-time process that
/// samples the clients takes a little.
pub(super) fn received(plan: &Plan, course: &Course, client: usize, from: usize, to: usize) -> f64 {
    match plan.scheduler {
        Scheduler::Deadline => {
            course.used_s(client, from, to) / (course.at_s(to) - course.at_s(from))
        }
        _ => course.share(client, from, to),
    }
}

/// The bar for `received`: within `TIGHT` under stride, within standard errors under lottery.
pub(super) fn share_row(
    (plan, course): &(Plan, Course),
    name: &str,
    client: usize,
    (from, to): (usize, usize),
    due: f64,
    published: Option<f64>,
) -> Row {
    let measured = received(plan, course, client, from, to);
    let name = format!("{}: {name}", plan.scheduler.name());
    match plan.scheduler {
        Scheduler::Stride => within_row(name, measured, due, TIGHT, published),
        Scheduler::Lottery => {
            let error = standard_errors(measured, due, course.all_used_s(from, to));
            let said = format!("{due:.4}");
            lottery_row(name, measured, said, error, published)
        }
        _ => compared_row(name, measured, due),
    }
}

/// The probability of errors, which are given in standard errors.
pub(super) fn chance_row(name: String, errors: &[f64]) -> Row {
    let chance = chance_of(errors);
    Row {
        name,
        measured: chance,
        published: None,
        bar: "chi-square not rejected at 1 %".to_owned(),
        pass: Some(chance >= CHANCE_MIN),
    }
}

/// A figure of a run in lottery mode, `error` standard errors from what is due.
pub(super) fn lottery_row(
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

/// A figure of a historic scheduler, for comparison. `part` is measured of `seconds` of CPU time, `part_due` is due: if the
/// scheduler is a lottery, that says how far chance took it.
pub(super) fn historic_row(
    plan: &Plan,
    (measured, due): (f64, f64),
    (part, part_due, seconds): (f64, f64, f64),
    published: Option<f64>,
) -> Row {
    let errors = |drawn_s: f64| standard_errors_of(seconds / drawn_s, part, part_due);
    let off = plan.scheduler.drawn_s().map_or(String::new(), |drawn_s| {
        format!("; off by {:+.2} standard errors", errors(drawn_s))
    });
    Row {
        published,
        bar: format!("(due {due:.4}{off})"),
        ..compared_row(plan.name.clone(), measured, due)
    }
}

/// A figure for comparison only.
pub(super) fn compared_row(name: String, measured: f64, due: f64) -> Row {
    Row {
        name,
        measured,
        published: None,
        bar: format!("(due {due:.4})"),
        pass: None,
    }
}
