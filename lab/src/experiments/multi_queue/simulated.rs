//! The compile on the simulated machine: Plan 9's schedulers and ours on 4 to 64 CPUs, parts of Plan 9's switched, cold caches,
//! reads of other lengths, and a background job in some of the runs.

use super::figures::{Figures, Published, no_worse_rows};
use crate::compile::simulated::{Setting, Simulator};
use crate::result::Row;
use anyhow::Result;

/// What was published for four CPUs: one queue, and a queue for each CPU.
pub const ONE_QUEUE: Published = [5.466, 4.89, 7.4, 0.52];
pub const QUEUE_PER_CPU: Published = [5.220, 5.11, 5.73, 0.09];

const CPUS: [u64; 4] = [4, 8, 16, 64];
const READ_US: u64 = 200;
const COLD_US: u64 = 50;
/// CPU time of the background job, ms.
const BACKGROUND_MS: [u64; 7] = [0, 100, 200, 400, 600, 800, 1000];

#[derive(Clone, Copy, PartialEq)]
pub struct Contestant {
    pub name: &'static str,
    scheduler: &'static str,
    options: &'static [&'static str],
    published: Option<Published>,
    is_ours: bool,
}

pub const CONTESTANTS: [Contestant; 4] = [
    Contestant {
        name: "plan9",
        scheduler: "plan9",
        options: &[],
        published: Some(ONE_QUEUE),
        is_ours: false,
    },
    Contestant {
        name: "mqs",
        scheduler: "mqs",
        options: &[],
        published: Some(QUEUE_PER_CPU),
        is_ours: false,
    },
    Contestant {
        name: "stride",
        scheduler: "stride",
        options: &[],
        published: None,
        is_ours: true,
    },
    Contestant {
        name: "stride-cpu",
        scheduler: "stride",
        options: &["--run-queue", "cpu"],
        published: None,
        is_ours: true,
    },
];

impl Contestant {
    fn on(&self, cpus: u64) -> Setting {
        Setting {
            scheduler: self.scheduler,
            plan9: "",
            options: self.options,
            cpus,
            read_us: READ_US,
            cold_us: COLD_US,
            boot: None,
            background_ms: 0,
        }
    }
}

/// What is changed of the machine with four CPUs.
#[derive(Clone, Copy, PartialEq)]
pub enum Change {
    Nothing,
    /// `[plan9]`, of the scheduler of this name only.
    Part(&'static str, &'static str),
    /// All compiles after the same boot.
    Boot(u64),
    ReadUs(u64),
    ColdUs(u64),
    /// After the first boot: what other ticks change would hide what the job does.
    BackgroundMs(u64),
}

/// A place where all schedulers, or one, were measured.
#[derive(Clone, Copy, PartialEq)]
pub struct Place {
    pub cpus: u64,
    pub change: Change,
}

/// The one that was published.
pub const PLAIN: Place = Place {
    cpus: 4,
    change: Change::Nothing,
};

pub struct Measured {
    pub contestant: Contestant,
    pub place: Place,
    pub seconds: Vec<f64>,
}

impl Measured {
    pub fn figures(&self) -> Figures {
        Figures::of(&self.seconds)
    }
}

impl Place {
    pub fn name(&self) -> String {
        let cpus = self.cpus;
        match self.change {
            Change::Nothing => format!("{cpus} CPUs"),
            Change::Part(_, part) => format!("{cpus} CPUs, {part}"),
            Change::Boot(boot) => format!("{cpus} CPUs, ticks as after boot {boot}"),
            Change::ReadUs(us) => format!("{cpus} CPUs, reads of {} ms", us as f64 / 1e3),
            Change::ColdUs(us) => format!("{cpus} CPUs, moves cost {} ms", us as f64 / 1e3),
            Change::BackgroundMs(ms) => {
                format!("{cpus} CPUs, background job of {} s", ms as f64 / 1e3)
            }
        }
    }

    fn applies_to(&self, contestant: &Contestant) -> bool {
        match self.change {
            Change::Part(name, _) => name == contestant.name,
            // Tombola has no ticks.
            Change::Boot(_) => !contestant.is_ours,
            _ => true,
        }
    }

    fn setting(&self, contestant: &Contestant) -> Setting {
        let plain = contestant.on(self.cpus);
        match self.change {
            Change::Nothing => plain,
            Change::Part(_, plan9) => Setting { plan9, ..plain },
            Change::Boot(boot) => Setting {
                boot: Some(boot),
                ..plain
            },
            Change::ReadUs(read_us) => Setting { read_us, ..plain },
            Change::ColdUs(cold_us) => Setting { cold_us, ..plain },
            Change::BackgroundMs(background_ms) => Setting {
                boot: Some(1),
                background_ms,
                ..plain
            },
        }
    }
}

/// All places, the ones that were published first.
pub fn places() -> Vec<Place> {
    let on_four = |change| Place { cpus: 4, change };
    let parts = [
        Change::Part("plan9", "wake-idle = true"),
        Change::Part("plan9", "readied-first = false"),
        Change::Part("mqs", "push = false"),
        Change::Part("mqs", "wake-idle = false"),
        Change::Boot(1),
        Change::Boot(2),
        Change::Boot(3),
        Change::ReadUs(20),
        Change::ReadUs(800),
        Change::ColdUs(200),
        Change::ColdUs(1000),
    ];
    let plain = CPUS.map(|cpus| Place {
        cpus,
        change: Change::Nothing,
    });
    let changed = parts.map(on_four);
    let disturbed = BACKGROUND_MS.map(|ms| on_four(Change::BackgroundMs(ms)));
    plain.into_iter().chain(changed).chain(disturbed).collect()
}

/// Compiles so often in each place, under each scheduler; tells `done` of each place.
pub fn measure(
    places: &[Place],
    runs: u64,
    mut done: impl FnMut(&[Measured]),
) -> Result<Vec<Measured>> {
    let simulator = Simulator::new()?;
    let mut all = Vec::new();
    for place in places {
        let first = all.len();
        for contestant in CONTESTANTS.iter().filter(|it| place.applies_to(it)) {
            let setting = place.setting(contestant);
            all.push(Measured {
                contestant: *contestant,
                place: *place,
                seconds: simulator.all_seconds(&setting, runs)?,
            });
        }
        done(&all[first..]);
    }
    Ok(all)
}

fn find<'a>(all: &'a [Measured], place: &Place, name: &str) -> Option<&'a Measured> {
    all.iter()
        .find(|measured| measured.place == *place && measured.contestant.name == name)
}

pub fn rows(all: &[Measured]) -> Vec<Row> {
    let mut rows = Vec::new();
    for measured in all {
        let Measured {
            contestant, place, ..
        } = measured;
        let published = contestant.published.filter(|_| *place == PLAIN);
        let name = format!("{}, {}", place.name(), contestant.name);
        rows.extend(measured.figures().rows(&name, published));
    }
    rows.extend(published_rows(all));
    for ours in all.iter().filter(|measured| measured.contestant.is_ours) {
        if let Some(global) = find(all, &ours.place, "plan9") {
            rows.extend(no_worse_rows(
                &ours.place.name(),
                (ours.contestant.name, &ours.figures()),
                (global.contestant.name, &global.figures()),
            ));
        }
    }
    rows
}

/// MQS's mean and deviation in parts of the one queue's, and each deviation in parts of its mean: what of the published figures
/// does not depend on the machine's speed.
fn published_rows(all: &[Measured]) -> Vec<Row> {
    let Some((one, many)) = find(all, &PLAIN, "plan9").zip(find(all, &PLAIN, "mqs")) else {
        return Vec::new();
    };
    let (one, many) = (one.figures(), many.figures());
    let row = |name: &str, measured: f64, published: f64| Row {
        name: format!("{}: {name}", PLAIN.name()),
        measured,
        published: Some(published),
        bar: String::new(),
        pass: None,
    };
    vec![
        row(
            "mean of mqs, in parts of plan9's",
            many.mean / one.mean,
            QUEUE_PER_CPU[0] / ONE_QUEUE[0],
        ),
        row(
            "sd of mqs, in parts of plan9's",
            many.sd / one.sd,
            QUEUE_PER_CPU[3] / ONE_QUEUE[3],
        ),
        row(
            "sd of plan9, in parts of its mean",
            one.sd / one.mean,
            ONE_QUEUE[3] / ONE_QUEUE[0],
        ),
        row(
            "sd of mqs, in parts of its mean",
            many.sd / many.mean,
            QUEUE_PER_CPU[3] / QUEUE_PER_CPU[0],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: u64 = 3;

    fn on_four(change: Change) -> Place {
        Place { cpus: 4, change }
    }

    fn mean(all: &[Measured], change: Change, name: &str) -> f64 {
        let place = on_four(change);
        let measured = find(all, &place, name).expect("it was measured");
        assert_eq!(measured.seconds.len() as u64, RUNS);
        measured.figures().mean
    }

    /// Needs `tombola` in target/release.
    #[test]
    fn the_model_gives_the_orders_that_it_must() {
        let at_once = Change::Part("plan9", "wake-idle = true");
        let at_ticks = Change::Part("mqs", "wake-idle = false");
        let without_pushes = Change::Part("mqs", "push = false");
        let cold = Change::ColdUs(1000);
        let (calm, busy) = (Change::BackgroundMs(0), Change::BackgroundMs(1000));
        let changes = [
            Change::Nothing,
            at_once,
            at_ticks,
            without_pushes,
            cold,
            calm,
            busy,
        ];
        let all = measure(&changes.map(on_four), RUNS, |_| ()).unwrap();
        let plain = |name| mean(&all, Change::Nothing, name);
        // Idle CPUs that wait for a tick cost time, whatever the queues are.
        assert!(mean(&all, at_once, "plan9") < plain("plan9"));
        assert!(mean(&all, at_ticks, "mqs") > plain("mqs"));
        assert!(plain("mqs") < plain("plan9"));
        assert!(plain("stride") < plain("plan9"));
        assert!(mean(&all, without_pushes, "mqs") > plain("mqs"));
        for contestant in CONTESTANTS {
            let name = contestant.name;
            assert!(mean(&all, cold, name) > plain(name), "{name}");
            assert!(
                mean(&all, busy, name) > mean(&all, calm, name),
                "{name}: one run has the job"
            );
        }
        let names: Vec<String> = rows(&all).into_iter().map(|row| row.name).collect();
        for name in [
            "4 CPUs, plan9: sd",
            "4 CPUs, push = false, mqs: mean",
            "4 CPUs: sd of mqs, in parts of plan9's",
            "4 CPUs, background job of 1 s: sd of stride, in parts of plan9's",
        ] {
            assert!(
                names.iter().any(|of| of == name),
                "{name} is not in {names:?}"
            );
        }
        let again = measure(&[on_four(busy)], RUNS, |_| ()).unwrap();
        let first = find(&all, &on_four(busy), "mqs").unwrap();
        assert_eq!(
            find(&again, &on_four(busy), "mqs").unwrap().seconds,
            first.seconds
        );
    }

    /// The same processes, and other ticks, or the same ticks and other processes.
    #[test]
    fn chance_is_in_the_processes_and_the_ticks() {
        let simulator = Simulator::new().unwrap();
        let plain = CONTESTANTS[0].on(4);
        let boot = |boot| Setting {
            boot: Some(boot),
            ..plain
        };
        let seconds = |setting, run| simulator.seconds(&setting, run).unwrap();
        assert_eq!(seconds(plain, 0), seconds(boot(1), 0));
        assert_ne!(seconds(boot(1), 0), seconds(boot(2), 0));
        assert_ne!(seconds(boot(1), 0), seconds(boot(1), 1));
    }
}
