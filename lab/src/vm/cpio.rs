//! Writes the "newc" cpio format, in which Linux takes its first root file
//! system. An entry is a header of 110 characters, the name with a final NUL,
//! and the content, each padded to four bytes:
//!
//! ```text
//! 070701 ino mode uid gid nlink mtime size devmaj devmin rdevmaj rdevmin namesize check
//! ```
//!
//! all numbers as eight hexadecimal digits. Times are zero and inodes are
//! counted, so that the same entries give the same bytes.

use std::io::{self, Write};

pub const DIRECTORY: u32 = 0o040000;
pub const REGULAR: u32 = 0o100000;
pub const SYMLINK: u32 = 0o120000;

const HEADER_LEN: usize = 110;
const TRAILER: &str = "TRAILER!!!";

pub struct Writer<W: Write> {
    out: W,
    inode: u32,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W) -> Self {
        Self { out, inode: 0 }
    }

    /// `mode` holds the file type as well. A symbolic link's content is its target.
    pub fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.inode += 1;
        self.raw_entry(self.inode, name, mode, content)
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.raw_entry(0, TRAILER, 0, &[])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn raw_entry(&mut self, inode: u32, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        let size = u32::try_from(content.len())
            .map_err(|_| io::Error::other(format!("{name}: 4 GiB or more do not fit in cpio")))?;
        let name_size = name.len() + 1;
        write!(
            self.out,
            "070701{inode:08x}{mode:08x}{uid:08x}{gid:08x}{links:08x}{mtime:08x}{size:08x}\
             {zero:08x}{zero:08x}{zero:08x}{zero:08x}{name_size:08x}{zero:08x}",
            uid = 0,
            gid = 0,
            links = 1,
            mtime = 0,
            zero = 0,
        )?;
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(HEADER_LEN + name_size)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, written: usize) -> io::Result<()> {
        let missing = written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 3][..missing])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_laid_out_as_the_format_says() {
        let mut writer = Writer::new(Vec::new());
        writer.entry("a", REGULAR | 0o644, b"hello").unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(&bytes[..22], b"07070100000001000081a4");
        assert_eq!(&bytes[110..112], b"a\0");
        assert_eq!(&bytes[112..120], b"hello\0\0\0");
        assert_eq!(&bytes[120..126], b"070701");
        assert_eq!(bytes.len() % 4, 0);
    }
}
