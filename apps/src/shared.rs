//! Memory that processes share.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

/// Maps a `T`: that at the beginning of a file, or a new one for this process and those that it forks. It begins a page.
pub(crate) fn map<T>(file: Option<&File>) -> io::Result<*mut T> {
    let (kind, fd) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
    };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel chooses a free address.
    let address = unsafe { libc::mmap(ptr::null_mut(), size_of::<T>(), access, kind, fd, 0) };
    if address == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(address.cast())
}
