//! `tombola currency`: makes and changes currencies, and moves processes between them.

use crate::amounts::{self, told};
use crate::arguments::{EXIT_STATUS, Limit};
use crate::currency::{Name, name};
use crate::{names, table, tree};
use clap::Subcommand;
use nix::unistd::Uid;
use serde::Serialize;
use std::process::ExitCode;
use tombola_kernel::abi::{Node, TICKETS_DEFAULT, kind};
use tombola_kernel::calls::Client;
use tombola_kernel::{Error, Result};

#[derive(Subcommand)]
pub enum Currency {
    Make(Make),
    Fund(Fund),
    Move(Move),
    Retire(Retire),
    List(List),
    Enter(Enter),
    Leave(Leave),
}

const NAME_HELP: &str = "The currency's name; another user's currency is USER:NAME";
const EACH_HELP: &str = "Exit status: 0 done; 1 refused; 2 usage error. \
    Each refused process is reported, and the others are moved.";

/// Make a currency
///
/// The new currency has no clients. By its tickets it competes with the other processes and currencies in its parent; its own
/// clients will share the CPU time that it gets. Currencies nest at most 8 deep, and a user has at most 1024.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Make {
    /// 1 to 23 letters, digits, '_', '.' and '-', not beginning with '-'; another user's currency is USER:NAME
    #[arg(value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// Its tickets in its parent, 1 to 10000
    #[arg(long, value_name = "TICKETS", default_value_t = TICKETS_DEFAULT, value_parser = amounts::tickets,
          allow_hyphen_values = true)]
    tickets: u32,

    /// The parent; by default the owner's user currency
    #[arg(long = "in", value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    inside: Option<Name>,
}

/// Set a currency's tickets
///
/// With more tickets it gets more of its parent's CPU time, and the parent's other clients get less; 0 freezes the currency with
/// all its clients. The clients keep their tickets; the value of these changes.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Fund {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// 1 to 10000, or 0 to freeze
    #[arg(value_parser = amounts::tickets_or_freeze, allow_hyphen_values = true)]
    tickets: u32,

    #[command(flatten)]
    limit: Limit,
}

/// Move a currency into another currency, or directly into the user currency
///
/// All its clients move with it. Both currencies must have the same owner.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Move {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// The new parent; by default the owner's user currency
    #[arg(long = "in", value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    inside: Option<Name>,
}

/// Remove a currency; its clients move to its parent
///
/// The clients keep their tickets. Processes of other users move to their own users' currencies.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct Retire {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,
}

/// List your currencies
///
/// IN is the parent, or the reservation, in percent of one CPU; ACTIVE is the number of runnable clients.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct List {
    /// List another user's currencies, by login name or uid (needs CAP_SYS_NICE)
    #[arg(short, long, value_parser = names::uid, allow_hyphen_values = true)]
    user: Option<u32>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Move processes into a currency
///
/// They keep their tickets. Children that they fork from then on are in the currency, too; existing children stay where they are.
#[derive(clap::Args)]
#[command(after_help = EACH_HELP)]
pub struct Enter {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// The processes, by PID
    #[arg(required = true, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Vec<u32>,
}

/// Move processes back into their users' user currencies
#[derive(clap::Args)]
#[command(after_help = EACH_HELP)]
pub struct Leave {
    /// The processes, by PID
    #[arg(required = true, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Vec<u32>,
}

pub fn currency(command: &Currency) -> Result<ExitCode> {
    let client = Client::open()?;
    match command {
        Currency::Make(args) => {
            let inside = find(&client, args.inside.as_ref())?;
            let Name { owner, name } = &args.name;
            client.make_currency(*owner, name, args.tickets, inside.as_ref())?;
        }
        Currency::Fund(args) => {
            let of = args.name.find(&client)?;
            match args.limit.grant(args.tickets) {
                Some(grant) => client.grant_currency(&of, grant)?,
                None => client.fund_currency(&of, args.tickets)?,
            }
        }
        Currency::Move(args) => {
            let inside = find(&client, args.inside.as_ref())?;
            client.move_currency(&args.name.find(&client)?, inside.as_ref())?;
        }
        Currency::Retire(args) => client.retire_currency(&args.name.find(&client)?)?,
        Currency::List(args) => list(&client, args)?,
        Currency::Enter(args) => {
            let to = args.name.find(&client)?;
            return Ok(each(&args.pid, |pid| client.move_process(pid, Some(&to))));
        }
        Currency::Leave(args) => return Ok(each(&args.pid, |pid| client.move_process(pid, None))),
    }
    Ok(ExitCode::SUCCESS)
}

fn find(
    client: &Client,
    name: Option<&Name>,
) -> Result<Option<tombola_kernel::currencies::Currency>> {
    name.map(|name| name.find(client)).transpose()
}

fn each(pids: &[u32], act: impl Fn(u32) -> Result<()>) -> ExitCode {
    let mut status = ExitCode::SUCCESS;
    for pid in pids {
        if let Err(error) = act(*pid) {
            eprintln!("tombola: {error}");
            status = ExitCode::FAILURE;
        }
    }
    status
}

#[derive(Serialize)]
struct Entry {
    name: String,
    uid: u32,
    /// The parent, if it is a currency that a user has made; None for the user currency, a reservation and the frozen root.
    inside: Option<String>,
    /// 0: frozen.
    tickets: u32,
    reserved_percent_of_one_cpu: Option<f64>,
    /// Runnable clients.
    active_clients: u32,
}

fn list(client: &Client, args: &List) -> Result<()> {
    let uid = args.user.unwrap_or_else(|| Uid::effective().as_raw());
    may_see(client, uid)?;
    let machine = client.reserved()?.machine;
    let entries = entries(&client.tree()?, uid, machine);
    if args.json {
        let json = serde_json::to_string_pretty(&entries).expect("a list is plain data");
        println!("{json}");
    } else {
        print!("{}", table::format(&rows(&entries)));
    }
    Ok(())
}

// The kernel's tree lacks currencies that the caller may not see. A call about one currency tells a refusal from an empty list.
fn may_see(client: &Client, uid: u32) -> Result<()> {
    match client.currency(uid, ".") {
        Err(error @ Error::NotYourCurrency { .. }) => Err(error),
        _ => Ok(()),
    }
}

fn entries(nodes: &[Node], uid: u32, machine: u64) -> Vec<Entry> {
    let parent_of = |node: &Node| nodes.iter().find(|parent| parent.index == node.parent);
    let mut entries: Vec<Entry> = nodes
        .iter()
        .filter(|node| node.kind == kind::CURRENCY && node.id == uid)
        .map(|node| {
            let parent = parent_of(node);
            let is_in = |kind| parent.filter(|parent| parent.kind == kind);
            Entry {
                name: tree::currency_name(node),
                uid,
                inside: is_in(kind::CURRENCY).map(tree::currency_name),
                tickets: match is_in(kind::FROZEN) {
                    Some(_) => amounts::FROZEN,
                    None => node.tickets,
                },
                reserved_percent_of_one_cpu: is_in(kind::RESERVATION).map(|reservation| {
                    f64::from(tree::share(reservation.tickets, machine).hundredths()) / 100.0
                }),
                active_clients: node.clients,
            }
        })
        .collect();
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}

fn rows(entries: &[Entry]) -> Vec<Vec<String>> {
    let heading = ["NAME", "IN", "TICKETS", "ACTIVE"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    rows.extend(entries.iter().map(|entry| {
        let inside = match (&entry.inside, entry.reserved_percent_of_one_cpu) {
            (Some(name), _) => name.clone(),
            (None, Some(percent)) => format!("(reserved {percent}%)"),
            (None, None) => "-".into(),
        };
        vec![
            entry.name.clone(),
            inside,
            told(entry.tickets),
            entry.active_clients.to_string(),
        ]
    }));
    rows
}
