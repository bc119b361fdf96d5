//! The commands as programs: with bad input, and on a machine without sched_ext. The virtual machine tests them with sched_ext
//! (vm/refusals.sh).

mod bare;

use std::path::Path;
use std::process::Output;

const LNICE: &str = env!("CARGO_BIN_EXE_lnice");
const LRENICE: &str = env!("CARGO_BIN_EXE_lrenice");
const LSETBASE: &str = env!("CARGO_BIN_EXE_lsetbase");
const LTIX: &str = env!("CARGO_BIN_EXE_ltix");
const TOMBOLA: &str = env!("CARGO_BIN_EXE_tombola");

const PROGRAMS: [&str; 5] = [LNICE, LRENICE, LSETBASE, LTIX, TOMBOLA];
const REFUSED: i32 = 1;
const USAGE_ERROR: i32 = 2;

fn answer(program: &str, arguments: &[&str]) -> Output {
    bare::program(program).args(arguments).output().unwrap()
}

fn assert_answer(program: &str, arguments: &[&str], status: i32, words: &str) {
    let output = answer(program, arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
    assert!(text.contains(words), "{arguments:?}: {text}");
}

#[test]
fn bad_numbers_are_answered_with_the_range() {
    let (run, make) = (["run", "-t"], ["currency", "make", "a", "--tickets"]);
    let fund = ["currency", "fund", "a"];
    for number in ["-1", "10001", "abc", "", "1.5"] {
        assert_answer(LRENICE, &["1", number], USAGE_ERROR, "from 1 to 10000");
        assert_answer(
            LNICE,
            &["-t", number, "true"],
            USAGE_ERROR,
            "from 1 to 10000",
        );
        assert_answer(
            LSETBASE,
            &["-u", "root", number],
            USAGE_ERROR,
            "from 100 to 10000",
        );
        for call in [&run[..], &make, &fund] {
            let call = [call, &[number]].concat();
            assert_answer(TOMBOLA, &call, USAGE_ERROR, "from 1 to 10000");
        }
    }
    for (program, call) in [(LNICE, &["-t"][..]), (TOMBOLA, &run), (TOMBOLA, &make)] {
        let call = [call, &["0"]].concat();
        assert_answer(program, &call, USAGE_ERROR, "from 1 to 10000;");
    }
    assert_answer(
        LSETBASE,
        &["-u", "root", "99"],
        USAGE_ERROR,
        "from 100 to 10000",
    );
}

#[test]
fn bad_shares_are_answered_with_the_range() {
    for (share, words) in [
        ("30", "as in 30%"),
        ("", "as in 30%"),
        ("0%", "from 1% to 51200%"),
    ] {
        let call = ["reserve", share, "--pid", "1"];
        assert_answer(TOMBOLA, &call, USAGE_ERROR, words);
    }
}

#[test]
fn bad_names_of_currencies_are_answered_with_the_rule() {
    for name in ["", "-a", "a b", "root:", "a-name-of-24-characters_"] {
        for call in [
            &["currency", "make"][..],
            &["currency", "move", "a", "--in"],
            &["reserve", "1%", "-c"],
        ] {
            let call = [call, &[name]].concat();
            assert_answer(TOMBOLA, &call, USAGE_ERROR, "1 to 23 letters");
        }
    }
    let call = ["currency", "retire", "no-such-user:a"];
    assert_answer(TOMBOLA, &call, USAGE_ERROR, "no user has this name");
}

#[test]
fn the_scheduler_does_not_start_with_wrong_rules() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("start.toml");
    std::fs::write(&path, "floor = 30\nroot = 5\n").unwrap();
    let call = ["start", "--rules", path.to_str().unwrap()];
    for words in [
        ":1:9: floor is",
        ":2:8: root is",
        "2 faults; nothing was changed",
    ] {
        assert_answer(TOMBOLA, &call, REFUSED, words);
    }
    let call = ["start", "--rules", "/no/such/file"];
    assert_answer(TOMBOLA, &call, REFUSED, "there is no such file");
}

#[test]
fn bad_pids_and_unknown_users_are_refused() {
    for pid in ["0", "-1", "init", ""] {
        assert_answer(LTIX, &["-p", pid], USAGE_ERROR, "from 1 up");
        assert_answer(LRENICE, &[pid, "100"], USAGE_ERROR, "from 1 up");
        let call = ["currency", "enter", "a", pid];
        assert_answer(TOMBOLA, &call, USAGE_ERROR, "from 1 up");
    }
    assert_answer(
        LTIX,
        &["-u", "no-such-user"],
        USAGE_ERROR,
        "no user has this name",
    );
    assert_answer(
        LSETBASE,
        &["-u", "no-such-user", "500"],
        USAGE_ERROR,
        "no user has this name",
    );
}

#[test]
fn arguments_that_are_missing_or_too_many_are_answered_with_the_usage() {
    let calls: [(&str, &[&str]); 17] = [
        (LNICE, &["-t", "10"]),
        (LRENICE, &["1"]),
        (LSETBASE, &["500"]),
        (LTIX, &["-p", "1", "-u", "root"]),
        (LTIX, &["--wins"]),
        (TOMBOLA, &["start", "fast"]),
        (TOMBOLA, &["currency"]),
        (TOMBOLA, &["currency", "make"]),
        (TOMBOLA, &["currency", "enter", "a"]),
        (TOMBOLA, &["currency", "leave"]),
        (TOMBOLA, &["run", "-t", "10"]),
        (TOMBOLA, &["reserve", "30%"]),
        (TOMBOLA, &["reserve", "--pid", "1"]),
        (TOMBOLA, &["reserve", "--", "true"]),
        (TOMBOLA, &["reserve", "30%", "--pid", "1", "--", "true"]),
        (TOMBOLA, &["release"]),
        (TOMBOLA, &["release", "--pid", "1", "--currency", "a"]),
    ];
    for (program, arguments) in calls {
        assert_answer(program, arguments, USAGE_ERROR, "Usage:");
    }
}

#[test]
fn every_help_has_the_exit_status() {
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
    let calls: [(&str, &[&str]); 21] = [
        (LNICE, &["-t", "10", "true"]),
        (LRENICE, &["1", "100"]),
        (LSETBASE, &["-u", "root", "500"]),
        (LTIX, &["-p", "1"]),
        (TOMBOLA, &["start"]),
        (TOMBOLA, &["stop"]),
        (TOMBOLA, &["trace"]),
        (TOMBOLA, &["status"]),
        (TOMBOLA, &["reload"]),
        (TOMBOLA, &["tree"]),
        (TOMBOLA, &["tree", "--json"]),
        (TOMBOLA, &["run", "true"]),
        (TOMBOLA, &["reserve"]),
        (TOMBOLA, &["reserve", "30%", "--", "true"]),
        (TOMBOLA, &["release", "--pid", "1"]),
        (TOMBOLA, &["currency", "make", "a", "--in", "b"]),
        (TOMBOLA, &["currency", "fund", "a", "0"]),
        (TOMBOLA, &["currency", "retire", "a"]),
        (TOMBOLA, &["currency", "list", "--json"]),
        (TOMBOLA, &["currency", "enter", "a", "1", "2"]),
        (TOMBOLA, &["currency", "leave", "1"]),
    ];
    for (program, arguments) in calls {
        assert_answer(program, arguments, REFUSED, "this kernel has no sched_ext");
    }
}

#[test]
fn status_prints_json_without_sched_ext() {
    let output = answer(TOMBOLA, &["status", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kernel"]["sched_ext"], false);
    assert!(report["tombola"].is_null());
}

#[test]
fn a_command_that_cannot_get_tickets_is_not_run() {
    let calls: [(&str, &[&str]); 3] = [
        (LNICE, &["-t", "10", "echo", "ran"]),
        (TOMBOLA, &["run", "echo", "ran"]),
        (TOMBOLA, &["reserve", "30%", "--", "echo", "ran"]),
    ];
    for (program, arguments) in calls {
        let output = answer(program, arguments);
        assert_eq!(output.status.code(), Some(REFUSED), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}
