//! The scripts of vm/ in the virtual machine. Needs what `make vm` fetches and the programs built for release, among them the
//! laboratory: so it is not run by a plain `cargo test` but by `make test`, as `cargo test -- --ignored`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn in_source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

// What a process without privileges tries; libraries are not needed in the guest.
fn compile_calls() -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("calls");
    let status = Command::new("gcc")
        .args(["-static", "-D_GNU_SOURCE", "-I"])
        .arg(in_source("hosts/kernel/include"))
        .arg("-o")
        .arg(&program)
        .arg(in_source("hosts/kernel/tests/c/calls.c"))
        .status()
        .expect("gcc is needed for this test: make deps");
    assert!(status.success());
    program
}

fn checks() -> PathBuf {
    in_source("cli/tests/vm/checks.sh")
}

// A script of vm/ in the machine, with more options for that and other programs in it.
fn passes(script: &str, options: &[&str], programs: &[&Path]) {
    let path = in_source("cli/tests/vm").join(script);
    let mut command = Command::new(in_source("target/release/tombola-lab"));
    command.arg("vm").args(options).arg("--add").arg(&path);
    for program in programs {
        command.arg("--add").arg(program);
    }
    let status = command
        .args(["--", script])
        .status()
        .expect("build the laboratory first: cargo build --release");
    assert!(status.success(), "see FAILED above");
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn every_refusal_on_a_real_kernel() {
    passes("refusals.sh", &[], &[&checks(), &compile_calls()]);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn currencies_reservations_freezing_and_rules_on_a_real_kernel() {
    passes("economy.sh", &[], &[&checks()]);
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn the_frozen_stand_still_and_are_no_stall() {
    passes("frozen.sh", &["--measured"], &[]);
}
