//! A client that asks as the official one does: one connection each, at a constant rate whether answers come or not. The clock
//! that it waits by ticks each millisecond, so requests that come faster come several at once.

use crate::protocol::{ANSWER_BYTES, Request};
use crate::score::{Waits, percentile};
use crate::stream::Asked;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// What became of a request.
#[derive(Clone, Debug)]
pub struct Answered {
    pub asked: Asked,
    /// Or why there was none.
    pub got: Result<u64, String>,
    /// From just before the connection is made to just after it is closed.
    pub latency: Duration,
}

impl Answered {
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.got == Ok(self.asked.number)
    }
}

/// As the official client says it.
impl Display for Answered {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Asked {
            number, priority, ..
        } = self.asked;
        let right = if self.is_right() { "ok" } else { "wrong" };
        let got = match &self.got {
            Ok(number) => number.to_string(),
            Err(words) => words.clone(),
        };
        let us = self.latency.as_micros();
        write!(f, "[{right} {number} {got} {priority}] {us}")
    }
}

/// How requests are made.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From one to the next.
    pub delay: Duration,
    /// How long an answer is waited for.
    pub patience: Duration,
}

/// Makes all requests; `each` is told of every one that is done. In the order in which they were made.
pub async fn run(
    server: SocketAddr,
    asked: &[Asked],
    pace: Pace,
    mut each: impl FnMut(&Answered),
) -> Vec<Answered> {
    let mut making = JoinSet::new();
    let began = Instant::now();
    for (i, asked) in asked.iter().enumerate() {
        let (asked, due) = (asked.clone(), began + pace.delay * i as u32);
        let request = Request {
            digest: Sha256::digest(asked.number.to_le_bytes()).into(),
            range: asked.range.clone(),
            priority: asked.priority,
        };
        let bytes = request.to_bytes();
        making.spawn(async move {
            sleep_until(due).await;
            let began = Instant::now();
            let got = match timeout(pace.patience, ask(server, &bytes)).await {
                Ok(got) => got.map_err(|error| error.to_string()),
                Err(_) => Err(format!("no answer in {:?}", pace.patience)),
            };
            let answered = Answered {
                asked,
                got,
                latency: began.elapsed(),
            };
            (i, answered)
        });
    }
    let mut all: Vec<Option<Answered>> = vec![None; asked.len()];
    while let Some(done) = making.join_next().await {
        let (i, answered) = done.expect("asking does not panic");
        each(&answered);
        all[i] = Some(answered);
    }
    all.into_iter().flatten().collect()
}

async fn ask(server: SocketAddr, request: &[u8]) -> io::Result<u64> {
    let mut server = TcpStream::connect(server).await?;
    server.set_nodelay(true)?;
    server.write_all(request).await?;
    let mut answer = [0; ANSWER_BYTES];
    server.read_exact(&mut answer).await?;
    Ok(u64::from_be_bytes(answer))
}

/// What the answers come to.
#[derive(Clone, Debug)]
pub struct Report {
    pub waits: Waits,
    pub right: usize,
}

impl Report {
    #[must_use]
    pub fn of(all: &[Answered]) -> Self {
        let wait = |one: &Answered| (one.asked.priority, one.latency.as_nanos() as u64);
        Self {
            waits: Waits(all.iter().map(wait).collect()),
            right: all.iter().filter(|one| one.is_right()).count(),
        }
    }

    #[must_use]
    pub fn summary(&self) -> Summary {
        let of = |(priority, latencies): (u8, Vec<u64>)| Latencies {
            priority,
            requests: latencies.len(),
            p50_ns: percentile(&latencies, 50.0),
            p90_ns: percentile(&latencies, 90.0),
            p99_ns: percentile(&latencies, 99.0),
            max_ns: percentile(&latencies, 100.0),
        };
        Summary {
            requests: self.waits.0.len(),
            right: self.right,
            score: self.waits.score(),
            latencies: self.waits.by_priority().into_iter().map(of).collect(),
        }
    }

    /// In percent.
    #[must_use]
    pub fn correct(&self) -> f64 {
        self.right as f64 / self.waits.0.len().max(1) as f64 * 100.0
    }
}

/// A report, for programs.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub requests: usize,
    pub right: usize,
    pub score: u64,
    pub latencies: Vec<Latencies>,
}

/// Of the requests of a priority.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    pub priority: u8,
    pub requests: usize,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
}

/// Latencies by priority, and the line that the official client ends with.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "priority  requests      p50 ms      p90 ms      p99 ms      max ms"
        )?;
        for of in self.summary().latencies {
            write!(f, "{:8}  {:8}", of.priority, of.requests)?;
            for ns in [of.p50_ns, of.p90_ns, of.p99_ns, of.max_ns] {
                write!(f, "{:>12.3}", ns as f64 / 1e6)?;
            }
            writeln!(f)?;
        }
        write!(f, "Results: {:.2} {}", self.correct(), self.waits.score())
    }
}
