//! Scores, in rows and pictures.

use crate::experiment::Bench;
use crate::result::Row;
use anyhow::Result;
use tombola_plot::{self as plot, Panel};

/// The score of some runs, in million and in the published machine's time.
pub(super) struct Score {
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

pub(super) fn row(name: impl Into<String>, measured: f64, published: Option<f64>) -> Row {
    Row {
        name: name.into(),
        measured,
        published,
        bar: "(million, in the published machine's time)".to_owned(),
        pass: None,
    }
}

pub(super) fn score_row(name: impl Into<String>, score: &Score, published: Option<f64>) -> Row {
    Row {
        bar: format!("(million; runs {:.2} to {:.2})", score.least, score.most),
        ..row(name, score.mean, published)
    }
}

pub(super) fn at_most(
    name: impl Into<String>,
    measured: f64,
    most: f64,
    published: Option<f64>,
) -> Row {
    Row {
        name: name.into(),
        measured,
        published,
        bar: format!("at most {most:.4}"),
        pass: Some(measured <= most),
    }
}

/// An order that is the same as another has 1.
pub(super) fn less_than_all(name: &str, part: f64) -> Row {
    Row {
        name: name.to_owned(),
        measured: part,
        published: None,
        bar: "less than 1".to_owned(),
        pass: Some(part < 1.0),
    }
}

pub(super) fn plotted(bench: &Bench, name: &str, panels: &[Panel]) -> Result<()> {
    bench.write("series.csv", &plot::csv(panels))?;
    plot::write(&bench.out, name, |area| plot::panels(area, panels))
}

pub(super) fn points(of: &[(u32, f64)]) -> Vec<(f64, f64)> {
    of.iter().map(|(x, y)| (f64::from(*x), *y)).collect()
}
