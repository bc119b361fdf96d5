//! Random economies on the running scheduler, against a naive model of them.

mod model;
mod world;

use clap::Parser;
use model::{ClientId, Holder, Model, NESTED_MAX, Parent};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tombola_apps::monotonic;
use tombola_kernel::Error;
use tombola_kernel::calls::Client;
use tombola_kernel::currencies::Currency;
use world::{PATIENCE, World, used_ns};

/// Play random economies on the running scheduler: make, fund, move and retire currencies, fork, freeze, reserve, kill; and
/// compare the CPU time of each process with a naive model
///
/// Runs as root, on a machine with one CPU, in virtual time. It is a real-time process, so no other process runs while it changes
/// the economy.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Steps to take
    #[arg(long, default_value_t = 10_000)]
    steps: u32,
    /// The same seed takes the same steps
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps between two checks of the shares
    #[arg(long, default_value_t = 250)]
    every: u32,
}

const UID_FIRST: u32 = 3001;
const USERS: usize = 6;
const PROCESSES_MAX: usize = 40;
const CURRENCIES_MAX: usize = 60;
/// Time for lags from before to settle; shares are measured after it.
const SETTLE: Duration = Duration::from_millis(500);
const MEASURE: Duration = Duration::from_secs(2);
/// A share may be off by this part of it, and at each level of the tree by a quantum at the beginning and one at the end.
const RELATIVE: f64 = 0.01;
const QUANTUM_S: f64 = 0.001;
/// The largest debt that a client may have: the scheduler's bound on lag.
const DEBT_S: f64 = 0.05;
/// The most CPU time that a process of this program, killed while it is frozen, may need to exit.
const EXIT_S: f64 = 0.02;
/// A process with less of the CPU than this is not waited for.
const SOON: f64 = 0.01;
/// The longest wait for a debt to be paid. A share that would need longer is so small that the tolerance covers it.
const DEBT_PAID_WITHIN_S: f64 = 60.0;

fn main() {
    if let Err(error) = Fuzzer::run(&Args::parse()) {
        eprintln!("economy-fuzz: {error}");
        std::process::exit(1);
    }
}

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

struct Fuzzer {
    client: Client,
    world: World,
    model: Model,
    currencies: BTreeMap<u32, Currency>,
    pids: BTreeMap<u32, u32>,
    /// The family of each process: one that was started, and all its descendants.
    families: BTreeMap<u32, u32>,
    random: u64,
    made: u32,
    refusals: u32,
    /// The most CPU time that a process killed while frozen took to exit: the time, times its share.
    longest_exit_s: f64,
    worst: f64,
    /// Checks that were repeated.
    debts: u32,
}

struct Deviation {
    /// In parts of what is allowed.
    by: f64,
    share: f64,
    said: String,
}

fn wrong<T>(what: String) -> Outcome<T> {
    Err(what.into())
}

impl Fuzzer {
    fn run(args: &Args) -> Outcome<()> {
        let client = Client::open()?;
        let floor = client.reserved()?.floor;
        let mut fuzzer = Self {
            world: World::new(PROCESSES_MAX)?,
            model: Model {
                users: vec![(1000, false); USERS + 1],
                floor,
                ..Model::default()
            },
            currencies: BTreeMap::new(),
            pids: BTreeMap::new(),
            families: BTreeMap::new(),
            random: args.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            made: 0,
            refusals: 0,
            longest_exit_s: 0.0,
            worst: 0.0,
            debts: 0,
            client,
        };
        become_real_time()?;
        for user in 0..USERS {
            fuzzer.set_base(user, 1000)?;
        }
        let before = fuzzer.client.info()?.clients;
        for step in 1..=args.steps {
            fuzzer
                .step()
                .map_err(|error| format!("step {step} of seed {}: {error}", args.seed))?;
            if step % args.every == 0 {
                fuzzer
                    .check_shares()
                    .map_err(|error| format!("after step {step} of seed {}: {error}", args.seed))?;
                eprintln!(
                    "{step} steps, {} processes, {} currencies, {:.0} s",
                    fuzzer.pids.len(),
                    fuzzer.currencies.len(),
                    monotonic().as_secs_f64()
                );
            }
        }
        fuzzer.end_all()?;
        let (after, reserved) = (
            fuzzer.client.info()?.clients,
            fuzzer.client.reserved()?.held,
        );
        if (after, reserved) != (before, 0) {
            return wrong(format!(
                "{after} clients are left of {before}, and {reserved} reserved"
            ));
        }
        println!(
            "{} steps, {} refused as they must be; the worst share was off by {:.2} of what is allowed; \
             {} checks were repeated after a debt was paid; \
             a process killed while frozen took at most {:.1} ms of CPU time to exit",
            args.steps,
            fuzzer.refusals,
            fuzzer.worst,
            fuzzer.debts,
            fuzzer.longest_exit_s * 1e3
        );
        Ok(())
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize % bound
    }

    /// From 11 to 10000, three orders of magnitude equally likely; for fewer tickets the measurement would be too short.
    fn tickets(&mut self) -> u32 {
        let most = [100, 1000, 10_000][self.below(3)];
        (most / 10 + self.below(most - most / 10) + 1) as u32
    }

    fn one_of<K: Copy, V>(&mut self, of: fn(&Self) -> &BTreeMap<K, V>) -> Option<K> {
        let count = of(self).len();
        let i = self.below(count.max(1));
        of(self).keys().nth(i).copied()
    }

    fn random_process(&mut self) -> Option<u32> {
        self.one_of(|fuzzer| &fuzzer.model.processes)
    }

    fn random_currency(&mut self) -> Option<u32> {
        self.one_of(|fuzzer| &fuzzer.model.currencies)
    }

    fn random_client(&mut self) -> Option<ClientId> {
        match self.below(3) {
            0 => self.random_currency().map(ClientId::Currency),
            _ => self.random_process().map(ClientId::Process),
        }
    }

    fn step(&mut self) -> Outcome<()> {
        match self.below(20) {
            0..=2 => self.make(),
            3 | 4 => self.fund(),
            5 | 6 => self.move_currency(),
            7 => self.retire(),
            8 | 9 => self.start(),
            10 | 11 => self.fork(),
            12 => self.kill(),
            13 | 14 => self.move_process(),
            15 | 16 => self.set_tickets(),
            17 => self.set_base_tickets(),
            18 => self.reserve(),
            _ => self.release(),
        }
    }

    /// The answer must be the model's: success, or this refusal.
    fn agree<T>(
        &mut self,
        what: &str,
        answer: Result<T, Error>,
        refusal: Option<fn(&Error) -> bool>,
    ) -> Outcome<Option<T>> {
        match (answer, refusal) {
            (Ok(done), None) => Ok(Some(done)),
            (Err(error), Some(is_it)) if is_it(&error) => {
                self.refusals += 1;
                Ok(None)
            }
            (Ok(_), Some(_)) => wrong(format!("{what} was not refused")),
            (Err(error), _) => wrong(format!("{what}: {error}")),
        }
    }

    fn make(&mut self) -> Outcome<()> {
        if self.model.currencies.len() >= CURRENCIES_MAX {
            return Ok(());
        }
        let (mut owner, tickets) = (self.below(USERS), self.tickets());
        let inside = if self.below(3) > 0 {
            self.random_currency()
        } else {
            None
        };
        if let Some(inside) = inside {
            owner = self.model.currencies[&inside].owner;
        }
        let parent = inside.map_or(Parent::User(owner), Parent::Currency);
        let too_deep = self.model.ancestors(parent).len() >= NESTED_MAX;
        self.made += 1;
        let name = format!("m{}", self.made);
        let inside = inside.map(|inside| &self.currencies[&inside]);
        let answer = self
            .client
            .make_currency(uid(owner), &name, tickets, inside);
        let refusal: Option<fn(&Error) -> bool> =
            too_deep.then_some(|error| matches!(error, Error::TooDeep { .. }));
        if let Some(currency) = self.agree("make", answer, refusal)? {
            self.currencies.insert(self.made, currency);
            let holder = Holder {
                tickets,
                frozen: false,
                reserved: None,
                parent,
                owner,
            };
            self.model.currencies.insert(self.made, holder);
        }
        Ok(())
    }

    /// A number of tickets, one time in four 0.
    fn amount(&mut self) -> u32 {
        if self.below(4) == 0 {
            0
        } else {
            self.tickets()
        }
    }

    fn set_model_tickets(&mut self, id: ClientId, tickets: u32) {
        if tickets == 0 {
            return self.model.freeze(id);
        }
        let holder = self.model.holder(id);
        holder.tickets = tickets;
        holder.frozen = false;
    }

    fn fund(&mut self) -> Outcome<()> {
        let (Some(i), tickets) = (self.random_currency(), self.amount()) else {
            return Ok(());
        };
        self.client.fund_currency(&self.currencies[&i], tickets)?;
        self.set_model_tickets(ClientId::Currency(i), tickets);
        Ok(())
    }

    fn set_tickets(&mut self) -> Outcome<()> {
        let (Some(i), tickets) = (self.random_process(), self.amount()) else {
            return Ok(());
        };
        self.client.set_tickets(self.pids[&i], tickets)?;
        self.set_model_tickets(ClientId::Process(i), tickets);
        Ok(())
    }

    fn set_base(&mut self, user: usize, tickets: u32) -> Outcome<()> {
        self.client.set_base_tickets(uid(user), tickets)?;
        let own = &mut self.model.users[user];
        *own = if tickets == 0 {
            (own.0, true)
        } else {
            (tickets, false)
        };
        Ok(())
    }

    fn set_base_tickets(&mut self) -> Outcome<()> {
        let (user, tickets) = (self.below(USERS), self.amount());
        self.set_base(user, if tickets == 0 { 0 } else { tickets.max(100) })
    }

    fn move_currency(&mut self) -> Outcome<()> {
        let (Some(i), to) = (self.random_currency(), self.random_currency()) else {
            return Ok(());
        };
        let to = to.filter(|_| self.below(4) > 0);
        let owner = self.model.currencies[&i].owner;
        let parent = to.map_or(Parent::User(owner), Parent::Currency);
        let ancestors = self.model.ancestors(parent);
        let refusal: Option<fn(&Error) -> bool> =
            if to.is_some_and(|to| self.model.currencies[&to].owner != owner) {
                Some(|error| matches!(error, Error::OfAnotherUser { .. }))
            } else if ancestors.contains(&i) {
                Some(|error| matches!(error, Error::InsideItself { .. }))
            } else if ancestors.len() + self.model.height(i) > NESTED_MAX {
                Some(|error| matches!(error, Error::TooDeep { .. }))
            } else {
                None
            };
        let answer = self
            .client
            .move_currency(&self.currencies[&i], to.map(|to| &self.currencies[&to]));
        if self.agree("move", answer, refusal)?.is_some() {
            self.model.holder(ClientId::Currency(i)).parent = parent;
        }
        Ok(())
    }

    fn retire(&mut self) -> Outcome<()> {
        let Some(i) = self.random_currency() else {
            return Ok(());
        };
        let currency = self.currencies.remove(&i).expect("it is in the model");
        self.client.retire_currency(&currency)?;
        self.model.retire(i);
        match self.client.fund_currency(&currency, 1) {
            Err(Error::NoCurrency { .. }) => Ok(()),
            other => wrong(format!("a retired currency can still be funded: {other:?}")),
        }
    }

    fn start(&mut self) -> Outcome<()> {
        let (Some(i), owner) = (self.world.free_slot(), self.below(USERS)) else {
            return Ok(());
        };
        let holder = Holder {
            tickets: 100,
            frozen: false,
            reserved: None,
            parent: Parent::User(owner),
            owner,
        };
        self.model.processes.insert(i, holder);
        if !self.runs_soon(i) {
            self.model.processes.remove(&i);
            return Ok(());
        }
        let pid = self.world.start(i, uid(owner))?;
        self.pids.insert(i, pid);
        self.made += 1;
        self.families.insert(i, self.made);
        Ok(())
    }

    fn runs_soon(&self, process: u32) -> bool {
        self.model.shares()[&process] >= SOON
    }

    fn fork(&mut self) -> Outcome<()> {
        let (Some(parent), Some(i)) = (self.random_process(), self.world.free_slot()) else {
            return Ok(());
        };
        if !self.runs_soon(parent) {
            return Ok(());
        }
        self.pids.insert(i, self.world.fork(parent, i)?);
        self.families.insert(i, self.families[&parent]);
        let child = self.model.processes[&parent].clone();
        self.model.processes.insert(i, child);
        Ok(())
    }

    /// Kills a whole family. A young process's CPU time is charged to its child or parent when it exits, which is not in the
    /// model.
    fn kill(&mut self) -> Outcome<()> {
        let Some(i) = self.random_process() else {
            return Ok(());
        };
        let family = self.family(i);
        let mut killed = self.model.clone();
        for i in &family {
            killed.kill(*i);
        }
        let shares = killed.shares();
        if family.iter().all(|i| shares[i] >= SOON) {
            family.into_iter().try_for_each(|i| self.end(i))?;
        }
        Ok(())
    }

    fn family(&self, i: u32) -> Vec<u32> {
        let all = self.families.iter();
        let own = all.filter(|(_, family)| **family == self.families[&i]);
        own.map(|(&i, _)| i).collect()
    }

    /// Kills a process. A frozen one is thawed, and exits with the share that it then has. Its user may first have to pay a debt:
    /// the user was charged for its frozen threads.
    fn end(&mut self, i: u32) -> Outcome<()> {
        let frozen = self.model.kill(i);
        let share = self.model.shares()[&i];
        let pid = self.pids.remove(&i).expect("it is in the model");
        let limit = if frozen {
            Duration::from_secs_f64((DEBT_S + EXIT_S) / share).min(PATIENCE)
        } else {
            PATIENCE
        };
        let clients = self.client.info()?.clients;
        let took = self.world.kill(i, pid, limit)?;
        self.await_task_exit(clients)?;
        if frozen {
            self.longest_exit_s = self.longest_exit_s.max(took.as_secs_f64() * share);
        }
        self.families.remove(&i);
        self.model.processes.remove(&i);
        self.model.drop_unused_reservations();
        Ok(())
    }

    /// Kernels before 6.18 report an exit only when the last reference to the thread is dropped. Until then its reservation is
    /// not free.
    fn await_task_exit(&self, clients: u64) -> Outcome<()> {
        let until = monotonic() + PATIENCE;
        while self.client.info()?.clients >= clients {
            if monotonic() > until {
                return wrong("a process that has exited keeps its tickets".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn move_process(&mut self) -> Outcome<()> {
        let (Some(i), to) = (self.random_process(), self.random_currency()) else {
            return Ok(());
        };
        let to = to.filter(|_| self.below(4) > 0);
        self.client
            .move_process(self.pids[&i], to.map(|to| &self.currencies[&to]))?;
        let owner = self.model.processes[&i].owner;
        self.model.holder(ClientId::Process(i)).parent =
            to.map_or(Parent::User(owner), Parent::Currency);
        Ok(())
    }

    fn reserve(&mut self) -> Outcome<()> {
        let (Some(id), share) = (self.random_client(), 100 + self.below(3000) as u64) else {
            return Ok(());
        };
        let held = self.model.holder(id).reserved;
        let left = self.model.left() + held.map_or(0, |held| self.model.reservations[&held]);
        let answer = match id {
            ClientId::Currency(i) => self
                .client
                .reserve_for_currency(&self.currencies[&i], share),
            ClientId::Process(i) => self.client.reserve_for_process(self.pids[&i], share),
        };
        if let Err(Error::Admission { left: said, .. }) = &answer
            && *said + held.map_or(0, |held| self.model.reservations[&held]) != left
        {
            return wrong(format!("{said} is reported to be left, and {left} is left"));
        }
        let refusal: Option<fn(&Error) -> bool> =
            (share > left).then_some(|error| matches!(error, Error::Admission { .. }));
        if self.agree("reserve", answer, refusal)?.is_none() {
            return Ok(());
        }
        self.made += 1;
        let reservation = held.unwrap_or(self.made);
        let holder = self.model.holder(id);
        holder.reserved = Some(reservation);
        holder.frozen = false;
        self.model.reservations.insert(reservation, share);
        Ok(())
    }

    fn release(&mut self) -> Outcome<()> {
        let Some(id) = self.random_client() else {
            return Ok(());
        };
        if self.model.holder(id).frozen {
            return Ok(());
        }
        match id {
            ClientId::Currency(i) => self.client.reserve_for_currency(&self.currencies[&i], 0)?,
            ClientId::Process(i) => self.client.reserve_for_process(self.pids[&i], 0)?,
        }
        self.model.release(id);
        Ok(())
    }

    /// Compares each process's CPU time with its share. A process that is off may be paying an earlier debt. So the check is
    /// repeated, after as long as its share takes to pay the largest debt; a share that is off then is wrong.
    fn check_shares(&mut self) -> Outcome<()> {
        std::thread::sleep(SETTLE);
        let Some(off) = self.worst_deviation()? else {
            return Ok(());
        };
        self.debts += 1;
        let paid_s = (DEBT_S / off.share).min(DEBT_PAID_WITHIN_S);
        std::thread::sleep(Duration::from_secs_f64(paid_s));
        match self.worst_deviation()? {
            Some(off) => wrong(off.said),
            None => Ok(()),
        }
    }

    /// Of the processes that did not get what they are due, the one that is furthest off.
    fn worst_deviation(&mut self) -> Outcome<Option<Deviation>> {
        let read = |fuzzer: &Self| -> io::Result<BTreeMap<u32, u64>> {
            fuzzer
                .pids
                .iter()
                .map(|(&i, &pid)| Ok((i, used_ns(pid)?)))
                .collect()
        };
        let (before, begun) = (read(self)?, monotonic());
        std::thread::sleep(MEASURE);
        let (after, seconds) = (read(self)?, (monotonic() - begun).as_secs_f64());
        let mut worst: Option<Deviation> = None;
        for (i, share) in self.model.shares() {
            let (due, got) = (share * seconds, (after[&i] - before[&i]) as f64 / 1e9);
            let levels = 3 + self.model.ancestors(self.model.processes[&i].parent).len();
            let allowed = RELATIVE * due + 2.0 * levels as f64 * QUANTUM_S;
            let by = (got - due).abs() / allowed;
            if by <= 1.0 {
                self.worst = self.worst.max(by);
            } else if worst.as_ref().is_none_or(|worst| worst.by < by) {
                let process = &self.model.processes[&i];
                let said = format!(
                    "process {i} ({process:?}) got {got:.4} s of {seconds:.3}, due {due:.4}"
                );
                worst = Some(Deviation { by, share, said });
            }
        }
        Ok(worst)
    }

    fn end_all(&mut self) -> Outcome<()> {
        // Those with the most first: the exit of one with little may take long.
        while let Some((&i, _)) = self
            .model
            .shares()
            .iter()
            .max_by(|(_, one), (_, other)| one.total_cmp(other))
        {
            self.end(i)?;
        }
        while !self.currencies.is_empty() {
            self.retire()?;
        }
        for user in 0..USERS {
            self.set_base(user, 1000)?;
        }
        // The scheduler counts the last changes a little later.
        std::thread::sleep(SETTLE);
        Ok(())
    }
}

fn uid(user: usize) -> u32 {
    UID_FIRST + user as u32
}

/// Above all processes of the economy. Children do not inherit the priority.
fn become_real_time() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 50 };
    // SAFETY: the parameters live through the call.
    match unsafe {
        libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &parameters)
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
