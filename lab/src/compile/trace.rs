//! Traces a command with its children, by ptrace. They stop only where a process begins, becomes another program, or ends, so
//! their CPU time hardly changes.

use super::processes::Process;
use anyhow::{Context, Result, bail};
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// All processes of the command, in the order in which they began; the first is the command's own.
pub fn trace(command: &mut Command) -> Result<Vec<Process>> {
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(|| ptrace::traceme().map_err(io::Error::from));
    }
    let child = command
        .spawn()
        .with_context(|| format!("cannot trace {command:?}"))?;
    let root = Pid::from_raw(child.id().try_into()?);
    waitpid(root, None)?; // it has become the command
    let options = Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXIT
        | Options::PTRACE_O_EXITKILL;
    ptrace::setoptions(root, options)?;
    let mut traced = Traced::default();
    traced.begin(root, None);
    ptrace::cont(root, None)?;
    let status = traced.run(root)?;
    if status != 0 {
        bail!("{command:?} ended with status {status}");
    }
    Ok(traced.processes)
}

#[derive(Default)]
struct Traced {
    processes: Vec<Process>,
    numbers: HashMap<Pid, usize>,
    /// Processes that were seen before their parents told of them, and wait for that.
    early: HashSet<Pid>,
}

impl Traced {
    fn begin(&mut self, pid: Pid, parent: Option<Pid>) {
        self.numbers.insert(pid, self.processes.len());
        self.processes.push(Process {
            parent: parent.map(|parent| self.numbers[&parent]),
            ..Process::default()
        });
    }

    /// Until the root has ended; returns its status.
    fn run(&mut self, root: Pid) -> Result<i32> {
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL))? {
                WaitStatus::Exited(pid, status) if pid == root => return Ok(status),
                WaitStatus::Signaled(pid, signal, _) if pid == root => {
                    return Ok(128 + signal as i32);
                }
                WaitStatus::PtraceEvent(pid, _, event) => {
                    if event == Event::PTRACE_EVENT_EXIT as i32 {
                        self.end(pid)?;
                    } else {
                        let child = Pid::from_raw(ptrace::getevent(pid)?.try_into()?);
                        self.begin(child, Some(pid));
                        if self.early.remove(&child) {
                            ptrace::cont(child, None)?;
                        }
                    }
                    ptrace::cont(pid, None)?;
                }
                WaitStatus::Stopped(pid, _) if !self.numbers.contains_key(&pid) => {
                    self.early.insert(pid);
                }
                // Children begin with the first; a new program, with the second.
                WaitStatus::Stopped(pid, Signal::SIGSTOP | Signal::SIGTRAP) => {
                    ptrace::cont(pid, None)?;
                }
                WaitStatus::Stopped(pid, signal) => ptrace::cont(pid, signal)?,
                _ => {}
            }
        }
    }

    /// The process is about to end; /proc still has its accounts.
    fn end(&mut self, pid: Pid) -> Result<()> {
        let of = |name: &str| {
            fs::read_to_string(format!("/proc/{pid}/{name}"))
                .with_context(|| format!("cannot read {name} of a traced process"))
        };
        let number = |text: &str, name: &str| -> Result<u64> {
            let found = text.lines().find_map(|line| line.strip_prefix(name));
            let number = found.and_then(|rest| rest.trim().parse().ok());
            number.with_context(|| format!("/proc has no {name}"))
        };

        let schedstat = of("schedstat")?;
        let used = schedstat.split(' ').next().map(str::parse::<u64>);
        // The task's own reads: those of a process would include its children's.
        let reads = number(&of(&format!("task/{pid}/io"))?, "syscr:")?;
        let process = &mut self.processes[self.numbers[&pid]];
        process.name = of("comm")?.trim().to_owned();
        process.reads = reads.try_into()?;
        process.cpu_us = vec![used.context("schedstat is empty")??.div_ceil(1000)];
        Ok(())
    }
}
