//! `tombola run`: runs a command in a currency, with a number of tickets.

use crate::arguments::Launch;
use crate::currency::{Name, name};
use crate::launch::with_tickets;
use std::process::ExitCode;
use tombola_kernel::Result;
use tombola_kernel::calls::Client;

/// Run a command in a currency, with a number of tickets
///
/// Enters the currency, sets its own tickets, and executes the command in the same process. Children of the command are in the
/// same currency and begin with the same tickets.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: the command's own; 1 if the scheduler refused or does not run (the command was not run), 2 after a
usage error, 126 if the command cannot be run, 127 if there is no such command.")]
pub struct Run {
    /// The currency; by default the shell's. Another user's currency is USER:NAME
    #[arg(short, long, value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    currency: Option<Name>,

    #[command(flatten)]
    launch: Launch,
}

pub fn run(args: &Run) -> Result<ExitCode> {
    let client = Client::open()?;
    if let Some(name) = &args.currency {
        client.move_process(std::process::id(), Some(&name.find(&client)?))?;
    }
    with_tickets("tombola", &client, &args.launch)
}
