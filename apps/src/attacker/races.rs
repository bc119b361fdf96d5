//! Changes of the same currencies from several processes at once, which lend tickets to one another.

use crate::setup::{Never, burn, helper, ready, sleep_for_ever};
use anyhow::Result;
use fastrand::Rng;
use nix::unistd::Uid;
use std::process;
use std::time::Duration;
use tombola_kernel::calls::Client;
use tombola_kernel::currencies::Currency;
use tombola_kernel::loans::Waits;

#[derive(clap::Args)]
pub struct Races {
    /// Processes that change the currencies
    #[arg(long, default_value_t = 6)]
    processes: u64,
    /// Currencies that they change
    #[arg(long, default_value_t = 6)]
    currencies: u32,
}

pub fn races(args: &Races) -> Never {
    for seed in 0..args.processes {
        if helper()? {
            return Racer::new(seed, args.currencies)?.race();
        }
    }
    ready();
    sleep_for_ever()
}

struct Racer {
    random: Rng,
    client: Client,
    uid: u32,
    currencies: u32,
    child: u32,
}

impl Racer {
    fn new(seed: u64, currencies: u32) -> Result<Self> {
        Ok(Self {
            random: Rng::with_seed(seed),
            client: Client::open()?,
            uid: Uid::current().as_raw(),
            currencies,
            child: process::id(),
        })
    }

    /// Most calls fail, because another process was faster.
    fn race(mut self) -> Never {
        loop {
            if self.random.u32(..100) == 0 {
                self.replace_child()?;
            } else {
                let _ = self.change();
            }
        }
    }

    fn change(&mut self) -> tombola_kernel::Result<()> {
        let name = self.name();
        let Ok(currency) = self.client.currency(self.uid, &name) else {
            let inside = self.some();
            let made = self
                .client
                .make_currency(self.uid, &name, 100, inside.as_ref());
            return made.map(drop);
        };
        match self.random.u32(..9) {
            0 => self.client.retire_currency(&currency),
            1..=3 => {
                let inside = self.some();
                self.client.move_currency(&currency, inside.as_ref())
            }
            4 => self.client.move_process(self.child, Some(&currency)),
            5 => self
                .client
                .fund_currency(&currency, self.random.u32(..3) * 100),
            6 => self
                .client
                .set_tickets(self.child, self.random.u32(..3) * 100),
            _ => self.lend_or_reclaim(),
        }
    }

    fn lend_or_reclaim(&mut self) -> tombola_kernel::Result<()> {
        let (other, tickets) = (self.other(), 1 + self.random.u32(..99));
        let time = match self.random.u64(..20) {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        };
        let waits = match tickets % 2 {
            0 => Waits::Next,
            _ => Waits::All,
        };
        match self.random.u32(..5) {
            0 | 1 => self.client.lend(self.child, other, tickets, time),
            2 => self.client.lend_while_waiting(process::id(), other, waits),
            3 => self.client.reclaim(self.child, None).map(drop),
            _ => self.client.reclaim(other, Some(self.child)).map(drop),
        }
    }

    /// Mostly another racer or its child: their numbers are close.
    fn other(&mut self) -> u32 {
        self.child + self.random.u32(..12) - 6
    }

    fn name(&mut self) -> String {
        format!("race-{}", self.random.u32(..self.currencies))
    }

    /// One of the currencies; `None`, the user's own, if that one does not exist.
    fn some(&mut self) -> Option<Currency> {
        let name = self.name();
        self.client.currency(self.uid, &name).ok()
    }

    /// A frozen child is killed as well as one that runs.
    fn replace_child(&mut self) -> Result<()> {
        if self.child != process::id() {
            let child = nix::unistd::Pid::from_raw(self.child.cast_signed());
            nix::sys::signal::kill(child, nix::sys::signal::SIGKILL)?;
            nix::sys::wait::waitpid(child, None)?;
        }
        // SAFETY: the program has one thread, so the child may call anything.
        match unsafe { nix::unistd::fork() }? {
            nix::unistd::ForkResult::Child => {
                crate::setup::die_with_parent()?;
                burn()
            }
            nix::unistd::ForkResult::Parent { child } => {
                self.child = child.as_raw().cast_unsigned()
            }
        }
        Ok(())
    }
}
