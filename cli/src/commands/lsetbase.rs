//! `lsetbase`: changes a user's base tickets.

use crate::arguments::Limit;
use crate::{amounts, names, run};
use clap::{Command, CommandFactory, Parser};
use std::process::ExitCode;
use tombola_kernel::Result;
use tombola_kernel::calls::Client;

/// Change the base tickets of a user.
///
/// Base tickets decide how the machine is shared among the users with runnable processes: 2000 get twice as much as 1000, however
/// many processes each user runs. The change takes effect at once for all processes of the user and holds until the next change.
/// 0 freezes everything in the user's currency; processes and currencies with a reservation continue to run. You may lower your
/// own base tickets and raise them again up to the default (1000 unless /etc/tombola.toml sets another), or up to an
/// administrator's limit if there is one. Everything else needs CAP_SYS_NICE.
#[derive(Parser)]
#[command(
    name = "lsetbase",
    version,
    after_help = "\
Examples:
  lsetbase -u paul 500      paul gets half as much as a user with the default; if root sets it, paul cannot set more
  lsetbase -u 1001 2000     the user with uid 1001; above the default, so as root
  lsetbase -u paul 0        paul's processes are frozen until paul's base tickets are set again (as root)

Exit status: 0 done; 1 refused (not permitted, Tombola not running); 2 usage error, also for an unknown user. If it is not 0,
nothing was changed."
)]
struct Args {
    /// Login name or uid
    #[arg(short, long, value_parser = names::uid, allow_hyphen_values = true)]
    user: u32,

    /// 100 to 10000, or 0 to freeze; initially the default
    #[arg(value_parser = amounts::base_tickets_or_freeze, allow_hyphen_values = true)]
    tickets: u32,

    #[command(flatten)]
    limit: Limit,
}

pub fn command() -> Command {
    Args::command()
}

pub fn main() -> ExitCode {
    let args = Args::parse();
    run("lsetbase", || lsetbase(&args))
}

fn lsetbase(args: &Args) -> Result<ExitCode> {
    let client = Client::open()?;
    match args.limit.grant(args.tickets) {
        Some(grant) => client.grant_base_tickets(args.user, grant)?,
        None => client.set_base_tickets(args.user, args.tickets)?,
    }
    Ok(ExitCode::SUCCESS)
}
