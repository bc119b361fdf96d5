//! Attempts to make the kernel work for one user: filters, wake-ups, locks.

use crate::setup::{Never, announce, announced, burn, helper, ready, sleep_for_ever};
use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::wait::wait;
use nix::unistd::Pid;
use std::fs::File;
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
pub struct ExitSlowly {
    /// Locks on the file that each process closes, many times over
    #[arg(long, default_value_t = 5000)]
    locks: u32,
    #[arg(long, default_value_t = 20_000)]
    descriptors: u64,
}

/// The kernel looks through all locks of a file whenever a descriptor of it is closed.
pub fn exit_slowly(args: &ExitSlowly) -> Never {
    let limit = args.descriptors + 100;
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit)?;
    let path = std::env::temp_dir().join(format!("locked-by-{}", process::id()));
    let file = File::create(&path)?;
    std::fs::remove_file(&path)?;
    for i in 0..args.locks {
        lock_byte(&file, 2 * i64::from(i))?;
    }
    let _descriptors = (0..args.descriptors)
        .map(|_| file.try_clone())
        .collect::<Result<Vec<_>, _>>()?;
    ready();
    loop {
        if helper()? {
            // SAFETY: ends the process without a look at its memory.
            unsafe { libc::_exit(0) }
        }
        wait()?;
    }
}

fn lock_byte(file: &File, at: i64) -> Result<()> {
    fcntl(file, FcntlArg::F_SETLK(&range(libc::F_WRLCK, at, 1)))?;
    Ok(())
}

fn range(kind: libc::c_int, from: i64, bytes: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: from,
        l_len: bytes,
        l_pid: 0,
    }
}

#[derive(clap::Args)]
pub struct LongSections {
    /// Locks of the file, all of which the kernel looks at in one piece
    #[arg(long, default_value_t = 600_000)]
    locks: i64,
    #[arg(long, default_value_t = 500)]
    threads: usize,
}

/// A process has many locks of a file. Another one asks in many threads whether a lock beyond all of them is free: the kernel
/// looks at each, and cannot be preempted meanwhile.
pub fn long_sections(args: &LongSections) -> Never {
    let path = std::env::temp_dir().join(format!("locked-by-{}", process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    // One lock, from the end of which unlocks split one after the other.
    fcntl(
        &file,
        FcntlArg::F_SETLK(&range(libc::F_RDLCK, 0, 2 * args.locks)),
    )?;
    for i in (0..args.locks).rev() {
        fcntl(
            &file,
            FcntlArg::F_SETLK(&range(libc::F_UNLCK, 2 * i + 1, 1)),
        )?;
    }
    let (reader, writer) = pipe()?;
    let (until, begin) = pipe()?;
    if helper()? {
        drop(begin);
        let (file, until): (&'static File, &'static _) =
            (Box::leak(Box::new(file)), Box::leak(Box::new(until)));
        for _ in 0..args.threads {
            let thread = thread::Builder::new().stack_size(16 << 10);
            thread.spawn(move || {
                let mut until: &std::io::PipeReader = until;
                let end = until.read(&mut [0]);
                assert!(end.is_ok_and(|bytes| bytes == 0));
                loop {
                    let mut beyond = range(libc::F_WRLCK, 1 << 40, 1);
                    let _ = fcntl(file, FcntlArg::F_GETLK(&mut beyond));
                }
            })?;
        }
        announce(writer)?;
        sleep_for_ever();
    }
    announced(reader)?;
    drop(begin);
    ready();
    sleep_for_ever()
}

#[derive(clap::Args)]
pub struct LongLookups {
    #[arg(long, default_value_t = 200)]
    threads: usize,
    /// Tickets of the process whose threads look up paths, beside 10,000 of a process that computes; 0 freezes it, and no other
    /// process computes
    #[arg(long, default_value_t = 1)]
    tickets: u32,
}

/// As many symbolic links as the kernel follows in one path, each to a path that is as long as it may be.
const LINKS: usize = 40;
const LINK_BYTES: usize = 4000;

fn long_path() -> Result<PathBuf> {
    let directory = std::env::temp_dir().join(format!("links-of-{}", process::id()));
    std::fs::create_dir(&directory)?;
    let mut name = String::from("end");
    File::create(directory.join(&name))?;
    for i in 0..LINKS {
        let steps = "./".repeat((LINK_BYTES - name.len()) / 2);
        let link = format!("link{i}");
        std::os::unix::fs::symlink(steps + &name, directory.join(&link))?;
        name = link;
    }
    Ok(directory.join(name))
}

/// Threads look up a long path, each in one long RCU read section, inside of which they mostly lose the CPU. They begin with the
/// tickets that every process has.
pub fn long_lookups(args: &LongLookups) -> Never {
    let client = Client::open()?;
    let path = long_path()?;
    let (reader, writer) = pipe()?;
    let (until, begin) = pipe()?;
    if helper()? {
        drop(begin);
        let (path, until): (&'static PathBuf, &'static _) =
            (Box::leak(Box::new(path)), Box::leak(Box::new(until)));
        for _ in 0..args.threads {
            let thread = thread::Builder::new().stack_size(16 << 10);
            thread.spawn(move || {
                let mut until: &std::io::PipeReader = until;
                let end = until.read(&mut [0]);
                assert!(end.is_ok_and(|bytes| bytes == 0));
                loop {
                    let _ = path.exists();
                }
            })?;
        }
        announce(writer)?;
        sleep_for_ever();
    }
    let threads = announced(reader)?;
    drop(begin);
    thread::sleep(Duration::from_secs(1));
    client.set_tickets(threads, args.tickets)?;
    client.set_tickets(process::id(), 10_000)?;
    ready();
    match args.tickets {
        0 => sleep_for_ever(),
        _ => burn(),
    }
}

#[derive(clap::Args)]
pub struct HoldDirectory {
    directory: PathBuf,
    /// How long the reader runs before it is frozen, in microseconds
    #[arg(long, default_value_t = 20_000)]
    after_us: u64,
    /// Threads of the reader's process that compute
    #[arg(long, default_value_t = 0)]
    threads: usize,
}

/// One read of the whole directory takes long, and the directory's lock is held meanwhile.
const ENTRIES_BYTES: usize = 8 << 20;

fn read_without_end(directory: &PathBuf) -> Never {
    let mut entries = vec![0u8; ENTRIES_BYTES];
    let file = File::open(directory)?;
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
        for _ in 0..args.threads {
            thread::spawn(|| {
                loop {
                    std::hint::spin_loop();
                }
            });
        }
        announce(writer)?;
        return read_without_end(&args.directory);
    }
    let holder = announced(reader)?;
    thread::sleep(Duration::from_micros(args.after_us));
    client.set_tickets(holder, 0)?;
    ready();
    sleep_for_ever()
}

const MERGED_BYTES: usize = 64 << 20;

pub fn merge_memory() -> Never {
    let memory = vec![1u8; MERGED_BYTES];
    let begin = memory
        .as_ptr()
        .wrapping_byte_add(4095)
        .map_addr(|at| at & !4095);
    // SAFETY: the advice is about the vector's own memory, and changes none of it.
    let failed = unsafe {
        libc::madvise(
            begin.cast_mut().cast(),
            MERGED_BYTES - 4096,
            libc::MADV_MERGEABLE,
        )
    };
    nix::errno::Errno::result(failed)?;
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
        File::create(&file)?;
        std::fs::remove_file(&file)?;
        longest = longest.max(before.elapsed());
        thread::sleep(Duration::from_millis(1));
    }
    println!("{}", longest.as_micros());
    Ok(())
}
