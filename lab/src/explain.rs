//! The form of Tombola's error messages.

use anyhow::anyhow;

/// An error states the fact, the likely cause and the next step.
pub fn explain(fact: &str, cause: &str, next: &str) -> anyhow::Error {
    anyhow!("{fact}\n  cause: {cause}\n  next:  {next}")
}
