//! Priority inversion: a client that waits for a process with few tickets, for a lock that it holds or for its answer, while
//! others compute. Neither knows of tickets that are lent.

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand, ValueEnum};
use std::fs::remove_file;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tombola_apps::{
    Mutex, Progress, Times, is_stopped, monotonic, sleep_until, stop_on_request, work_for,
};

/// Hold a lock for some CPU time, or ask for it, again and again; or the same with a server
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    what: What,
    /// What the client waits for
    #[arg(long, value_enum, global = true, default_value = "mutex")]
    through: Way,
    /// The file of the lock, or the server's socket
    #[arg(long, global = true, default_value = "/tmp/inversion")]
    at: PathBuf,
    /// While a client runs, keep the number of its waits in this file: 8 bytes, little endian
    #[arg(long, global = true)]
    progress: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// A mutex
    Mutex,
    /// A mutex with priority inheritance
    InheritingMutex,
    /// A server's answer, over a Unix stream socket
    Server,
}

#[derive(Subcommand)]
enum What {
    /// Hold the lock, again and again; or answer a client until it is gone
    Hold {
        /// CPU time for which the lock is held each time, or that an answer needs
        #[arg(long, value_name = "US", default_value_t = 10_000)]
        work_us: u64,
        /// Time between two holds
        #[arg(long, value_name = "US", default_value_t = 1_000)]
        rest_us: u64,
    },
    /// Ask for the lock or for an answer, again and again
    Ask {
        /// Time between two
        #[arg(long, value_name = "US", default_value_t = 20_000)]
        rest_us: u64,
        /// At the end, write how long each wait took to this file: a line each, in microseconds
        #[arg(long)]
        times: Option<PathBuf>,
    },
}

fn rest(us: u64) {
    sleep_until(monotonic() + Duration::from_micros(us));
}

/// Ends between two holds: who waits for the lock would wait for ever.
fn hold(args: &Args, work: Duration, rest_us: u64) -> Result<()> {
    stop_on_request();
    if args.through == Way::Server {
        serve(&args.at, work)?;
    } else {
        let mutex = Mutex::create(&args.at, args.through == Way::InheritingMutex)?;
        while !is_stopped() {
            mutex.hold(|| work_for(work));
            rest(rest_us);
        }
    }
    // A later client is not to find it.
    Ok(remove_file(&args.at)?)
}

fn serve(socket: &Path, work: Duration) -> Result<()> {
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("cannot make the socket {}", socket.display()))?;
    let (mut client, _) = listener.accept()?;
    let mut request = [0];
    while !is_stopped() && client.read(&mut request).is_ok_and(|bytes| bytes > 0) {
        work_for(work);
        client.write_all(&request)?;
    }
    Ok(())
}

/// What it waits for is there some time after it has begun.
fn find<T>(find: impl Fn() -> Result<T>) -> Result<T> {
    loop {
        let found = find();
        if found.is_ok() || is_stopped() {
            return found;
        }
        rest(10_000);
    }
}

fn ask(args: &Args, rest_us: u64, times: &mut Times) -> Result<()> {
    let wait: Box<dyn Fn() -> Result<()>> = match args.through {
        Way::Mutex | Way::InheritingMutex => {
            let mutex = find(|| Mutex::open(&args.at))?;
            Box::new(move || {
                mutex.hold(|| ());
                Ok(())
            })
        }
        Way::Server => {
            let server = find(|| Ok(UnixStream::connect(&args.at)?))?;
            Box::new(move || {
                let mut answer = [0];
                (&server).write_all(&answer)?;
                ensure!((&server).read(&mut answer)? > 0, "the server is gone");
                Ok(())
            })
        }
    };
    while !is_stopped() {
        rest(rest_us);
        let asked = monotonic();
        if let Err(error) = wait() {
            ensure!(is_stopped(), error);
            break;
        }
        times.add(monotonic() - asked);
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = Args::parse();
    let progress = Progress::new(args.progress.as_deref())?;
    match &args.what {
        What::Hold { work_us, rest_us } => hold(&args, Duration::from_micros(*work_us), *rest_us),
        What::Ask { rest_us, times } => {
            stop_on_request();
            let mut times = Times::new(progress, times.as_deref())?;
            ask(&args, *rest_us, &mut times)?;
            times.write()
        }
    }
}
