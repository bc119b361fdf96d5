//! `unhash serve`

use super::values::{Misused, seconds};
use crate::dispatcher::{CHUNK, Dispatcher, Settings};
use crate::engine::{Engine, Processes};
use crate::kernel::Kernel;
use crate::output::{say, warn};
use crate::serve::{Patience, Server, listen};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tokio::runtime::Builder as Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tombola_pool::{Order, Width};

#[derive(Args)]
pub struct Serve {
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
    /// How many workers may work on one request: one, all
    #[arg(long, default_value_t)]
    width: Width,
    /// How many numbers are tried before another choice is made; 0: the whole range
    #[arg(long, value_name = "NUMBERS", default_value_t = CHUNK)]
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
    pub fn run(self) -> Result<ExitCode> {
        let kernel = self.kernel.unwrap_or_else(Kernel::best);
        ensure!(
            kernel.is_available(),
            "this CPU lacks the instructions of kernel {kernel}; {} is the fastest that it has",
            Kernel::best()
        );
        if self.processes && matches!(self.order, Order::Lottery | Order::Stride) {
            bail!(Misused(format!(
                "order {} charges CPU time, and that of other processes is not seen; use threads, or another order",
                self.order
            )));
        }
        let cpus = || thread::available_parallelism().map_or(1, usize::from);
        let workers = self.workers.map_or_else(cpus, usize::from);
        let settings = Settings {
            workers,
            order: self.order,
            width: self.width,
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
            let dispatcher =
                Dispatcher::open(settings, engine).context("cannot start the workers")?;
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
            let server = Arc::new(Server::new(dispatcher, patience));
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
