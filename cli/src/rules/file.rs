//! The file of rules.

use super::accounts::System;
use super::faults::{Fault, Faults};
use super::model::Rules;
use super::parse::{Explained, parse};
use nix::errno::Errno;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

pub const DEFAULT_FILE: &str = "/etc/tombola.toml";

/// The file of rules.
#[derive(Clone, Debug)]
pub struct RulesFile {
    path: PathBuf,
    /// The defaults hold if it is not there.
    optional: bool,
}

impl RulesFile {
    /// One that somebody named must be there.
    pub fn new(named: Option<&Path>) -> Self {
        let path = named.unwrap_or(Path::new(DEFAULT_FILE));
        Self {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            optional: named.is_none(),
        }
    }

    /// One that a scheduler runs by.
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

/// For a file that somebody named: it must be there.
pub fn read(path: &Path) -> Result<Rules, Faults> {
    explain(path).map(|explained| explained.rules)
}

/// For the file that nobody needs to have: without it the defaults hold.
pub fn read_or_defaults(path: &Path) -> Result<Rules, Faults> {
    match read(path) {
        Err(faults) if faults.is_absent() => Ok(Rules::default()),
        rules => rules,
    }
}

pub fn explain(path: &Path) -> Result<Explained, Faults> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| unreadable(&file, &error))?;
    let text = String::from_utf8(bytes).map_err(|error| not_text(&file, &error))?;
    parse(&file, &text, &System)
}

fn unreadable(file: &str, error: &io::Error) -> Faults {
    let why = Errno::from_raw(error.raw_os_error().unwrap_or_default()).desc();
    let (fact, cause, next) = match error.kind() {
        ErrorKind::NotFound => (
            "there is no such file".into(),
            "it was not written yet, or its name is misspelt",
            "write it (tombola config check --help shows one), or correct the name",
        ),
        ErrorKind::PermissionDenied => (
            "you may not read it".into(),
            "the permissions of the file or of a folder above it",
            "repeat it as root, or chmod a+r it: there is nothing secret in it",
        ),
        _ => (
            format!("it cannot be read: {why}"),
            "it is not an ordinary file, or its disk fails",
            "name a text file",
        ),
    };
    let faults = Faults::new(file, "", vec![Fault::of_file(fact, cause, next)]);
    match error.kind() {
        ErrorKind::NotFound => faults.absent(),
        _ => faults,
    }
}

fn not_text(file: &str, error: &FromUtf8Error) -> Faults {
    let text = String::from_utf8_lossy(error.as_bytes());
    let place = error.utf8_error().valid_up_to();
    let fault = Fault::at(
        place..place,
        "this is not UTF-8 text",
        "the file is no text, or is written in another encoding",
        "save it as UTF-8",
    );
    Faults::new(file, &text, vec![fault])
}
