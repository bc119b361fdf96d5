//! Loans by calls: a process lends some of its tickets to a thread, or a thread lends all that it has while it waits.

use crate::abi::{self, Call, Op};
use crate::calls::{Client, about_process, caller, failed, no_process, not_owner, out_of_tickets};
use crate::error::{Error, Result};
use crate::names::{process_name, process_owner};
use nix::errno::Errno;
use nix::unistd::Uid;
use std::time::Duration;

/// For how long a thread lends all that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// The next time that it waits, until it is answered.
    Next,
    /// Whenever it waits, until the loan is reclaimed.
    All,
}

impl Client {
    /// Process `from` lends so many of its tickets, fewer than it has, to thread `to`: until [`Self::reclaim`], for a time that
    /// is rounded up to ms and at most 49 days, or until one of them exits. It has the others meanwhile. For the owner of both,
    /// or with CAP_SYS_NICE.
    pub fn lend(&self, from: u32, to: u32, tickets: u32, time: Option<Duration>) -> Result<()> {
        let ms = time.map_or(0, |time| time.as_micros().div_ceil(1000).max(1));
        let mut call = Call {
            value: tickets.into(),
            ms: u32::try_from(ms).unwrap_or(u32::MAX),
            ..about(Op::Lend, from, to)
        };
        self.carry_out(&mut call).map_err(|errno| match errno {
            Errno::ERANGE if !(abi::TICKETS_MIN..=abi::TICKETS_MAX).contains(&tickets) => {
                out_of_tickets(tickets)
            }
            Errno::ERANGE => Error::TooManyLent {
                pid: from,
                given: tickets,
                most: self.tickets(from).unwrap_or(0).saturating_sub(1),
            },
            other => self.about_loan(other, from, to),
        })
    }

    /// Thread `from` lends all that it has to thread `to` while it waits, for whatever it waits. For the owner of both, or with
    /// CAP_SYS_NICE.
    pub fn lend_while_waiting(&self, from: u32, to: u32, waits: Waits) -> Result<()> {
        let mut call = Call {
            value: u64::from(waits == Waits::Next),
            ..about(Op::LendWaiting, from, to)
        };
        self.carry_out(&mut call)
            .map_err(|errno| self.about_loan(errno, from, to))
    }

    /// Ends loans of a process and of its thread with the same number, those to thread `to` or all, and returns how many. For the
    /// owner of the process or of the thread, or with CAP_SYS_NICE.
    pub fn reclaim(&self, from: u32, to: Option<u32>) -> Result<u64> {
        let mut call = about(Op::Reclaim, from, to.unwrap_or(0));
        match self.carry_out(&mut call) {
            Ok(()) => Ok(call.out[0]),
            Err(Errno::ENOENT) => Err(Error::NoLoan { from, to }),
            Err(errno) => Err(self.about_loan(errno, from, to.unwrap_or(from))),
        }
    }

    /// Threads of other users, too, lend their tickets to a process while they wait for it to answer, and to those that it forks
    /// from now on; or not, as at first. That ends with a change of user. If the rules name servers, the daemon makes each second
    /// what they say of it. Needs CAP_SYS_NICE.
    pub fn set_server(&self, pid: u32, serves: bool) -> Result<()> {
        let mut call = Call {
            value: serves.into(),
            ..about(Op::SetServer, pid, 0)
        };
        self.carry_out(&mut call).map_err(|errno| match errno {
            Errno::EPERM => Error::NotNice {
                what: format!("that clients of all users lend to process {pid}"),
                caller: caller(),
            },
            other => about_process(other, pid),
        })
    }

    fn about_loan(&self, errno: Errno, from: u32, to: u32) -> Error {
        let foreign = |pid: &u32| process_owner(*pid) != Some(Uid::effective().as_raw());
        match errno {
            Errno::ESRCH => {
                let missing = [from, to]
                    .into_iter()
                    .find(|pid| process_name(*pid).is_none());
                let without = missing.unwrap_or(match self.tickets(from) {
                    Ok(_) => to,
                    Err(_) => from,
                });
                no_process(without)
            }
            Errno::EPERM => not_owner([from, to].into_iter().find(foreign).unwrap_or(from)),
            Errno::EINVAL => Error::LentToItself { pid: from },
            Errno::EBUSY => Error::TooManyLenders { pid: to },
            Errno::EOPNOTSUPP => Error::NoLoans,
            Errno::ENOSPC => Error::NoSlot,
            other => failed(other),
        }
    }
}

fn about(op: Op, from: u32, to: u32) -> Call {
    Call {
        op: op as u32,
        id: from,
        to,
        ..Call::default()
    }
}
