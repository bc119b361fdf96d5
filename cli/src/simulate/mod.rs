//! `tombola simulate`: what a plan gives, as a table, as JSON and as a plot.

mod plot;
mod progress;
mod text;

pub use plot::Curves;
pub use progress::Progress;
pub use text::text;

use crate::plan::Loaded;
use serde::Serialize;
use tombola_sim::plan::{Report, Sample};

/// The report with the scheduler's name before it, and after it the samples, if they are asked for.
#[derive(Serialize)]
struct Json<'a> {
    scheduler: String,
    #[serde(flatten)]
    report: &'a Report,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<&'a [Sample]>,
}

/// The same plan and seed give the same bytes.
pub fn json(loaded: &Loaded, report: &Report, samples: Option<&[Sample]>) -> String {
    let json = Json {
        scheduler: loaded.scheduler.name(),
        report,
        samples,
    };
    serde_json::to_string_pretty(&json).expect("a report is plain data")
}
