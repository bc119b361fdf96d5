//! Makes the film that `player` shows.

mod pictures;

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=pictures.rs");
    let folder = std::env::var_os("OUT_DIR").expect("cargo says where built files go");
    let path = PathBuf::from(folder).join("film.mjpeg");
    std::fs::write(&path, pictures::film()).expect("cargo made the folder");
}
