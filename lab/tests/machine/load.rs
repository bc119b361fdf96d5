//! How far the scheduler is from what a kernel's verifier refuses: it walks no more than a million instructions of a program, and
//! counts an instruction again for each path whose state it can tell from those before.

/// A tenth of what is refused, with several run queues or with loans a sixth: another kernel may prune worse by a factor of two
/// or three, and some have.
const VERIFIED_MAX: u32 = 100_000;
const VERIFIED_MAX_WITH_MORE: u32 = 165_000;

/// Checks what `tombola start --verbose` has said of each program, as kernel.sh prints it.
#[track_caller]
pub fn little_is_verified(output: &str, options: &str) {
    let programs: Vec<(&str, u32)> = output
        .lines()
        .filter_map(|line| line.strip_prefix("VERIFIED "))
        .map(|line| line.split_once(' ').expect("a name and a number"))
        .map(|(name, count)| (name, count.trim().parse().expect("a number")))
        .collect();
    eprintln!("verified: {programs:?}");
    assert!(programs.len() > 10, "{output}");
    let largest = programs.iter().max_by_key(|(_, count)| count).unwrap();
    let most = match options.contains("--run-queue") || options.contains("--transfer") {
        true => VERIFIED_MAX_WITH_MORE,
        false => VERIFIED_MAX,
    };
    assert!(largest.1 <= most, "{largest:?}, allowed {most}");
}
