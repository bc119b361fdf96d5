//! Processes that send messages to others, each sender to every receiver in turn, as servers, pipelines and hackbench do.

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use tombola_apps::fork;

/// Send messages from some processes to as many others; each receiver has its own pipe
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Number of senders, and of receivers
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    each: u32,
    /// Messages that each sender sends to each receiver; 0: without end
    #[arg(long, default_value_t = 0)]
    rounds: u64,
}

const MESSAGE: [u8; 100] = [b'.'; 100];

fn send(mut to: Vec<PipeWriter>, rounds: u64) -> Result<()> {
    let mut round = 0;
    while rounds == 0 || round < rounds {
        for pipe in &mut to {
            pipe.write_all(&MESSAGE).context("a receiver is gone")?;
        }
        round += 1;
    }
    Ok(())
}

/// Reads until all senders are done.
fn receive(mut from: PipeReader) -> Result<()> {
    let mut message = MESSAGE;
    while from.read(&mut message).context("cannot read a pipe")? > 0 {}
    Ok(())
}

fn in_child(work: impl FnOnce() -> Result<()>) -> Result<()> {
    if fork()? {
        work()?;
        std::process::exit(0);
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut to = Vec::new();
    for _ in 0..args.each {
        let (reader, writer) = pipe().context("cannot make a pipe")?;
        to.push(writer);
        // A receiver that held a write end would never see the end of its pipe.
        in_child(|| {
            to.clear();
            receive(reader)
        })?;
    }
    for _ in 0..args.each {
        in_child(|| send(std::mem::take(&mut to), args.rounds))?;
    }
    drop(to);
    for _ in 0..2 * args.each {
        let mut status = 0;
        // SAFETY: wait writes one int, and `status` is one.
        if unsafe { libc::wait(&raw mut status) } == -1 || status != 0 {
            bail!("a sender or a receiver failed: {status}");
        }
    }
    Ok(())
}
