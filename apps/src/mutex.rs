//! A mutex in memory that processes share.

use crate::shared;
use anyhow::{Context, Result, ensure};
use std::fs::{File, rename};
use std::io;
use std::mem;
use std::path::Path;

/// It stays mapped until its process ends.
pub struct Mutex(*mut libc::pthread_mutex_t);

impl Mutex {
    /// For this process and those that it forks. `inherits`: a holder inherits the priority of who waits.
    pub fn new(inherits: bool) -> Result<Self> {
        Self(shared::map(None)?).initialized(inherits)
    }

    /// In a file, which is there once the mutex can be used.
    pub fn create(file: &Path, inherits: bool) -> Result<Self> {
        let path = file.display();
        let unfinished = file.with_extension("new");
        let make = || -> Result<Self> {
            let new = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(&unfinished)?;
            new.set_len(size_of::<libc::pthread_mutex_t>() as u64)?;
            let mutex = Self(shared::map(Some(&new))?).initialized(inherits)?;
            rename(&unfinished, file)?;
            Ok(mutex)
        };
        make().with_context(|| {
            format!("cannot make a lock in {path}: choose a file that you may write")
        })
    }

    /// One that [`Mutex::create`] has made.
    pub fn open(file: &Path) -> Result<Self> {
        let opened = File::options().read(true).write(true).open(file);
        let mapped = opened.and_then(|file| shared::map(Some(&file)));
        let path = file.display();
        Ok(Self(mapped.with_context(|| {
            format!("cannot use the lock in {path}")
        })?))
    }

    fn initialized(self, inherits: bool) -> Result<Self> {
        // SAFETY: the memory is large enough, stays mapped, and no other process uses it yet; the attributes are initialized
        // before they are used.
        let failed = unsafe {
            let mut attributes = mem::zeroed();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
            if inherits {
                libc::pthread_mutexattr_setprotocol(
                    &raw mut attributes,
                    libc::PTHREAD_PRIO_INHERIT,
                );
            }
            libc::pthread_mutex_init(self.0, &raw const attributes)
        };
        ensure!(failed == 0, io::Error::from_raw_os_error(failed));
        Ok(self)
    }

    pub fn hold<T>(&self, work: impl FnOnce() -> T) -> T {
        // SAFETY: the mutex is initialized, and never destroyed.
        unsafe { libc::pthread_mutex_lock(self.0) };
        let done = work();
        // SAFETY: as above, and this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0) };
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_same_lock_is_found_in_its_file() {
        let file = std::env::temp_dir().join(format!("tombola-lock-{}", std::process::id()));
        let mutex = Mutex::create(&file, true).unwrap();
        let same = Mutex::open(&file).unwrap();
        mutex.hold(|| {
            // SAFETY: it is initialized, and the call does not block.
            let busy = unsafe { libc::pthread_mutex_trylock(same.0) };
            assert_eq!(busy, libc::EBUSY);
        });
        assert_eq!(same.hold(|| 1), 1);
        fs::remove_file(&file).unwrap();
        assert!(Mutex::open(&file).is_err());
    }
}
