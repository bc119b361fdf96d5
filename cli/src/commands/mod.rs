//! The programs: the arguments of each, and what it does. They are here and not in `bin/`, so that manual pages and completions
//! are made from the same descriptions (`examples/manuals.rs`).

pub mod lnice;
pub mod lrenice;
pub mod lsetbase;
pub mod ltix;
pub mod tombola;

use clap::Command;

/// The description of each program's arguments.
pub fn all() -> [Command; 5] {
    [
        tombola::command(),
        lnice::command(),
        lrenice::command(),
        lsetbase::command(),
        ltix::command(),
    ]
}
