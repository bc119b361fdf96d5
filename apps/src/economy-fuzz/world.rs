//! The processes of the economy: each burns CPU time, and forks when it is told to.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tombola_apps::monotonic;

/// What the driver and the processes tell each other: a word for each.
pub struct World {
    words: &'static [AtomicU64],
}

const EMPTY: u64 = 0;
const READY: u64 = 1 << 32;
const FORK: u64 = 2 << 32;

/// Of virtual time; who has a small share takes some turns to do what it is told.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl World {
    pub fn new(people: usize) -> io::Result<Self> {
        let (access, shared) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // Who ends is not waited for: most are not our own children.
        // SAFETY: no handler, and fresh zeroed memory for as many words, never unmapped.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            let memory = libc::mmap(std::ptr::null_mut(), people * 8, access, shared, -1, 0);
            if memory == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(Self {
                words: std::slice::from_raw_parts(memory.cast(), people),
            })
        }
    }

    /// A place that nobody has.
    pub fn place(&self) -> Option<u32> {
        let word = self
            .words
            .iter()
            .position(|word| word.load(Ordering::Relaxed) == EMPTY)?;
        Some(word as u32)
    }

    /// A process of the user's, from the driver. Its pid.
    pub fn start(&self, place: u32, uid: u32) -> io::Result<u32> {
        // SAFETY: there is one thread, so the child may do what it likes.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {
                // SAFETY: system calls with plain numbers.
                unsafe {
                    let parameters = libc::sched_param { sched_priority: 0 };
                    assert_eq!(
                        libc::sched_setscheduler(0, libc::SCHED_OTHER, &parameters),
                        0
                    );
                    assert_eq!(libc::setgid(uid), 0);
                    assert_eq!(libc::setuid(uid), 0);
                }
                // Its first sleep lets the scheduler see whose it is now.
                std::thread::sleep(Duration::from_millis(1));
                self.live(place)
            }
            _ => (),
        }
        self.wait(place)
    }

    /// A process forks another.
    pub fn fork(&self, parent: u32, place: u32) -> io::Result<u32> {
        self.words[parent as usize].store(FORK | u64::from(place), Ordering::Relaxed);
        self.wait(place)
    }

    fn wait(&self, place: u32) -> io::Result<u32> {
        let until = monotonic() + PATIENCE;
        loop {
            let word = self.words[place as usize].load(Ordering::Relaxed);
            if word & READY != 0 {
                return Ok(word as u32);
            }
            if monotonic() > until {
                return Err(io::Error::other(format!("process {place} does not get on")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn live(&self, place: u32) -> ! {
        let mut word = &self.words[place as usize];
        loop {
            let own = READY | u64::from(std::process::id());
            word.store(own, Ordering::Relaxed);
            loop {
                let told = word.load(Ordering::Relaxed);
                // SAFETY: there is one thread.
                if told & FORK != 0 && unsafe { libc::fork() } == 0 {
                    word = &self.words[told as u32 as usize];
                    break;
                }
                // It may have been told more meanwhile.
                let _ = word.compare_exchange(told, own, Ordering::Relaxed, Ordering::Relaxed);
                std::hint::spin_loop();
            }
        }
    }

    /// Kills it; how long that took, or an error if it is still there after `limit`.
    pub fn end(&self, place: u32, pid: u32, limit: Duration) -> io::Result<Duration> {
        let begun = monotonic();
        // SAFETY: a system call with plain numbers.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        while std::path::Path::new(&format!("/proc/{pid}")).exists() {
            if monotonic() - begun > limit {
                return Err(io::Error::other(format!(
                    "process {pid} is still there {limit:?} after it was killed"
                )));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.words[place as usize].store(EMPTY, Ordering::Relaxed);
        Ok(monotonic() - begun)
    }
}

/// CPU time of a process, ns.
pub fn used_ns(pid: u32) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let used = text
        .split_whitespace()
        .next()
        .and_then(|used| used.parse().ok());
    used.ok_or_else(|| io::Error::other("schedstat does not begin with a number"))
}
