//! Times between wake-ups and the first run after each. A histogram takes tens of kilobytes, and most tasks of a large plan only
//! compute and wake up once. So a histogram is made only of many times, and otherwise when it is asked for.

use super::report::Latency;
use hdrhistogram::Histogram;

/// Digits to which latencies are kept.
const DIGITS: u8 = 3;
/// So many times take less memory than a histogram.
const FEW: usize = 256;

#[derive(Clone, Default)]
pub(super) struct Latencies {
    /// Those that are not in the histogram.
    few: Vec<u64>,
    many: Option<Box<Histogram<u64>>>,
}

impl Latencies {
    pub fn add(&mut self, ns: u64) {
        self.few.push(ns);
        if self.few.len() == FEW {
            self.many = Some(Box::new(self.histogram()));
            self.few.clear();
        }
    }

    pub fn add_all(&mut self, others: &Self) {
        if let Some(many) = &others.many {
            let mut sum = self.histogram();
            sum.add(&**many).expect("all histograms grow");
            self.many = Some(Box::new(sum));
            self.few.clear();
        }
        for &ns in &others.few {
            self.add(ns);
        }
    }

    fn histogram(&self) -> Histogram<u64> {
        let empty = || Histogram::new(DIGITS).expect("a histogram has up to 5 digits");
        let mut all = self.many.as_deref().map_or_else(empty, Histogram::clone);
        for &ns in &self.few {
            all.record(ns).expect("the histogram grows");
        }
        all
    }

    pub fn summary(&self) -> Latency {
        if self.many.is_none() && self.few.is_empty() {
            return Latency::default();
        }
        let all = self.histogram();
        Latency {
            wakeups: all.len(),
            mean_ns: all.mean().round() as u64,
            p99_ns: all.value_at_quantile(0.99),
            max_ns: all.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a histogram was made early, late or of parts.
    #[test]
    fn all_ways_to_a_summary_give_the_same() {
        let times: Vec<u64> = (0..3 * FEW as u64 / 2).map(|i| i * i * 1000).collect();
        let mut histogram = Histogram::<u64>::new(DIGITS).unwrap();
        let (mut one, mut parts) = (Latencies::default(), Latencies::default());
        for half in times.chunks(times.len() / 2) {
            let mut part = Latencies::default();
            for &ns in half {
                histogram.record(ns).unwrap();
                one.add(ns);
                part.add(ns);
            }
            parts.add_all(&part);
        }
        parts.add_all(&Latencies::default());
        let mut whole = Latencies::default();
        whole.add_all(&one);
        let summary = one.summary();
        assert_eq!(summary.wakeups, histogram.len());
        assert_eq!(summary.p99_ns, histogram.value_at_quantile(0.99));
        assert_eq!(summary.max_ns, histogram.max());
        assert_eq!(summary.mean_ns, histogram.mean().round() as u64);
        assert_eq!([parts.summary(), whole.summary()], [summary; 2]);
        assert_eq!(Latencies::default().summary(), Latency::default());
    }
}
