//! Follows the runs of threads: one record for each run that ended. Needs root.
//!
//! The scheduler records only while the reader's switch, in a map of its own, is on. If the reader is killed, the switch
//! stays on, and each run costs a failed reservation in the full ring buffer, until the next reader ends.

use crate::abi::{self, TracedRun};
use crate::calls::Client;
use crate::error::{Error, Result};
use crate::names::user_name;
use crate::runtime_dir::{PIN_RUNS, PIN_SWITCH, lock_trace};
use crate::sched_ext;
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle, RingBufferBuilder};
use nix::unistd::Uid;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::Duration;

/// Between two reads of the ring buffer. It holds 16,384 records, as many as 327 CPUs make in that time with runs of 1 ms.
/// The reader does not wake up for each record: every wake-up would be a draw, and make a record.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Calls `each` for each run that ends from now on, until `each` breaks or `stop` returns true; `stop` is called after each read.
/// Returns how many runs were not recorded because the ring buffer was full. Fails without root, if another reader follows
/// the runs, and when the scheduler ends.
pub fn follow(
    mut each: impl FnMut(&TracedRun) -> ControlFlow<()>,
    mut stop: impl FnMut() -> bool,
) -> Result<u64> {
    sched_ext::state()?;
    if !Uid::effective().is_root() {
        return Err(Error::NotRoot {
            what: "following the runs",
            caller: user_name(Uid::effective().as_raw()),
            cause: "they show what all users' programs do, and when",
            command: "tombola trace",
        });
    }
    let runs = open(PIN_RUNS)?;
    let _lock = lock_trace()?;
    discard_old(&runs)?;
    let client = Client::open()?;
    let before = untraced(&client)?;
    let _switch = Switch::on()?;
    let ended = Cell::new(false);
    let mut ring = RingBufferBuilder::new();
    ring.add(&runs, |record| {
        if !ended.get() && run_from(record).is_some_and(|run| each(&run).is_break()) {
            ended.set(true);
        }
        0
    })
    .map_err(unreadable)?;
    let ring = ring.build().map_err(unreadable)?;
    loop {
        ring.consume().map_err(unreadable)?;
        if stop() || ended.get() {
            return Ok(untraced(&client)? - before);
        }
        if !sched_ext::state()?.is_tombola() {
            return Err(sched_ext::not_running());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn untraced(client: &Client) -> Result<u64> {
    let mut counters = client.counters()?.into_iter();
    let found = counters.find(|(name, _)| *name == abi::UNTRACED);
    Ok(found.map_or(0, |(_, count)| count))
}

// Discards what a killed reader has left unread.
fn discard_old(runs: &MapHandle) -> Result<()> {
    let mut ring = RingBufferBuilder::new();
    ring.add(runs, |_| 0).map_err(unreadable)?;
    ring.build()
        .and_then(|ring| ring.consume())
        .map_err(unreadable)
}

struct Switch {
    map: MapHandle,
}

impl Switch {
    fn on() -> Result<Self> {
        let switch = Self {
            map: open(PIN_SWITCH)?,
        };
        switch.set(1).map_err(unreadable)?;
        Ok(switch)
    }

    fn set(&self, value: u32) -> libbpf_rs::Result<()> {
        self.map
            .update(&0u32.to_ne_bytes(), &value.to_ne_bytes(), MapFlags::ANY)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // If this fails, the switch stays on, as after a kill.
        let _ = self.set(0);
    }
}

fn run_from(record: &[u8]) -> Option<TracedRun> {
    if record.len() < size_of::<TracedRun>() {
        return None;
    }
    // SAFETY: the record is long enough, and every bit pattern is a TracedRun.
    Some(unsafe { record.as_ptr().cast::<TracedRun>().read_unaligned() })
}

fn open(pin: &str) -> Result<MapHandle> {
    MapHandle::from_pinned_path(pin).map_err(|error| match error.kind() {
        ErrorKind::NotFound => sched_ext::not_running(),
        _ => unreadable(error),
    })
}

fn unreadable(error: libbpf_rs::Error) -> Error {
    Error::Refused {
        doing: "opening its draws",
        error: error.to_string(),
        log: String::new(),
    }
}
