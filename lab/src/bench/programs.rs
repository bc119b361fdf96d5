//! Debian's programs under a scheduler: the commands, how figures are read from their output, and what they must be.
//!
//! On one CPU time is counted, so a run is exact and one is enough. Counted time would misrepresent several CPUs (they draw on
//! one budget of instructions); there the machine runs in real time, which depends on what else the host does. So the
//! schedulers take turns, several times, and medians are compared.
//!
//! All programs run as ordinary users with the tickets they begin with, and as ordinary tasks.

use super::boot::{self, Boot};
use super::figures::{self, Read};
use super::scheduler::Scheduler;
use crate::explain::explain;
use crate::statistics::median;
use crate::vm::{Image, Kernel, Mode};
use crate::workspace::build_dir;
use anyhow::{Context, Result};
use std::path::Path;

pub struct Program {
    pub name: &'static str,
    /// Shell with the functions of programs.sh. CPUS is the number of CPUs, DURATION a time in seconds, WORK a factor of the
    /// amount of work.
    command: &'static str,
    pub figures: &'static [Figure],
}

/// A figure that a program prints.
pub struct Figure {
    pub name: &'static str,
    read: Read,
    pub bar: Bar,
}

/// What a figure must be, in parts of the same figure under the kernel's own scheduler.
#[derive(Clone, Copy)]
pub enum Bar {
    /// More is better.
    AtLeast(Parts),
    /// Less is better.
    AtMost(Parts),
}

#[derive(Clone, Copy)]
pub struct Parts {
    one_cpu: f64,
    more_cpus: f64,
}

const THROUGHPUT_ON_MORE_CPUS: f64 = 0.95;

const fn at_least(one_cpu: f64) -> Bar {
    Bar::AtLeast(Parts {
        one_cpu,
        more_cpus: THROUGHPUT_ON_MORE_CPUS,
    })
}

impl Bar {
    /// How much faster a scheduler is than another: more than 1 is better, whatever the figure is.
    pub fn speed(self, figure: f64, of: f64) -> f64 {
        match self {
            Bar::AtLeast(_) => figure / of,
            Bar::AtMost(_) => of / figure,
        }
    }

    /// The least `speed` that meets it.
    pub fn least_speed(self, cpus: u32) -> f64 {
        match self {
            Bar::AtLeast(parts) => parts.on(cpus),
            Bar::AtMost(parts) => 1.0 / parts.on(cpus),
        }
    }

    /// The bar in words, and whether `part` meets it.
    pub fn judge(self, cpus: u32, part: f64) -> (String, bool) {
        match self {
            Bar::AtLeast(parts) => {
                let least = parts.on(cpus);
                (format!("at least {least:.2}"), part >= least)
            }
            Bar::AtMost(parts) => {
                let most = parts.on(cpus);
                (format!("at most {most:.2}"), part <= most)
            }
        }
    }
}

impl Parts {
    fn on(self, cpus: u32) -> f64 {
        match cpus {
            1 => self.one_cpu,
            _ => self.more_cpus,
        }
    }
}

const HACKBENCH: &[Figure] = &[Figure {
    name: "seconds",
    read: figures::hackbench_s,
    bar: Bar::AtMost(Parts {
        one_cpu: 1.1,
        more_cpus: 1.0 / THROUGHPUT_ON_MORE_CPUS,
    }),
}];
const STRESS_NG: &[Figure] = &[Figure {
    name: "ops/s",
    read: figures::stress_ng_ops,
    bar: at_least(0.92),
}];
const STRESS_NG_CPU: &[Figure] = &[Figure {
    name: "ops/s",
    read: figures::stress_ng_ops,
    bar: at_least(0.99),
}];
const SYSBENCH: &[Figure] = &[Figure {
    name: "events/s",
    read: figures::sysbench_events,
    bar: at_least(0.99),
}];
const LATENCY: Bar = Bar::AtMost(Parts {
    one_cpu: 1.0,
    more_cpus: 1.1,
});
const WRK: &[Figure] = &[
    Figure {
        name: "requests/s",
        read: figures::wrk_requests,
        bar: at_least(0.97),
    },
    Figure {
        name: "p99 ms",
        read: figures::wrk_p99_ms,
        bar: LATENCY,
    },
];
const CYCLICTEST: &[Figure] = &[Figure {
    name: "p99 us",
    read: figures::cyclictest_p99_us,
    bar: LATENCY,
}];

const fn program(name: &'static str, command: &'static str, figures: &'static [Figure]) -> Program {
    Program {
        name,
        command,
        figures,
    }
}

/// One of stress-ng's stressors for a time, as many workers as there are CPUs.
macro_rules! stress_ng {
    ($stressor:literal) => {
        program(
            concat!("stress-ng-", $stressor),
            concat!(
                "as alice stress-ng --",
                $stressor,
                " $CPUS --timeout ${DURATION}s --metrics-brief"
            ),
            STRESS_NG,
        )
    };
}

#[rustfmt::skip]
pub const PROGRAMS: [Program; 23] = [
    program("hackbench-pipe-2", "as alice hackbench --pipe --groups 2 --loops $((50 * WORK))", HACKBENCH),
    program("hackbench-pipe-10", "as alice hackbench --pipe --groups 10 --loops $((10 * WORK))", HACKBENCH),
    program("hackbench-socket-2", "as alice hackbench --groups 2 --loops $((50 * WORK))", HACKBENCH),
    program("hackbench-socket-10", "as alice hackbench --groups 10 --loops $((10 * WORK))", HACKBENCH),
    program("hackbench-thread-2", "as alice hackbench --threads --pipe --groups 2 --loops $((50 * WORK))", HACKBENCH),
    stress_ng!("msg"),
    stress_ng!("futex"),
    stress_ng!("pipe"),
    stress_ng!("sem"),
    stress_ng!("mutex"),
    stress_ng!("sockpair"),
    stress_ng!("switch"),
    stress_ng!("vfork"),
    stress_ng!("eventfd"),
    // One operation takes a tenth of a second.
    program("stress-ng-exec", "as alice stress-ng --exec $CPUS --timeout $((4 * DURATION))s --metrics-brief", STRESS_NG),
    stress_ng!("fork"),
    // A fixed number of operations, since these are of many kinds, with different costs.
    program("stress-ng-cpu", "as alice stress-ng --cpu $CPUS --cpu-ops $((100 * WORK)) --metrics-brief", STRESS_NG_CPU),
    program("nginx", "with_nginx as alice wrk -t $CPUS -c 16 -d ${DURATION}s --latency http://127.0.0.1:8080/", WRK),
    program("sysbench-threads-4", "as alice sysbench threads --threads=4 --thread-yields=100 --time=$DURATION run", SYSBENCH),
    program("sysbench-threads-16", "as alice sysbench threads --threads=16 --thread-yields=100 --time=$DURATION run", SYSBENCH),
    program("sysbench-cpu", "as alice sysbench cpu --threads=$CPUS --time=$DURATION run", SYSBENCH),
    program("cyclictest-same-user", "beside_hogs alice wake_each_millisecond", CYCLICTEST),
    program("cyclictest-other-user", "beside_hogs bob wake_each_millisecond", CYCLICTEST),
];

/// Programs of that name, or whose names begin with it.
pub fn find(name: &str) -> Result<Vec<&'static Program>, String> {
    let found: Vec<_> = PROGRAMS
        .iter()
        .filter(|program| program.name.starts_with(name))
        .collect();
    if found.is_empty() {
        let names: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        return Err(format!("the programs are {}", names.join(", ")));
    }
    Ok(found)
}

/// A scheduler that the programs run under, and the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Host {
    pub scheduler: &'static Scheduler,
    pub kernel: Kernel,
}

/// The runs of one program under one scheduler.
pub struct Measured {
    pub host: Host,
    pub cpus: u32,
    pub program: &'static Program,
    /// Without runs during which the scheduler was ejected.
    pub runs: Vec<Run>,
}

pub struct Run {
    /// In the order of the program's `figures`.
    pub figures: Vec<f64>,
    pub context_switches: f64,
}

/// The guest's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// Instructions, on several CPUs those of all together: every run is the same.
    Counted,
    Real,
}

impl Clock {
    /// The clock to measure work and latency on so many CPUs.
    pub fn of(cpus: u32) -> Self {
        match cpus {
            1 => Self::Counted,
            _ => Self::Real,
        }
    }
}

/// Runs the programs `runs` times under each scheduler, the schedulers by turns; `tombola` is the directory of its programs.
pub fn measure(
    hosts: &[Host],
    cpus: u32,
    programs: &[&'static Program],
    clock: Clock,
    runs: u64,
    tombola: &Path,
) -> Result<Vec<Measured>> {
    let turns = (0..runs).flat_map(|run| hosts.iter().map(move |host| (host, run)));
    let boots: Vec<Boot> = turns
        .map(|(host, run)| host.boot(cpus, programs, clock, run))
        .collect();
    let printed = boot::run_all(&boots, tombola)?;
    let mut measured = Vec::new();
    for (number, host) in hosts.iter().enumerate() {
        let own: Vec<_> = printed.iter().skip(number).step_by(hosts.len()).collect();
        for (command, &program) in (SETUP_COMMANDS..).zip(programs) {
            let texts = own.iter().filter_map(|printed| printed[command].as_deref());
            measured.push(Measured {
                host: *host,
                cpus,
                program,
                runs: texts
                    .map(|text| program.read(text))
                    .collect::<Result<_>>()?,
            });
        }
    }
    Ok(measured)
}

impl Measured {
    /// The median of a figure; nothing if the scheduler was ejected each time.
    pub fn figure(&self, number: usize) -> Option<f64> {
        median(self.runs.iter().map(|run| run.figures[number]).collect())
    }

    pub fn context_switches(&self) -> Option<f64> {
        median(self.runs.iter().map(|run| run.context_switches).collect())
    }
}

const SETUP_COMMANDS: usize = 1;
/// The guest's files are in memory, too.
const MEMORY_MIB: u32 = 2048;

impl Host {
    fn boot(self, cpus: u32, programs: &[&'static Program], clock: Clock, run: u64) -> Boot {
        // A guest in real time is several times as fast.
        let (mode, setup) = match clock {
            Clock::Counted => (Mode::seeded(run), "DURATION=3 WORK=1"),
            Clock::Real => (Mode::Parallel, "DURATION=1 WORK=3"),
        };
        let command = |program: &&Program| format!("counting {}", program.command);
        Boot {
            scheduler: self.scheduler,
            kernel: self.kernel,
            cpus,
            caches: 1,
            memory_mib: MEMORY_MIB,
            mode,
            timed: false,
            tools,
            before: vec![format!("CPUS={cpus} {setup}; . {FUNCTIONS}")],
            commands: programs.iter().map(command).collect(),
        }
    }
}

const FUNCTIONS: &str = "/lab/programs.sh";
/// For one server, in /tmp/nginx at 127.0.0.1:8080.
pub const NGINX_CONF: &str = include_str!("nginx.conf");

fn tools(image: &mut Image) -> Result<()> {
    fetched_programs(
        image,
        &[
            "/usr/bin/hackbench",
            "/usr/bin/stress-ng",
            "/usr/bin/wrk",
            "/usr/bin/sysbench",
            "/usr/bin/cyclictest",
            "/usr/sbin/nginx",
        ],
    )?;
    image.file(FUNCTIONS, include_str!("programs.sh"), 0o644);
    image.file("/etc/nginx.conf", NGINX_CONF, 0o644);
    Ok(())
}

/// Adds programs that lab/vm/fetch-programs.sh has unpacked.
pub fn fetched_programs(image: &mut Image, programs: &[&str]) -> Result<()> {
    let root = build_dir()?.join("programs");
    for program in programs {
        image
            .unpacked_program(&root, program)
            .with_context(not_there)?;
    }
    Ok(())
}

fn not_there() -> String {
    let next = "lab/vm/fetch-programs.sh";
    explain(
        "a program to measure is not there",
        "it has not been fetched yet",
        next,
    )
    .to_string()
}

impl Program {
    fn read(&self, text: &str) -> Result<Run> {
        let figures = self
            .figures
            .iter()
            .map(|figure| (figure.read)(text))
            .collect();
        let run = |figures| {
            Some(Run {
                figures,
                context_switches: figures::context_switches(text)?,
            })
        };
        let run = Option::<Vec<f64>>::and_then(figures, run);
        run.with_context(|| {
            let fact = format!("{} did not print its figures", self.name);
            let next = format!("its output: {text}");
            explain(
                &fact,
                "it failed, or is of another version than Debian 12's",
                &next,
            )
            .to_string()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_the_beginning_of_their_names() {
        let names = |name| -> Vec<&str> { find(name).unwrap().iter().map(|p| p.name).collect() };
        assert_eq!(names("hackbench-pipe-10"), ["hackbench-pipe-10"]);
        assert_eq!(
            names("cyclictest"),
            ["cyclictest-same-user", "cyclictest-other-user"]
        );
        assert!(find("schbench").err().unwrap().contains("sysbench-cpu"));
    }

    #[test]
    fn bars_are_inclusive_and_depend_on_the_cpus() {
        let verdict = |bar: Bar, cpus, part| bar.judge(cpus, part).1;
        let (time, rate) = (HACKBENCH[0].bar, STRESS_NG[0].bar);
        assert!(verdict(time, 1, 1.1) && !verdict(time, 1, 1.101) && !verdict(time, 2, 1.1));
        assert!(verdict(rate, 1, 0.92) && !verdict(rate, 1, 0.919) && !verdict(rate, 4, 0.949));
    }
}
