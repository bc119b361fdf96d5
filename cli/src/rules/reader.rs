//! What all parts of the reading share.

use super::accounts::Accounts;
use super::faults::Fault;

pub(super) struct Reader<'a> {
    pub text: &'a str,
    pub accounts: &'a dyn Accounts,
    pub faults: Vec<Fault>,
}

impl Reader<'_> {
    /// A fault is noted, and the reading goes on.
    pub fn keep<T>(&mut self, found: Result<T, Fault>) -> Option<T> {
        found.map_err(|fault| self.faults.push(fault)).ok()
    }

    pub fn set<T>(&mut self, place: &mut T, found: Result<T, Fault>) {
        if let Some(found) = self.keep(found) {
            *place = found;
        }
    }
}
