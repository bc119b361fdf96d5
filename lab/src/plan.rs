//! What runs in the guest during an experiment, as data: clients, what changes when, how often to look.
//!
//! The host writes plans into the guest's image, `lab-driver` plays them there one after another and prints what it sees,
//! and the host reads that as courses.

use serde::{Deserialize, Serialize};

/// What those with `Work::Disk` write and read: twice the memory.
pub const DISK: &str = "/dev/nvme0n1";
pub const DISK_MIB: u32 = 2048;

/// Where the driver finds the plans.
pub const PLANS_FILE: &str = "/lab/plans.json";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheduler {
    Stride,
    Lottery,
    /// The kernel's own, by nice values.
    Nice,
    /// The kernel's own, by `cpu.weight` of cgroups.
    Weight,
}

impl Scheduler {
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::Stride => "stride",
            Scheduler::Lottery => "lottery",
            Scheduler::Nice => "nice",
            Scheduler::Weight => "cpu.weight",
        }
    }

    /// Tombola's policy, if this is Tombola.
    pub fn policy(self) -> Option<&'static str> {
        match self {
            Scheduler::Stride | Scheduler::Lottery => Some(self.name()),
            Scheduler::Nice | Scheduler::Weight => None,
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Uses all the CPU time it is given.
    Burn,
    /// Ends after so many units of work.
    Units(u64),
    /// Writes more than fits into memory to the disk and reads it back, for ever; a unit is a MiB that moved.
    Disk,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Client {
    /// Number of the user it runs as, from 1.
    pub user: u32,
    /// Under Tombola; the user has the default of base tickets.
    pub tickets: u32,
    /// Under the kernel's own scheduler.
    pub nice: i32,
    /// Of the cgroup of its user, where those are used.
    pub weight: u32,
    pub work: Work,
}

impl Client {
    pub fn burning(user: u32, tickets: u32) -> Self {
        Self {
            user,
            tickets,
            nice: 0,
            weight: 100,
            work: Work::Burn,
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum When {
    Seconds(f64),
    /// As soon as the client itself has done so many units.
    Units(u64),
}

/// A client's tickets change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Change {
    pub when: When,
    pub client: usize,
    pub tickets: u32,
    pub nice: i32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    pub scheduler: Scheduler,
    pub clients: Vec<Client>,
    pub changes: Vec<Change>,
    /// Not looked at: until here everybody has started.
    pub warm_up_s: f64,
    /// At most so long; a plan with limited work ends when that is done.
    pub seconds: f64,
    pub every_s: f64,
    /// One row for each draw as well.
    pub trace: bool,
}

/// What was seen of a plan.
#[derive(Clone, Debug, Default)]
pub struct Course {
    pub samples: Vec<Sample>,
    pub draws: Vec<Draw>,
}

/// CPU time and work of each client, at a moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sample {
    pub at_ns: u64,
    pub used_ns: Vec<u64>,
    pub units: Vec<u64>,
    /// How many of the changes have been made.
    pub changes: usize,
}

/// A row of `tombola trace --json`, as far as it is used here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Draw {
    pub at_ns: u64,
    /// Which client of the plan it was; filled in by the driver.
    #[serde(default)]
    pub client: usize,
    pub ran_ns: u64,
    pub tickets: u32,
    pub draw_tickets: u32,
    pub compensation: f64,
    pub base_value: f64,
}

/// What the driver prints, a line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Line {
    Began(String),
    Sample(Sample),
    Draw(Draw),
}

impl Course {
    /// Seconds of CPU time that a client received between two samples.
    pub fn used_s(&self, client: usize, from: usize, to: usize) -> f64 {
        (self.samples[to].used_ns[client] - self.samples[from].used_ns[client]) as f64 / 1e9
    }

    /// The same of the first two clients together.
    pub fn pair_used_s(&self, from: usize, to: usize) -> f64 {
        self.used_s(0, from, to) + self.used_s(1, from, to)
    }

    pub fn last(&self) -> usize {
        self.samples.len() - 1
    }

    /// Seconds since the first sample.
    pub fn at_s(&self, sample: usize) -> f64 {
        (self.samples[sample].at_ns - self.samples[0].at_ns) as f64 / 1e9
    }

    /// Of what some clients received together, the part of the first of them.
    pub fn part(&self, clients: &[usize], from: usize, to: usize) -> f64 {
        let used = |&client: &usize| self.used_s(client, from, to);
        used(&clients[0]) / clients.iter().map(used).sum::<f64>()
    }
}
