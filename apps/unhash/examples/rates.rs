//! How many numbers a second does each kernel try, and `sha2::Sha256::digest` with a comparison?
//!
//! All take turns, [`ROUNDS`] times, so that what else the machine does meets all of them. The median is printed, and
//! its ratio to that of `Sha256::digest`. Time is the thread's CPU time.

use sha2::{Digest, Sha256};
use std::hint::black_box;
use unhash::kernel::{Kernel, Target};

const ROUNDS: usize = 15;
const TURN_S: f64 = 0.03;
/// Numbers between two looks at the clock.
const STEP: u64 = 1 << 16;

type Search = Box<dyn Fn(u64) -> Option<u64>>;

fn cpu_s() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills the structure and keeps no pointer to it.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(status, 0, "no clock of the thread's CPU time");
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// `Sha256::digest` and a comparison.
fn plain(digest: [u8; 32]) -> Search {
    Box::new(move |start| {
        (start..start + STEP)
            .find(|number| Sha256::digest(black_box(number).to_le_bytes()).as_slice() == digest)
    })
}

fn by(kernel: Kernel, target: Target) -> Search {
    Box::new(move |start| kernel.search(&target, start..start + STEP))
}

/// Numbers a second in one turn, from `next` on.
fn turn(search: &Search, next: &mut u64) -> f64 {
    let (first, start_s) = (*next, cpu_s());
    loop {
        assert_eq!(search(*next), None);
        *next += STEP;
        let used_s = cpu_s() - start_s;
        if used_s >= TURN_S {
            return (*next - first) as f64 / used_s;
        }
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn main() {
    // Of a number that is not reached.
    let digest: [u8; 32] = Sha256::digest(u64::MAX.to_le_bytes()).into();
    let mut searches = vec![("Sha256::digest", plain(digest))];
    for kernel in Kernel::ALL {
        if kernel.is_available() {
            searches.push((kernel.name(), by(kernel, Target::new(digest))));
        } else {
            println!("{kernel}: not available");
        }
    }
    let mut rates = vec![Vec::new(); searches.len()];
    let mut next = 1 << 40;
    for _ in 0..ROUNDS {
        for ((_, search), rates) in searches.iter().zip(&mut rates) {
            rates.push(turn(search, &mut next));
        }
    }
    let medians: Vec<f64> = rates.into_iter().map(median).collect();
    for ((name, _), rate) in searches.iter().zip(&medians) {
        println!(
            "{name:14} {:8.2} MH/s {:6.2}",
            rate / 1e6,
            rate / medians[0]
        );
    }
}
