//! The sections [[reserve]], and the list of servers.

use super::model::{Reserve, What};
use super::reader::Reader;
use super::values::{Key, Value, entries, missing, name, percent, string, unknown_key, wrong_type};
use crate::amounts::SHARE;
use crate::faults::{Fault, Place};
use std::ops::Range;
use tombola_kernel::percent::Percent;
use toml::de::DeTable;

const KNOWN: [&str; 3] = ["program", "unit", "share"];
const SUFFIXES: [&str; 3] = [".service", ".slice", ".scope"];
/// The longest name of a file or unit, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// The programs and units that have a reservation, and where the file names them.
type Seen = Vec<(What, Range<usize>)>;

pub(super) fn reserve(reader: &mut Reader, value: &Value) -> Vec<Reserve> {
    let wanted = "a reservation is a section that begins with [[reserve]], in double brackets";
    let Some(list) = value.get_ref().as_array() else {
        reader.faults.push(wrong_type("reserve", value, wanted));
        return Vec::new();
    };
    let mut seen = Seen::new();
    let mut found = Vec::new();
    for value in list.iter() {
        match value.get_ref().as_table() {
            Some(table) => found.extend(one(reader, table, value.span(), &mut seen)),
            None => reader.faults.push(wrong_type("reserve", value, wanted)),
        }
    }
    found
}

fn one(
    reader: &mut Reader,
    table: &DeTable,
    header: Range<usize>,
    seen: &mut Seen,
) -> Option<Reserve> {
    for (key, _) in entries(table) {
        if !KNOWN.contains(&name(key)) {
            let fault = unknown_key(key, "in a reservation", &KNOWN);
            reader.faults.push(fault);
        }
    }
    let what = what(table, header.clone());
    let what = what.and_then(|(what, place)| not_twice(reader.text, what, place, seen));
    let (what, share) = (reader.keep(what), reader.keep(share(table, header)));
    what.zip(share).map(|(what, share)| Reserve { what, share })
}

fn what(table: &DeTable, header: Range<usize>) -> Result<(What, Range<usize>), Fault> {
    match (table.get_key_value("program"), table.get_key_value("unit")) {
        (Some((_, value)), None) => Ok((program(value)?, value.span())),
        (None, Some((_, value))) => Ok((unit(value)?, value.span())),
        (Some((program, _)), Some((unit, _))) => Err(both(program, unit)),
        (None, None) => {
            let fact = "this reservation names neither a program nor a unit";
            let next = "add a line like program = \"/usr/bin/mpv\" or unit = \"nginx.service\"";
            Err(missing(header, fact, next))
        }
    }
}

fn share(table: &DeTable, header: Range<usize>) -> Result<Percent, Fault> {
    match table.get("share") {
        Some(value) => percent("share", value, SHARE),
        None => {
            let fact = "this reservation does not say how much";
            let next = "add a line like share = \"30%\", of one CPU";
            Err(missing(header, fact, next))
        }
    }
}

/// Paths of programs, and units.
pub(super) fn servers(reader: &mut Reader, value: &Value) -> Vec<What> {
    let wanted = "a list of programs and units, as in [\"/usr/sbin/nginx\", \"mariadb.service\"]";
    let Some(list) = value.get_ref().as_array() else {
        reader.faults.push(wrong_type("servers", value, wanted));
        return Vec::new();
    };
    let one = |value: &Value| match string("servers", value, wanted)? {
        path if path.starts_with('/') => program(value),
        name if SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) => unit(value),
        other => Err(Fault::at(
            value.span(),
            format!("{other:?} is neither the path of a program nor a unit"),
            format!(
                "a path begins with /, and the name of a unit that runs processes ends in one of {}",
                SUFFIXES.join(", ")
            ),
            "write it like \"/usr/sbin/nginx\" or \"nginx.service\"",
        )),
    };
    let found: Vec<_> = list.iter().map(|value| reader.keep(one(value))).collect();
    found.into_iter().flatten().collect()
}

fn both(program: &Key, unit: &Key) -> Fault {
    let (program, unit) = (program.span(), unit.span());
    let later = match program.start > unit.start {
        true => program,
        false => unit,
    };
    Fault::at(
        later,
        "this reservation names both a program and a unit",
        "a reservation is for one program or one unit",
        "write a second [[reserve]] for one of them, with its own share",
    )
}

fn program(value: &Value) -> Result<What, Fault> {
    let text = string("program", value, "text in quotes, as in \"/usr/bin/mpv\"")?;
    match is_file_name(text) || text.strip_prefix('/').is_some_and(is_plain_path) {
        true => Ok(What::Program(text.into())),
        false => Err(Fault::at(
            value.span(),
            format!("{text:?} is neither the name of a program's file nor its absolute path"),
            "a name contains no /; a path begins with /, and none of its parts is empty, . or ..",
            "write it like \"/usr/bin/mpv\"; realpath $(command -v NAME) prints the path",
        )),
    }
}

fn is_plain_path(path: &str) -> bool {
    path.split('/').all(is_file_name)
}

fn is_file_name(name: &str) -> bool {
    let is_plain = !name.contains(|c: char| c == '/' || c.is_control());
    is_plain && !["", ".", ".."].contains(&name) && name.len() <= NAME_BYTES_MAX
}

fn unit(value: &Value) -> Result<What, Fault> {
    let text = string("unit", value, "text in quotes, as in \"nginx.service\"")?;
    let stem = SUFFIXES.iter().find_map(|suffix| text.strip_suffix(suffix));
    match stem {
        Some(stem) if is_unit(stem) && text.len() <= NAME_BYTES_MAX => Ok(What::Unit(text.into())),
        Some(_) => Err(Fault::at(
            value.span(),
            format!("{text:?} is not the name of a unit"),
            "before its suffix, a unit's name consists of letters, digits and : - _ . \\ @",
            "write it as systemctl list-units prints it",
        )),
        None => Err(Fault::at(
            value.span(),
            format!("{text:?} is not the name of a unit that runs processes"),
            format!(
                "the name of such a unit ends in one of {}",
                SUFFIXES.join(", ")
            ),
            "write it as systemctl list-units prints it, for example \"nginx.service\"",
        )),
    }
}

// The characters that systemd allows (VALID_CHARS in its unit-name.c).
fn is_unit(stem: &str) -> bool {
    let is_valid = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    !stem.is_empty() && stem.chars().all(is_valid)
}

fn not_twice(text: &str, what: What, place: Range<usize>, seen: &mut Seen) -> Result<What, Fault> {
    if let Some((_, first)) = seen.iter().find(|(other, _)| *other == what) {
        let line = Place::of(text, first).line;
        return Err(Fault::at(
            place,
            format!("the {what} has a reservation already, in line {line}"),
            "each program and each unit has one reservation",
            "keep one of them, with the whole share",
        ));
    }
    seen.push((what.clone(), place));
    Ok(what)
}
