//! The rules that outlast the scheduler: /etc/tombola.toml.
//!
//! A file says what it says or nothing: if anything in it is wrong, everything that is wrong is reported with its place, and
//! no rule of it holds. So TOML's values are looked at one by one, each with its place in the text; a derived parser would stop
//! at the first that it does not like.

mod accounts;
mod faults;
mod file;
mod model;
mod parse;
mod reader;
mod reserve;
mod users_groups;
mod values;

pub use accounts::{Accounts, System};
pub use faults::Faults;
pub use file::{DEFAULT_FILE, RulesFile, explain, read, read_or_defaults};
pub use model::{Reserve, Rules, What};
pub use parse::{Explained, parse};
pub use users_groups::{Group, User};

/// A file with all that there is; `tombola config check --help` shows it.
pub const EXAMPLE: &str = include_str!("example.toml");
