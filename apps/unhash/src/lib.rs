//! A server that reverses hashes for clients who wait: which number of a range has a given SHA-256?
//!
//! ```text
//!   protocol   what goes over the wire
//!   kernel     tries one number after another, as fast as the CPU can
//!   engine     who runs the kernel: threads, or processes
//!   dispatcher       what is known, what is being worked on, what is to be done: the pool
//!   serve      connections, each with one request, and what becomes of them
//!   status     what a server says of itself
//!   stream     the requests of the challenge, and of others like it
//!   load       makes them
//!   say        to people
//!   score      what the waiting comes to
//!   simulate   the same scheduling on a clock of its own
//!   commands   the program
//! ```

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

pub mod commands;
pub mod dispatcher;
pub mod engine;
pub mod kernel;
pub mod load;
mod output;
pub mod protocol;
pub mod score;
pub mod serve;
pub mod simulate;
pub mod status;
pub mod stream;
