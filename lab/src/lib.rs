//! Tombola's laboratory: experiments on the scheduler, and the virtual machine
//! they run in. It talks to the scheduler only as a user does, through its
//! commands and their JSON.

pub mod bench;
pub mod compile;
pub mod cpu;
pub mod demo;
pub mod experiment;
pub mod experiments;
mod explain;
pub mod plan;
pub mod play;
pub mod result;
mod simulate;
pub mod statistics;
pub mod vm;
mod workspace;
