//! The programs: what each is called with, and what it does. Here and not in `bin/`, so that manual pages and completions are
//! made of the same descriptions (`examples/manuals.rs`).

pub mod lnice;
pub mod lrenice;
pub mod lsetbase;
pub mod ltix;
pub mod tombola;

use clap::Command;

/// How each program is called.
pub fn all() -> [Command; 5] {
    [
        tombola::command(),
        lnice::command(),
        lrenice::command(),
        lsetbase::command(),
        ltix::command(),
    ]
}
