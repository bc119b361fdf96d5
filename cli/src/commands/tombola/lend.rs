//! `tombola lend` and `tombola reclaim`: loans of tickets.

use crate::amounts;
use crate::arguments::EXIT_STATUS;
use crate::duration;
use std::process::ExitCode;
use std::time::Duration;
use tombola_kernel::Result;
use tombola_kernel::calls::Client;
use tombola_kernel::loans::Waits;

/// Lend tickets of a process to another one
///
/// The lender has so many tickets fewer, and the borrower gets what they are worth in the lender's currency. The loan ends when
/// it is reclaimed, when its time is over, when one of the two exits, and when the lender is given other tickets, is frozen,
/// moved, or changes its user. With `all`, the lender goes on as before, and lends all that it has whenever it waits, for
/// whatever it waits. You must own both, or have CAP_SYS_NICE.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tombola lend 30 --from 4711 --to 4712
  tombola lend 30 --from 4711 --to 4712 --for 10s
  tombola lend all --from 4711 --to 4712

Exit status: 0 done; 1 refused, or Tombola does not run (nothing was changed); 2 usage error.")]
pub struct Lend {
    /// How many, from 1 up, fewer than the lender has; or `all`
    #[arg(value_parser = amount, allow_hyphen_values = true)]
    tickets: Amount,

    /// The lender, by PID; with `all`, one of its threads, by TID
    #[arg(long, value_name = "PID", value_parser = amounts::pid, allow_hyphen_values = true)]
    from: u32,

    /// The borrower, by PID; of several threads the first one, or any by its TID
    #[arg(long, value_name = "PID", value_parser = amounts::pid, allow_hyphen_values = true)]
    to: u32,

    /// How long, with a unit: 500ms, 10s
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
    time: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    All,
    Tickets(u32),
}

fn amount(text: &str) -> std::result::Result<Amount, String> {
    match text {
        "all" => Ok(Amount::All),
        number => amounts::tickets(number).map(Amount::Tickets),
    }
}

/// End loans of tickets
///
/// The owner of the borrower may do this, too, and so refuse a loan: with --to.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Reclaim {
    /// The lender, by PID
    #[arg(long, value_name = "PID", value_parser = amounts::pid, allow_hyphen_values = true)]
    from: u32,

    /// The borrower, by PID or TID; without this, all borrowers
    #[arg(long, value_name = "PID", value_parser = amounts::pid, allow_hyphen_values = true)]
    to: Option<u32>,
}

pub fn lend(args: &Lend) -> std::result::Result<ExitCode, String> {
    let text = |error: tombola_kernel::Error| error.to_string();
    let client = Client::open().map_err(text)?;
    match (args.tickets, args.time) {
        (Amount::All, Some(_)) => {
            return Err("a loan of all tickets has no time\n  \
                 cause: it lasts while the lender waits, each time\n  \
                 next:  leave --for out, or lend a number of tickets"
                .into());
        }
        (Amount::All, None) => client.lend_while_waiting(args.from, args.to, Waits::All),
        (Amount::Tickets(tickets), time) => client.lend(args.from, args.to, tickets, time),
    }
    .map_err(text)?;
    Ok(ExitCode::SUCCESS)
}

pub fn reclaim(args: &Reclaim) -> Result<ExitCode> {
    Client::open()?.reclaim(args.from, args.to)?;
    Ok(ExitCode::SUCCESS)
}
