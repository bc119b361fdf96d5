//! x86-64's SHA instructions, one number at a time: a number does not wait for the one before, so the CPU overlaps them
//! by itself, and more at a time would only take registers.
//!
//! `sha256rnds2` does two rounds. Round 0 is two additions, so rounds 1 to 56 are 28 of it, and a vector of words for
//! two of it is W[4i+1] to W[4i+4]. The schedule makes vectors W[4i] to W[4i+3], and has the others on its way.
//!
//! These instructions only have the old SSE encoding. A CPU may take hundreds of cycles between such a one and one of
//! the wide ones, so nothing wider than SSE may be switched on here.

use super::block::Block;
use super::fold::{Fixed, IV, K, ROUND_0, sigma_0};
use std::arch::x86_64::*;

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("sha")
        && is_x86_feature_detected!("sse4.1")
        && is_x86_feature_detected!("ssse3")
}

pub(super) fn candidate(early: u32, block: Block) -> Option<u64> {
    assert!(is_available());
    // SAFETY: the CPU has the instructions.
    unsafe { find(early, block) }
}

/// The lowest word first.
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn vector(words: [u32; 4]) -> __m128i {
    let [a, b, c, d] = words.map(u32::cast_signed);
    _mm_setr_epi32(a, b, c, d)
}

/// K of rounds 4i + 1 to 4i + 4.
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn k(i: usize) -> __m128i {
    vector([1, 2, 3, 4].map(|t| K[4 * i + t]))
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn find(early: u32, block: Block) -> Option<u64> {
    let [a, b, c, _, e, f, g, _] = IV;
    let start_abef = vector([e, ROUND_0.1, a, ROUND_0.0]);
    let start_cdgh = vector([g, f, c, b]);
    let fixed = Fixed::new(block.high);
    let rounds_to_12 =
        [1, 5, 9].map(|t| vector([fixed[t], fixed[t + 1], fixed[t + 2], fixed[t + 3]]));
    let w12 = vector([0, 0, 0, 64]);
    // W[t-16] + s0(W[t-15]) + W[t-7] of t = 16 to 19, less W0.
    let w1 = block.high.swap_bytes();
    let w16_fixed = vector([
        sigma_0(w1),
        w1.wrapping_add(sigma_0(0x8000_0000)),
        0x8000_0000,
        0,
    ]);

    for offset in 0..block.count {
        let low = block.low.wrapping_add(offset as u32);
        let w0 = _mm_cvtsi32_si128(low.swap_bytes().cast_signed());
        let mut abef = _mm_add_epi32(_mm_shuffle_epi32::<0b00_01_00_01>(w0), start_abef);
        let mut cdgh = start_cdgh;
        macro_rules! four_rounds {
            ($words_and_k:expr) => {
                let low_two = $words_and_k;
                let high_two = _mm_shuffle_epi32::<0b11_10_11_10>(low_two);
                cdgh = _mm_sha256rnds2_epu32(cdgh, abef, low_two);
                abef = _mm_sha256rnds2_epu32(abef, cdgh, high_two);
            };
        }
        for words_and_k in rounds_to_12 {
            four_rounds!(words_and_k);
        }
        // Words 4j to 4j + 3 are w[j % 4].
        let w16 = _mm_sha256msg2_epu32(_mm_add_epi32(w16_fixed, w0), w12);
        let mut w = [w16, w12, w12, w12];
        macro_rules! rounds_from_13 {
            ($($i:literal)*) => {$(
                let words = _mm_alignr_epi8::<4>(w[($i + 1) % 4], w[$i % 4]);
                four_rounds!(_mm_add_epi32(words, k($i)));
                // W3 to W14 are zero, and so is what they give for W20 to W27.
                let sum = match $i {
                    3 | 4 => words,
                    _ => _mm_add_epi32(words, _mm_sha256msg1_epu32(w[($i + 2) % 4], w[($i + 3) % 4])),
                };
                w[($i + 2) % 4] = _mm_sha256msg2_epu32(sum, w[($i + 1) % 4]);
            )*};
        }
        rounds_from_13!(3 4 5 6 7 8 9 10 11 12);
        let words = _mm_alignr_epi8::<4>(w[14 % 4], w[13 % 4]);
        four_rounds!(_mm_add_epi32(words, k(13)));
        if _mm_extract_epi32::<3>(abef).cast_unsigned() == early {
            return Some(offset);
        }
    }
    None
}
