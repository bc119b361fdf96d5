//! Numbers that a program has measured, for other programs: a file with one on each line.

use crate::progress::Progress;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

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

/// Times that a program measures one after the other. While it runs, others read how many there are; at the end it writes them,
/// in microseconds.
pub struct Times {
    times: Vec<Duration>,
    progress: Progress,
    file: Option<Numbers>,
}

impl Times {
    pub fn new(progress: Progress, file: Option<&Path>) -> Result<Self> {
        Ok(Self {
            times: Vec::new(),
            progress,
            file: file.map(Numbers::create).transpose()?,
        })
    }

    #[must_use]
    pub fn count(&self) -> u64 {
        self.times.len() as u64
    }

    pub fn add(&mut self, time: Duration) {
        self.times.push(time);
        self.progress.set(self.count());
    }

    pub fn write(self) -> Result<()> {
        let times = self.times.iter().map(Duration::as_micros);
        self.file.map_or(Ok(()), |file| file.write(times))
    }
}
