//! What can go wrong, each with its fact, its likely cause and the next step.

use crate::abi::{BASE_TICKETS_DEFAULT, PIN_CALL};
use nix::errno::Errno;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "this kernel has no sched_ext: /sys/kernel/sched_ext is missing\n  \
         cause: it is older than 6.12, or built without CONFIG_SCHED_CLASS_EXT\n  \
         next:  boot a kernel that has it, or try Tombola in a virtual machine: tombola lab --help"
    )]
    NoSchedExt,

    #[error(
        "Tombola is not running: {found}\n  \
         cause: it was not started, or it has ended\n  \
         next:  tombola start (as root); tombola status tells who schedules now"
    )]
    NotRunning { found: String },

    #[error(
        "the running scheduler speaks version {found} of the calls, this program version {wanted}\n  \
         cause: one of them was updated without the other\n  \
         next:  tombola stop, then tombola start, both from the installation of this program"
    )]
    Version { found: u64, wanted: u64 },

    #[error(
        "there is no process {pid}\n  \
         cause: it has ended, or its number is another in this container\n  \
         next:  look its number up: ps -e"
    )]
    NoProcess { pid: u32 },

    #[error(
        "process {pid} ({name}) has no tickets\n  \
         cause: it belongs to the kernel, has ended and waits for its parent, or came when every place was taken\n  \
         next:  choose another process; tombola status --all lists those that have tickets"
    )]
    NoTickets { pid: u32, name: String },

    #[error(
        "not permitted: process {pid} ({name}) is {owner}'s, and you are {caller}\n  \
         cause: only its owner, or who has CAP_SYS_NICE, changes the tickets of a process\n  \
         next:  ask {owner}, or repeat it as root"
    )]
    NotOwner {
        pid: u32,
        name: String,
        owner: String,
        caller: String,
    },

    #[error(
        "not permitted: {tickets} base tickets for {user}, and you are {caller}\n  \
         cause: without CAP_SYS_NICE one may set one's own only, to at most the default of {BASE_TICKETS_DEFAULT}\n  \
         next:  choose fewer for yourself, or repeat it as root"
    )]
    BaseTickets {
        tickets: u32,
        user: String,
        caller: String,
    },

    #[error(
        "{given} is not a number of {what}: the range is {min} to {max}\n  \
         cause: the request was out of range; nothing was changed\n  \
         next:  choose a number from {min} to {max}"
    )]
    OutOfRange {
        what: &'static str,
        given: u64,
        min: u64,
        max: u64,
    },

    #[error(
        "every place for a user is taken\n  \
         cause: more users have been seen than the scheduler has room for\n  \
         next:  restart it: tombola stop, then tombola start"
    )]
    NoPlace,

    #[error(
        "not permitted: {what} needs root, and you are {caller}\n  \
         cause: {cause}\n  \
         next:  repeat it as root: sudo {command}"
    )]
    NotRoot {
        what: &'static str,
        caller: String,
        cause: &'static str,
        command: &'static str,
    },

    #[error(
        "Tombola is running already, as process {pid}\n  \
         cause: one machine has one scheduler\n  \
         next:  tombola status; to start it anew: tombola stop, then tombola start"
    )]
    AlreadyRunning { pid: u32 },

    #[error(
        "Tombola still runs {seconds} s after it was asked to end, as process {pid}\n  \
         cause: the process is stopped, or the machine is too busy to let it end\n  \
         next:  kill -CONT {pid}; kill -KILL {pid} ends it at once, and the kernel schedules as before"
    )]
    StillThere { pid: u32, seconds: u64 },

    #[error(
        "another scheduler is loaded: {name}\n  \
         cause: sched_ext holds one scheduler at a time\n  \
         next:  end {name} first, then tombola start"
    )]
    OtherScheduler { name: String },

    #[error(
        "{tracer} already follows the draws\n  \
         cause: each row goes to one reader, so there is one at a time\n  \
         next:  end it first"
    )]
    AlreadyTracing { tracer: &'static str },

    #[error(
        "the kernel did not take the scheduler while {doing}: {error}{log}\n  \
         cause: a kernel that Tombola does not know (it needs 6.12 or newer), or one that restricts BPF (lockdown)\n  \
         next:  report it with the lines above and the output of uname -r"
    )]
    Refused {
        doing: &'static str,
        error: String,
        log: String,
    },

    #[error(
        "cannot {action} {path}: {errno}\n  \
         cause: {cause}\n  \
         next:  {next}"
    )]
    File {
        action: &'static str,
        path: String,
        errno: Errno,
        cause: &'static str,
        next: &'static str,
    },

    #[error(
        "the kernel refused a call through {PIN_CALL}: {errno}\n  \
         cause: bpf(2) is filtered for this program (seccomp, a container), or Tombola and this program differ in version\n  \
         next:  try it outside the container; compare tombola --version with the running one's"
    )]
    CallFailed { errno: Errno },
}
