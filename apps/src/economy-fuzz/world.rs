//! The processes of the economy. Each burns CPU time, and forks at a command of the driver.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tombola_apps::monotonic;

/// Memory that the driver and the processes share: a word for each process, with its state or a command to it.
pub struct World {
    words: &'static [AtomicU64],
}

const EMPTY: u64 = 0;
/// With the process's pid in the lower half.
const READY: u64 = 1 << 32;
/// With the child's slot in the lower half.
const FORK: u64 = 2 << 32;

/// In virtual time; a process with a small share answers late.
pub const PATIENCE: Duration = Duration::from_secs(60);

impl World {
    pub fn new(processes: usize) -> io::Result<Self> {
        let (access, shared) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // With SIGCHLD ignored, here and in the processes, the kernel reaps exited children.
        // SAFETY: no handler, and fresh zeroed memory for as many words, never unmapped.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            let memory = libc::mmap(std::ptr::null_mut(), processes * 8, access, shared, -1, 0);
            if memory == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            Ok(Self {
                words: std::slice::from_raw_parts(memory.cast(), processes),
            })
        }
    }

    /// A slot without a process.
    pub fn free_slot(&self) -> Option<u32> {
        let word = self
            .words
            .iter()
            .position(|word| word.load(Ordering::Relaxed) == EMPTY)?;
        Some(word as u32)
    }

    /// The driver forks a process of the user. Returns its pid.
    pub fn start(&self, slot: u32, uid: u32) -> io::Result<u32> {
        // SAFETY: there is one thread, so the child may call anything.
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
                // The scheduler sees the new uid when the process first sleeps.
                std::thread::sleep(Duration::from_millis(1));
                self.run(slot)
            }
            _ => (),
        }
        self.wait(slot)
    }

    /// A process forks another. Returns the child's pid.
    pub fn fork(&self, parent: u32, slot: u32) -> io::Result<u32> {
        self.words[parent as usize].store(FORK | u64::from(slot), Ordering::Relaxed);
        self.wait(slot)
    }

    fn wait(&self, slot: u32) -> io::Result<u32> {
        let until = monotonic() + PATIENCE;
        loop {
            let word = self.words[slot as usize].load(Ordering::Relaxed);
            if word & READY != 0 {
                return Ok(word as u32);
            }
            if monotonic() > until {
                return Err(io::Error::other(format!("process {slot} does not answer")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn run(&self, slot: u32) -> ! {
        let mut word = &self.words[slot as usize];
        loop {
            let own = READY | u64::from(std::process::id());
            word.store(own, Ordering::Relaxed);
            loop {
                let command = word.load(Ordering::Relaxed);
                // SAFETY: there is one thread.
                if command & FORK != 0 && unsafe { libc::fork() } == 0 {
                    word = &self.words[command as u32 as usize];
                    break;
                }
                // Unless there is a new command.
                let _ = word.compare_exchange(command, own, Ordering::Relaxed, Ordering::Relaxed);
                std::hint::spin_loop();
            }
        }
    }

    /// Kills a process. Returns how long its exit took, or an error if it is still there after `limit`.
    pub fn kill(&self, slot: u32, pid: u32, limit: Duration) -> io::Result<Duration> {
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
        self.words[slot as usize].store(EMPTY, Ordering::Relaxed);
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
