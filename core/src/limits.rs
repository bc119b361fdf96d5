//! The limits of the model, as `limits.h` has them; a test compares each.

/// Fewest tickets of a client.
pub const TICKETS_MIN: u32 = 1;
/// Most tickets of a client.
pub const TICKETS_MAX: u32 = 10_000;
/// Tickets of a process if none were set.
pub const TICKETS_DEFAULT: u32 = 100;
/// Fewest base tickets of a user.
pub const BASE_TICKETS_MIN: u32 = 100;
/// Most base tickets of a user.
pub const BASE_TICKETS_MAX: u32 = 10_000;
/// Base tickets of a user if none were set.
pub const BASE_TICKETS_DEFAULT: u32 = 1000;
/// Clients on all run queues together, "none" included; the kernel's scheduler has an eighth of that.
pub const CLIENTS: u32 = 262_144;
/// Levels of nested currencies, a user's own not counted.
pub const NESTED_MAX: u32 = 8;
/// The whole machine, in tickets of base's clients.
pub const MACHINE_TICKETS: u32 = 10_000;
/// The most tickets of a client; with several queues, times [`crate::queues::SCALE`].
pub const TICKETS_LIMIT: u32 = (1 << 14) - 1;
/// Levels of the tree, base and leaf included.
pub const DEPTH: u32 = 13;
/// Levels of a currency's order at most.
pub const HEIGHT: u32 = 26;
/// A pass is in 2^-`PASS_SHIFT` ns of service for one ticket.
pub const PASS_SHIFT: u32 = 16;
/// A draw is in units of 2^-`DRAW_SHIFT`.
pub const DRAW_SHIFT: u32 = 20;
/// The most that one charge counts, ns.
pub const CHARGE_MAX_NS: u64 = 1 << 38;
/// Up to this much of an exited child's service is charged in full to its parent, ns.
pub const YOUNG_NS: u64 = 50_000_000;
/// No charge leaves a pass further ahead of vnow, in the client's service, ns.
pub const AHEAD_MAX_NS: u64 = (1 << 29) - 1;
/// Clients that are behind and share bound CPUs halve their lags every 2^`EPOCH_SHIFT` ns.
pub const EPOCH_SHIFT: u32 = 25;
/// The most currencies that one pick passes over.
pub const PASSED_MAX: u32 = 8;
/// The most accounts of a thread beside its own ([`crate::Economy::lend`]).
pub const LENT_MAX: u32 = 8;
/// The whole machine, in base values of clients ([`crate::Economy::base_value`]).
pub const VALUE_ONE: u64 = 1 << 30;
/// What [`crate::Economy::crossing_ns`] returns for "not before another client is charged".
pub const NEVER: u64 = u64::MAX;

/// Tickets are multiplied by this where they are divided among queues.
pub const SHARE_SCALE: u32 = 1 << 8;
/// The most tickets of all clients of a currency together if there are several queues: times [`SHARE_SCALE`], they fit into
/// [`crate::Client::weight`].
pub const SHARED_TICKETS_MAX: u64 = u32::MAX as u64 / SHARE_SCALE as u64;
/// The price that caps nothing.
pub const PRICE_MAX: u64 = 1 << 40;
/// One CPU, where CPUs are counted.
pub const CPU: u64 = 1 << 20;
/// The clock of a group's part is within so many bounds of the group's.
pub const APART_MAX: u64 = 10;
/// Where the bound threads of a group may go is forgotten after so many periods.
pub const REACH_PERIODS: u64 = 64;
/// At so many other queues one looks at a time.
pub const PARTNERS: usize = 64;
/// How often MQS's rule looks at a queue's neighbours, ns.
pub const MQS_TICK_NS: u64 = 1_000_000;
/// How long a client must have waited before MQS's rule moves it, ns.
pub const MQS_WAIT_NS: u64 = 500_000;
/// The numbers of [`crate::queues::Place`].
pub const PLACES: [u32; 3] = [0, 1, 2];

/// The numbers that C has as well, in the order in which it exports them.
pub const ALL: [u64; 33] = [
    TICKETS_MIN as u64,
    TICKETS_MAX as u64,
    TICKETS_DEFAULT as u64,
    BASE_TICKETS_MIN as u64,
    BASE_TICKETS_MAX as u64,
    BASE_TICKETS_DEFAULT as u64,
    CLIENTS as u64,
    NESTED_MAX as u64,
    MACHINE_TICKETS as u64,
    TICKETS_LIMIT as u64,
    DEPTH as u64,
    HEIGHT as u64,
    PASS_SHIFT as u64,
    DRAW_SHIFT as u64,
    CHARGE_MAX_NS,
    YOUNG_NS,
    AHEAD_MAX_NS,
    EPOCH_SHIFT as u64,
    PASSED_MAX as u64,
    LENT_MAX as u64,
    VALUE_ONE,
    NEVER,
    SHARE_SCALE as u64,
    PRICE_MAX,
    CPU,
    APART_MAX,
    REACH_PERIODS,
    PARTNERS as u64,
    MQS_TICK_NS,
    MQS_WAIT_NS,
    PLACES[0] as u64,
    PLACES[1] as u64,
    PLACES[2] as u64,
];
