//! The program: what each command takes, checked before anything is done.

use crate::desk::{Desk, Settings};
use crate::engine::{self, Engine, Processes};
use crate::kernel::Kernel;
use crate::load::{self, Pace, Report};
use crate::say::warn;
use crate::serve::{Patience, Server, listen};
use crate::simulate::{self, Machine, Policy};
use crate::status;
use crate::stream::{self, Asked, Glibc, Random, Secret};
use anyhow::{Context, Result, ensure};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder as Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tombola_pool::{Order, Width};

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
    Serve(Serve),
    /// Ask a server as the client of the challenge does, and say the score
    Load(Load),
    /// The score of every order on a machine of a given speed, on a simulated clock
    Simulate(Simulate),
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
    done.unwrap_or_else(|error| {
        warn(format_args!("{error:#}"));
        ExitCode::FAILURE
    })
}

/// Whoever reads it may have seen enough and gone.
fn say(text: impl Display) -> Result<()> {
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said.context("cannot write"),
    }
}

fn say_json(what: &impl Serialize) -> Result<()> {
    say(serde_json::to_string_pretty(what)?)
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

#[derive(Clone, Copy, ValueEnum)]
enum WidthArg {
    /// A request is worked on by one worker
    One,
    /// By all of them at once
    All,
}

impl From<WidthArg> for Width {
    fn from(arg: WidthArg) -> Self {
        match arg {
            WidthArg::One => Self::One,
            WidthArg::All => Self::All,
        }
    }
}

/// What clap cannot see: two options that do not go together.
fn misused(words: impl Display) -> ! {
    Cli::command()
        .error(ErrorKind::ArgumentConflict, words)
        .exit()
}

fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("must be a number, 0 or more".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match not_negative(text) {
        Ok(number) if number > 0.0 => Ok(number),
        _ => Err("must be a number, more than 0".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|error| error.to_string())
}

#[derive(Args)]
struct Serve {
    /// Where to listen; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5003")]
    listen: SocketAddr,
    /// How many search at once [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    workers: Option<u16>,
    /// Whose request is next: fifo, priority, smith (priority for the range), gittins (priority for what is left of it), lottery,
    /// stride (both by priority as tickets)
    #[arg(long, default_value_t)]
    order: Order,
    /// How many may work on one request
    #[arg(long, value_enum, default_value = "all")]
    width: WidthArg,
    /// How many numbers are tried before another choice is made; 0: the whole range
    #[arg(long, value_name = "NUMBERS", default_value_t = Policy::BEST.chunk)]
    chunk: u64,
    /// How many answers are remembered, the last asked for; 0: none, and equal requests are worked on apart
    #[arg(long, value_name = "ANSWERS", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    cache: u32,
    /// How to search; `unhash kernels` says how this CPU can [default: the fastest]
    #[arg(long)]
    kernel: Option<Kernel>,
    /// Search in a process for each worker instead of in threads
    #[arg(long)]
    processes: bool,
    /// A request for a longer range is answered in vain at once
    #[arg(long, value_name = "NUMBERS", default_value_t = 10_000_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    range_max: u64,
    /// Seconds after which a request is answered in vain
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    time_max: Duration,
    /// Seconds that a client may take to send its request
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    read_max: Duration,
    /// How many requests are worked on or queued at once; more wait for a place
    #[arg(long, value_name = "REQUESTS", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    queue_max: u32,
    /// Seconds that requests which are there may take after SIGTERM; then, or after another, they are answered in vain
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    grace: Duration,
    /// Say what the server is doing to whoever connects here: `unhash status ADDRESS`
    #[arg(long, value_name = "ADDRESS")]
    status: Option<SocketAddr>,
}

impl Serve {
    fn run(self) -> Result<ExitCode> {
        let kernel = self.kernel.unwrap_or_else(Kernel::best);
        ensure!(
            kernel.is_available(),
            "this CPU lacks the instructions of kernel {kernel}; {} is the fastest that it has",
            Kernel::best()
        );
        if self.processes && matches!(self.order, Order::Lottery | Order::Stride) {
            misused(format_args!(
                "order {} charges CPU time, and that of other processes is not seen; use threads, or another order",
                self.order
            ));
        }
        let cpus = || thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.map_or_else(cpus, usize::from);
        let settings = Settings {
            workers,
            order: self.order,
            width: self.width.into(),
            chunk: self.chunk,
            cache: self.cache as usize,
            jobs_max: self.queue_max as usize,
            range_max: self.range_max,
        };
        let patience = Patience {
            read_max: self.read_max,
            time_max: self.time_max,
            grace: self.grace,
        };
        // 10,000 clients need more than the usual 1024; what cannot be had is said when a connection cannot be taken.
        let _ = rlimit::increase_nofile_limit(u64::MAX);
        let engine = match self.processes {
            true => Engine::Processes(
                Processes::start(kernel, workers).context("cannot start the search processes")?,
            ),
            false => Engine::Threads(kernel),
        };
        let runtime = Runtime::new_current_thread().enable_all().build()?;
        let served = runtime.block_on(async {
            let bind = |address: SocketAddr| {
                listen(address).with_context(|| {
                    format!("cannot listen on {address}; is another server there already?")
                })
            };
            let listener = bind(self.listen)?;
            let status = self.status.map(bind).transpose()?;
            let stop = signals().context("cannot wait for signals")?;
            let desk = Desk::open(settings, engine).context("cannot start the workers")?;
            say(format_args!("listening on {}", listener.local_addr()?))?;
            if let Some(status) = &status {
                say(format_args!("status on {}", status.local_addr()?))?;
            }
            let what = if self.processes {
                "processes"
            } else {
                "threads"
            };
            warn(format_args!(
                "{workers} {what}, kernel {kernel}, order {}",
                self.order
            ));
            let server = Arc::new(Server::new(desk, patience));
            server.run(listener, status, stop).await;
            Ok(ExitCode::SUCCESS)
        });
        // A search that does not end keeps nobody.
        runtime.shutdown_background();
        served
    }
}

/// Each SIGTERM and SIGINT.
fn signals() -> io::Result<mpsc::Receiver<()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (stop, stops) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if stop.send(()).await.is_err() {
                return;
            }
        }
    });
    Ok(stops)
}

#[derive(Clone, Copy, ValueEnum)]
enum Preset {
    /// 20 requests of 10 numbers from 1 on, 100 ms apart, all of priority 1
    Initial,
    /// 100 requests of 30 million numbers, 600 ms apart, 20 % repeated, lambda 1.5
    Midway,
    /// 500 of them
    Final,
}

/// What the requests are like. The order and the units are those of the official client's arguments.
#[derive(Args)]
struct Stream {
    /// One of the official settings, of which the following change what is given
    #[arg(long, value_enum, default_value = "final")]
    settings: Preset,
    /// Requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    total: Option<u32>,
    /// First number of all ranges; 0: another for each request
    #[arg(long, value_name = "NUMBER")]
    start: Option<u64>,
    /// Numbers of a range
    #[arg(long, value_name = "NUMBERS", value_parser = clap::value_parser!(u32).range(1..=0x7fff_ffff))]
    difficulty: Option<u32>,
    /// A request repeats an earlier one with this chance and 1 % more
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    repeat: Option<u32>,
    /// Microseconds from one request to the next
    #[arg(long, value_name = "US")]
    delay: Option<u64>,
    /// Of the distribution of priorities; 0: all have priority 1
    #[arg(long, value_parser = not_negative)]
    lambda: Option<f64>,
    /// The same requests in ranges so many times smaller
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    smaller: u64,
}

impl Stream {
    fn settings(&self) -> stream::Settings {
        let preset = match self.settings {
            Preset::Initial => stream::Settings::INITIAL,
            Preset::Midway => stream::Settings::MIDWAY,
            Preset::Final => stream::Settings::FINAL,
        };
        let settings = stream::Settings {
            total: self.total.unwrap_or(preset.total),
            start: self.start.unwrap_or(preset.start),
            difficulty: self.difficulty.unwrap_or(preset.difficulty),
            repeat_percent: self.repeat.unwrap_or(preset.repeat_percent),
            delay_us: self.delay.unwrap_or(preset.delay_us),
            lambda: self.lambda.unwrap_or(preset.lambda),
        };
        if settings
            .start
            .checked_add(u64::from(settings.difficulty))
            .is_none()
        {
            misused(format_args!(
                "a range of {} numbers from {} on goes beyond 2^64",
                settings.difficulty, settings.start
            ));
        }
        settings
    }

    /// What the requests are like when they have been made smaller.
    fn as_made(&self, settings: &stream::Settings) -> stream::Settings {
        let difficulty = u64::from(settings.difficulty).div_ceil(self.smaller);
        stream::Settings {
            difficulty: u32::try_from(difficulty).expect("it is smaller"),
            ..*settings
        }
    }

    fn requests(&self, settings: &stream::Settings, random: &mut impl Random) -> Vec<Asked> {
        let all = stream::requests(settings, random);
        all.iter()
            .map(|asked| asked.smaller(self.smaller))
            .collect()
    }
}

#[derive(Args)]
struct Load {
    /// The server
    #[arg(default_value = "127.0.0.1:5003")]
    server: SocketAddr,
    #[command(flatten)]
    stream: Stream,
    /// The very requests of the official client for this seed. Whoever knows it, or finds it out from a request, knows the
    /// answers: for a score leave it away, and the requests are drawn as nobody can foresee
    #[arg(long)]
    seed: Option<u32>,
    /// Seconds after which an answer is not waited for any more, and counts as wrong
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    patience: Duration,
    /// Say each answer when it comes: whether it is right, what was sought and found, the priority, and us
    #[arg(long, conflicts_with = "json")]
    each: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Load {
    fn run(self) -> Result<ExitCode> {
        let settings = self.stream.settings();
        let asked = match self.seed {
            Some(seed) => self.stream.requests(&settings, &mut Glibc::new(seed)),
            None => self.stream.requests(&settings, &mut Secret::fresh()),
        };
        let _ = rlimit::increase_nofile_limit(u64::MAX);
        let pace = Pace {
            delay: Duration::from_micros(settings.delay_us),
            patience: self.patience,
        };
        let shows = !self.each && io::stderr().is_terminal();
        let mut done = 0;
        let runtime = Runtime::new_current_thread().enable_all().build()?;
        let all = runtime.block_on(load::run(self.server, &asked, pace, |answered| {
            done += 1;
            if self.each {
                // What matters is the score.
                let _ = say(answered);
            } else if shows {
                eprint!("\r{done} of {} answered", asked.len());
            }
        }));
        if shows {
            eprintln!();
        }
        let failed = || {
            all.iter()
                .filter_map(|answered| answered.got.as_ref().err())
        };
        if let Some(first) = failed().next() {
            let count = failed().count();
            ensure!(
                count < all.len(),
                "no request was answered ({first}); is `unhash serve` running at {}?",
                self.server
            );
            warn(format_args!(
                "{count} requests were not answered, the first: {first}"
            ));
        }
        let report = Report::of(&all);
        match self.json {
            true => say_json(&report.summary())?,
            false => say(&report)?,
        }
        Ok(ExitCode::from(u8::from(report.right < all.len())))
    }
}

#[derive(Args)]
struct Simulate {
    #[command(flatten)]
    stream: Stream,
    /// Cores of the machine
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: u32,
    /// Million hashes a second of one core
    #[arg(long, value_name = "MILLION", default_value = "65", value_parser = positive)]
    rate: f64,
    /// Numbers of a chunk; 0: the whole range
    #[arg(long, value_name = "NUMBERS", default_value_t = Policy::BEST.chunk)]
    chunk: u64,
    /// Microseconds of a request that are no hashing
    #[arg(long, value_name = "US", default_value_t = 60)]
    overhead: u64,
    /// Nothing is remembered, and equal requests are worked on apart
    #[arg(long)]
    no_cache: bool,
    /// Requests come so fast that they take this part of all cores, whatever delay is given
    #[arg(long, value_parser = positive)]
    load: Option<f64>,
    /// The official client's requests for this seed
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// And for those after it, so many in all; scores are their means
    #[arg(long, value_name = "N", default_value = "12", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    streams: u32,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What an order comes to.
#[derive(Serialize)]
struct Simulated {
    order: &'static str,
    width: &'static str,
    /// 0: whole ranges.
    chunk: u64,
    load: f64,
    delay_us: u64,
    score: f64,
    /// Of the first.
    ratio: f64,
}

impl Simulate {
    fn run(self) -> Result<ExitCode> {
        let mut settings = self.stream.settings();
        let machine = Machine {
            cores: self.cores,
            rate: self.rate * 1e6,
            overhead_ns: self.overhead * 1000,
        };
        if let Some(load) = self.load {
            settings.delay_us = simulate::delay_us(machine, &self.stream.as_made(&settings), load);
        }
        let simulated = self.all(machine, &settings);
        if self.json {
            say_json(&simulated)?;
            return Ok(ExitCode::SUCCESS);
        }
        say(format_args!("load {:.2}", simulated[0].load))?;
        say("order     width         score     ratio")?;
        for row in simulated {
            let whole = if row.chunk == 0 { "  whole ranges" } else { "" };
            let Simulated {
                order,
                width,
                score,
                ratio,
                ..
            } = row;
            say(format_args!(
                "{order:10}{width:8}{score:>11.0}{ratio:>10.3}{whole}"
            ))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// The challenge's first servers, then all others.
    fn all(&self, machine: Machine, settings: &stream::Settings) -> Vec<Simulated> {
        let streams: Vec<Vec<Asked>> = (0..self.streams)
            .map(|n| Glibc::new(self.seed.wrapping_add(n)))
            .map(|mut random| self.stream.requests(settings, &mut random))
            .collect();
        let widths = [("one", Width::One), ("all", Width::All)];
        let of_width = |(name, width)| {
            let of = move |order| {
                (
                    name,
                    Policy {
                        order,
                        width,
                        chunk: self.chunk,
                        ..Policy::BEST
                    },
                )
            };
            Order::ALL.into_iter().map(of)
        };
        let first = [("one", Policy::FIFO_ONE)].into_iter();
        let policies = first.chain(widths.into_iter().flat_map(of_width));
        let score = |policy: Policy| {
            let policy = Policy {
                cache: !self.no_cache,
                ..policy
            };
            let of = |asked: &Vec<Asked>| {
                simulate::run(machine, policy, asked, settings.delay_us * 1000).score()
            };
            streams.iter().map(|asked| of(asked) as f64).sum::<f64>() / streams.len() as f64
        };
        let load = simulate::load(machine, &self.stream.as_made(settings));
        let mut all: Vec<Simulated> = thread::scope(|scope| {
            let score = &score;
            let begun: Vec<_> = policies
                .map(|(width, policy)| (width, policy, scope.spawn(move || score(policy))))
                .collect();
            let done = begun.into_iter().map(|(width, policy, score)| Simulated {
                order: policy.order.name(),
                width,
                chunk: policy.chunk,
                load,
                delay_us: settings.delay_us,
                score: score.join().expect("a simulation does not panic"),
                ratio: 1.0,
            });
            done.collect()
        });
        let of_first = all[0].score;
        all.iter_mut()
            .for_each(|row| row.ratio = row.score / of_first);
        all
    }
}
