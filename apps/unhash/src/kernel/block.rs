//! Numbers that are tried together.

use std::ops::Range;

/// Consecutive numbers of one high word.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub high: u32,
    pub low: u32,
    /// `low + count` is at most 2^32.
    pub count: u64,
}

impl Block {
    /// From a number on to the end of the range, or to the next multiple of 2^32.
    pub fn first_of(range: &Range<u64>) -> Self {
        let (high, low) = ((range.start >> 32) as u32, range.start as u32);
        let count = (range.end - range.start).min((1 << 32) - u64::from(low));
        Self { high, low, count }
    }
}
