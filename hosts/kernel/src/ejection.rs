//! Why the kernel ended the scheduler, what that means, and what to do.

use std::fmt::{self, Display, Formatter};

/// What ended the scheduler, by the kernel's number (enum scx_exit_kind, a part of sched_ext's interface).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sysrq,
    Stall,
    Fault,
    /// A change of the kernel's own that the scheduler cannot follow.
    Kernel,
}

/// The link was closed, as the daemon does to end the scheduler.
const UNREGISTERED: i32 = 64;
const SYSRQ: i32 = 67;
const ERROR: i32 = 1024;
const ERROR_STALL: i32 = 1026;

impl Kind {
    /// None: the scheduler runs, or the daemon ended it.
    pub(crate) fn of(number: i32) -> Option<Self> {
        match number {
            0 | UNREGISTERED => None,
            SYSRQ => Some(Self::Sysrq),
            ERROR_STALL => Some(Self::Stall),
            ERROR.. => Some(Self::Fault),
            _ => Some(Self::Kernel),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Sysrq => "sysrq",
            Self::Stall => "stall",
            Self::Fault => "fault",
            Self::Kernel => "kernel",
        }
    }

    pub fn cause(self) -> &'static str {
        match self {
            Self::Sysrq => "Alt-SysRq-Shift-S was pressed, or S was written to /proc/sysrq-trigger",
            Self::Stall => {
                "a runnable thread had no CPU for 30 s: real-time processes occupy its CPUs, or a fault in Tombola"
            }
            Self::Fault => "a fault in Tombola, or a kernel that Tombola does not know",
            Self::Kernel => "the kernel made a change after which a scheduler must be started anew",
        }
    }

    pub fn next(self) -> &'static str {
        match self {
            Self::Sysrq => "systemctl start tombola, or without the service: tombola start",
            Self::Kernel => "tombola start, unless the service has started it again",
            Self::Stall => {
                "look for busy real-time threads (FF, RR, DLN in ps -eLo pid,tid,cls,pcpu,comm; tombola itself is always FF); \
                 end such a process, or make it ordinary: chrt -a -o -p 0 PID; if there is none, report it with \
                 /run/tombola/ejection.dump"
            }
            Self::Fault => {
                "report it with /run/tombola/ejection.dump and the kernel's log; systemd starts the service again, without it: \
                 tombola start"
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    pub kind: Kind,
    /// The kernel's words for the kind.
    pub reason: String,
    /// What happened; empty if the reason says it all.
    pub message: String,
    pub exit_code: i64,
    /// The kernel's dump, many lines; empty if it made none.
    pub dump: String,
}

impl Ejection {
    /// Reason and message, in one line.
    pub fn fact(&self) -> String {
        match self.message.as_str() {
            "" => self.reason.clone(),
            message => format!("{}: {message}", self.reason),
        }
    }
}

impl Display for Ejection {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let (cause, next) = (self.kind.cause(), self.kind.next());
        write!(
            f,
            "the kernel has ended the scheduler: {}\n  cause: {cause}; the kernel schedules by itself now\n  next:  {next}",
            self.fact()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_by_the_daemon_is_no_ejection() {
        let kinds: Vec<Option<Kind>> = [0, 64, 66, 67, 1024, 1025, 1026].map(Kind::of).into();
        let (kernel, fault) = (Some(Kind::Kernel), Some(Kind::Fault));
        let (sysrq, stall) = (Some(Kind::Sysrq), Some(Kind::Stall));
        assert_eq!(kinds, [None, None, kernel, sysrq, fault, fault, stall]);
    }
}
