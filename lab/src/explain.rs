//! Errors as all of Tombola tells them.

use anyhow::anyhow;

/// An error says what is the case, the likely cause and what to do.
pub fn explain(fact: &str, cause: &str, next: &str) -> anyhow::Error {
    anyhow!("{fact}\n  cause: {cause}\n  next:  {next}")
}
