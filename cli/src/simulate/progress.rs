//! How far a simulation is, for those who wait for it.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Short simulations show nothing, long ones a line that is renewed so often.
const PERIOD: Duration = Duration::from_millis(500);

/// A line on standard error, if that is a terminal; dropping this removes it.
pub struct Progress {
    span_ns: u64,
    is_terminal: bool,
    shown: Instant,
    is_shown: bool,
}

impl Progress {
    pub fn new(span_ns: u64) -> Self {
        Self {
            span_ns,
            is_terminal: io::stderr().is_terminal(),
            shown: Instant::now(),
            is_shown: false,
        }
    }

    /// The simulation has come to this moment.
    pub fn at(&mut self, at_ns: u64) {
        if !self.is_terminal || self.shown.elapsed() < PERIOD {
            return;
        }
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (at, span) = (seconds(at_ns), seconds(self.span_ns));
        let percent = 100.0 * at / span;
        // Nothing depends on it, so a failure is ignored.
        let _ = write!(
            io::stderr(),
            "\r\x1b[Ksimulated {at:.1} s of {span:.1} s, {percent:.0} %"
        );
        self.shown = Instant::now();
        self.is_shown = true;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
