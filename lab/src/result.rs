//! What an experiment found: rows to compare, and whether the bars were met.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::Path;

/// One figure beside what was published and what it must be.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub measured: f64,
    /// What the source document reports, where it does.
    pub published: Option<f64>,
    /// What `measured` must be, in words.
    pub bar: String,
    /// `None` for rows that are only there to compare with.
    pub pass: Option<bool>,
}

/// Writes `result.json`: the rows, in order.
pub fn write(dir: &Path, rows: &[Row]) -> Result<()> {
    let path = dir.join("result.json");
    let mut text = serde_json::to_string_pretty(rows)?;
    text.push('\n');
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Were all bars met?
#[must_use]
pub fn passed(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.pass != Some(false))
}
