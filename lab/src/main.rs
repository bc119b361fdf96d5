use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use std::path::PathBuf;
use std::process::ExitCode;
use tombola_lab::bench::cli::BenchArgs;
use tombola_lab::compile::cli::TraceArgs;
use tombola_lab::demo::DemoArgs;
use tombola_lab::experiments::{EXPERIMENTS, find};
use tombola_lab::play::On;
use tombola_lab::vm::cli::VmArgs;

const USAGE_ERROR: u8 = 2;

/// The command line: the tools, and every experiment by its name.
fn command() -> Command {
    let experiments = EXPERIMENTS.iter().map(|experiment| {
        let out = Arg::new("out")
            .long("out")
            .value_name("DIR")
            .value_parser(clap::value_parser!(PathBuf))
            .help(format!(
                "Where to write the result, its series and pictures [default: out/{0}; simulated: out/{0}-simulated]",
                experiment.name
            ));
        let simulate = Arg::new("simulate")
            .long("simulate")
            .action(ArgAction::SetTrue)
            .help("Run it on a simulated machine, which has no scheduler of the kernel's own");
        Command::new(experiment.name)
            .about(experiment.about)
            .after_help(format!("From: {}", experiment.source))
            .arg(out)
            .arg(simulate)
    });
    Command::new("tombola-lab")
        .about("Tombola's laboratory")
        .version(env!("CARGO_PKG_VERSION"))
        .arg(
            Arg::new("list")
                .long("list")
                .action(ArgAction::SetTrue)
                .help("List the experiments"),
        )
        .subcommand_negates_reqs(true)
        .arg_required_else_help(true)
        .subcommand(
            DemoArgs::augment_args(Command::new("demo"))
                .about("Three users with 3:2:1 tickets on a real kernel, in a virtual machine"),
        )
        .subcommand(
            BenchArgs::augment_args(Command::new("bench"))
                .about("Measure share error, the cost of scheduling or programs, one case by hand"),
        )
        .subcommand(
            VmArgs::augment_args(Command::new("vm"))
                .about("Run a command in a virtual machine whose kernel has sched_ext"),
        )
        .subcommand(
            TraceArgs::augment_args(Command::new("trace-compile"))
                .about("Trace the compile of `multi-queue` on this machine, and write its processes to a file"),
        )
        .subcommands(experiments)
}

fn run(matches: &ArgMatches) -> Result<u8> {
    match matches.subcommand() {
        Some(("demo", own)) => DemoArgs::from_arg_matches(own)?.run(),
        Some(("bench", own)) => BenchArgs::from_arg_matches(own)?.run(),
        Some(("trace-compile", own)) => TraceArgs::from_arg_matches(own)?.run(),
        Some(("vm", own)) => VmArgs::from_arg_matches(own)?.run(),
        Some((name, own)) => {
            let experiment = find(name).expect("clap lets through what there is");
            let simulated = own.get_flag("simulate");
            if simulated && let Some(obstacle) = experiment.obstacle() {
                eprintln!(
                    "tombola-lab: {name} does not take --simulate\n  cause: {obstacle}\n  \
                     next:  run it without; --list shows which experiments take it"
                );
                return Ok(USAGE_ERROR);
            }
            let (on, folder) = match simulated {
                true => (On::Simulation, format!("{name}-simulated")),
                false => (On::Kernel, name.to_owned()),
            };
            let out = own.get_one::<PathBuf>("out").cloned();
            experiment.carry_out(on, out.unwrap_or_else(|| PathBuf::from("out").join(folder)))
        }
        None => {
            list();
            Ok(0)
        }
    }
}

fn list() {
    for experiment in EXPERIMENTS {
        let simulated = match experiment.obstacle() {
            None => "; can be simulated: --simulate",
            Some(_) => "",
        };
        println!(
            "{:22} {}\n{:22} from: {}{simulated}",
            experiment.name, experiment.about, "", experiment.source
        );
    }
}

fn main() -> ExitCode {
    match run(&command().get_matches()) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            eprintln!("tombola-lab: {error:#}");
            ExitCode::from(125) // as env and timeout do for their own failures
        }
    }
}
