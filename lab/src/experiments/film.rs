//! Films: three players side by side (Waldspurger & Weihl 1994, 5.4), and one whose frames are due (Koster's Syncopation, 2000,
//! 4.7).
//!
//! An instruction takes 1 ns here, not 8. A player is judged by the frames that it shows, not, like a loop, by the CPU time that
//! it is charged; and the running thread is also charged for interrupts and for half of the switch. Per slice that is some ten
//! thousand instructions: at 8 ns each a tenth of a quantum, and more of the shorter slices of clients with few tickets. On real
//! CPUs it is a hundredth of a quantum or less.

use super::reservation::{best_effort, reserving};
use super::rows::{compared_row, lottery_row, stride_row};
use crate::experiment::{Bench, Experiment, Method, series};
use crate::plan::{Change, Client, Course, Plan, Scheduler, Step, When, Work};
use crate::play::{self, On, Played};
use crate::result::Row;
use crate::statistics::{QUANTUM_S, standard_errors};
use anyhow::{Context, Result};
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

/// 2^0 ns an instruction.
pub(super) const FAST: Option<u32> = Some(0);

pub const VIDEO: Experiment = Experiment {
    name: "video",
    about: "three players of one film as fast as they can, 3:2:1, then 3:1:2",
    source: "Lottery scheduling on Mach, 1994",
    method: Method::Plans {
        plans: video_plans,
        report: video,
    },
};

const PLAYERS: [&str; 3] = ["A", "B", "C"];
/// Tickets before and after, and the nice values nearest to them.
const TICKETS: [[u32; 3]; 2] = [[300, 200, 100], [300, 100, 200]];
const NICE: [[i32; 3]; 2] = [[0, 2, 5], [0, 5, 2]];
const HALF_S: f64 = 20.0;
/// Each player compared with the slowest: due, and published. Before the change without the display server's influence; after it
/// with that, as nothing else is reported.
const RATIOS: [[(usize, usize, f64, f64); 2]; 2] = [
    [(0, 2, 3.0, 3.06), (1, 2, 2.0, 2.04)],
    [(0, 1, 3.0, 1.92), (2, 1, 2.0, 1.53)],
];
const WHEN: [&str; 2] = ["before", "after"];

fn video_plans() -> [Vec<Plan>; 2] {
    [
        vec![
            players(Scheduler::Stride, FAST),
            players(Scheduler::Nice, FAST),
        ],
        vec![
            players(Scheduler::Lottery, FAST),
            players(Scheduler::Stride, None),
        ],
    ]
}

fn video(bench: &Bench, played: &Played) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (plan, course) in played {
        let half = |half: usize| {
            let at = |halves: usize| course.sample_at(HALF_S * halves as f64);
            (at(half), at(half + 1))
        };
        for (number, ratios) in RATIOS.iter().enumerate() {
            for ratio in ratios {
                rows.extend(ratio_rows(plan, course, WHEN[number], half(number), *ratio));
            }
        }
        rows.extend(takes_hold(plan, course));
    }
    let panels: Vec<Panel> = played.iter().map(frames_panel).collect();
    plot::write(&bench.out, VIDEO.name, |area| plot::panels(area, &panels))?;
    Ok(rows)
}

fn players(scheduler: Scheduler, shift: Option<u32>) -> Plan {
    let clients = (0..PLAYERS.len()).map(|i| Client {
        tickets: TICKETS[0][i],
        nice: NICE[0][i],
        ..Client::running(1, &["player", "--free"])
    });
    let changes = [1, 2].map(|client| Change {
        when: When::Seconds(HALF_S),
        client,
        tickets: TICKETS[1][client],
        nice: NICE[1][client],
    });
    let speed = if shift == FAST {
        ""
    } else {
        ", 8 ns an instruction"
    };
    Plan {
        name: format!("{}{speed}", scheduler.name()),
        scheduler,
        shift,
        clients: clients.collect(),
        changes: changes.to_vec(),
        warm_up_s: 1.0,
        seconds: 2.0 * HALF_S,
        every_s: 0.5,
        ..Plan::default()
    }
}

/// Ratios of frames, and of CPU time for comparison.
fn ratio_rows(
    plan: &Plan,
    course: &Course,
    when: &str,
    (from, to): (usize, usize),
    (a, b, due, published): (usize, usize, f64, f64),
) -> Vec<Row> {
    let what = format!("{}: {} to {} {when}", plan.name, PLAYERS[a], PLAYERS[b]);
    let frames = course.done(a, from, to) / course.done(b, from, to);
    let used = [a, b].map(|client| course.used_s(client, from, to));
    let name = format!("{what}, frames");
    let row = match plan.scheduler {
        _ if plan.shift != FAST => compared_row(name, frames, due),
        Scheduler::Stride => stride_row(name, frames, due, Some(published)),
        Scheduler::Lottery => {
            let seconds = used.iter().sum();
            let part = frames / (frames + 1.0);
            let error = standard_errors(part, due / (due + 1.0), seconds);
            lottery_row(name, frames, format!("{due}:1"), error, Some(published))
        }
        _ => compared_row(name, frames, due),
    };
    let of_time = compared_row(format!("{what}, CPU time"), used[0] / used[1], due);
    vec![row, of_time]
}

/// In the first second after the change the rates are the new ones, but for a frame, since only whole frames count.
fn takes_hold(plan: &Plan, course: &Course) -> Vec<Row> {
    let (from, to) = (course.sample_at(HALF_S), course.sample_at(HALF_S + 1.0));
    let frames = |player: usize| course.done(player, from, to);
    let all: f64 = (0..PLAYERS.len()).map(frames).sum();
    let tickets = TICKETS[1];
    let row = |player: usize| {
        let due = all * f64::from(tickets[player]) / f64::from(tickets.iter().sum::<u32>());
        let name = format!(
            "{}: {}'s frames in the first second after the change",
            plan.name, PLAYERS[player]
        );
        let measured = frames(player);
        if plan.scheduler != Scheduler::Stride || plan.shift != FAST {
            return compared_row(name, measured, due);
        }
        Row {
            name,
            measured,
            published: None,
            bar: format!("within 1 % and one frame of {due:.1}"),
            pass: Some((measured - due).abs() <= due * 0.01 + 1.0),
        }
    };
    (0..PLAYERS.len()).map(row).collect()
}

fn frames_panel((plan, course): &(Plan, Course)) -> Panel {
    let curve = |player: usize| {
        let thousands = |i: usize| course.done(player, 0, i) / 1e3;
        let points = (0..=course.last()).map(|i| (course.at_s(i), thousands(i)));
        Curve::line(PLAYERS[player], points.collect())
    };
    Panel {
        title: plan.name.clone(),
        x: "seconds".to_owned(),
        y: "thousand frames".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: (0..PLAYERS.len()).map(curve).collect(),
    }
}

pub const PLAYER: Experiment = Experiment {
    name: "player",
    about: "a film of 30 frames/s among 0 to 4 hogs, and with 50 to 20 % reserved: frames/s, lateness of each frame",
    source: "Syncopation, 2000",
    method: Method::Own(player),
};

const FPS: f64 = 30.0;
/// So that the film needs nearly half of this CPU; its most costly frame, too, needs less than half of its period.
const PASSES: &str = "17";
const PLAYED_S: f64 = 12.0;
const PERIOD_NS: u64 = 33_333_333;
/// For the hog that reserves the rest.
const HOGS_PERIOD_NS: u64 = 10_000_000;
const RESERVABLE: u32 = 75;

#[derive(Clone, Copy, PartialEq)]
enum Case {
    /// So many hogs of the same user.
    Hogs(usize),
    /// Four hogs of another user.
    Others,
    /// So many percent, beside a hog that reserves the rest, and four best-effort hogs.
    Reserved(u32),
}

/// Each with frames a second and the worst lateness in ms that were published.
const BEST_EFFORT: [(Case, f64, Option<f64>); 5] = [
    (Case::Hogs(0), 27.9, None),
    (Case::Hogs(1), 26.7, Some(16.0)),
    (Case::Hogs(2), 19.1, Some(66.0)),
    (Case::Hogs(3), 14.8, None),
    (Case::Hogs(4), 11.8, Some(116.0)),
];
const RESERVED: [(Case, f64, Option<f64>); 4] = [
    (Case::Reserved(50), 27.8, Some(7.0)),
    (Case::Reserved(40), 26.8, Some(7.0)),
    (Case::Reserved(30), 21.4, Some(26.0)),
    (Case::Reserved(20), 15.6, Some(60.0)),
];

/// The result of one case.
struct Shown {
    scheduler: Scheduler,
    case: Case,
    published: Option<(f64, Option<f64>)>,
    fps: f64,
    /// Lateness of each frame, after its due time.
    late_ms: Vec<f64>,
    /// Lateness of each frame, after one period from the frame before, as a player that does not catch up counts it.
    slip_ms: Vec<f64>,
    /// Part of one CPU.
    used: f64,
}

impl Case {
    /// The part of the CPU that is due to the player.
    fn share(self) -> f64 {
        match self {
            Case::Hogs(hogs) => 1.0 / (hogs + 1) as f64,
            Case::Others => 0.5,
            Case::Reserved(percent) => f64::from(percent) / 100.0,
        }
    }

    fn name(self) -> String {
        match self {
            Case::Hogs(hogs) => format!("{hogs} hogs"),
            Case::Others => "4 hogs of another user".to_owned(),
            Case::Reserved(percent) => format!("{percent} % reserved"),
        }
    }

    fn clients(self) -> Vec<Client> {
        let playing = Client::reporting(1, &["player", "--passes", PASSES], "--lateness");
        let hogs = |user: u32, hogs: usize| (0..hogs).map(move |_| best_effort(user));
        match self {
            Case::Hogs(count) => [playing].into_iter().chain(hogs(1, count)).collect(),
            Case::Others => [playing].into_iter().chain(hogs(2, 4)).collect(),
            Case::Reserved(percent) => {
                let rest = best_effort(1);
                let held = [
                    reserving(playing, percent, PERIOD_NS),
                    reserving(rest, RESERVABLE - percent, HOGS_PERIOD_NS),
                ];
                held.into_iter().chain(hogs(2, 4)).collect()
            }
        }
    }

    fn plan(self, scheduler: Scheduler) -> Plan {
        Plan {
            name: format!("{} {}", scheduler.name(), self.name()),
            scheduler,
            shift: FAST,
            clients: self.clients(),
            warm_up_s: 1.0,
            seconds: PLAYED_S,
            every_s: 1.0,
            ..Plan::default()
        }
    }
}

type Published = Option<(f64, Option<f64>)>;

fn player(bench: &Bench) -> Result<Vec<Row>> {
    let of = |scheduler: Scheduler, cases: &[(Case, f64, Option<f64>)]| {
        let published =
            |(case, fps, late): &(Case, f64, Option<f64>)| (scheduler, *case, Some((*fps, *late)));
        cases.iter().map(published).collect::<Vec<_>>()
    };
    let stride: Vec<(Scheduler, Case, Published)> = [
        of(Scheduler::Stride, &BEST_EFFORT),
        vec![(Scheduler::Stride, Case::Others, None)],
        of(Scheduler::Stride, &RESERVED),
    ]
    .concat();
    let others = [
        of(Scheduler::Lottery, &RESERVED[..1]),
        of(Scheduler::Nice, &BEST_EFFORT),
        of(Scheduler::Deadline, &RESERVED),
    ]
    .concat();
    let plans = |cases: &[(Scheduler, Case, Published)]| -> Vec<Plan> {
        cases
            .iter()
            .map(|(scheduler, case, _)| case.plan(*scheduler))
            .collect()
    };
    let mut played = play::play(On::Kernel, [plans(&stride), plans(&others)])?;
    let shown: Vec<Shown> = [stride, others]
        .concat()
        .iter()
        .zip(&played)
        .map(|((scheduler, case, published), (_, course))| {
            shown(*scheduler, *case, *published, course)
        })
        .collect::<Result<_>>()?;
    let need = shown[0].used;
    let mut rows = vec![compared_row(
        "needed of the CPU, alone".to_owned(),
        need,
        0.5,
    )];
    rows.extend(shown.iter().flat_map(|one| one.rows(need)));
    let historic = play::play(On::Simulation, [on_linux24(need), Vec::new()])?;
    rows.extend(historic.iter().zip(&BEST_EFFORT).map(historic_fps));
    draw_player(bench, &shown, &historic)?;
    played.extend(historic);
    bench.write("series.csv", &series(&played))?;
    Ok(rows)
}

/// The film among hogs on Linux 2.4, if it needs this part of the CPU. The published kernel was 2.2. As the published player,
/// this one does not try to catch up.
fn on_linux24(need: f64) -> Vec<Plan> {
    let run_ns = (need * PERIOD_NS as f64).round() as u64;
    let plan = |(case, _, _): &(Case, f64, Option<f64>)| {
        let mut plan = case.plan(Scheduler::Linux24);
        plan.clients[0].work = Work::Steps(vec![Step::Run(run_ns), Step::Timer(PERIOD_NS)]);
        plan
    };
    BEST_EFFORT.iter().map(plan).collect()
}

fn fps_of(course: &Course) -> f64 {
    course.done(0, 0, course.last()) / course.at_s(course.last())
}

fn historic_fps(((plan, course), of): (&(Plan, Course), &(Case, f64, Option<f64>))) -> Row {
    let (case, published, _) = of;
    let need = course.used_s(0, 0, course.last()) / course.done(0, 0, course.last()) * FPS;
    let due = FPS * (case.share() / need).min(1.0);
    let name = format!("{}, frames/s", plan.name);
    Row {
        published: Some(*published),
        ..compared_row(name, fps_of(course), due)
    }
}

fn shown(scheduler: Scheduler, case: Case, published: Published, course: &Course) -> Result<Shown> {
    let end = course.ends.iter().find(|end| end.client == 0);
    let end = end.context("the player reported no frames")?;
    // Only frames shown by the last sample: afterwards the hogs end, and the player catches up.
    let frames = course.samples[course.last()].units[0] as usize;
    let late_us = end.numbers.iter().take(frames);
    let late_ms: Vec<f64> = late_us.map(|&us| us as f64 / 1e3).collect();
    let before = [0.0].into_iter().chain(late_ms.iter().copied());
    let slip_ms = late_ms
        .iter()
        .zip(before)
        .map(|(late, before)| (late - before).max(0.0))
        .collect();
    let seconds = course.at_s(course.last());
    Ok(Shown {
        scheduler,
        case,
        published,
        fps: fps_of(course),
        late_ms,
        slip_ms,
        used: course.used_s(0, 0, course.last()) / seconds,
    })
}

fn worst(of: &[f64]) -> f64 {
    of.iter().copied().fold(0.0, f64::max)
}

impl Shown {
    fn rows(&self, need: f64) -> Vec<Row> {
        let name = |what: &str| format!("{}: {}, {what}", self.scheduler.name(), self.case.name());
        let stride = self.scheduler == Scheduler::Stride;
        let (due, published) = (FPS * (self.case.share() / need).min(1.0), self.published);
        let fps = Row {
            published: published.map(|(fps, _)| fps),
            ..match stride && self.case.share() >= need {
                true => Row {
                    name: name("frames/s"),
                    measured: self.fps,
                    published: None,
                    bar: format!("every frame: {FPS}, but for one at either end"),
                    pass: Some(self.fps >= FPS - 1.0 / PLAYED_S),
                },
                false => compared_row(name("frames/s"), self.fps, due),
            }
        };
        let slip = Row {
            published: published.and_then(|(_, late)| late),
            ..compared_row(
                name("worst lateness after the frame before, ms"),
                worst(&self.slip_ms),
                0.0,
            )
        };
        let late = name("worst lateness, ms");
        let reserved = matches!(self.case, Case::Reserved(_));
        let late = match stride && reserved && self.case.share() >= need {
            true => Row {
                name: late,
                measured: worst(&self.late_ms),
                published: None,
                bar: "at most one quantum, 1 ms".to_owned(),
                pass: Some(worst(&self.late_ms) <= QUANTUM_S * 1e3),
            },
            false => compared_row(late, worst(&self.late_ms), 0.0),
        };
        vec![fps, late, slip]
    }
}

fn draw_player(bench: &Bench, shown: &[Shown], historic: &Played) -> Result<()> {
    let reserved = |percent| (Scheduler::Stride, Case::Reserved(percent));
    let among_hogs = [
        (Scheduler::Nice, Case::Hogs(4)),
        (Scheduler::Stride, Case::Hogs(4)),
        reserved(50),
    ];
    let mut best_effort = Panel {
        legend: SeriesLabelPosition::LowerLeft,
        ..rates_panel(
            shown,
            "best effort",
            "hogs",
            ("kernel's own", Scheduler::Nice),
        )
    };
    let historic = historic.iter().enumerate();
    let historic = historic.map(|(hogs, (_, course))| (hogs as f64, fps_of(course)));
    let historic = Curve::dots(Scheduler::Linux24.name(), historic.collect());
    best_effort.curves.push(historic);
    let panels = [
        best_effort,
        rates_panel(
            shown,
            "reserved",
            "% reserved",
            ("SCHED_DEADLINE", Scheduler::Deadline),
        ),
        lateness_panel(shown, "among 4 hogs", &among_hogs),
        lateness_panel(shown, "with stride", &[20, 30, 40, 50].map(reserved)),
    ];
    plot::write(&bench.out, PLAYER.name, |area| plot::panels(area, &panels))
}

/// Frames a second over hogs or percent reserved, as `x` says.
fn rates_panel(shown: &[Shown], title: &str, x: &str, (name, other): (&str, Scheduler)) -> Panel {
    let place = |case: Case| match (x, case) {
        ("hogs", Case::Hogs(hogs)) => Some(hogs as f64),
        ("% reserved", Case::Reserved(percent)) => Some(f64::from(percent)),
        _ => None,
    };
    let points = |scheduler: Scheduler, y: fn(&Shown) -> Option<f64>| {
        let of = shown.iter().filter(|one| one.scheduler == scheduler);
        of.filter_map(|one| Some((place(one.case)?, y(one)?)))
            .collect()
    };
    let measured = |one: &Shown| Some(one.fps);
    let published = |one: &Shown| Some(one.published?.0);
    Panel {
        title: title.to_owned(),
        x: x.to_owned(),
        y: "frames/s".to_owned(),
        legend: SeriesLabelPosition::UpperLeft,
        curves: vec![
            Curve::line("stride", points(Scheduler::Stride, measured)),
            Curve::dots(name, points(other, measured)),
            Curve::dots("published", points(Scheduler::Stride, published)),
        ],
    }
}

fn lateness_panel(shown: &[Shown], title: &str, cases: &[(Scheduler, Case)]) -> Panel {
    let curve = |wanted: &(Scheduler, Case)| {
        let mut of = shown.iter();
        let one = of.find(|one| (one.scheduler, one.case) == *wanted)?;
        let points = one.slip_ms.iter().enumerate();
        let points = points.map(|(frame, ms)| (frame as f64, *ms));
        let scheduler = one.scheduler.policy().unwrap_or("kernel's own");
        let name = format!("{scheduler}, {}", one.case.name());
        Some(Curve::line(&name, points.collect()))
    };
    Panel {
        title: title.to_owned(),
        x: "frame".to_owned(),
        y: "ms late, after the frame before".to_owned(),
        legend: SeriesLabelPosition::UpperRight,
        curves: cases.iter().filter_map(curve).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs what make has built: make test"]
    fn linux_2_4_shows_all_frames_alone_and_few_among_hogs() {
        let played = play::play(On::Simulation, [on_linux24(0.478), Vec::new()]).unwrap();
        let fps: Vec<f64> = played.iter().map(|(_, course)| fps_of(course)).collect();
        assert!((fps[0] - FPS).abs() <= 1.0 / PLAYED_S, "{fps:?}");
        assert!(fps.is_sorted_by(|more, fewer| more > fewer), "{fps:?}");
        // Five equal tasks.
        let due = FPS * Case::Hogs(4).share() / 0.478;
        assert!(fps[4] > 0.75 * due && fps[4] < due, "{fps:?}");
        let row = historic_fps((&played[4], &BEST_EFFORT[4]));
        assert_eq!((row.measured, row.published), (fps[4], Some(11.8)));
    }
}
