//! The rules that outlast the scheduler: /etc/tombola.toml.
//!
//! A file takes effect as a whole or not at all: if it has errors, all of them are reported with their positions, and none of its
//! rules holds. So the TOML values are checked one by one, each with its position in the text; a derived parser would stop at the
//! first error.

mod accounts;
mod file;
mod model;
mod parse;
mod reader;
mod reserve;
mod users_groups;
mod values;

pub use crate::faults::Faults;
pub use accounts::{Accounts, System};
pub use file::{DEFAULT_FILE, RulesFile, explain, read, read_or_defaults};
pub use model::{Reserve, Rules, What};
pub use parse::{Explained, parse};
pub use users_groups::{Group, User};

/// A file with all parts; `tombola config check --help` shows it.
pub const EXAMPLE: &str = include_str!("example.toml");
