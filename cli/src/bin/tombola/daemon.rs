//! `tombola start` and `tombola stop`.

use crate::notify::notify;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tombola_cli::status::{kernel, kernel_text};
use tombola_kernel::scheduler::{self, End, Options};
use tombola_kernel::{Error, Result, daemon_pid, sched_ext, user_name};

/// The kernel takes each thread back one by one; on a busy machine with many that takes a while.
const STOP_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

// Not within `run`: a closed pipe must not end the one who holds the scheduler.
pub fn start(options: &Options, verbose: bool) -> ExitCode {
    let mut running = match scheduler::start(options) {
        Ok(running) => running,
        Err(error) => {
            eprintln!("tombola: {error}");
            return ExitCode::FAILURE;
        }
    };
    if verbose {
        for program in running.programs() {
            let (name, verified) = (program.name, program.verified);
            say(&format!("{name:16}{verified:>8} instructions verified"));
        }
    }
    say(&format!(
        "tombola schedules: {}, quantum {:?}; ctrl-C or tombola stop ends it",
        options.policy.name(),
        Duration::from_nanos(options.quantum_ns),
    ));
    notify("READY=1");
    let end = running.wait();
    notify("STOPPING=1");
    drop(running);
    report(&end)
}

fn report(end: &End) -> ExitCode {
    match end {
        End::Asked(signal) => {
            say(&format!(
                "tombola has ended ({signal}): the kernel's own scheduler has all threads again"
            ));
            ExitCode::SUCCESS
        }
        End::Ejected { reason, message } => {
            eprintln!(
                "tombola: the kernel has ended the scheduler: {reason}: {message}\n  \
                 cause: a fault in it, a thread that it let wait too long, or SysRq-S; the kernel schedules by itself now\n  \
                 next:  tombola start; if it was a fault, report it with the kernel's log (dmesg)"
            );
            ExitCode::FAILURE
        }
    }
}

// The reader of our output may be gone; that is no reason to end.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stdout(), "{line}");
}

pub fn stop() -> Result<ExitCode> {
    sched_ext::state()?;
    let Some(pid) = daemon_pid() else {
        return Err(sched_ext::not_running());
    };
    print!("before:\n{}", kernel_text(&kernel()));
    match kill(Pid::from_raw(pid.cast_signed()), Signal::SIGTERM) {
        Ok(()) | Err(Errno::ESRCH) => (), // it may end by itself in this very moment
        Err(_) => {
            return Err(Error::NotRoot {
                what: "stopping the scheduler",
                caller: user_name(Uid::effective().as_raw()),
                cause: "it was started by root",
                command: "tombola stop",
            });
        }
    }
    wait_for_end(pid)?;
    print!("after:\n{}", kernel_text(&kernel()));
    Ok(ExitCode::SUCCESS)
}

fn wait_for_end(pid: u32) -> Result<()> {
    let began = Instant::now();
    while daemon_pid() == Some(pid) || sched_ext::state()?.is_tombola() {
        if began.elapsed() > STOP_WITHIN {
            return Err(Error::StillThere {
                pid,
                seconds: STOP_WITHIN.as_secs(),
            });
        }
        sleep(LOOK_EVERY);
    }
    Ok(())
}
