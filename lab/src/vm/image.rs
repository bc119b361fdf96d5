//! The guest's root file system: everything in one initramfs, which is the
//! fastest way to boot and the only one that is the same every time.
//!
//! An image is a sorted map from path to content. The same files give the same
//! bytes, whatever their times, owners and inodes on the host are;
//! under [`Mode::Measured`](super::Mode) the same bytes give the same run.

use super::cpio;
use crate::explain::explain;
use crate::workspace::{build_dir, release_programs};
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Users with names, for scenarios that are to be easy to read; uids from 1000.
pub const NAMED_USERS: [&str; 4] = ["alice", "bob", "carol", "dave"];
/// Numbered users u1, u2, … for crowds; u1's uid is 2001.
pub const NUMBERED_USERS: u32 = 120;
const NAMED_UID_FIRST: u32 = 1000;
const NUMBERED_UID_BASE: u32 = 2000;

/// Programs of the host's util-linux that busybox lacks, or has with fewer options.
const HOST_TOOLS: [&str; 4] = ["chrt", "prlimit", "setpriv", "taskset"];

/// Empty directories, to mount on and to write into, with their modes.
const DIRECTORIES: [(&str, u32); 9] = [
    ("dev", 0o755),
    ("home", 0o755),
    ("proc", 0o755),
    ("root", 0o700),
    ("run", 0o755),
    ("sys", 0o755),
    ("tmp", 0o1777),
    ("var/log", 0o755),
    ("var/tmp", 0o1777),
];

const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n";
const INIT: &str = include_str!("init.sh");
const SERVICE: &str = include_str!("lab.service");
const UNITS: &str = "/etc/systemd/system";

/// Where Debian's packages put shared libraries, below `/` and `/usr`; the dynamic loader looks there.
const LIBRARIES: &str = "lib/x86_64-linux-gnu";

#[derive(Clone)]
struct Entry {
    mode: u32,
    content: Arc<[u8]>,
}

/// Cheap to clone: contents are shared.
#[derive(Clone, Default)]
pub struct Image {
    entries: BTreeMap<String, Entry>,
}

impl Image {
    /// A small system: busybox, dash as `/bin/sh`, a few tools, test users.
    pub fn base() -> Result<Self> {
        let mut image = Self::directories();
        image.file("/init", INIT, 0o755);
        image.add_busybox()?;
        // busybox's own shell prefers its applets to programs of the same name.
        image.program_at(&find_program("dash")?, "/bin/sh")?;
        for tool in HOST_TOOLS {
            image.program(&find_program(tool)?)?;
        }
        image.file("/etc/passwd", PASSWD, 0o644).file(
            "/etc/group",
            "root:x:0:\nnogroup:x:65534:\n",
            0o644,
        );
        image.add_users();
        Ok(image)
    }

    /// Debian, with systemd as its first process, and the same users.
    pub fn debian() -> Result<Self> {
        let root = build_dir()?.join("debian");
        if !root.join("complete").exists() {
            return Err(explain(
                &format!("there is no Debian in {}", root.display()),
                "it has not been fetched yet",
                "lab/vm/fetch-debian.sh",
            ));
        }
        let mut image = Self::directories();
        image.tree_from(&root, "")?;
        image
            .symlink("/init", "/usr/lib/systemd/systemd")
            .file("/etc/machine-id", format!("{:032x}\n", 1), 0o644) // not its first boot
            .file(&format!("{UNITS}/lab.service"), SERVICE, 0o644)
            .symlink(
                &format!("{UNITS}/multi-user.target.wants/lab.service"),
                "../lab.service",
            )
            .symlink(&format!("{UNITS}/getty.target"), "/dev/null"); // the consoles are used for output
        image.add_users();
        Ok(image)
    }

    fn directories() -> Self {
        let mut image = Self::default();
        for (path, mode) in DIRECTORIES {
            image.insert(path, cpio::DIRECTORY | mode, Vec::new());
        }
        image
    }

    /// Adds a program of the host as `/usr/bin/NAME`, with its shared libraries.
    pub fn program(&mut self, host: &Path) -> Result<&mut Self> {
        let name = host
            .file_name()
            .ok_or_else(|| anyhow!("{}: no file name", host.display()))?;
        let guest = format!("/usr/bin/{}", utf8(Path::new(name))?);
        self.program_at(host, &guest)
    }

    pub fn program_at(&mut self, host: &Path, guest: &str) -> Result<&mut Self> {
        self.file_from(host, guest)?;
        for library in shared_libraries(Command::new("ldd").arg(host))? {
            let guest = utf8(&library)?.to_owned();
            // Debian has its own, in /usr, and /lib is a link to there.
            if !self.contains(&format!("/usr{guest}")) {
                self.file_from(&library, &guest)?;
            }
        }
        Ok(self)
    }

    /// Adds a program of a package that was unpacked into `root`, at the same path, with its shared libraries: the package's
    /// own from below `root`, all others from the host.
    pub fn unpacked_program(&mut self, root: &Path, guest: &str) -> Result<&mut Self> {
        let host = root.join(guest.trim_start_matches('/'));
        self.file_from(&host, guest)?;
        let own = format!("{0}/usr/{LIBRARIES}:{0}/{LIBRARIES}", utf8(root)?);
        for library in shared_libraries(Command::new("ldd").env("LD_LIBRARY_PATH", own).arg(&host))?
        {
            let guest = library.strip_prefix(root).unwrap_or(&library);
            self.file_from(&library, utf8(guest)?)?;
        }
        Ok(self)
    }

    /// Copies one file of the host, symbolic links followed; it stays executable.
    pub fn file_from(&mut self, host: &Path, guest: &str) -> Result<&mut Self> {
        let content =
            std::fs::read(host).with_context(|| format!("cannot read {}", host.display()))?;
        let executable = std::fs::metadata(host)?.permissions().mode() & 0o100 != 0;
        self.file(guest, content, if executable { 0o755 } else { 0o644 });
        Ok(self)
    }

    /// Copies a directory of the host with all below it, symbolic links kept.
    pub fn tree_from(&mut self, host: &Path, guest: &str) -> Result<&mut Self> {
        for item in
            std::fs::read_dir(host).with_context(|| format!("cannot read {}", host.display()))?
        {
            let item = item?;
            let (path, kind) = (item.path(), item.file_type()?);
            let name = format!("{guest}/{}", utf8(Path::new(&item.file_name()))?);
            if kind.is_dir() {
                self.tree_from(&path, &name)?;
            } else if kind.is_symlink() {
                self.symlink(&name, utf8(&std::fs::read_link(&path)?)?);
            } else if kind.is_file() {
                self.file_from(&path, &name)?;
            }
        }
        Ok(self)
    }

    /// Adds a file with the given content, which replaces an earlier one of the same name.
    pub fn file(&mut self, guest: &str, content: impl Into<Vec<u8>>, mode: u32) -> &mut Self {
        self.insert(guest, cpio::REGULAR | mode, content.into());
        self
    }

    pub fn symlink(&mut self, guest: &str, target: &str) -> &mut Self {
        self.insert(guest, cpio::SYMLINK | 0o777, target.into());
        self
    }

    pub fn contains(&self, guest: &str) -> bool {
        self.entries.contains_key(guest.trim_start_matches('/'))
    }

    /// The file system as the kernel takes it: an uncompressed cpio archive.
    /// (Unpacking zstd costs the emulated CPU more than copying does.)
    pub fn write_to(&self, out: impl Write) -> std::io::Result<()> {
        let mut writer = cpio::Writer::new(out);
        for (path, entry) in &self.entries {
            writer.entry(path, entry.mode, &entry.content)?;
        }
        writer.finish()?;
        Ok(())
    }

    fn insert(&mut self, guest: &str, mode: u32, content: Vec<u8>) {
        let path = guest.trim_start_matches('/').to_owned();
        self.add_parents(&path);
        self.entries.insert(
            path,
            Entry {
                mode,
                content: content.into(),
            },
        );
    }

    // A parent sorts before what it contains, as the kernel needs it.
    fn add_parents(&mut self, path: &str) {
        for (end, _) in path.match_indices('/') {
            self.entries
                .entry(path[..end].to_owned())
                .or_insert_with(|| Entry {
                    mode: cpio::DIRECTORY | 0o755,
                    content: Arc::new([]),
                });
        }
    }

    fn add_busybox(&mut self) -> Result<()> {
        let busybox = find_program("busybox")?;
        self.program_at(&busybox, "/bin/busybox")?;
        for applet in output_of(Command::new(&busybox).arg("--list"))?.lines() {
            if applet != "busybox" {
                self.symlink(&format!("/bin/{applet}"), "/bin/busybox");
            }
        }
        Ok(())
    }

    fn add_users(&mut self) {
        let mut passwd = self.text("/etc/passwd");
        let mut group = self.text("/etc/group");
        for (name, id) in users() {
            writeln!(passwd, "{name}:x:{id}:{id}::/tmp:/bin/sh").expect("a String takes all");
            writeln!(group, "{name}:x:{id}:").expect("a String takes all");
        }
        self.file("/etc/passwd", passwd, 0o644);
        self.file("/etc/group", group, 0o644);
        self.file("/etc/hosts", "127.0.0.1 localhost tombola\n", 0o644);
    }

    fn text(&self, guest: &str) -> String {
        let content = &self.entries[guest.trim_start_matches('/')].content;
        String::from_utf8_lossy(content).into_owned()
    }
}

/// The base system with every program of this workspace that has been built for release.
pub fn tombola_image() -> Result<Image> {
    let mut image = Image::base()?;
    for program in release_programs()? {
        image.program(&program)?;
    }
    Ok(image)
}

/// Every test user but root, with its uid; each has a group of its own.
pub fn users() -> impl Iterator<Item = (String, u32)> {
    let named = NAMED_USERS
        .iter()
        .zip(NAMED_UID_FIRST..)
        .map(|(name, uid)| (name.to_string(), uid));
    let numbered = (1..=NUMBERED_USERS).map(|n| (format!("u{n}"), NUMBERED_UID_BASE + n));
    named.chain(numbered)
}

/// Looks up a program in PATH, and in the sbin directories, which PATH may lack.
pub fn find_program(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|dir| dir.join(name))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| {
            explain(
                &format!("the program {name} is not in PATH"),
                "the packages that the virtual machine needs are not installed",
                "lab/vm/deps.sh, as root",
            )
        })
}

/// What the dynamic loader would load, asked with `ldd`; nothing for a static program or a script.
fn shared_libraries(ldd: &mut Command) -> Result<Vec<PathBuf>> {
    let output = ldd.output().context("cannot run ldd")?;
    parse_ldd(&String::from_utf8_lossy(&output.stdout))
        .with_context(|| format!("{ldd:?}: a shared library is missing on this machine"))
}

// "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)", "/lib64/ld-linux-x86-64.so.2 (0x…)",
// "linux-vdso.so.1 (0x…)", "libx.so => not found".
fn parse_ldd(output: &str) -> Result<Vec<PathBuf>> {
    let mut libraries = Vec::new();
    for line in output.lines() {
        let (name, found) = line.trim().split_once(" => ").unwrap_or(("", line.trim()));
        if found.starts_with("not found") {
            return Err(anyhow!("{name} not found"));
        }
        if found.starts_with('/') {
            libraries.extend(found.split_whitespace().next().map(PathBuf::from));
        }
    }
    Ok(libraries)
}

fn output_of(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    Ok(String::from_utf8(output.stdout)?)
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| anyhow!("{}: not a UTF-8 name", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(image: &Image) -> Vec<u8> {
        let mut bytes = Vec::new();
        image.write_to(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_same_files_give_the_same_bytes_in_whatever_order() {
        let mut one = Image::default();
        one.file("/a/b", "1", 0o644)
            .file("/a/c", "2", 0o755)
            .symlink("/z", "a/b");
        let mut two = Image::default();
        two.symlink("z", "a/b")
            .file("a/c", "2", 0o755)
            .file("a/b", "0", 0o644)
            .file("a/b", "1", 0o644);
        assert_eq!(bytes(&one), bytes(&two));
        two.file("a/b", "3", 0o644);
        assert_ne!(bytes(&one), bytes(&two));
    }

    #[test]
    fn parents_are_made_and_come_first() {
        let mut image = Image::default();
        image.file("/usr/bin/x", "", 0o755);
        let paths: Vec<_> = image.entries.keys().map(String::as_str).collect();
        assert_eq!(paths, ["usr", "usr/bin", "usr/bin/x"]);
    }

    #[test]
    fn a_parent_made_by_the_way_does_not_replace_a_directory() {
        let mut image = Image::default();
        image.insert("tmp", cpio::DIRECTORY | 0o1777, Vec::new());
        image.file("/tmp/x", "", 0o644);
        assert_eq!(image.entries["tmp"].mode, cpio::DIRECTORY | 0o1777);
    }

    #[test]
    fn ldd_is_understood() {
        let output =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n";
        let expected = [
            PathBuf::from("/lib/libc.so.6"),
            PathBuf::from("/lib64/ld.so"),
        ];
        assert_eq!(parse_ldd(output).unwrap(), expected);
        assert!(parse_ldd("\tstatically linked\n").unwrap().is_empty());
        assert!(parse_ldd("\tlibx.so => not found\n").is_err());
    }

    #[test]
    fn users_have_distinct_ids() {
        let ids: std::collections::BTreeSet<_> = users().map(|(_, uid)| uid).collect();
        assert_eq!(ids.len(), NAMED_USERS.len() + NUMBERED_USERS as usize);
    }
}
