//! `tombola reserve` and `tombola release`: reservations of processes and currencies.

use crate::amounts;
use crate::arguments::EXIT_STATUS;
use crate::currency::{Name, name};
use crate::launch::become_command;
use crate::names::{self, Names};
use crate::{sample, table, tree};
use serde::Serialize;
use std::ffi::OsString;
use std::process::ExitCode;
use tombola_kernel::Result;
use tombola_kernel::abi::{Node, kind};
use tombola_kernel::calls::Client;
use tombola_kernel::percent::Percent;

/// Guarantee a process or currency a part of the machine; without arguments, list reservations
///
/// While it is runnable, it gets at least SHARE of one CPU, under any load; others get what it leaves unused. A process shares
/// the reservation with the children that it forks from then on, until the last of them has exited; a currency keeps it until it
/// is retired. Run the command again to change the share. A share larger than what is left is refused: the machine's CPUs, less
/// best effort's floor, less the other reservations. Listing is allowed for all users, reserving needs CAP_SYS_NICE.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tombola reserve                          list the reservations, and what is left
  tombola reserve 30% -- mpv film.mkv      for this command and its children; it runs as the caller, here root
  tombola reserve 150% --currency alice:build
  tombola release --pid 4711

Exit status: 0 done; 1 refused, or Tombola does not run (nothing was changed, and no command was run); 2 usage error.
With a command: the command's own; 126 if it cannot be run, 127 if there is no such command.")]
pub struct Reserve {
    /// Percentage of one CPU, from 1%, with at most two decimals: 30%, 12.5%, 150%
    #[arg(value_parser = amounts::share, allow_hyphen_values = true, requires = "whose")]
    share: Option<Percent>,

    #[command(flatten)]
    whose: Option<Whose>,

    /// Print the list as JSON
    #[arg(long, conflicts_with = "share")]
    json: bool,
}

#[derive(clap::Args)]
#[group(id = "whose", required = false, multiple = false, requires = "share")]
struct Whose {
    /// The process, by PID
    #[arg(short, long, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Option<u32>,

    /// The currency; another user's currency is USER:NAME
    #[arg(short, long, value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    currency: Option<Name>,

    /// The command to run, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// End a reservation (needs CAP_SYS_NICE)
///
/// The process or currency returns to the currency that it came from. Other processes with the same reservation, such as its
/// children, keep it.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
#[group(required = true, multiple = false)]
pub struct Release {
    /// The process, by PID
    #[arg(short, long, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Option<u32>,

    /// The currency; another user's currency is USER:NAME
    #[arg(short, long, value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    currency: Option<Name>,
}

pub fn reserve(args: &Reserve) -> Result<ExitCode> {
    let client = Client::open()?;
    let (Some(share), Some(whose)) = (args.share, &args.whose) else {
        return list(&client, args.json);
    };
    let share = share.hundredths().into();
    match whose {
        Whose { pid: Some(pid), .. } => client.reserve_for_process(*pid, share)?,
        Whose {
            currency: Some(name),
            ..
        } => client.reserve_for_currency(&name.find(&client)?, share)?,
        Whose { command, .. } => {
            client.reserve_for_process(std::process::id(), share)?;
            return Ok(become_command("tombola", command));
        }
    }
    Ok(ExitCode::SUCCESS)
}

pub fn release(args: &Release) -> std::result::Result<ExitCode, String> {
    let text = |error: tombola_kernel::Error| error.to_string();
    let client = Client::open().map_err(text)?;
    let nodes = client.tree().map_err(text)?;
    let (found, target) = match (args.pid, &args.currency) {
        (Some(pid), _) => {
            client.reserve_for_process(pid, 0).map_err(text)?;
            let mut processes = sample::processes(&nodes).into_iter().map(|(node, _)| node);
            let node = processes.find(|node| node.tgid == pid);
            (node, format!("process {pid}"))
        }
        (None, Some(name)) => {
            let currency = name.find(&client).map_err(text)?;
            client.reserve_for_currency(&currency, 0).map_err(text)?;
            let is_it = |node: &&Node| node.number == currency.number();
            (
                nodes.iter().find(is_it).copied(),
                format!("currency {}", name.name),
            )
        }
        (None, None) => unreachable!("the parser asks for one"),
    };
    match found.is_some_and(|node| is_reserved(&nodes, &node)) {
        true => Ok(ExitCode::SUCCESS),
        false => Err(format!(
            "{target} has no reservation\n  \
             cause: it never had one, it was released, or only a currency that contains it has one\n  \
             next:  tombola reserve lists them"
        )),
    }
}

fn is_reserved(nodes: &[Node], node: &Node) -> bool {
    let mut reservations = nodes.iter().filter(|node| node.kind == kind::RESERVATION);
    reservations.any(|reservation| reservation.index == node.parent)
}

/// In percent of one CPU.
#[derive(Serialize)]
struct Holdings {
    machine_percent: f64,
    floor_percent: f64,
    held_percent: f64,
    left_percent: f64,
    reservations: Vec<Holding>,
}

#[derive(Serialize)]
struct Holding {
    share_percent: f64,
    holders: Vec<Holder>,
}

#[derive(Serialize)]
struct Holder {
    name: String,
    user: String,
    /// None: a currency.
    pid: Option<u32>,
}

fn list(client: &Client, json: bool) -> Result<ExitCode> {
    let all = client.reserved()?;
    let holdings = Holdings {
        machine_percent: percent(all.machine),
        floor_percent: percent(all.floor),
        held_percent: percent(all.held),
        left_percent: percent(all.machine.saturating_sub(all.floor + all.held)),
        reservations: holdings(&client.tree()?, all.machine),
    };
    if json {
        let json = serde_json::to_string_pretty(&holdings).expect("a list is plain data");
        println!("{json}");
    } else {
        print!("{}", text(&holdings));
    }
    Ok(ExitCode::SUCCESS)
}

fn percent(hundredths: u64) -> f64 {
    hundredths as f64 / 100.0
}

fn holdings(nodes: &[Node], machine: u64) -> Vec<Holding> {
    let mut names = Names::default();
    let processes = sample::processes(nodes);
    let currencies = nodes.iter().filter(|node| node.kind == kind::CURRENCY);
    let holders: Vec<&Node> = currencies
        .chain(processes.iter().map(|(node, _)| node))
        .collect();
    nodes
        .iter()
        .filter(|node| node.kind == kind::RESERVATION)
        .map(|reservation| Holding {
            share_percent: percent(
                tree::share(reservation.tickets, machine)
                    .hundredths()
                    .into(),
            ),
            holders: holders
                .iter()
                .filter(|node| node.parent == reservation.index)
                .map(|node| holder(node, &mut names))
                .collect(),
        })
        .collect()
}

fn holder(node: &Node, names: &mut Names) -> Holder {
    let user = names.user(node.uid).to_owned();
    match node.kind {
        kind::CURRENCY => Holder {
            name: tree::currency_name(node),
            user,
            pid: None,
        },
        _ => Holder {
            name: names::process(node.tgid),
            user,
            pid: Some(node.tgid),
        },
    }
}

fn text(holdings: &Holdings) -> String {
    let sums = [
        ("machine", holdings.machine_percent),
        ("floor", holdings.floor_percent),
        ("held", holdings.held_percent),
        ("left", holdings.left_percent),
    ];
    let rows: Vec<Vec<String>> = sums
        .iter()
        .map(|(what, percent)| vec![String::from(*what), format!("{percent}%")])
        .collect();
    let mut text = table::format(&rows);
    if !holdings.reservations.is_empty() {
        let mut rows = vec![vec!["RESERVATION OF".into(), "OF ONE CPU".into()]];
        rows.extend(holdings.reservations.iter().map(|holding| {
            vec![
                holders_text(&holding.holders),
                format!("{}%", holding.share_percent),
            ]
        }));
        text = format!("{text}\n{}", table::format(&rows));
    }
    text
}

fn holders_text(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "another user's currency".into();
    }
    let text = |holder: &Holder| match holder.pid {
        Some(pid) => format!("process {pid} ({})", holder.name),
        None => format!("currency {}:{}", holder.user, holder.name),
    };
    let texts: Vec<String> = holders.iter().map(text).collect();
    texts.join(", ")
}
