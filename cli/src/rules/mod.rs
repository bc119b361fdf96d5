//! The rules that outlast the scheduler: /etc/tombola.toml.

mod percent;

pub use percent::{NoPercent, Percent};
