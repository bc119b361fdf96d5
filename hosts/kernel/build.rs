//! Compiles the scheduler for the BPF target, for one run queue and for several, and generates the skeletons: the typed Rust
//! interfaces to its programs and maps.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};

const CLANG: &str = "clang-19";
const FLAGS: [&str; 5] = [
    "-mcpu=v4",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
];
const SOURCE_DIRS: [&str; 3] = ["bpf", "include", "../../core/include"];
/// The skeletons, and with which flag the source of each is compiled.
const SKELETONS: [(&str, Option<&str>); 2] = [("one", None), ("several", Some("-DSEVERAL_QUEUES"))];

fn main() {
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    for dir in SOURCE_DIRS {
        println!("cargo:rerun-if-changed={dir}");
    }
    let clang = env::var("BPF_CLANG").unwrap_or_else(|_| CLANG.into());
    if !runs(&clang) {
        fail(
            &format!("`{clang}`, which compiles the scheduler, cannot be run"),
            &format!("{CLANG} is not installed, or BPF_CLANG names something else"),
            "make deps",
        );
    }
    let source_dir = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out_dir = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it"));
    for (name, flag) in SKELETONS {
        if let Err(error) = build(&clang, &source_dir, &out_dir.join(name), flag) {
            fail(
                &format!("the scheduler does not compile: {error:#}"),
                &format!("its source, or a compiler that is not {CLANG}"),
                "see the compiler's message above",
            );
        }
    }
}

fn runs(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

// The kernel gives the operations more parameters than each of them needs, hence -Wno-unused-parameter. libbpf-cargo adds
// -g -O2, the target's name and the headers of the libbpf that libbpf-rs is linked with.
fn build(
    clang: &str,
    source_dir: &Path,
    skeleton: &Path,
    flag: Option<&str>,
) -> Result<(), impl std::fmt::Display> {
    let mut flags = FLAGS.map(String::from).to_vec();
    flags.extend(flag.map(String::from));
    flags.extend(
        SOURCE_DIRS
            .iter()
            .map(|dir| format!("-I{}", source_dir.join(dir).display())),
    );
    SkeletonBuilder::new()
        .source(source_dir.join("bpf/main.bpf.c"))
        .clang(clang)
        .clang_args(flags)
        .build_and_generate(skeleton.with_extension("skel.rs"))
}

fn fail(fact: &str, cause: &str, next: &str) -> ! {
    eprintln!("{fact}\n  cause: {cause}\n  next:  {next}");
    exit(1);
}
