//! AVX-512, 32 numbers at a time: two vectors of 16, so that one has work while the other waits for its results.
//!
//! Measured on a Zen 5: one vector has 2/3 of the rate. Three have 1.05 of it, or half or a quarter, depending on small
//! changes of the instructions' order: most of their words are in memory.

use super::block::Block;
use super::fold::find_lane;
use std::arch::asm;
use std::arch::x86_64::*;

const LANES: u64 = 32;

type Words = [__m512i; 2];

/// Truth tables of three bits.
const XOR: i32 = 0b1001_0110;
const CHOOSE: i32 = 0b1100_1010;
const MAJORITY: i32 = 0b1110_1000;

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw")
}

pub(super) fn candidate(early: u32, block: Block) -> Option<u64> {
    assert!(is_available());
    // SAFETY: the CPU has the instructions.
    unsafe { find(early, block) }
}

/// Functions of one vector, done to both.
macro_rules! to_both {
    ($(fn $name:ident($($x:ident),*) { $body:expr })*) => {$(
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        fn $name($($x: Words),*) -> Words {
            let to_one = |$($x: __m512i),*| $body;
            [to_one($($x[0]),*), to_one($($x[1]),*)]
        }
    )*};
}

macro_rules! xor {
    ($x:expr, $y:expr, $z:expr) => {
        _mm512_ternarylogic_epi32::<XOR>($x, $y, $z)
    };
}

to_both! {
    fn add(x, y) { _mm512_add_epi32(x, y) }
    fn choose(x, y, z) { _mm512_ternarylogic_epi32::<CHOOSE>(x, y, z) }
    fn majority(x, y, z) { _mm512_ternarylogic_epi32::<MAJORITY>(x, y, z) }
    fn sum_a(x) { xor!(_mm512_ror_epi32::<2>(x), _mm512_ror_epi32::<13>(x), _mm512_ror_epi32::<22>(x)) }
    fn sum_e(x) { xor!(_mm512_ror_epi32::<6>(x), _mm512_ror_epi32::<11>(x), _mm512_ror_epi32::<25>(x)) }
    fn sigma_0(x) { xor!(_mm512_ror_epi32::<7>(x), _mm512_ror_epi32::<18>(x), _mm512_srli_epi32::<3>(x)) }
    fn sigma_1(x) { xor!(_mm512_ror_epi32::<17>(x), _mm512_ror_epi32::<19>(x), _mm512_srli_epi32::<10>(x)) }
    fn swap_bytes(x) { _mm512_shuffle_epi8(x, _mm512_set4_epi32(0x0c0d_0e0f, 0x0809_0a0b, 0x0405_0607, 0x0001_0203)) }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn splat(word: u32) -> Words {
    [_mm512_set1_epi32(word.cast_signed()); 2]
}

/// `word` itself, which the compiler may not use before it has made `variable`. Else it works out most of the schedule
/// first, rounds and schedule no longer overlap, and the rate falls by a tenth.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn not_before(variable: &mut Words, mut word: Words) -> Words {
    for i in [0, 1] {
        // SAFETY: it is a comment only. The registers keep what is in them.
        unsafe {
            asm!(
                "/* {0} {1} */",
                inout(zmm_reg) word[i],
                inout(zmm_reg) variable[i],
                options(pure, nomem, nostack, preserves_flags),
            );
        }
    }
    word
}

/// One bit for each lane in which they are equal, the first lowest.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn equal(x: Words, y: Words) -> u32 {
    let first = _mm512_cmpeq_epi32_mask(x[0], y[0]);
    let second = _mm512_cmpeq_epi32_mask(x[1], y[1]);
    u32::from(first) | u32::from(second) << 16
}

#[target_feature(enable = "avx512f,avx512bw")]
fn find(early: u32, block: Block) -> Option<u64> {
    #[rustfmt::skip]
    let lanes = [
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        _mm512_setr_epi32(16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31),
    ];
    find_lane!(early, block, lanes)
}
