//! `tombola run`: a command in a currency, with tickets there.

use crate::amounts;
use crate::currency::{Name, name};
use crate::launch::with_tickets;
use std::ffi::OsString;
use std::process::ExitCode;
use tombola_kernel::Result;
use tombola_kernel::abi::TICKETS_DEFAULT;
use tombola_kernel::calls::Client;

/// Run a command in a currency, with a number of tickets
///
/// Takes the tickets for itself, enters the currency, and becomes the command. What the command starts is in the same currency,
/// with as many tickets. The exit status is the command's; 1 if the scheduler refused, and then the command was not run; 126 if
/// it cannot be run, 127 if there is none of that name.
#[derive(clap::Args)]
pub struct Run {
    /// The currency; without it, where this shell is
    #[arg(short, long, value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    currency: Option<Name>,

    /// What it has in that currency: 1 (least) to 10000 (most)
    #[arg(short, long, value_name = "TICKETS", default_value_t = TICKETS_DEFAULT, value_parser = amounts::tickets,
          allow_hyphen_values = true)]
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

pub fn run(args: &Run) -> Result<ExitCode> {
    let client = Client::open()?;
    if let Some(name) = &args.currency {
        client.move_process(std::process::id(), Some(&name.find(&client)?))?;
    }
    with_tickets("tombola", &client, args.tickets, &args.command)
}
