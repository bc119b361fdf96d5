//! A mutex in memory that processes share.

use anyhow::{Context, Result, ensure};
use std::fs::{File, rename};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::{mem, ptr};

const BYTES: usize = size_of::<libc::pthread_mutex_t>();

/// It stays mapped until its process ends.
pub struct Mutex(*mut libc::pthread_mutex_t);

impl Mutex {
    /// For this process and those that it forks. `inherits`: a holder inherits the priority of who waits.
    pub fn new(inherits: bool) -> Result<Self> {
        Self::map(libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1)?.initialized(inherits)
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
            new.set_len(BYTES as u64)?;
            let mutex = Self::map(libc::MAP_SHARED, new.as_raw_fd())?.initialized(inherits)?;
            rename(&unfinished, file)?;
            Ok(mutex)
        };
        make().with_context(|| {
            format!("cannot make a lock in {path}: choose a file that you may write")
        })
    }

    /// One that [`Mutex::create`] has made.
    pub fn open(file: &Path) -> Result<Self> {
        let open = || {
            Self::map(
                libc::MAP_SHARED,
                File::options()
                    .read(true)
                    .write(true)
                    .open(file)?
                    .as_raw_fd(),
            )
        };
        open().with_context(|| format!("cannot use the lock in {}", file.display()))
    }

    fn map(kind: i32, fd: i32) -> Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses a free address.
        let memory = unsafe { libc::mmap(ptr::null_mut(), BYTES, access, kind, fd, 0) };
        ensure!(memory != libc::MAP_FAILED, std::io::Error::last_os_error());
        Ok(Self(memory.cast()))
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
        ensure!(failed == 0, std::io::Error::from_raw_os_error(failed));
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
