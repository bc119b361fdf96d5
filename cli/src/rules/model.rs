//! The rules, independent of their file.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use tombola_kernel::abi;
use tombola_kernel::percent::Percent;

pub const FLOOR: RangeInclusive<Percent> = Percent::whole(1)..=Percent::whole(100);
pub const ROOT: RangeInclusive<Percent> = Percent::whole(0)..=Percent::of_hundredths(abi::ROOT_MAX);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The part of the machine that reservations leave to best effort.
    pub floor: Percent,
    /// The part of the users' CPU time that root can count on.
    pub root: Percent,
    /// Base tickets of users that are not in `base`.
    pub default: u32,
    /// Base tickets by uid, from users and groups; [`FROZEN`](crate::amounts::FROZEN) is among them.
    pub base: BTreeMap<u32, u32>,
    pub reserve: Vec<Reserve>,
    /// To which clients of all users lend; programs by path only.
    pub servers: Vec<What>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    pub what: What,
    /// Of one CPU.
    pub share: Percent,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The file name of an executable, or its absolute path.
    Program(String),
    /// A systemd unit, with its suffix.
    Unit(String),
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            floor: Percent::of_hundredths(abi::FLOOR_DEFAULT),
            root: Percent::of_hundredths(abi::ROOT_DEFAULT),
            default: abi::BASE_TICKETS_DEFAULT,
            base: BTreeMap::new(),
            reserve: Vec::new(),
            servers: Vec::new(),
        }
    }
}

impl Rules {
    /// Warnings about valid rules that may give users more than is intended.
    pub fn risks(&self) -> Vec<String> {
        let named = self.reserve.iter().filter_map(|rule| match &rule.what {
            What::Program(name) if !name.starts_with('/') => Some(name),
            _ => None,
        });
        named
            .map(|name| {
                format!(
                    "program = \"{name}\" holds for any user's file of that name\n  \
                     cause: a name without a path matches a file in any folder, of any owner\n  \
                     next:  write the path, as `realpath $(command -v {name})` prints it"
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
