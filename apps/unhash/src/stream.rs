//! The requests of the challenge: the very ones of the official client for a seed, or others alike that nobody can foresee.
//!
//! Every START = 0 request shows two outputs of the official client's generator, and its seed has 32 bits: a server could find
//! the seed and answer without a single hash. So scores are taken with [`Secret`].

use crate::protocol::PRIORITY_MAX;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::ops::Range;

/// What requests are like, in the order and the units of the official client's arguments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    pub total: u32,
    /// Where all ranges start; 0: each somewhere else.
    pub start: u64,
    /// Numbers of a range.
    pub difficulty: u32,
    /// A request repeats an earlier one with (this + 1) %.
    pub repeat_percent: u32,
    pub delay_us: u64,
    /// Of the priorities' geometric distribution; 0: all have priority 1.
    pub lambda: f64,
}

impl Settings {
    /// Those by which the challenge was scored.
    pub const FINAL: Self = Self {
        total: 500,
        start: 0,
        difficulty: 30_000_000,
        repeat_percent: 20,
        delay_us: 600_000,
        lambda: 1.5,
    };
    /// And those of the test half way.
    pub const MIDWAY: Self = Self {
        total: 100,
        ..Self::FINAL
    };
    /// And those of the first, in which there is next to nothing to search.
    pub const INITIAL: Self = Self {
        total: 20,
        start: 1,
        difficulty: 10,
        repeat_percent: 0,
        delay_us: 100_000,
        lambda: 0.0,
    };
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What is to be found.
    pub number: u64,
    pub range: Range<u64>,
    pub priority: u8,
}

impl Asked {
    /// The same in a range that has so many times fewer numbers, with what is sought at the same place of it.
    #[must_use]
    pub fn smaller(&self, times: u64) -> Self {
        let Range { start, end } = self.range;
        Self {
            number: start + (self.number - start) / times,
            range: start..start + (end - start).div_ceil(times),
            ..*self
        }
    }
}

/// Numbers from 0 to 2^31 - 1.
pub trait Random {
    fn next(&mut self) -> u32;
}

/// `rand` of the GNU C library: an additive feedback generator of 31 words.
pub struct Glibc {
    words: [u32; Self::WORDS],
    at: usize,
}

impl Glibc {
    const WORDS: usize = 31;
    const WARM_UP: usize = 310;

    /// As after `srand(seed)`.
    #[must_use]
    pub fn new(seed: u32) -> Self {
        let mut words = [0; Self::WORDS];
        let mut word = i64::from(seed.max(1).cast_signed());
        for slot in &mut words {
            *slot = word as u32;
            word = (16_807 * word) % 2_147_483_647;
            if word < 0 {
                word += 2_147_483_647;
            }
        }
        let mut generator = Self { words, at: 3 };
        for _ in 0..Self::WARM_UP {
            generator.next();
        }
        generator
    }
}

impl Random for Glibc {
    fn next(&mut self) -> u32 {
        // The word of 31 draws ago becomes its sum with that of 3 draws ago.
        let before = self.words[(self.at + Self::WORDS - 3) % Self::WORDS];
        let word = self.words[self.at].wrapping_add(before);
        self.words[self.at] = word;
        self.at = (self.at + 1) % Self::WORDS;
        word >> 1
    }
}

/// A generator whose state cannot be found from what it gives, for a seed that nobody knows.
pub struct Secret(rand_chacha::ChaCha20Rng);

impl Secret {
    #[must_use]
    pub fn new(seed: [u8; 32]) -> Self {
        Self(SeedableRng::from_seed(seed))
    }

    /// With a seed of the system's.
    #[must_use]
    pub fn fresh() -> Self {
        Self(SeedableRng::from_os_rng())
    }
}

impl Random for Secret {
    fn next(&mut self) -> u32 {
        self.0.next_u32() >> 1
    }
}

/// All requests, in the order in which they are made.
pub fn requests(settings: &Settings, random: &mut impl Random) -> Vec<Asked> {
    let mut all: Vec<Asked> = Vec::new();
    for _ in 0..settings.total {
        let start = match settings.start {
            0 => {
                let high = u64::from(random.next()) << 32;
                (high | u64::from(random.next())) % (u64::MAX - 1 - u64::from(settings.difficulty))
            }
            start => start,
        };
        let is_new = random.next() % 100 > settings.repeat_percent || all.is_empty();
        let mut asked = if is_new {
            let offset = u64::from(random.next() % settings.difficulty);
            Asked {
                number: start + offset,
                range: start..start + u64::from(settings.difficulty),
                priority: 1,
            }
        } else {
            all[random.next() as usize % all.len()].clone()
        };
        asked.priority = priority(settings.lambda, random);
        all.push(asked);
    }
    all
}

fn priority(lambda: f64, random: &mut impl Random) -> u8 {
    if lambda == 0.0 {
        return 1;
    }
    let uniform = 1.0 - f64::from(random.next()) / 2_147_483_648.0;
    let steps = -uniform.ln() / lambda;
    1 + (steps as u64).min(u64::from(PRIORITY_MAX) - 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    // The C library itself is the model.
    #[allow(unsafe_code)]
    unsafe extern "C" {
        fn srand(seed: u32);
        fn rand() -> i32;
    }

    #[test]
    fn it_draws_what_the_c_library_draws() {
        for seed in [
            0,
            1,
            1234,
            5041,
            3_435_245,
            0x7fff_ffff,
            0x8000_0000,
            u32::MAX,
        ] {
            let mut ours = Glibc::new(seed);
            // SAFETY: no other test uses the library's generator.
            #[allow(unsafe_code)]
            let theirs: Vec<u32> = unsafe {
                srand(seed);
                (0..1000).map(|_| rand().cast_unsigned()).collect()
            };
            let ours: Vec<u32> = (0..1000).map(|_| ours.next()).collect();
            assert_eq!(ours, theirs, "seed {seed}");
        }
    }

    #[test]
    fn repeats_and_priorities_are_distributed_as_they_should() {
        let settings = Settings {
            total: 20_000,
            ..Settings::FINAL
        };
        let all = requests(&settings, &mut Secret::new([7; 32]));
        let count = |wanted: &dyn Fn(usize, &Asked) -> bool| {
            let found = all
                .iter()
                .enumerate()
                .filter(|(i, asked)| wanted(*i, asked));
            found.count() as f64 / all.len() as f64
        };
        let within = |found: f64, due: f64| {
            let error = (due * (1.0 - due) / all.len() as f64).sqrt();
            assert!((found - due).abs() < 4.0 * error, "{found} of {due}");
        };
        let mut seen = std::collections::BTreeSet::new();
        let new: Vec<bool> = all.iter().map(|asked| seen.insert(asked.number)).collect();
        within(count(&|i, _| !new[i]), 0.21);
        for (priority, due) in [(1, 0.7769), (2, 0.1733), (3, 0.0387), (4, 0.0086)] {
            within(count(&|_, asked| asked.priority == priority), due);
        }
        for asked in &all {
            assert!(asked.range.contains(&asked.number));
            assert_eq!(asked.range.end - asked.range.start, 30_000_000);
        }
    }

    #[test]
    fn what_is_sought_is_in_a_smaller_range_too() {
        let asked = |number| Asked {
            number,
            range: 100..200,
            priority: 3,
        };
        let smaller = |number, times| {
            let smaller = asked(number).smaller(times);
            (smaller.number, smaller.range, smaller.priority)
        };
        assert_eq!(smaller(150, 5), (110, 100..120, 3));
        assert_eq!(smaller(199, 7), (114, 100..115, 3));
        assert_eq!(smaller(199, 1000), (100, 100..101, 3));
        assert_eq!(asked(170).smaller(1), asked(170));
    }

    #[test]
    fn a_fixed_start_is_drawn_for_nobody() {
        let settings = Settings {
            start: 1,
            difficulty: 10,
            repeat_percent: 0,
            lambda: 0.0,
            ..Settings::MIDWAY
        };
        let all = requests(&settings, &mut Glibc::new(1234));
        assert!(
            all.iter()
                .all(|asked| asked.range == (1..11) && asked.priority == 1)
        );
    }
}
