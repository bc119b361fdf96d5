//! Rules files, good and bad, with test accounts: alice (1000), bob (1001), carol (1002), and one named 1005 with the uid 2000.

use std::collections::BTreeSet;
use tombola_cli::rules::{Accounts, EXAMPLE, Explained, Faults, Reserve, Rules, What, parse};
use tombola_kernel::percent::Percent;

struct TestAccounts;

impl Accounts for TestAccounts {
    fn uid(&self, name: &str) -> Option<u32> {
        match name {
            "root" => Some(0),
            "alice" => Some(1000),
            "bob" => Some(1001),
            "carol" => Some(1002),
            "john.doe" => Some(1003),
            "1005" => Some(2000),
            _ => None,
        }
    }

    fn gid(&self, name: &str) -> Option<u32> {
        match name {
            "staff" => Some(50),
            "students" => Some(60),
            "wheel" => Some(10),
            _ => None,
        }
    }

    fn members(&self, gid: u32) -> BTreeSet<u32> {
        match gid {
            50 => BTreeSet::from([1000, 1001]),
            60 => BTreeSet::from([1001, 1002]),
            10 => BTreeSet::from([0, 1000]),
            _ => BTreeSet::new(),
        }
    }
}

fn good(text: &str) -> Explained {
    parse("rules", text, &TestAccounts).unwrap_or_else(|faults| panic!("{faults}"))
}

fn bad(text: &str) -> Faults {
    parse("rules", text, &TestAccounts).expect_err(text)
}

/// There is one fault, with this position and fact, a cause and a next step.
fn refused(text: &str, place: &str, fact: &str) {
    let faults = bad(text);
    let message = faults.to_string();
    assert_eq!(faults.count(), 1, "{message}");
    let first = message.lines().next().unwrap();
    assert!(first.starts_with(&format!("rules:{place}: ")), "{message}");
    assert!(first.contains(fact), "{fact:?} is not in {message}");
    assert!(message.contains("\n  cause: "), "{message}");
    assert!(message.contains("\n  next:  "), "{message}");
}

fn reservation(lines: &str) -> String {
    format!("[[reserve]]\n{lines}\n")
}

#[test]
fn an_empty_file_means_the_defaults() {
    for text in [
        "",
        "\n\n",
        "# nothing\n",
        "[users]\n[groups]\n",
        "reserve = []",
    ] {
        assert_eq!(good(text), Explained::default(), "{text}");
    }
    let Rules {
        floor,
        root,
        default,
        base,
        reserve,
        servers,
    } = Rules::default();
    assert_eq!(
        (floor.to_string(), root.to_string()),
        ("25%".into(), "5%".into())
    );
    assert_eq!(default, 1000);
    assert!(base.is_empty() && reserve.is_empty() && servers.is_empty());
}

#[test]
fn the_example_has_its_meaning() {
    let Explained {
        rules,
        users,
        groups,
    } = good(EXAMPLE);
    assert_eq!(
        (rules.floor, rules.root),
        (Percent::whole(25), Percent::whole(5))
    );
    assert_eq!(rules.default, 1000);
    assert_eq!(rules.base, [(1000, 3000), (1001, 2000), (2000, 500)].into());
    let reserve = |what, percent| Reserve {
        what,
        share: Percent::whole(percent),
    };
    let mpv = reserve(What::Program("/usr/bin/mpv".into()), 30);
    let nginx = reserve(What::Unit("nginx.service".into()), 150);
    assert_eq!(rules.reserve, [mpv, nginx]);
    let web = What::Program("/usr/sbin/nginx".into());
    let database = What::Unit("mariadb.service".into());
    assert_eq!(rules.servers, [web, database]);
    assert_eq!(
        users.iter().map(|user| user.uid).collect::<Vec<_>>(),
        [1000, 2000]
    );
    assert_eq!(
        (groups[0].name.as_str(), groups[0].members.len()),
        ("staff", 2)
    );
}

#[test]
fn the_documentation_shows_the_example() {
    assert!(include_str!("../../docs/rules.md").contains(EXAMPLE));
}

#[test]
fn both_ends_of_a_range_are_in_it() {
    for text in [
        "floor = '1%'",
        "floor = '100%'",
        "root = '0%'",
        "root = '50%'",
        "default = 100",
        "default = 10_000",
        "[users]\nalice = 0",
        "[users]\nalice = 100",
        "[users]\nalice = 10000",
        "[users]\n4294967294 = 100",
        "[[reserve]]\nprogram = 'mpv'\nshare = '1%'",
        "[[reserve]]\nunit = 'all.slice'\nshare = '51200%'",
    ] {
        good(text);
    }
}

#[test]
fn of_several_groups_the_most_counts() {
    let base = good("[groups]\nstaff = 500\nstudents = 800\n").rules.base;
    assert_eq!(base, [(1000, 500), (1001, 800), (1002, 800)].into());
}

#[test]
fn a_named_user_does_not_get_the_groups_tickets() {
    let base = good("[groups]\nstaff = 5000\n[users]\nalice = 100\nbob = 0\n")
        .rules
        .base;
    assert_eq!(base, [(1000, 100), (1001, 0)].into());
}

#[test]
fn a_frozen_group_freezes_members_of_no_other_group() {
    let base = good("[groups]\nstaff = 0\nstudents = 100\n").rules.base;
    assert_eq!(base, [(1000, 0), (1001, 100), (1002, 100)].into());
}

#[test]
fn a_number_is_a_name_first() {
    let base = good("[users]\n1005 = 500\n1006 = 600\n[groups]\n50 = 700")
        .rules
        .base;
    assert_eq!(
        base,
        [(2000, 500), (1006, 600), (1000, 700), (1001, 700)].into()
    );
}

#[test]
fn a_name_with_a_dot_is_in_quotes() {
    assert_eq!(
        good("[users]\n\"john.doe\" = 500").rules.base,
        [(1003, 500)].into()
    );
    refused("[users]\njohn.doe = 500", "2:1", "john is a section");
    assert!(
        bad("[users]\njohn.doe = 5")
            .to_string()
            .contains("\"john.doe\" = ")
    );
}

#[test]
fn text_that_is_not_toml_is_refused_at_its_position() {
    refused("default = 1000\nfloor = 25%\n", "2:9", "not TOML");
    refused("[users\nalice = 1000\n", "1:7", "not TOML");
    refused("floor = \"25%\n", "1:13", "not TOML");
    refused("floor = ", "1:9", "not TOML");
    refused(
        "default = 1000\n\tdefault = 2000\n",
        "2:2",
        "default is written a second time",
    );
    refused(
        "[users]\nbob = 100\n[users]\n",
        "3:2",
        "users is written a second time",
    );
    refused(
        "[users]\nbob = 100\n\"bob\" = 200\n",
        "3:1",
        "\"bob\" is written a second time",
    );
}

#[test]
fn unknown_words_are_refused_wherever_they_stand() {
    refused(
        "# rules\nflor = \"25%\"\n",
        "2:1",
        "\"flor\" means nothing at the top",
    );
    refused(
        "[user]\nalice = 1000\n",
        "1:2",
        "\"user\" means nothing at the top",
    );
    let text = reservation("program = \"mpv\"\nshare = \"1%\"\n  user = \"x\"");
    refused(&text, "4:3", "\"user\" means nothing in a reservation");
}

#[test]
fn a_line_that_slipped_into_a_section_is_to_be_moved() {
    let text = "[users]\nalice = 1000\ndefault = 500\n";
    refused(text, "3:1", "no user is called \"default\"");
    assert!(bad(text).to_string().contains("move it up"));
    let text = reservation("program = \"mpv\"\nshare = \"1%\"\nfloor = \"10%\"");
    refused(&text, "4:1", "\"floor\" means nothing in a reservation");
    assert!(bad(&text).to_string().contains("move it up"));
}

#[test]
fn values_of_another_type_are_refused() {
    refused("floor = 25", "1:9", "floor is a whole number");
    refused("root = 0.05", "1:8", "root is a number with a point");
    refused("default = \"1000\"", "1:11", "default is text in quotes");
    refused("users = 5", "1:9", "users is a whole number");
    refused("groups = [\"staff\"]", "1:10", "groups is a list");
    refused("[users]\nalice = true", "2:9", "alice is a truth value");
    refused(
        "[groups]\nstaff = 2026-01-01",
        "2:9",
        "staff is a date or time",
    );
    refused(
        "[reserve]\nprogram = \"mpv\"",
        "1:1",
        "reserve is a section",
    );
    refused(
        "reserve = [\n  \"mpv\"\n]",
        "2:3",
        "reserve is text in quotes",
    );
    refused(
        &reservation("program = 5\nshare = \"1%\""),
        "2:11",
        "program is a whole number",
    );
    refused(
        &reservation("unit = []\nshare = \"1%\""),
        "2:8",
        "unit is a list",
    );
    refused(
        &reservation("unit = \"a.scope\"\nshare = 1"),
        "3:9",
        "share is a whole number",
    );
}

#[test]
fn percentages_that_are_none_are_refused() {
    for text in ["30", "30 %", "-1%", "abc", "1e3%", "", "%", "12.345%"] {
        let fact = format!("floor is {text:?}, and that is not a percentage");
        refused(&format!("floor = \"{text}\""), "1:9", &fact);
        let share = reservation(&format!("program = \"mpv\"\nshare = \"{text}\""));
        refused(&share, "3:9", "not a percentage");
    }
    refused(
        "\nroot = \"5\"",
        "2:8",
        "root is \"5\", and that is not a percentage",
    );
}

#[test]
fn percentages_out_of_their_range_are_refused() {
    for text in ["0.99%", "100.01%", "0%"] {
        refused(
            &format!("floor = \"{text}\""),
            "1:9",
            "floor is out of range",
        );
    }
    refused("root = \"50.01%\"", "1:8", "root is out of range: 50.01%");
    assert!(bad("root = \"51%\"").to_string().contains("from 0% to 50%"));
    for text in ["0%", "51200.01%"] {
        let share = reservation(&format!("program = \"mpv\"\nshare = \"{text}\""));
        refused(&share, "3:9", "share is out of range");
    }
}

#[test]
fn tickets_out_of_their_range_are_refused() {
    for number in [
        "99",
        "10001",
        "-1",
        "1",
        "99999999999999999999999",
        "0x2711",
    ] {
        refused(
            &format!("[users]\nalice = {number}"),
            "2:9",
            "alice is out of range",
        );
        refused(
            &format!("[groups]\nstaff = {number}"),
            "2:9",
            "staff is out of range",
        );
        refused(
            &format!("default = {number}"),
            "1:11",
            "default is out of range",
        );
    }
    refused("default = 0", "1:11", "default is out of range: 0");
    assert!(bad("default = 0").to_string().contains("from 100 to 10000"));
}

#[test]
fn users_and_groups_that_there_are_not_are_refused() {
    refused(
        "[users]\nalcie = 1000",
        "2:1",
        "no user is called \"alcie\"",
    );
    refused(
        "[groups]\nstaf = 1000",
        "2:1",
        "no group is called \"staf\"",
    );
    refused("[users]\n-1 = 1000", "2:1", "no user is called \"-1\"");
    refused("[users]\n\"\" = 1000", "2:1", "no user is called \"\"");
    refused(
        "[users]\n4294967295 = 1000",
        "2:1",
        "4294967295 is not a uid",
    );
    refused(
        "[groups]\n99999999999 = 1000",
        "2:1",
        "99999999999 is not a gid",
    );
}

#[test]
fn no_user_is_named_twice() {
    let text = "[users]\nalice = 100\nbob = 100\n1000 = 200\n";
    refused(text, "4:1", "1000 is alice, named in line 2 already");
    let text = "[users]\n1000 = 100\nalice = 200\n";
    refused(text, "3:1", "alice is 1000, named in line 2 already");
    refused(
        "[groups]\nstaff = 100\n50 = 200\n",
        "3:1",
        "50 is staff, named in line 2",
    );
}

#[test]
fn root_is_not_frozen() {
    refused("[users]\nroot = 0", "2:1", "root cannot be frozen");
    refused("[users]\n0 = 0", "2:1", "root cannot be frozen");
    refused("[groups]\nwheel = 0", "2:1", "root cannot be frozen");
    assert_eq!(
        good("[groups]\nwheel = 0\n[users]\nroot = 100").rules.base[&0],
        100
    );
}

#[test]
fn a_reservation_is_for_one_program_or_one_unit() {
    let text = reservation("program = \"mpv\"\nunit = \"a.service\"\nshare = \"1%\"");
    refused(&text, "3:1", "both a program and a unit");
    let text = reservation("unit = \"a.service\"\nprogram = \"mpv\"\nshare = \"1%\"");
    refused(&text, "3:1", "both a program and a unit");
    refused(
        &reservation("share = \"1%\""),
        "1:1",
        "neither a program nor a unit",
    );
    refused(
        &reservation("program = \"mpv\""),
        "1:1",
        "does not say how much",
    );
    refused(
        "reserve = [{ share = \"1%\" }]",
        "1:12",
        "neither a program nor a unit",
    );
}

#[test]
fn a_program_is_a_file_name_or_an_absolute_path() {
    for name in ["mpv", "My Player", "/usr/bin/mpv", "a.out"] {
        good(&reservation(&format!(
            "program = \"{name}\"\nshare = \"1%\""
        )));
    }
    for name in [
        "",
        "bin/mpv",
        "./mpv",
        "..",
        "/",
        "/usr//bin/mpv",
        "/usr/../mpv",
        "mpv/",
        "a\\u0000",
    ] {
        let text = reservation(&format!("program = \"{name}\"\nshare = \"1%\""));
        refused(
            &text,
            "2:11",
            "neither the name of a program's file nor its absolute path",
        );
    }
}

#[test]
fn servers_are_paths_of_programs_and_units() {
    assert_eq!(good("servers = []").rules.servers, []);
    refused("servers = \"/usr/sbin/nginx\"", "1:11", "servers is");
    refused("servers = [\"/a\", 7]", "1:18", "servers is");
    refused("servers = [\"/a/../b\"]", "1:12", "neither the name");
    // A name without a path would be any user's file.
    refused("servers = [\"nginx\"]", "1:12", "neither the path");
    refused("servers = [\".service\"]", "1:12", "not the name of a unit");
}

#[test]
fn a_unit_has_a_suffix_and_a_name_before_it() {
    for name in [
        "nginx.service",
        "user-1000.slice",
        "session-2.scope",
        "getty@tty1.service",
        "dev-a\\\\x2db.service",
    ] {
        good(&reservation(&format!("unit = \"{name}\"\nshare = \"1%\"")));
    }
    for name in ["nginx", "", "a.socket", "nginx.services", "nginx.Service"] {
        let text = reservation(&format!("unit = \"{name}\"\nshare = \"1%\""));
        refused(&text, "2:8", "not the name of a unit that runs processes");
    }
    for name in [".service", "a/b.service", "a b.slice"] {
        let text = reservation(&format!("unit = \"{name}\"\nshare = \"1%\""));
        refused(&text, "2:8", "is not the name of a unit");
    }
}

#[test]
fn nothing_is_reserved_for_twice() {
    let one = |what: &str| reservation(&format!("{what}\nshare = \"1%\""));
    let program = one("program = \"mpv\"");
    let unit = one("unit = \"a.service\"");
    good(&format!("{program}{unit}"));
    let text = format!("{program}{unit}{program}");
    refused(
        &text,
        "8:11",
        "the program mpv has a reservation already, in line 2",
    );
    refused(
        &format!("{unit}{unit}"),
        "5:8",
        "the unit a.service has a reservation already, in line 2",
    );
}

#[test]
fn all_faults_are_reported_in_the_order_of_the_file() {
    let text =
        "[users]\nalcie = 1\n\n[[reserve]]\nprogram = \"a/b\"\n\n[groups]\nstaf = 100\nstaff = 1\n";
    let message = bad(text).to_string();
    let places: Vec<&str> = message
        .lines()
        .filter_map(|line| line.strip_prefix("rules:"))
        .collect();
    let places: Vec<&str> = places
        .iter()
        .filter_map(|line| line.split(": ").next())
        .collect();
    assert_eq!(
        places,
        ["2:1", "2:9", "4:1", "5:11", "8:1", "9:9"],
        "{message}"
    );
}

#[test]
fn control_characters_of_a_file_are_not_printed() {
    for text in [
        "\"\\u001b[2J\" = 1",
        "[users]\n\"\\u001b[2J\" = true",
        "[users]\n\"\\u001b\".x = 1",
    ] {
        let message = bad(text).to_string();
        assert!(!message.contains('\u{1b}'), "{message:?}");
    }
}

#[test]
fn a_fault_is_shown_with_its_line_and_a_caret() {
    let message = bad("default = 1000\nfloor = \"30\"   # of the machine\r\n").to_string();
    let expected = "\
rules:2:9: floor is \"30\", and that is not a percentage
    2 | floor = \"30\"   # of the machine
      |         ^^^^
  cause: a percentage is a number of at most six digits and two decimals with % right behind it, as in 30% or 12.5%
  next:  write it like this: floor = \"30%\"";
    assert_eq!(message, expected);
}
