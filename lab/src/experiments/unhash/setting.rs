//! The published settings and scores, and the settings to compare with them.

pub(super) const SOURCE: &str = "reverse-hash server, OS challenge";

/// The published average of three runs of the server that does one request after another, in million.
pub(super) const PUBLISHED_SEQUENTIAL: f64 = 95.289_762;

/// Cores of the published machine, and the threads that were best on it.
pub(super) const THEIR_CORES: u32 = 4;
pub(super) const THEIR_THREADS: u32 = 6;
/// The published settings.
pub(super) const REQUESTS: &str = "--settings midway --seed 3435245";
pub(super) const DELAY_US: f64 = 600_000.0;
/// Ranges are this much smaller, so that a run takes ten seconds and not minutes.
pub(super) const SMALLER: u64 = 5;
pub(super) const RUNS: u32 = 3;
/// What the challenge's first servers do: each request alone, from its first number to the last, with the library's hash routine.
pub(super) const PLAIN: &str = "--kernel portable --width one --chunk 0";
