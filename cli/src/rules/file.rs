//! Reads the rules file.

use super::accounts::System;
use super::model::Rules;
use super::parse::{EXAMPLE_COMMAND, Explained, parse};
use crate::faults::Faults;
use crate::text_file;
use std::path::{Path, PathBuf};

pub const DEFAULT_FILE: &str = "/etc/tombola.toml";

/// A rules file.
#[derive(Clone, Debug)]
pub struct RulesFile {
    path: PathBuf,
    /// If the file does not exist, the defaults hold.
    optional: bool,
}

impl RulesFile {
    /// A file that the user names must exist; without a name it is the default file, which may be missing.
    pub fn new(named: Option<&Path>) -> Self {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE));
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            optional: named.is_none(),
        }
    }

    /// The file of a running daemon.
    pub fn of_daemon(path: PathBuf) -> Self {
        Self {
            optional: path == Path::new(DEFAULT_FILE),
            path,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read(&self) -> Result<Rules, Faults> {
        match self.optional {
            true => read_or_defaults(&self.path),
            false => read(&self.path),
        }
    }
}

/// Reads a file that must exist.
pub fn read(path: &Path) -> Result<Rules, Faults> {
    explain(path).map(|explained| explained.rules)
}

/// Reads a file that may be missing: then the defaults hold.
pub fn read_or_defaults(path: &Path) -> Result<Rules, Faults> {
    match read(path) {
        Err(faults) if faults.is_absent() => Ok(Rules::default()),
        rules => rules,
    }
}

pub fn explain(path: &Path) -> Result<Explained, Faults> {
    let text = text_file::read(path, EXAMPLE_COMMAND)?;
    parse(&path.display().to_string(), &text, &System)
}
