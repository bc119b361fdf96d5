//! Files that others read at any time.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Another text in `path`, whole at once: its readers see the former one or this. It is another file each time.
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
    file.set_permissions(Permissions::from_mode(mode))?; // whatever the umask is
    file.write_all(text.as_bytes())?;
    fs::rename(new, path)
}
