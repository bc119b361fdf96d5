//! The server on a simulated clock: the pool's run queue chooses, and time is what the chosen numbers take at a given rate.
//! So orders can be compared without noise, and on machines that are not there.

use crate::dispatcher::{CHUNK, quantum_ns};
use crate::engine::LOOK;
use crate::score::Waits;
use crate::stream::{Asked, Settings};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tombola_pool::queue::{Chunk, Currency, JobId, Request, RunQueue, Settled, WaiterId};
use tombola_pool::{Order, Width};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    pub cores: u32,
    /// Hashes a second of one core.
    pub rate: f64,
    /// What a request takes that is no hashing, in ns: to connect, to be read, to be answered.
    pub overhead_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub order: Order,
    pub width: Width,
    /// Numbers of a chunk; 0: the whole range, so that nothing is preempted.
    pub chunk: u64,
    /// After how many numbers a core sees that another has found what it is looking for. One that had to try its whole chunk in
    /// vain would waste half a chunk for each job, which is 4 % of the score when there is more to do than can be done.
    pub look: u64,
    pub cache: Cache,
}

/// What is done with requests that repeat another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// All the work again.
    None,
    /// They wait for their turn, and are answered then if the other has been.
    Turn,
    /// What was answered is answered again at once, and what is being worked on is joined.
    Join,
}

impl Policy {
    /// How the first servers of the challenge served, if with a better cache.
    pub const FIFO_ONE: Self = Self {
        order: Order::Fifo,
        width: Width::One,
        chunk: 0,
        look: u64::MAX,
        cache: Cache::Join,
    };
    /// What `unhash serve` does if nothing else is said.
    pub const BEST: Self = Self {
        order: Order::Gittins,
        width: Width::All,
        chunk: CHUNK,
        look: LOOK,
        cache: Cache::Join,
    };
}

/// The part of all cores that the requests take, if repeats take nothing and an answer is half way through its range.
#[must_use]
pub fn load(machine: Machine, settings: &Settings) -> f64 {
    work_s(machine, settings) / (settings.delay_us as f64 / 1e6)
}

/// The delay in us with which they take that part.
#[must_use]
pub fn delay_us(machine: Machine, settings: &Settings, load: f64) -> u64 {
    (work_s(machine, settings) / load * 1e6) as u64
}

/// What all cores together take for a request.
fn work_s(machine: Machine, settings: &Settings) -> f64 {
    let fresh = 1.0 - f64::from((settings.repeat_percent + 1).min(100)) / 100.0;
    fresh * f64::from(settings.difficulty) / 2.0 / machine.rate / f64::from(machine.cores)
}

/// Requests come `delay_ns` apart.
#[must_use]
pub fn run(machine: Machine, policy: Policy, asked: &[Asked], delay_ns: u64) -> Waits {
    let mut server = Server::new(machine, policy, asked, delay_ns);
    let mut arrivals = 0..asked.len();
    loop {
        let arrival_ns = (arrivals.start as u64) * delay_ns;
        match server.running.first().copied() {
            Some((end_ns, core)) if arrivals.is_empty() || end_ns <= arrival_ns => {
                server.end_of(end_ns, core);
            }
            None if arrivals.is_empty() => break,
            _ => server.arrive(arrivals.next().expect("one is left"), arrival_ns),
        }
    }
    let waited = |(asked, ns): (&Asked, u64)| (asked.priority, ns);
    Waits(asked.iter().zip(server.waits).map(waited).collect())
}

struct Server<'a> {
    machine: Machine,
    policy: Policy,
    asked: &'a [Asked],
    delay_ns: u64,
    queue: RunQueue,
    idle: BTreeSet<u32>,
    /// When a core is done with its chunk.
    running: BTreeSet<(u64, u32)>,
    chunks: BTreeMap<u32, (Chunk, u64)>,
    /// The request that each job was made for.
    made_for: HashMap<JobId, usize>,
    waiting: HashMap<WaiterId, usize>,
    in_work: HashMap<u64, JobId>,
    answered: BTreeSet<u64>,
    waits: Vec<u64>,
}

impl<'a> Server<'a> {
    fn new(machine: Machine, policy: Policy, asked: &'a [Asked], delay_ns: u64) -> Self {
        let quantum_ns = quantum_ns(policy.chunk, 1e9 / machine.rate);
        let queue = RunQueue::new(policy.order, policy.width, quantum_ns, 1);
        Self {
            machine,
            policy,
            asked,
            delay_ns,
            queue,
            idle: (0..machine.cores).collect(),
            running: BTreeSet::new(),
            chunks: BTreeMap::new(),
            made_for: HashMap::new(),
            waiting: HashMap::new(),
            in_work: HashMap::new(),
            answered: BTreeSet::new(),
            waits: vec![0; asked.len()],
        }
    }

    fn arrive(&mut self, i: usize, now_ns: u64) {
        let Asked {
            number,
            range,
            priority,
        } = &self.asked[i];
        let joins = self.policy.cache == Cache::Join;
        if joins && self.answered.contains(number) {
            self.answer(i, now_ns);
            return;
        }
        let tickets = u32::from(*priority).max(1);
        if joins && let Some(job) = self.in_work.get(number) {
            let waiter = self.queue.join(*job, tickets, Currency::BASE);
            self.waiting.insert(waiter.expect("there is room"), i);
            return;
        }
        let units = range.end - range.start;
        let request = Request {
            units,
            chunk: match self.policy.chunk {
                0 => units,
                chunk => chunk,
            },
            tickets,
            currency: Currency::BASE,
        };
        let (job, waiter) = self.queue.submit(&request).expect("there is room");
        self.made_for.insert(job, i);
        self.in_work.insert(*number, job);
        self.waiting.insert(waiter, i);
        self.begin(now_ns);
    }

    /// Whoever is idle gets a chunk.
    fn begin(&mut self, now_ns: u64) {
        while let Some(core) = self.idle.first().copied()
            && let Some(chunk) = self.queue.pick()
        {
            self.idle.remove(&core);
            let asked = &self.asked[self.made_for[&chunk.job]];
            let sought = asked.number - asked.range.start;
            let tried = match chunk.units.contains(&sought) {
                _ if self.is_known(asked) => 0,
                true => sought + 1 - chunk.units.start,
                false => chunk.units.end - chunk.units.start,
            };
            let took_ns = (tried as f64 / self.machine.rate * 1e9).ceil() as u64;
            self.running.insert((now_ns + took_ns, core));
            self.chunks.insert(core, (chunk, took_ns));
        }
    }

    fn end_of(&mut self, now_ns: u64, core: u32) {
        self.running.remove(&(now_ns, core));
        self.idle.insert(core);
        let (chunk, took_ns) = self.chunks.remove(&core).expect("it had one");
        let asked = &self.asked[self.made_for[&chunk.job]];
        let number = asked.number;
        let sought = number - asked.range.start;
        let is_found = chunk.units.contains(&sought) || self.is_known(asked);
        if let Settled::Ended(waiters) = self.queue.settle(&chunk, took_ns, is_found) {
            self.stop(chunk.job, now_ns);
            self.in_work.remove(&number);
            self.answered.insert(number);
            for waiter in waiters {
                let i = self.waiting.remove(&waiter).expect("it waited");
                self.answer(i, now_ns);
            }
        }
        self.begin(now_ns);
    }

    /// When its turn has come.
    fn is_known(&self, asked: &Asked) -> bool {
        self.policy.cache == Cache::Turn && self.answered.contains(&asked.number)
    }

    /// The job has ended; who still works on it sees that soon.
    fn stop(&mut self, job: JobId, now_ns: u64) {
        let look_ns = (self.policy.look as f64 / self.machine.rate * 1e9) as u64;
        let seen_ns = now_ns.saturating_add(look_ns);
        let cores = self.running.iter().copied();
        let of_job =
            cores.filter(|(end_ns, core)| *end_ns > seen_ns && self.chunks[core].0.job == job);
        for (end_ns, core) in of_job.collect::<Vec<_>>() {
            self.running.remove(&(end_ns, core));
            self.running.insert((seen_ns, core));
        }
    }

    fn answer(&mut self, i: usize, now_ns: u64) {
        self.waits[i] = now_ns - i as u64 * self.delay_ns + self.machine.overhead_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Glibc, requests};

    /// Twelve would leave the ratio 0.01 to chance when there is more to do than can be done.
    const SEEDS: std::ops::Range<u32> = 1..49;

    /// The mean score of all streams, of one policy in parts of the other's.
    fn ratio(cores: u32, rate: f64, delay_ns: u64, policy: Policy, other: Policy) -> f64 {
        let machine = Machine {
            cores,
            rate,
            overhead_ns: 60_000,
        };
        let score = |policy| -> u64 {
            let of_seed = |seed| {
                let asked = requests(&Settings::FINAL, &mut Glibc::new(seed));
                run(machine, policy, &asked, delay_ns).score()
            };
            SEEDS.map(of_seed).sum()
        };
        score(policy) as f64 / score(other) as f64
    }

    #[test]
    fn the_best_order_on_two_slow_cores() {
        let ratio = ratio(2, 12e6, 600_000_000, Policy::BEST, Policy::FIFO_ONE);
        assert!(ratio <= 0.63, "{ratio}");
    }

    #[test]
    fn the_best_order_on_four_cores_that_are_overloaded() {
        let ratio = ratio(4, 65e6, 40_000_000, Policy::BEST, Policy::FIFO_ONE);
        assert!(ratio <= 0.72, "{ratio}");
    }

    #[test]
    fn a_load_is_what_its_delay_gives() {
        let machine = Machine {
            cores: 2,
            rate: 12e6,
            overhead_ns: 0,
        };
        // 0.79 x 15 million of 24 million a second, of 0.6 s.
        assert!((load(machine, &Settings::FINAL) - 0.823).abs() < 0.001);
        let settings = Settings {
            delay_us: delay_us(machine, &Settings::FINAL, 0.5),
            ..Settings::FINAL
        };
        assert!((load(machine, &settings) - 0.5).abs() < 1e-4);
    }

    /// One core of 1000 numbers a second, a request each 100 ms: the first is done at 1 s, the second at 2 s.
    #[test]
    fn a_repeat_is_worked_on_again_or_looked_up_in_turn_or_joined() {
        let machine = Machine {
            cores: 1,
            rate: 1000.0,
            overhead_ns: 0,
        };
        let asked = [999, 1999, 999].map(|number| Asked {
            number,
            range: number - 999..number + 1,
            priority: 1,
        });
        let waits_ms = |cache| {
            let policy = Policy {
                cache,
                ..Policy::FIFO_ONE
            };
            let Waits(waits) = run(machine, policy, &asked, 100_000_000);
            waits
                .iter()
                .map(|(_, ns)| ns / 1_000_000)
                .collect::<Vec<_>>()
        };
        assert_eq!(waits_ms(Cache::None), [1000, 1900, 2800]);
        assert_eq!(waits_ms(Cache::Turn), [1000, 1900, 1800]);
        assert_eq!(waits_ms(Cache::Join), [1000, 1900, 800]);
    }

    #[test]
    fn without_a_queue_splitting_is_all_there_is_to_win() {
        let ratio = ratio(4, 65e6, 600_000_000, Policy::BEST, Policy::FIFO_ONE);
        assert!((0.24..0.27).contains(&ratio), "{ratio}");
    }
}
