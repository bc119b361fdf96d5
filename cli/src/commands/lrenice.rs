//! `lrenice`: change the tickets of a running process.

use crate::{amounts, run};
use clap::{Command, CommandFactory, Parser};
use std::process::ExitCode;
use tombola_kernel::Result;
use tombola_kernel::calls::{Client, Grant};

/// Change the process tickets of a running process.
///
/// The new number holds until it is changed again or the process ends. Children that the process forks afterwards begin with
/// it; those it has already keep theirs. With 0 the process is frozen: it keeps what it has and gets no CPU time until it is
/// given other tickets; it can be killed all the same. For the owner of the process, or with CAP_SYS_NICE; what the latter sets
/// for somebody else's is also the most that its owner may set from then on, for it and for children that it forks.
#[derive(Parser)]
#[command(
    name = "lrenice",
    version,
    allow_missing_positional = true,
    after_help = "\
Examples:
  lrenice 515 1000      process 515 gets ten times what an ordinary process of its user gets
  lrenice $$ 100        this shell gets the default again
  lrenice 515 0         process 515 stands still until it is given other tickets

Exit status: 0 done; 1 refused (no such process, another's, Tombola not running); 2 wrongly called. When it is not 0,
nothing was changed."
)]
struct Args {
    /// The process's number
    #[arg(value_parser = amounts::pid, required_unless_present = "process", allow_negative_numbers = true)]
    pid: Option<u32>,

    /// Tickets: 1 (least) to 10000 (most), or 0: frozen; a process begins with its parent's number, the first one with 100
    #[arg(value_parser = amounts::tickets_or_freeze, allow_negative_numbers = true)]
    tickets: u32,

    /// The process's number, as other commands have it
    #[arg(short, long = "pid", value_name = "PID", value_parser = amounts::pid, conflicts_with = "pid",
          allow_negative_numbers = true)]
    process: Option<u32>,

    /// As an administrator: the owner may set more again later. Otherwise what is set for somebody else is also the most that its
    /// owner may set from then on
    #[arg(long)]
    owner_may_exceed: bool,
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
    match args.owner_may_exceed {
        true => client.grant_tickets(pid, Grant::unlimited(args.tickets))?,
        false => client.set_tickets(pid, args.tickets)?,
    }
    Ok(ExitCode::SUCCESS)
}
