//! A film's player, and how late it shows each frame.
//!
//! ```text
//!            start                 due(0)                due(1)
//!     time ────┼─────────────────────┼─────────────────────┼──>
//!              decode 0 ─ sleep ────>│ decode 1 ──────────>┼──> late: this far
//!                                  show 0                       show 1, decode 2 at once
//! ```
//!
//! A frame is decoded when the one before has been shown, so it has one period; a frame that takes longer is late.
//! No frame is left out: a late player decodes without pause until it has caught up, if ever.

mod film;

use anyhow::Result;
use clap::Parser;
use film::Film;
use std::path::PathBuf;
use std::time::Duration;
use tombola_apps::{Numbers, Progress, is_stopped, monotonic, sleep_until, stop_on_request};

/// Decode a film, frame by frame, and print how many frames a second were shown and how late
///
/// The film (Motion JPEG, 128x96, 90 frames) is repeated and not displayed: only decoding it costs CPU time. Frame k, from 0,
/// is due (k + 1) / fps seconds after the start; it is shown then, or as soon as it is decoded if that is later. Its lateness
/// is the difference, in microseconds, 0 if it is in time. A late player leaves no frame out. The result is printed at the
/// end, which is after --frames, or when SIGTERM or SIGINT comes.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Frames per second, from 1 to 1000
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1000))]
    fps: u64,
    /// Exit after this many frames; 0: never
    #[arg(long, default_value_t = 0)]
    frames: u64,
    /// No frame is due: show as many as can be decoded
    #[arg(long, conflicts_with_all = ["fps", "lateness"])]
    free: bool,
    /// Decode each frame so many times, from 1 to 10000, to choose how much CPU time a frame needs
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    passes: u32,
    /// At the end, write the lateness of each frame to this file: a line each, in microseconds
    #[arg(long)]
    lateness: Option<PathBuf>,
    /// While it runs, keep the number of frames shown in this file: 8 bytes, little endian
    #[arg(long)]
    progress: Option<PathBuf>,
}

/// What was shown, and how late.
#[derive(Default)]
struct Shown {
    frames: u64,
    late_max: Duration,
    late_us: Vec<u128>,
}

/// The product fits for 19 years at 30 frames a second. The division comes last, so due times do not drift.
fn due(start: Duration, frame: u64, fps: u64) -> Duration {
    start + Duration::from_nanos((frame + 1) * 1_000_000_000 / fps)
}

fn late(decoded: Duration, due: Duration) -> Duration {
    decoded.saturating_sub(due)
}

fn decode(film: &Film, frame: u64, passes: u32) -> Result<()> {
    for _ in 0..passes {
        std::hint::black_box(film.decode(frame)?);
    }
    Ok(())
}

fn play(args: &Args, film: &Film, progress: &Progress, start: Duration) -> Result<Shown> {
    let mut shown = Shown::default();
    while !is_stopped() && (args.frames == 0 || shown.frames < args.frames) {
        decode(film, shown.frames, args.passes)?;
        if !args.free {
            await_due(args, due(start, shown.frames, args.fps), &mut shown);
        }
        shown.frames += 1;
        progress.set(shown.frames);
    }
    Ok(shown)
}

fn await_due(args: &Args, due: Duration, shown: &mut Shown) {
    let late = late(monotonic(), due);
    shown.late_max = shown.late_max.max(late);
    if args.lateness.is_some() {
        shown.late_us.push(late.as_micros());
    }
    if late.is_zero() {
        sleep_until(due);
    }
}

fn main() -> Result<()> {
    stop_on_request();
    let args = Args::parse();
    let lateness = args.lateness.as_deref().map(Numbers::create).transpose()?;
    let progress = Progress::new(args.progress.as_deref())?;
    let film = Film::new();
    let start = monotonic();
    let shown = play(&args, &film, &progress, start)?;
    let seconds = (monotonic() - start).as_secs_f64();
    let (frames, rate) = (shown.frames, shown.frames as f64 / seconds);
    print!("{frames} frames in {seconds:.6} s: {rate:.3} frames/s");
    match args.free {
        true => println!(),
        false => println!(
            ", at worst {:.3} ms late",
            shown.late_max.as_secs_f64() * 1e3
        ),
    }
    lateness.map_or(Ok(()), |file| file.write(shown.late_us.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use film::pictures::{FRAMES, HEIGHT, WIDTH};

    const START: Duration = Duration::from_secs(5);

    #[test]
    fn early_is_in_time_and_late_is_the_difference() {
        let due = Duration::from_micros(700);
        assert_eq!(late(Duration::from_micros(300), due), Duration::ZERO);
        assert_eq!(late(due, due), Duration::ZERO);
        assert_eq!(late(Duration::from_micros(750), due).as_micros(), 50);
    }

    #[test]
    fn the_first_frame_has_a_period_too() {
        assert_eq!(due(START, 0, 25), START + Duration::from_millis(40));
    }

    #[test]
    fn due_times_do_not_drift() {
        for fps in [1, 24, 30, 1000] {
            let hour = due(START, 3600 * fps - 1, fps);
            assert_eq!(hour, START + Duration::from_secs(3600), "{fps}");
        }
    }

    #[test]
    fn the_help_describes_this_film() {
        let help = Args::command().render_long_help().to_string();
        assert!(help.contains(&format!("{WIDTH}x{HEIGHT}, {FRAMES} frames")));
    }
}
