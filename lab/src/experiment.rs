//! An experiment: what runs, what is measured, what was published, and the bars that our figures must meet.

use crate::plan::{Course, DISK_MIB, Line, PLANS_FILE, Plan, Work};
use crate::result::{self, Row};
use crate::vm::{Machine, Mode, Progress, tombola_image};
use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

pub struct Experiment {
    pub name: &'static str,
    pub about: &'static str,
    /// The document that reports it.
    pub source: &'static str,
    pub run: fn(&Bench) -> Result<Vec<Row>>,
}

/// Plans, and the course of each.
pub type Played = Vec<(Plan, Course)>;

/// Where an experiment runs and writes.
pub struct Bench {
    pub out: PathBuf,
}

impl Experiment {
    /// Exit status 0 if all bars were met, 1 if not.
    pub fn carry_out(&self, out: PathBuf) -> Result<u8> {
        fs::create_dir_all(&out).with_context(|| format!("cannot make {}", out.display()))?;
        let bench = Bench { out };
        eprintln!("{}: {} ({})", self.name, self.about, self.source);
        let rows = (self.run)(&bench)?;
        result::write(&bench.out, &rows)?;
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
    /// Plays the plans on a machine of one CPU, each batch in a boot of its own and at most two at a time; returns the
    /// courses in the order of the plans.
    pub fn play(&self, batches: [&[Plan]; 2]) -> Result<[Vec<Course>; 2]> {
        let (first, second) = thread::scope(|scope| {
            let second = scope.spawn(|| play_batch(batches[1]));
            (
                play_batch(batches[0]),
                second.join().expect("playing does not panic"),
            )
        });
        Ok([first?, second?])
    }

    /// Plays the plans and writes their series.
    pub fn record(&self, batches: [&[Plan]; 2]) -> Result<Played> {
        let courses = self.play(batches)?.into_iter().flatten();
        let played: Played = batches.concat().into_iter().zip(courses).collect();
        let (plans, courses): (Vec<_>, Vec<_>) =
            played.iter().map(|(plan, course)| (plan, course)).unzip();
        self.write("series.csv", &series(&plans, &courses))?;
        Ok(played)
    }

    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.out.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// So many processes fit easily into the usual memory.
const CLIENTS_USUAL: usize = 200;
const MEMORY_MIB: u32 = 1024;

fn play_batch(plans: &[Plan]) -> Result<Vec<Course>> {
    let boots = plans.chunk_by(|a, b| a.shift == b.shift);
    let courses: Vec<Vec<Course>> = boots.map(play_boot).collect::<Result<_>>()?;
    Ok(courses.concat())
}

fn play_boot(plans: &[Plan]) -> Result<Vec<Course>> {
    let shift = plans[0].shift.unwrap_or(Mode::SHIFT_DEFAULT);
    // At the usual speed of its CPU, four seconds or more pass in a busy guest for each second of the host; loading the
    // scheduler takes over a minute. The host may be busy, too.
    let seconds: f64 = plans.iter().map(|plan| plan.seconds + plan.warm_up_s).sum();
    let slower = f64::from(1 << Mode::SHIFT_DEFAULT.saturating_sub(shift));
    let clients = || plans.iter().flat_map(|plan| &plan.clients);
    let disk = clients().any(|client| matches!(client.work, Work::Disk));
    let crowded = plans.iter().any(|plan| plan.clients.len() > CLIENTS_USUAL);
    let machine = Machine {
        cpus: 1,
        memory_mib: if crowded { 2 * MEMORY_MIB } else { MEMORY_MIB },
        disk_mib: if disk { DISK_MIB } else { 0 },
        mode: Mode::Measured { shift, seed: 0 },
        timeout: Duration::from_secs_f64(900.0 + 2.0 * seconds * slower),
        ..Machine::default()
    };
    let mut image = tombola_image()?;
    image.file(PLANS_FILE, serde_json::to_string(plans)?, 0o644);
    let begun = Cell::new(0);
    let outcome = machine.run(&image, &["lab-driver"], |progress| {
        if let Progress::Line(line) = progress
            && let Ok(Line::Began(name)) = serde_json::from_str(line)
        {
            begun.update(|count| count + 1);
            eprintln!("  {}/{} {name}", begun.get(), plans.len());
        }
    })?;
    let trouble = outcome.kernel_trouble().join("\n");
    let output = outcome.success()?;
    if !trouble.is_empty() {
        bail!("the kernel complained during the experiment:\n{trouble}");
    }
    let mut courses = Vec::new();
    for line in output.lines() {
        take(line, &mut courses)?;
    }
    Ok(courses)
}

fn take(line: &str, courses: &mut Vec<Course>) -> Result<()> {
    let line = serde_json::from_str(line).with_context(|| format!("the guest said: {line}"))?;
    match (line, courses.last_mut()) {
        (Line::Began(_), _) => courses.push(Course::default()),
        (Line::Sample(sample), Some(course)) => course.samples.push(sample),
        (Line::Draw(draw), Some(course)) => course.draws.push(draw),
        (Line::End(end), Some(course)) => course.ends.push(end),
        (Line::Answer(answer), Some(course)) => course.answer = Some(answer),
        _ => bail!("the guest began with a sample"),
    }
    Ok(())
}

/// The raw series of plans and their courses.
pub fn series(plans: &[&Plan], courses: &[&Course]) -> String {
    let mut text = String::from("plan,scheduler,seconds,client,used_ns,units\n");
    for (plan, course) in plans.iter().zip(courses) {
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
