//! Users and processes by their names.

use nix::unistd::User;
use std::collections::HashMap;
use tombola_kernel::login_name;

pub const ROOT: u32 = 0;

/// For the argument parser: a login name or a uid.
pub fn uid(text: &str) -> Result<u32, String> {
    if let Ok(Some(user)) = User::from_name(text) {
        return Ok(user.uid.as_raw());
    }
    // The last uid is the kernel's word for "none".
    text.parse()
        .ok()
        .filter(|uid| *uid != u32::MAX)
        .ok_or_else(|| {
            "no user has this name; getent passwd lists them, and a uid will do as well; \
             nothing was changed"
                .into()
        })
}

/// Names that were looked up, as a lookup may ask a server.
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

/// What the kernel calls a process, printable; empty if it has gone.
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
    fn nobody_is_called_that() {
        for text in ["no-such-user", "", "-1", "4294967295"] {
            assert!(uid(text).is_err(), "{text}");
        }
    }
}
