//! The commands as programs: bad input, and a machine on which nothing schedules by tickets. What they do on one that has
//! sched_ext is tried in the virtual machine (vm/refusals.sh).

use std::path::Path;
use std::process::{Command, Output};

const LNICE: &str = env!("CARGO_BIN_EXE_lnice");
const LRENICE: &str = env!("CARGO_BIN_EXE_lrenice");
const LSETBASE: &str = env!("CARGO_BIN_EXE_lsetbase");
const LTIX: &str = env!("CARGO_BIN_EXE_ltix");
const TOMBOLA: &str = env!("CARGO_BIN_EXE_tombola");

const PROGRAMS: [&str; 5] = [LNICE, LRENICE, LSETBASE, LTIX, TOMBOLA];
const REFUSED: i32 = 1;
const WRONGLY_CALLED: i32 = 2;

fn answer(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn assert_answer(program: &str, arguments: &[&str], status: i32, words: &str) {
    let output = answer(program, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    assert!(text.contains(words), "{arguments:?}: {text}");
}

#[test]
fn numbers_that_are_none_are_answered_with_the_range() {
    for number in ["0", "-1", "10001", "abc", "", "1.5"] {
        assert_answer(LRENICE, &["1", number], WRONGLY_CALLED, "from 1 to 10000");
        assert_answer(
            LNICE,
            &["-p", number, "true"],
            WRONGLY_CALLED,
            "from 1 to 10000",
        );
        assert_answer(
            LSETBASE,
            &["-u", "root", number],
            WRONGLY_CALLED,
            "from 100 to 10000",
        );
    }
    assert_answer(
        LSETBASE,
        &["-u", "root", "99"],
        WRONGLY_CALLED,
        "from 100 to 10000",
    );
}

#[test]
fn what_is_no_process_and_no_user_is_said_to_be_none() {
    for pid in ["0", "-1", "init", ""] {
        assert_answer(LTIX, &["-p", pid], WRONGLY_CALLED, "from 1 up");
        assert_answer(LRENICE, &[pid, "100"], WRONGLY_CALLED, "from 1 up");
    }
    assert_answer(
        LTIX,
        &["-u", "no-such-user"],
        WRONGLY_CALLED,
        "no user has this name",
    );
    assert_answer(
        LSETBASE,
        &["-u", "no-such-user", "500"],
        WRONGLY_CALLED,
        "no user has this name",
    );
}

#[test]
fn arguments_that_are_missing_or_too_many_are_answered_with_the_usage() {
    let calls: [(&str, &[&str]); 6] = [
        (LNICE, &["-p", "10"]),
        (LRENICE, &["1"]),
        (LSETBASE, &["500"]),
        (LTIX, &["-p", "1", "-u", "root"]),
        (LTIX, &["--wins"]),
        (TOMBOLA, &["start", "fast"]),
    ];
    for (program, arguments) in calls {
        assert_answer(program, arguments, WRONGLY_CALLED, "Usage:");
    }
}

#[test]
fn every_program_explains_itself() {
    for program in PROGRAMS {
        let output = answer(program, &["--help"]);
        assert!(output.status.success());
        assert!(
            String::from_utf8_lossy(&output.stdout).contains("Exit status:"),
            "{program}"
        );
    }
}

#[test]
fn without_sched_ext_every_request_is_refused_and_says_why() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return;
    }
    let calls: [(&str, &[&str]); 8] = [
        (LNICE, &["-p", "10", "true"]),
        (LRENICE, &["1", "100"]),
        (LSETBASE, &["-u", "root", "500"]),
        (LTIX, &["-p", "1"]),
        (TOMBOLA, &["start"]),
        (TOMBOLA, &["stop"]),
        (TOMBOLA, &["trace"]),
        (TOMBOLA, &["status"]),
    ];
    for (program, arguments) in calls {
        assert_answer(program, arguments, REFUSED, "this kernel has no sched_ext");
    }
}

#[test]
fn status_tells_what_it_knows_as_json_even_so() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return;
    }
    let output = answer(TOMBOLA, &["status", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kernel"]["sched_ext"], false);
    assert!(report["tombola"].is_null());
}

#[test]
fn lnice_does_not_run_what_it_cannot_give_tickets() {
    if Path::new("/sys/kernel/sched_ext").exists() {
        return;
    }
    let output = answer(LNICE, &["-p", "10", "echo", "ran"]);
    assert!(output.stdout.is_empty());
}
