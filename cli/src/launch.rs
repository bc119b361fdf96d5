//! Executes a command in this process, for lnice, `tombola run` and `tombola reserve`.

use crate::arguments::Launch;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use tombola_kernel::Result;
use tombola_kernel::calls::Client;

/// Exit statuses, as shells use them.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Sets this process's tickets, then executes the command in it. `name`: of our program, for messages.
pub fn with_tickets(name: &str, client: &Client, launch: &Launch) -> Result<ExitCode> {
    client.set_tickets(std::process::id(), launch.tickets)?;
    Ok(become_command(name, &launch.command))
}

/// Returns only if the command cannot be run.
pub fn become_command(name: &str, command: &[OsString]) -> ExitCode {
    let (program, arguments) = command.split_first().expect("the parser asks for one");
    let error = Command::new(program).args(arguments).exec();
    let (status, cause, next) = match error.kind() {
        ErrorKind::NotFound => (
            NOT_FOUND,
            "neither this path nor PATH leads to such a file, or its interpreter is missing",
            "correct the name: command -v NAME prints the path of a command",
        ),
        _ => (
            CANNOT_RUN,
            "it is a folder, it may not be executed, or it is not a program",
            "look at it: ls -ld FILE; file FILE",
        ),
    };
    let program = program.display();
    eprintln!("{name}: cannot run {program}: {error}\n  cause: {cause}\n  next:  {next}");
    ExitCode::from(status)
}
