//! What the program says, to readers who may have gone: that is nothing to a server.

use anyhow::{Context, Result};
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, Write};

pub fn warn(text: impl Display) {
    let _ = writeln!(io::stderr(), "unhash: {text}");
}

/// Whoever reads it may have seen enough and gone.
pub fn say(text: impl Display) -> Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said.context("cannot write"),
    }
}

pub fn say_json(what: &impl Serialize) -> Result<()> {
    say(serde_json::to_string_pretty(what)?)
}
