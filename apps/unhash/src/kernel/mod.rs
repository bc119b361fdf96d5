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
mod block;
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, unused_imports, unused_macros)
)]
mod fold;
mod portable;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod sha_ni;
mod target;
#[cfg(test)]
mod tests;

pub use target::Target;

use block::Block;
use std::fmt::{self, Display, Formatter};
use std::ops::Range;
use std::str::FromStr;
use std::time::Instant;

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
            Self::Portable => portable::candidate(target.last, block),
            Self::ShaNi => sha_ni::candidate(target.early, block),
            Self::Avx2 => avx2::candidate(target.early, block),
            Self::Avx512 => avx512::candidate(target.early, block),
        }
        #[cfg(not(target_arch = "x86_64"))]
        portable::candidate(target.last, block)
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
