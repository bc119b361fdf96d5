//! Tombola's commands: they parse arguments, call the scheduler, and print its answers.
//!
//! Exit status, unless a command's help says otherwise: 0 done; 1 refused, and nothing was changed; 2 usage error.

pub mod amounts;
pub mod arguments;
pub mod cgroups;
pub mod commands;
pub mod currency;
pub mod daemon;
pub mod duration;
pub mod ejection;
pub mod entitlement;
pub mod faults;
pub mod files;
pub mod launch;
pub mod names;
pub mod plan;
pub mod rules;
pub mod sample;
mod shares;
pub mod simulate;
pub mod status;
pub mod table;
pub mod text_file;
pub mod trace;
pub mod tree;
pub mod watch;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// Runs a command; turns its error into a message and exit status 1.
pub fn run<E: Display>(name: &str, command: impl FnOnce() -> Result<ExitCode, E>) -> ExitCode {
    end_with_a_closed_pipe();
    report(name, command)
}

/// The same for a command that must clean up when its output's reader exits: it gets an error, not SIGPIPE.
pub fn report<E: Display>(name: &str, command: impl FnOnce() -> Result<ExitCode, E>) -> ExitCode {
    match command() {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a warning to standard error, and ignores that the reader may have exited.
pub fn warn(message: &str) {
    let _ = writeln!(std::io::stderr(), "tombola: {message}");
}

// Rust ignores SIGPIPE, and printing then panics when the reader of a pipe (head, less) has exited.
fn end_with_a_closed_pipe() {
    // SAFETY: no thread runs yet, and no handler is installed.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
