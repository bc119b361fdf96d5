//! In which order jobs have their turns, and how many workers each.

use std::cmp::{Ordering, Reverse};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use thiserror::Error;

/// Whose chunk is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fifo,
    /// The most tickets first; among equals the first that came.
    Priority,
    /// The most tickets for the job's units first: Smith's rule (1956), best if how long a job takes is known and nobody is
    /// interrupted.
    Smith,
    /// The most tickets for the units that are left first: Gittins' index (1979) where the answer is somewhere in what was not
    /// searched yet, each place as likely as any other. No other order has a smaller mean of waiting times weighted by tickets
    /// then. It rises while a job is worked on.
    #[default]
    Gittins,
    /// Each chunk is drawn, with chances in proportion to tickets.
    Lottery,
    /// Chunks in proportion to tickets, within about one.
    Stride,
}

impl Order {
    pub const ALL: [Self; 6] = [
        Self::Fifo,
        Self::Priority,
        Self::Smith,
        Self::Gittins,
        Self::Lottery,
        Self::Stride,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Priority => "priority",
            Self::Smith => "smith",
            Self::Gittins => "gittins",
            Self::Lottery => "lottery",
            Self::Stride => "stride",
        }
    }

    /// Is it the core's economy that chooses? Otherwise it is a rank.
    pub(crate) fn is_proportional(self) -> bool {
        matches!(self, Self::Lottery | Self::Stride)
    }

    /// Where a job stands, the smallest first. Jobs of equal rank have their turns as they came.
    pub(crate) fn rank(self, tickets: u64, units: u64, left: u64) -> Rank {
        let (tickets, work) = match self {
            Self::Priority => (tickets, 1),
            Self::Smith => (tickets, units),
            Self::Gittins => (tickets, left),
            Self::Fifo | Self::Lottery | Self::Stride => (1, 1),
        };
        Rank(Reverse(Index { tickets, work }))
    }
}

/// How many workers may work on one job at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Width {
    One,
    #[default]
    All,
}

impl Width {
    pub const ALL: [Self; 2] = [Self::One, Self::All];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::All => "all",
        }
    }
}

/// Nothing of its kind has this name.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{name:?} is not one of {}", .there_are.join(", "))]
pub struct UnknownName {
    name: String,
    there_are: Vec<&'static str>,
}

macro_rules! by_name {
    ($($kind:ident),*) => {$(
        impl FromStr for $kind {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                let found = Self::ALL.into_iter().find(|one| one.name() == name);
                found.ok_or_else(|| UnknownName {
                    name: name.to_owned(),
                    there_are: Self::ALL.map(Self::name).to_vec(),
                })
            }
        }

        impl Display for $kind {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }
    )*};
}
by_name!(Order, Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(Reverse<Index>);

/// tickets / work, compared without a division; `work` is at least 1.
#[derive(Clone, Copy, Debug)]
struct Index {
    tickets: u64,
    work: u64,
}

impl Ord for Index {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.tickets, other.work).cmp(&product(other.tickets, self.work))
    }
}

impl PartialOrd for Index {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Index {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Index {}
