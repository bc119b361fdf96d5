//! `unhash simulate`

use super::stream::Stream;
use super::values::{Misused, positive};
use crate::dispatcher::CHUNK;
use crate::output::{say, say_json};
use crate::simulate::{self, Cache, Machine, Policy};
use crate::stream::{self, Asked, Glibc};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::process::ExitCode;
use std::thread;
use tombola_pool::{Order, Width};

/// An hour.
const DELAY_MAX_US: u64 = 3_600_000_000;

#[derive(Clone, Copy, ValueEnum)]
enum CacheArg {
    /// All the work again
    None,
    /// It waits for its turn, and is answered then if the other has been
    Turn,
    /// As the server does: it is answered at once if the other has been, and joins it if not
    Join,
}

impl From<CacheArg> for Cache {
    fn from(arg: CacheArg) -> Self {
        match arg {
            CacheArg::None => Self::None,
            CacheArg::Turn => Self::Turn,
            CacheArg::Join => Self::Join,
        }
    }
}

#[derive(Args)]
pub struct Simulate {
    #[command(flatten)]
    stream: Stream,
    /// Cores of the machine
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=1024))]
    cores: u32,
    /// Million hashes a second of one core
    #[arg(long, value_name = "MILLION", default_value = "65", value_parser = positive)]
    rate: f64,
    /// Numbers of a chunk; 0: the whole range
    #[arg(long, value_name = "NUMBERS", default_value_t = CHUNK)]
    chunk: u64,
    /// Microseconds of a request that are no hashing
    #[arg(long, value_name = "US", default_value_t = 60, value_parser = clap::value_parser!(u64).range(0..=3_600_000_000))]
    overhead: u64,
    /// What is done with a request that repeats another
    #[arg(long, value_enum, default_value = "join")]
    cache: CacheArg,
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
    pub fn run(self) -> Result<ExitCode> {
        let mut settings = self.stream.settings()?;
        let machine = Machine {
            cores: self.cores,
            rate: self.rate * 1e6,
            overhead_ns: self.overhead * 1000,
        };
        if let Some(load) = self.load {
            settings.delay_us = simulate::delay_us(machine, &self.stream.as_made(&settings), load);
            if !(1..=DELAY_MAX_US).contains(&settings.delay_us) {
                bail!(Misused(format!(
                    "for load {load} requests would come {} us apart, must be 1 us to an hour; take another load or rate",
                    settings.delay_us
                )));
            }
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

    /// One core for each request by arrival, then all others.
    fn all(&self, machine: Machine, settings: &stream::Settings) -> Vec<Simulated> {
        let streams: Vec<Vec<Asked>> = (0..self.streams)
            .map(|n| Glibc::new(self.seed.wrapping_add(n)))
            .map(|mut random| self.stream.requests(settings, &mut random))
            .collect();
        let of_width = |width| Order::ALL.into_iter().map(move |order| (order, width));
        let others = Width::ALL.into_iter().flat_map(of_width);
        let others = others.map(|(order, width)| Policy {
            order,
            width,
            chunk: self.chunk,
            ..Policy::BEST
        });
        let policies = std::iter::once(Policy::FIFO_ONE).chain(others);
        let score = |policy: Policy| {
            let policy = Policy {
                cache: self.cache.into(),
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
                .map(|policy| (policy, scope.spawn(move || score(policy))))
                .collect();
            let done = begun.into_iter().map(|(policy, score)| Simulated {
                order: policy.order.name(),
                width: policy.width.name(),
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
