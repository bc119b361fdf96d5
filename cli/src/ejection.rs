//! The last ejection, kept for `tombola status` in /run/tombola until the next ejection or the next boot.
//!
//! ```text
//!   /run/tombola/ejection.json   the time, the kernel's reason, the cause and the next step; every user may read it
//!   /run/tombola/ejection.dump   the kernel's dump, with threads of all users; only root may read it
//! ```

use crate::files;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;
use std::time::SystemTime;
use tombola_kernel::abi::RUN_DIR;
use tombola_kernel::ejection::Ejection;

const DOCUMENT: &str = "/usr/share/doc/tombola/docs/troubleshooting.md, or below /usr/local";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// RFC 3339, UTC.
    pub time: String,
    /// sysrq, stall, fault or kernel.
    pub kind: String,
    /// The kernel's words for the kind, and its message, which may be empty.
    pub reason: String,
    pub message: String,
    pub exit_code: i64,
    pub cause: String,
    pub next: String,
}

/// Called by the daemon before it exits.
pub fn write(ejection: &Ejection) -> io::Result<()> {
    write_in(Path::new(RUN_DIR), ejection, SystemTime::now())
}

/// The last ejection since boot.
pub fn last() -> Option<Record> {
    read_in(Path::new(RUN_DIR))
}

fn write_in(folder: &Path, ejection: &Ejection, time: SystemTime) -> io::Result<()> {
    let dump = folder.join("ejection.dump");
    match ejection.dump.as_str() {
        "" => drop(fs::remove_file(&dump)), // of a former ejection
        text => files::replace(&dump, text, 0o600)?,
    }
    let record = Record {
        time: humantime::format_rfc3339_seconds(time).to_string(),
        kind: ejection.kind.name().to_owned(),
        reason: ejection.reason.clone(),
        message: ejection.message.clone(),
        exit_code: ejection.exit_code,
        cause: ejection.kind.cause().to_owned(),
        next: ejection.kind.next().to_owned(),
    };
    let text = serde_json::to_string_pretty(&record).expect("an ejection is plain data") + "\n";
    files::replace(&folder.join("ejection.json"), &text, 0o644)
}

fn read_in(folder: &Path) -> Option<Record> {
    let text = fs::read_to_string(folder.join("ejection.json")).ok()?;
    serde_json::from_str(&text).ok()
}

/// The lines of `tombola status`.
pub fn text(record: &Record) -> String {
    let (time, reason, message) = (&record.time, &record.reason, &record.message);
    let separator = if message.is_empty() { "" } else { ": " };
    format!(
        "ejected     {time}: {reason}{separator}{message}\n            cause: {}\n            next:  {}\n            \
         see:   dmesg | grep sched_ext; {DOCUMENT}\n",
        record.cause, record.next
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;
    use tombola_kernel::ejection::Kind;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn a_record_is_written_read_and_shown() {
        let folder = std::env::temp_dir().join(format!("tombola-ejection-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(read_in(&folder), None);
        let stall = Ejection {
            kind: Kind::Stall,
            reason: "runnable task stall".into(),
            message: "burn[77] failed to run for 30.1s".into(),
            exit_code: 0,
            dump: "CPU states\n".into(),
        };
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        write_in(&folder, &stall, time).unwrap();
        let read = read_in(&folder).unwrap();
        let dump = folder.join("ejection.dump");
        assert_eq!(fs::read_to_string(&dump).unwrap(), "CPU states\n");
        assert_eq!(mode(&dump), 0o600);
        assert_eq!(mode(&folder.join("ejection.json")), 0o644);
        let text = text(&read);
        let words = "2027-01-15T08:00:00Z: runnable task stall: burn[77] failed to run for 30.1s\n";
        assert!(text.contains(words), "{text}");

        let sysrq = Ejection {
            kind: Kind::Sysrq,
            reason: "disabled by sysrq-S".into(),
            message: String::new(),
            dump: String::new(),
            ..stall
        };
        write_in(&folder, &sysrq, time).unwrap();
        let read = read_in(&folder).unwrap();
        assert!(!dump.exists());
        let text = super::text(&read);
        assert!(text.contains(": disabled by sysrq-S\n"), "{text}");
        fs::remove_dir_all(folder).unwrap();
    }
}
