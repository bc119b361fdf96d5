//! Files that other processes may read at any time.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Replaces the text of `path` atomically: readers see the former text or the new one. Each text is a file with a new inode.
pub fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = Path::new(&name);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(new)?;
    file.set_permissions(Permissions::from_mode(mode))?; // regardless of the umask
    file.write_all(text.as_bytes())?;
    fs::rename(new, path)
}
