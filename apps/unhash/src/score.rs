//! How long requests waited, and what that comes to.

use std::collections::BTreeMap;

/// Of each request, in the order in which they were made: its priority, and how long it waited, in ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits(pub Vec<(u8, u64)>);

impl Waits {
    /// As the official client has it: the sum of priority times latency in us, divided by the number of requests.
    #[must_use]
    pub fn score(&self) -> u64 {
        let weighted = |(priority, ns): &(u8, u64)| u64::from(*priority) * (ns / 1000);
        self.0.iter().map(weighted).sum::<u64>() / (self.0.len() as u64).max(1)
    }

    /// Of each priority that there was, the latencies in ns from the shortest to the longest.
    #[must_use]
    pub fn by_priority(&self) -> BTreeMap<u8, Vec<u64>> {
        let mut latencies: BTreeMap<u8, Vec<u64>> = BTreeMap::new();
        for (priority, ns) in &self.0 {
            latencies.entry(*priority).or_default().push(*ns);
        }
        latencies.values_mut().for_each(|of| of.sort_unstable());
        latencies
    }
}

/// The smallest that so many percent of them do not exceed: nearest rank.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn percentile(sorted: &[u64], percent: f64) -> u64 {
    let rank = (sorted.len() as f64 * percent / 100.0).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_is_what_the_official_client_computes() {
        let waits = Waits(vec![(1, 10_999), (3, 20_000)]);
        assert_eq!(waits.score(), (10 + 60) / 2);
        assert_eq!(Waits::default().score(), 0);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let sorted: Vec<u64> = (1..=200).collect();
        let found = [0.0, 0.5, 50.0, 99.0, 99.9, 100.0].map(|p| percentile(&sorted, p));
        assert_eq!(found, [1, 1, 100, 198, 200, 200]);
        assert_eq!(percentile(&[7], 50.0), 7);
    }
}
