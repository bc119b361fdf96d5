//! A compile: the 116 files of elfutils' libelf, which comes with the sources of libbpf. It can be carried out, in the virtual
//! machine too; and its processes were traced on a real machine, which the simulated machine repeats.

pub mod cli;
pub mod processes;
pub mod simulated;
pub mod source;
mod trace;

pub use processes::{Compile, Process};
