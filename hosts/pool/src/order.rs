//! In which order jobs have their turns.

use std::cmp::{Ordering, Reverse};

/// Whose chunk is next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fifo,
    /// The most tickets first; among equals the first that came.
    Priority,
    /// The most tickets for what is left of the job first: Smith's rule (1956). Where the answer is somewhere in what was not
    /// searched yet, each place as likely as any other, this is also Gittins' index, and no other order has a smaller mean of
    /// waiting times weighted by tickets. It rises while a job is worked on.
    #[default]
    Smith,
    /// Each chunk is drawn, with chances in proportion to tickets.
    Lottery,
    /// Chunks in proportion to tickets, within about one.
    Stride,
}

impl Order {
    pub const ALL: [Self; 5] = [
        Self::Fifo,
        Self::Priority,
        Self::Smith,
        Self::Lottery,
        Self::Stride,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fifo => "fifo",
            Self::Priority => "priority",
            Self::Smith => "smith",
            Self::Lottery => "lottery",
            Self::Stride => "stride",
        }
    }

    /// Is it the core's economy that chooses? Otherwise it is a rank.
    pub(crate) fn is_proportional(self) -> bool {
        matches!(self, Self::Lottery | Self::Stride)
    }

    /// Where a job stands, the smallest first. Jobs of equal rank have their turns as they came.
    pub(crate) fn rank(self, tickets: u64, left: u64) -> Rank {
        match self {
            Self::Priority => Rank(Reverse(Index { tickets, left: 1 })),
            Self::Smith => Rank(Reverse(Index { tickets, left })),
            Self::Fifo | Self::Lottery | Self::Stride => Rank(Reverse(Index {
                tickets: 1,
                left: 1,
            })),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(Reverse<Index>);

/// tickets / left, compared without a division. Nothing is ever left of no job: `left` is at least 1.
#[derive(Clone, Copy, Debug)]
struct Index {
    tickets: u64,
    left: u64,
}

impl Ord for Index {
    fn cmp(&self, other: &Self) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.tickets, other.left).cmp(&product(other.tickets, self.left))
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
