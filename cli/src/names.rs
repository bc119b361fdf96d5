//! Names of users and processes.

use nix::unistd::User;
use std::collections::HashMap;
use tombola_kernel::login_name;

pub const ROOT: u32 = 0;

/// For the argument parser: a login name or a uid.
pub fn uid(text: &str) -> Result<u32, String> {
    if let Ok(Some(user)) = User::from_name(text) {
        return Ok(user.uid.as_raw());
    }
    // The kernel's last uid means "none".
    text.parse()
        .ok()
        .filter(|uid| *uid != u32::MAX)
        .ok_or_else(|| {
            "no user has this name; getent passwd lists the names, and a uid is accepted, too; \
             nothing was changed"
                .into()
        })
}

/// A cache of login names, since a lookup may ask a directory server.
#[derive(Default)]
pub struct Names {
    users: HashMap<u32, String>,
}

impl Names {
    pub fn user(&mut self, uid: u32) -> &str {
        self.users
            .entry(uid)
            .or_insert_with(|| login_name(uid).unwrap_or_else(|| uid.to_string()))
    }
}

/// The kernel's name of a process, printable; empty if the process has exited.
pub fn process(pid: u32) -> String {
    tombola_kernel::process_name(pid).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_a_name_or_a_number() {
        assert_eq!(uid("root"), Ok(0));
        assert_eq!(uid("12345"), Ok(12345));
    }

    #[test]
    fn unknown_users_are_refused() {
        for text in ["no-such-user", "", "-1", "4294967295"] {
            assert!(uid(text).is_err(), "{text}");
        }
    }
}
