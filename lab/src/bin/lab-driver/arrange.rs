//! What the clients hold: tickets, currencies, reservations, by Tombola's commands; and deadlines.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use tombola_lab::bench::guest::{UID_BASE, now_ns, set_tickets, sleep_until};
use tombola_lab::plan::{Answer, Client, Currency, Deadline, Plan, Scheduler, TICKETS_DEFAULT};

pub struct Arranged {
    answer: Option<Answer>,
}

impl Arranged {
    pub fn arrange(plan: &Plan, pids: &[i32]) -> io::Result<Self> {
        let all = || plan.clients.iter().zip(pids.iter().copied());
        if plan.scheduler == Scheduler::Deadline {
            for (client, pid) in all() {
                client
                    .deadline
                    .map_or(Ok(()), |deadline| insist_on_deadline(pid, deadline))?;
            }
        }
        if plan.scheduler.policy().is_none() {
            return Ok(Self { answer: None });
        }
        for currency in &plan.currencies {
            let tickets = currency.tickets.to_string();
            of_user(currency, &["make", &currency.name, "--tickets", &tickets])?;
        }
        for (client, pid) in all() {
            hold(client, pid)?;
        }
        let answer = plan.request.map(|request| {
            let output = reserve(request.percent, pids[request.client])?;
            Ok::<_, io::Error>(answer(&output))
        });
        Ok(Self {
            answer: answer.transpose()?,
        })
    }

    /// Called after the clients have ended; their reservations end with them.
    pub fn undo(self, plan: &Plan) -> io::Result<Option<Answer>> {
        if plan.scheduler.policy().is_some() {
            for currency in &plan.currencies {
                of_user(currency, &["retire", &currency.name])?;
            }
        }
        Ok(self.answer)
    }
}

fn hold(client: &Client, pid: i32) -> io::Result<()> {
    if client.tickets != TICKETS_DEFAULT {
        set_tickets(pid, client.tickets)?;
    }
    if let Some(name) = &client.currency {
        let words = ["currency", "enter", name, &pid.to_string()];
        insist(as_user(Command::new("tombola").args(words), client.user))?;
    }
    if let Some(percent) = client.reserved {
        let output = reserve(percent, pid)?;
        if !output.status.success() {
            let words = answer(&output).text;
            return Err(io::Error::other(format!(
                "a reservation of a plan: {words}"
            )));
        }
    }
    Ok(())
}

fn of_user(currency: &Currency, words: &[&str]) -> io::Result<()> {
    let mut command = Command::new("tombola");
    insist(as_user(command.arg("currency").args(words), currency.user))
}

fn as_user(command: &mut Command, user: u32) -> &mut Command {
    command.uid(UID_BASE + user).gid(UID_BASE + user)
}

fn insist(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let words = answer(&output).text;
    Err(io::Error::other(format!("{command:?}: {words}")))
}

fn reserve(percent: u32, pid: i32) -> io::Result<Output> {
    let (share, pid) = (format!("{percent}%"), pid.to_string());
    Command::new("tombola")
        .args(["reserve", &share, "--pid", &pid])
        .output()
}

fn answer(output: &Output) -> Answer {
    Answer {
        status: output.status.code().unwrap_or(-1),
        text: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    }
}

/// The kernel's `struct sched_attr`.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

const SCHED_DEADLINE: u32 = 6;

/// The bandwidth of the previous plan's clients is free only when the periods in which they ended are over.
fn insist_on_deadline(pid: i32, deadline: Deadline) -> io::Result<()> {
    const TRIES: u64 = 20;
    for _ in 1..TRIES {
        match set_deadline(pid, deadline) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                sleep_until(now_ns() + deadline.period_ns);
            }
            done => return done,
        }
    }
    set_deadline(pid, deadline)
}

fn set_deadline(pid: i32, deadline: Deadline) -> io::Result<()> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: SCHED_DEADLINE,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns: deadline.runtime_ns,
        deadline_ns: deadline.period_ns,
        period_ns: deadline.period_ns,
    };
    // SAFETY: the kernel reads as many bytes as `size` says.
    match unsafe { libc::syscall(libc::SYS_sched_setattr, pid, &raw const attributes, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
