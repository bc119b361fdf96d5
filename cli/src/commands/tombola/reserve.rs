//! `tombola reserve` and `tombola release`: a part of the machine that is somebody's, whoever else wants to run.

use crate::amounts;
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

/// Guarantee somebody a part of the machine; without arguments, what is reserved. As root
///
/// Guarantees a process, a currency or a command at least so much CPU time, as long as it wants to run. What it leaves is for the
/// others. A process has it with all that it forks from then on, until the last of them has ended; a currency until it is
/// retired. It is refused if it is more than is left: what reservations hold together and best effort's floor are no more than
/// the machine. Without arguments: what is reserved.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tombola reserve                          what is reserved, and what is left
  tombola reserve 30% -- mpv film.mkv      as root: for this command and all that it starts
  tombola reserve 150% --currency alice:build
  tombola release --pid 4711

Exit status: the command's own, 126 and 127 as lnice has them; 0 done; 1 refused, and nothing was changed; 2 wrongly called.")]
pub struct Reserve {
    /// Of one CPU: 30%, 12.5%, 150%
    #[arg(value_parser = amounts::share, allow_hyphen_values = true, requires = "whose")]
    share: Option<Percent>,

    #[command(flatten)]
    whose: Option<Whose>,

    /// List as JSON
    #[arg(long, conflicts_with = "share")]
    json: bool,
}

#[derive(clap::Args)]
#[group(id = "whose", required = false, multiple = false, requires = "share")]
struct Whose {
    /// A process, by number
    #[arg(short, long, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Option<u32>,

    /// A currency; another user's is USER:NAME
    #[arg(short, long, value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    currency: Option<Name>,

    /// A command and its arguments, to be run
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// End a reservation. As root
///
/// Ends the reservation of a process or a currency. The process goes back to the money that it came from; others that have the
/// same reservation, its children for example, keep it.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub struct Release {
    /// A process, by number
    #[arg(short, long, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Option<u32>,

    /// A currency; another user's is USER:NAME
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
    let (found, who) = match (args.pid, &args.currency) {
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
            "{who} has no reservation\n  \
             cause: it never had one, it was released, or only a currency around it has one\n  \
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
                whose(&holding.holders),
                format!("{}%", holding.share_percent),
            ]
        }));
        text = format!("{text}\n{}", table::format(&rows));
    }
    text
}

fn whose(holders: &[Holder]) -> String {
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
