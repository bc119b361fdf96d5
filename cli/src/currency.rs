//! Names of currencies, as users type them.

use crate::names;
use nix::unistd::Uid;
use tombola_kernel::Result;
use tombola_kernel::abi::NAME;
use tombola_kernel::calls::Client;
use tombola_kernel::currencies::Currency;

/// `NAME`, a currency of the caller's, or `USER:NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    pub owner: u32,
    pub name: String,
}

impl Name {
    pub fn find(&self, client: &Client) -> Result<Currency> {
        client.currency(self.owner, &self.name)
    }
}

/// For the argument parser.
pub fn name(text: &str) -> std::result::Result<Name, String> {
    let (owner, name) = match text.split_once(':') {
        Some((user, name)) => (names::uid(user)?, name),
        None => (Uid::effective().as_raw(), text),
    };
    match is_name(name) {
        true => Ok(Name {
            owner,
            name: name.to_owned(),
        }),
        false => Err(format!(
            "a currency's name has 1 to {} letters, digits, '_', '.' and '-', and does not begin with '-'; \
             another user's currency is USER:NAME; nothing was changed",
            NAME - 1
        )),
    }
}

/// May a name contain this character? The kernel checks names, too (bpf/calls.h).
pub fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_.-".contains(c)
}

fn is_name(name: &str) -> bool {
    (1..NAME).contains(&name.len()) && !name.starts_with('-') && name.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_the_callers() {
        for text in [
            "build",
            "a",
            "_.-",
            "0",
            ".hidden",
            "exactly-23-characters_x",
        ] {
            let owner = Uid::effective().as_raw();
            let name = name(text).unwrap();
            assert_eq!((name.owner, name.name.as_str()), (owner, text));
        }
    }

    #[test]
    fn a_users_name_stands_before_a_colon() {
        let of_root = Name {
            owner: 0,
            name: "build".into(),
        };
        assert_eq!(name("root:build"), Ok(of_root.clone()));
        assert_eq!(name("0:build"), Ok(of_root));
        assert!(
            name("no-such-user:build")
                .unwrap_err()
                .contains("no user has this name")
        );
    }

    #[test]
    fn other_names_are_refused() {
        for text in [
            "",
            "-a",
            "a b",
            "a/b",
            "a\n",
            "ä",
            "root:",
            "root:a:b",
            "exactly-24-characters_xy",
        ] {
            assert!(
                name(text).unwrap_err().contains("1 to 23 letters"),
                "{text}"
            );
        }
    }
}
