//! `tombola config`: checks the rules.

use crate::amounts::told;
use crate::names::Names;
use crate::rules::{self, DEFAULT_FILE, Explained, Group, Reserve, Rules, User, What};
use crate::{table, warn};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check a rules file and print its meaning
///
/// If the file has errors, it prints all of them, each with its line and column. It does not contact a running scheduler, and
/// changes nothing.
#[derive(clap::Args)]
#[command(after_help = concat!(
    "A file with all parts:\n\n",
    include_str!("../../rules/example.toml"),
    "\nExit status: 0 no errors, or /etc/tombola.toml does not exist; 1 errors, or FILE does not exist; \
     2 usage error."
))]
pub struct Check {
    /// The rules file; by default /etc/tombola.toml
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

pub fn check(args: &Check) -> Result<ExitCode, String> {
    let file = args.file.as_deref().unwrap_or(Path::new(DEFAULT_FILE));
    match rules::explain(file) {
        Ok(explained) => {
            print!("{} is right\n\n{}", file.display(), text(&explained));
            for risk in explained.rules.risks() {
                warn(&risk);
            }
        }
        Err(faults) if faults.is_absent() && args.file.is_none() => print!(
            "there are no rules, and the defaults hold: {DEFAULT_FILE} does not exist\n\n{}",
            text(&Explained::default())
        ),
        Err(faults) => {
            // Without our name before them: editors look for FILE:LINE:COLUMN: at the beginning of a line.
            eprintln!("{faults}");
            return Err(faults.summary());
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn text(explained: &Explained) -> String {
    let tables = [
        general(&explained.rules),
        users(&explained.users),
        groups(&explained.groups),
        reservations(&explained.rules.reserve),
        servers(&explained.rules.servers),
    ];
    // A table without rows is not shown.
    let tables = tables.iter().filter(|rows| rows.len() > 1);
    let tables: Vec<String> = tables.map(|rows| table::format(rows)).collect();
    tables.join("\n")
}

type Rows = Vec<Vec<String>>;

fn general(rules: &Rules) -> Rows {
    vec![
        row(["floor", &rules.floor.to_string()]),
        row(["root", &rules.root.to_string()]),
        row(["default", &rules.default.to_string()]),
    ]
}

fn users(users: &[User]) -> Rows {
    let mut names = Names::default();
    let mut rows = vec![row(["USER", "UID", "TICKETS"])];
    rows.extend(users.iter().map(|user| {
        let uid = user.uid.to_string();
        row([names.user(user.uid), &uid, &told(user.base_tickets)])
    }));
    rows
}

fn groups(groups: &[Group]) -> Rows {
    let mut rows = vec![row(["GROUP", "MEMBERS", "TICKETS"])];
    rows.extend(groups.iter().map(|group| {
        let members = group.members.len().to_string();
        row([&group.name, &members, &told(group.base_tickets)])
    }));
    rows
}

fn reservations(reserve: &[Reserve]) -> Rows {
    let mut rows = vec![row(["RESERVATION", "OF ONE CPU"])];
    rows.extend(
        reserve
            .iter()
            .map(|reserve| row([&reserve.what.to_string(), &reserve.share.to_string()])),
    );
    if let Some(sum) = reserve
        .iter()
        .map(|reserve| reserve.share)
        .reduce(|a, b| a + b)
    {
        rows.push(row(["sum", &sum.to_string()]));
    }
    rows
}

fn servers(servers: &[What]) -> Rows {
    let mut rows = vec![row(["SERVER"])];
    rows.extend(servers.iter().map(|what| row([&what.to_string()])));
    rows
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}
