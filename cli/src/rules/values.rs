//! Parsers for single values.

use crate::amounts::{BASE_TICKETS, FROZEN};
use crate::faults::Fault;
use std::borrow::Cow;
use std::ops::{Range, RangeInclusive};
use tombola_kernel::percent::{NoPercent, Percent};
use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

pub(super) type Key<'a> = Spanned<Cow<'a, str>>;
pub(super) type Value<'a> = Spanned<DeValue<'a>>;

/// The keys that are allowed at the top of a file.
pub(super) const TOP: [&str; 7] = [
    "floor", "root", "default", "servers", "users", "groups", "reserve",
];

const MOVE_UP: &str =
    "move it up, above the first line with [brackets]: lines below brackets belong to that section";

pub(super) fn name<'a>(key: &'a Key) -> &'a str {
    key.get_ref()
}

/// A section's entries in the order of the file.
pub(super) fn entries<'a, 'i>(table: &'a DeTable<'i>) -> Vec<(&'a Key<'i>, &'a Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

pub(super) fn percent(
    name: &str,
    value: &Value,
    range: RangeInclusive<Percent>,
) -> Result<Percent, Fault> {
    let text = string(name, value, "a percentage in quotes, as in \"30%\"")?;
    let percent: Percent = text.parse().map_err(|error: NoPercent| {
        Fault::at(
            value.span(),
            format!("{name} is {text:?}, and that is not a percentage"),
            error.to_string(),
            format!("write it like this: {name} = \"30%\""),
        )
    })?;
    let (least, most) = (range.start(), range.end());
    range.contains(&percent).then_some(percent).ok_or_else(|| {
        Fault::at(
            value.span(),
            format!("{name} is out of range: {text}"),
            format!("it is at least {least} and at most {most}"),
            format!("choose a percentage from {least} to {most}"),
        )
    })
}

pub(super) fn base_tickets(name: &str, value: &Value) -> Result<u32, Fault> {
    tickets(name, value, ", or 0: frozen", |number| {
        number == FROZEN || BASE_TICKETS.contains(&number)
    })
}

/// Not 0: only a named user or group can be frozen.
pub(super) fn default_tickets(name: &str, value: &Value) -> Result<u32, Fault> {
    tickets(name, value, "", |number| BASE_TICKETS.contains(&number))
}

fn tickets(
    name: &str,
    value: &Value,
    or: &str,
    allowed: impl Fn(u32) -> bool,
) -> Result<u32, Fault> {
    let (least, most) = BASE_TICKETS.into_inner();
    let range = format!("a whole number from {least} to {most}{or}");
    let DeValue::Integer(number) = value.get_ref() else {
        return Err(wrong_type(
            name,
            value,
            &format!("base tickets are {range}"),
        ));
    };
    to_u32(number)
        .filter(|number| allowed(*number))
        .ok_or_else(|| {
            Fault::at(
                value.span(),
                format!("{name} is out of range: {number}"),
                format!("base tickets are {range}"),
                format!("choose {range}"),
            )
        })
}

fn to_u32(number: &DeInteger) -> Option<u32> {
    u32::from_str_radix(number.as_str(), number.radix()).ok()
}

pub(super) fn string<'a>(name: &str, value: &'a Value, wanted: &str) -> Result<&'a str, Fault> {
    value
        .get_ref()
        .as_str()
        .ok_or_else(|| wrong_type(name, value, &format!("{name} is {wanted}")))
}

pub(super) fn section<'a, 'i>(name: &str, value: &'a Value<'i>) -> Result<&'a DeTable<'i>, Fault> {
    value.get_ref().as_table().ok_or_else(|| {
        let wanted = format!("{name} is a section: [{name}], and lines below it");
        wrong_type(name, value, &wanted)
    })
}

pub(super) fn wrong_type(name: &str, value: &Value, wanted: &str) -> Fault {
    let found = kind(value.get_ref());
    Fault::at(
        value.span(),
        format!("{name} is {found} here"),
        wanted,
        "correct it; tombola config check --help shows an example",
    )
}

fn kind(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "text in quotes",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "a truth value",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a section",
    }
}

pub(super) fn unknown_key(key: &Key, place: &str, known: &[&str]) -> Fault {
    let name = name(key);
    Fault::at(
        key.span(),
        format!("{name:?} means nothing {place}"),
        format!("allowed here: {}", known.join(", ")),
        misplaced(name).unwrap_or("correct the word, or remove the line"),
    )
}

/// The next step for a line of the top that was written into a section.
pub(super) fn misplaced(name: &str) -> Option<&'static str> {
    TOP.contains(&name).then_some(MOVE_UP)
}

/// The fault that a line is missing.
pub(super) fn missing(span: Range<usize>, fact: &str, next: &str) -> Fault {
    let cause = "a reservation has a program or a unit, and a share";
    Fault::at(span, fact, cause, next)
}
