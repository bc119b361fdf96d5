//! SHA-256's constants, and what of its schedule is fixed while only W0 varies.

/// What SHA-256 starts from: the fractions of the square roots of the first 8 primes.
#[rustfmt::skip]
pub(super) const IV: [u32; 8] = [
    0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
];

/// The round constants: the fractions of the cube roots of the first 64 primes.
#[rustfmt::skip]
pub(super) const K: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// Rounds that a kernel does, 0 to 56.
pub(super) const ROUNDS: usize = 57;

/// The terms of W[t], as t less their index: W[t] = W[t-16] + s0(W[t-15]) + W[t-7] + s1(W[t-2]).
const TERMS: [usize; 4] = [16, 15, 7, 2];

/// Which words vary with W0.
pub(super) const VARIES: [bool; ROUNDS] = varies();

/// Which terms of a word vary; none of a fixed word's.
pub(super) const TERM_VARIES: [[bool; 4]; ROUNDS] = term_varies();

/// Which varying words have a term that is fixed and not zero.
pub(super) const HAS_FIXED_TERM: [bool; ROUNDS] = has_fixed_term();

/// Variables a and e after round 0 are these and W0; the other six are fixed.
pub(super) const ROUND_0: (u32, u32) = round_0();

const fn varies() -> [bool; ROUNDS] {
    let mut varies = [false; ROUNDS];
    varies[0] = true;
    let mut t = 16;
    while t < ROUNDS {
        let mut i = 0;
        while i < TERMS.len() {
            varies[t] |= varies[t - TERMS[i]];
            i += 1;
        }
        t += 1;
    }
    varies
}

const fn term_varies() -> [[bool; 4]; ROUNDS] {
    let mut varies = [[false; 4]; ROUNDS];
    let mut t = 16;
    while t < ROUNDS {
        let mut i = 0;
        while i < TERMS.len() {
            varies[t][i] = VARIES[t - TERMS[i]];
            i += 1;
        }
        t += 1;
    }
    varies
}

const fn has_fixed_term() -> [bool; ROUNDS] {
    let mut has = [false; ROUNDS];
    let mut t = 16;
    while t < ROUNDS {
        let mut i = 0;
        while i < TERMS.len() {
            let is_zero = matches!(t - TERMS[i], 3..=14);
            has[t] |= VARIES[t] && !TERM_VARIES[t][i] && !is_zero;
            i += 1;
        }
        t += 1;
    }
    has
}

const fn round_0() -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = IV;
    let t = h
        .wrapping_add(sum_e(e))
        .wrapping_add(choose(e, f, g))
        .wrapping_add(K[0]);
    let a = t.wrapping_add(sum_a(a)).wrapping_add(majority(a, b, c));
    (a, d.wrapping_add(t))
}

/// What rounds add that is fixed: of a fixed word K[t] + W[t], of a varying one the sum of the fixed terms of W[t].
/// The latter is without K, because it goes into later words too.
///
/// A local variable that is aligned so makes the function align its stack, and none of the vectors there lies across
/// two cache lines. With three AVX-512 vectors at a time that was 15 %; with two it is within the noise.
#[repr(align(64))]
pub(super) struct Fixed([u32; ROUNDS]);

impl Fixed {
    #[inline(never)]
    pub(super) fn new(high: u32) -> Self {
        let mut words = [0; ROUNDS];
        (words[1], words[2], words[15]) = (high.swap_bytes(), 0x8000_0000, 64);
        for t in 16..ROUNDS {
            // The sigmas of 0 are 0: a varying term falls out.
            let word = |i: usize| if VARIES[i] { 0 } else { words[i] };
            words[t] = word(t - 16)
                .wrapping_add(sigma_0(word(t - 15)))
                .wrapping_add(word(t - 7))
                .wrapping_add(sigma_1(word(t - 2)));
        }
        for t in (0..ROUNDS).filter(|t| !VARIES[*t]) {
            words[t] = words[t].wrapping_add(K[t]);
        }
        Self(words)
    }
}

impl std::ops::Index<usize> for Fixed {
    type Output = u32;

    #[inline]
    fn index(&self, t: usize) -> &u32 {
        &self.0[t]
    }
}

pub(super) const fn sum_a(x: u32) -> u32 {
    x.rotate_right(2) ^ x.rotate_right(13) ^ x.rotate_right(22)
}

pub(super) const fn majority(x: u32, y: u32, z: u32) -> u32 {
    (x & y) ^ (x & z) ^ (y & z)
}

const fn sum_e(x: u32) -> u32 {
    x.rotate_right(6) ^ x.rotate_right(11) ^ x.rotate_right(25)
}

const fn choose(x: u32, y: u32, z: u32) -> u32 {
    (x & y) ^ (!x & z)
}

pub(super) const fn sigma_0(x: u32) -> u32 {
    x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3)
}

const fn sigma_1(x: u32) -> u32 {
    x.rotate_right(17) ^ x.rotate_right(19) ^ (x >> 10)
}

/// Variable a after round 56, of as many numbers as `w0` has lanes; `fixed` is the [`Fixed`] of their high word.
///
/// Needs in scope, for a vector of words: `splat`, `add`, `sum_a`, `sum_e`, `choose`, `majority`, `sigma_0`, `sigma_1`,
/// and `not_before`, which may keep the compiler from working out words long before their rounds. A macro, because only
/// functions in which an instruction set is switched on by name can take its vectors.
macro_rules! a_after_round_56 {
    ($w0:expr, $fixed:ident) => {{
        use crate::kernel::fold::{HAS_FIXED_TERM, IV, K, ROUND_0, TERM_VARIES, VARIES};
        let mut w = [$w0; 16];
        let mut state = [
            add(w[0], splat(ROUND_0.0)),
            splat(IV[0]),
            splat(IV[1]),
            splat(IV[2]),
            add(w[0], splat(ROUND_0.1)),
            splat(IV[4]),
            splat(IV[5]),
            splat(IV[6]),
        ];
        a_after_round_56!(@rounds w state $fixed
             1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28
            29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56);
        state[0]
    }};
    (@rounds $w:ident $state:ident $fixed:ident $($t:literal)*) => {$(
        a_after_round_56!(@word $w $state $fixed $t);
        let [a, b, c, d, e, f, g, h] = $state;
        let h = if VARIES[$t] {
            add(add(h, splat(K[$t])), $w[$t % 16])
        } else {
            add(h, splat($fixed[$t]))
        };
        let t = add(add(h, sum_e(e)), choose(e, f, g));
        $state = [add(t, add(sum_a(a), majority(a, b, c))), a, b, c, add(d, t), e, f, g];
    )*};
    // Conditions are known when this is compiled, and terms that no sum needs are left out then.
    (@word $w:ident $state:ident $fixed:ident $t:literal) => {
        if TERM_VARIES[$t][3] {
            $w[($t + 14) % 16] = not_before(&mut $state[4], $w[($t + 14) % 16]);
        }
        let terms = [
            $w[$t % 16],
            sigma_0($w[($t + 1) % 16]),
            $w[($t + 9) % 16],
            sigma_1($w[($t + 14) % 16]),
        ];
        let mut sum = None;
        a_after_round_56!(@sum sum terms $t 0 1 2 3);
        if let Some(sum) = sum {
            $w[$t % 16] = if HAS_FIXED_TERM[$t] { add(sum, splat($fixed[$t])) } else { sum };
        }
    };
    (@sum $sum:ident $terms:ident $t:literal $($i:literal)*) => {$(
        if TERM_VARIES[$t][$i] {
            $sum = Some(if let Some(sum) = $sum { add(sum, $terms[$i]) } else { $terms[$i] });
        }
    )*};
}
pub(super) use a_after_round_56;

/// How far into the block is the first number whose a after round 56 is `early`; `lanes` is a vector of 0, 1, 2 and so on.
///
/// Needs in scope what [`a_after_round_56`] does, and `swap_bytes`, `equal` and `LANES`.
macro_rules! find_lane {
    ($early:ident, $block:ident, $lanes:expr) => {{
        use crate::kernel::fold::{Fixed, a_after_round_56};
        let fixed = Fixed::new($block.high);
        let early = splat($early);
        let mut low = add(splat($block.low), $lanes);
        let mut done = 0;
        let mut equals = 0;
        while done < $block.count {
            let a = a_after_round_56!(swap_bytes(low), fixed);
            equals = equal(a, early);
            if equals != 0 {
                break;
            }
            low = add(low, splat(LANES as u32));
            done += LANES;
        }
        _mm256_zeroupper();
        // Lanes may be past the end.
        let offset = done + u64::from(equals.trailing_zeros());
        (equals != 0 && offset < $block.count).then_some(offset)
    }};
}
pub(super) use find_lane;
