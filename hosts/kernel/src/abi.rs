//! `include/tombola_abi.h` in Rust. A test compiles the header and compares (tests/header.rs).

pub const ABI: u64 = 2;

pub const RUN_DIR: &str = "/run/tombola";
pub const PIN_DIR: &str = "/run/tombola/bpf";
pub const PIN_CALL: &str = "/run/tombola/bpf/call";
pub const PIN_TREE: &str = "/run/tombola/bpf/tree";

pub const TICKETS_MIN: u32 = 1;
pub const TICKETS_MAX: u32 = 10_000;
pub const TICKETS_DEFAULT: u32 = 100;
pub const BASE_TICKETS_MIN: u32 = 100;
pub const BASE_TICKETS_MAX: u32 = 10_000;
pub const BASE_TICKETS_DEFAULT: u32 = 1_000;

/// What was left of a quantum is counted in sixths: 0 to 6.
pub const QUANTUM_PARTS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Op {
    Info = 0,
    GetTickets = 1,
    SetTickets = 2,
    GetBaseTickets = 3,
    SetBaseTickets = 4,
    GetWins = 5,
    GetQuantumUse = 6,
    GetCounter = 7,
}

/// The context of the BPF program `call`; the kernel writes its answer over it.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Call {
    pub op: u32,
    pub id: u32,
    pub value: u64,
    pub out: [u64; 8],
}

/// Places in [`Call::out`] after [`Op::Info`].
pub mod info {
    pub const ABI: usize = 0;
    pub const POLICY: usize = 1;
    pub const QUANTUM_NS: usize = 2;
    pub const CPUS: usize = 3;
    pub const CLIENTS: usize = 4;
    pub const WAITING: usize = 5;
    pub const PROCESSES: usize = 6;
    pub const NOW_NS: usize = 7;
}

/// The counters in the order of their indices, named as `tombola status` shows them.
pub const COUNTERS: [&str; 12] = [
    "draws",
    "keeps",
    "preemptions",
    "cuts",
    "overdue",
    "clamped",
    "misplaced",
    "gone",
    "rehomed",
    "strays",
    "full",
    UNTRACED,
];
pub const UNTRACED: &str = "untraced";

/// Values of [`Node::kind`].
pub mod kind {
    pub const BASE: u32 = 1;
    pub const BEST_EFFORT: u32 = 2;
    pub const USER: u32 = 3;
    pub const PROCESS: u32 = 4;
    pub const THREAD: u32 = 5;
}

/// One node of the tree of currencies.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Node {
    pub index: u32,
    /// The currency it is a client of; 0 for base.
    pub parent: u32,
    pub kind: u32,
    /// uid of a user, tgid of a process, tid of a thread.
    pub id: u32,
    /// In the parent's money.
    pub tickets: u32,
    pub active: u32,
    /// Active clients of a currency.
    pub clients: u32,
    pub tgid: u32,
    /// CPU time received, up to the last settlement.
    pub used_ns: u64,
    pub wins: u64,
    /// Tickets of a currency's active clients.
    pub weight: u64,
    pub reserved: u64,
}

pub const TREE_NODES: usize = 32;

/// The context of the BPF program `tree`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Tree {
    pub from: u32,
    pub count: u32,
    pub node: [Node; TREE_NODES],
}

/// One record of the trace.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Draw {
    pub at_ns: u64,
    pub ran_ns: u64,
    pub cpu: u32,
    pub tid: u32,
    pub tgid: u32,
    pub uid: u32,
    pub tickets: u32,
    pub draw_tickets: u32,
    pub base_value_ppm: u32,
    pub compensation_ppm: u32,
    pub kept: u32,
    pub preempted: u32,
}
