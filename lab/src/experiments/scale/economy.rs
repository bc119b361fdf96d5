//! A random economy, as a plan for `tombola simulate`.

use std::fmt::Write as _;

/// Busy tasks for each CPU, and for each user.
const TASKS_A_CPU: usize = 4;
const TASKS_A_USER: usize = 3;
/// Those of most and of fewest tickets differ by this factor.
const BASE_TICKETS: [f64; 2] = [100.0, 10_000.0];
const TICKETS: [f64; 2] = [1.0, 100.0];
pub const CPUS_A_CACHE: usize = 8;

/// Four busy tasks for each CPU, in users for a third as many. Base tickets and tickets are 1:100, small ones as often as large
/// ones.
pub fn plan(cpus: usize, seed: u64, seconds: u64) -> String {
    let mut chance = fastrand::Rng::with_seed(seed);
    let tasks = TASKS_A_CPU * cpus;
    let users = tasks / TASKS_A_USER;
    let mut plan = format!(
        "duration = '{seconds}s'\nseed = {seed}\n[machine]\ncpus = {cpus}\ncpus-per-cache = {}\n[users]\n",
        CPUS_A_CACHE.min(cpus)
    );
    for user in 0..users {
        let tickets = log_uniform(&mut chance, BASE_TICKETS);
        writeln!(plan, "u{user} = {tickets}").expect("strings take all");
    }
    for task in 0..tasks {
        let user = chance.usize(0..users);
        let tickets = log_uniform(&mut chance, TICKETS);
        writeln!(
            plan,
            "[[tasks]]\nname = 't{task}'\nuser = 'u{user}'\ntickets = {tickets}"
        )
        .expect("strings take all");
    }
    plan
}

fn log_uniform(chance: &mut fastrand::Rng, [least, most]: [f64; 2]) -> u32 {
    (least * (most / least).powf(chance.f64())).round() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides() {
        assert_eq!(plan(16, 1, 10), plan(16, 1, 10));
        assert_ne!(plan(16, 1, 10), plan(16, 2, 10));
        assert_eq!(plan(16, 1, 10).matches("[[tasks]]").count(), 64);
    }

    #[test]
    fn small_tickets_are_as_frequent_as_large_ones() {
        let mut chance = fastrand::Rng::with_seed(1);
        let drawn: Vec<u32> = (0..1000)
            .map(|_| log_uniform(&mut chance, TICKETS))
            .collect();
        assert!(drawn.iter().all(|tickets| (1..=100).contains(tickets)));
        let small = drawn.iter().filter(|&&tickets| tickets <= 10).count();
        assert!((450..=600).contains(&small), "{small}");
    }
}
