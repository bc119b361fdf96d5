//! How far the CPU time received is from the CPU time entitled to, over windows of several lengths.
//!
//! Entitlement is that of an ideal machine that shares fluidly (GPS): CPUs are divided among groups by weight, and within a
//! group among its processes; no process gets more than one CPU, no group more than it has processes; what one cannot use
//! goes to the others by weight (water-filling). An example on 4 CPUs: groups of weight 1000, 100, 100 with 1, 2, 2
//! processes. By weight the first would get 3.33 CPUs; it can use 1. The other 3 go 1.5 to each group, 0.75 to a process.
//!
//! A window's error is |received / entitled − 1|, where entitled is the ideal share of what all received together in that
//! window. Time lost to interrupts and to the measuring is reported separately, as utilisation.

/// Processes with their weights, in groups with theirs.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups(pub Vec<(f64, Vec<f64>)>);

impl Groups {
    pub fn processes(&self) -> usize {
        self.0.iter().map(|(_, weights)| weights.len()).sum()
    }

    /// CPUs that each process is entitled to.
    pub fn entitled_cpus(&self, cpus: f64) -> Vec<f64> {
        let weights: Vec<f64> = self.0.iter().map(|(weight, _)| *weight).collect();
        let caps: Vec<f64> = self.0.iter().map(|(_, own)| own.len() as f64).collect();
        fill(cpus, &weights, &caps)
            .into_iter()
            .zip(&self.0)
            .flat_map(|(part, (_, own))| fill(part, own, &vec![1.0; own.len()]))
            .collect()
    }
}

/// Water-filling: `total` by weight, no part above its cap, and the rest to the others by weight.
pub fn fill(total: f64, weights: &[f64], caps: &[f64]) -> Vec<f64> {
    let mut parts = vec![None; weights.len()];
    loop {
        let open = |parts: &[Option<f64>]| -> Vec<usize> {
            (0..weights.len()).filter(|&i| parts[i].is_none()).collect()
        };
        let rest = open(&parts);
        let left = total - parts.iter().flatten().sum::<f64>();
        let weight: f64 = rest.iter().map(|&i| weights[i]).sum();
        let share = |i: usize| left * weights[i] / weight;
        let full: Vec<usize> = rest
            .iter()
            .copied()
            .filter(|&i| share(i) >= caps[i])
            .collect();
        if full.is_empty() {
            rest.iter().for_each(|&i| parts[i] = Some(share(i)));
            return parts.into_iter().flatten().collect();
        }
        full.iter().for_each(|&i| parts[i] = Some(caps[i]));
    }
}

/// CPU time of each process at equidistant moments.
#[derive(Clone, Debug, Default)]
pub struct Series {
    pub at_ns: Vec<u64>,
    /// By moment, then by process.
    pub used_ns: Vec<Vec<u64>>,
    pub context_switches: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct WindowError {
    pub samples: usize,
    /// Over all processes and all windows.
    pub mean: f64,
    pub max: f64,
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Shares {
    /// In the order of the lengths asked for; none where the series is shorter.
    pub windows: Vec<Option<WindowError>>,
    /// The largest |received − entitled| since the start.
    pub lag_max_ms: f64,
    /// CPU time received by all, of what they could have used.
    pub utilisation: f64,
    pub switches_per_second: f64,
    /// Of each process, over the whole series.
    pub received_cpus: Vec<f64>,
    pub entitled_cpus: Vec<f64>,
}

impl Series {
    /// Errors over windows of so many sampling intervals each.
    pub fn shares(&self, groups: &Groups, cpus: u32, lengths: &[usize]) -> Shares {
        let entitled = groups.entitled_cpus(f64::from(cpus));
        let usable: f64 = entitled.iter().sum();
        let parts: Vec<f64> = entitled.iter().map(|cpus| cpus / usable).collect();
        let last = self.at_ns.len() - 1;
        let seconds = (self.at_ns[last] - self.at_ns[0]) as f64 / 1e9;
        let received = self.received(0, last);
        Shares {
            windows: lengths
                .iter()
                .map(|&length| self.error(&parts, length))
                .collect(),
            lag_max_ms: self.lag_max_ns(&parts) / 1e6,
            utilisation: received.iter().sum::<f64>() / 1e9 / seconds / usable,
            switches_per_second: self.context_switches as f64 / seconds,
            received_cpus: received.iter().map(|ns| ns / 1e9 / seconds).collect(),
            entitled_cpus: entitled,
        }
    }

    fn received(&self, from: usize, to: usize) -> Vec<f64> {
        let (before, after) = (&self.used_ns[from], &self.used_ns[to]);
        before
            .iter()
            .zip(after)
            .map(|(before, after)| (after - before) as f64)
            .collect()
    }

    fn error(&self, parts: &[f64], length: usize) -> Option<WindowError> {
        let windows = self
            .at_ns
            .len()
            .checked_sub(length)
            .filter(|&count| count > 0)?;
        let (mut sum, mut max) = (0.0, 0.0_f64);
        for from in 0..windows {
            let received = self.received(from, from + length);
            let total: f64 = received.iter().sum();
            for (received, part) in received.iter().zip(parts) {
                let error = (received / (total * part) - 1.0).abs();
                sum += error;
                max = max.max(error);
            }
        }
        Some(WindowError {
            samples: windows,
            mean: sum / (windows * parts.len()) as f64,
            max,
        })
    }

    fn lag_max_ns(&self, parts: &[f64]) -> f64 {
        let mut max = 0.0_f64;
        for to in 1..self.at_ns.len() {
            let received = self.received(0, to);
            let total: f64 = received.iter().sum();
            for (received, part) in received.iter().zip(parts) {
                max = max.max((received - total * part).abs());
            }
        }
        max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: &[f64], right: &[f64]) {
        assert!(
            left.len() == right.len() && left.iter().zip(right).all(|(a, b)| (a - b).abs() < 1e-9),
            "{left:?} {right:?}"
        );
    }

    #[test]
    fn what_one_cannot_take_goes_to_the_others() {
        let groups = Groups(vec![
            (1000.0, vec![1.0]),
            (100.0, vec![1.0, 1.0]),
            (100.0, vec![1.0, 1.0]),
        ]);
        close(&groups.entitled_cpus(4.0), &[1.0, 0.75, 0.75, 0.75, 0.75]);
    }

    #[test]
    fn filling_goes_on_until_nobody_is_over_the_cap() {
        // 1:2:3:4:5 on 4 CPUs: 5 and 4 are capped at once, then 3.
        close(
            &fill(4.0, &[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0; 5]),
            &[1.0 / 3.0, 2.0 / 3.0, 1.0, 1.0, 1.0],
        );
        close(&fill(4.0, &[1.0; 3], &[1.0; 3]), &[1.0; 3]);
    }

    #[test]
    fn errors_are_relative_to_the_entitlement() {
        // Equal weights; in the first window 3 to 1 instead of 2 to 2, over both exact.
        let series = Series {
            at_ns: vec![0, 4, 8],
            used_ns: vec![vec![0, 0], vec![3, 1], vec![4, 4]],
            context_switches: 0,
        };
        let groups = Groups(vec![(1.0, vec![1.0, 1.0])]);
        let shares = series.shares(&groups, 1, &[1, 2, 3]);
        let window = shares.windows[0].unwrap();
        assert_eq!((window.samples, window.mean, window.max), (2, 0.5, 0.5));
        assert_eq!(shares.windows[1].unwrap().max, 0.0);
        assert_eq!(shares.windows[2], None);
        assert_eq!((shares.lag_max_ms, shares.utilisation), (1e-6, 1.0));
    }
}
