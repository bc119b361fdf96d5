use clap::{Parser, Subcommand};
use std::process::ExitCode;
use tombola_lab::demo::DemoArgs;
use tombola_lab::vm::cli::VmArgs;

/// Tombola's laboratory.
#[derive(Parser)]
#[command(name = "tombola-lab", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Three users with 3:2:1 tickets on a real kernel, in a virtual machine
    Demo(DemoArgs),
    /// Run a command in a virtual machine whose kernel has sched_ext
    Vm(VmArgs),
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Demo(args) => args.run(),
        Command::Vm(args) => args.run(),
    };
    match result {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("tombola-lab: {error:#}");
            ExitCode::from(125) // as env and timeout do for their own failures
        }
    }
}
