//! `tombola simulate`: runs a plan on a simulated machine.

use crate::plan::{self, Balance, RunQueue, Scheduler, Settings};
use crate::simulate::{Curves, Progress, json, text};
use std::path::PathBuf;
use std::process::ExitCode;
use tombola_sim::plan::{Plan, TooManyTasks, run};

/// Bad plans are usage errors: nothing was simulated.
const BAD_PLAN: u8 = 2;

/// Simulate a machine: what would the tasks of a plan receive?
///
/// PLAN is a file in TOML that describes a machine, users, currencies, tasks and what these do. The time is virtual, so nothing
/// runs on this machine, and the same plan with the same seed gives the same result. A file whose name ends in .json is read as
/// rt-app's. docs/simulate.md describes both formats, and what the simulated machine has.
///
/// Columns: COUNT of alike tasks; TICKETS at the beginning; ENTITLED the CPU time that the tickets give, as far as it can
/// be used, in % of all CPUs; RECEIVED the CPU time that the tasks had; WORST the largest distance between the two since
/// the beginning, of one task or of the whole currency; WAKE-UPS of tasks; P99 the time that 99 of 100 wake-ups waited for
/// a CPU at most, MAX the longest; SWITCHES to these tasks; MIGRATIONS those on another CPU than before. A task's children
/// belong to its row, and a currency's clients to the currency's.
#[derive(clap::Args)]
#[command(after_help = concat!(
    "A plan with all parts:\n\n",
    include_str!("../../plan/example.toml"),
    "\nExit status: 0 done; 1 the programs forked too many tasks, or the plot cannot be written; \
     2 usage error, or the plan has errors."
))]
pub struct Simulate {
    /// The plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// CPUs of the machine, whatever the plan says: 1 to 4096
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=plan::CPUS_MAX))]
    cpus: Option<u64>,

    /// The scheduler, whatever the plan says
    #[arg(long, value_enum, value_name = "NAME")]
    scheduler: Option<Scheduler>,

    /// Which CPUs share one of Tombola's run queues, whatever the plan says
    #[arg(long, value_enum, value_name = "WHICH")]
    run_queue: Option<RunQueue>,

    /// By which rule tasks move between several run queues, whatever the plan says
    #[arg(long, value_enum, value_name = "RULE")]
    balance: Option<Balance>,

    /// The seed of all chance, whatever the plan says
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Print JSON; times are in ns
    #[arg(long)]
    json: bool,

    /// With --json: CPU time entitled to and received, each tenth of a second and at changes
    #[arg(long, requires = "json")]
    samples: bool,

    /// Write NAME.svg and NAME.png: CPU time received and entitled to, over time
    #[arg(long, value_name = "NAME")]
    plot: Option<String>,
}

pub fn simulate(args: &Simulate) -> Result<ExitCode, String> {
    let settings = Settings {
        cpus: args.cpus.map(|cpus| cpus as usize),
        scheduler: args.scheduler,
        run_queue: args.run_queue,
        balance: args.balance,
        seed: args.seed,
    };
    let loaded = match plan::read(&args.plan, &settings) {
        Ok(loaded) => loaded,
        Err(faults) => {
            // Without our name before them: editors look for FILE:LINE:COLUMN: at the beginning of a line.
            eprintln!(
                "{faults}\ntombola: {}; nothing was simulated",
                faults.summary()
            );
            return Ok(ExitCode::from(BAD_PLAN));
        }
    };
    let mut progress = Progress::new(loaded.plan.span_ns);
    let mut curves = args.plot.as_ref().map(|_| Curves::new(&loaded));
    let mut samples = args.samples.then(Vec::new);
    let report = run(&loaded.plan, |sample| {
        progress.at(sample.at_ns);
        if let Some(samples) = &mut samples {
            samples.push(sample.clone());
        }
        if let Some(curves) = &mut curves {
            curves.add(sample);
        }
    });
    drop(progress);
    let report = report.map_err(|error| too_many_tasks(&loaded.plan, &error))?;
    if args.json {
        println!("{}", json(&loaded, &report, samples.as_deref()));
    } else {
        print!("{}", text(&loaded, &report));
    }
    if let (Some(curves), Some(name)) = (&curves, &args.plot) {
        curves.write(name)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn too_many_tasks(plan: &Plan, error: &TooManyTasks) -> String {
    format!(
        "too many tasks {:.1} s after the start: beside the users and currencies of this plan they are at most {}\n  \
         cause: programs fork faster than their children end\n  \
         next:  let them await their children, or let the children do less",
        error.at_ns as f64 / 1e9,
        plan.tasks_max()
    )
}
