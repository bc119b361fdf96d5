//! The demonstration: three users with 3:2:1 base tickets and two programs each, on a real kernel with two CPUs; under
//! stride, with other tickets while they run, and under lottery.

use crate::plot::{self, Area, COLOURS};
use crate::result::{self, Row};
use crate::vm::cli::tombola_image;
use crate::vm::{Machine, Mode, Progress};
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use plotters::prelude::*;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const USERS: [&str; 3] = ["alice", "bob", "carol"];
const CPUS: u32 = 2;
const SCRIPT: &str = include_str!("demo.sh");
/// The bar in stride mode: a share is within this of what the tickets give.
const STRIDE_ERROR_MAX: f64 = 0.01;
/// The bar in lottery mode, in standard errors of the binomial.
const LOTTERY_ERRORS_MAX: f64 = 3.0;
const QUANTUM_S: f64 = 0.001;

/// Three users with 3:2:1 tickets on a real kernel, in a virtual machine
#[derive(Args)]
pub struct DemoArgs {
    /// Where to write result.json, series.csv, shares.svg and shares.png
    #[arg(long, default_value = "out/demo")]
    out: PathBuf,
}

/// One phase: a policy and the users' tickets.
#[derive(Clone, Debug)]
struct Phase {
    policy: String,
    tickets: [u32; 3],
    samples: Vec<Sample>,
}

/// CPU time of each user since the programs began, in seconds, at a time in seconds.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at_s: f64,
    used_s: [f64; 3],
}

impl DemoArgs {
    /// Exit status 0 if every share was met, 1 if not.
    pub fn run(&self) -> Result<u8> {
        let phases = measure()?;
        fs::create_dir_all(&self.out)
            .with_context(|| format!("cannot make {}", self.out.display()))?;
        let rows: Vec<Row> = phases.iter().flat_map(rows).collect();
        result::write(&self.out, &rows)?;
        fs::write(self.out.join("series.csv"), series(&phases))?;
        plot::write(&self.out, "shares", |area| draw(area, &phases))?;
        phases.iter().for_each(print);
        println!(
            "\nwritten to {}: shares.png, shares.svg, result.json, series.csv",
            self.out.display()
        );
        Ok(u8::from(!result::passed(&rows)))
    }
}

fn measure() -> Result<Vec<Phase>> {
    let machine = Machine {
        cpus: CPUS,
        mode: Mode::Kvm,
        timeout: Duration::from_secs(300),
        ..Machine::default()
    };
    eprintln!("demo: booting a kernel with sched_ext on {CPUS} virtual CPUs");
    let outcome = machine.shell(&tombola_image()?, SCRIPT, |progress| match progress {
        Progress::Boot { number, how } => eprintln!("demo: boot {number}, {how}"),
        Progress::Line(line) if line.starts_with("sample ") => {}
        Progress::Line(line) => eprintln!("demo: {line}"),
    })?;
    let mut phases = Vec::new();
    for line in outcome.success()?.lines() {
        take(line, &mut phases)?;
    }
    if phases.is_empty() {
        bail!("the machine measured nothing: its script printed no phase");
    }
    Ok(phases)
}

/// One line of the guest's script: `phase POLICY A B C`, `sample UPTIME_S NS_A NS_B NS_C`, or a remark, which is only
/// shown.
fn take(line: &str, phases: &mut Vec<Phase>) -> Result<()> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["phase", policy, a, b, c] => {
            phases.push(Phase {
                policy: policy.to_string(),
                tickets: [a.parse()?, b.parse()?, c.parse()?],
                samples: Vec::new(),
            });
        }
        ["sample", at, a, b, c] => {
            let phase = phases
                .last_mut()
                .context("a sample came before any phase")?;
            let seconds = |ns: &str| ns.parse::<f64>().map(|ns| ns / 1e9);
            phase.samples.push(Sample {
                at_s: at.parse()?,
                used_s: [seconds(a)?, seconds(b)?, seconds(c)?],
            });
        }
        _ => {}
    }
    Ok(())
}

impl Phase {
    fn used_s(&self, user: usize) -> f64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => last.used_s[user] - first.used_s[user],
            _ => 0.0,
        }
    }

    fn total_s(&self) -> f64 {
        (0..USERS.len()).map(|user| self.used_s(user)).sum()
    }

    fn measured(&self, user: usize) -> f64 {
        self.used_s(user) / self.total_s()
    }

    fn entitled(&self, user: usize) -> f64 {
        f64::from(self.tickets[user]) / f64::from(self.tickets.iter().sum::<u32>())
    }

    fn error(&self, user: usize) -> f64 {
        self.measured(user) / self.entitled(user) - 1.0
    }

    /// The largest error that the bar allows, as a part of the entitled share.
    fn error_max(&self, user: usize) -> f64 {
        if self.policy != "lottery" {
            return STRIDE_ERROR_MAX;
        }
        // The share of wins among n draws has the standard error sqrt(p (1 - p) / n).
        let draws = self.total_s() / QUANTUM_S;
        let share = self.entitled(user);
        LOTTERY_ERRORS_MAX * (share * (1.0 - share) / draws).sqrt() / share
    }
}

fn rows(phase: &Phase) -> Vec<Row> {
    let [a, b, c] = phase.tickets;
    let bar = |user| {
        format!(
            "{:.4}, to {:.2} % of it",
            phase.entitled(user),
            phase.error_max(user) * 100.0
        )
    };
    USERS
        .iter()
        .enumerate()
        .map(|(user, who)| Row {
            name: format!("share of {who}, {}, tickets {a}:{b}:{c}", phase.policy),
            measured: phase.measured(user),
            published: None,
            bar: bar(user),
            pass: Some(phase.error(user).abs() <= phase.error_max(user)),
        })
        .collect()
}

fn print(phase: &Phase) {
    println!("\n{}", phase.policy);
    println!(
        "{:<8}{:>8}{:>12}{:>12}{:>10}{:>12}",
        "who", "tickets", "entitled %", "measured %", "error %", "allowed %"
    );
    for (user, who) in USERS.iter().enumerate() {
        println!(
            "{who:<8}{:>8}{:>12.2}{:>12.2}{:>+10.2}{:>12.2}",
            phase.tickets[user],
            phase.entitled(user) * 100.0,
            phase.measured(user) * 100.0,
            phase.error(user) * 100.0,
            phase.error_max(user) * 100.0,
        );
    }
}

fn series(phases: &[Phase]) -> String {
    let mut text = String::from("policy,at_s,alice_s,bob_s,carol_s\n");
    for phase in phases {
        for Sample {
            at_s,
            used_s: [a, b, c],
        } in &phase.samples
        {
            text += &format!("{},{at_s:.2},{a:.6},{b:.6},{c:.6}\n", phase.policy);
        }
    }
    text
}

/// Consecutive samples of one policy form one course, whose time begins at 0.
fn courses(phases: &[Phase]) -> Vec<(String, Vec<Phase>)> {
    let mut courses: Vec<(String, Vec<Phase>)> = Vec::new();
    for phase in phases {
        match courses.last_mut() {
            Some((policy, course)) if *policy == phase.policy => course.push(phase.clone()),
            _ => courses.push((phase.policy.clone(), vec![phase.clone()])),
        }
    }
    courses
}

fn draw(area: &Area, phases: &[Phase]) -> Result<()> {
    let courses = courses(phases);
    for ((policy, course), panel) in courses.iter().zip(area.split_evenly((1, courses.len()))) {
        draw_course(&panel, policy, course)?;
    }
    Ok(())
}

fn draw_course(area: &Area, policy: &str, course: &[Phase]) -> Result<()> {
    let failed = |error: DrawingAreaErrorKind<_>| anyhow!("cannot draw: {error}");
    let samples: Vec<Sample> = course
        .iter()
        .flat_map(|phase| phase.samples.clone())
        .collect();
    let (first, last) = (
        *samples.first().context("nothing was sampled")?,
        *samples.last().context("nothing was sampled")?,
    );
    let top = (0..USERS.len())
        .map(|user| last.used_s[user] - first.used_s[user])
        .fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(policy, ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(42)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..(last.at_s - first.at_s) * 1.22, 0.0..top * 1.06)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("seconds")
        .y_desc("CPU seconds received")
        .label_style(("sans-serif", 14))
        .draw()
        .map_err(failed)?;
    for (user, who) in USERS.iter().enumerate() {
        let colour = COLOURS[user];
        let points = samples
            .iter()
            .map(|s| (s.at_s - first.at_s, s.used_s[user] - first.used_s[user]));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(3)))
            .map_err(failed)?;
        for phase in course {
            chart
                .draw_series(DashedLineSeries::new(
                    due(phase, user, &first),
                    4,
                    5,
                    BLACK.stroke_width(1),
                ))
                .map_err(failed)?;
        }
        let end = (
            last.at_s - first.at_s,
            last.used_s[user] - first.used_s[user],
        );
        chart
            .draw_series([Text::new(
                format!(" {who}"),
                end,
                ("sans-serif", 15).into_font().color(&colour),
            )])
            .map_err(failed)?;
    }
    Ok(())
}

/// From where a phase began, what the tickets give.
fn due(phase: &Phase, user: usize, origin: &Sample) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (phase.samples.first(), phase.samples.last()) else {
        return Vec::new();
    };
    let start = first.used_s[user] - origin.used_s[user];
    vec![
        (first.at_s - origin.at_s, start),
        (
            last.at_s - origin.at_s,
            start + phase.entitled(user) * phase.total_s(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(policy: &str, used_s: [f64; 3]) -> Phase {
        let mut phases = Vec::new();
        take(&format!("phase {policy} 3000 2000 1000"), &mut phases).unwrap();
        take("sample 10.00 0 0 0", &mut phases).unwrap();
        let [a, b, c] = used_s.map(|s| (s * 1e9) as u64);
        take(&format!("sample 16.00 {a} {b} {c}"), &mut phases).unwrap();
        phases.remove(0)
    }

    #[test]
    fn shares_that_the_tickets_give_pass() {
        assert!(result::passed(&rows(&phase("stride", [6.0, 4.0, 2.0]))));
    }

    #[test]
    fn a_stride_share_that_is_two_per_cent_off_fails() {
        let rows = rows(&phase("stride", [6.12, 3.94, 1.94]));
        assert_eq!(rows[0].pass, Some(false), "{:?}", rows[0]);
    }

    #[test]
    fn a_lottery_may_be_three_standard_errors_off_and_no_more() {
        // 12 s are 12000 draws: for p = 1/2 one standard error is 0.00456, that is 0.91 % of the share.
        let lucky = rows(&phase("lottery", [6.0 * 1.026, 4.0, 2.0 - 0.156]));
        assert_eq!(lucky[0].pass, Some(true), "{:?}", lucky[0]);
        let cheated = rows(&phase("lottery", [6.0 * 1.03, 3.9, 1.92]));
        assert_eq!(cheated[0].pass, Some(false), "{:?}", cheated[0]);
    }

    #[test]
    fn a_course_joins_phases_of_one_policy() {
        let phases = [
            phase("stride", [1.0; 3]),
            phase("stride", [1.0; 3]),
            phase("lottery", [1.0; 3]),
        ];
        let lengths: Vec<usize> = courses(&phases)
            .iter()
            .map(|(_, course)| course.len())
            .collect();
        assert_eq!(lengths, [2, 1]);
    }
}
