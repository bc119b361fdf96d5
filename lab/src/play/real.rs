//! Plays plans on a real kernel, in virtual machines of one CPU.

use crate::plan::{Course, DISK_MIB, Line, PLANS_FILE, Plan, Work};
use crate::vm::{Machine, Mode, Progress, tombola_image};
use anyhow::{Context, Result, bail};
use std::cell::Cell;
use std::thread;
use std::time::Duration;

/// Each batch in a boot of its own and at most two at a time; returns the courses in the order of the plans.
pub fn play(batches: [&[Plan]; 2]) -> Result<Vec<Course>> {
    let (first, second) = thread::scope(|scope| {
        let second = scope.spawn(|| play_batch(batches[1]));
        (
            play_batch(batches[0]),
            second.join().expect("playing does not panic"),
        )
    });
    Ok([first?, second?].concat())
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
