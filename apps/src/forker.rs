//! A program that tries to gain CPU time by forking.

use anyhow::{Result, bail};
use clap::{Parser, ValueEnum};
use std::time::Duration;
use tombola_apps::{fork, work_for};

/// Fork without end, in one of the ways that fool some schedulers
#[derive(Parser)]
#[command(version)]
struct Args {
    /// How to fork
    #[arg(value_enum)]
    way: Way,
    /// CPU time that each child uses, in microseconds
    #[arg(long, default_value_t = 1000)]
    work_us: u64,
    /// Children at a time, for `batches`
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    children: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// Fork some children, wait for all of them, and again
    Batches,
    /// Work, fork and exit; the child does the same
    Chain,
    /// Fork a child that forks one that works, as make and a compiler's driver do; each waits for its own
    Driver,
    /// Fork a child whose second thread works after its first one has exited, and wait for the child
    SecondThread,
}

fn exit_at_once() -> ! {
    // SAFETY: _exit takes no pointers and does not return.
    unsafe { libc::_exit(0) }
}

fn batch(children: u32, work: Duration) -> Result<()> {
    for _ in 0..children {
        if fork()? {
            work_for(work);
            exit_at_once();
        }
    }
    wait_for(children)
}

fn work_in_a_second_thread(work: Duration) -> ! {
    let second = std::thread::spawn(move || {
        work_for(work);
        exit_at_once();
    });
    drop(second);
    // SAFETY: ends this thread alone; the second one has nothing of its.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("a thread that has exited")
}

fn wait_for(children: u32) -> Result<()> {
    for _ in 0..children {
        // SAFETY: a null status is allowed and means that it is not wanted.
        if unsafe { libc::wait(std::ptr::null_mut()) } == -1 {
            bail!("lost a child: {}", std::io::Error::last_os_error());
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = Args::parse();
    let work = Duration::from_micros(args.work_us);
    loop {
        match args.way {
            Way::Batches => batch(args.children, work)?,
            Way::Driver => {
                if fork()? {
                    batch(1, work)?;
                    exit_at_once();
                }
                wait_for(1)?;
            }
            Way::SecondThread => {
                if fork()? {
                    work_in_a_second_thread(work);
                }
                wait_for(1)?;
            }
            Way::Chain => {
                work_for(work);
                if !fork()? {
                    exit_at_once();
                }
            }
        }
    }
}
