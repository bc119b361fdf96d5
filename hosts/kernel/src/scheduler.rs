//! Loads the scheduler, holds it, and ends it.
//!
//! ```text
//!   start: check ─> claim /run/tombola ─> load ─> attach ─> pin ─> wait ─┬─ SIGINT, SIGTERM ─────> detach ─> remove
//!                                                                   ^    ├─ the kernel ejected it ──^
//!                                                                   └────┴─ SIGHUP, base tickets, or a timeout
//! ```
//!
//! The kernel keeps the scheduler loaded by a link that this process owns. If the process dies, the kernel itself closes the
//! link and schedules as before; only files in /run/tombola are left behind, which the next start replaces.

use crate::abi;
use crate::addresses::Addresses;
use crate::calls::Policy;
use crate::cpus::{RunQueue, online_cpus, run_queues};
use crate::ejection::{Ejection, Kind};
use crate::error::{Error, Result};
use crate::names::{printable, user_name};
use crate::runtime_dir::{PIN_RUNS, PIN_SWITCH, RuntimeDir};
use crate::sched_ext;
use crate::subordinate;
use crate::waits;
use crate::{one, several};
use libbpf_rs::query::{ProgInfoIter, ProgramInfo};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, PrintLevel, RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::SignalFd;
use nix::unistd::Uid;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tombola_core::Rules;

/// The range of the quantum, ns. A shorter one costs more than it improves; a longer one does not fit the bound on lag.
pub const QUANTUM_NS_MIN: u64 = 100_000;
pub const QUANTUM_NS_MAX: u64 = 100_000_000;
pub const QUANTUM_NS_DEFAULT: u64 = 1_000_000;

/// The core's arithmetic holds lag below 2^29 ns.
const _: () = assert!(Rules::stride(QUANTUM_NS_MAX).lag_ns < 1 << 29);
const _: () = assert!(Rules::lottery(QUANTUM_NS_MAX).lag_ns < 1 << 29);

/// The longest tick, that of a kernel with 100 Hz. A slice that ends at the tick may be that much longer than a quantum.
const TICK_NS_MAX: u64 = 10_000_000;

/// CPUs that the scheduler has state for (NR_CPUS in bpf/state.h).
const CPUS_MAX: usize = length(|variables| &variables.cpus);

const fn length<T, const N: usize>(_: fn(&one::types::bss) -> &[T; N]) -> usize {
    N
}

/// The prefix of the names of the scheduler's programs.
const PREFIX: &[u8] = b"tombola_";

/// The kernel detaches a scheduler within so much time, also on a busy machine. It is looked at so often.
const DETACHED_WITHIN: Duration = Duration::from_secs(30);
const DETACHED_LOOK: Duration = Duration::from_millis(20);

const CAP_SYS_ADMIN: u32 = 21;

/// How many of libbpf's last lines an error repeats.
const LOG_LINES: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SliceEnd {
    /// By a timer, on time.
    Timer,
    /// At the kernel's next tick, 1 to 10 ms apart. Cheaper, and coarser.
    Tick,
}

/// By which rule threads move between run queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// From a queue with a slow clock to one with a fast clock.
    Clock,
    /// To one of the next queues with a quarter less threads, as in Plan 9's MQS.
    Mqs,
}

/// Which loans are made (bpf/loans.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    Off,
    /// Those that calls ask for (bpf/lending.h).
    Explicit,
    /// Also those of threads that wait for another thread of the same user (bpf/waits.h).
    Auto,
}

#[derive(Clone, Debug)]
pub struct Options {
    pub policy: Policy,
    pub quantum_ns: u64,
    pub slice_end: SliceEnd,
    pub run_queue: RunQueue,
    /// None: by the clock, if there are several queues.
    pub balance: Option<Balance>,
    /// None: auto if there is one queue, off if there are several.
    pub transfer: Option<Transfer>,
}

/// How far the clocks of two queues may be apart, ns. A queue of one CPU must give threads away more often to keep this bound.
const BOUND_NS: u64 = 10_000_000;
const BOUND_NS_OF_CPUS: u64 = 20_000_000;

/// The loaded BPF object.
enum Skeleton {
    One(one::MainSkel<'static>),
    Several(several::MainSkel<'static>),
}

/// The same expression for either object; the names in both are the same.
macro_rules! of_each {
    ($skeleton:expr, $name:ident => $expression:expr) => {
        match $skeleton {
            Skeleton::One($name) => $expression,
            Skeleton::Several($name) => $expression,
        }
    };
}

/// Why the scheduler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Asked(Signal),
    Ejected(Ejection),
}

/// What [`Running::wait`] waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// SIGHUP: read the configuration files again.
    Reload,
    /// See [`Running::base_has_changed`].
    Changed,
    End(End),
}

/// The loaded scheduler. Dropping it ends the scheduler.
pub struct Running {
    // The fields are dropped in this order: detach, free, remove the files.
    _link: Link,
    _signals_link: Link,
    skeleton: Skeleton,
    runtime_dir: RuntimeDir,
    signals: SigSet,
    /// Readable while one of the signals is pending.
    signals_fd: SignalFd,
    daemon_events: RingBuffer<'static>,
}

/// Loads and attaches the scheduler. From here on SIGINT, SIGTERM and SIGHUP are blocked, and [`Running::wait`] reports them.
pub fn start(options: &Options) -> Result<Running> {
    check_range(options.quantum_ns)?;
    let addresses = check_machine()?;
    let queues = run_queues(options.run_queue, possible_cpus())?;
    if options.balance.is_some() && queues.len() == 1 {
        return Err(Error::OneQueue);
    }
    let lends = options
        .transfer
        .is_some_and(|transfer| transfer != Transfer::Off);
    if lends && queues.len() > 1 {
        return Err(Error::SeveralQueues);
    }
    let runtime_dir = RuntimeDir::claim()?;
    await_no_scheduler()?;
    let signals = block_signals();
    libbpf_rs::set_print(Some((PrintLevel::Warn, keep_message)));
    let mut skeleton =
        load(options, addresses, &queues).map_err(|error| refused("loading it", &error))?;
    write_subordinates(&mut skeleton);
    become_realtime();
    let link = of_each!(&mut skeleton, of => of.maps.tombola_ops.attach_struct_ops())
        .map_err(|error| refused("attaching it", &error))?;
    let signals_link = of_each!(&mut skeleton, of => of.progs.tombola_signalled.attach())
        .map_err(|error| refused("following signals", &error))?;
    let signals_fd = SignalFd::new(&signals)
        .map_err(|errno| refused("waiting for signals", &io::Error::from(errno).into()))?;
    let mut running = Running {
        _link: link,
        _signals_link: signals_link,
        daemon_events: daemon_events(&skeleton)
            .map_err(|error| refused("opening its events", &error))?,
        skeleton,
        runtime_dir,
        signals,
        signals_fd,
    };
    running.pin()?;
    Ok(running)
}

/// A loaded BPF program.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its first 15 characters.
    pub name: String,
    /// Instructions that the verifier processed. It gives up at a million.
    pub verified: u32,
}

impl Running {
    pub fn programs(&self) -> Vec<Program> {
        let ours = |program: &ProgramInfo| program.name.as_bytes().starts_with(PREFIX);
        let program = |program: ProgramInfo| Program {
            name: program.name.to_string_lossy().into_owned(),
            verified: program.verified_insns,
        };
        ProgInfoIter::default().filter(ours).map(program).collect()
    }

    /// Reads /etc/subuid again. Users that the scheduler already has stay as they are.
    pub fn reload_subordinates(&mut self) {
        write_subordinates(&mut self.skeleton);
    }

    /// Waits for the next event; with a `time` at most for that, and then returns None.
    pub fn wait(&self, time: Option<Duration>) -> Option<Event> {
        // SAFETY: the ring buffer keeps the descriptor open.
        let daemon_events = unsafe { BorrowedFd::borrow_raw(self.daemon_events.epoll_fd()) };
        let mut files = [
            PollFd::new(self.signals_fd.as_fd(), PollFlags::POLLIN),
            PollFd::new(daemon_events, PollFlags::POLLIN),
        ];
        // Rounded up to whole milliseconds. A time that is too long is cut, and the wait ends early.
        let timeout = time.map_or(PollTimeout::NONE, |time| {
            PollTimeout::try_from(time.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX)
        });
        let nothing = poll(&mut files, timeout) == Ok(0);
        let _ = self.daemon_events.consume(); // records without content; the state is read below
        match next_signal(&self.signals) {
            Some(Signal::SIGHUP) => return Some(Event::Reload),
            Some(signal) => return Some(Event::End(End::Asked(signal))),
            None => (),
        }
        if let Some(end) = self.ejection() {
            return Some(Event::End(end));
        }
        (!nothing).then_some(Event::Changed)
    }

    /// Were users added, or base tickets changed, since [`Self::forget_changes`]? Until that is called again, no further change
    /// ends [`Self::wait`].
    pub fn base_has_changed(&self) -> bool {
        // SAFETY: a plain integer, which the kernel also writes.
        let changed = |of: &u32| unsafe { std::ptr::read_volatile(of) } != 0;
        of_each!(&self.skeleton, of => of.maps.bss_data.as_ref().is_some_and(|all| changed(&all.base_changed)))
    }

    /// To be called before the changes are read, so that none is missed.
    pub fn forget_changes(&mut self) {
        let changed = of_each!(&mut self.skeleton, of => of.maps.bss_data.as_mut().map(|all| &mut all.base_changed));
        if let Some(changed) = changed {
            // SAFETY: the integer lives as long as the skeleton, and the kernel also exchanges it atomically.
            let changed = unsafe { AtomicU32::from_ptr(changed) };
            changed.swap(0, Ordering::SeqCst);
        }
    }

    fn pin(&mut self) -> Result<()> {
        let refused = |error| refused("pinning its programs", &error);
        of_each!(&mut self.skeleton, of => {
            of.progs.tombola_call.pin(abi::PIN_CALL).map_err(refused)?;
            of.progs.tombola_tree.pin(abi::PIN_TREE).map_err(refused)?;
            of.maps.runs.pin(PIN_RUNS).map_err(refused)?;
            of.maps.data_trace.pin(PIN_SWITCH).map_err(refused)?;
        });
        self.runtime_dir.publish(abi::PIN_CALL)?;
        self.runtime_dir.publish(abi::PIN_TREE)
    }

    fn ejection(&self) -> Option<End> {
        of_each!(&self.skeleton, of => {
            let exit = &of.maps.bss_data.as_ref()?.tombola_exit;
            // SAFETY: a plain integer. The kernel writes it last, after the texts.
            let kind = Kind::of(unsafe { std::ptr::read_volatile(&exit.kind) })?;
            Some(End::Ejected(Ejection {
                kind,
                reason: text(&exit.reason),
                message: text(&exit.msg),
                exit_code: exit.code,
                dump: text(&exit.dump),
            }))
        })
    }
}

// While the ranges are written, their number is 0, so the scheduler uses none. Ranges that cannot be read or written are
// reported; their uids are users of their own.
fn write_subordinates(skeleton: &mut Skeleton) {
    let ranges = subordinate::read().unwrap_or_else(|error| {
        eprintln!(
            "tombola: cannot read /etc/subuid: {error}\n  \
             cause: its disk fails, or a security module forbids it; until then subordinate uids count as users of their own\n  \
             next:  repair it, then tombola reload"
        );
        Vec::new()
    });
    set_nr_subordinates(skeleton, 0);
    let written = (0u32..).zip(&ranges).take_while(|(at, range)| {
        let at = at.to_ne_bytes();
        of_each!(&*skeleton, of => of.maps.subordinates.update(&at, &range.bytes(), MapFlags::ANY))
            .is_ok()
    });
    let count = written.count();
    if count < ranges.len() {
        eprintln!(
            "tombola: /etc/subuid has {} ranges; only the first {count} are used\n  \
             cause: there is no room for more; the uids of the others count as users of their own\n  \
             next:  remove ranges of users that no longer exist, then tombola reload",
            ranges.len()
        );
    }
    set_nr_subordinates(skeleton, count as u32);
}

fn set_nr_subordinates(skeleton: &mut Skeleton, count: u32) {
    let ours =
        of_each!(skeleton, of => of.maps.bss_data.as_mut().map(|all| &mut all.nr_subordinates));
    if let Some(ours) = ours {
        // SAFETY: a plain integer, which the kernel only reads.
        unsafe { std::ptr::write_volatile(ours, count) };
    }
}

fn daemon_events(skeleton: &Skeleton) -> libbpf_rs::Result<RingBuffer<'static>> {
    let mut builder = RingBufferBuilder::new();
    of_each!(skeleton, of => builder.add(&of.maps.daemon_events, |_| 0))?;
    builder.build()
}

fn check_range(quantum_ns: u64) -> Result<()> {
    if (QUANTUM_NS_MIN..=QUANTUM_NS_MAX).contains(&quantum_ns) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what: "nanoseconds for a quantum",
        given: quantum_ns,
        min: QUANTUM_NS_MIN,
        max: QUANTUM_NS_MAX,
    })
}

fn check_machine() -> Result<Addresses> {
    sched_ext::state()?;
    if !has_capability(CAP_SYS_ADMIN) {
        return Err(Error::NotRoot {
            what: "loading a scheduler",
            caller: user_name(Uid::effective().as_raw()),
            cause: "a scheduler controls the threads of all users (CAP_SYS_ADMIN)",
            command: "tombola start",
        });
    }
    match libbpf_rs::num_possible_cpus() {
        Ok(cpus) if cpus > CPUS_MAX => Err(Error::TooManyCpus {
            cpus: cpus as u64,
            max: CPUS_MAX as u64,
        }),
        _ => Addresses::read().ok_or(Error::HiddenAddresses),
    }
}

/// Waits while a scheduler is being detached. When a daemon was killed, the kernel does that after the daemon has gone. A
/// scheduler of ours is one of those, since the runtime directory, which another daemon would have, is claimed before.
fn await_no_scheduler() -> Result<()> {
    let began = Instant::now();
    loop {
        let state = sched_ext::state()?;
        if state.is_disabled() {
            return Ok(());
        }
        let leaves = state.is_tombola() || state.state == "disabling";
        if !leaves || began.elapsed() > DETACHED_WITHIN {
            return Err(Error::OtherScheduler {
                name: state
                    .scheduler
                    .unwrap_or_else(|| format!("one without a name ({})", state.state)),
            });
        }
        sleep(DETACHED_LOOK);
    }
}

fn has_capability(capability: u32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> capability & 1 == 1)
}

/// Opens an object, sets its constants, lets `$more` do the rest, and loads it.
macro_rules! load {
    ($object:ident, $options:expr, $addresses:expr, $more:expr) => {{
        // The skeleton borrows its storage. It is needed until the process exits, so it is never freed.
        let storage = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = $object::MainSkelBuilder::default().open(storage)?;
        let rodata = open.maps.rodata_data.as_deref_mut();
        let rodata = rodata.expect("the scheduler has constants");
        let config = &mut rodata.tombola_config;
        let rules = rules($options);
        config.rules.quantum_ns = rules.quantum_ns;
        config.rules.lag_ns = rules.lag_ns;
        config.rules.behind_ns = rules.behind_ns;
        config.rules.protect_ns = rules.protect_ns;
        config.rules.credit_ns = rules.credit_ns;
        config.rules.lottery = rules.lottery;
        config.tick_slices = u32::from($options.slice_end == SliceEnd::Tick);
        config.nr_cpus = possible_cpus() as u32;
        config.online_cpus = online_cpus();
        config.transfer = $options.transfer.unwrap_or(Transfer::Auto) as u32;
        config.pipe_files = $addresses.pipe_files;
        config.fifo_files = $addresses.fifo_files;
        config.eventfd_files = $addresses.eventfd_files;
        config.socket_files = $addresses.socket_files;
        config.active_cpus = $addresses.active_cpus;
        config.rcu_state = $addresses.rcu_state;
        rodata.system_calls = waits::system_calls();
        $more(&mut open)?;
        open.load()
    }};
}

fn load(
    options: &Options,
    addresses: Addresses,
    queues: &[Vec<usize>],
) -> libbpf_rs::Result<Skeleton> {
    if queues.len() == 1 {
        let nothing = |_: &mut one::OpenMainSkel| Ok::<(), libbpf_rs::Error>(());
        return load!(one, options, addresses, nothing).map(Skeleton::One);
    }
    load!(several, options, addresses, |open| configure_queues(
        open, options, queues
    ))
    .map(Skeleton::Several)
}

fn configure_queues(
    open: &mut several::OpenMainSkel,
    options: &Options,
    queues: &[Vec<usize>],
) -> libbpf_rs::Result<()> {
    open.maps.run_queues.set_max_entries(queues.len() as u32)?;
    let rodata = open
        .maps
        .rodata_data
        .as_deref_mut()
        .expect("the scheduler has constants");
    let config = &mut rodata.tombola_config;
    config.nr_queues = queues.len() as u32;
    config.group_slots = queues.len().next_power_of_two() as u32;
    let of_one_cpu = queues.iter().all(|cpus| cpus.len() == 1);
    config.bound_ns = if of_one_cpu {
        BOUND_NS_OF_CPUS
    } else {
        BOUND_NS
    };
    if of_one_cpu {
        config.rules.behind_ns = rules(options).of_one_cpu().behind_ns;
    }
    config.mqs = u32::from(options.balance == Some(Balance::Mqs));
    for (number, cpus) in queues.iter().enumerate() {
        let queue = &mut rodata.queue_cpus[number];
        queue.cpus = cpus.len() as u32;
        queue.first = cpus[0] as u32;
        // Words begin where the CPUs of the words before end, so that each of 64 CPUs has a bit of its own.
        let mut used = 0;
        for word in 0..queue.words.len() {
            let bits: Vec<usize> = cpus
                .iter()
                .filter(|&cpu| cpu / 64 == word)
                .map(|cpu| cpu % 64)
                .collect();
            let Some(&lowest) = bits.first() else {
                continue;
            };
            queue.words[word] = bits.iter().map(|bit| 1u64 << bit).sum();
            queue.turns[word] = ((used + 64 - lowest) % 64) as u8;
            used = (used + bits[bits.len() - 1] - lowest + 1) % 64;
            for bit in bits {
                let place = &mut rodata.cpu_places[word * 64 + bit];
                place.queue = number as u8;
                place.bit = ((bit + usize::from(queue.turns[word])) % 64) as u8;
            }
        }
    }
    Ok(())
}

/// CPUs that the machine may have.
fn possible_cpus() -> usize {
    libbpf_rs::num_possible_cpus().unwrap_or(1)
}

fn rules(options: &Options) -> Rules {
    let mut rules = match options.policy {
        Policy::Stride => Rules::stride(options.quantum_ns),
        Policy::Lottery => Rules::lottery(options.quantum_ns),
    };
    if options.slice_end == SliceEnd::Tick {
        rules.credit_ns = rules.credit_ns.max(2 * TICK_NS_MAX);
    }
    rules
}

// A scheduler that starves threads must not starve the process that can end it. Children do not inherit the priority. If it
// is not permitted, the process goes on without: the kernel's watchdog remains.
fn become_realtime() {
    let parameters = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameters live through the call.
    if unsafe { libc::sched_setscheduler(0, policy, &parameters) } != 0 {
        let error = std::io::Error::last_os_error();
        eprintln!(
            "tombola: without real-time priority for this process: {error}\n  \
             cause: a container, or RLIMIT_RTPRIO=0 without CAP_SYS_NICE\n  \
             next:  run it as root on the machine itself; if threads starve, SysRq-S ends it"
        );
    }
}

/// Blocks SIGINT, SIGTERM and SIGHUP, so that the program can end in order.
pub fn block_signals() -> SigSet {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    signals
        .thread_block()
        .expect("valid signals can be blocked");
    signals
}

/// Is one of the blocked signals pending? That signal is consumed.
pub fn is_signalled(signals: &SigSet) -> bool {
    next_signal(signals).is_some()
}

fn next_signal(signals: &SigSet) -> Option<Signal> {
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: set and time live through the call; the signal's details are not requested.
    let signal = unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), &at_once) };
    Signal::try_from(signal).ok()
}

// The kernel's texts contain names of threads, which threads choose themselves.
fn text(chars: &[i8]) -> String {
    let bytes: Vec<u8> = chars
        .iter()
        .map(|char| char.cast_unsigned())
        .take_while(|byte| *byte != 0)
        .collect();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<String> = text.trim_end().lines().map(printable).collect();
    lines.join("\n")
}

// libbpf says why something failed only in its messages, with the verifier's among them.
static MESSAGES: Mutex<String> = Mutex::new(String::new());

fn keep_message(_level: PrintLevel, message: String) {
    if let Ok(mut messages) = MESSAGES.lock() {
        messages.push_str(&message);
    }
}

fn refused(doing: &'static str, error: &libbpf_rs::Error) -> Error {
    let messages = MESSAGES.lock().map(|text| text.clone());
    Error::Refused {
        doing,
        error: error.to_string(),
        log: last_lines(&messages.unwrap_or_default(), LOG_LINES),
    }
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(count)..];
    last.iter().map(|line| format!("\n    {line}")).collect()
}
