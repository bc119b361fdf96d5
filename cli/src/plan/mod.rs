//! Plans for the simulated machine: reads them from a TOML file of ours, or from rt-app's JSON.

mod build;
mod checks;
mod example;
mod file;
mod programs;
mod rt_app;
mod schedulers;
mod values;

use crate::faults::Faults;
use crate::text_file;
use example::EXAMPLE_COMMAND;
use std::path::Path;

pub use checks::CPUS_MAX;
pub use example::EXAMPLE;
pub use schedulers::{Balance, Loaded, RunQueue, Scheduler, Settings};

/// Reads a plan. Its settings win over the file's. A file whose name ends in .json is rt-app's.
pub fn read(path: &Path, settings: &Settings) -> Result<Loaded, Faults> {
    let text = text_file::read(path, EXAMPLE_COMMAND)?;
    let file = path.display().to_string();
    if path.extension().is_some_and(|ending| ending == "json") {
        rt_app::parse(&file, &text, settings)
    } else {
        build::parse(&file, &text, settings)
    }
}
