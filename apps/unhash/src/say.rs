//! What the program says, to readers who may have gone: that is nothing to a server.

use std::fmt::Display;
use std::io::{self, Write};

pub fn warn(text: impl Display) {
    let _ = writeln!(io::stderr(), "unhash: {text}");
}
