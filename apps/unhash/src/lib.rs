//! Which number of a range has a given SHA-256? [`kernel`] tries one after another, as fast as the CPU can.

#![deny(unsafe_code, unsafe_op_in_unsafe_fn)]

pub mod kernel;
