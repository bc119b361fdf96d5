//! The scheduler is killed, stopped and started again and again under busy processes: each makes progress every time.

use crate::steps::{PRIORITY, Steps, scheduler_state};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tombola_lab::bench::guest::spawn;
use tombola_lab::cpu::become_real_time;

/// Kill, stop and start the scheduler under busy processes
#[derive(clap::Args)]
pub struct Args {
    #[arg(long, default_value_t = 100)]
    cycles: u32,
    /// Busy processes; every tenth of them forks without end
    #[arg(long, default_value_t = 100)]
    processes: u32,
    /// Options of `tombola start`
    #[arg(last = true)]
    options: Vec<String>,
}

const PATIENCE: Duration = Duration::from_secs(300);

pub fn run(args: &Args) -> io::Result<()> {
    let steps = Steps::of(args.processes as usize)?;
    let mut pids = Vec::new();
    for (number, steps) in steps.0.iter().enumerate() {
        pids.push(spawn(|| {
            if number % 10 == 9 {
                fork_on(steps)
            } else {
                compute(steps)
            }
        })?);
    }
    become_real_time(PRIORITY)?;
    let all_progress = || steps.await_progress(&steps.read(), || all_exist(&pids));
    all_progress()?;
    for cycle in 0..args.cycles {
        let mut scheduler = start(&args.options)?;
        all_progress()?;
        // After SIGKILL the next one starts at once: it waits until the kernel has detached the one that was killed.
        if end(&mut scheduler, cycle)? == Ended::InOrder {
            all_progress()?;
        }
    }
    println!(
        "{} cycles, and {} processes make progress",
        args.cycles,
        pids.len()
    );
    pids.into_iter().for_each(tombola_lab::bench::guest::end);
    Ok(())
}

fn compute(steps: &AtomicU64) -> ! {
    loop {
        for i in 0..100_000 {
            std::hint::black_box(i);
        }
        steps.fetch_add(1, Ordering::Relaxed);
    }
}

fn fork_on(steps: &AtomicU64) -> ! {
    loop {
        // SAFETY: one thread, and the child does nothing but exit.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(0),
                pid => libc::waitpid(pid, std::ptr::null_mut(), 0),
            }
        };
        steps.fetch_add(1, Ordering::Relaxed);
    }
}

fn all_exist(pids: &[i32]) -> io::Result<()> {
    // SAFETY: a null status is allowed; signal 0 only asks.
    match pids
        .iter()
        .find(|&&pid| unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::WNOHANG) } != 0)
    {
        None => Ok(()),
        Some(pid) => Err(io::Error::other(format!("process {pid} is gone"))),
    }
}

/// Loading is seconds of work for the verifier, which would take minutes beside a hundred busy processes under the kernel's own
/// scheduler. So the loader is real-time; it makes itself so anyway when it has loaded.
fn start(options: &[String]) -> io::Result<Child> {
    let mut command = Command::new("tombola");
    command.arg("start").args(options).stdout(Stdio::piped());
    // SAFETY: one system call.
    let mut scheduler = unsafe { command.pre_exec(|| become_real_time(1)) }.spawn()?;
    let mut line = String::new();
    if let Some(output) = &mut scheduler.stdout {
        BufReader::new(output).read_line(&mut line)?;
    }
    if line.is_empty() {
        let status = scheduler.wait()?;
        return Err(io::Error::other(format!(
            "tombola start ended with {status}"
        )));
    }
    Ok(scheduler)
}

#[derive(PartialEq)]
enum Ended {
    Killed,
    InOrder,
}

/// Ends the scheduler, in three ways by turns: SIGKILL, `tombola stop`, SIGTERM.
fn end(scheduler: &mut Child, cycle: u32) -> io::Result<Ended> {
    match cycle % 3 {
        0 => {
            scheduler.kill()?;
            scheduler.wait()?;
            return Ok(Ended::Killed);
        }
        1 => {
            let status = Command::new("tombola")
                .arg("stop")
                .stdout(Stdio::null())
                .status()?;
            if !status.success() {
                return Err(io::Error::other(format!(
                    "tombola stop ended with {status}"
                )));
            }
        }
        // SAFETY: our own child, not waited for yet.
        _ => drop(unsafe { libc::kill(scheduler.id() as i32, libc::SIGTERM) }),
    }
    scheduler.wait()?;
    await_disabled()?;
    Ok(Ended::InOrder)
}

fn await_disabled() -> io::Result<()> {
    let began = Instant::now();
    while scheduler_state()? != "disabled" {
        if began.elapsed() > PATIENCE {
            return Err(io::Error::other(format!(
                "the scheduler is {} still, after {} s",
                scheduler_state()?,
                PATIENCE.as_secs()
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
