//! The digest that is sought.

use super::fold::{IV, majority, sum_a};
use super::portable::last_of;

/// A digest, and what of it is computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The working variables after round 63, a to h: the digest less what SHA-256 started from.
    pub(super) last: [u32; 8],
    /// Variable a after round 56.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    pub(super) early: u32,
}

impl Target {
    #[must_use]
    pub fn new(digest: [u8; 32]) -> Self {
        let word = |i: usize| u32::from_be_bytes([0, 1, 2, 3].map(|byte| digest[4 * i + byte]));
        let last = std::array::from_fn(|i| word(i).wrapping_sub(IV[i]));
        Self {
            last,
            early: a_of_rounds_56_to_59(last)[0],
        }
    }

    /// Whether the number has this digest, by all of its bits.
    pub(super) fn is_hash_of(&self, number: u64) -> bool {
        last_of(number) == self.last
    }
}

/// After round t, b to d are a of the three rounds before, and f to h are e of these. With A and E for a and e,
///
/// ```text
///     A[t] = T + S0(A[t-1]) + Maj(A[t-1], A[t-2], A[t-3])     E[t] = A[t-4] + T
/// ```
///
/// T, in which the message is, falls out: A[t-4] = E[t] - A[t] + S0(A[t-1]) + Maj(A[t-1], A[t-2], A[t-3]). Four such
/// steps use up the digest; one more would need E[59], and with it the last word of the schedule.
pub(super) fn a_of_rounds_56_to_59(last: [u32; 8]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d, e, f, g, h] = last;
    for e in [e, f, g, h] {
        let before = e
            .wrapping_sub(a)
            .wrapping_add(sum_a(b))
            .wrapping_add(majority(b, c, d));
        (a, b, c, d) = (b, c, d, before);
    }
    [d, c, b, a]
}
