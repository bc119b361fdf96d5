//! `tombola`: start, stop and watch the scheduler.

mod config;
mod currency;
mod daemon;
mod published;
mod reserve;
mod run;

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
use tombola_kernel::scheduler::{Options, SliceEnd};
use tombola_kernel::scheduler::{hold_signals, is_signalled};

/// CPU time by tickets: a Linux scheduler for lottery and stride scheduling.
///
/// lnice, lrenice, lsetbase and ltix give tickets and report them; this command starts, stops and watches the scheduler, and
/// makes currencies and reservations.
#[derive(Parser)]
#[command(
    name = "tombola",
    version,
    after_help = "\
Exit status: 0 done; 1 refused or not running; 2 wrongly called.

If a machine no longer answers: Alt-SysRq-Shift-S gives it back to the kernel's own scheduler. So does ending `tombola start` in
whatever way, and the kernel itself does it if a thread that wants to run has not run for 30 seconds."
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Start(Start),
    /// Give the machine back to the kernel's own scheduler. As root
    Stop,
    /// Read the rules again. As root
    Reload,
    Status(Status),
    Tree(Tree),
    Trace(Trace),
    /// Money of one's own: make, fund, move, retire and list currencies, put processes into them
    #[command(subcommand)]
    Currency(currency::Currency),
    Run(run::Run),
    Reserve(reserve::Reserve),
    Release(reserve::Release),
    /// The rules in /etc/tombola.toml
    #[command(subcommand)]
    Config(Config),
    /// Experiments and the virtual machine (the program tombola-lab)
    #[command(disable_help_flag = true)]
    Lab {
        /// For tombola-lab
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

/// Schedule this machine, until ctrl-C or `tombola stop`. As root
///
/// Stays in the foreground, prints a line when scheduling has begun, and tells systemd (Type=notify). All threads except
/// real-time, deadline and the kernel's own are scheduled by tickets from then on; each user begins with 1000 base tickets if the
/// rules don't say otherwise, or with what was set with lsetbase last; each process with 100. SIGHUP and `tombola reload` have
/// the rules read again. The exit status is 1 if there is something wrong with the rules, or the kernel ejected the scheduler.
#[derive(clap::Args)]
struct Start {
    /// stride: shares are exact within about a quantum. lottery: each decision is drawn
    #[arg(long, value_enum, default_value_t = PolicyName::Stride)]
    policy: PolicyName,

    /// How long the one who is drawn may run while others wait: 100us to 100ms
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration::quantum)]
    quantum: Duration,

    /// End a quantum when it is due, by a timer, or at the kernel's next tick, which is cheaper and coarser
    #[arg(long, value_enum, default_value_t = SliceEndName::Timer)]
    slice_end: SliceEndName,

    /// The rules; /etc/tombola.toml if not said, and the defaults if that does not exist
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Say how many instructions of each program the kernel's verifier looked at
    #[arg(short, long)]
    verbose: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    Stride,
    Lottery,
}

#[derive(Clone, Copy, ValueEnum)]
enum SliceEndName {
    Timer,
    Tick,
}

/// Who schedules, and who is entitled to and receives how much of the CPUs
///
/// The percentages are of the whole machine. Entitled is what a user's or a process's tickets give while the same ones want
/// to run, as far as it can be used: a thread uses at most one CPU, and what one cannot use is shared by the others. If the
/// kernel has ejected Tombola since the machine was switched on, for a fault, a stall or SysRq-S, the last time is told.
#[derive(clap::Args)]
struct Status {
    /// As JSON; times in CPUs
    #[arg(long)]
    json: bool,

    /// How long to watch
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,

    /// Also users and processes that neither wanted nor received anything
    #[arg(short, long)]
    all: bool,
}

/// The whole economy: who is in whose money, what that is worth, and what it brings
///
/// WORTH is in base tickets, while it wants to run: a user's base tickets, and of what is in a currency its part of what that is
/// worth. The percentages are of the whole machine, as `tombola status` has them. What is in other users' currencies is shown to
/// root only.
#[derive(clap::Args)]
struct Tree {
    /// As JSON; times in CPUs
    #[arg(long)]
    json: bool,

    /// How long to watch
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Duration,

    /// Only who wanted or received something, and the frozen
    #[arg(long)]
    active: bool,
}

/// One row for each draw, while it runs. As root
///
/// Columns: TIME when the run ended, since the first row; RAN for how long; TICKETS of the process, OF all tickets in that draw;
/// VALUE its share of the machine's draw; COMP its compensation for what it left of the quantum, in percent of its tickets; END
/// how the run ended: kept, it was drawn again; preempted, by another's wake-up.
#[derive(clap::Args)]
struct Trace {
    /// As JSON, a line for each draw; times in ns, values and compensation as ratios
    #[arg(long)]
    json: bool,

    /// End after so many rows
    #[arg(short = 'n', long, value_name = "ROWS")]
    rows: Option<u64>,
}

/// Commands that belong together, as the help shows them.
const GROUPS: [(&str, &[&str]); 4] = [
    ("The scheduler", &["start", "stop", "reload", "config"]),
    ("Who gets what", &["status", "tree", "trace"]),
    ("Money", &["currency", "run", "reserve", "release"]),
    ("More", &["lab", "help"]),
];

// Clap knows headings for options only.
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
        // Who is killed by a closed pipe leaves the trace switched on.
        Command::Trace(args) => report("tombola", || print_trace(&args)),
        Command::Config(Config::Check(args)) => run("tombola", || config::check(&args)),
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
    }
}

// What the kernel says is printed even when Tombola does not run: that is what one asks for then.
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
    let signals = hold_signals();
    let missing = tombola_kernel::trace::follow(
        |draw| printer.print(draw, &mut *out.borrow_mut()),
        || out.borrow_mut().flush().is_err() || is_signalled(&signals),
    )?;
    let _ = out.borrow_mut().flush(); // nobody reads any more: nothing to be done
    if missing > 0 {
        eprintln!("tombola: {missing} runs are missing: they ended faster than they were read");
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

// In a build directory the programs lie together, installed they may not: then PATH knows.
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

    /// The commands that have none below them, each with its name in full.
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
    fn the_help_of_each_command_says_what_is_to_be_said() {
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
            // Which options there are is not yet what they mean together.
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
    fn the_help_of_trace_explains_its_columns() {
        let mut command = grouped(Args::command());
        let help = command
            .find_subcommand_mut("trace")
            .unwrap()
            .render_long_help()
            .to_string();
        for column in ["TIME", "RAN", "TICKETS", "OF", "VALUE", "COMP", "END"] {
            assert!(help.contains(column), "{column}: {help}");
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
