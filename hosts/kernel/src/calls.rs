//! The private system calls, for any program. They run in the kernel as the caller and cost a few microseconds; the daemon
//! that holds the scheduler is not asked.
//!
//! A pinned BPF program is opened by its path and run with a structure of [`crate::abi`] as its context, over which the
//! kernel writes the answer.

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

/// How often to try again when others change the same at the same time.
const TRIES: u32 = 100;

/// What the scheduler says about itself.
#[derive(Clone, Debug)]
pub struct Info {
    pub policy: Policy,
    pub quantum_ns: u64,
    /// CPUs that the kernel may have, switched on or not.
    pub cpus: u64,
    /// Threads and currencies that have a place.
    pub clients: u64,
    /// Threads that wait for a CPU.
    pub waiting: u64,
    /// Processes that are currencies: of several threads, now or once.
    pub threaded: u64,
    /// The kernel's monotonic clock.
    pub now_ns: u64,
}

/// Tickets, and the most that the owner may set from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    pub tickets: u32,
    /// None: as many as owners may in general.
    pub most: Option<u32>,
}

impl Grant {
    /// The owner may set more.
    pub fn unlimited(tickets: u32) -> Self {
        Self {
            tickets,
            most: None,
        }
    }

    /// The owner may not set more.
    pub fn at_most(tickets: u32) -> Self {
        Self {
            tickets,
            most: Some(tickets),
        }
    }

    /// As [`crate::abi::Node::limit`] has it.
    pub fn of(tickets: u32, limit: u32) -> Self {
        let most = (limit != abi::NO_LIMIT).then_some(limit);
        Self { tickets, most }
    }

    pub(crate) fn value(self) -> u64 {
        let limit = self.most.unwrap_or(abi::NO_LIMIT);
        u64::from(limit) << abi::LIMIT_SHIFT | u64::from(self.tickets)
    }
}

/// A connection to the running scheduler. When that ends, each call fails with [`Error::NotRunning`].
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

    /// Tickets of a process, in the currency that it is in; 0 if it is frozen.
    pub fn tickets(&self, pid: u32) -> Result<u32> {
        Ok(amount(self.of_process(Op::GetTickets, pid, 0)?[0]))
    }

    /// From 1 to 10,000; 0 freezes it until it is given others. For the owner of the process, or with CAP_SYS_NICE; what the
    /// latter sets for somebody else's is the most that its owner may set from then on.
    pub fn set_tickets(&self, pid: u32, tickets: u32) -> Result<()> {
        self.of_process(Op::SetTickets, pid, tickets.into())
            .map(|_| ())
    }

    /// The same, with another limit. With CAP_SYS_NICE.
    pub fn grant_tickets(&self, pid: u32, grant: Grant) -> Result<()> {
        self.of_process(Op::SetTickets, pid, grant.value())
            .map(|_| ())
    }

    /// Draws that a process has won.
    pub fn wins(&self, pid: u32) -> Result<u64> {
        Ok(self.of_process(Op::GetWins, pid, 0)?[0])
    }

    /// How often 0, 1, … 6 sixths of the quantum were left when the process gave up the CPU.
    pub fn quantum_use(&self, pid: u32) -> Result<[u64; abi::QUANTUM_PARTS]> {
        let out = self.of_process(Op::GetQuantumUse, pid, 0)?;
        Ok(std::array::from_fn(|sixths| out[sixths]))
    }

    /// Base tickets of a user; the default if the scheduler has not seen the user yet.
    pub fn base_tickets(&self, uid: u32) -> Result<u32> {
        Ok(amount(self.of_user(Op::GetBaseTickets, uid, 0)?[0]))
    }

    /// From 100 to 10,000; 0 freezes all that is the user's. Without CAP_SYS_NICE one's own only, not 0, and at most the default,
    /// or what was last set with CAP_SYS_NICE.
    pub fn set_base_tickets(&self, uid: u32, tickets: u32) -> Result<()> {
        self.of_user(Op::SetBaseTickets, uid, tickets.into())
            .map(|_| ())
    }

    /// The same, with another limit. With CAP_SYS_NICE.
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

    /// Every currency and every client. Nodes come and go while it is read: each is right, the whole is of no one moment.
    pub fn tree(&self) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        let mut part = Tree::default();
        loop {
            match run(&self.tree, &mut part) {
                Ok(()) => (),
                Err(Errno::ENODEV) => return Err(sched_ext::not_running()),
                Err(errno) => return Err(Error::CallFailed { errno }),
            }
            nodes.extend_from_slice(&part.node[..abi::TREE_NODES.min(part.count as usize)]);
            if part.from == 0 {
                return Ok(nodes);
            }
        }
    }

    fn of_process(&self, op: Op, pid: u32, value: u64) -> Result<[u64; 8]> {
        let tickets = value as u32; // the lower half
        self.call(op, pid, value).map_err(|errno| match errno {
            Errno::ERANGE if tickets == 0 => Error::NotFrozen { who: "process 1" },
            Errno::ERANGE => out_of_tickets(tickets),
            other => about_process(other, pid),
        })
    }

    fn of_user(&self, op: Op, uid: u32, value: u64) -> Result<[u64; 8]> {
        let tickets = value as u32; // the lower half
        self.call(op, uid, value).map_err(|errno| match errno {
            Errno::ENOSPC => Error::NoPlace,
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

    // For what a refusal says.
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

    // While others change the same at the same moment nothing was done.
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
        errno => Error::CallFailed { errno },
    }
}

fn no_process(pid: u32) -> Error {
    match process_name(pid) {
        Some(name) => Error::NoTickets { pid, name },
        None => Error::NoProcess { pid },
    }
}

fn not_owner(pid: u32) -> Error {
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
        // SAFETY: the kernel just gave us this descriptor, nobody else has it.
        return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
    }
    Err(match Errno::from_raw(-fd) {
        Errno::ENOENT => sched_ext::not_running(),
        errno => Error::File {
            action: "open",
            path: path.to_owned(),
            errno,
            cause: "a container or a filter keeps this program from it",
            next: "try it outside the container; ls -l /run/tombola/bpf shows who may open it",
        },
    })
}

// Runs a pinned program; the kernel copies the context in and, changed, out again.
fn run<T>(program: &OwnedFd, context: &mut T) -> nix::Result<()> {
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size_of::<libbpf_sys::bpf_test_run_opts>() as u64,
        ctx_in: std::ptr::from_mut(context).cast(),
        ctx_size_in: size_of::<T>() as u32,
        ..Default::default()
    };
    // SAFETY: the context is a plain structure, borrowed for writing, of the size given.
    let ret = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if ret < 0 {
        return Err(Errno::from_raw(-ret));
    }
    match options.retval.cast_signed() {
        answer if answer < 0 => Err(Errno::from_raw(-answer)),
        _ => Ok(()),
    }
}
