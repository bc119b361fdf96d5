//! Parses a whole file: the lines at its top, and its sections.

use super::accounts::Accounts;
use super::model::{FLOOR, ROOT, Rules};
use super::reader::Reader;
use super::reserve::{reserve, servers};
use super::users_groups::{self, Group, User};
use super::values::{Key, TOP, Value};
use super::values::{default_tickets, entries, name, percent, section, unknown_key};
use crate::faults::{Fault, Faults};
use toml::de::DeTable;

/// The command that shows a file with all parts, for messages.
pub(super) const EXAMPLE_COMMAND: &str = "tombola config check --help";

/// Rules, and the names that they were made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explained {
    pub rules: Rules,
    pub users: Vec<User>,
    pub groups: Vec<Group>,
}

/// `file`: the name of the text in messages.
pub fn parse(file: &str, text: &str, accounts: &dyn Accounts) -> Result<Explained, Faults> {
    let table = DeTable::parse(text).map_err(|error| {
        Faults::new(
            file,
            text,
            vec![Fault::not_toml(text, &error, EXAMPLE_COMMAND)],
        )
    })?;
    let mut reader = Reader {
        text,
        accounts,
        faults: Vec::new(),
    };
    let explained = reader.explain(table.get_ref());
    match reader.faults.is_empty() {
        true => Ok(explained),
        false => Err(Faults::new(file, text, reader.faults)),
    }
}

impl Reader<'_> {
    fn explain(&mut self, table: &DeTable) -> Explained {
        let mut rules = Rules::default();
        for (key, value) in entries(table) {
            self.top(key, value, &mut rules);
        }
        let users = self.table(table, "users");
        let users = users.map_or_else(Vec::new, |table| users_groups::users(self, table));
        let groups = self.table(table, "groups");
        let groups =
            groups.map_or_else(Vec::new, |table| users_groups::groups(self, table, &users));
        rules.base = users_groups::base(&users, &groups);
        Explained {
            rules,
            users,
            groups,
        }
    }

    fn top(&mut self, key: &Key, value: &Value, rules: &mut Rules) {
        match name(key) {
            "floor" => self.set(&mut rules.floor, percent("floor", value, FLOOR)),
            "root" => self.set(&mut rules.root, percent("root", value, ROOT)),
            "default" => self.set(&mut rules.default, default_tickets("default", value)),
            "reserve" => rules.reserve = reserve(self, value),
            "servers" => rules.servers = servers(self, value),
            "users" | "groups" => (), // read later, in this order: groups need the users
            _ => {
                let place = "at the top of the file";
                self.faults.push(unknown_key(key, place, &TOP));
            }
        }
    }

    fn table<'t, 'i>(&mut self, table: &'t DeTable<'i>, name: &str) -> Option<&'t DeTable<'i>> {
        self.keep(section(name, table.get(name)?))
    }
}
