//! `tombola`: starts, stops and watches the scheduler.

mod config;
mod currency;
mod daemon;
mod lend;
mod published;
mod reserve;
mod run;
mod simulate;

use crate::arguments::EXIT_STATUS;
use crate::plan::{Balance, RunQueue};
use crate::{duration, ejection, report, run, status, trace, tree};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command as Program, ExitCode};
use std::time::Duration;
use tombola_kernel::Result;
use tombola_kernel::calls::{Client, Policy};
use tombola_kernel::scheduler::{self, Options, SliceEnd, Transfer};
use tombola_kernel::scheduler::{block_signals, is_signalled};

/// CPU time by tickets: a Linux scheduler for lottery and stride scheduling.
///
/// lnice, lrenice, lsetbase and ltix set and report tickets; this command starts, stops and watches the scheduler, and
/// makes currencies and reservations.
#[derive(Parser)]
#[command(
    name = "tombola",
    version,
    after_help = "\
Exit status: 0 done; 1 refused or not running; 2 usage error.

If a machine no longer answers: Alt-SysRq-Shift-S returns all threads to the kernel's own scheduler. So does any end of
`tombola start`, also by SIGKILL. The kernel does it by itself if a runnable thread has not run for 30 seconds."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Start(Start),
    /// Stop the scheduler; the kernel's own scheduler takes over (needs root)
    ///
    /// Asks the daemon to end, waits for at most 30 s until the kernel reports the scheduler disabled, and prints the state
    /// before and after.
    #[command(
        after_help = "Exit status: 0 done; 1 refused, or not ended within 30 s; 2 usage error."
    )]
    Stop,
    /// Make the daemon read the rules again (needs root)
    ///
    /// Waits for at most 30 s until the rules hold. If they have errors, it prints all of them, and the former rules remain in
    /// force.
    #[command(
        after_help = "Exit status: 0 done; 1 refused, or no answer within 30 s; 2 usage error."
    )]
    Reload,
    Status(Status),
    Tree(Tree),
    Trace(Trace),
    /// Make, fund, move, retire and list currencies; move processes between them
    #[command(subcommand)]
    Currency(currency::Currency),
    Run(run::Run),
    Reserve(reserve::Reserve),
    Release(reserve::Release),
    Lend(lend::Lend),
    Reclaim(lend::Reclaim),
    /// Check the rules in /etc/tombola.toml
    #[command(subcommand)]
    Config(Config),
    Simulate(simulate::Simulate),
    /// Run experiments and the virtual machine (the program tombola-lab)
    #[command(disable_help_flag = true)]
    Lab {
        /// The arguments of tombola-lab
        #[arg(
            trailing_var_arg = true,
            allow_hyphen_values = true,
            value_name = "ARGS"
        )]
        arguments: Vec<OsString>,
    },
}

#[derive(Subcommand)]
enum Config {
    Check(config::Check),
}

/// Run the scheduler until ctrl-C or `tombola stop` (needs root)
///
/// Stays in the foreground. When scheduling has begun, it prints a line and notifies systemd (Type=notify). From then on all
/// threads are scheduled by tickets, except real-time, deadline and kernel threads. Each process starts with 100 tickets. Each
/// user starts with the base tickets in the rules, else with those last set by lsetbase, else with the default (1000 unless the
/// rules set another). If the rules have errors, it prints all of them and does not start. On SIGHUP and `tombola reload` it
/// reads the rules again.
#[derive(clap::Args)]
#[command(after_help = "\
Exit status: 0 after ctrl-C, `tombola stop`, SIGTERM or SysRq-S; 1 not started, or ejected for another reason; 2 usage error.")]
struct Start {
    /// stride: shares are exact within about a quantum; lottery: each decision is a random draw
    #[arg(long, value_enum, default_value_t = PolicyName::Stride)]
    policy: PolicyName,

    /// The slice of a drawn thread while others wait: 100us to 100ms
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration::quantum)]
    quantum: Duration,

    /// What ends slices: a timer when they are due, or the kernel's next tick, which is cheaper and coarser
    #[arg(long, value_enum, default_value_t = SliceEndName::Timer)]
    slice_end: SliceEndName,

    /// Which CPUs share a run queue. Each queue has its own lock
    #[arg(long, value_enum, default_value_t)]
    run_queue: RunQueue,

    /// By which rule threads move between several run queues (default: clock)
    #[arg(long, value_enum)]
    balance: Option<Balance>,

    /// Which loans of tickets are made: none, those by call or command, or also those of threads that wait for another one of the
    /// same user (default: auto with one run queue, off with several)
    #[arg(long, value_enum)]
    transfer: Option<TransferName>,

    /// The rules file; by default /etc/tombola.toml, which need not exist
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Print how many instructions the kernel's verifier processed for each BPF program
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    Stride,
    Lottery,
}

#[derive(Clone, Copy, ValueEnum)]
enum TransferName {
    Off,
    Explicit,
    Auto,
}

#[derive(Clone, Copy, ValueEnum)]
enum SliceEndName {
    Timer,
    Tick,
}

/// Show the scheduler, and the CPU time that users and processes are entitled to and receive
///
/// The percentages are of the whole machine. A client is entitled to the CPU time that its tickets give, as far as it can use it:
/// a thread uses at most one CPU, and the others share what it cannot use. If the kernel has ejected Tombola since boot, the
/// last ejection is shown, of whatever kind. If Tombola does not run, the kernel's state is shown all the same.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 done; 1 refused or not running; 2 usage error.")]
struct Status {
    /// Print JSON; times are in CPUs
    #[arg(long)]
    json: bool,

    /// How long to watch, with a unit: 500ms, 10s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,

    /// Show also users and processes that were entitled to nothing and received nothing
    #[arg(short, long)]
    all: bool,
}

/// Show the tree of currencies, with tickets, their value, and CPU time
///
/// WORTH is the value of a node's tickets in base tickets, while it is runnable: for a user its base tickets, for a client of a
/// currency its part of the currency's value. The percentages are of the whole machine, as in `tombola status`. Without
/// CAP_SYS_NICE you do not see the currencies that other users have made.
#[derive(clap::Args)]
#[command(after_help = "Exit status: 0 done; 1 refused or not running; 2 usage error.")]
struct Tree {
    /// Print JSON; times are in CPUs
    #[arg(long)]
    json: bool,

    /// How long to watch, with a unit: 500ms, 10s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,

    /// Show only nodes that were entitled to something or received something, and frozen ones
    #[arg(long)]
    active: bool,
}

/// Print one row for each run of a thread (needs root)
///
/// Prints until ctrl-C. Columns: TIME when the run ended, in seconds since the first row; PAYER the process on whose tickets the
/// thread ran, if that was another one; RAN how long it ran, in ms; TICKETS of its process, OF all tickets in that draw; VALUE
/// the process's share of the machine, by tickets; COMP its compensation for the unused part of the quantum, in percent of its
/// tickets; END how the run ended: kept (the thread was drawn again), or preempted (by another thread's wake-up or a yield).
/// Only one trace can run at a time; if it is too slow, runs are missing.
#[derive(clap::Args)]
#[command(after_help = EXIT_STATUS)]
struct Trace {
    /// Print JSON, a line for each run; times are in ns, value and compensation are ratios
    #[arg(long)]
    json: bool,

    /// End after this number of rows
    #[arg(short = 'n', long, value_name = "ROWS")]
    rows: Option<u64>,
}

/// Commands that belong together, as the help shows them.
const GROUPS: [(&str, &[&str]); 5] = [
    ("The scheduler", &["start", "stop", "reload", "config"]),
    ("Reports", &["status", "tree", "trace"]),
    (
        "Currencies and reservations",
        &["currency", "run", "reserve", "release"],
    ),
    ("Loans of tickets", &["lend", "reclaim"]),
    ("More", &["simulate", "lab", "help"]),
];

// Clap has headings for options only.
fn grouped(mut command: clap::Command) -> clap::Command {
    command.build();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        text += &format!("\n{heading}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(|of| of.get_about());
            text += &format!("  {name:10}{}\n", about.cloned().unwrap_or_default());
        }
    }
    command.help_template(text + "\nOptions:\n{options}{after-help}")
}

fn parse() -> Args {
    let matches = grouped(Args::command()).get_matches();
    Args::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

pub fn command() -> clap::Command {
    Args::command()
}

pub fn main() -> ExitCode {
    match parse().command {
        Command::Start(start) => {
            daemon::start(&options(&start), start.verbose, start.rules.as_deref())
        }
        Command::Stop => run("tombola", daemon::stop),
        Command::Reload => run("tombola", daemon::reload),
        Command::Status(args) => run("tombola", || print_status(&args)),
        Command::Tree(args) => run("tombola", || print_tree(&args)),
        Command::Currency(command) => run("tombola", || currency::currency(&command)),
        Command::Run(args) => run("tombola", || run::run(&args)),
        Command::Reserve(args) => run("tombola", || reserve::reserve(&args)),
        Command::Release(args) => run("tombola", || reserve::release(&args)),
        Command::Lend(args) => run("tombola", || lend::lend(&args)),
        Command::Reclaim(args) => run("tombola", || lend::reclaim(&args)),
        // Not `run`: a process that SIGPIPE kills leaves the trace switched on.
        Command::Trace(args) => report("tombola", || print_trace(&args)),
        Command::Config(Config::Check(args)) => run("tombola", || config::check(&args)),
        Command::Simulate(args) => run("tombola", || simulate::simulate(&args)),
        Command::Lab { arguments } => lab(&arguments),
    }
}

fn options(start: &Start) -> Options {
    Options {
        policy: match start.policy {
            PolicyName::Stride => Policy::Stride,
            PolicyName::Lottery => Policy::Lottery,
        },
        quantum_ns: u64::try_from(start.quantum.as_nanos()).unwrap_or(u64::MAX),
        slice_end: match start.slice_end {
            SliceEndName::Timer => SliceEnd::Timer,
            SliceEndName::Tick => SliceEnd::Tick,
        },
        run_queue: match start.run_queue {
            RunQueue::Auto => tombola_kernel::RunQueue::Auto,
            RunQueue::Machine => tombola_kernel::RunQueue::Machine,
            RunQueue::Llc => tombola_kernel::RunQueue::Llc,
            RunQueue::Cpu => tombola_kernel::RunQueue::Cpu,
        },
        balance: start.balance.map(|balance| match balance {
            Balance::Clock => scheduler::Balance::Clock,
            Balance::Mqs => scheduler::Balance::Mqs,
        }),
        transfer: start.transfer.map(|transfer| match transfer {
            TransferName::Off => Transfer::Off,
            TransferName::Explicit => Transfer::Explicit,
            TransferName::Auto => Transfer::Auto,
        }),
    }
}

// Prints the kernel's state even if Tombola does not run: then it is what the caller needs.
fn print_status(args: &Status) -> Result<ExitCode> {
    let found = Client::open().and_then(|client| status::watch(&client, args.interval, args.all));
    let (tombola, error) = match found {
        Ok(tombola) => (Some(tombola), None),
        Err(error) => (None, Some(error)),
    };
    let report = status::Report {
        kernel: status::kernel(),
        ejection: ejection::last(),
        tombola,
    };
    if args.json {
        let json = serde_json::to_string_pretty(&report).expect("a report is plain data");
        println!("{json}");
    } else {
        print!("{}", status::kernel_text(&report.kernel));
        if let Some(ejection) = &report.ejection {
            print!("{}", ejection::text(ejection));
        }
        if let Some(tombola) = &report.tombola {
            print!("{}", status::text(tombola));
        }
    }
    error.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn print_tree(args: &Tree) -> Result<ExitCode> {
    let tree = tree::watch(&Client::open()?, args.interval, args.active)?;
    if args.json {
        let json = serde_json::to_string_pretty(&tree).expect("a tree is plain data");
        println!("{json}");
    } else {
        print!("{}", tree::text(&tree));
    }
    Ok(ExitCode::SUCCESS)
}

fn print_trace(args: &Trace) -> Result<ExitCode> {
    let mut printer = trace::Printer::new(args.json, args.rows);
    let out = RefCell::new(BufWriter::new(io::stdout()));
    let signals = block_signals();
    let missing = tombola_kernel::trace::follow(
        |draw| printer.print(draw, &mut *out.borrow_mut()),
        || out.borrow_mut().flush().is_err() || is_signalled(&signals),
    )?;
    let _ = out.borrow_mut().flush(); // fails only if the reader has exited
    if missing > 0 {
        eprintln!(
            "tombola: {missing} runs are missing: they ended faster than they were read\n  \
             cause: the terminal, or the program that reads the rows, is too slow\n  \
             next:  write to a file: tombola trace >FILE"
        );
    }
    Ok(ExitCode::SUCCESS)
}

const LAB: &str = "tombola-lab";

fn lab(arguments: &[OsString]) -> ExitCode {
    let error = Program::new(beside_us(LAB)).args(arguments).exec();
    eprintln!(
        "tombola: cannot run {LAB}: {error}\n  \
         cause: it is not installed; it comes with the source, not with the scheduler\n  \
         next:  build it (cargo build --release -p tombola-lab), or add its directory to PATH"
    );
    ExitCode::FAILURE
}

// A build directory contains all programs; an installed program may be elsewhere, in PATH.
fn beside_us(program: &str) -> PathBuf {
    std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.join(program)))
        .filter(|path| path.exists())
        .unwrap_or_else(|| program.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands without subcommands, each with its full name.
    fn leaves(command: &clap::Command, above: &str, found: &mut Vec<(String, clap::Command)>) {
        for of in command
            .get_subcommands()
            .filter(|of| of.get_name() != "help")
        {
            let name = format!("{above} {}", of.get_name());
            match of.has_subcommands() {
                true => leaves(of, &name, found),
                false => found.push((name, of.clone())),
            }
        }
    }

    #[test]
    fn the_help_of_each_command_is_complete() {
        let mut command = grouped(Args::command());
        command.build();
        let mut found = Vec::new();
        leaves(&command, "tombola", &mut found);
        assert!(found.len() > 15, "{}", found.len());
        for (name, mut command) in found {
            let about = command
                .get_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(!about.is_empty() && about.len() < 100, "{name}: {about}");
            let silent: Vec<_> = command
                .get_arguments()
                .filter(|of| of.get_help().is_none())
                .collect();
            assert!(silent.is_empty(), "{name}: {silent:?}");
            // A list of arguments does not tell what they do together.
            let arguments = command
                .get_arguments()
                .filter(|of| of.get_id() != "help")
                .count();
            let says_more =
                command.get_long_about().is_some() || command.get_after_help().is_some();
            assert!(
                arguments < 2 || says_more,
                "{name} has {arguments} arguments and no long help"
            );
            let long = command.render_long_help().to_string();
            let text = command
                .get_long_about()
                .map(ToString::to_string)
                .unwrap_or_default();
            let last_words = text.split_whitespace().last().unwrap_or_default();
            assert!(long.contains(last_words), "{name}: {long}");
        }
    }

    #[test]
    fn the_help_of_tables_explains_their_columns() {
        let mut command = grouped(Args::command());
        for (name, columns) in [
            ("trace", "TIME RAN TICKETS OF VALUE COMP END"),
            (
                "simulate",
                "COUNT TICKETS ENTITLED RECEIVED WORST WAKE-UPS P99 MAX SWITCHES MIGRATIONS",
            ),
        ] {
            let of_name = command.find_subcommand_mut(name).unwrap();
            let help = of_name.render_long_help().to_string();
            for column in columns.split(' ') {
                assert!(help.contains(column), "{column}: {help}");
            }
        }
    }

    #[test]
    fn each_command_is_in_one_group_of_the_help() {
        let mut command = Args::command();
        command.build();
        let mut known: Vec<&str> = command.get_subcommands().map(|of| of.get_name()).collect();
        let mut shown: Vec<&str> = GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        known.sort_unstable();
        shown.sort_unstable();
        assert_eq!(shown, known);
    }
}
