//! The demonstration: three users with 3:2:1 base tickets and two programs each, on a real kernel with two CPUs; under
//! stride, with other tickets while they run, and under lottery.

mod phase;
mod picture;

use crate::result::{self, Row};
use anyhow::{Context, Result};
use clap::Args;
use phase::{Phase, Sample, USERS, measure};
use picture::draw;
use std::fs;
use std::path::PathBuf;
use tombola_plot as plot;

/// Three users with 3:2:1 tickets on a real kernel, in a virtual machine
#[derive(Args)]
pub struct DemoArgs {
    /// Where to write result.json, series.csv, shares.svg and shares.png
    #[arg(long, default_value = "out/demo")]
    out: PathBuf,
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
        .map(|(user, name)| Row {
            name: format!("share of {name}, {}, tickets {a}:{b}:{c}", phase.policy),
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
        "user", "tickets", "entitled %", "measured %", "error %", "allowed %"
    );
    for (user, name) in USERS.iter().enumerate() {
        println!(
            "{name:<8}{:>8}{:>12.2}{:>12.2}{:>+10.2}{:>12.2}",
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::phase::tests::phase;

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
}
