//! What runs during an experiment, as data: clients, changes and their times, how often to sample.
//!
//! Two machines play plans (lab/src/play): a real kernel in a guest, where `lab-driver` plays them one after another and prints
//! samples, and the simulated machine of `tombola simulate`. What comes of a plan is its course.

use crate::statistics::QUANTUM_S;
use serde::{Deserialize, Serialize};

/// The disk that clients with `Work::Disk` write and read: twice the memory.
pub const DISK: &str = "/dev/nvme0n1";
pub const DISK_MIB: u32 = 2048;

/// Where the driver finds the plans.
pub const PLANS_FILE: &str = "/lab/plans.json";

/// Tickets that a process has under Tombola, if none were set.
pub const TICKETS_DEFAULT: u32 = 100;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scheduler {
    #[default]
    Stride,
    Lottery,
    /// The kernel's own, by nice values.
    Nice,
    /// The kernel's own, by `cpu.weight` of cgroups.
    Weight,
    /// The kernel's own, with SCHED_DEADLINE for clients that have a runtime and a period.
    Deadline,
    /// Linux 2.4, by nice values. This and the following are only simulated.
    Linux24,
    /// Linux 2.4 with FairSched.
    Fairsched,
    /// The lottery of Zepp's thesis.
    Thesis,
    /// The same with its I/O enhancement.
    ThesisEnhanced,
    /// Mach's timesharing.
    Mach,
    /// The lottery on Mach: as Tombola's, with Mach's quantum.
    LotteryOnMach,
}

impl Scheduler {
    pub fn name(self) -> &'static str {
        match self {
            Scheduler::Stride => "stride",
            Scheduler::Lottery => "lottery",
            Scheduler::Nice => "nice",
            Scheduler::Weight => "cpu.weight",
            Scheduler::Deadline => "SCHED_DEADLINE",
            Scheduler::Linux24 => "linux-2.4 (simulated)",
            Scheduler::Fairsched => "fairsched (simulated)",
            Scheduler::Thesis => "thesis (simulated)",
            Scheduler::ThesisEnhanced => "thesis-enhanced (simulated)",
            Scheduler::Mach => "mach (simulated)",
            Scheduler::LotteryOnMach => "lottery of 100 ms (simulated)",
        }
    }

    /// Tombola's policy, if this is Tombola.
    pub fn policy(self) -> Option<&'static str> {
        match self {
            Scheduler::Stride | Scheduler::Lottery => Some(self.name()),
            _ => None,
        }
    }

    /// The time that one draw decides, if this is a lottery.
    pub fn drawn_s(self) -> Option<f64> {
        match self {
            Scheduler::Lottery => Some(QUANTUM_S),
            Scheduler::Thesis | Scheduler::ThesisEnhanced => Some(0.06),
            Scheduler::LotteryOnMach => Some(0.1),
            _ => None,
        }
    }

    /// A scheduler of the past.
    pub fn is_historic(self) -> bool {
        match self {
            Scheduler::Stride | Scheduler::Lottery => false,
            Scheduler::Nice | Scheduler::Weight | Scheduler::Deadline => false,
            Scheduler::Linux24 | Scheduler::Fairsched | Scheduler::Mach => true,
            Scheduler::Thesis | Scheduler::ThesisEnhanced | Scheduler::LotteryOnMach => true,
        }
    }
}

/// What a client does, step by step; times are in ns.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Step {
    /// Computes until so much CPU time has been used, beside the other `Run`s. The cost of steps since the last one counts.
    Run(u64),
    Sleep(u64),
    /// Sleeps until the current period is over. The first one begins when the client does, each other at the end of the one
    /// before. If the period is over already, the client does not sleep, and the next begins at that moment.
    Timer(u64),
}

/// A currency that a user makes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Currency {
    pub user: u32,
    pub name: String,
    /// In the user's own currency.
    pub tickets: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Work {
    /// Uses all the CPU time it is given.
    Burn,
    /// Ends after so many units of work.
    Units(u64),
    /// These, over and over; a unit is one time.
    Steps(Vec<Step>),
    /// Writes more than fits into memory to the disk and reads it back, for ever; a unit is a MiB written or read.
    Disk,
    /// A program of apps/, with `--progress FILE`, where it counts its units; SIGTERM ends it.
    Program {
        words: Vec<String>,
        /// The option that names a file into which it writes numbers, one a line, when it ends.
        numbers: Option<String>,
    },
}

/// A cgroup and its `cpu.weight`, for `Scheduler::Weight`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    pub name: String,
    pub weight: u32,
}

impl Group {
    pub fn new(name: impl Into<String>, weight: u32) -> Self {
        Self {
            name: name.into(),
            weight,
        }
    }
}

/// Parameters of SCHED_DEADLINE: so much of each period.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Deadline {
    pub runtime_ns: u64,
    pub period_ns: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Client {
    /// Number of the user it runs as, from 1.
    pub user: u32,
    /// Under Tombola; the user has the default of base tickets.
    pub tickets: u32,
    /// Under Tombola: the currency that it is in, one of the plan's and of its user's.
    pub currency: Option<String>,
    /// Under Tombola: percent of the CPU that it has reserved.
    pub reserved: Option<u32>,
    /// Under the kernel's own scheduler.
    pub nice: i32,
    /// Where cgroups are used: the one that it is in, after the ones around that.
    pub groups: Vec<Group>,
    /// Where SCHED_DEADLINE is used; without it, the client is an ordinary task.
    pub deadline: Option<Deadline>,
    pub work: Work,
    /// Begins so long after the first sample; `None`: before the warm-up.
    pub starts_s: Option<f64>,
    /// Is killed at the first sample so long after the first one; `None`: at the end.
    pub ends_s: Option<f64>,
}

impl Client {
    pub fn burning(user: u32, tickets: u32) -> Self {
        Self {
            user,
            tickets,
            currency: None,
            reserved: None,
            nice: 0,
            groups: vec![Group::new(format!("user{user}"), 100)],
            deadline: None,
            work: Work::Burn,
            starts_s: None,
            ends_s: None,
        }
    }

    /// A program of apps/.
    pub fn running(user: u32, words: &[&str]) -> Self {
        Self::program(user, words, None)
    }

    /// The same; `option` names the file for its numbers.
    pub fn reporting(user: u32, words: &[&str], option: &str) -> Self {
        Self::program(user, words, Some(option.to_owned()))
    }

    /// The same, where cgroups are used in one of its own within its user's.
    pub fn in_group(self, name: &str, weight: u32) -> Self {
        Self {
            groups: vec![
                Group::new(format!("user{}", self.user), 100),
                Group::new(name, weight),
            ],
            ..self
        }
    }

    fn program(user: u32, words: &[&str], numbers: Option<String>) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            work: Work::Program { words, numbers },
            ..Self::burning(user, TICKETS_DEFAULT)
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

/// Under Tombola, a client lends tickets to another one, and takes them back.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Loan {
    pub from: usize,
    pub to: usize,
    pub tickets: u32,
    /// At the first sample so long after the first one.
    pub begins_s: f64,
    pub ends_s: f64,
}

/// A reservation that is requested before the start, and may be refused.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Request {
    pub client: usize,
    pub percent: u32,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    pub scheduler: Scheduler,
    /// An instruction takes 2^shift ns, if not the usual time; in a boot of its own.
    pub shift: Option<u32>,
    /// Under Tombola; made before the clients begin, retired after them.
    pub currencies: Vec<Currency>,
    pub clients: Vec<Client>,
    pub request: Option<Request>,
    pub changes: Vec<Change>,
    pub loans: Vec<Loan>,
    /// Time before the first sample, in which clients start.
    pub warm_up_s: f64,
    /// At most so long; a plan with limited work ends when the work is done.
    pub seconds: f64,
    pub every_s: f64,
    /// Record each draw as well.
    pub trace: bool,
}

impl Plan {
    /// Are all clients with limited work done?
    pub fn is_over(&self, sample: &Sample) -> bool {
        let limited = self.clients.iter().zip(&sample.units);
        let mut limited = limited.filter_map(|(client, &done)| match client.work {
            Work::Units(limit) => Some(done >= limit),
            _ => None,
        });
        match limited.next() {
            Some(first) => first && limited.all(|done| done),
            None => false,
        }
    }
}

/// All that was recorded of a plan.
#[derive(Clone, Debug, Default)]
pub struct Course {
    pub samples: Vec<Sample>,
    pub draws: Vec<Draw>,
    pub ends: Vec<End>,
    /// The answer to the request, if there was one.
    pub answer: Option<Answer>,
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

/// A client's results at its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct End {
    pub client: usize,
    /// From its beginning until its work was done, if the work was limited.
    pub took_ns: Option<u64>,
    /// What it wrote into the file for its numbers.
    pub numbers: Vec<u64>,
}

/// A command's exit status and messages.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    pub status: i32,
    pub text: String,
}

/// What the driver prints, a line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Line {
    Began(String),
    Sample(Sample),
    Draw(Draw),
    End(End),
    Answer(Answer),
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

    /// One client's part of what all clients received.
    pub fn share(&self, client: usize, from: usize, to: usize) -> f64 {
        self.used_s(client, from, to) / self.all_used_s(from, to)
    }

    pub fn all_used_s(&self, from: usize, to: usize) -> f64 {
        let clients = 0..self.samples[from].used_ns.len();
        clients.map(|client| self.used_s(client, from, to)).sum()
    }

    /// Units of work that a client did between two samples.
    pub fn done(&self, client: usize, from: usize, to: usize) -> f64 {
        (self.samples[to].units[client] - self.samples[from].units[client]) as f64
    }

    /// The sample nearest to a time after the first.
    pub fn sample_at(&self, seconds: f64) -> usize {
        let off = |&i: &usize| (self.at_s(i) - seconds).abs();
        let nearest = (0..self.samples.len()).min_by(|a, b| off(a).total_cmp(&off(b)));
        nearest.expect("there is a sample")
    }

    /// The first client's part of what some clients received together.
    pub fn part(&self, clients: &[usize], from: usize, to: usize) -> f64 {
        let used = |&client: &usize| self.used_s(client, from, to);
        used(&clients[0]) / clients.iter().map(used).sum::<f64>()
    }
}
