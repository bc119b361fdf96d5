//! Mean, extremes and standard deviation of compile times, and whether one scheduler's are no worse than another's.

use super::super::rows::CHANCE_MIN;
use crate::result::Row;
use statrs::distribution::{ContinuousCDF, FisherSnedecor};

/// Means differ if they are so many standard errors of the difference apart.
const ERRORS_MAX: f64 = 3.0;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub runs: usize,
    pub mean: f64,
    pub min: f64,
    pub max: f64,
    pub sd: f64,
}

/// What was published: the mean, the least, the most and the standard deviation, s.
pub type Published = [f64; 4];

impl Figures {
    /// Of at least two runs.
    pub fn of(seconds: &[f64]) -> Self {
        let runs = seconds.len();
        let mean = seconds.iter().sum::<f64>() / runs as f64;
        let squares: f64 = seconds.iter().map(|s| (s - mean).powi(2)).sum();
        Self {
            runs,
            mean,
            min: seconds.iter().copied().fold(f64::INFINITY, f64::min),
            max: seconds.iter().copied().fold(0.0, f64::max),
            sd: (squares / (runs - 1) as f64).sqrt(),
        }
    }

    /// All four, without bars.
    pub fn rows(&self, name: &str, published: Option<Published>) -> Vec<Row> {
        let figures = [
            ("mean", self.mean),
            ("min", self.min),
            ("max", self.max),
            ("sd", self.sd),
        ];
        let row = |(number, (what, measured)): (usize, (&str, f64))| Row {
            name: format!("{name}: {what}"),
            measured,
            published: published.map(|figures| figures[number]),
            bar: format!("(s, {} compiles)", self.runs),
            pass: None,
        };
        figures.into_iter().enumerate().map(row).collect()
    }

    fn standard_error(&self) -> f64 {
        self.sd / (self.runs as f64).sqrt()
    }
}

/// Mean and standard deviation in parts of another scheduler's. They may be larger only as far as chance explains it: means by
/// three standard errors of the difference, deviations unless an F test rejects it at 1 %.
pub fn no_worse_rows(place: &str, ours: (&str, &Figures), other: (&str, &Figures)) -> [Row; 2] {
    let (names, ours, other) = ((ours.0, other.0), ours.1, other.1);
    let error = ours.standard_error().hypot(other.standard_error());
    let errors = (ours.mean - other.mean) / error;
    let ratio = ours.sd / other.sd;
    let freedom = |figures: &Figures| figures.runs as f64 - 1.0;
    let chance = FisherSnedecor::new(freedom(ours), freedom(other))
        .map_or(f64::NAN, |f| f.sf(ratio * ratio));
    let name = |what: &str| format!("{place}: {what} of {}, in parts of {}'s", names.0, names.1);
    [
        Row {
            name: name("mean"),
            measured: ours.mean / other.mean,
            published: None,
            bar: format!("not above 1 by more than {ERRORS_MAX} standard errors ({errors:+.1})"),
            pass: Some(errors <= ERRORS_MAX),
        },
        Row {
            name: name("sd"),
            measured: ratio,
            published: None,
            bar: format!("not above 1, by an F test at 1 % (chance {chance:.3})"),
            pass: Some(ratio <= 1.0 || chance >= CHANCE_MIN),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mean: f64, sd: f64) -> Figures {
        let pair = [mean - sd, mean + sd];
        // 50 of each: the deviation is a little more than sd.
        Figures::of(&pair.repeat(50))
    }

    #[test]
    fn figures_of_four_runs() {
        let of = Figures::of(&[1.0, 2.0, 3.0, 6.0]);
        assert_eq!((of.mean, of.min, of.max), (3.0, 1.0, 6.0));
        assert!((of.sd - (14.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let rows = of.rows("x", Some([5.0, 1.0, 9.0, 2.0]));
        assert_eq!(rows[3].published, Some(2.0));
        assert_eq!(rows[0].name, "x: mean");
    }

    #[test]
    fn worse_is_what_chance_does_not_explain() {
        let verdicts = |ours: Figures| {
            no_worse_rows("x", ("a", &ours), ("b", &figures(5.0, 0.1))).map(|row| row.pass.unwrap())
        };
        assert_eq!(verdicts(figures(4.0, 0.01)), [true, true]);
        assert_eq!(verdicts(figures(5.03, 0.11)), [true, true]);
        assert_eq!(verdicts(figures(5.06, 0.1)), [false, true]);
        assert_eq!(verdicts(figures(5.0, 0.14)), [true, false]);
    }
}
