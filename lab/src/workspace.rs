//! This source tree, and what was built and fetched in it.

use crate::explain::explain;
use anyhow::Result;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The directory with the fetched kernels and QEMU: `build/` of the source tree
/// that this program or the current directory lies in.
pub fn build_dir() -> Result<PathBuf> {
    Ok(source_root()?.join("build"))
}

pub fn source_root() -> Result<PathBuf> {
    let starts = [std::env::current_exe()?, std::env::current_dir()?];
    let is_root = |dir: &&Path| dir.join("lab/vm/fetch-kernel.sh").is_file();
    let root = starts
        .iter()
        .find_map(|start| start.ancestors().find(is_root));
    root.map(Path::to_owned).ok_or_else(|| {
        explain(
            "Tombola's source tree was not found",
            "neither this program nor the current directory lies in it",
            "change to the source tree and run this again",
        )
    })
}

/// Every program that has been built for release, except the laboratory itself. Programs are the executable files without a dot:
/// cargo puts libraries and lists of sources beside them.
pub fn release_programs() -> Result<Vec<PathBuf>> {
    let Ok(items) = std::fs::read_dir(source_root()?.join("target/release")) else {
        return Ok(Vec::new());
    };
    let mut programs = Vec::new();
    for item in items {
        let path = item?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let metadata = std::fs::metadata(&path)?;
        let executable = metadata.is_file() && metadata.permissions().mode() & 0o100 != 0;
        if executable && !name.contains('.') && name != "tombola-lab" {
            programs.push(path);
        }
    }
    Ok(programs)
}
