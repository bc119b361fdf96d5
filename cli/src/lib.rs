//! What Tombola's commands share: parse, ask, print.
//!
//! Each command answers with an exit status: 0 done, 1 refused (and nothing changed), 2 wrongly called.

pub mod amounts;
pub mod cgroups;
pub mod commands;
pub mod currency;
pub mod daemon;
pub mod duration;
pub mod ejection;
pub mod entitlement;
pub mod files;
pub mod launch;
pub mod names;
pub mod rules;
pub mod sample;
mod shares;
pub mod status;
pub mod table;
pub mod trace;
pub mod tree;
pub mod watch;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Runs a command and turns its refusal into a message and exit status 1.
pub fn run<E: Display>(name: &str, command: impl FnOnce() -> Result<ExitCode, E>) -> ExitCode {
    end_with_a_closed_pipe();
    report(name, command)
}

/// The same for who has something to put in order when the reader of its output goes: that is an error, not its end.
pub fn report<E: Display>(name: &str, command: impl FnOnce() -> Result<ExitCode, E>) -> ExitCode {
    match command() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// To the daemon's standard error. Its reader may be gone; that is no reason to end.
pub fn warn(message: &str) {
    let _ = writeln!(std::io::stderr(), "tombola: {message}");
}

// Rust ignores SIGPIPE, and printing then panics when the reader of a pipe (head, less) has gone.
fn end_with_a_closed_pipe() {
    // SAFETY: no thread runs yet, and no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
