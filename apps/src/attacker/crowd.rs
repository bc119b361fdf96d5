//! Many threads and processes at once.

use crate::setup::{Never, announce, announced, burn, helper, ready, sleep_for_ever};
use anyhow::Context;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write, pipe};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tombola_kernel::calls::Client;

const STACK_BYTES: usize = 16 << 10;

#[derive(clap::Args)]
pub struct FreezeThreads {
    #[arg(long, default_value_t = 4000)]
    threads: u32,
}

/// The threads wait for the end of the pipe, which comes when their process is frozen; from then on they are runnable.
pub fn freeze_threads(args: &FreezeThreads) -> Never {
    let client = Client::open()?;
    let (reader, writer) = pipe()?;
    let (until, frozen) = pipe()?;
    if helper()? {
        drop(frozen);
        let until = Arc::new(until);
        for _ in 0..args.threads {
            let until = Arc::clone(&until);
            small_thread(move || {
                let end = (&*until).read(&mut [0]);
                assert!(end.is_ok_and(|bytes| bytes == 0));
                burn()
            })?;
        }
        announce(writer)?;
        sleep_for_ever();
    }
    client.set_tickets(announced(reader)?, 0)?;
    drop(frozen);
    ready();
    sleep_for_ever()
}

#[derive(clap::Args)]
pub struct FirstExits {
    #[arg(long, default_value_t = 3)]
    threads: u32,
}

pub fn first_exits(args: &FirstExits) -> Never {
    for _ in 0..args.threads {
        small_thread(|| burn())?;
    }
    ready();
    // SAFETY: ends this thread alone; the others have nothing of its.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    unreachable!("a thread that has exited")
}

pub fn small_thread(run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(run).map(drop)
}

pub fn enqueue_again() -> Never {
    let client = Client::open()?;
    let (reader, writer) = pipe()?;
    if helper()? {
        announce(writer)?;
        burn();
    }
    let frozen = announced(reader)?;
    // It is to be frozen in user mode, where it needs no turn soon.
    thread::sleep(Duration::from_millis(100));
    client.set_tickets(frozen, 0)?;
    ready();
    loop {
        for class in [libc::SCHED_BATCH, libc::SCHED_OTHER] {
            thread::sleep(Duration::from_secs(1));
            set_class(frozen, class)?;
        }
    }
}

fn set_class(pid: u32, class: i32) -> nix::Result<()> {
    let priority = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameters, which live through the call.
    let result = unsafe { libc::sched_setscheduler(pid.cast_signed(), class, &raw const priority) };
    nix::errno::Errno::result(result).map(drop)
}

#[derive(clap::Args)]
pub struct DieFrozen {
    #[arg(long, default_value_t = 300)]
    processes: u32,
    /// Memory that each process touches
    #[arg(long, default_value_t = 1)]
    memory_mib: usize,
}

/// Each process touches its memory and sleeps; this process freezes it.
pub fn die_frozen(args: &DieFrozen) -> Never {
    let client = Client::open()?;
    let mut told = SigSet::empty();
    told.add(Signal::SIGUSR1);
    told.thread_block()?;
    let mut children = Vec::new();
    for _ in 0..args.processes {
        let (reader, writer) = pipe()?;
        if helper()? {
            let _memory = std::hint::black_box(vec![1u8; args.memory_mib << 20]);
            announce(writer)?;
            sleep_for_ever();
        }
        let child = announced(reader)?;
        client.set_tickets(child, 0)?;
        children.push(child);
    }
    ready();
    told.wait()?;
    for child in children {
        kill(Pid::from_raw(child.cast_signed()), Signal::SIGKILL)?;
    }
    // They are not reaped before this process ends: that costs, too.
    sleep_for_ever()
}

#[derive(clap::Args)]
pub struct TakePlaces {
    /// Threads of each process: a thread's stack takes two of the process's memory areas, whose number is limited
    #[arg(long, default_value_t = 8000)]
    threads: usize,
    /// Stop at so many threads in all processes
    #[arg(long, default_value_t = 100_000)]
    most: usize,
}

/// Starts up to `most` sleeping threads in this process. Returns how many were started.
fn sleeping_threads(most: usize) -> usize {
    let start = || small_thread(|| sleep_for_ever());
    (0..most).take_while(|_| start().is_ok()).count()
}

pub fn take_places(args: &TakePlaces) -> Never {
    let mut all = 0;
    while all < args.most {
        let (mut reader, mut writer) = pipe()?;
        match helper() {
            Ok(true) => {
                let count = sleeping_threads(args.threads.min(args.most - all));
                writer
                    .write_all(&count.to_ne_bytes())
                    .context("cannot report the number of threads")?;
                sleep_for_ever()
            }
            Ok(false) => (),
            Err(_) => break,
        }
        drop(writer);
        let mut count = [0; size_of::<usize>()];
        // A process that was killed for lack of memory reports nothing.
        if reader.read_exact(&mut count).is_err() || usize::from_ne_bytes(count) == 0 {
            break;
        }
        all += usize::from_ne_bytes(count);
    }
    println!("{all} threads");
    ready();
    sleep_for_ever()
}
