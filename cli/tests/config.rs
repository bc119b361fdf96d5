//! `tombola config check` as a program, with the accounts that every machine has.

mod bare;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tombola_cli::rules::{self, DEFAULT_FILE, EXAMPLE, Rules};

const REFUSED: i32 = 1;
const USAGE_ERROR: i32 = 2;

fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn check(files: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tombola"));
    command
        .args(["config", "check"])
        .args(files)
        .output()
        .unwrap()
}

fn assert_refused(path: &Path, words: &[&str]) {
    let output = check(&[path]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(REFUSED), "{text}");
    assert!(
        output.stdout.is_empty(),
        "a file with faults has no summary"
    );
    assert!(text.starts_with(path.to_str().unwrap()), "{text}");
    for words in words {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
}

#[test]
fn a_good_file_is_summarized() {
    let path = file(
        "good.toml",
        b"floor = '12.5%'\n[users]\nroot = 3000\n4000000 = 0\n[groups]\n4000000 = 500\n\
          [[reserve]]\nprogram = 'mpv'\nshare = '30%'\n[[reserve]]\nunit = 'a.service'\nshare = '150%'\n",
    );
    let output = check(&[&path]);
    assert!(output.status.success(), "{output:?}");
    let expected = format!(
        "{} is right\n\n\
         floor    12.5%\nroot        5%\ndefault   1000\n\n\
         USER         UID  TICKETS\nroot           0     3000\n4000000  4000000   frozen\n\n\
         GROUP    MEMBERS  TICKETS\n4000000        0      500\n\n\
         RESERVATION     OF ONE CPU\nprogram mpv            30%\nunit a.service        150%\nsum                   180%\n",
        path.display()
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    let risk = String::from_utf8_lossy(&output.stderr);
    assert!(
        risk.contains("program = \"mpv\" holds for any user's file of that name"),
        "{risk}"
    );
}

#[test]
fn a_path_is_no_risk() {
    let path = file(
        "path.toml",
        b"[[reserve]]\nprogram = '/usr/bin/mpv'\nshare = '30%'\n",
    );
    let output = check(&[&path]);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[test]
fn a_bad_file_is_refused_with_all_its_faults() {
    let path = file("bad.toml", b"floor = 30\n[users]\nno-such-user = 100\n");
    let named = path.display();
    assert_refused(
        &path,
        &[
            &format!("{named}:1:9: floor is a whole number"),
            &format!("\n{named}:3:1: no user is called \"no-such-user\""),
            &format!("tombola: {named}: 2 faults\n"),
        ],
    );
}

#[test]
fn a_file_that_cannot_be_read_is_refused_with_the_reason() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    assert_refused(
        &folder.join("no-such-file"),
        &["there is no such file", "1 fault\n"],
    );
    assert_refused(folder, &["cannot be read: Is a directory"]);
    let path = file("latin-1.toml", b"# \xef\xbf\xbd\n# caf\xe9\n");
    assert_refused(&path, &[":2:6: this is not UTF-8 text"]);
}

#[test]
fn without_a_file_the_defaults_hold() {
    let check = |arguments: &[&str]| {
        let mut command = bare::program(env!("CARGO_BIN_EXE_tombola"));
        command.args(["config", "check"]).args(arguments);
        command.output().unwrap()
    };
    let output = check(&[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("there are no rules, and the defaults hold"),
        "{text}"
    );
    assert!(text.contains("default  1000"), "{text}");
    assert_eq!(check(&[DEFAULT_FILE]).status.code(), Some(REFUSED));
}

#[test]
fn the_defaults_hold_only_if_the_file_does_not_exist() {
    let absent = Path::new(env!("CARGO_TARGET_TMPDIR")).join("absent.toml");
    assert_eq!(rules::read_or_defaults(&absent).unwrap(), Rules::default());
    assert!(rules::read(&absent).unwrap_err().is_absent());
    let wrong = file("wrong.toml", b"floor = 1\n");
    assert!(!rules::read_or_defaults(&wrong).unwrap_err().is_absent());
}

#[test]
fn the_help_shows_the_example() {
    let output = check(&[Path::new("--help")]);
    assert!(String::from_utf8_lossy(&output.stdout).contains(EXAMPLE));
}

#[test]
fn usage_errors_are_answered_with_the_usage() {
    for arguments in [
        &["config"][..],
        &["config", "chekc"],
        &["config", "check", "a", "b"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tombola"))
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(USAGE_ERROR), "{arguments:?}");
        assert!(
            String::from_utf8_lossy(&output.stderr).contains("Usage:"),
            "{arguments:?}"
        );
    }
}
