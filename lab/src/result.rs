//! The result of an experiment: rows to compare, and whether the bars were met.

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
    /// `None` for rows without a bar, for comparison only.
    pub pass: Option<bool>,
}

/// Writes `result.json`: the rows, in order.
pub fn write(dir: &Path, rows: &[Row]) -> Result<()> {
    let path = dir.join("result.json");
    let mut text = serde_json::to_string_pretty(rows)?;
    text.push('\n');
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// The rows as a table, one line each.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    let line = |row: &Row| {
        let published = row
            .published
            .map_or("-".into(), |figure| format!("{figure:.4}"));
        let verdict = match row.pass {
            Some(true) => "met",
            Some(false) => "NOT MET",
            None => "",
        };
        format!(
            "{:width$}  {:>10.4}  {published:>10}  {}  {verdict}\n",
            row.name, row.measured, row.bar
        )
    };
    let head = format!(
        "{:width$}  {:>10}  {:>10}  bar\n",
        "", "measured", "published"
    );
    std::iter::once(head).chain(rows.iter().map(line)).collect()
}

/// Were all bars met?
#[must_use]
pub fn passed(rows: &[Row]) -> bool {
    rows.iter().all(|row| row.pass != Some(false))
}
