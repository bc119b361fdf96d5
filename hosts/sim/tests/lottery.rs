//! The exponential draw makes a lottery of whole quanta.

mod machine;

use machine::{MS, Machine};
use tombola_core::Rules;

/// The sum over classes of (seen - due)^2 / due.
fn chi_square(seen: &[u64], due: &[f64]) -> f64 {
    seen.iter()
        .zip(due)
        .map(|(&s, d)| (s as f64 - d).powi(2) / d)
        .sum()
}

/// The winners among clients with these tickets in `rounds` lotteries as in the kernel, each for a whole quantum.
fn winners(tickets: &[u32], rounds: usize, seed: u64) -> Vec<usize> {
    let mut machine = Machine::new(Rules::lottery(MS), 1, seed);
    let user = machine.user(1000);
    let leaves = machine.start_hogs(user, tickets);
    let mut before: Vec<u64> = leaves.iter().map(|&l| machine.used_ns(l)).collect();
    let mut winners = Vec::new();
    while winners.len() < rounds {
        machine.step(u64::MAX);
        let used: Vec<u64> = leaves.iter().map(|&l| machine.used_ns(l)).collect();
        winners.extend((0..used.len()).find(|&k| used[k] > before[k]));
        before = used;
    }
    winners
}

#[test]
fn wins_are_a_lottery_s() {
    let tickets = [1, 2, 3, 4, 10, 30, 50];
    let sum = 100.0;
    let all = winners(&tickets, 100_500, 3);
    // All begin at one pass, unsettled: the first draws are not yet exponential.
    let wins = &all[500..];
    let mut seen = vec![0; tickets.len()];
    wins.iter().for_each(|&w| seen[w] += 1);
    let due: Vec<f64> = tickets
        .iter()
        .map(|&t| f64::from(t) / sum * wins.len() as f64)
        .collect();
    let chi = chi_square(&seen, &due);
    println!("chi-square of wins {chi:.2}: {seen:?}");
    assert!(
        chi < 16.81,
        "chi-square {chi} of six degrees of freedom is beyond 1 %: {seen:?}"
    );
}

/// Each lottery is fresh: the next winner does not depend on the last.
#[test]
fn a_win_does_not_change_the_next() {
    let tickets = [10, 30, 60];
    let all = winners(&tickets, 100_500, 5);
    let wins = &all[500..];
    let mut seen = vec![0; 9];
    wins.chunks_exact(2)
        .for_each(|w| seen[w[0] * 3 + w[1]] += 1);
    let part = |k: usize| f64::from(tickets[k]) / 100.0;
    let due: Vec<f64> = (0..9)
        .map(|k| part(k / 3) * part(k % 3) * (wins.len() / 2) as f64)
        .collect();
    let chi = chi_square(&seen, &due);
    println!("chi-square of pairs {chi:.2}: {seen:?}");
    assert!(
        chi < 20.09,
        "chi-square {chi} of eight degrees of freedom is beyond 1 %: {seen:?}"
    );
}

/// Wins in 2000 windows of 100 quanta vary as a binomial's do.
#[test]
fn wins_vary_as_a_binomial_s() {
    let (n, p) = (100.0, 0.25);
    let all = winners(&[25, 75], 200_500, 11);
    let counts: Vec<f64> = all[500..]
        .chunks_exact(100)
        .map(|w| w.iter().filter(|&&k| k == 0).count() as f64)
        .collect();
    let statistic: f64 = counts
        .iter()
        .map(|c| (c - n * p).powi(2) / (n * p * (1.0 - p)))
        .sum();
    // Chi-square of 2000 degrees of freedom: mean 2000, deviation sqrt(4000); 2.58 deviations are 1 %, both sides.
    let z = (statistic - 2000.0) / 4000_f64.sqrt();
    println!("dispersion {z:.2} deviations off");
    assert!(z.abs() < 2.58, "{z} deviations off: {statistic}");
}
