//! What the daemon publishes in /run/tombola: the rules file that it reads, and its answer to the last reload.
//!
//! ```text
//!   /run/tombola/rules     a symbolic link to the file, which may not exist
//!   /run/tombola/answer    empty if the rules hold, else the errors
//! ```

use crate::files;
use crate::rules::RulesFile;
use crate::warn;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use tombola_kernel::abi::RUN_DIR;

fn path_of(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(name)
}

/// The published files; dropping this removes them.
pub struct Published {
    rules: PathBuf,
    answer: PathBuf,
}

impl Published {
    pub fn new(file: &Path) -> Self {
        let published = Self {
            rules: path_of("rules"),
            answer: path_of("answer"),
        };
        let _ = fs::remove_file(&published.rules); // of a daemon that was killed
        if let Err(error) = symlink(file, &published.rules) {
            warn(&format!(
                "cannot make {}: {error}",
                published.rules.display()
            ));
        }
        published
    }

    pub fn answer(&self, text: &str) {
        if let Err(error) = files::replace(&self.answer, text, 0o644) {
            warn(&format!("cannot write {}: {error}", self.answer.display()));
        }
    }
}

impl Drop for Published {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.rules);
        let _ = fs::remove_file(&self.answer);
    }
}

/// The rules file of the running daemon.
pub fn rules_file() -> Option<RulesFile> {
    fs::read_link(path_of("rules"))
        .ok()
        .map(RulesFile::of_daemon)
}

pub struct Answer {
    /// Differs from answer to answer.
    pub stamp: Option<(u64, i64, i64)>,
    pub text: String,
}

pub fn answered() -> Answer {
    let path = path_of("answer");
    Answer {
        stamp: fs::metadata(&path)
            .ok()
            .map(|file| (file.ino(), file.mtime(), file.mtime_nsec())),
        text: fs::read_to_string(&path).unwrap_or_default(),
    }
}
