//! `tombola-lab bench`: single measurements by hand, for instance of a scheduler that was changed a moment ago.

use super::boot::own_programs;
use super::cases::{CASES, Case};
use super::cost::{self, Contestant, Costs, Crowd};
use super::programs::{self, Clock, Host, PROGRAMS, Program};
use super::scheduler::Scheduler;
use super::shares::{self, INTERVAL_S, Point, WINDOWS};
use crate::vm::Kernel;
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Mean and largest share error, by window length
    Shares {
        /// Cases of lab/src/bench/cases.rs; if none is named, all that are meant for so many CPUs
        #[arg(long, value_delimiter = ',', value_parser = case)]
        case: Vec<&'static Case>,
        #[arg(long, value_delimiter = ',', default_value = "2")]
        cpus: Vec<u32>,
        #[command(flatten)]
        common: Common,
    },
    /// Instructions per slice end, and per wake-up and switch
    Cost {
        #[arg(long, default_value_t = 20)]
        tasks: u32,
        #[arg(long, default_value_t = 10)]
        users: u32,
        /// Currencies of the one user that the tasks are spread over, each in the one before it, up to 8 deep; for Tombola only
        #[arg(long, default_value_t = 0)]
        currencies: u32,
        #[command(flatten)]
        common: Common,
    },
    /// Figures of Debian's programs, and how often the CPUs switch meanwhile
    Programs {
        /// Programs of lab/src/bench/programs.rs, or beginnings of their names; all if none is named
        #[arg(long, value_delimiter = ',', value_parser = programs::find)]
        program: Vec<Vec<&'static Program>>,
        /// Number of CPUs; one runs in counted time, several in real time
        #[arg(long, value_delimiter = ',', default_value = "1")]
        cpus: Vec<u32>,
        /// Counted time on several CPUs, too: every run is the same, but time is the instructions of all busy CPUs together
        #[arg(long)]
        counted: bool,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args)]
struct Common {
    /// stride, stride-tick, lottery, lottery-tick, eevdf, eevdf-tick, scx_flash, scx_rusty
    #[arg(long, value_delimiter = ',', default_value = "stride", value_parser = Scheduler::find)]
    scheduler: Vec<&'static Scheduler>,
    /// The kernel, if not the newest on which the scheduler runs
    #[arg(long, value_enum)]
    kernel: Option<Kernel>,
    /// Repeat with so many seeds; in real time, so many times
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// Directory of Tombola's programs, if not target/release
    #[arg(long)]
    programs: Option<PathBuf>,
}

fn case(name: &str) -> Result<&'static Case, String> {
    let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
    CASES
        .iter()
        .find(|case| case.name == name)
        .ok_or_else(|| format!("the cases are {}", names.join(", ")))
}

impl BenchArgs {
    pub fn run(&self) -> Result<u8> {
        match &self.what {
            What::Shares { case, cpus, common } => {
                let measured = shares::measure(&common.points(case, cpus), &common.programs()?)?;
                print_shares(&measured);
            }
            What::Cost {
                tasks,
                users,
                currencies,
                common,
            } => {
                let crowd = Crowd {
                    tasks: *tasks,
                    users: *users,
                    currencies: *currencies,
                };
                let costs = cost::measure(&common.contestants(), &[crowd], &common.programs()?)?;
                print_costs(&costs);
            }
            What::Programs {
                program,
                cpus,
                counted,
                common,
            } => {
                let chosen = match program.is_empty() {
                    true => PROGRAMS.iter().collect(),
                    false => program.concat(),
                };
                for &cpus in cpus {
                    let (hosts, runs) = (common.hosts(), common.seeds);
                    print_programs(&programs::measure(
                        &hosts,
                        cpus,
                        &chosen,
                        if *counted {
                            Clock::Counted
                        } else {
                            Clock::of(cpus)
                        },
                        runs,
                        &common.programs()?,
                    )?);
                }
            }
        }
        Ok(0)
    }
}

impl Common {
    fn programs(&self) -> Result<PathBuf> {
        self.programs.clone().map_or_else(own_programs, Ok)
    }

    fn contestants(&self) -> Vec<Contestant> {
        let with_seed = |seed| {
            let hosts = self.hosts().into_iter();
            hosts.map(move |Host { scheduler, kernel }| Contestant {
                scheduler,
                kernel,
                seed,
            })
        };
        (0..self.seeds).flat_map(with_seed).collect()
    }

    fn hosts(&self) -> Vec<Host> {
        let host = |&scheduler: &&'static Scheduler| Host {
            scheduler,
            kernel: self.kernel.unwrap_or(scheduler.kernel),
        };
        self.scheduler.iter().map(host).collect()
    }

    fn points(&self, cases: &[&'static Case], cpus: &[u32]) -> Vec<Point> {
        let mut points = Vec::new();
        for Contestant {
            scheduler,
            kernel,
            seed,
        } in self.contestants()
        {
            for &cpus in cpus {
                for case in CASES.iter().filter(|case| case.cpus.contains(&cpus)) {
                    if cases.is_empty() || cases.iter().any(|wanted| wanted.name == case.name) {
                        points.push(Point {
                            scheduler,
                            kernel,
                            cpus,
                            caches: scheduler.caches(),
                            case,
                            seed,
                        });
                    }
                }
            }
        }
        points
    }
}

fn print_shares(measured: &[shares::Measured]) {
    print!("mean/max error %, windows of");
    for length in WINDOWS {
        print!(" {:.1}", length as f64 * INTERVAL_S);
    }
    println!(" s; largest lag, utilisation, switches a second");
    for shares::Measured { point, shares, .. } in measured {
        print!(
            "{:<13}{} CPUs {:<10} seed {}",
            point.scheduler.name, point.cpus, point.case.name, point.seed
        );
        for window in shares.windows.iter().flatten() {
            print!("{:>7.2}/{:<7.2}", window.mean * 100.0, window.max * 100.0);
        }
        println!(
            "{:>9.2} ms {:.2} % {:.0}/s",
            shares.lag_max_ms,
            shares.utilisation * 100.0,
            shares.switches_per_second
        );
    }
}

fn print_costs(all: &[Costs]) {
    for costs in all {
        let Contestant {
            scheduler,
            kernel,
            seed,
        } = costs.contestant;
        for cost in &costs.costs {
            println!(
                "{:<13} {kernel:?} seed {seed}, {} tasks of {} users: slice end {:.0} ({:.0} switches a second, \
                 overhead {:.2} %), wake and switch {:.0} (alone {:.0}; crowd took {:.1} %)",
                scheduler.name,
                cost.crowd.tasks,
                cost.crowd.users,
                cost.slice_end,
                cost.switches_per_second,
                cost.overhead * 100.0,
                cost.wake,
                costs.wake_alone,
                cost.taken * 100.0
            );
        }
    }
}

/// A line for each figure under each scheduler, in the order of the programs.
fn print_programs(measured: &[programs::Measured]) {
    let Some(first) = measured.first() else {
        return;
    };
    let names = measured.iter().take_while(|other| other.host == first.host);
    for program in names.map(|measured| measured.program) {
        for own in measured
            .iter()
            .filter(|measured| measured.program.name == program.name)
        {
            for (number, figure) in program.figures.iter().enumerate() {
                let values: Vec<_> = own
                    .runs
                    .iter()
                    .map(|run| format!("{:.2}", run.figures[number]))
                    .collect();
                println!(
                    "{} CPUs {:<22}{:<13}{:>12.2} {:<11}{:>9} switches; runs: {}",
                    own.cpus,
                    program.name,
                    own.host.scheduler.name,
                    own.figure(number).unwrap_or(f64::NAN),
                    figure.name,
                    own.context_switches().unwrap_or(f64::NAN),
                    values.join(" ")
                );
            }
        }
    }
}
