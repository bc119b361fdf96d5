//! A program that needs the CPU less and less: it integrates by random trials, and sets its own tickets in proportion to the
//! square of its relative error (Waldspurger and Weihl, "Lottery Scheduling", 1994, section 5.2). Of several that were started
//! one after another, the newest gets the most, until its error has come down to that of the others.
//!
//! The integral is the area of a quarter circle, π/4: a trial is a point of the unit square, and a fraction p of them is
//! inside. After n trials the variance of p is p (1 - p) / n, so the square of its relative error is
//!
//! ```text
//!     p (1 - p) / n / p²  =  (1 - p) / (p n)     about 0.273 / n
//! ```

use anyhow::{Result, anyhow};
use clap::Parser;
use std::path::PathBuf;
use std::process::exit;
use tombola_apps::{Progress, is_stopped, stop_on_request};
use tombola_kernel::abi::{TICKETS_MAX, TICKETS_MIN};
use tombola_kernel::calls::Client;

/// Integrate by random trials, and set one's own tickets in proportion to the square of the relative error
///
/// Prints the area of a quarter circle, its relative error as estimated from the trials (one standard deviation), the number
/// of trials, and the tickets held at the end, which is after --trials, or when SIGTERM or SIGINT comes.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Exit after this many trials; 0: never
    #[arg(long, default_value_t = 0)]
    trials: u64,
    /// The same seed gives the same trials
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Trials between two settings of the tickets, at least 1
    // 21 instructions each. The virtual machine, at 8 ns an instruction, does 6 million a second: 300 settings of a few
    // microseconds each.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Tickets (from 1 to 10000) are so many times the square of the relative error; above 0
    // By 0.273 / n: 10000 tickets up to 273,000 trials, 1 ticket from 2.7 billion on. In the virtual machine that is after 46
    // ms and after 7 minutes, and in between are tens to thousands of tickets, so rounding matters little.
    #[arg(long, default_value_t = 1e10, value_parser = scale)]
    scale: f64,
    /// Set no tickets, for comparison; works without Tombola
    #[arg(long)]
    no_tickets: bool,
    /// While it runs, keep the number of trials in this file: 8 bytes, little endian
    #[arg(long)]
    progress: Option<PathBuf>,
}

fn scale(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(scale) if f64::is_finite(scale) && scale > 0.0 => Ok(scale),
        _ => Err("it is a number above 0, such as 1e10".to_owned()),
    }
}

/// Pseudo-random numbers are the same in every run (Steele, Lea and Flood's SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

struct Integral {
    random: Random,
    trials: u64,
    inside: u64,
}

impl Integral {
    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            trials: 0,
            inside: 0,
        }
    }

    fn go_on(&mut self, trials: u64) {
        self.inside += (0..trials)
            .filter(|_| is_inside(self.random.next()))
            .count() as u64;
        self.trials += trials;
    }

    /// Counts one more trial inside and one outside: so it is never 0 or 1, whose error would be infinite or 0.
    fn area(&self) -> f64 {
        (self.inside + 1) as f64 / (self.trials + 2) as f64
    }

    /// The square of the relative error; infinite before the first trial.
    fn error_squared(&self) -> f64 {
        let area = self.area();
        (1.0 - area) / (area * self.trials as f64)
    }
}

/// Coordinates are the two halves of the number, in units of 2^-32. A point is inside if the sum of their squares is less than 1,
/// that is 2^64: if it does not overflow.
fn is_inside(point: u64) -> bool {
    let (x, y) = (point >> 32, point & u64::from(u32::MAX));
    (x * x).checked_add(y * y).is_some()
}

fn tickets(scale: f64, error_squared: f64) -> u32 {
    let wanted = (scale * error_squared).round();
    wanted.clamp(TICKETS_MIN.into(), TICKETS_MAX.into()) as u32
}

/// The connection to the scheduler; none with --no-tickets.
fn connect(args: &Args) -> Result<Option<Client>> {
    if args.no_tickets {
        return Ok(None);
    }
    let client = Client::open().map_err(|error| anyhow!("{error}; or use --no-tickets"))?;
    Ok(Some(client))
}

fn integrate(args: &Args, client: Option<&Client>) -> Result<Integral> {
    let progress = Progress::new(args.progress.as_deref())?;
    let mut integral = Integral::new(args.seed);
    let end = if args.trials == 0 {
        u64::MAX
    } else {
        args.trials
    };
    while !is_stopped() && integral.trials < end {
        if let Some(client) = client {
            let wanted = tickets(args.scale, integral.error_squared());
            client.set_tickets(std::process::id(), wanted)?;
        }
        integral.go_on(args.every.min(end - integral.trials));
        progress.set(integral.trials);
    }
    Ok(integral)
}

fn run(args: &Args) -> Result<()> {
    let client = connect(args)?;
    let integral = integrate(args, client.as_ref())?;
    let (area, trials) = (integral.area(), integral.trials);
    let error = integral.error_squared().sqrt();
    print!("area {area:.9}, relative error {error:.3e}, {trials} trials");
    match client {
        Some(client) => println!(", {} tickets", client.tickets(std::process::id())?),
        None => println!(),
    }
    Ok(())
}

fn main() {
    stop_on_request();
    if let Err(error) = run(&Args::parse()) {
        eprintln!("monte-carlo: {error:#}");
        exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::FRAC_PI_4;

    fn after(seed: u64, trials: u64) -> Integral {
        let mut integral = Integral::new(seed);
        integral.go_on(trials);
        integral
    }

    #[test]
    fn the_error_squared_falls_as_one_by_the_trials() {
        let by_formula = (1.0 - FRAC_PI_4) / FRAC_PI_4;
        for trials in [1_000_000, 4_000_000] {
            let ratio = after(1, trials).error_squared() * trials as f64 / by_formula;
            assert!((ratio - 1.0).abs() < 0.01, "{trials}: {ratio}");
        }
    }

    #[test]
    fn no_trials_and_few_are_no_special_case() {
        assert_eq!(Integral::new(1).error_squared(), f64::INFINITY);
        let all_inside = Integral {
            inside: 3,
            ..after(1, 3)
        };
        assert!(all_inside.error_squared() > 0.0);
    }

    #[test]
    fn tickets_are_in_proportion_and_in_range() {
        assert_eq!(tickets(1e10, f64::INFINITY), TICKETS_MAX);
        assert_eq!(tickets(1e10, 1e-5), TICKETS_MAX);
        assert_eq!(tickets(1e10, 1e-7), 1000);
        assert_eq!(tickets(1e10, 1e-8), 100);
        assert_eq!(tickets(1e10, 1e-12), TICKETS_MIN);
    }

    #[test]
    fn the_estimate_converges() {
        let mut integral = Integral::new(7);
        for trials in [1_000, 99_000, 9_900_000] {
            integral.go_on(trials);
            let off = (integral.area() / FRAC_PI_4 - 1.0).abs();
            let error = integral.error_squared().sqrt();
            assert!(
                off < 3.0 * error,
                "{}: off by {off}, {error}",
                integral.trials
            );
        }
        assert!((integral.area() - FRAC_PI_4).abs() < 0.001);
    }

    #[test]
    fn the_same_seed_is_the_same_run() {
        assert_eq!(after(3, 1000).inside, after(3, 1000).inside);
        assert_ne!(after(3, 100_000).inside, after(4, 100_000).inside);
    }

    #[test]
    fn the_corners_are_inside_and_outside() {
        assert!(is_inside(0));
        assert!(!is_inside(u64::MAX));
    }
}
