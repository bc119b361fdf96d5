//! `tombola currency`: money of one's own.

use crate::amounts::{self, told};
use crate::currency::{Name, name};
use crate::{names, table, tree};
use clap::Subcommand;
use nix::unistd::Uid;
use serde::Serialize;
use std::process::ExitCode;
use tombola_kernel::abi::{Node, TICKETS_DEFAULT, kind};
use tombola_kernel::calls::{Client, Grant};
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

const NAME_HELP: &str = "Its name; another user's is USER:NAME";

/// Make a currency, at first with nothing in it
///
/// It competes with its owner's other currencies and processes by its tickets; what is in it shares what it gets. At most 8 are
/// inside one another, and at most 1024 are one user's.
#[derive(clap::Args)]
pub struct Make {
    /// 1 to 23 letters, digits, '_', '.' and '-', not first; another user's is USER:NAME
    #[arg(value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// What it has in the one around it: 1 (least) to 10000 (most)
    #[arg(long, value_name = "TICKETS", default_value_t = TICKETS_DEFAULT, value_parser = amounts::tickets,
          allow_hyphen_values = true)]
    tickets: u32,

    /// The currency around it; if not said, directly in the owner's money
    #[arg(long = "in", value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    inside: Option<Name>,
}

/// Give a currency other tickets: more is inflation around it, fewer deflation, 0 freezes it
///
/// All that is in it keeps its tickets, and is worth more or less.
#[derive(clap::Args)]
pub struct Fund {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// 1 (least) to 10000 (most), or 0: all that is in it is frozen
    #[arg(value_parser = amounts::tickets_or_freeze, allow_hyphen_values = true)]
    tickets: u32,

    /// As an administrator: the owner may set more again later. Otherwise what is set for somebody else's is also the most that
    /// its owner may set from then on
    #[arg(long)]
    owner_may_exceed: bool,
}

/// Move a currency into another one, or directly into the owner's money
///
/// With all that is in it. Both have the same owner.
#[derive(clap::Args)]
pub struct Move {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// The currency that is to be around it; if not said, directly in the owner's money
    #[arg(long = "in", value_name = "NAME", value_parser = name, allow_hyphen_values = true)]
    inside: Option<Name>,
}

/// End a currency; what is in it falls back to the one around it
#[derive(clap::Args)]
pub struct Retire {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,
}

/// List your currencies
///
/// With their tickets, and what is reserved for them.
#[derive(clap::Args)]
pub struct List {
    /// Another user's, by login name or uid. As root
    #[arg(short, long, value_parser = names::uid, allow_hyphen_values = true)]
    user: Option<u32>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Put processes into a currency, with the tickets that they have
///
/// The processes that they fork afterwards are in the currency, too; those that they have already stay where they are.
#[derive(clap::Args)]
pub struct Enter {
    #[arg(help = NAME_HELP, value_parser = name, allow_hyphen_values = true)]
    name: Name,

    /// Processes, by number. Each for itself: who is refused is said, the others enter
    #[arg(required = true, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Vec<u32>,
}

/// Put processes back into their users' own money
#[derive(clap::Args)]
pub struct Leave {
    /// Processes, by number. Each for itself: who is refused is said, the others leave
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
            match args.owner_may_exceed {
                true => client.grant_currency(&of, Grant::unlimited(args.tickets))?,
                false => client.fund_currency(&of, args.tickets)?,
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
    /// The currency around it; None: the owner's own money, or it is away: reserved or frozen.
    inside: Option<String>,
    /// 0: frozen.
    tickets: u32,
    reserved_percent_of_one_cpu: Option<f64>,
    /// Clients that want to run.
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

// The kernel leaves out what one may not see. So that an empty list means that there is none, it is asked for a single one.
fn may_see(client: &Client, uid: u32) -> Result<()> {
    match client.currency(uid, ".") {
        Err(error @ Error::NotYourMoney { .. }) => Err(error),
        _ => Ok(()),
    }
}

fn entries(nodes: &[Node], uid: u32, machine: u64) -> Vec<Entry> {
    let around = |node: &Node| nodes.iter().find(|around| around.index == node.parent);
    let mut entries: Vec<Entry> = nodes
        .iter()
        .filter(|node| node.kind == kind::CURRENCY && node.id == uid)
        .map(|node| {
            let around = around(node);
            let is_in = |kind| around.filter(|around| around.kind == kind);
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
