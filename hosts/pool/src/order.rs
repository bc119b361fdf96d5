//! The order in which jobs run, and how many workers each may have.

use std::cmp::{Ordering, Reverse};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use thiserror::Error;

/// Which job's chunk is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fifo,
    /// The most tickets first; among equals the first submitted.
    Priority,
    /// The most tickets per unit of the job first: Smith's rule (1956), optimal if the lengths of jobs are known and no job is
    /// preempted.
    Smith,
    /// The most tickets per unit that is left first: Gittins' index (1979) for a search whose answer is equally likely in each
    /// unit not searched yet. Then no other order has a smaller mean of the waiting times, weighted by tickets. The index rises
    /// while a job runs.
    #[default]
    Gittins,
    /// A lottery for each chunk, with chances in proportion to tickets.
    Lottery,
    /// Chunks in proportion to tickets, within about one chunk.
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

    /// Does the core's economy choose? Otherwise the ranks do.
    pub(crate) fn is_proportional(self) -> bool {
        matches!(self, Self::Lottery | Self::Stride)
    }

    /// A job's rank: the smallest is first, and among equals the first submitted.
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

/// No order, or no width, has this name.
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
