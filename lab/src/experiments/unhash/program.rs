//! The program `unhash`, and its output.

use super::setting::{PUBLISHED_SEQUENTIAL, REQUESTS};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

/// `unhash` with these arguments.
fn unhash(words: &str) -> Result<Command> {
    let mut command = Command::new(program()?);
    command.args(words.split_whitespace());
    Ok(command)
}

fn program() -> Result<PathBuf> {
    let program = env::current_exe()?.with_file_name("unhash");
    ensure!(
        program.exists(),
        "there is no {}; make build",
        program.display()
    );
    Ok(program)
}

/// Its output, in JSON.
pub(super) fn said<T: DeserializeOwned>(words: &str) -> Result<T> {
    let output = unhash(words)?.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "unhash {words}: {}", output.status);
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("unhash {words}: not understood"))
}

/// A row of `unhash simulate`: the first is for one core for each request, by arrival.
#[derive(Deserialize)]
pub(super) struct Simulated {
    pub order: String,
    pub width: String,
    pub delay_us: u64,
    pub score: f64,
    pub ratio: f64,
}

/// A score in million, of the published requests on a machine like the published one: one core for each, by arrival.
pub(super) fn plainly(cores: u32, rate: f64, cache: &str, repeat_percent: u32) -> Result<f64> {
    let requests = format!("{REQUESTS} --repeat {repeat_percent} --streams 1");
    let machine = format!("--overhead 0 --cache {cache} --cores {cores} --rate {rate}");
    let all: Vec<Simulated> = said(&format!("simulate {requests} {machine} --json"))?;
    Ok(all[0].score / 1e6)
}

/// Million hashes a second of the published machine: with them, one core has the published sequential score.
pub(super) fn their_rate() -> Result<f64> {
    const ERROR_MAX: f64 = 1e-4;
    let (mut low, mut high) = (1.0, 100.0);
    while high / low > 1.0 + ERROR_MAX {
        let rate = f64::midpoint(low, high);
        match plainly(1, rate, "none", 20)? > PUBLISHED_SEQUENTIAL {
            true => low = rate,
            false => high = rate,
        }
    }
    Ok(high)
}

/// Million hashes a second of one core here, with each kernel, while so many cores are busy: cores may share execution units.
pub(super) fn our_rates(busy: u32) -> Result<BTreeMap<String, f64>> {
    thread::scope(|scope| {
        let others: Vec<_> = (1..busy)
            .map(|_| scope.spawn(|| said::<BTreeMap<String, f64>>("kernels --json")))
            .collect();
        let rates = said("kernels --json");
        for other in others {
            other.join().expect("asking does not panic")?;
        }
        rates
    })
}

/// A running `unhash serve`, which is killed when this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The output of `unhash load`.
#[derive(Deserialize)]
struct Answered {
    requests: usize,
    right: usize,
    score: f64,
}

/// The score in million of a run with a server of its own, in this machine's time. Every answer must be right.
pub(super) fn live(options: &str, requests: &str) -> Result<f64> {
    let serve = format!("serve --listen 127.0.0.1:0 --time-max 3600 {options}");
    let child = unhash(&serve)?.stdout(Stdio::piped()).spawn()?;
    let mut server = Server(child);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().expect("it is piped")).read_line(&mut line)?;
    let Some(address) = line.trim().strip_prefix("listening on ") else {
        bail!("unhash {serve} does not listen");
    };
    // It ends with 1 if an answer is wrong, and says how many.
    let load = format!("load {address} {requests} --json");
    let output = unhash(&load)?.stderr(Stdio::inherit()).output()?;
    let answered: Answered = serde_json::from_slice(&output.stdout)
        .with_context(|| format!("unhash {load}: {}", output.status))?;
    ensure!(
        answered.right == answered.requests,
        "unhash {serve}: {} of {} answers are right",
        answered.right,
        answered.requests
    );
    Ok(answered.score / 1e6)
}

pub(super) fn cores() -> u32 {
    thread::available_parallelism().map_or(1, usize::from) as u32
}
