//! The limits in the documents are those of the sources.

use tombola_kernel::scheduler::{QUANTUM_NS_MAX, QUANTUM_NS_MIN};
use tombola_kernel::{KERNEL_MIN, abi};

const LIMITS: &str = include_str!("../../../docs/limits.md");
const README: &str = include_str!("../../../README.md");
const STATE: &str = include_str!("../bpf/state.h");
const MAIN: &str = include_str!("../bpf/main.bpf.c");
const CORE: &str = include_str!("../../../core/include/tombola/limits.h");

/// The rest of the line after `before` in a source.
fn after<'a>(text: &'a str, before: &str) -> &'a str {
    let (_, rest) = text.split_once(before).expect(before);
    rest.lines().next().unwrap_or_default().trim_end()
}

fn number(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect(text)
}

/// The second column of the row whose first column begins with `row`.
fn limit(row: &str) -> &'static str {
    let line = LIMITS
        .lines()
        .find(|line| line.starts_with(&format!("| {row}")));
    let line = line.unwrap_or_else(|| panic!("docs/limits.md has no row {row}"));
    line.split('|').nth(2).expect("a second column").trim()
}

#[test]
fn the_limits_are_those_of_the_sources() {
    let clients = number(after(CORE, "#define TB_CLIENTS "));
    for half in ["#define NR_USERS ", "#define NR_CURRENCIES "] {
        assert_eq!(after(STATE, half), "(TB_CLIENTS / 2)");
    }
    for (row, is) in [
        ("CPUs that", number(after(STATE, "#define NR_CPUS "))),
        ("CPUs of a run queue", u64::from(u64::BITS)),
        ("run queues", number(after(STATE, "#define NR_QUEUES "))),
        ("clients", clients),
        ("users of", clients / 2),
        ("currencies of", clients / 2),
        ("ranges in", number(after(STATE, "#define NR_SUBORDINATE "))),
        ("a user's currencies", abi::CURRENCIES_MAX.into()),
        ("currencies inside", abi::NESTED_MAX.into()),
        ("characters of", abi::NAME as u64 - 1),
        ("tickets of", abi::TICKETS_MAX.into()),
        ("base tickets", abi::BASE_TICKETS_MAX.into()),
    ] {
        assert_eq!(limit(row), is.to_string(), "{row}");
    }
    let (least, most) = (QUANTUM_NS_MIN / 1_000, QUANTUM_NS_MAX / 1_000_000);
    assert_eq!(limit("quantum"), format!("{least} µs to {most} ms"));
    let patience_s = number(after(STATE, ".patience_ns = ")) / 1_000_000_000;
    let timeout_s = number(after(MAIN, ".timeout_ms = ")) / 1_000;
    assert_eq!(limit("without a CPU"), format!("{timeout_s} s"));
    assert!(LIMITS.contains(&format!("has waited for {patience_s} s")));
}

#[test]
fn every_document_needs_the_same_kernel() {
    let needed = format!("Linux {KERNEL_MIN} or newer");
    assert_eq!(limit("kernel"), needed);
    assert!(README.contains(&needed));
}
