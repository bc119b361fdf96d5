//! The shared C keeps its rules: every compiler accepts it without a warning, and the BPF object needs no other code.

use std::path::{Path, PathBuf};
use std::process::Command;

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wconversion", "-Werror"];

/// None if the compiler is not installed.
fn compile(compiler: &str, options: &[&str], to: &Path) -> Option<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(compiler)
        .current_dir(root)
        .args(WARNINGS)
        .args(options)
        .args(["-O2", "-Iinclude", "-c", "src/native.c", "-o"])
        .arg(to)
        .output()
        .ok()?;
    assert!(
        output.status.success(),
        "{compiler} {options:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(())
}

fn object(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn clang_takes_it() {
    if compile("clang-19", &[], &object("clang.o")).is_none() {
        eprintln!("clang-19 is not installed: skipped");
    }
}

#[test]
fn the_bpf_target_takes_it_and_needs_nothing_else() {
    let to = object("bpf.o");
    if compile(
        "clang-19",
        &["-target", "bpf", "-mcpu=v4", "-Wno-unused-function"],
        &to,
    )
    .is_none()
    {
        eprintln!("clang-19 is not installed: skipped");
        return;
    }
    let Ok(output) = Command::new("llvm-nm-19")
        .arg("--undefined-only")
        .arg(&to)
        .output()
    else {
        eprintln!("llvm-nm-19 is not installed: symbols were not looked at");
        return;
    };
    let undefined = String::from_utf8_lossy(&output.stdout);
    assert!(
        undefined.trim().is_empty(),
        "the BPF object needs {undefined}"
    );
}
