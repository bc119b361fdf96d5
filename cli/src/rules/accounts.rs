//! Looks up users and groups.

use nix::unistd::{Gid, Group, User};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// The lookups that rules need; tests have their own accounts.
pub trait Accounts {
    fn uid(&self, name: &str) -> Option<u32>;
    fn gid(&self, name: &str) -> Option<u32>;
    /// The uids of all members of the group, as their primary group or another.
    fn members(&self, gid: u32) -> BTreeSet<u32>;
}

/// The machine's accounts: /etc/passwd, /etc/group, and what /etc/nsswitch.conf adds to them.
pub struct System;

impl Accounts for System {
    fn uid(&self, name: &str) -> Option<u32> {
        let user = User::from_name(name).ok()??;
        Some(user.uid.as_raw())
    }

    fn gid(&self, name: &str) -> Option<u32> {
        let group = Group::from_name(name).ok()??;
        Some(group.gid.as_raw())
    }

    // A name without an account is left over from a removed account and is ignored.
    fn members(&self, gid: u32) -> BTreeSet<u32> {
        let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
        let names = group.map(|group| group.mem).unwrap_or_default();
        let mut members = primary_members(gid);
        members.extend(names.iter().filter_map(|name| self.uid(name)));
        members
    }
}

// Group databases do not list primary members, so this visits all accounts.
fn primary_members(gid: u32) -> BTreeSet<u32> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut members = BTreeSet::new();
    // SAFETY: the C library has one position in the list of accounts, and one entry that it returns. Nothing else in this program
    // walks the list, and the lock excludes a second walk at the same time. No pointer outlives the next call.
    unsafe {
        libc::setpwent();
        while let Some(entry) = libc::getpwent().as_ref() {
            if entry.pw_gid == gid {
                members.insert(entry.pw_uid);
            }
        }
        libc::endpwent();
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_roots_group() {
        assert_eq!(System.uid("root"), Some(0));
        assert_eq!(System.gid("root"), Some(0));
        assert!(System.members(0).contains(&0));
    }

    #[test]
    fn unknown_names_are_not_found() {
        assert_eq!(System.uid("no-such-user"), None);
        assert_eq!(System.gid("no-such-group"), None);
        assert!(System.members(u32::MAX - 1).is_empty());
    }
}
