//! Random economies on the running scheduler, against a naive model of them.

mod model;
mod world;

use clap::Parser;
use model::{Holder, Model, NESTED_MAX, Place, Who};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tombola_apps::monotonic;
use tombola_kernel::Error;
use tombola_kernel::calls::Client;
use tombola_kernel::currencies::Currency;
use world::{PATIENCE, World, used_ns};

/// Plays random economies on the running scheduler: make, fund, move and retire currencies, fork, freeze, reserve, kill; and
/// compares what each process gets with a naive model.
///
/// Runs as root, on a machine of one CPU and in virtual time: it is real-time, so that nobody else runs while it changes things.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Steps to take
    #[arg(long, default_value_t = 10_000)]
    steps: u32,
    /// The same seed takes the same steps
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Steps between two looks at the shares
    #[arg(long, default_value_t = 250)]
    every: u32,
}

const UID_FIRST: u32 = 3001;
const USERS: usize = 6;
const PEOPLE_MAX: usize = 40;
const MONEY_MAX: usize = 60;
/// Debts and credits of before are settled until here, and then it is looked at for a while.
const SETTLE: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_secs(2);
/// A share is right within so much of it, and in each level of the tree a quantum at the beginning and one at the end.
const RELATIVE: f64 = 0.01;
const QUANTUM_S: f64 = 0.001;
/// The largest debt that anybody may have: the scheduler's bound on lag.
const DEBT_S: f64 = 0.05;
/// The most CPU time that a process of this program, killed while it is frozen, may need to exit.
const EXIT_S: f64 = 0.02;
/// Nobody waits for who has next to nothing of the CPU; its debt would not be seen in a look either.
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
    /// Who has been forked by whom, or by the same: a number for each family.
    families: BTreeMap<u32, u32>,
    random: u64,
    made: u32,
    refusals: u32,
    /// Of those killed while frozen: the time until it had exited, times its share.
    longest_exit_s: f64,
    worst: f64,
    /// Looks that were repeated.
    debts: u32,
}

struct Off {
    /// Of what is allowed.
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
            world: World::new(PEOPLE_MAX)?,
            model: Model {
                // The last is root.
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
                    .look()
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
            "{} steps, {} refused as they must be; the worst share was {:.2} of what is allowed off; \
             {} looks were repeated when a debt of before was paid; \
             a process killed while it was frozen took at most {:.1} ms at its share",
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

    /// From 1 to 10000, every order of magnitude alike, but not so few that a look is too short for them.
    fn tickets(&mut self) -> u32 {
        let most = [100, 1000, 10_000][self.below(3)];
        (most / 10 + self.below(most - most / 10) + 1) as u32
    }

    fn one_of<K: Copy, V>(&mut self, of: fn(&Self) -> &BTreeMap<K, V>) -> Option<K> {
        let count = of(self).len();
        let i = self.below(count.max(1));
        of(self).keys().nth(i).copied()
    }

    fn person(&mut self) -> Option<u32> {
        self.one_of(|fuzzer| &fuzzer.model.people)
    }

    fn money(&mut self) -> Option<u32> {
        self.one_of(|fuzzer| &fuzzer.model.money)
    }

    fn anybody(&mut self) -> Option<Who> {
        match self.below(3) {
            0 => self.money().map(Who::Money),
            _ => self.person().map(Who::Person),
        }
    }

    fn step(&mut self) -> Outcome<()> {
        match self.below(20) {
            0..=2 => self.make(),
            3 | 4 => self.fund(),
            5 | 6 => self.move_money(),
            7 => self.retire(),
            8 | 9 => self.start(),
            10 | 11 => self.fork(),
            12 => self.kill(),
            13 | 14 => self.enter(),
            15 | 16 => self.set_tickets(),
            17 => self.set_base_tickets(),
            18 => self.reserve(),
            _ => self.release(),
        }
    }

    /// The answer must be what the model says: done, or a refusal of that kind.
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
        if self.model.money.len() >= MONEY_MAX {
            return Ok(());
        }
        let (mut owner, tickets) = (self.below(USERS), self.tickets());
        let inside = if self.below(3) > 0 {
            self.money()
        } else {
            None
        };
        if let Some(inside) = inside {
            owner = self.model.money[&inside].owner;
        }
        let place = inside.map_or(Place::User(owner), Place::Money);
        let too_deep = self.model.line(place).len() >= NESTED_MAX;
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
                place,
                owner,
            };
            self.model.money.insert(self.made, holder);
        }
        Ok(())
    }

    /// Sometimes with nothing.
    fn amount(&mut self) -> u32 {
        if self.below(4) == 0 {
            0
        } else {
            self.tickets()
        }
    }

    fn gets(&mut self, who: Who, tickets: u32) {
        if tickets == 0 {
            return self.model.freeze(who);
        }
        let holder = self.model.holder(who);
        holder.tickets = tickets;
        holder.frozen = false;
    }

    fn fund(&mut self) -> Outcome<()> {
        let (Some(i), tickets) = (self.money(), self.amount()) else {
            return Ok(());
        };
        self.client.fund_currency(&self.currencies[&i], tickets)?;
        self.gets(Who::Money(i), tickets);
        Ok(())
    }

    fn set_tickets(&mut self) -> Outcome<()> {
        let (Some(i), tickets) = (self.person(), self.amount()) else {
            return Ok(());
        };
        self.client.set_tickets(self.pids[&i], tickets)?;
        self.gets(Who::Person(i), tickets);
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

    fn move_money(&mut self) -> Outcome<()> {
        let (Some(i), to) = (self.money(), self.money()) else {
            return Ok(());
        };
        let to = to.filter(|_| self.below(4) > 0);
        let owner = self.model.money[&i].owner;
        let place = to.map_or(Place::User(owner), Place::Money);
        let line = self.model.line(place);
        let refusal: Option<fn(&Error) -> bool> =
            if to.is_some_and(|to| self.model.money[&to].owner != owner) {
                Some(|error| matches!(error, Error::OtherMoney { .. }))
            } else if line.contains(&i) {
                Some(|error| matches!(error, Error::InsideItself { .. }))
            } else if line.len() + self.model.height(i) > NESTED_MAX {
                Some(|error| matches!(error, Error::TooDeep { .. }))
            } else {
                None
            };
        let answer = self
            .client
            .move_currency(&self.currencies[&i], to.map(|to| &self.currencies[&to]));
        if self.agree("move", answer, refusal)?.is_some() {
            self.model.holder(Who::Money(i)).place = place;
        }
        Ok(())
    }

    fn retire(&mut self) -> Outcome<()> {
        let Some(i) = self.money() else { return Ok(()) };
        let currency = self.currencies.remove(&i).expect("it is in the model");
        self.client.retire_currency(&currency)?;
        self.model.retire(i);
        match self.client.fund_currency(&currency, 1) {
            Err(Error::NoCurrency { .. }) => Ok(()),
            other => wrong(format!("a retired currency can still be funded: {other:?}")),
        }
    }

    fn start(&mut self) -> Outcome<()> {
        let (Some(i), owner) = (self.world.place(), self.below(USERS)) else {
            return Ok(());
        };
        let holder = Holder {
            tickets: 100,
            frozen: false,
            reserved: None,
            place: Place::User(owner),
            owner,
        };
        self.model.people.insert(i, holder);
        if !self.gets_on(i) {
            self.model.people.remove(&i);
            return Ok(());
        }
        let pid = self.world.start(i, uid(owner))?;
        self.pids.insert(i, pid);
        self.made += 1;
        self.families.insert(i, self.made);
        Ok(())
    }

    /// Nobody waits for who has next to nothing of the CPU.
    fn gets_on(&self, person: u32) -> bool {
        self.model.shares()[&person] >= 0.01
    }

    fn fork(&mut self) -> Outcome<()> {
        let (Some(parent), Some(i)) = (self.person(), self.world.place()) else {
            return Ok(());
        };
        if !self.gets_on(parent) {
            return Ok(());
        }
        self.pids.insert(i, self.world.fork(parent, i)?);
        self.families.insert(i, self.families[&parent]);
        let child = self.model.people[&parent].clone();
        self.model.people.insert(i, child);
        Ok(())
    }

    /// A whole family: of one that dies young the others would have to answer for what it has used, which the model knows
    /// nothing of.
    fn kill(&mut self) -> Outcome<()> {
        let Some(i) = self.person() else {
            return Ok(());
        };
        let shares = self.model.shares();
        let family = self.family(i);
        let ends = |i: &u32| shares[i] == 0.0 || self.gets_on(*i);
        if family.iter().all(ends) {
            family.into_iter().try_for_each(|i| self.end(i))?;
        }
        Ok(())
    }

    fn family(&self, i: u32) -> Vec<u32> {
        let all = self.families.iter();
        let own = all.filter(|(_, family)| **family == self.families[&i]);
        own.map(|(&i, _)| i).collect()
    }

    /// Who is frozen is thawed to exit, and exits with its share, when its user has paid for what its frozen threads used.
    fn end(&mut self, i: u32) -> Outcome<()> {
        let frozen = self.model.shares()[&i] == 0.0;
        if frozen {
            self.model.thaw_to_die(i);
        }
        let share = self.model.shares()[&i];
        let pid = self.pids.remove(&i).expect("it is in the model");
        let limit = if frozen {
            Duration::from_secs_f64((DEBT_S + EXIT_S) / share).min(PATIENCE)
        } else {
            PATIENCE
        };
        let clients = self.client.info()?.clients;
        let took = self.world.end(i, pid, limit)?;
        self.await_departure(clients)?;
        if frozen {
            self.longest_exit_s = self.longest_exit_s.max(took.as_secs_f64() * share);
        }
        self.families.remove(&i);
        self.model.people.remove(&i);
        self.model.forget_reservations();
        Ok(())
    }

    /// Kernels before 6.18 tell the scheduler of a death when the last reference to the thread is given back, at leisure; until
    /// then a reservation is not free again.
    fn await_departure(&self, clients: u64) -> Outcome<()> {
        let until = monotonic() + PATIENCE;
        while self.client.info()?.clients >= clients {
            if monotonic() > until {
                return wrong("a process that has gone keeps its tickets".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn enter(&mut self) -> Outcome<()> {
        let (Some(i), to) = (self.person(), self.money()) else {
            return Ok(());
        };
        let to = to.filter(|_| self.below(4) > 0);
        self.client
            .move_process(self.pids[&i], to.map(|to| &self.currencies[&to]))?;
        let owner = self.model.people[&i].owner;
        self.model.holder(Who::Person(i)).place = to.map_or(Place::User(owner), Place::Money);
        Ok(())
    }

    fn reserve(&mut self) -> Outcome<()> {
        let (Some(who), share) = (self.anybody(), 100 + self.below(3000) as u64) else {
            return Ok(());
        };
        let held = self.model.holder(who).reserved;
        let left = self.model.left() + held.map_or(0, |held| self.model.reservations[&held]);
        let answer = match who {
            Who::Money(i) => self
                .client
                .reserve_for_currency(&self.currencies[&i], share),
            Who::Person(i) => self.client.reserve_for_process(self.pids[&i], share),
        };
        if let Err(Error::Admission { left: said, .. }) = &answer
            && *said + held.map_or(0, |held| self.model.reservations[&held]) != left
        {
            return wrong(format!("{said} is said to be left, and it is {left}"));
        }
        let refusal: Option<fn(&Error) -> bool> =
            (share > left).then_some(|error| matches!(error, Error::Admission { .. }));
        if self.agree("reserve", answer, refusal)?.is_none() {
            return Ok(());
        }
        self.made += 1;
        let reservation = held.unwrap_or(self.made);
        let holder = self.model.holder(who);
        holder.reserved = Some(reservation);
        holder.frozen = false;
        self.model.reservations.insert(reservation, share);
        Ok(())
    }

    fn release(&mut self) -> Outcome<()> {
        let Some(who) = self.anybody() else {
            return Ok(());
        };
        if self.model.holder(who).frozen {
            return Ok(());
        }
        match who {
            Who::Money(i) => self.client.reserve_for_currency(&self.currencies[&i], 0)?,
            Who::Person(i) => self.client.reserve_for_process(self.pids[&i], 0)?,
        }
        self.model.release(who);
        Ok(())
    }

    /// What everybody gets for a while. Who is off may be paying a debt of before; in the time that its share takes to pay the
    /// largest there may be it is paid, and a share that is wrong is wrong still.
    fn look(&mut self) -> Outcome<()> {
        std::thread::sleep(SETTLE);
        let Some(off) = self.worst_off()? else {
            return Ok(());
        };
        self.debts += 1;
        let paid_s = (DEBT_S / off.share).min(DEBT_PAID_WITHIN_S);
        std::thread::sleep(Duration::from_secs_f64(paid_s));
        match self.worst_off()? {
            Some(off) => wrong(off.said),
            None => Ok(()),
        }
    }

    /// Of those who have not what they are due, if there are any.
    fn worst_off(&mut self) -> Outcome<Option<Off>> {
        let read = |fuzzer: &Self| -> io::Result<BTreeMap<u32, u64>> {
            fuzzer
                .pids
                .iter()
                .map(|(&i, &pid)| Ok((i, used_ns(pid)?)))
                .collect()
        };
        let (before, begun) = (read(self)?, monotonic());
        std::thread::sleep(LOOK);
        let (after, seconds) = (read(self)?, (monotonic() - begun).as_secs_f64());
        let mut worst: Option<Off> = None;
        for (i, share) in self.model.shares() {
            let (due, got) = (share * seconds, (after[&i] - before[&i]) as f64 / 1e9);
            let levels = 3 + self.model.line(self.model.people[&i].place).len();
            let allowed = RELATIVE * due + 2.0 * levels as f64 * QUANTUM_S;
            let by = (got - due).abs() / allowed;
            if by <= 1.0 {
                self.worst = self.worst.max(by);
            } else if worst.as_ref().is_none_or(|worst| worst.by < by) {
                let person = &self.model.people[&i];
                let said = format!(
                    "process {i} ({person:?}) got {got:.4} s of {seconds:.3}, due {due:.4}"
                );
                worst = Some(Off { by, share, said });
            }
        }
        Ok(worst)
    }

    fn end_all(&mut self) -> Outcome<()> {
        while let Some(&i) = self.pids.keys().next() {
            self.end(i)?;
        }
        while !self.currencies.is_empty() {
            self.retire()?;
        }
        for user in 0..USERS {
            self.set_base(user, 1000)?;
        }
        // The last to go are seen to have gone a little later.
        std::thread::sleep(SETTLE);
        Ok(())
    }
}

fn uid(user: usize) -> u32 {
    UID_FIRST + user as u32
}

/// Above everybody in the economy; children are not to inherit it.
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
