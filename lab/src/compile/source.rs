//! Where the sources are, and how they are compiled.

use crate::explain::explain;
use crate::vm::{Image, find_program};
use crate::workspace::source_root;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

const MAKEFILE: &str = include_str!("compile.mk");
const CONFIG: &str = include_str!("config.h");
/// The package that has libelf's sources.
const PACKAGE: &str = "libbpf-sys";
/// What runs in a compile.
const PROGRAMS: [&str; 4] = ["make", "gcc", "as", "ar"];
/// The guest's directory of the makefile.
pub const GUEST_DIR: &str = "/compile";
const GUEST_ELFUTILS: &str = "/elfutils";
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Cargo has fetched libelf's sources with those of libbpf, which the scheduler's loader needs.
pub fn elfutils() -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "metadata",
            "--format-version=1",
            "--filter-platform",
            PLATFORM,
        ])
        .current_dir(source_root()?);
    let metadata: Value = serde_json::from_str(&output_of(&mut command)?)?;
    let packages = metadata["packages"].as_array();
    let package = packages
        .into_iter()
        .flatten()
        .find(|package| package["name"] == PACKAGE);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let dir = manifest.map(|manifest| Path::new(manifest).with_file_name("elfutils"));
    dir.filter(|dir| dir.join("libelf").is_dir())
        .ok_or_else(|| {
            explain(
                &format!("{PACKAGE} has no elfutils/libelf"),
                "cargo has fetched another version than Cargo.lock names",
                "cargo fetch --locked",
            )
        })
}

/// Writes the makefile and what goes with it into an empty directory.
pub fn prepare(dir: &Path) -> Result<()> {
    for (name, text) in [("compile.mk", MAKEFILE), ("config.h", CONFIG)] {
        let path = dir.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A compile of everything in a prepared directory, `jobs` at a time.
pub fn make(dir: &Path, elfutils: &Path, jobs: usize) -> Command {
    let mut command = Command::new("make");
    command
        .args([
            "--silent",
            "--always-make",
            "-f",
            "compile.mk",
            "-j",
            &jobs.to_string(),
        ])
        .arg(format!("ELFUTILS={}", elfutils.display()))
        .current_dir(dir);
    command
}

/// The same of so many files, in the guest.
pub fn guest_make(jobs: u32, files: u32) -> String {
    format!(
        "make --silent --always-make -C {GUEST_DIR} -f compile.mk -j {jobs} FILES={files} ELFUTILS={GUEST_ELFUTILS}"
    )
}

/// Adds the compiler, the sources, and the headers that they include.
pub fn add_to(image: &mut Image) -> Result<()> {
    for name in PROGRAMS {
        image.program(&find_program(name)?)?;
    }
    let compiler = output_of(Command::new("gcc").arg("-print-prog-name=cc1"))?;
    image.program_at(Path::new(compiler.trim()), compiler.trim())?;
    image.file(&format!("{GUEST_DIR}/compile.mk"), MAKEFILE, 0o644);
    image.file(&format!("{GUEST_DIR}/config.h"), CONFIG, 0o644);
    let elfutils = elfutils()?;
    for file in files(&elfutils)? {
        let guest = match file.strip_prefix(&elfutils) {
            Ok(own) => format!("{GUEST_ELFUTILS}/{}", own.display()),
            Err(_) => file.display().to_string(),
        };
        image.file_from(&file, &guest)?;
    }
    Ok(())
}

/// All files that are compiled or included, but for the configuration.
fn files(elfutils: &Path) -> Result<BTreeSet<PathBuf>> {
    let dir = source_root()?.join("lab/src/compile");
    let rules = output_of(make(&dir, elfutils, 1).arg("dependencies"))?;
    let words = rules
        .split_whitespace()
        .filter(|word| word.starts_with('/'));
    Ok(words.map(PathBuf::from).collect())
}

fn output_of(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {errors}");
    }
    Ok(String::from_utf8(output.stdout)?)
}
