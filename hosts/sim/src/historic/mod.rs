//! Schedulers of their time, by their sources and by the papers: what Tombola descends from, and what that was compared with.

mod linux24;
mod mach;
mod plan9;
mod round_robin;
mod thesis;

pub use linux24::{Linux24, Sharing, ticks_of};
pub use mach::Mach;
pub use plan9::{Plan9, Plan9Rules, next_load};
pub use round_robin::RoundRobin;
pub use thesis::{Thesis, compensation, enhancement};
