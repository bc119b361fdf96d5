//! `ltix`: reports tickets.

use crate::amounts::FROZEN;
use crate::{amounts, names, run};
use clap::{Command, CommandFactory, Parser};
use nix::unistd::Uid;
use std::process::ExitCode;
use tombola_kernel::abi::QUANTUM_PARTS;
use tombola_kernel::{Result, calls::Client, user_name};

/// Report the process tickets of a process, or the base tickets of a user.
///
/// You may ask about all users and processes, except processes in a currency that another user has made: these need
/// CAP_SYS_NICE. Process tickets are from 1 to 10000, base tickets from 100 to 10000. A frozen process or user has 0, printed as
/// "frozen".
#[derive(Parser)]
#[command(
    name = "ltix",
    version,
    after_help = "\
Examples:
  ltix -u paul               paul's base tickets
  ltix -p 1235               the tickets of process 1235
  ltix -n -p $$              this shell's tickets, only the number, for scripts
  ltix -p 1235 -w -q         also how many slices it has begun, and its use of the quantum

Exit status: 0 done; 1 refused (no such process, Tombola not running); 2 usage error, also for an unknown user."
)]
struct Args {
    /// The process, by PID
    #[arg(short, long, value_parser = amounts::pid, allow_hyphen_values = true)]
    pid: Option<u32>,

    /// The user, by login name or uid; without -p and -u, you
    #[arg(short, long, conflicts_with = "pid", value_parser = names::uid, allow_hyphen_values = true)]
    user: Option<u32>,

    /// Print only the number of tickets; 0: frozen
    #[arg(short, long, conflicts_with_all = ["wins", "quantum"])]
    number: bool,

    /// Print also how many slices the process has begun
    #[arg(short, long, requires = "pid")]
    wins: bool,

    /// Print also how often the process gave up the CPU with 0/6, 1/6, … 6/6 of its quantum left: mostly 0/6 for a process that
    /// computes, mostly 6/6 for one that waits for input or devices
    #[arg(short, long, requires = "pid")]
    quantum: bool,
}

pub fn command() -> Command {
    Args::command()
}

pub fn main() -> ExitCode {
    let args = Args::parse();
    run("ltix", || ltix(&args))
}

fn ltix(args: &Args) -> Result<ExitCode> {
    let client = Client::open()?;
    let uid = args.user.unwrap_or_else(|| Uid::current().as_raw());
    let (whose, what, tickets) = match args.pid {
        Some(pid) => (process(pid), "tickets", client.tickets(pid)?),
        None => (user_name(uid), "base tickets", client.base_tickets(uid)?),
    };
    match args.number {
        true => println!("{tickets}"),
        false if tickets == FROZEN => println!("{whose}: frozen"),
        false => println!("{whose}: {tickets} {what}"),
    }
    if let Some(pid) = args.pid {
        print_details(args, &client, pid)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn process(pid: u32) -> String {
    format!("process {pid} ({})", names::process(pid))
}

fn print_details(args: &Args, client: &Client, pid: u32) -> Result<()> {
    if args.wins {
        println!("slices begun: {}", client.wins(pid)?);
    }
    if args.quantum {
        println!("quantum left  times");
        for (sixths, times) in client.quantum_use(pid)?.iter().enumerate() {
            println!("{sixths:>10}/{}  {times}", QUANTUM_PARTS - 1);
        }
    }
    Ok(())
}
