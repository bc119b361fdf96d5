//! `unhash load`

use super::stream::Stream;
use super::values::seconds;
use crate::load::{self, Pace, Report};
use crate::output::{say, say_json, warn};
use crate::stream::{Glibc, Secret};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::io::{self, IsTerminal};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Builder as Runtime;

#[derive(Args)]
pub struct Load {
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
    pub fn run(self) -> Result<ExitCode> {
        let settings = self.stream.settings()?;
        let asked = match self.seed {
            Some(seed) => self.stream.requests(&settings, &mut Glibc::new(seed)),
            None => self.stream.requests(&settings, &mut Secret::fresh()),
        };
        let _ = rlimit::increase_nofile_limit(u64::MAX);
        // Rather than after the last of many requests.
        TcpStream::connect_timeout(&self.server, self.patience).with_context(|| {
            let server = self.server;
            format!("cannot connect to {server}; is `unhash serve` running at {server}?")
        })?;
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
