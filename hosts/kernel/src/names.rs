//! Names of users and processes, and the owner of a process.

use nix::unistd::{Uid, User};
use std::fs;

/// A user's login name, if there is one.
pub fn login_name(uid: u32) -> Option<String> {
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    Some(user.name)
}

/// A user's login name, or the number if there is none.
pub fn user_name(uid: u32) -> String {
    login_name(uid).unwrap_or_else(|| format!("uid {uid}"))
}

/// The kernel's name of a process, at most 15 bytes; none if there is no such process. A process may choose a name that a
/// terminal takes for a command, so characters that are not printable are escaped.
pub fn process_name(pid: u32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    let name = String::from_utf8_lossy(&name);
    Some(printable(name.strip_suffix('\n').unwrap_or(&name)))
}

/// The text with characters that are not printable escaped.
pub fn printable(text: &str) -> String {
    let mut printable = String::new();
    for c in text.chars() {
        match c {
            '\'' | '"' => printable.push(c),
            _ => printable.extend(c.escape_debug()),
        }
    }
    printable
}

pub(crate) fn process_owner(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    uids.split_whitespace().next()?.parse().ok()
}
