//! `include/tombola_abi.h` in Rust. tests/header.rs compiles the header and compares.

pub const ABI: u64 = 5;

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

/// A value that sets tickets has the limit in the bits from this one up.
pub const LIMIT_SHIFT: u32 = 32;
/// Stands for no limit.
pub const NO_LIMIT: u32 = 0xffff;

/// Levels of nested currencies, a user's own not counted.
pub const NESTED_MAX: u32 = 8;
/// Currencies of one user.
pub const CURRENCIES_MAX: u32 = 1024;
/// Bytes of a currency's name with the NUL at its end.
pub const NAME: usize = 24;
/// Shares are counted in hundredths of a percent, of one CPU or of the machine.
pub const SHARE_ONE: u32 = 10_000;
pub const FLOOR_DEFAULT: u32 = 2_500;
pub const ROOT_DEFAULT: u32 = 500;
pub const ROOT_MAX: u32 = 5_000;

/// What is left of a quantum is counted in sixths, 0 to 6.
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
    FindCurrency = 8,
    MakeCurrency = 9,
    FundCurrency = 10,
    MoveCurrency = 11,
    RetireCurrency = 12,
    MoveProcess = 13,
    Reserve = 14,
    GetReserved = 15,
    SetFloor = 16,
    SetRoot = 17,
    SetDefault = 18,
    Lend = 19,
    LendWaiting = 20,
    Reclaim = 21,
    SetServer = 22,
}

/// The context of the BPF program `call`; the kernel writes the answer to `out`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Call {
    pub op: u32,
    pub id: u32,
    pub value: u64,
    pub currency: u64,
    pub to: u32,
    pub ms: u32,
    pub name: [u8; NAME],
    pub out: [u64; 8],
}

/// Indices into [`Call::out`] after [`Op::Info`].
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

/// Indices into [`Call::out`] after [`Op::GetReserved`].
pub mod reserved {
    pub const MACHINE: usize = 0;
    pub const ALL: usize = 1;
    pub const FLOOR: usize = 2;
    pub const ROOT: usize = 3;
    pub const DEFAULT: usize = 4;
}

/// The counters in the order of their indices, named as `tombola status` shows them.
pub const COUNTERS: [&str; 15] = [
    "draws",
    "kept",
    "preemptions",
    "slice_shortened",
    "overdue",
    "clamped",
    "misplaced",
    "exited_before_run",
    "user_changed",
    "ran_unpicked",
    "no_slot",
    UNTRACED,
    "moved",
    "lent",
    "not_lent",
];
pub const UNTRACED: &str = "untraced";

/// Values of [`Node::kind`].
pub mod kind {
    pub const REMOVED: u32 = 0;
    pub const BASE: u32 = 1;
    pub const BEST_EFFORT: u32 = 2;
    pub const USER: u32 = 3;
    pub const PROCESS: u32 = 4;
    pub const THREAD: u32 = 5;
    pub const CURRENCY: u32 = 6;
    pub const RESERVATION: u32 = 7;
    pub const FROZEN: u32 = 8;
    pub const LOAN: u32 = 9;
}

/// One node of the tree of currencies.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Node {
    pub index: u32,
    /// The index of the currency that it is a client of; 0 for base and the frozen root.
    pub parent: u32,
    pub kind: u32,
    /// uid of a user and of a currency's owner, tgid of a process, tid of a thread, and of the borrower of a loan.
    pub id: u32,
    /// In the parent's currency.
    pub tickets: u32,
    pub active: u32,
    /// Active clients of a currency.
    pub clients: u32,
    /// Of a thread or process; of a loan, the lender's.
    pub tgid: u32,
    /// The owner's, of a user, a process or a currency.
    pub uid: u32,
    /// The most tickets that the owner may set; [`NO_LIMIT`] if no administrator has set a limit.
    pub limit: u32,
    /// tid of the thread to which a thread, or a loan, lends now; 0: to none.
    pub lends_to: u32,
    /// Tickets that a process has lent by calls.
    pub lent: u32,
    /// Of a process: 1 if threads of all users lend to it while they wait for it.
    pub serves: u32,
    pub unused: u32,
    /// CPU time received or paid for, up to the last settlement.
    pub used_ns: u64,
    /// And what of it others have used, of a thread or a loan.
    pub lent_ns: u64,
    pub wins: u64,
    /// Tickets of a currency's active clients.
    pub weight: u64,
    /// The number of a currency, for calls.
    pub number: u64,
    /// Of a currency, padded with NULs.
    pub name: [u8; NAME],
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
pub struct TracedRun {
    pub at_ns: u64,
    pub ran_ns: u64,
    pub cpu: u32,
    pub tid: u32,
    pub tgid: u32,
    pub uid: u32,
    /// tgid of the process that paid for the run: its own, or a lender's.
    pub payer: u32,
    pub tickets: u32,
    pub draw_tickets: u32,
    pub base_value_ppm: u32,
    pub compensation_ppm: u32,
    pub kept: u32,
    pub preempted: u32,
}
