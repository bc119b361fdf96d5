//! The state that the parsers of all sections share.

use super::accounts::Accounts;
use crate::faults::Fault;

pub(super) struct Reader<'a> {
    pub text: &'a str,
    pub accounts: &'a dyn Accounts,
    pub faults: Vec<Fault>,
}

impl Reader<'_> {
    /// Records a fault, so that reading can continue.
    pub fn keep<T>(&mut self, found: Result<T, Fault>) -> Option<T> {
        found.map_err(|fault| self.faults.push(fault)).ok()
    }

    pub fn set<T>(&mut self, place: &mut T, found: Result<T, Fault>) {
        if let Some(found) = self.keep(found) {
            *place = found;
        }
    }
}
