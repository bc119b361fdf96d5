//! Compiles the shared C natively, with the warnings that the BPF build has.
//!
//! A debug build traps on undefined behaviour, as Rust's own arithmetic does there: so `cargo test` runs every history
//! under UBSan, without its runtime library. A release build is plain.
//!
//! A process has room for more clients than the kernel's scheduler has.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=include/tombola");
    println!("cargo::rerun-if-changed=src/native.c");
    let mut build = cc::Build::new();
    build
        .file("src/native.c")
        .include("include")
        .define("TB_CLIENTS", "262144")
        .define("TB_HEIGHT", "26") // 1.4405 log2(262144 + 2) = 25.9
        .std("gnu11")
        .opt_level(2)
        .warnings_into_errors(true)
        .flags(["-Wall", "-Wextra", "-Wconversion"]);
    if env::var("PROFILE").as_deref() == Ok("debug") {
        build.flags(["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]);
    }
    build.compile("tombola_core");
}
