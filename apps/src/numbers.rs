//! Numbers that a program has measured, for other programs: a file with one on each line.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file that is written at the end.
pub struct Numbers {
    file: File,
    path: PathBuf,
}

impl Numbers {
    /// To be called before the work begins, so that a wrong name is reported at once.
    pub fn create(path: &Path) -> Result<Self> {
        let refused = || {
            format!(
                "cannot write {}: choose a file that you may write",
                path.display()
            )
        };
        Ok(Self {
            file: File::create(path).with_context(refused)?,
            path: path.to_owned(),
        })
    }

    pub fn write(self, numbers: impl Iterator<Item = u128>) -> Result<()> {
        let full = || format!("cannot write {}: is the disk full?", self.path.display());
        lines(&self.file, numbers).with_context(full)
    }
}

fn lines(file: &File, numbers: impl Iterator<Item = u128>) -> io::Result<()> {
    let mut file = BufWriter::new(file);
    for number in numbers {
        writeln!(file, "{number}")?;
    }
    file.flush()
}
