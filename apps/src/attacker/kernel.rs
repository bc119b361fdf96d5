//! Attempts to make the kernel work for one user: filters, wake-ups, locks.

use crate::setup::{Never, announce, announced, helper, ready, sleep_for_ever};
use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io::{Read, Write, pipe};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process;
use std::thread;
use std::time::{Duration, Instant};
use tombola_apps::work_for;
use tombola_kernel::calls::Client;

/// Each system call of this process runs through so many filters, of so many instructions each.
const FILTERS: usize = 7;
const INSTRUCTIONS: usize = 4096;

pub fn seccomp() -> Never {
    // The filters look at an argument: the kernel would cache the answer of filters that look at the call's number only.
    let load = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 16);
    let allow = instruction(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
    let mut filter = vec![load; INSTRUCTIONS - 1];
    filter.push(allow);
    nix::sys::prctl::set_no_new_privs()?;
    for _ in 0..FILTERS {
        install(&mut filter)?;
    }
    ready();
    loop {
        // SAFETY: a system call without arguments.
        unsafe { libc::syscall(libc::SYS_getppid, 0, 0) };
    }
}

fn instruction(code: u32, k: u32) -> libc::sock_filter {
    let (code, jt, jf) = (code as u16, 0, 0);
    libc::sock_filter { code, jt, jf, k }
}

fn install(filter: &mut [libc::sock_filter]) -> Result<()> {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program, which is as long as it says.
    let failed = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    if failed == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error()).context("cannot install a filter")
}

#[derive(clap::Args)]
pub struct WakeElsewhere {
    /// CPU time between two wake-ups, in microseconds
    #[arg(long, default_value_t = 50)]
    work_us: u64,
}

fn bind_to(cpu: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Both threads are awake most of the time: each wakes the other, works, and then waits to be woken.
pub fn wake_elsewhere(args: &WakeElsewhere) -> Never {
    let (to_first, to_second) = (pipe()?, pipe()?);
    let work = Duration::from_micros(args.work_us);
    let turns = move |cpu, mut told: std::io::PipeReader, mut tell: std::io::PipeWriter| -> Never {
        bind_to(cpu)?;
        loop {
            tell.write_all(b".")?;
            work_for(work);
            told.read_exact(&mut [0])?;
        }
    };
    thread::spawn(move || turns(1, to_second.0, to_first.1));
    ready();
    turns(0, to_first.0, to_second.1)
}

#[derive(clap::Args)]
pub struct HoldDirectory {
    directory: PathBuf,
    /// How long the reader runs before it is frozen, in microseconds
    #[arg(long, default_value_t = 20_000)]
    after_us: u64,
}

/// One read of the whole directory takes long, and the directory's lock is held meanwhile.
const ENTRIES_BYTES: usize = 8 << 20;

fn read_without_end(directory: &PathBuf) -> Never {
    let mut entries = vec![0u8; ENTRIES_BYTES];
    let file = std::fs::File::open(directory)?;
    loop {
        // SAFETY: the kernel writes at most as many bytes as there are.
        unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                file.as_raw_fd(),
                entries.as_mut_ptr(),
                ENTRIES_BYTES,
            );
            libc::lseek(file.as_raw_fd(), 0, libc::SEEK_SET);
        }
    }
}

pub fn hold_directory(args: &HoldDirectory) -> Never {
    let client = Client::open()?;
    let (reader, writer) = pipe()?;
    if helper()? {
        announce(writer)?;
        return read_without_end(&args.directory);
    }
    let holder = announced(reader)?;
    thread::sleep(Duration::from_micros(args.after_us));
    client.set_tickets(holder, 0)?;
    ready();
    sleep_for_ever()
}

#[derive(clap::Args)]
pub struct MakeFiles {
    directory: PathBuf,
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub fn make_files(args: &MakeFiles) -> Result<()> {
    let file = args.directory.join(format!("made-by-{}", process::id()));
    let (began, mut longest) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < Duration::from_secs(args.seconds) {
        let before = Instant::now();
        std::fs::File::create(&file)?;
        std::fs::remove_file(&file)?;
        longest = longest.max(before.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    println!("{}", longest.as_micros());
    Ok(())
}
