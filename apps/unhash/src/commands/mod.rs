//! The program: what each command takes, checked before anything is done.

mod load;
mod serve;
mod simulate;
mod stream;
mod values;

use crate::engine;
use crate::kernel::Kernel;
use crate::output::{say, say_json, warn};
use crate::status;
use anyhow::{Context, Result};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use values::Misused;

#[derive(Parser)]
#[command(
    name = "unhash",
    version,
    about = "A server that reverses SHA-256 for clients who wait"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve requests: 49 bytes in, 8 bytes back
    Serve(serve::Serve),
    /// Ask a server as the client of the challenge does, and say the score
    Load(load::Load),
    /// The score of every order on a machine of a given speed, on a simulated clock
    Simulate(simulate::Simulate),
    /// What a server is doing
    Status {
        /// Where it was told to say so: `unhash serve --status ADDRESS`
        address: SocketAddr,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// The ways to search that there are, and what one core does with each
    Kernels {
        /// As JSON: million hashes a second
        #[arg(long)]
        json: bool,
    },
    #[command(hide = true)]
    Search {
        #[arg(long)]
        kernel: Kernel,
    },
}

/// Exit status: 0 if all went well, 1 if it failed or an answer was wrong, 2 if it was not understood.
#[must_use]
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(serve) => serve.run(),
        Command::Load(load) => load.run(),
        Command::Simulate(simulate) => simulate.run(),
        Command::Status { address, json } => say_status(address, json),
        Command::Kernels { json } => say_kernels(json),
        Command::Search { kernel } => engine::search(kernel, io::stdin(), io::stdout())
            .context("cannot talk with the server")
            .map(|()| ExitCode::SUCCESS),
    };
    done.unwrap_or_else(|error| match error.downcast::<Misused>() {
        Ok(misused) => Cli::command()
            .error(ErrorKind::ArgumentConflict, misused)
            .exit(),
        Err(error) => {
            warn(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    })
}

fn say_kernels(json: bool) -> Result<ExitCode> {
    let available = Kernel::ALL
        .into_iter()
        .filter(|kernel| kernel.is_available());
    let rates: BTreeMap<&str, f64> = available
        .map(|kernel| (kernel.name(), kernel.rate() / 1e6))
        .collect();
    if json {
        say_json(&rates)?;
        return Ok(ExitCode::SUCCESS);
    }
    for kernel in Kernel::ALL {
        let what = match rates.get(kernel.name()) {
            Some(rate) => format!("{rate:8.1} million hashes a second"),
            None => "this CPU lacks the instructions".to_owned(),
        };
        let default = if kernel == Kernel::best() {
            ", the default"
        } else {
            ""
        };
        say(format_args!("{kernel:10}{what}{default}"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn say_status(address: SocketAddr, json: bool) -> Result<ExitCode> {
    let status = status::ask(address).with_context(|| {
        format!("nothing at {address} says what it does; was it started with --status {address}?")
    })?;
    match json {
        true => say_json(&status)?,
        false => say(status)?,
    }
    Ok(ExitCode::SUCCESS)
}
