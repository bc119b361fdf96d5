//! Reads the rules file.

use super::accounts::System;
use super::faults::{Fault, Faults};
use super::model::Rules;
use super::parse::{Explained, parse};
use nix::errno::Errno;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::string::FromUtf8Error;

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
            "it has not been written, or its name is misspelt",
            "write it (tombola config check --help shows one), or correct the name",
        ),
        ErrorKind::PermissionDenied => (
            "you may not read it".into(),
            "the permissions of the file or of a folder above it forbid it",
            "repeat it as root, or make the file readable (chmod a+r): it contains no secrets",
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
        "the file is not text, or has another encoding",
        "save it as UTF-8",
    );
    Faults::new(file, &text, vec![fault])
}
