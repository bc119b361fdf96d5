//! Random economies against the oracle: does every client get what it is due?
//!
//! Stride: each client, leaf or currency, is within 1 % of what it is due in 20 s, or within 3 quanta. Lottery: what the
//! children of each currency got of it is a multinomial's, by a chi-square test of the whole economy.
//!
//! Not all of them do yet. Of the first two hundred economies of each mode as many may fail as failed when the mechanism was last
//! changed (`failures_max`): the test keeps what has been reached. With any other choice of economies none may fail.
//!
//!   cargo test --release -p tombola-sim --test economies -- --nocapture
//!
//! | environment | |
//! |---|---|
//! | TOMBOLA_ECONOMIES | how many of each mode; 200 take about a minute |
//! | TOMBOLA_ECONOMIES_FROM | the first seed: parts of a large run, or with TOMBOLA_ECONOMIES=1 one economy |
//! | TOMBOLA_ECONOMIES_MODE | static, masks, sleepers, changes, lottery or users only |
//! | TOMBOLA_ECONOMIES_TABLES | how many failing economies are printed in full |

#[path = "../../../core/tests/environment/mod.rs"]
mod environment;
mod machine;
mod mix;

use environment::from_environment;
use mix::{Mix, Mode, Outcome, SPAN_NS};
use std::fmt::Write;

const OFF_PART: f64 = 0.01;
const OFF_QUANTA: f64 = 3.0;
/// How often a run of the test may fail by chance alone: one in a hundred.
const FALSE_ALARMS: f64 = 0.01;
/// A client that is due fewer draws is not judged by a chi-square.
const DRAWS_MIN: f64 = 10.0;

struct Judged {
    mix: Mix,
    due: Vec<f64>,
    outcome: Outcome,
    /// How far off the worst client is, more than 1 being too far; and its index.
    off: f64,
    worst: usize,
}

fn judge(mode: Mode, seed: u64, economies: u64) -> Judged {
    let mix = Mix::random(mode, seed);
    let due = mix.due();
    let outcome = mix.run(seed);
    let (off, worst) = match mode {
        Mode::Lottery => (luck(&mix, &due, &outcome.got, economies), 0),
        _ => furthest(&mix, &due, &outcome.got),
    };
    Judged {
        mix,
        due,
        outcome,
        off,
        worst,
    }
}

fn allowed_ns(mix: &Mix, due: f64) -> f64 {
    (OFF_PART * due).max(OFF_QUANTA * mix.rules.quantum_ns as f64)
}

fn furthest(mix: &Mix, due: &[f64], got: &[f64]) -> (f64, usize) {
    let off = (0..due.len()).map(|i| ((got[i] - due[i]).abs() / allowed_ns(mix, due[i]), i));
    off.fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a })
}

/// The economy's chi-square as a normal deviate (Wilson and Hilferty), in parts of what one run in a hundred exceeds.
///
/// A quantum's draw picks among the children of a currency in proportion to what they are due, so their numbers of quanta are
/// a multinomial's. A client that has all it can use does not depend on luck: it adds its distance, but no degree of freedom.
fn luck(mix: &Mix, due: &[f64], got: &[f64], economies: u64) -> f64 {
    let quantum = mix.rules.quantum_ns as f64;
    let (mut chi_square, mut freedom) = (0.0, 0.0);
    for currency in (0..due.len()).filter(|&i| !mix.is_leaf[i] && due[i] > 0.0) {
        let children = (0..due.len()).filter(|&i| mix.clients[i].parent == Some(currency));
        let expected = |i: usize| due[i] * got[currency] / due[currency];
        let judged: Vec<usize> = children
            .filter(|&i| expected(i) > DRAWS_MIN * quantum)
            .collect();
        let open = judged.iter().filter(|&&i| !is_full(mix, due, i)).count();
        for &i in &judged {
            chi_square += (got[i] - expected(i)).powi(2) / (expected(i) * quantum);
        }
        freedom += open.saturating_sub(1) as f64;
    }
    if freedom == 0.0 {
        // No share depends on luck.
        return furthest(mix, due, got).0;
    }
    let spread = 2.0 / (9.0 * freedom);
    let normal = ((chi_square / freedom).cbrt() - (1.0 - spread)) / spread.sqrt();
    // P(a normal deviate > z) < exp(-z^2 / 2).
    let limit = (-2.0 * (FALSE_ALARMS / economies as f64).ln()).sqrt();
    normal / limit
}

/// Has a client a CPU for each of its leaves?
fn is_full(mix: &Mix, due: &[f64], i: usize) -> bool {
    let below = |mut leaf: usize| {
        while leaf > i {
            leaf = mix.clients[leaf].parent.unwrap_or(0);
        }
        leaf == i
    };
    let leaves = (0..due.len())
        .filter(|&leaf| mix.is_leaf[leaf] && below(leaf))
        .count();
    due[i] > 0.9999 * leaves as f64 * SPAN_NS as f64
}

/// Is every client due what its tickets say?
fn is_feasible(mix: &Mix, due: &[f64]) -> bool {
    let mut weight = vec![0.0; due.len()];
    for client in &mix.clients[1..] {
        weight[client.parent.unwrap()] += f64::from(client.tickets);
    }
    (1..due.len()).all(|i| {
        let parent = mix.clients[i].parent.unwrap();
        let plain = due[parent] * f64::from(mix.clients[i].tickets) / weight[parent];
        (plain - due[i]).abs() <= 1e-6 * SPAN_NS as f64
    })
}

fn command(mode: Mode, seed: u64) -> String {
    let mode = mode.name();
    format!(
        "TOMBOLA_ECONOMIES_MODE={mode} TOMBOLA_ECONOMIES_FROM={seed} TOMBOLA_ECONOMIES=1 \
         cargo test --release -p tombola-sim --test economies -- --nocapture"
    )
}

fn depth(mix: &Mix, i: usize) -> usize {
    mix.clients[i]
        .parent
        .map_or(0, |parent| 1 + depth(mix, parent))
}

fn table(mode: Mode, seed: u64, judged: &Judged) -> String {
    let Judged {
        mix,
        due,
        outcome,
        off,
        worst,
    } = judged;
    let ms = |ns: f64| ns / 1e6;
    let quantum_ms = ms(mix.rules.quantum_ns as f64);
    let mut text = format!(
        "{} {seed}: {} CPUs, quantum {quantum_ms} ms, {off:.2} times what is allowed (client {worst}), {} slices, \
         {} of them clamped\n  {}\n",
        mode.name(),
        mix.cpus,
        outcome.slices,
        outcome.clamped,
        command(mode, seed)
    );
    let _ = writeln!(
        text,
        "  {:<12} {:>6} {:>7} {:>16} {:>10} {:>10} {:>9}  (ms; lag is what is missing)",
        "node", "parent", "tickets", "mask", "due", "got", "lag"
    );
    for (i, client) in mix.clients.iter().enumerate() {
        let (lag, allowed) = (due[i] - outcome.got[i], allowed_ns(mix, due[i]));
        let mask = match (mix.is_leaf[i], client.mask) {
            (false, _) => "currency".to_string(),
            (true, u64::MAX) => "any".to_string(),
            (true, mask) => format!("{mask:x}"),
        };
        let _ = write!(
            text,
            "  {:<12} {:>6} {:>7} {mask:>16} {:>10.1} {:>10.1} {:>9.1}",
            format!("{}{i}", " ".repeat(depth(mix, i))),
            client.parent.map_or("-".into(), |p| p.to_string()),
            client.tickets,
            ms(due[i]),
            ms(outcome.got[i]),
            ms(lag)
        );
        if lag.abs() > allowed {
            let _ = write!(text, "  {:.1} x", lag.abs() / allowed);
        }
        if let Some(s) = mix.sleepers[i] {
            let (burst, period) = (ms(s.burst_ns as f64), ms(s.period_ns as f64));
            let _ = write!(text, "  {burst:.1} each {period:.1} ms");
        }
        text.push('\n');
    }
    for (time, i, change) in &mix.changes {
        let _ = writeln!(text, "  at {:.1} ms {i}: {change:x?}", ms(*time as f64));
    }
    text
}

/// How many economies of each mode the test runs by default.
const ECONOMIES: u64 = 200;

/// How many of those may fail, of each kind. To be lowered with each fault that is corrected. They were counted anew twice: when
/// the simulated machine began to prefer the idle CPU where a task ran last, as the kernel does, one more in one mode and one
/// fewer in two; and when a client that waits for any CPU ceased to be behind, 11 fewer in four modes, and one lottery more. (Of
/// the lotteries 200 to 799, 62 fail since, not 61.)
fn failures_max(mode: Mode) -> [usize; 3] {
    match mode {
        Mode::Static => [0, 0, 5],
        Mode::Masks => [0, 5, 66],
        Mode::Sleepers => [3, 0, 60],
        Mode::Changes => [0, 0, 23],
        Mode::Lottery => [0, 1, 17],
        Mode::Users => [0, 1, 18],
    }
}

/// The kinds of economies. On one CPU all tickets can be used.
const KINDS: [&str; 3] = ["on one CPU", "on several, feasible", "infeasible"];

#[derive(Default)]
struct Tally {
    /// Of each kind, the seeds of the economies that fail, and how many economies there are.
    kinds: [(Vec<u64>, u64); 3],
    clamped: u64,
    worst: (f64, u64),
}

impl Tally {
    fn count(&mut self, seed: u64, judged: &Judged) {
        let kind = match judged.mix.cpus {
            1 => 0,
            _ if is_feasible(&judged.mix, &judged.due) => 1,
            _ => 2,
        };
        self.kinds[kind].1 += 1;
        self.clamped += u64::from(judged.outcome.clamped > 0);
        if judged.off > 1.0 {
            self.kinds[kind].0.push(seed);
        }
        if judged.off > self.worst.0 {
            self.worst = (judged.off, seed);
        }
    }

    fn failed(&self) -> usize {
        self.kinds.iter().map(|(failed, _)| failed.len()).sum()
    }
}

fn check(mode: Mode, from: u64, economies: u64, tables: &mut u64) -> Tally {
    let mut tally = Tally::default();
    let start = std::time::Instant::now();
    for seed in from..from + economies {
        let judged = judge(mode, seed, economies);
        tally.count(seed, &judged);
        if judged.off > 1.0 && *tables > 0 {
            *tables -= 1;
            println!("{}", table(mode, seed, &judged));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let name = mode.name();
    let kinds = KINDS.iter().zip(&tally.kinds);
    let kinds = kinds.map(|(kind, (failed, of))| format!("{kind} {} of {of}", failed.len()));
    let kinds: Vec<String> = kinds.collect();
    println!(
        "{name}: {} of {economies} fail ({}); lag was clamped in {}; {:.1} a second",
        tally.failed(),
        kinds.join(", "),
        tally.clamped,
        economies as f64 / seconds
    );
    let (off, seed) = tally.worst;
    println!(
        "{name}: the worst is {off:.2} times what is allowed off: {}",
        command(mode, seed)
    );
    tally
}

#[test]
fn every_client_gets_what_it_is_due() {
    let economies = from_environment("TOMBOLA_ECONOMIES", ECONOMIES);
    let from = from_environment("TOMBOLA_ECONOMIES_FROM", 0);
    let only: String = from_environment("TOMBOLA_ECONOMIES_MODE", String::new());
    let mut tables = from_environment("TOMBOLA_ECONOMIES_TABLES", 1);
    let modes = Mode::ALL
        .into_iter()
        .filter(|m| only.is_empty() || only == m.name());
    let modes: Vec<Mode> = modes.collect();
    assert!(
        !modes.is_empty(),
        "TOMBOLA_ECONOMIES_MODE is {only}, which is no mode"
    );
    let mut failed = String::new();
    for mode in modes {
        let tally = check(mode, from, economies, &mut tables);
        let allowed = match (from, economies) {
            (0, ECONOMIES) => failures_max(mode),
            _ => [0; 3],
        };
        for ((kind, (seeds, _)), allowed) in KINDS.iter().zip(tally.kinds).zip(allowed) {
            if seeds.len() > allowed {
                let name = mode.name();
                let _ = writeln!(
                    failed,
                    "{name}, {kind}: {allowed} may fail, and {seeds:?} did"
                );
            }
        }
    }
    assert!(
        failed.is_empty(),
        "some clients did not get what they are due:\n{failed}"
    );
}
