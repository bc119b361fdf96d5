//! The exponential draw: its table, its error, its moments.

use tombola_core::{draw_exp, limits, log2_table, mix};

const ONE: f64 = (1_u64 << limits::DRAW_SHIFT) as f64;

#[test]
fn the_table_is_log2() {
    for i in 0..=256 {
        let exact = ((1.0 + f64::from(i) / 256.0).log2() * (1_u64 << 31) as f64).round();
        assert_eq!(exact as u32, log2_table(i), "entry {i}");
    }
}

fn error(r: u32) -> f64 {
    let u = (f64::from(r) + 1.0) / 2_f64.powi(32);
    (draw_exp(r) as f64 / ONE + u.ln()).abs()
}

#[test]
fn the_draw_is_close_to_the_logarithm() {
    let dense = (0..1 << 20).map(|i| i * 4096 + i % 4096);
    let small = 0..100_000;
    let large = (0..100_000).map(|i| u32::MAX - i);
    let octaves = (0..32)
        .flat_map(|n| (0..64_u32).map(move |d| (1_u32 << n).wrapping_add(d).wrapping_sub(32)));
    let (worst, r) = dense
        .chain(small)
        .chain(large)
        .chain(octaves)
        .map(|r| (error(r), r))
        .fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a });
    assert!(worst < 2.5e-6, "error {worst:e} at {r:#x}");
    assert!(worst > 1e-6, "error {worst:e}: the sample misses the arcs");
    assert_eq!(0, draw_exp(u32::MAX));
    assert_eq!(22.18, (draw_exp(0) as f64 / ONE * 100.0).round() / 100.0);
}

#[test]
fn the_draw_falls_as_its_bits_rise() {
    let draws: Vec<u64> = (0..1 << 20).map(|i| draw_exp(i << 12)).collect();
    assert!(draws.windows(2).all(|w| w[0] >= w[1]));
}

#[test]
fn mean_and_variance_are_one() {
    let n = 1 << 20;
    let draws: Vec<f64> = (0..n)
        .map(|i| draw_exp(mix(1994, i)) as f64 / ONE)
        .collect();
    let mean = draws.iter().sum::<f64>() / f64::from(n);
    let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / f64::from(n);
    // Standard errors: 1/1024 of the mean, sqrt(8)/1024 of the variance; four of each.
    assert!((mean - 1.0).abs() < 4.0 / 1024.0, "mean {mean}");
    assert!(
        (variance - 1.0).abs() < 4.0 * 8_f64.sqrt() / 1024.0,
        "variance {variance}"
    );
}
