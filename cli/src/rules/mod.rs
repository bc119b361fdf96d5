//! The rules that outlast the scheduler: /etc/tombola.toml.
//!
//! A file says what it says or nothing: if anything in it is wrong, everything that is wrong is reported with its place, and
//! no rule of it holds. So TOML's values are looked at one by one, each with its place in the text; a derived parser would stop
//! at the first that it does not like.

mod accounts;
mod faults;
mod parse;
mod people;
mod percent;
mod reserve;
mod values;

pub use accounts::{Accounts, System};
pub use faults::Faults;
pub use parse::parse;
pub use people::{Group, User};
pub use percent::{NoPercent, Percent};

use faults::Fault;
use nix::errno::Errno;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::path::Path;
use std::string::FromUtf8Error;
use tombola_kernel::abi;

pub const DEFAULT_FILE: &str = "/etc/tombola.toml";
/// A file with all that there is; `tombola config check --help` shows it.
pub const EXAMPLE: &str = include_str!("example.toml");

pub const DEFAULT_FLOOR: Percent = Percent::whole(25);
pub const FLOOR: RangeInclusive<Percent> = Percent::whole(1)..=Percent::whole(100);
pub const DEFAULT_ROOT: Percent = Percent::whole(5);
pub const ROOT: RangeInclusive<Percent> = Percent::whole(0)..=Percent::whole(50);
/// Of one CPU; at most all of the 512 that the scheduler knows.
pub const SHARE: RangeInclusive<Percent> = Percent::whole(1)..=Percent::whole(51_200);
pub const BASE_TICKETS: RangeInclusive<u32> = abi::BASE_TICKETS_MIN..=abi::BASE_TICKETS_MAX;
/// Base tickets of users who do not run.
pub const FROZEN: u32 = 0;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What of the machine reservations leave to everybody else.
    pub floor: Percent,
    /// What of the users' part root can count on.
    pub root: Percent,
    /// Base tickets of users who are not in `base`.
    pub default: u32,
    /// Base tickets by uid, from users and groups; [`FROZEN`] is among them.
    pub base: BTreeMap<u32, u32>,
    pub reserve: Vec<Reserve>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    pub what: What,
    /// Of one CPU.
    pub share: Percent,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The name of an executable's file, or its absolute path.
    Program(String),
    /// A unit of systemd, with its suffix.
    Unit(String),
}

/// Rules, and the names that they were made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    pub rules: Rules,
    pub users: Vec<User>,
    pub groups: Vec<Group>,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            floor: DEFAULT_FLOOR,
            root: DEFAULT_ROOT,
            default: abi::BASE_TICKETS_DEFAULT,
            base: BTreeMap::new(),
            reserve: Vec::new(),
        }
    }
}

impl Rules {
    /// What is right, and may give somebody more than is meant.
    pub fn risks(&self) -> Vec<String> {
        let named = self.reserve.iter().filter_map(|rule| match &rule.what {
            What::Program(name) if !name.starts_with('/') => Some(name),
            _ => None,
        });
        named
            .map(|name| {
                format!(
                    "program = \"{name}\" holds for any user's file of that name\n  \
                     cause: a name says nothing of where the file is, and whose it is\n  \
                     next:  write the path, as `command -v {name}` tells it"
                )
            })
            .collect()
    }
}

impl Display for What {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            What::Program(name) => write!(f, "program {name}"),
            What::Unit(name) => write!(f, "unit {name}"),
        }
    }
}

/// For a file that somebody named: it must be there.
pub fn read(path: &Path) -> Result<Rules, Faults> {
    explain(path).map(|explained| explained.rules)
}

/// For the file that nobody needs to have: without it the defaults hold.
pub fn read_or_defaults(path: &Path) -> Result<Rules, Faults> {
    match read(path) {
        Err(faults) if faults.is_absent() => Ok(Rules::default()),
        rules => rules,
    }
}

pub fn explain(path: &Path) -> Result<Explained, Faults> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| unreadable(&file, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| not_text(&file, &error))?;
    parse(&file, &text, &System)
}

fn unreadable(file: &str, error: &io::Error) -> Faults {
    let why = Errno::from_raw(error.raw_os_error().unwrap_or_default()).desc();
    let (fact, cause, next) = match error.kind() {
        ErrorKind::NotFound => (
            "there is no such file".into(),
            "it was not written yet, or its name is misspelt",
            "write it (tombola config check --help shows one), or correct the name",
        ),
        ErrorKind::PermissionDenied => (
            "you may not read it".into(),
            "the permissions of the file or of a folder above it",
            "repeat it as root, or chmod a+r it: there is nothing secret in it",
        ),
        _ => (
            format!("it cannot be read: {why}"),
            "it is not an ordinary file, or its disk fails",
            "name a text file",
        ),
    };
    let faults = Faults::new(file, "", vec![Fault::of_file(fact, cause, next)]);
    match error.kind() {
        ErrorKind::NotFound => faults.absent(),
        _ => faults,
    }
}

fn not_text(file: &str, error: &FromUtf8Error) -> Faults {
    let text = String::from_utf8_lossy(error.as_bytes());
    let place = error.utf8_error().valid_up_to();
    let fault = Fault::at(
        place..place,
        "this is not UTF-8 text",
        "the file is no text, or is written in another encoding",
        "save it as UTF-8",
    );
    Faults::new(file, &text, vec![fault])
}
