//! `lrenice`: changes the tickets of a running process.

use crate::arguments::Limit;
use crate::{amounts, run};
use clap::{Command, CommandFactory, Parser};
use std::process::ExitCode;
use tombola_kernel::Result;
use tombola_kernel::calls::Client;

/// Change the process tickets of a running process.
///
/// The tickets hold until they are changed again or the process exits. They count in the currency that the process is in.
/// Children that it forks from then on begin with them; existing children keep their tickets. 0 freezes the process and ends its
/// own reservation: it gets no CPU time until its tickets are set again, but SIGKILL ends it. You must own the process or have
/// CAP_SYS_NICE. The number that an administrator sets for another user's process is also the most that the owner may set, for it
/// and for its later children.
#[derive(Parser)]
#[command(
    name = "lrenice",
    version,
    allow_missing_positional = true,
    after_help = "\
Examples:
  lrenice 515 1000      process 515 gets ten times what a process with the default, 100, gets
  lrenice $$ 100        this shell gets the default again
  lrenice 515 0         process 515 is frozen until its tickets are set again

Exit status: 0 done; 1 refused (no such process, another user's process, Tombola not running); 2 usage error. If it is not 0,
nothing was changed."
)]
struct Args {
    /// The process, by PID
    #[arg(value_parser = amounts::pid, required_unless_present = "process", allow_negative_numbers = true)]
    pid: Option<u32>,

    /// 1 to 10000, or 0 to freeze; initially the parent's tickets, else 100
    #[arg(value_parser = amounts::tickets_or_freeze, allow_negative_numbers = true)]
    tickets: u32,

    /// The process, by PID, as an option
    #[arg(short, long = "pid", value_name = "PID", value_parser = amounts::pid, conflicts_with = "pid",
          allow_negative_numbers = true)]
    process: Option<u32>,

    #[command(flatten)]
    limit: Limit,
}

pub fn command() -> Command {
    Args::command()
}

pub fn main() -> ExitCode {
    let args = Args::parse();
    run("lrenice", || lrenice(&args))
}

fn lrenice(args: &Args) -> Result<ExitCode> {
    let pid = args.pid.or(args.process).expect("the parser asks for one");
    let client = Client::open()?;
    match args.limit.grant(args.tickets) {
        Some(grant) => client.grant_tickets(pid, grant)?,
        None => client.set_tickets(pid, args.tickets)?,
    }
    Ok(ExitCode::SUCCESS)
}
