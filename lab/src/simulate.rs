//! Runs `tombola simulate`.

use crate::bench::boot::own_programs;
use crate::explain::explain;
use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use std::io::Write;
use std::process::{Command, Stdio};

/// The report of a plan, as JSON has it; `options` are words beside `--json`.
pub fn simulate<T: DeserializeOwned>(plan: &str, options: &[&str]) -> Result<T> {
    let program = own_programs()?.join("tombola");
    let mut simulation = Command::new(&program)
        .args(["simulate", "/dev/stdin", "--json"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            explain(
                &format!("{} cannot be run: {error}", program.display()),
                "it has not been built",
                "make build",
            )
        })?;
    let mut stdin = simulation.stdin.take().context("a pipe was asked for")?;
    stdin.write_all(plan.as_bytes())?;
    drop(stdin);
    let output = simulation.wait_with_output()?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(explain(
            &format!("tombola simulate: {}\n{errors}", output.status),
            "tombola and the lab do not fit together",
            &format!("make build; its plan was:\n{plan}"),
        ));
    }
    serde_json::from_slice(&output.stdout).context("tombola simulate printed no report")
}
