//! The errors: each has its fact, its likely cause and the next step.

use crate::abi::{CURRENCIES_MAX, NESTED_MAX, PIN_CALL};
use crate::percent::Percent;
use nix::errno::Errno;
use tombola_core::limits::LENT_MAX;

/// The oldest kernel on which Tombola is tested. The verifier of older ones gives up.
pub const KERNEL_MIN: &str = "6.16";

fn rather(left: u64) -> String {
    match left {
        0 => String::new(),
        left => format!("ask for {} or less, ", percent(left)),
    }
}

// In hundredths of a percent.
fn percent(hundredths: u64) -> Percent {
    Percent::of_hundredths(u32::try_from(hundredths).unwrap_or(u32::MAX))
}

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "this kernel has no sched_ext: /sys/kernel/sched_ext is missing\n  \
         cause: {cause}\n  \
         next:  {next}, or try Tombola in a virtual machine: make demo, in its source tree"
    )]
    NoSchedExt { cause: String, next: String },

    #[error(
        "Tombola is not running: {found}\n  \
         cause: it was not started, or it has ended\n  \
         next:  systemctl start tombola, or without the service: tombola start (as root); tombola status names the \
         scheduler that runs now"
    )]
    NotRunning { found: String },

    #[error(
        "the running scheduler speaks version {found} of the calls, this program version {wanted}\n  \
         cause: one of them was updated without the other\n  \
         next:  systemctl restart tombola; if that does not help, type -a tombola shows whether it is installed twice"
    )]
    Version { found: u64, wanted: u64 },

    #[error(
        "there is no process {pid}\n  \
         cause: it has exited, or it has another PID in this container\n  \
         next:  look up its PID: ps -e"
    )]
    NoProcess { pid: u32 },

    #[error(
        "process {pid} ({name}) has no tickets\n  \
         cause: it is a kernel thread, or a zombie\n  \
         next:  choose another process; tombola status --all lists the processes that have tickets"
    )]
    NoTickets { pid: u32, name: String },

    #[error(
        "not permitted: process {pid} ({name}) is {owner}'s, and you are {caller}\n  \
         cause: only its owner, or a program with CAP_SYS_NICE, may change the tickets of a process\n  \
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
         cause: without CAP_SYS_NICE you may only set your own, here to at most {most} and not to 0\n  \
         next:  choose fewer for yourself, or repeat it as root"
    )]
    BaseTickets {
        tickets: u32,
        most: u32,
        user: String,
        caller: String,
    },

    #[error(
        "not permitted: an administrator has set the tickets of {what}, of a currency around it, or of something in it\n  \
         cause: the owner may not set more than that, nor move it elsewhere; tombola tree shows how currencies are nested\n  \
         next:  choose fewer tickets, or ask the administrator"
    )]
    Limited { what: String },

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
        "this machine may have {cpus} CPUs, and Tombola supports at most {max}\n  \
         cause: CPUs that may be added later count, too (/sys/devices/system/cpu/possible)\n  \
         next:  boot with the kernel parameter nr_cpus={max}, if the machine has no more"
    )]
    TooManyCpus { cpus: u64, max: u64 },

    #[error(
        "{who} cannot be frozen: the number of tickets cannot be 0\n  \
         cause: without process 1 no orphan is reaped, and a frozen root could thaw nothing\n  \
         next:  choose another number, or freeze another process or user"
    )]
    NotFrozen { who: &'static str },

    #[error(
        "there is no currency {name}\n  \
         cause: it was not made, it was retired, or it is another user's and hidden from you\n  \
         next:  tombola currency list shows yours; as root, tombola currency list -u USER shows another user's"
    )]
    NoCurrency { name: String },

    #[error(
        "there is a currency {name} already\n  \
         cause: each of a user's currencies has a name of its own, also if it is nested\n  \
         next:  choose another name, or change that one: tombola currency fund {name} TICKETS (another user's: USER:{name})"
    )]
    CurrencyExists { name: String },

    #[error(
        "{name:?} cannot be a currency's name\n  \
         cause: a name has 1 to 23 letters, digits, '_', '.' and '-', and does not begin with '-'\n  \
         next:  choose another name"
    )]
    CurrencyName { name: String },

    #[error(
        "not permitted: a currency of {user}'s, and you are {caller}\n  \
         cause: only its owner, or a program with CAP_SYS_NICE, may see and change a currency\n  \
         next:  make one of your own, or repeat it as root"
    )]
    NotYourCurrency { user: String, caller: String },

    #[error(
        "currency {name} cannot be in {inside}: they are different users'\n  \
         cause: a currency contains currencies of one user only, also if root moves them\n  \
         next:  choose a currency of the same user"
    )]
    OfAnotherUser { name: String, inside: String },

    #[error(
        "currency {name} cannot be in {inside}: it would be inside itself\n  \
         cause: {inside} is {name}, or in it\n  \
         next:  move {inside} out first, or choose another; tombola tree shows how currencies are nested"
    )]
    InsideItself { name: String, inside: String },

    #[error(
        "currency {name} would be nested too deep\n  \
         cause: currencies are at most {NESTED_MAX} inside one another\n  \
         next:  choose one that is nested less deep; tombola tree shows how currencies are nested"
    )]
    TooDeep { name: String },

    #[error(
        "there is no slot for currency {name}\n  \
         cause: a user has at most {CURRENCIES_MAX}, and at most as many slots as are free\n  \
         next:  retire some: tombola currency list, tombola currency retire NAME"
    )]
    NoCurrencySlot { name: String },

    #[error(
        "not done: the process or its user changed at each try\n  \
         cause: the process has just changed its user, or its threads come and go\n  \
         next:  repeat it"
    )]
    Changing,

    #[error(
        "not done: the currencies changed at each try\n  \
         cause: other programs make, move and retire currencies of this owner, or fork without end in this one\n  \
         next:  repeat it when they have stopped"
    )]
    CurrenciesChanging,

    #[error(
        "{} cannot be reserved for {who}: {} is left\n  \
         cause: of {} for the machine's CPUs, best effort keeps {}, and reservations hold {}\n  \
         next:  {}end another reservation, or lower the floor in /etc/tombola.toml and run tombola reload",
        percent(*.asked), percent(*.left), percent(*.machine), percent(*.floor), percent(*.held), rather(*.left)
    )]
    Admission {
        who: String,
        /// These five are in hundredths of a percent of one CPU.
        asked: u64,
        left: u64,
        machine: u64,
        floor: u64,
        held: u64,
    },

    #[error(
        "{} is not a share that can be {what}\n  \
         cause: the range is {} to {}; nothing was changed\n  \
         next:  choose one in that range",
        percent(*.given), percent(*.min), percent(*.max)
    )]
    ShareRange {
        what: &'static str,
        given: u64,
        min: u64,
        max: u64,
    },

    #[error(
        "best effort cannot keep {}: reservations hold {}\n  \
         cause: together that is more than the machine has\n  \
         next:  end or reduce a reservation first: tombola reserve lists them; those of the rules are in /etc/tombola.toml",
        percent(*.floor), percent(*.held)
    )]
    Floor { floor: u64, held: u64 },

    #[error(
        "not permitted: {what}, and you are {caller}\n  \
         cause: it changes the shares of all other users, so it needs CAP_SYS_NICE\n  \
         next:  repeat it as root"
    )]
    NotNice { what: String, caller: String },

    #[error(
        "every slot for a user, a process or a currency is taken\n  \
         cause: there are more of them than the scheduler has room for\n  \
         next:  end processes; tombola status --all shows which user has so many"
    )]
    NoSlot,

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
         next:  tombola reload reads the rules again; to start it anew: systemctl restart tombola, or without the service: \
         tombola stop, then tombola start"
    )]
    AlreadyRunning { pid: u32 },

    #[error(
        "Tombola still runs {seconds} s after it was asked to end, as process {pid}\n  \
         cause: the process is stopped, or the machine is too busy to let it end\n  \
         next:  kill -CONT {pid}; kill -KILL {pid} ends it at once; a service: systemctl stop tombola"
    )]
    NotEnded { pid: u32, seconds: u64 },

    #[error(
        "another scheduler is loaded: {name}\n  \
         cause: sched_ext holds one scheduler at a time\n  \
         next:  end {name} first, then systemctl start tombola (without the service: tombola start)"
    )]
    OtherScheduler { name: String },

    #[error(
        "the kernel hides the addresses of its variables, which the scheduler reads\n  \
         cause: the setting kernel.kptr_restrict is 2, or the kernel was built without CONFIG_KALLSYMS\n  \
         next:  sysctl kernel.kptr_restrict=1, then start Tombola again"
    )]
    HiddenAddresses,

    #[error(
        "the kernel names no last-level caches, by which CPUs could share run queues\n  \
         cause: a virtual machine that does not show its caches, or /sys is not mounted\n  \
         next:  start with --run-queue machine or --run-queue cpu; nothing was started"
    )]
    NoCaches,

    #[error(
        "this machine would have {queues} run queues, and Tombola supports at most {max}\n  \
         cause: it may have that many CPUs, or last-level caches\n  \
         next:  start with --run-queue llc or --run-queue machine; nothing was started"
    )]
    TooManyQueues { queues: u64, max: u64 },

    #[error(
        "there is one run queue, between which and no other one --balance could move threads\n  \
         cause: --run-queue machine, or the machine has one last-level cache\n  \
         next:  start without --balance, or with --run-queue cpu; nothing was started"
    )]
    OneQueue,

    #[error(
        "there are several run queues, and on several no thread lends its tickets\n  \
         cause: --run-queue llc or cpu, or a machine with many CPUs and several last-level caches\n  \
         next:  start with --transfer off, or with --run-queue machine; nothing was started"
    )]
    SeveralQueues,

    #[error(
        "no thread lends its tickets here\n  \
         cause: the scheduler was started with --transfer off, or has several run queues\n  \
         next:  start it with --transfer explicit or auto, and with --run-queue machine"
    )]
    NoLoans,

    #[error(
        "process {pid} cannot lend {given} tickets\n  \
         cause: it must keep one, so now it can lend {most}\n  \
         next:  lend fewer, or give it more first: lrenice {pid} TICKETS"
    )]
    TooManyLent { pid: u32, given: u32, most: u32 },

    #[error(
        "process {pid} would lend to itself\n  \
         cause: both PIDs are the same\n  \
         next:  name another process with --to"
    )]
    LentToItself { pid: u32 },

    #[error(
        "process {pid} has as many lenders as can be\n  \
         cause: at most {LENT_MAX} lend to one thread at a time, directly or through others\n  \
         next:  tombola tree shows them; end one with tombola reclaim"
    )]
    TooManyLenders { pid: u32 },

    #[error(
        "process {from} has no loan{} that a call has made\n  \
         cause: it was not made, it has ended, or one of the two has exited, changed its user, or got other tickets\n  \
         next:  tombola tree lists the loans",
        match to { Some(to) => format!(" to {to}"), None => String::new() }
    )]
    NoLoan { from: u32, to: Option<u32> },

    #[error(
        "{tracer} already follows the runs\n  \
         cause: each record goes to one reader, so there is one at a time\n  \
         next:  find it with pgrep -af 'tombola trace', and end it (Ctrl-C, or kill PID)"
    )]
    AlreadyTracing { tracer: &'static str },

    #[error(
        "the kernel did not take the scheduler while {doing}: {error}{log}\n  \
         cause: a kernel that Tombola does not know (it needs {KERNEL_MIN} or newer), or one that restricts BPF (lockdown)\n  \
         next:  boot a kernel that is tested (docs/install.md names them); if it is one, report it with the lines above and \
         the output of uname -r"
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
         next:  try it outside the container; restart Tombola after an update"
    )]
    CallFailed { errno: Errno },
}
