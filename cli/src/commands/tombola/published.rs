//! What the daemon lets others know, in /run/tombola: by which file of rules it goes, and what it answered to the last reload.
//!
//! ```text
//!   /run/tombola/rules     a link to the file, which need not be there
//!   /run/tombola/answer    empty: the rules hold; or what is wrong with them
//! ```

use crate::files;
use crate::rules::RulesFile;
use crate::warn;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use tombola_kernel::abi::RUN_DIR;

fn place(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(name)
}

/// As long as this lives.
pub struct Published {
    rules: PathBuf,
    answer: PathBuf,
}

impl Published {
    pub fn new(file: &Path) -> Self {
        let published = Self {
            rules: place("rules"),
            answer: place("answer"),
        };
        let _ = fs::remove_file(&published.rules); // of one that was killed
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

/// The rules of the scheduler that runs.
pub fn rules_file() -> Option<RulesFile> {
    fs::read_link(place("rules")).ok().map(RulesFile::of_daemon)
}

pub struct Answer {
    /// Another one has another.
    pub stamp: Option<(u64, i64, i64)>,
    pub text: String,
}

pub fn answered() -> Answer {
    let path = place("answer");
    Answer {
        stamp: fs::metadata(&path)
            .ok()
            .map(|file| (file.ino(), file.mtime(), file.mtime_nsec())),
        text: fs::read_to_string(&path).unwrap_or_default(),
    }
}
