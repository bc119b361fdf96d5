//! How much CPU time the daemon uses in one piece when it looks at each process. It is real-time, so others wait while it works.

use nix::time::{ClockId, clock_gettime};
use std::thread::sleep;
use std::time::Duration;

/// CPU time of a piece of work,
const PIECE: Duration = Duration::from_millis(2);
/// and how many times as long the daemon then sleeps.
const SLEEP: u32 = 9;

/// For long work: rests now and then.
pub struct Pace {
    began: Duration,
}

impl Pace {
    pub fn new() -> Self {
        Self { began: cpu_time() }
    }

    /// Sleeps if a piece of work is done.
    pub fn rest(&mut self) {
        let used = cpu_time().saturating_sub(self.began);
        if used >= PIECE {
            sleep(used * SLEEP);
            self.began = cpu_time();
        }
    }
}

/// Of this thread. How long work takes by the clock also depends on others.
pub fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map_or(Duration::ZERO, Duration::from)
}
