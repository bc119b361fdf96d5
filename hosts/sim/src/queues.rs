//! Tombola's run queues on a machine: which CPUs share one, and how loaded they are.

use crate::groups::Groups;
use crate::machine::Topology;
use crate::program::MS;
use tombola_core::{Economy, queues};

/// Which CPUs share a run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunQueues {
    /// All CPUs of the machine.
    Machine,
    /// Those of a last-level cache.
    PerCache,
    /// None: each CPU has its own.
    PerCpu,
}

impl RunQueues {
    /// One for each cache, if the machine has several.
    #[must_use]
    pub fn of_topology(topology: Topology) -> Self {
        if topology.cpus > topology.cpus_per_cache {
            Self::PerCache
        } else {
            Self::Machine
        }
    }

    /// How many CPUs each has; the last queue may have fewer.
    #[must_use]
    pub fn cpus_each(self, topology: Topology) -> usize {
        match self {
            Self::Machine => topology.cpus,
            Self::PerCache => topology.cpus_per_cache.min(topology.cpus),
            Self::PerCpu => 1,
        }
    }

    /// How many queues there are.
    #[must_use]
    pub fn count(self, topology: Topology) -> usize {
        topology.cpus.div_ceil(self.cpus_each(topology))
    }

    /// How far two of their clocks may be apart, ns. A queue of one CPU must give tasks away more often to keep this bound.
    pub(crate) fn bound_ns(self) -> u64 {
        match self {
            Self::Machine | Self::PerCache => 10 * MS,
            Self::PerCpu => 20 * MS,
        }
    }
}

/// Several run queues, each for so many CPUs with consecutive numbers.
pub(crate) struct Queues {
    pub groups: Groups,
    topology: Topology,
    cpus_each: usize,
    /// How far two clocks may be apart, ns; checked twice in that time.
    pub bound_ns: u64,
    /// The queue whose clock was ahead of all others at the last check of CPU 0.
    pub fastest: usize,
}

impl Queues {
    pub fn new(groups: Groups, topology: Topology, cpus_each: usize, bound_ns: u64) -> Self {
        Self {
            groups,
            topology,
            cpus_each,
            bound_ns,
            fastest: 0,
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

    pub fn load(&self, queue: usize) -> u64 {
        self.groups.load(queue, self.cpus(queue).len() as u64)
    }

    pub fn neighbours(&self, queue: usize) -> impl Iterator<Item = usize> + use<> {
        queues::neighbours(queue as u32, self.count() as u32).map(|other| other as usize)
    }

    pub fn clock(&self, economy: &Economy, queue: usize) -> u64 {
        self.groups.clock(economy, queue)
    }
}
