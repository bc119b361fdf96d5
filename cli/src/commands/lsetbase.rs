//! `lsetbase`: change a user's base tickets.

use crate::{amounts, names, run};
use clap::{Command, CommandFactory, Parser};
use std::process::ExitCode;
use tombola_kernel::Result;
use tombola_kernel::calls::{Client, Grant};

/// Change the base tickets of a user.
///
/// Base tickets decide how the machine is shared among the users who want to run: 2000 get twice what 1000 get, however many
/// processes each runs. The change holds at once, for all processes of the user, until it is changed again. With 0 all that is
/// the user's is frozen, except what has a reservation. Anyone may lower one's own and raise them again to the default (1000 if
/// the rules don't say otherwise), or to what an administrator has set; everything else needs CAP_SYS_NICE.
#[derive(Parser)]
#[command(
    name = "lsetbase",
    version,
    after_help = "\
Examples:
  lsetbase -u paul 500      paul gets half of what a user with the default gets, and cannot set more (as root)
  lsetbase -u 1001 2000     the user by number; above the default, so as root
  lsetbase -u paul 0        nothing of paul's runs until he is given base tickets again

Exit status: 0 done; 1 refused (not permitted, Tombola not running); 2 wrongly called, also for an unknown user. When it is
not 0, nothing was changed."
)]
struct Args {
    /// Login name or uid
    #[arg(short, long, value_parser = names::uid, allow_hyphen_values = true)]
    user: u32,

    /// Base tickets: 100 (least) to 10000 (most), or 0: frozen; a user begins with 1000
    #[arg(value_parser = amounts::base_tickets_or_freeze, allow_hyphen_values = true)]
    tickets: u32,

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
    run("lsetbase", || lsetbase(&args))
}

fn lsetbase(args: &Args) -> Result<ExitCode> {
    let client = Client::open()?;
    match args.owner_may_exceed {
        true => client.grant_base_tickets(args.user, Grant::unlimited(args.tickets))?,
        false => client.set_base_tickets(args.user, args.tickets)?,
    }
    Ok(ExitCode::SUCCESS)
}
