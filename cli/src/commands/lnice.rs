//! `lnice`: run a command with a number of tickets.

use crate::{amounts, launch, run};
use clap::{Command, CommandFactory, Parser};
use std::ffi::OsString;
use std::process::ExitCode;
use tombola_kernel::abi::TICKETS_DEFAULT;
use tombola_kernel::{Result, calls::Client};

/// Run a command with a number of process tickets.
///
/// Tickets decide how the CPU time of one user is shared among that user's processes: 200 tickets get twice what 100 get.
/// They move nothing between users. Children of the command begin with the same number.
#[derive(Parser)]
#[command(
    name = "lnice",
    version,
    after_help = "\
Examples:
  lnice -t 500 make -j4     five times what an ordinary process of yours gets
  lnice -t 10 backup.sh     a tenth
  lnice make                the default, 100, whatever this shell has

Exit status: the command's own; 1 if the scheduler refused (the command was not run), 2 if lnice was wrongly called,
126 if the command cannot be run, 127 if there is no such command."
)]
struct Args {
    /// Tickets: 1 (least) to 10000 (most)
    #[arg(short, long, value_name = "TICKETS", default_value_t = TICKETS_DEFAULT,
          value_parser = amounts::tickets, allow_hyphen_values = true)]
    tickets: u32,

    /// The command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

pub fn command() -> Command {
    Args::command()
}

pub fn main() -> ExitCode {
    let args = Args::parse();
    run("lnice", || lnice(&args))
}

fn lnice(args: &Args) -> Result<ExitCode> {
    launch::with_tickets("lnice", &Client::open()?, args.tickets, &args.command)
}
