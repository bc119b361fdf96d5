//! Runs the scripts of vm/ in the virtual machine. The tests need what `make vm` fetches, and the release build of the programs,
//! including tombola-lab. So `make test` runs them (`cargo test -- --ignored`), a plain `cargo test` does not.

use std::path::{Path, PathBuf};
use std::process::Command;

fn in_source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

// The calls that a process without privileges tries; static, so that the guest needs no libraries.
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

// A program of this system that a script runs in the guest.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    let mut found = found.filter(|program| program.is_file());
    found
        .next()
        .unwrap_or_else(|| panic!("{name} is needed for this test: make deps"))
}

// Some times as long as the longest script takes beside another machine.
const TIMEOUT_S: &str = "1800";

// Runs a script of vm/ in the machine, with more options for `tombola-lab vm` and more programs.
fn passes(script: &str, options: &[&str], programs: &[&Path]) {
    let path = in_source("cli/tests/vm").join(script);
    let mut command = Command::new(in_source("target/release/tombola-lab"));
    command
        .args(["vm", "--timeout", TIMEOUT_S])
        .args(options)
        .arg("--add")
        .arg(&path);
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
    let programs = [&checks(), &program("jq"), &program("flock")];
    passes("economy.sh", &[], &programs.map(PathBuf::as_path));
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn a_frozen_process_gets_no_cpu_time_and_is_no_stall() {
    passes("frozen.sh", &["--measured"], &[]);
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it is there: make deps");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

// The same package with a newer version.
fn newer(package: &str) -> String {
    const RENUMBER: &str = r#"
        rm -rf "$2" && dpkg-deb -R "$1" "$2" &&
        sed -i 's/^Version: .*/&+newer/' "$2/DEBIAN/control" &&
        dpkg-deb --root-owner-group -Znone -b "$2" "$2.deb""#;
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("newer");
    run(Command::new("sh")
        .args(["-c", RENUMBER, "sh", package])
        .arg(&folder));
    folder.with_extension("deb").display().to_string()
}

#[test]
#[ignore = "boots a virtual machine: make robust"]
fn at_length_a_package_and_its_service_under_systemd() {
    let package = run(&mut Command::new(in_source("packaging/deb.sh")));
    let options = [
        "--debian".to_owned(),
        "--cpus=2".to_owned(),
        "--memory=2048".to_owned(),
        format!("--add={package}:/root/tombola.deb"),
        format!("--add={}:/root/newer.deb", newer(&package)),
    ];
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    passes(
        "package.sh",
        &options,
        &[&checks(), &in_source("target/release/burn")],
    );
}

#[test]
#[ignore = "boots a virtual machine: make test"]
fn an_ejection_is_reported_and_the_dump_shows_the_economy() {
    passes("ejected.sh", &[], &[&checks()]);
}
