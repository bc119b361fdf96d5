//! Base tickets that outlast the scheduler: those in the rules, and those set by lsetbase.
//!
//! ```text
//!   user                         at the start                at a reload
//!   named in the rules           as in the rules             as in the rules
//!   not named, set by lsetbase   as set last *               unchanged *
//!   all others                   the rules' default          the rules' default
//! ```
//!
//! * Without a limit, at most the rules' default: the user may have set the number when the default was higher.
//!
//! lsetbase leaves no trace but the number: a user counts as set by lsetbase if the rules do not name it and its number or limit
//! differs from the default. These users are saved for the next start when the daemon looks after a change.

use crate::amounts::{BASE_TICKETS, FROZEN};
use crate::names::ROOT;
use crate::rules::Rules;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tombola_kernel::calls::Grant;

/// The users' grants, by uid.
pub type Base = BTreeMap<u32, Grant>;

/// More users than the scheduler has slots for.
const USERS_MAX: usize = 32_768;

// The number in the rules is also the user's limit, as if an administrator had set it; root and the default have none.
fn named(rules: &Rules) -> impl Iterator<Item = (u32, Grant)> {
    let uids = rules.base.keys();
    uids.filter_map(|uid| Some((*uid, of_rules(rules, *uid)?)))
}

fn of_rules(rules: &Rules, uid: u32) -> Option<Grant> {
    let tickets = *rules.base.get(&uid)?;
    Some(match uid {
        ROOT => Grant::unlimited(tickets),
        _ => Grant::at_most(tickets),
    })
}

fn default(rules: &Rules) -> Grant {
    Grant::unlimited(rules.default)
}

fn is_named(rules: &Rules, uid: u32) -> bool {
    rules.base.contains_key(&uid)
}

/// The users in `now` whose base tickets were set by lsetbase. A user alone cannot have more than the default without a limit: an
/// administrator has set that, and it becomes the limit.
pub fn said(rules: &Rules, now: &Base) -> Base {
    now.iter()
        .filter(|(uid, grant)| !is_named(rules, **uid) && **grant != default(rules))
        .map(|(uid, grant)| match grant.most {
            None if *uid != ROOT && grant.tickets > rules.default => {
                (*uid, Grant::at_most(grant.tickets))
            }
            _ => (*uid, *grant),
        })
        .collect()
}

// What lsetbase set, under these rules.
fn kept(rules: &Rules, uid: u32, grant: Grant) -> Grant {
    match grant.most {
        None if uid != ROOT => Grant::unlimited(grant.tickets.min(rules.default)),
        _ => grant,
    }
}

/// The grants to be set at the start, when the users have those in `now`.
pub fn at_start(rules: &Rules, saved: &Base, now: &Base) -> Base {
    let mut wanted: Base = now.keys().map(|uid| (*uid, default(rules))).collect();
    wanted.extend(
        saved
            .iter()
            .map(|(uid, grant)| (*uid, kept(rules, *uid, *grant))),
    );
    wanted.extend(named(rules));
    changes(wanted, now)
}

/// The grants to be set when `rules` replace the rules `before`.
pub fn at_reload(before: &Rules, rules: &Rules, now: &Base) -> Base {
    let said = said(before, now);
    let mut wanted: Base = now
        .keys()
        .map(|uid| match said.get(uid) {
            Some(grant) => (*uid, kept(rules, *uid, *grant)),
            None => (*uid, default(rules)),
        })
        .collect();
    wanted.extend(named(rules));
    changes(wanted, now)
}

/// The saved grants of users that have not been seen.
pub fn absent(rules: &Rules, mut saved: Base, seen: &BTreeSet<u32>) -> Base {
    saved.retain(|uid, _| !seen.contains(uid) && !is_named(rules, *uid));
    saved
}

/// The grant to be set when a user is first seen; None: it has the default.
pub fn at_first(rules: &Rules, absent: &Base, uid: u32) -> Option<Grant> {
    let saved = || absent.get(&uid).map(|grant| kept(rules, uid, *grant));
    of_rules(rules, uid).or_else(saved)
}

/// Those of the wanted grants that the users do not have.
pub fn changes(wanted: Base, now: &Base) -> Base {
    wanted
        .into_iter()
        .filter(|(uid, grant)| now.get(uid) != Some(grant))
        .collect()
}

/// The file with the saved grants: a line for each user, `UID TICKETS`, or `UID TICKETS LIMIT` if the user has a limit.
pub struct Store {
    path: PathBuf,
    /// The grants in the file; None: unknown.
    last: Option<Base>,
}

impl Store {
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            last: None,
        }
    }

    /// Reads the saved grants. A damaged file is renamed, and the error tells its new name.
    pub fn read(&mut self) -> Result<Base, String> {
        let text = match fs::read(&self.path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(self.cannot("read", &error)),
        };
        match parse(&text) {
            Ok(base) => {
                self.last = Some(base.clone());
                Ok(base)
            }
            Err(fact) => Err(self.put_aside(&fact)),
        }
    }

    /// Writes the file atomically if the grants have changed.
    pub fn save(&mut self, base: &Base) -> Result<(), String> {
        if self.last.as_ref() == Some(base) {
            return Ok(());
        }
        // Noted before the write, so that a failure is reported once for each change, not at each look.
        self.last = Some(base.clone());
        self.write(base)
            .map_err(|error| self.cannot("write", &error))
    }

    fn write(&self, base: &Base) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let new = self.beside("new");
        let mut file = File::create(&new)?;
        file.write_all(text(base).as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        self.path.with_extension(suffix)
    }

    fn put_aside(&self, fact: &str) -> String {
        let aside = self.beside("damaged");
        let _ = fs::rename(&self.path, &aside); // if this fails, the next save overwrites it
        format!(
            "{}: {fact}\n  \
             cause: it was edited, or its disk fails; the base tickets set by lsetbase are lost\n  \
             next:  the file is {} now; set base tickets again with lsetbase, or write them into the rules",
            self.path.display(),
            aside.display()
        )
    }

    fn cannot(&self, action: &str, error: &io::Error) -> String {
        format!(
            "cannot {action} {}: {error}\n  \
             cause: its file system is full, read-only or failing\n  \
             next:  repair it; until then, base tickets set by lsetbase end with the scheduler",
            self.path.display()
        )
    }
}

fn text(base: &Base) -> String {
    let line = |(uid, grant): (&u32, &Grant)| match grant.most {
        Some(most) => format!("{uid} {} {most}\n", grant.tickets),
        None => format!("{uid} {}\n", grant.tickets),
    };
    base.iter().map(line).collect()
}

fn parse(text: &str) -> Result<Base, String> {
    let mut base = Base::new();
    for (number, line) in (1..).zip(text.lines()) {
        let fault = |fact: &str| format!("line {number} {fact}: {line:?}");
        let (uid, grant) = line
            .split_once(' ')
            .ok_or_else(|| fault("is not a uid and a number of tickets"))?;
        let uid = digits(uid)
            .filter(|uid| *uid != u32::MAX)
            .ok_or_else(|| fault("does not begin with a uid"))?;
        let grant = self::grant(uid, grant)
            .ok_or_else(|| fault("does not end with base tickets that a user may have"))?;
        if base.insert(uid, grant).is_some() {
            return Err(fault("names its user a second time"));
        }
        if base.len() > USERS_MAX {
            return Err(format!("there are more than {USERS_MAX} lines"));
        }
    }
    Ok(base)
}

fn grant(uid: u32, text: &str) -> Option<Grant> {
    let amount = |text| {
        digits(text).filter(|some| BASE_TICKETS.contains(some) || (*some == FROZEN && uid != ROOT))
    };
    match text.split_once(' ') {
        Some((tickets, most)) => Some(Grant {
            tickets: amount(tickets)?,
            most: Some(amount(most)?),
        }),
        None => amount(text).map(Grant::unlimited),
    }
}

// Stricter than u32's own parser, which accepts a sign.
fn digits(text: &str) -> Option<u32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Without limits, as users set their own.
    fn base(pairs: &[(u32, u32)]) -> Base {
        let pairs = pairs.iter();
        pairs
            .map(|(uid, tickets)| (*uid, Grant::unlimited(*tickets)))
            .collect()
    }

    // With limits, as an administrator sets them.
    fn limited(mut base: Base, pairs: &[(u32, u32)]) -> Base {
        let pairs = pairs.iter();
        base.extend(pairs.map(|(uid, tickets)| (*uid, Grant::at_most(*tickets))));
        base
    }

    fn rules(default: u32, pairs: &[(u32, u32)]) -> Rules {
        Rules {
            default,
            base: pairs.iter().copied().collect(),
            ..Rules::default()
        }
    }

    #[test]
    fn at_the_start_rules_come_before_saved_grants_and_those_before_the_default() {
        let rules = rules(500, &[(1, 3_000), (2, 0)]);
        let saved = limited(base(&[(1, 700), (3, 300)]), &[(9, 900)]);
        let now = base(&[(0, 1_000), (1, 1_000), (3, 1_000), (4, 1_000), (5, 500)]);
        let wanted = base(&[(0, 500), (3, 300), (4, 500)]);
        let wanted = limited(wanted, &[(1, 3_000), (2, 0), (9, 900)]);
        assert_eq!(at_start(&rules, &saved, &now), wanted);
    }

    #[test]
    fn at_a_reload_named_users_are_reset_and_users_set_by_lsetbase_are_unchanged() {
        let before = rules(1_000, &[(1, 3_000), (2, 2_000), (3, 100)]);
        let after = rules(600, &[(1, 3_000), (6, 400)]);
        // 1 was changed and is named; 2 and 3 are no longer named; 4 was set by lsetbase, 5 was not; 6 is named now.
        let now = base(&[(1, 50), (4, 500), (5, 1_000)]);
        let now = limited(now, &[(2, 2_000), (3, 100)]);
        let wanted = base(&[(2, 600), (3, 600), (5, 600)]);
        let wanted = limited(wanted, &[(1, 3_000), (6, 400)]);
        assert_eq!(at_reload(&before, &after, &now), wanted);
    }

    #[test]
    fn a_number_that_a_user_has_set_falls_with_the_default() {
        let (high, low) = (rules(1_000, &[]), rules(500, &[]));
        let now = base(&[(0, 900), (1, 800), (2, 3_000)]);
        let lowered = limited(base(&[(1, 500)]), &[(2, 3_000)]);
        assert_eq!(at_reload(&high, &low, &now), lowered, "2 was set by root");
        let saved = said(&high, &now);
        let started = at_start(&low, &saved, &Base::new());
        assert_eq!(started, limited(base(&[(0, 900), (1, 500)]), &[(2, 3_000)]));
    }

    #[test]
    fn who_is_first_seen_later_has_what_was_saved_unless_the_rules_say_it() {
        let rules = rules(1_000, &[(1, 3_000)]);
        let saved = limited(base(&[(1, 700), (2, 800)]), &[(3, FROZEN), (4, 50)]);
        let absent = absent(&rules, saved, &BTreeSet::from([4]));
        let seen = |uid| at_first(&rules, &absent, uid);
        assert_eq!(seen(1), Some(Grant::at_most(3_000)));
        assert_eq!(seen(2), Some(Grant::unlimited(800)));
        assert_eq!(seen(3), Some(Grant::at_most(FROZEN)));
        assert_eq!([seen(4), seen(5)], [None, None], "known already; never set");
    }

    #[test]
    fn the_same_rules_change_only_the_users_that_they_name() {
        let rules = rules(1_000, &[(1, 3_000)]);
        let now = base(&[(1, 2_000), (2, 700), (3, 1_000)]);
        let wanted = limited(Base::new(), &[(1, 3_000)]);
        assert_eq!(at_reload(&rules, &rules, &now), wanted);
    }

    #[test]
    fn only_users_that_the_rules_do_not_name_count_as_set_by_lsetbase() {
        let rules = rules(1_000, &[(1, 3_000)]);
        let now = limited(base(&[(1, 2_000), (2, 700), (3, 1_000)]), &[(4, FROZEN)]);
        let wanted = limited(base(&[(2, 700)]), &[(4, FROZEN)]);
        assert_eq!(said(&rules, &now), wanted);
    }

    #[test]
    fn a_written_text_can_be_read() {
        let mut base = limited(base(&[(0, 2_000), (4_294_967_294, 100)]), &[(1000, FROZEN)]);
        let lowered = Grant {
            tickets: 200,
            most: Some(500),
        };
        base.insert(1001, lowered);
        let lines = "0 2000\n1000 0 0\n1001 200 500\n4294967294 100\n";
        assert_eq!(text(&base), lines);
        assert_eq!(parse(&text(&base)), Ok(base));
        assert_eq!(parse(""), Ok(Base::new()));
    }

    #[test]
    fn other_texts_are_damaged() {
        for text in [
            "1000",
            "1000 ",
            " 1000 500",
            "1000  500",
            "1000 500 x",
            "1000 500 99",
            "1000 500 600 700",
            "1000 99",
            "1000 10001",
            "0 0",
            "-1 500",
            "+1 500",
            "4294967295 500",
            "1000 500\n1000 600",
            "1000 500\n\n",
            "\u{fffd}",
        ] {
            assert!(parse(text).unwrap_err().contains("line "), "{text:?}");
        }
    }

    fn scratch(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("tombola-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        folder.join("base-tickets")
    }

    #[test]
    fn saved_grants_are_read_again() {
        let path = scratch("saved");
        let saved = base(&[(1000, 700)]);
        assert_eq!(Store::new(&path).read(), Ok(Base::new()));
        Store::new(&path).save(&saved).unwrap();
        assert_eq!(Store::new(&path).read(), Ok(saved));
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn without_grants_no_file_is_made() {
        let path = scratch("nothing");
        let mut store = Store::new(&path);
        store.read().unwrap();
        store.save(&Base::new()).unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_damaged_file_is_renamed() {
        let path = scratch("damaged");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "1000 7\u{0}0\n").unwrap();
        let mut store = Store::new(&path);
        let error = store.read().unwrap_err();
        assert!(
            error.contains("line 1") && error.contains("base-tickets.damaged"),
            "{error}"
        );
        store.save(&base(&[(1000, 700)])).unwrap();
        assert_eq!(Store::new(&path).read(), Ok(base(&[(1000, 700)])));
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
