//! AVX2, 8 numbers at a time, for CPUs without the SHA instructions: a rotation is three instructions here.

use super::block::Block;
use super::fold::find_lane;
use std::arch::x86_64::*;

const LANES: u64 = 8;

type Words = __m256i;

pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2")
}

pub(super) fn candidate(early: u32, block: Block) -> Option<u64> {
    assert!(is_available());
    // SAFETY: the CPU has the instructions.
    unsafe { find(early, block) }
}

macro_rules! define {
    ($(fn $name:ident($($x:ident),*) { $body:expr })*) => {$(
        #[inline]
        #[target_feature(enable = "avx2")]
        fn $name($($x: Words),*) -> Words {
            $body
        }
    )*};
}

define! {
    fn xor(x, y) { _mm256_xor_si256(x, y) }
    fn add(x, y) { _mm256_add_epi32(x, y) }
    fn choose(x, y, z) { xor(z, _mm256_and_si256(x, xor(y, z))) }
    // The round before had x and y for y and z: one of the two inner xors is at hand.
    fn majority(x, y, z) { xor(y, _mm256_and_si256(xor(x, y), xor(y, z))) }
    fn sum_a(x) { xor(xor(rotate::<2, 30>(x), rotate::<13, 19>(x)), rotate::<22, 10>(x)) }
    fn sum_e(x) { xor(xor(rotate::<6, 26>(x), rotate::<11, 21>(x)), rotate::<25, 7>(x)) }
    fn sigma_0(x) { xor(xor(rotate::<7, 25>(x), rotate::<18, 14>(x)), _mm256_srli_epi32::<3>(x)) }
    fn sigma_1(x) { xor(xor(rotate::<17, 15>(x), rotate::<19, 13>(x)), _mm256_srli_epi32::<10>(x)) }
    fn swap_bytes(x) { _mm256_shuffle_epi8(x, _mm256_setr_epi32(
        0x0001_0203, 0x0405_0607, 0x0809_0a0b, 0x0c0d_0e0f, 0x0001_0203, 0x0405_0607, 0x0809_0a0b, 0x0c0d_0e0f)) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate<const RIGHT: i32, const LEFT: i32>(x: Words) -> Words {
    const { assert!(RIGHT + LEFT == 32) };
    _mm256_or_si256(_mm256_srli_epi32::<RIGHT>(x), _mm256_slli_epi32::<LEFT>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u32) -> Words {
    _mm256_set1_epi32(word.cast_signed())
}

/// With 16 registers the compiler's own order is the better one.
#[inline]
#[target_feature(enable = "avx2")]
fn not_before(_variable: &mut Words, word: Words) -> Words {
    word
}

/// One bit for each lane in which they are equal, the first lowest.
#[inline]
#[target_feature(enable = "avx2")]
fn equal(x: Words, y: Words) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(x, y))).cast_unsigned()
}

#[target_feature(enable = "avx2")]
fn find(early: u32, block: Block) -> Option<u64> {
    find_lane!(early, block, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}
