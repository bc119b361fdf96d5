//! vm/refusals.sh in the virtual machine. Needs what `make vm` fetches and the programs built for release, among them the
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

#[test]
#[ignore = "boots a virtual machine: make test"]
fn every_refusal_on_a_real_kernel() {
    let script = in_source("cli/tests/vm/refusals.sh");
    let status = Command::new(in_source("target/release/tombola-lab"))
        .args(["vm", "--add"])
        .arg(compile_calls())
        .arg("--add")
        .arg(&script)
        .args(["--", "refusals.sh"])
        .status()
        .expect("build the laboratory first: cargo build --release");
    assert!(status.success(), "see FAILED above");
}
