//! A disk-bound program: writes more than fits into memory and reads it back, so that the data does go to the disk.

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use tombola_apps::process_cpu_time;

const BLOCK_BYTES: usize = 64 << 10;

/// Write and read back, for ever or a number of times
#[derive(Parser)]
#[command(version)]
struct Args {
    /// A file or a disk; its contents are lost
    path: PathBuf,
    /// MiB to write and read each time; more than the memory, or the data stays there
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    mib: u32,
    /// Exit after this many times, and print the CPU time used in seconds; 0: never
    #[arg(long, default_value_t = 0)]
    times: u64,
}

fn write(path: &Path, blocks: u64, block: &[u8]) -> Result<()> {
    let mut file = File::create(path)?;
    for _ in 0..blocks {
        file.write_all(block)?;
    }
    file.sync_all()?;
    Ok(())
}

fn read(path: &Path, blocks: u64, block: &mut [u8]) -> Result<()> {
    let mut file = File::open(path)?;
    for number in 0..blocks {
        match file.read_exact(block) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                bail!("it ends after {number} of {blocks} blocks that were written")
            }
            other => other?,
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = Args::parse();
    let blocks = (u64::from(args.mib) << 20) / BLOCK_BYTES as u64;
    let mut block = vec![b'.'; BLOCK_BYTES];
    let at = |doing: &str| format!("cannot {doing} {}", args.path.display());
    let mut done = 0;
    while args.times == 0 || done < args.times {
        write(&args.path, blocks, &block).with_context(|| at("write"))?;
        read(&args.path, blocks, &mut block).with_context(|| at("read"))?;
        done += 1;
    }
    println!("{:.6}", process_cpu_time().as_secs_f64());
    Ok(())
}
