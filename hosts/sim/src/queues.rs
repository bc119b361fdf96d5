//! Tombola's run queues on a machine: which CPUs share one, and how loaded they are.

use crate::entitlement::all_cpus;
use crate::groups::{Groups, Reach};
use crate::machine::{ANYWHERE, Topology};
use crate::program::MS;
use tombola_core::queues::PARTNERS;
use tombola_core::{Economy, queues};

/// Which CPUs share a run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunQueues {
    /// All CPUs of the machine.
    Machine,
    /// Those of a last-level cache.
    PerCache(Balance),
    /// None: each CPU has its own.
    PerCpu(Balance),
}

/// By which rule tasks move between queues (`queues.h`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// From a queue with a slow clock to one with a fast clock.
    #[default]
    Clock,
    /// To one of the next queues with a quarter less tasks, as in MQS.
    Mqs,
}

impl RunQueues {
    /// One for each cache, if the machine has several.
    #[must_use]
    pub fn of_topology(topology: Topology, balance: Balance) -> Self {
        if topology.cpus > topology.cpus_per_cache {
            Self::PerCache(balance)
        } else {
            Self::Machine
        }
    }

    /// How many CPUs each has; the last queue may have fewer.
    #[must_use]
    pub fn cpus_each(self, topology: Topology) -> usize {
        match self {
            Self::Machine => topology.cpus,
            Self::PerCache(_) => topology.cpus_per_cache.min(topology.cpus),
            Self::PerCpu(_) => 1,
        }
    }

    /// How many queues there are.
    #[must_use]
    pub fn count(self, topology: Topology) -> usize {
        topology.cpus.div_ceil(self.cpus_each(topology))
    }

    pub(crate) fn balance(self) -> Balance {
        match self {
            Self::Machine => Balance::Clock,
            Self::PerCache(balance) | Self::PerCpu(balance) => balance,
        }
    }

    /// How far two of their clocks may be apart, ns. A queue of one CPU must give tasks away more often to keep this bound.
    pub(crate) fn bound_ns(self) -> u64 {
        match self {
            Self::Machine | Self::PerCache(_) => 10 * MS,
            Self::PerCpu(_) => 20 * MS,
        }
    }
}

/// Several run queues, each for so many CPUs with consecutive numbers.
pub(crate) struct Queues {
    pub groups: Groups,
    topology: Topology,
    cpus_each: usize,
    /// How far two clocks may be apart, ns.
    pub bound_ns: u64,
    pub balance: Balance,
    /// When each queue looks at the clocks of others next, ns.
    pub look_ns: Vec<u64>,
    /// When the prices of groups are computed next, ns.
    pub renews_ns: u64,
    /// The queue whose clock was ahead of all others at the last check of CPU 0.
    pub fastest: usize,
    /// How often clocks were compared: it tells at which others a queue looks.
    looks: usize,
}

impl Queues {
    pub fn new(
        groups: Groups,
        topology: Topology,
        cpus_each: usize,
        bound_ns: u64,
        balance: Balance,
    ) -> Self {
        Self {
            look_ns: vec![0; topology.cpus.div_ceil(cpus_each)],
            groups,
            topology,
            cpus_each,
            bound_ns,
            balance,
            renews_ns: 0,
            fastest: 0,
            looks: 0,
        }
    }

    pub fn count(&self) -> usize {
        self.topology.cpus.div_ceil(self.cpus_each)
    }

    pub fn of(&self, cpu: usize) -> usize {
        cpu / self.cpus_each
    }

    pub fn cpus(&self, queue: usize) -> std::ops::Range<usize> {
        let first = queue * self.cpus_each;
        first..self.topology.cpus.min(first + self.cpus_each)
    }

    /// The CPUs on which a task with this mask may run.
    pub fn reach(&self, mask: u64) -> Reach {
        if mask == ANYWHERE {
            return None;
        }
        let all = all_cpus(self.topology.cpus);
        Some(mask & all).filter(|&mask| mask != all)
    }

    pub fn load(&self, queue: usize) -> u64 {
        self.groups.load(queue, self.cpus(queue).len() as u64)
    }

    /// As a task of `group` finds it.
    pub fn load_for(&self, group: u32, queue: usize) -> u64 {
        self.groups
            .load_for(group, queue, self.cpus(queue).len() as u64)
    }

    pub fn neighbours(&self, queue: usize) -> impl Iterator<Item = usize> + use<> {
        queues::neighbours(queue as u32, self.count() as u32).map(|other| other as usize)
    }

    /// Queues that a slow one looks at last: all, or on a large machine some, other ones with each call.
    pub fn others(&mut self, own: usize) -> impl Iterator<Item = usize> + use<> {
        self.looks += 1;
        let (first, count) = (own + self.looks * PARTNERS, self.count());
        let others = (0..PARTNERS.min(count)).map(move |k| (first + k) % count);
        others.filter(move |&other| other != own)
    }

    pub fn clock(&self, economy: &Economy, queue: usize) -> u64 {
        self.groups.clock(economy, queue)
    }

    /// The queue whose clock is ahead of all others.
    pub fn fastest(&self, economy: &Economy) -> usize {
        let ahead = |a: usize, b: usize| {
            let [a, b] = [a, b].map(|queue| self.clock(economy, queue));
            a.wrapping_sub(b) as i64 > 0
        };
        (1..self.count()).fold(0, |fastest, queue| match ahead(queue, fastest) {
            true => queue,
            false => fastest,
        })
    }
}
