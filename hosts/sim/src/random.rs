//! Random numbers that a seed reproduces.

/// `SplitMix64` (Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// A whole number from `least` to `most`, small ones as often as large ones: its logarithm is uniform.
    pub fn log_uniform(&mut self, least: f64, most: f64) -> u32 {
        let x = self.below(1 << 30) as f64 / f64::from(1 << 30);
        (least * (most / least).powf(x)).round() as u32
    }
}
