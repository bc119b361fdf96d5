//! Stopping at a signal, for programs that print a result at the end: they finish first, and are not killed.

use std::sync::atomic::{AtomicBool, Ordering};

static STOPPED: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOPPED.store(true, Ordering::Relaxed);
}

/// From now on SIGTERM and SIGINT only ask the program to stop; they interrupt a sleep.
pub fn stop_on_request() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let handler = stop as extern "C" fn(libc::c_int);
        // SAFETY: the handler does nothing but store to an atomic.
        let before = unsafe { libc::signal(signal, handler as libc::sighandler_t) };
        assert_ne!(before, libc::SIG_ERR, "these signals may be handled");
    }
}

pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}
