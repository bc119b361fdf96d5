//! The sections [users] and [groups].

use super::reader::Reader;
use super::values::{Key, base_tickets, entries, misplaced, name};
use crate::amounts::FROZEN;
use crate::faults::{Fault, Place};
use crate::names::ROOT;
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// As written in the file: a login name or a uid.
    pub name: String,
    pub uid: u32,
    pub base_tickets: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// As written in the file: a name or a gid.
    pub name: String,
    pub members: BTreeSet<u32>,
    pub base_tickets: u32,
}

/// A line of either section.
struct Entry<'a> {
    key: &'a Key<'a>,
    id: u32,
    base_tickets: u32,
}

/// The words of a section in messages.
struct Words {
    one: &'static str,
    number: &'static str,
    list: &'static str,
}

const USER: Words = Words {
    one: "user",
    number: "uid",
    list: "getent passwd",
};
const GROUP: Words = Words {
    one: "group",
    number: "gid",
    list: "getent group",
};

pub(super) fn users(reader: &mut Reader, table: &DeTable) -> Vec<User> {
    let accounts = reader.accounts;
    let found = section(reader, table, &USER, |name| accounts.uid(name));
    let freezes_root = |entry: &&Entry| entry.id == ROOT && entry.base_tickets == FROZEN;
    if let Some(entry) = found.iter().find(freezes_root) {
        reader.faults.push(root_frozen(entry, "give root tickets"));
    }
    let user = |entry: &Entry| User {
        name: name(entry.key).into(),
        uid: entry.id,
        base_tickets: entry.base_tickets,
    };
    found.iter().map(user).collect()
}

pub(super) fn groups(reader: &mut Reader, table: &DeTable, users: &[User]) -> Vec<Group> {
    let accounts = reader.accounts;
    let found = section(reader, table, &GROUP, |name| accounts.gid(name));
    let root_is_named = users.iter().any(|user| user.uid == ROOT);
    let mut groups = Vec::new();
    for entry in &found {
        let members = accounts.members(entry.id);
        if entry.base_tickets == FROZEN && members.contains(&ROOT) && !root_is_named {
            let next = "give the group tickets, or name root in [users]";
            reader.faults.push(root_frozen(entry, next));
        }
        groups.push(Group {
            name: name(entry.key).into(),
            members,
            base_tickets: entry.base_tickets,
        });
    }
    groups
}

/// Base tickets by uid: of several groups the largest number counts, and an entry in [users] overrides the groups.
pub(super) fn base(users: &[User], groups: &[Group]) -> BTreeMap<u32, u32> {
    let mut base = BTreeMap::new();
    for group in groups {
        for uid in &group.members {
            let tickets = base.entry(*uid).or_insert(FROZEN);
            *tickets = group.base_tickets.max(*tickets);
        }
    }
    base.extend(users.iter().map(|user| (user.uid, user.base_tickets)));
    base
}

fn section<'a>(
    reader: &mut Reader,
    table: &'a DeTable,
    words: &Words,
    look_up: impl Fn(&str) -> Option<u32>,
) -> Vec<Entry<'a>> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for (key, value) in entries(table) {
        if let DeValue::Table(rest) = value.get_ref() {
            reader.faults.push(dotted(key, rest));
            continue;
        }
        let id = id(key, words, &look_up)
            .and_then(|id| not_twice(reader.text, key, id, words, &mut seen));
        let (id, base_tickets) = (reader.keep(id), reader.keep(base_tickets(name(key), value)));
        found.extend(id.zip(base_tickets).map(|(id, base_tickets)| Entry {
            key,
            id,
            base_tickets,
        }));
    }
    found
}

// Names come before numbers, as in other tools: 1005 means an account of that name, if there is one.
fn id(key: &Key, words: &Words, look_up: impl Fn(&str) -> Option<u32>) -> Result<u32, Fault> {
    let name = name(key);
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    look_up(name)
        // The kernel's last number means "none".
        .or_else(|| name.parse().ok().filter(|id| is_number && *id != u32::MAX))
        .ok_or_else(|| match is_number && !name.is_empty() {
            true => no_number(key, words),
            false => unknown(key, words),
        })
}

fn no_number(key: &Key, words: &Words) -> Fault {
    let (name, number, most) = (name(key), words.number, u32::MAX - 1);
    Fault::at(
        key.span(),
        format!("{name} is not a {number}"),
        format!("a {number} is a whole number from 0 to {most}"),
        format!("correct it; {} lists them", words.list),
    )
}

fn unknown(key: &Key, words: &Words) -> Fault {
    let (name, Words { one, number, list }) = (name(key), words);
    Fault::at(
        key.span(),
        format!("no {one} is called {name:?}"),
        "the name is misspelt or was removed, or its directory server does not answer",
        match misplaced(name) {
            Some(move_up) => move_up.into(),
            None => format!("correct it; {list} lists the names, and a {number} is accepted, too"),
        },
    )
}

fn not_twice<'a>(
    text: &str,
    key: &'a Key<'a>,
    id: u32,
    words: &Words,
    seen: &mut Vec<(u32, &'a Key<'a>)>,
) -> Result<u32, Fault> {
    if let Some((_, first)) = seen.iter().find(|(other, _)| *other == id) {
        let Words { one, number, .. } = words;
        let line = Place::of(text, &first.span()).line;
        return Err(Fault::at(
            key.span(),
            format!(
                "{} is {}, named in line {line} already",
                name(key),
                name(first)
            ),
            format!("both are the {one} with {number} {id}"),
            "keep one of the lines",
        ));
    }
    seen.push((id, key));
    Ok(id)
}

// In TOML a name with a dot begins a section, unless it is in quotes.
fn dotted(key: &Key, rest: &DeTable) -> Fault {
    let first = name(key);
    let rest = rest.iter().next().map_or("NAME", |(key, _)| name(key));
    Fault::at(
        key.span(),
        format!("{first} is a section here, not a number"),
        "a dot in a name begins a section",
        format!("put the whole name in quotes: \"{first}.{rest}\" = 1000"),
    )
}

fn root_frozen(entry: &Entry, next: &str) -> Fault {
    Fault::at(
        entry.key.span(),
        "root cannot be frozen",
        "no user could log in to undo it: the programs that log users in run as root",
        next,
    )
}
