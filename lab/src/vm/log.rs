//! The files that a machine writes: its kernel's log, and others.

use anyhow::{Context, Result};
use std::path::Path;

pub(super) fn kernel_trouble(log: &str) -> Vec<&str> {
    const SIGNS: [&str; 8] = [
        "Kernel panic",
        "BUG:",
        "Oops",
        "WARNING:",
        "Call Trace:",
        "rcu: INFO",
        "runtime error",
        "task stall",
    ];
    log.lines()
        .filter(|line| SIGNS.iter().any(|sign| line.contains(sign)))
        .collect()
}

/// The part of the kernel's log to show when the machine failed: from where the
/// trouble begins, or else the end.
pub(super) fn telling_part(log: &str) -> String {
    const LINES: usize = 30;
    match kernel_trouble(log)
        .first()
        .and_then(|first| log.find(first))
    {
        Some(start) => log[start..]
            .lines()
            .take(LINES)
            .map(|line| format!("\n    {line}"))
            .collect(),
        None => last_lines(log, LINES),
    }
}

pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let start = lines.len().saturating_sub(count);
    lines[start..]
        .iter()
        .map(|line| format!("\n    {line}"))
        .collect()
}

pub(super) fn read_lossy(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_in_the_kernels_log_is_found() {
        let log = "[ 1.0] fine\n[ 2.0] Kernel panic - not syncing\n[ 3.0] fine\n";
        assert_eq!(kernel_trouble(log), ["[ 2.0] Kernel panic - not syncing"]);
    }

    #[test]
    fn an_error_shows_the_end_of_a_log() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "\n    b\n    c");
        assert_eq!(last_lines("", 2), "");
    }
}
