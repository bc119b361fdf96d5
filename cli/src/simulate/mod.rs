//! `tombola simulate`: what a plan gives, as a table, as JSON and as a plot.

mod plot;
mod progress;
mod text;

pub use plot::Curves;
pub use progress::Progress;
pub use text::text;

use crate::plan::Loaded;
use serde::Serialize;
use tombola_sim::plan::Report;

/// The report with the scheduler's name before it.
#[derive(Serialize)]
struct Json<'a> {
    scheduler: String,
    #[serde(flatten)]
    report: &'a Report,
}

/// The same plan and seed give the same bytes.
pub fn json(loaded: &Loaded, report: &Report) -> String {
    let scheduler = loaded.scheduler.name();
    serde_json::to_string_pretty(&Json { scheduler, report }).expect("a report is plain data")
}
