//! The private system calls, for any program. They run in the kernel with the caller's credentials, without the daemon, and
//! take a few microseconds.
//!
//! A pinned BPF program is opened by its path, and run with a structure of [`crate::abi`] as its context. The kernel writes
//! the answer into that structure.

use crate::abi::{self, Call, Node, Op, Tree, info};
use crate::error::{Error, Result};
use crate::names::{process_name, process_owner, user_name};
use crate::sched_ext;
use libbpf_rs::libbpf_sys;
use nix::errno::Errno;
use nix::unistd::Uid;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Stride,
    Lottery,
}

impl Policy {
    pub fn name(self) -> &'static str {
        match self {
            Policy::Stride => "stride",
            Policy::Lottery => "lottery",
        }
    }
}

/// How often a call is tried if other programs change the same clients meanwhile.
const TRIES: u32 = 100;

/// The running scheduler's settings and counts.
#[derive(Clone, Debug)]
pub struct Info {
    pub policy: Policy,
    pub quantum_ns: u64,
    /// Possible CPUs, online or not.
    pub cpus: u64,
    /// Clients in use, threads and currencies.
    pub clients: u64,
    /// Threads that wait for a CPU.
    pub waiting: u64,
    /// Processes that are currencies: they have or had several threads.
    pub threaded: u64,
    /// The kernel's monotonic clock, ns.
    pub now_ns: u64,
}

/// Tickets, and the limit: the most that the owner may set from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub tickets: u32,
    /// None: no limit but the general range; for base tickets, the default.
    pub most: Option<u32>,
}

impl Grant {
    /// Without a limit.
    pub fn unlimited(tickets: u32) -> Self {
        Self {
            tickets,
            most: None,
        }
    }

    /// The tickets are also the limit.
    pub fn at_most(tickets: u32) -> Self {
        Self {
            tickets,
            most: Some(tickets),
        }
    }

    /// `limit` is as in [`crate::abi::Node::limit`].
    pub fn of(tickets: u32, limit: u32) -> Self {
        let most = (limit != abi::NO_LIMIT).then_some(limit);
        Self { tickets, most }
    }

    pub(crate) fn value(self) -> u64 {
        let limit = self.most.unwrap_or(abi::NO_LIMIT);
        u64::from(limit) << abi::LIMIT_SHIFT | u64::from(self.tickets)
    }
}

/// A connection to the running scheduler. After the scheduler has ended, each call fails with [`Error::NotRunning`].
pub struct Client {
    call: OwnedFd,
    tree: OwnedFd,
}

impl Client {
    pub fn open() -> Result<Self> {
        let client = Self {
            call: open_pin(abi::PIN_CALL)?,
            tree: open_pin(abi::PIN_TREE)?,
        };
        let found = client.ask(Op::Info, 0)?[info::ABI];
        if found != abi::ABI {
            return Err(Error::Version {
                found,
                wanted: abi::ABI,
            });
        }
        Ok(client)
    }

    /// Tickets of a process in its currency; 0 if it is frozen.
    pub fn tickets(&self, pid: u32) -> Result<u32> {
        Ok(amount(self.of_process(Op::GetTickets, pid, 0)?[0]))
    }

    /// 1 to 10,000 tickets; 0 freezes the process until other tickets are set. For its owner, or with CAP_SYS_NICE. What
    /// CAP_SYS_NICE sets for another user's process is also the most that its owner may set from then on.
    pub fn set_tickets(&self, pid: u32, tickets: u32) -> Result<()> {
        self.of_process(Op::SetTickets, pid, tickets.into())
            .map(|_| ())
    }

    /// The same, with a separate limit. Needs CAP_SYS_NICE.
    pub fn grant_tickets(&self, pid: u32, grant: Grant) -> Result<()> {
        self.of_process(Op::SetTickets, pid, grant.value())
            .map(|_| ())
    }

    /// Slices that a process has begun, drawn or not.
    pub fn wins(&self, pid: u32) -> Result<u64> {
        Ok(self.of_process(Op::GetWins, pid, 0)?[0])
    }

    /// Element i: how often i sixths of the quantum, 0 to 6, were left when the process gave up the CPU.
    pub fn quantum_use(&self, pid: u32) -> Result<[u64; abi::QUANTUM_PARTS]> {
        let out = self.of_process(Op::GetQuantumUse, pid, 0)?;
        Ok(std::array::from_fn(|sixths| out[sixths]))
    }

    /// Base tickets of a user, 0 if frozen; the default if the scheduler has not seen the user yet.
    pub fn base_tickets(&self, uid: u32) -> Result<u32> {
        Ok(amount(self.of_user(Op::GetBaseTickets, uid, 0)?[0]))
    }

    /// 100 to 10,000 base tickets; 0 freezes all of the user's clients, except those with a reservation. Without CAP_SYS_NICE
    /// only the caller's own, not 0, and at most the default or what was last set with CAP_SYS_NICE. Root cannot be frozen.
    pub fn set_base_tickets(&self, uid: u32, tickets: u32) -> Result<()> {
        self.of_user(Op::SetBaseTickets, uid, tickets.into())
            .map(|_| ())
    }

    /// The same, with a separate limit. Needs CAP_SYS_NICE.
    pub fn grant_base_tickets(&self, uid: u32, grant: Grant) -> Result<()> {
        self.of_user(Op::SetBaseTickets, uid, grant.value())
            .map(|_| ())
    }

    pub fn info(&self) -> Result<Info> {
        let out = self.ask(Op::Info, 0)?;
        Ok(Info {
            policy: match out[info::POLICY] {
                0 => Policy::Stride,
                _ => Policy::Lottery,
            },
            quantum_ns: out[info::QUANTUM_NS],
            cpus: out[info::CPUS],
            clients: out[info::CLIENTS],
            waiting: out[info::WAITING],
            threaded: out[info::PROCESSES],
            now_ns: out[info::NOW_NS],
        })
    }

    /// Each counter's name and value.
    pub fn counters(&self) -> Result<Vec<(&'static str, u64)>> {
        (0..)
            .zip(abi::COUNTERS)
            .map(|(index, name)| Ok((name, self.ask(Op::GetCounter, index)?[0])))
            .collect()
    }

    /// All clients that the caller may see. They are read without a lock: fields may be of different moments.
    pub fn tree(&self) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        let mut part = Tree::default();
        loop {
            match run(&self.tree, &mut part) {
                Ok(()) => (),
                Err(Errno::ENODEV) => return Err(sched_ext::not_running()),
                Err(errno) => return Err(Error::CallFailed { errno }),
            }
            let found = &part.node[..abi::TREE_NODES.min(part.count as usize)];
            nodes.extend(found.iter().filter(|node| node.kind != abi::kind::REMOVED));
            if part.from == 0 {
                return Ok(nodes);
            }
        }
    }

    fn of_process(&self, op: Op, pid: u32, value: u64) -> Result<[u64; 8]> {
        let tickets = value as u32; // the lower half of the value
        self.call(op, pid, value).map_err(|errno| match errno {
            Errno::ERANGE if tickets == 0 => Error::NotFrozen { who: "process 1" },
            Errno::ERANGE => out_of_tickets(tickets),
            other => about_process(other, pid),
        })
    }

    fn of_user(&self, op: Op, uid: u32, value: u64) -> Result<[u64; 8]> {
        let tickets = value as u32; // the lower half of the value
        self.call(op, uid, value).map_err(|errno| match errno {
            Errno::ENOSPC => Error::NoSlot,
            Errno::ERANGE if tickets == 0 => Error::NotFrozen { who: "root" },
            Errno::EPERM => Error::BaseTickets {
                tickets,
                most: self.most_base_tickets(uid),
                user: user_name(uid),
                caller: caller(),
            },
            Errno::ERANGE => Error::OutOfRange {
                what: "base tickets",
                given: tickets.into(),
                min: abi::BASE_TICKETS_MIN.into(),
                max: abi::BASE_TICKETS_MAX.into(),
            },
            other => failed(other),
        })
    }

    // For the message of a refusal.
    fn most_base_tickets(&self, uid: u32) -> u32 {
        let nodes = self.tree().unwrap_or_default();
        let is_user = |node: &&Node| node.kind == abi::kind::USER && node.id == uid;
        let limit = nodes.iter().find(is_user).map(|user| user.limit);
        limit
            .filter(|limit| *limit != abi::NO_LIMIT)
            .or_else(|| self.reserved().ok().map(|all| all.default))
            .unwrap_or(abi::BASE_TICKETS_DEFAULT)
    }

    fn ask(&self, op: Op, id: u32) -> Result<[u64; 8]> {
        self.call(op, id, 0).map_err(failed)
    }

    fn call(&self, op: Op, id: u32, value: u64) -> nix::Result<[u64; 8]> {
        let mut call = Call {
            op: op as u32,
            id,
            value,
            ..Call::default()
        };
        self.carry_out(&mut call)?;
        Ok(call.out)
    }

    // EAGAIN: other programs changed the same clients meanwhile, or the process has just changed its user. At most a part was
    // done, which a repetition completes; the call is tried again.
    pub(crate) fn carry_out(&self, call: &mut Call) -> nix::Result<()> {
        let asked = *call;
        for _ in 1..TRIES {
            match run(&self.call, call) {
                Err(Errno::EAGAIN) => *call = asked,
                answer => return answer,
            }
            std::thread::yield_now();
        }
        run(&self.call, call)
    }
}

// The kernel checks amounts against 32-bit ranges before it stores them.
fn amount(out: u64) -> u32 {
    u32::try_from(out).unwrap_or(u32::MAX)
}

pub(crate) fn out_of_tickets(tickets: u32) -> Error {
    Error::OutOfRange {
        what: "tickets",
        given: tickets.into(),
        min: abi::TICKETS_MIN.into(),
        max: abi::TICKETS_MAX.into(),
    }
}

pub(crate) fn about_process(errno: Errno, pid: u32) -> Error {
    match errno {
        Errno::ESRCH => no_process(pid),
        Errno::EPERM => not_owner(pid),
        other => failed(other),
    }
}

pub(crate) fn failed(errno: Errno) -> Error {
    match errno {
        Errno::ENODEV => sched_ext::not_running(),
        Errno::EAGAIN => Error::Changing,
        errno => Error::CallFailed { errno },
    }
}

pub(crate) fn no_process(pid: u32) -> Error {
    match process_name(pid) {
        Some(name) => Error::NoTickets { pid, name },
        None => Error::NoProcess { pid },
    }
}

pub(crate) fn not_owner(pid: u32) -> Error {
    match (process_name(pid), process_owner(pid)) {
        (Some(name), Some(owner)) if owner == Uid::effective().as_raw() => Error::Limited {
            what: format!("process {pid} ({name})"),
        },
        (Some(name), Some(owner)) => Error::NotOwner {
            pid,
            name,
            owner: user_name(owner),
            caller: caller(),
        },
        _ => Error::NoProcess { pid },
    }
}

pub(crate) fn caller() -> String {
    user_name(Uid::effective().as_raw())
}

fn open_pin(path: &str) -> Result<OwnedFd> {
    let name = CString::new(path).expect("a constant without NUL");
    // SAFETY: the name is a C string that lives through the call.
    let fd = unsafe { libbpf_sys::bpf_obj_get(name.as_ptr()) };
    if fd >= 0 {
        // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    Err(match Errno::from_raw(-fd) {
        Errno::ENOENT => sched_ext::not_running(),
        errno => Error::File {
            action: "open",
            path: path.to_owned(),
            errno,
            cause: "a container or a seccomp filter denies it to this program",
            next: "try it outside the container; ls -l /run/tombola/bpf shows the permissions",
        },
    })
}

// Runs a pinned program. The kernel copies the context in, and out again with the answer.
fn run<T>(program: &OwnedFd, context: &mut T) -> nix::Result<()> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        ctx_in: std::ptr::from_mut(context).cast(),
        ctx_size_in: size_of::<T>() as u32,
        ..Default::default()
    };
    // SAFETY: the context is a plain structure of the given size, borrowed for writing.
    let ret = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if ret < 0 {
        return Err(Errno::from_raw(-ret));
    }
    match options.retval.cast_signed() {
        answer if answer < 0 => Err(Errno::from_raw(-answer)),
        _ => Ok(()),
    }
}
