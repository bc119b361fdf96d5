//! Reads text files that users have written.

use crate::faults::{Fault, Faults};
use nix::errno::Errno;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::string::FromUtf8Error;

/// `example`: the command that shows such a file, for messages.
pub fn read(path: &Path, example: &str) -> Result<String, Faults> {
    let file = path.display().to_string();
    let bytes = std::fs::read(path).map_err(|error| unreadable(&file, &error, example))?;
    String::from_utf8(bytes).map_err(|error| not_text(&file, &error))
}

fn unreadable(file: &str, error: &io::Error, example: &str) -> Faults {
    let why = Errno::from_raw(error.raw_os_error().unwrap_or_default()).desc();
    let (fact, cause, next) = match error.kind() {
        ErrorKind::NotFound => (
            "there is no such file".into(),
            "it has not been written, or its name is misspelt",
            format!("write it ({example} shows one), or correct the name"),
        ),
        ErrorKind::PermissionDenied => (
            "you may not read it".into(),
            "the permissions of the file or of a folder above it forbid it",
            "repeat it as root, or make the file readable (chmod a+r): it contains no secrets"
                .into(),
        ),
        _ => (
            format!("it cannot be read: {why}"),
            "it is not an ordinary file, or its disk fails",
            "name a text file".into(),
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
