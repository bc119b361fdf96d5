//! Why the kernel ended the scheduler, what that means, and what to do.

use std::fmt::{self, Display, Formatter};

/// What ended it, by the kernel's number (enum scx_exit_kind, a part of sched_ext's interface).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sysrq,
    Stall,
    Fault,
    /// A change of the kernel's own that the scheduler cannot follow.
    Kernel,
}

/// The link was closed, which is how we end it ourselves.
const UNREGISTERED: i32 = 64;
const SYSRQ: i32 = 67;
const ERROR: i32 = 1024;
const ERROR_STALL: i32 = 1026;

impl Kind {
    /// None: the scheduler runs, or was ended in order.
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
            Self::Sysrq => "somebody pressed Alt-SysRq-Shift-S, or wrote S to /proc/sysrq-trigger",
            Self::Stall => {
                "a thread that wanted to run had no CPU for 30 s: real-time processes keep its CPUs, or a fault in Tombola"
            }
            Self::Fault => "a fault in Tombola, or a kernel that Tombola does not know",
            Self::Kernel => {
                "the kernel changed something that a scheduler must be started anew for"
            }
        }
    }

    pub fn next(self) -> &'static str {
        match self {
            Self::Sysrq | Self::Kernel => "tombola start",
            Self::Stall => {
                "look for real-time processes (ps -eo pid,cls,rtprio,comm); if none is busy, report it with \
                 /run/tombola/ejection.dump"
            }
            Self::Fault => {
                "report it with /run/tombola/ejection.dump and the kernel's log; tombola start"
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    pub kind: Kind,
    /// The kernel's words for the kind.
    pub reason: String,
    /// What happened; nothing where the reason says it all.
    pub message: String,
    pub exit_code: i64,
    /// The kernel's dump, many lines; nothing if it made none.
    pub dump: String,
}

impl Ejection {
    /// In a line.
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
    fn an_end_in_order_is_no_ejection() {
        let kinds: Vec<Option<Kind>> = [0, 64, 66, 67, 1024, 1025, 1026].map(Kind::of).into();
        let (kernel, fault) = (Some(Kind::Kernel), Some(Kind::Fault));
        let (sysrq, stall) = (Some(Kind::Sysrq), Some(Kind::Stall));
        assert_eq!(kinds, [None, None, kernel, sysrq, fault, fault, stall]);
    }
}
