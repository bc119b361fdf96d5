//! Tests that boot virtual machines. They are one program, so that the CPUs of the host stay busy until the last test; a program
//! for each file would end several times with one machine alone.

mod attacks;
mod bench;
mod common;
mod economies;
#[path = "../../../hosts/sim/src/entitlement.rs"]
mod entitlement;
#[path = "../../../core/tests/environment/mod.rs"]
mod environment;
mod experiments;
mod kernel;
mod load;
#[path = "../../../core/tests/random/mod.rs"]
mod random;
mod robust;
mod simulated;
mod status;
mod vm;
