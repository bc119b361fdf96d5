//! /run/tombola: which process holds the scheduler, and where its programs are pinned.
//!
//! ```text
//!   /run/tombola/pid           the daemon's process id
//!   /run/tombola/lock          for root: locked (flock) as long as the daemon lives
//!   /run/tombola/trace.lock    locked by the reader of the runs
//!   /run/tombola/bpf           a bpffs of our own: systemd mounts the usual one for root only
//!   /run/tombola/bpf/call      for all users
//!   /run/tombola/bpf/tree      for all users
//!   /run/tombola/bpf/trace/    for root: the ring buffer `draws`, and `switch`, which turns recording on
//! ```
//!
//! A lock, unlike a file, ends with the process that holds it. So the next daemon knows the files of a killed one to be
//! stale, and replaces them.

use crate::abi::{PIN_DIR, RUN_DIR};
use crate::error::{Error, Result};
use crate::sched_ext;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

const PID_FILE: &str = "/run/tombola/pid";
// Not the same file: a user who can read a file can lock it, and would keep the next daemon from starting.
const LOCK: &str = "/run/tombola/lock";
const TRACE_LOCK: &str = "/run/tombola/trace.lock";
pub(crate) const PIN_TRACE_DIR: &str = "/run/tombola/bpf/trace";
pub(crate) const PIN_RUNS: &str = "/run/tombola/bpf/trace/runs";
pub(crate) const PIN_SWITCH: &str = "/run/tombola/bpf/trace/switch";

/// The daemon's lock on /run/tombola, released when dropped.
pub(crate) struct RuntimeDir {
    // Held for its lock.
    _lock: Flock<File>,
}

impl RuntimeDir {
    pub fn claim() -> Result<Self> {
        make_dir(RUN_DIR, 0o755)?;
        let lock = lock(LOCK).map_err(|errno| match errno {
            Errno::EWOULDBLOCK => Error::AlreadyRunning {
                pid: written_pid().unwrap_or(0),
            },
            errno => file_error("lock", LOCK, errno),
        })?;
        write_pid().map_err(|error| io_error("write", PID_FILE, &error))?;
        mount_bpffs()?;
        remove_pins();
        make_dir(PIN_TRACE_DIR, 0o700)?;
        Ok(Self { _lock: lock })
    }

    /// Lets all users open a pin. The BPF program checks the caller's credentials at each call.
    pub fn publish(&self, pin: &str) -> Result<()> {
        fs::set_permissions(pin, Permissions::from_mode(0o666))
            .map_err(|error| io_error("open to all users", pin, &error))
    }
}

impl Drop for RuntimeDir {
    // The next daemon replaces what cannot be removed now.
    fn drop(&mut self) {
        remove_pins();
        let _ = umount2(PIN_DIR, MntFlags::empty());
        let _ = fs::remove_dir(PIN_DIR);
        let _ = fs::remove_file(TRACE_LOCK);
        let _ = fs::remove_file(PID_FILE);
        let _ = fs::remove_file(LOCK);
    }
}

/// The process that holds the scheduler, if there is one. A caller that may not open the lock asks the kernel whether Tombola
/// schedules: if the daemon was killed, the number that it has left may be another process's.
pub fn daemon_pid() -> Option<u32> {
    let is_there = match File::open(LOCK) {
        Ok(file) => matches!(
            Flock::lock(file, FlockArg::LockSharedNonblock),
            Err((_, Errno::EWOULDBLOCK))
        ),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            sched_ext::state().is_ok_and(|state| state.is_tombola())
        }
        Err(_) => false,
    };
    is_there.then(written_pid).flatten()
}

/// The exclusive right to read the runs, until dropped.
pub(crate) fn lock_trace() -> Result<impl Drop> {
    lock(TRACE_LOCK).map_err(|errno| match errno {
        Errno::EWOULDBLOCK => Error::AlreadyTracing {
            tracer: "another tombola trace",
        },
        errno => file_error("lock", TRACE_LOCK, errno),
    })
}

// The daemon removes the files when it ends. A file that was opened before that and locked after it is no longer the one at its
// path, and its lock excludes no other process: open the path again.
fn lock(path: &str) -> nix::Result<Flock<File>> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| errno_of(&error))?;
        let lock =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| errno)?;
        if is_at(path, &lock) {
            return Ok(lock);
        }
    }
}

fn is_at(path: &str, file: &File) -> bool {
    let inode = |file: Metadata| (file.dev(), file.ino());
    let (at_path, opened) = (fs::metadata(path).map(inode), file.metadata().map(inode));
    at_path.is_ok_and(|at_path| opened.is_ok_and(|opened| opened == at_path))
}

fn write_pid() -> io::Result<()> {
    fs::write(PID_FILE, format!("{}\n", std::process::id()))?;
    fs::set_permissions(PID_FILE, Permissions::from_mode(0o644)) // despite the umask
}

fn written_pid() -> Option<u32> {
    fs::read_to_string(PID_FILE).ok()?.trim().parse().ok()
}

fn mount_bpffs() -> Result<()> {
    make_dir(PIN_DIR, 0o755)?;
    if statfs(PIN_DIR).is_ok_and(|fs| fs.filesystem_type() == BPF_FS_MAGIC) {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(
        Some("tombola"),
        PIN_DIR,
        Some("bpf"),
        flags,
        Some("mode=0755"),
    )
    .map_err(|errno| file_error("mount a bpf file system on", PIN_DIR, errno))
}

fn remove_pins() {
    for dir in [PIN_TRACE_DIR, PIN_DIR] {
        for path in entries(dir) {
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
    }
}

fn entries(dir: &str) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

fn make_dir(path: &str, mode: u32) -> Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::set_permissions(path, Permissions::from_mode(mode)),
    }
    .map_err(|error| io_error("make the directory", path, &error))
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

fn io_error(action: &'static str, path: &str, error: &io::Error) -> Error {
    file_error(action, path, errno_of(error))
}

fn file_error(action: &'static str, path: &str, errno: Errno) -> Error {
    Error::File {
        action,
        path: path.to_owned(),
        errno,
        cause: "this process may not write to /run: it is not root, or in a container or a protected service",
        next: "run it as root on the machine itself",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn a_lock_whose_file_each_holder_removes_has_one_holder() {
        let path = std::env::temp_dir().join(format!("tombola-lock-{}", std::process::id()));
        let path = path.to_str().expect("UTF-8");
        let (holders, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while taken.load(Ordering::Relaxed) < 20_000 {
                        let Ok(_lock) = lock(path) else { continue };
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::Relaxed);
                        holders.fetch_sub(1, Ordering::SeqCst);
                        fs::remove_file(path).expect("only the holder removes it");
                    }
                });
            }
        });
    }

    #[test]
    fn a_file_that_was_removed_or_replaced_is_not_at_its_path() {
        let path = std::env::temp_dir().join(format!("tombola-replaced-{}", std::process::id()));
        let path = path.to_str().expect("UTF-8");
        let first = File::create(path).expect("a file");
        assert!(is_at(path, &first));
        fs::remove_file(path).expect("it is there");
        assert!(!is_at(path, &first));
        let second = File::create(path).expect("a file");
        assert!(!is_at(path, &first) && is_at(path, &second));
        fs::remove_file(path).expect("it is there");
    }
}
