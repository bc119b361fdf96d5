//! A server that reverses hashes for clients who wait: which number of a range has a given SHA-256?
//!
//! ```text
//!   protocol   what goes over the wire
//!   kernel     tries one number after another, as fast as the CPU can
//!   stream     the requests of the challenge, and of others like it
//!   simulate   the same scheduling on a clock of its own
//! ```

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

pub mod kernel;
pub mod protocol;
pub mod simulate;
pub mod stream;
