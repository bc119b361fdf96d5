//! `tombola start`, `tombola stop` and `tombola reload`.

use super::published::{Published, answered, rules_file};
use crate::cgroups;
use crate::daemon::Keeper;
use crate::ejection;
use crate::rules::{Rules, RulesFile};
use crate::status::{kernel, kernel_text};
use crate::warn;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use sd_notify::NotifyState;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tombola_kernel::ejection::{Ejection, Kind};
use tombola_kernel::scheduler::{self, End, Event, Options, Running};
use tombola_kernel::{Error, Result, daemon_pid, sched_ext, user_name};

/// The kernel takes the threads back one by one, which takes a while on a busy machine with many threads.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// The daemon reads files, and may ask a directory server for the members of a group.
const RELOAD_WITHIN: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(20);

// Not within `run`: SIGPIPE must not end the daemon.
pub fn start(options: &Options, verbose: bool, rules: Option<&Path>) -> ExitCode {
    let file = RulesFile::new(rules);
    let rules = match file.read() {
        Ok(rules) => rules,
        Err(faults) => {
            eprintln!("{faults}\ntombola: {}", faults.refusal());
            return ExitCode::FAILURE;
        }
    };
    match try_start(options, verbose, file, rules) {
        Ok(end) => report(&end),
        Err(error) => {
            warn(&error.to_string());
            match error {
                Error::NoCaches | Error::TooManyQueues { .. } | Error::OneQueue => 2.into(),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn try_start(options: &Options, verbose: bool, file: RulesFile, rules: Rules) -> Result<End> {
    let mut running = scheduler::start(options)?;
    let risks = rules.risks();
    let mut keeper = Keeper::start(rules)?;
    let published = Published::new(file.path());
    let no_effect = cgroups::warning(&cgroups::without_effect());
    for warning in risks.into_iter().chain(no_effect) {
        warn(&warning);
    }
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
    notify(NotifyState::Ready);
    let file = RulesFile::of_daemon(file.path().to_owned());
    let end = serve(&mut running, &mut keeper, &file, &published);
    notify(NotifyState::Stopping);
    keeper.save_at_end();
    Ok(end)
}

// Notifies systemd, if it started us. If a message is lost, systemd notices by its time-out.
fn notify(state: NotifyState) {
    if let Err(error) = sd_notify::notify(&[state]) {
        warn(&format!(
            "cannot notify systemd: {error}\n  \
             cause: the socket in NOTIFY_SOCKET does not answer\n  \
             next:  systemctl status tombola; if it stays in \"activating\", systemctl restart tombola"
        ));
    }
}

fn serve(
    running: &mut Running,
    keeper: &mut Keeper,
    file: &RulesFile,
    published: &Published,
) -> End {
    loop {
        match running.wait(keeper.rest(running.base_has_changed())) {
            Some(Event::End(end)) => return end,
            Some(Event::Reload) => {
                notify(NotifyState::Reloading);
                running.reload_subordinates();
                published.answer(&read_again(keeper, file));
                notify(NotifyState::Ready);
            }
            Some(Event::Changed) => (), // `rest` tells when to look
            None => {
                running.forget_changes();
                keeper.look();
            }
        }
    }
}

// Returns the answer to `tombola reload`: empty if the new rules hold.
fn read_again(keeper: &mut Keeper, file: &RulesFile) -> String {
    let answer = match file.read() {
        Ok(rules) => keeper.reload(rules).map_err(|error| {
            format!(
                "{error}\ntombola: {}: not applied; the former rules hold",
                file.path().display()
            )
        }),
        Err(faults) => Err(format!("{faults}\ntombola: {}", faults.refusal())),
    };
    match answer {
        Ok(()) => {
            say(&format!("tombola applies {}", file.path().display()));
            String::new()
        }
        Err(text) => {
            warn(&text);
            text
        }
    }
}

fn report(end: &End) -> ExitCode {
    match end {
        End::Asked(signal) => ended(signal.as_str()),
        End::Ejected(ejection) => ejected(ejection),
    }
}

// SysRq-S is no failure: else systemd would restart the service at once, which the administrator does not want.
fn ejected(ejection: &Ejection) -> ExitCode {
    if let Err(error) = ejection::write(ejection) {
        warn(&format!(
            "cannot write the ejection to /run/tombola, for tombola status: {error}"
        ));
    }
    if ejection.kind == Kind::Sysrq {
        return ended("SysRq-S");
    }
    warn(&ejection.to_string());
    ExitCode::FAILURE
}

fn ended(by: &str) -> ExitCode {
    say(&format!(
        "tombola has ended ({by}): the kernel's own scheduler has all threads again"
    ));
    ExitCode::SUCCESS
}

// Ignores that the output's reader may have exited.
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
    signal(
        pid,
        Signal::SIGTERM,
        "stopping the scheduler",
        "tombola stop",
    )?;
    wait_for_end(pid)?;
    print!("after:\n{}", kernel_text(&kernel()));
    Ok(ExitCode::SUCCESS)
}

fn wait_for_end(pid: u32) -> Result<()> {
    let began = Instant::now();
    while daemon_pid() == Some(pid) || sched_ext::state()?.is_tombola() {
        if began.elapsed() > STOP_WITHIN {
            return Err(Error::NotEnded {
                pid,
                seconds: STOP_WITHIN.as_secs(),
            });
        }
        sleep(LOOK_EVERY);
    }
    Ok(())
}

fn signal(pid: u32, signal: Signal, what: &'static str, command: &'static str) -> Result<()> {
    match kill(Pid::from_raw(pid.cast_signed()), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()), // it may just have ended by itself
        Err(_) => Err(Error::NotRoot {
            what,
            caller: user_name(Uid::effective().as_raw()),
            cause: "it was started by root",
            command,
        }),
    }
}

pub fn reload() -> std::result::Result<ExitCode, String> {
    let text = |error: Error| error.to_string();
    sched_ext::state().map_err(text)?;
    let (Some(pid), Some(file)) = (daemon_pid(), rules_file()) else {
        return Err(text(sched_ext::not_running()));
    };
    if let Err(faults) = file.read() {
        eprintln!("{faults}");
        return Err(faults.refusal());
    }
    let before = answered();
    signal(
        pid,
        Signal::SIGHUP,
        "reading the rules again",
        "tombola reload",
    )
    .map_err(text)?;
    let began = Instant::now();
    loop {
        match answered() {
            after if after.stamp == before.stamp => (),
            after if after.text.is_empty() => return Ok(ExitCode::SUCCESS),
            after => return Err(after.text),
        }
        if daemon_pid() != Some(pid) {
            return Err(text(sched_ext::not_running()));
        }
        if began.elapsed() > RELOAD_WITHIN {
            return Err(format!(
                "process {pid} has not answered for {} s\n  \
                 cause: it is stopped, or waits for a directory server that knows the members of a group\n  \
                 next:  tombola status; the daemon's log will show the answer (of the service: journalctl -u tombola)",
                RELOAD_WITHIN.as_secs()
            ));
        }
        sleep(LOOK_EVERY);
    }
}
