//! An experiment: what runs, what is measured, what was published, and the bars that our figures must meet.

use crate::plan::{Course, Plan};
use crate::play::{self, On, Played};
use crate::result::{self, Row};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

pub struct Experiment {
    pub name: &'static str,
    pub about: &'static str,
    /// The document that reports it.
    pub source: &'static str,
    pub method: Method,
}

pub enum Method {
    Plans {
        /// What runs, in two batches, which two machines play at the same time.
        plans: fn() -> [Vec<Plan>; 2],
        /// What is said of the courses of those plans that the machine could play; it draws the pictures, too.
        report: fn(&Bench, &Played) -> Result<Vec<Row>>,
    },
    /// It measures a real kernel or real programs by itself.
    Own(fn(&Bench) -> Result<Vec<Row>>),
    /// It calls `tombola simulate` by itself, and needs no other machine.
    Simulation(fn(&Bench) -> Result<Vec<Row>>),
}

/// Where an experiment writes.
pub struct Bench {
    pub out: PathBuf,
}

impl Experiment {
    /// Why it has only one machine to run on; `None`: it can run on a real kernel, and be simulated as well.
    #[must_use]
    pub fn obstacle(&self) -> Option<&'static str> {
        match self.method {
            Method::Own(_) => Some("it measures real programs, or what a real kernel does"),
            Method::Simulation(_) => Some("it always runs on the simulated machine"),
            Method::Plans { plans, .. } => {
                let all = plans().concat();
                let ours = all.iter().filter(|plan| plan.scheduler.policy().is_some());
                ours.filter_map(play::obstacle).next()
            }
        }
    }

    /// Exit status 0 if all bars were met, 1 if not.
    pub fn carry_out(&self, on: On, out: PathBuf) -> Result<u8> {
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let bench = Bench { out };
        eprintln!("{}: {} ({})", self.name, self.about, self.source);
        let rows = match self.method {
            Method::Own(run) | Method::Simulation(run) => run(&bench)?,
            Method::Plans { plans, report } => {
                let played = play::play(on, plans())?;
                bench.write("series.csv", &series(&played))?;
                report(&bench, &played)?
            }
        };
        result::write(&bench.out, &rows)?;
        if on == On::Simulation {
            println!("on a simulated machine\n");
        }
        print!("{}", result::table(&rows));
        println!(
            "\nwritten to {}: result.json, series.csv, {}.svg and .png",
            bench.out.display(),
            self.name
        );
        Ok(u8::from(!result::passed(&rows)))
    }
}

impl Bench {
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.out.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// The raw series of plans and their courses.
#[must_use]
pub fn series(played: &[(Plan, Course)]) -> String {
    let mut text = String::from("plan,scheduler,seconds,client,used_ns,units\n");
    for (plan, course) in played {
        for (i, sample) in course.samples.iter().enumerate() {
            for (client, (used, units)) in sample.used_ns.iter().zip(&sample.units).enumerate() {
                let at_s = course.at_s(i);
                let scheduler = plan.scheduler.name();
                writeln!(
                    text,
                    "{},{scheduler},{at_s:.6},{client},{used},{units}",
                    plan.name
                )
                .expect("strings take all");
            }
        }
    }
    text
}
