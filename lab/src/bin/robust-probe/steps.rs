//! Steps that processes take, and whether each process goes on.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tombola_lab::bench::guest::shared_counters;

/// The drivers' real-time priority: no fault of the scheduler delays them.
pub const PRIORITY: i32 = 60;
/// A process that takes no step for so long is lost. The host may be busy.
const PATIENCE: Duration = Duration::from_secs(120);

/// Steps of processes, counted in memory that they share.
pub struct Steps(pub &'static [AtomicU64]);

impl Steps {
    pub fn of(processes: usize) -> io::Result<Self> {
        shared_counters(processes).map(Self)
    }

    pub fn read(&self) -> Vec<u64> {
        self.0
            .iter()
            .map(|steps| steps.load(Ordering::Relaxed))
            .collect()
    }

    /// Waits until every process has taken a step more than `before`; calls `check` meanwhile.
    pub fn await_progress(
        &self,
        before: &[u64],
        check: impl Fn() -> io::Result<()>,
    ) -> io::Result<()> {
        let began = Instant::now();
        loop {
            let stuck = before
                .iter()
                .zip(self.read())
                .filter(|&(&before, now)| before == now)
                .count();
            if stuck == 0 {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                dump_threads();
                return Err(io::Error::other(format!(
                    "{stuck} of {} processes take no step any more",
                    before.len()
                )));
            }
            check()?;
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Has the kernel write what it knows of each thread and CPU into its trace, which robust.sh prints. SysRq-D, as by hand.
fn dump_threads() {
    if let Err(error) = std::fs::write("/proc/sysrq-trigger", "D") {
        println!("robust-probe: no dump: {error}");
    }
}

pub fn scheduler_state() -> io::Result<String> {
    std::fs::read_to_string("/sys/kernel/sched_ext/state").map(|state| state.trim().to_owned())
}

pub fn reap() {
    // SAFETY: a null status is allowed and means that it is not wanted.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}
