//! `lnice`: runs a command with a number of tickets.

use crate::arguments::Launch;
use crate::launch::with_tickets;
use crate::run;
use clap::{Command, CommandFactory, Parser};
use std::process::ExitCode;
use tombola_kernel::{Result, calls::Client};

/// Run a command with a number of process tickets.
///
/// Process tickets decide how the CPU time of a currency, by default your user currency, is shared among its processes: 200
/// tickets get twice as much as 100. Other users' shares stay the same. Children of the command begin with the same tickets.
#[derive(Parser)]
#[command(
    name = "lnice",
    version,
    after_help = "\
Examples:
  lnice -t 500 make -j4     five times what an ordinary process of yours gets
  lnice -t 10 backup.sh     a tenth
  lnice make                the default, 100, whatever this shell's tickets are

Exit status: the command's own; 1 if the scheduler refused or does not run (the command was not run), 2 after a
usage error, 126 if the command cannot be run, 127 if there is no such command."
)]
struct Args {
    #[command(flatten)]
    launch: Launch,
}

pub fn command() -> Command {
    Args::command()
}

pub fn main() -> ExitCode {
    let args = Args::parse();
    run("lnice", || lnice(&args))
}

fn lnice(args: &Args) -> Result<ExitCode> {
    with_tickets("lnice", &Client::open()?, &args.launch)
}
