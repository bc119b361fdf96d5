//! A program's progress, which other processes read while it runs.

use crate::shared;
use anyhow::{Context, Result};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const BYTES: usize = size_of::<u64>();

/// A count in a file that is mapped: 8 bytes, little endian. To write it is a store to memory; to read it costs the program
/// that counts nothing.
pub struct Progress {
    /// In its own mapping, which lives as long as this does.
    count: *mut AtomicU64,
}

impl Progress {
    /// Begins at 0. Without a file no other process can read the count, and the caller needs no special case.
    pub fn new(file: Option<&Path>) -> Result<Self> {
        let progress = match file {
            None => Progress {
                count: shared::map(None)?,
            },
            Some(path) => map_file(path).with_context(|| {
                let path = path.display();
                format!("cannot count the progress in {path}: choose a file that you may write")
            })?,
        };
        progress.set(0);
        Ok(progress)
    }

    pub fn set(&self, count: u64) {
        // SAFETY: the mapping exists until `drop`, and is aligned, since it begins a page; other processes that have it mapped
        // read and store the whole count at once.
        unsafe { &*self.count }.store(count.to_le(), Ordering::Relaxed);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // SAFETY: it is this mapping, and nothing borrows from it.
        unsafe { libc::munmap(self.count.cast(), BYTES) };
    }
}

/// The file is not truncated first: a process that has it mapped would be killed (SIGBUS) when it reads.
fn map_file(path: &Path) -> io::Result<Progress> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    file.set_len(BYTES as u64)?;
    Ok(Progress {
        count: shared::map(Some(&file))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn others_read_the_count_in_the_file() {
        let name = format!("tombola-progress-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, "longer than a count").unwrap();
        let progress = Progress::new(Some(&path)).unwrap();
        assert_eq!(fs::read(&path).unwrap(), [0; BYTES]);
        progress.set(0x0102_0304);
        assert_eq!(fs::read(&path).unwrap(), [4, 3, 2, 1, 0, 0, 0, 0]);
        drop(progress);
        assert_eq!(fs::read(&path).unwrap(), [4, 3, 2, 1, 0, 0, 0, 0]);
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn without_a_file_it_counts_for_nobody() {
        Progress::new(None).unwrap().set(1);
    }

    #[test]
    fn a_file_that_cannot_be_is_named() {
        let error = Progress::new(Some(Path::new("/proc/nowhere")))
            .err()
            .unwrap();
        assert!(error.to_string().contains("/proc/nowhere"), "{error}");
    }
}
