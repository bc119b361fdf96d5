//! Reads the values of a plan's file, and collects their faults.

use super::checks::CPUS_MAX;
use super::file::{Name, Time};
use super::schedulers::{name, nanos};
use crate::duration;
use crate::faults::Fault;
use clap::ValueEnum;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;
use tombola_sim::limits;
use toml::Spanned;

pub(super) const CPUS: RangeInclusive<i64> = 1..=CPUS_MAX as i64;
pub(super) const TICKETS: RangeInclusive<i64> =
    limits::TICKETS_MIN as i64..=limits::TICKETS_MAX as i64;
pub(super) const BASE_TICKETS: RangeInclusive<i64> =
    limits::BASE_TICKETS_MIN as i64..=limits::BASE_TICKETS_MAX as i64;
pub(super) const NICE: RangeInclusive<i64> = -20..=19;
/// Of tasks that are alike.
pub(super) const COUNT: RangeInclusive<i64> = 1..=100_000;
pub(super) const TIMES: RangeInclusive<i64> = 1..=1_000_000_000;
pub(super) const QUANTUM: Duration = Duration::from_millis(1);
/// Longer ones make no sense, and could add up to more than 2^64 ns.
pub(super) const LOCK_HOLD_MAX_NS: u64 = 1_000_000;
/// Sums of all times of a plan must remain far below 2^64 ns.
const TIME_MAX: Duration = Duration::from_secs(24 * 3600);

/// All faults are reported. What has a fault is replaced by something harmless.
#[derive(Default)]
pub(super) struct Values {
    pub faults: Vec<Fault>,
}

impl Values {
    pub fn tickets(&mut self, tickets: Option<&Spanned<i64>>) -> u32 {
        tickets
            .and_then(|tickets| self.number("tickets", tickets, TICKETS))
            .map_or(limits::TICKETS_DEFAULT, |tickets| tickets as u32)
    }

    pub fn number(
        &mut self,
        name: &str,
        value: &Spanned<i64>,
        range: RangeInclusive<i64>,
    ) -> Option<i64> {
        let number = *value.get_ref();
        if range.contains(&number) {
            return Some(number);
        }
        let (least, most) = range.into_inner();
        let why = format!("{name}: a whole number from {least} to {most}");
        self.out_of_range(&format!("{name} = {number}"), value.span(), &why);
        None
    }

    /// A time in ns; 0 if it has a fault.
    pub fn time(&mut self, text: &Time) -> u64 {
        self.known_time(text).unwrap_or(0)
    }

    pub fn known_time(&mut self, text: &Time) -> Option<u64> {
        match duration::parse(text.get_ref()) {
            Ok(time) if time <= TIME_MAX => return Some(nanos(time)),
            Ok(_) => self.out_of_range(text.get_ref(), text.span(), "a time is at most a day, 24h"),
            Err(error) => {
                let fact = format!("{:?} is not a time", text.get_ref());
                let next = "write a number and a unit";
                self.faults.push(Fault::at(text.span(), fact, error, next));
            }
        }
        None
    }

    /// One of the names of a list.
    pub fn choice<T: ValueEnum>(&mut self, what: &str, found: Option<&Name>) -> Option<T> {
        let found = found?;
        let value = T::from_str(found.get_ref(), false).ok();
        if value.is_none() {
            let known: Vec<String> = T::value_variants().iter().cloned().map(name).collect();
            self.faults.push(Fault::at(
                found.span(),
                format!("there is no {what} {:?}", found.get_ref()),
                format!("it is one of {}", known.join(", ")),
                "choose one of them",
            ));
        }
        value
    }

    pub fn out_of_range(&mut self, name: &str, span: Range<usize>, why: &str) {
        let fact = format!("{name} is out of range");
        self.faults
            .push(Fault::at(span, fact, why, "change the number"));
    }

    pub fn twice(&mut self, what: &str, name: &Name) {
        self.faults.push(Fault::at(
            name.span(),
            format!("{what} {:?} is defined a second time", name.get_ref()),
            "its name is used to refer to it",
            "choose another name",
        ));
    }

    pub fn unknown<T>(&mut self, what: &str, name: &Name) -> Option<T> {
        self.faults.push(Fault::at(
            name.span(),
            format!("there is no {what} {:?}", name.get_ref()),
            format!("the name is misspelt, or the {what} is not in the plan"),
            format!("correct the name, or add the {what}"),
        ));
        None
    }
}
