//! Which number n of a range has SHA-256(n, as 8 bytes little endian) = a given digest?
//!
//! A message of 8 bytes is one block, and all of its 16 words but the first two are the same for every number:
//!
//! ```text
//!     W0 = low 32 bits, bytes swapped     W2 = 0x80000000     W3 to W14 = 0     W15 = 64 (bits)
//!     W1 = high 32 bits, bytes swapped
//! ```
//!
//! So in a range that crosses no multiple of 2^32 only W0 varies. Kernels save by three means:
//!
//! * What depends on W1 alone is computed once.
//! * The digest is run back from round 63 to a after round 56 ([`Target`]), and only that is compared: 57 of the 64
//!   rounds are done, and 41 of the 48 words of the schedule.
//! * Several numbers are tried at once, or overlap.
//!
//! [`Kernel::Portable`] saves nothing: it is for all other CPUs. A comparison of 32 bits is a false alarm once in 2^32
//! numbers. So kernels only name candidates, which [`Kernel::search`] hashes in full.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_macros)
)]
mod fold;
mod portable;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod sha_ni;
#[cfg(test)]
mod tests;

use fold::{IV, majority, sum_a};
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::str::FromStr;
use std::time::Instant;

/// A digest, and what of it is computed once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The working variables after round 63, a to h: the digest less what SHA-256 started from.
    last: [u32; 8],
    /// Variable a after round 56.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    early: u32,
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
    fn is_hash_of(&self, number: u64) -> bool {
        portable::last_of(number) == self.last
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
fn a_of_rounds_56_to_59(last: [u32; 8]) -> [u32; 4] {
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

/// Consecutive numbers of one high word.
#[derive(Clone, Copy)]
struct Block {
    high: u32,
    low: u32,
    /// `low + count` is at most 2^32.
    count: u64,
}

impl Block {
    /// From a number on to the end of the range, or to the next multiple of 2^32.
    fn first_of(range: &Range<u64>) -> Self {
        let (high, low) = ((range.start >> 32) as u32, range.start as u32);
        let count = (range.end - range.start).min((1 << 32) - u64::from(low));
        Self { high, low, count }
    }
}

/// A way to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The `sha2` crate, one number at a time.
    Portable,
    /// x86-64's SHA instructions, one number at a time.
    ShaNi,
    /// 8 numbers at a time.
    Avx2,
    /// 32 numbers at a time.
    Avx512,
}

impl Kernel {
    pub const ALL: [Self; 4] = [Self::Portable, Self::ShaNi, Self::Avx2, Self::Avx512];

    /// Whether this CPU, and the system on it, have the instructions.
    #[must_use]
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Portable => true,
            Self::ShaNi => sha_ni::is_available(),
            Self::Avx2 => avx2::is_available(),
            Self::Avx512 => avx512::is_available(),
        }
        #[cfg(not(target_arch = "x86_64"))]
        matches!(self, Self::Portable)
    }

    /// The fastest that is available, in the order measured on a Zen 5: 8.8, 2.7, 1.9 and 1.1 times `Sha256::digest`.
    #[must_use]
    pub fn best() -> Self {
        [Self::Avx512, Self::ShaNi, Self::Avx2]
            .into_iter()
            .find(|kernel| kernel.is_available())
            .unwrap_or(Self::Portable)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::ShaNi => "sha-ni",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }

    /// The lowest number of the range that has the digest.
    ///
    /// # Panics
    ///
    /// If the kernel is not available.
    #[must_use]
    pub fn search(self, target: &Target, range: Range<u64>) -> Option<u64> {
        assert!(
            self.is_available(),
            "this CPU lacks the instructions of kernel {self}; {} is available",
            Self::best()
        );
        let mut rest = range;
        while !rest.is_empty() {
            let block = Block::first_of(&rest);
            let Some(offset) = self.candidate(target, block) else {
                rest.start += block.count;
                continue;
            };
            let number = rest.start + offset;
            if target.is_hash_of(number) {
                return Some(number);
            }
            rest.start = number + 1;
        }
        None
    }

    /// Hashes a second of one core: the best of some short runs.
    #[must_use]
    pub fn rate(self) -> f64 {
        const NUMBERS: u64 = 1_000_000;
        let nowhere = Target::new([7; 32]);
        let run = |_| {
            let began = Instant::now();
            assert_eq!(self.search(&nowhere, 0..NUMBERS), None);
            NUMBERS as f64 / began.elapsed().as_secs_f64()
        };
        (0..10).map(run).fold(0.0, f64::max)
    }

    /// How far in is the first number whose a after round 56 is the target's?
    fn candidate(self, target: &Target, block: Block) -> Option<u64> {
        #[cfg(target_arch = "x86_64")]
        match self {
            Self::Portable => portable::candidate(target, block),
            Self::ShaNi => sha_ni::candidate(target.early, block),
            Self::Avx2 => avx2::candidate(target.early, block),
            Self::Avx512 => avx512::candidate(target.early, block),
        }
        #[cfg(not(target_arch = "x86_64"))]
        portable::candidate(target, block)
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No kernel has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKernel(String);

impl Display for UnknownKernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = Kernel::ALL.map(Kernel::name).join(", ");
        write!(f, "no kernel is called {:?}; there are {names}", self.0)
    }
}

impl std::error::Error for UnknownKernel {}

impl FromStr for Kernel {
    type Err = UnknownKernel;

    fn from_str(name: &str) -> Result<Self, UnknownKernel> {
        Self::ALL
            .into_iter()
            .find(|kernel| kernel.name() == name)
            .ok_or_else(|| UnknownKernel(name.to_owned()))
    }
}
