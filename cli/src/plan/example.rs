//! The example of a plan.

/// A file with all parts; `tombola simulate --help` shows it.
pub const EXAMPLE: &str = include_str!("example.toml");

/// The command that shows it, for messages.
pub(super) const EXAMPLE_COMMAND: &str = "tombola simulate --help";
