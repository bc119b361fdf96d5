//! What the pool itself costs: `cargo run --release -p tombola-pool --example cost`
//!
//! Measures a choice (one pick and one settlement) among waiting jobs, in each order; and the pool's part of all CPU time, with
//! chunks of a millisecond. It measures CPU time, so that other programs disturb little.

use std::ops::ControlFlow::Continue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tombola_pool::queue::{Currency, Request, RunQueue};
use tombola_pool::{Job, Order, Pool, Width};

const QUANTUM_NS: u64 = 1_000_000;
const JOBS: [u64; 4] = [100, 1_000, 10_000, 100_000];
const CHOICES: u64 = 200_000;
/// The shortest of so many rounds counts: a disturbance only makes a round longer.
const ROUNDS: usize = 5;
const CHUNKS: u64 = 4_000;

fn main() {
    println!("ns for a choice among so many jobs");
    print!("{:10}", "");
    JOBS.iter().for_each(|jobs| print!("{jobs:>10}"));
    println!();
    for order in Order::ALL {
        print!("{:10}", order.name());
        for jobs in JOBS {
            print!("{:>10.0}", choice_ns(order, jobs));
        }
        println!();
    }
    println!("% of the CPU time for the pool, in chunks of 1 ms");
    for order in Order::ALL {
        println!("{:10}{:>10.3}", order.name(), overhead_percent(order));
    }
}

fn choice_ns(order: Order, jobs: u64) -> f64 {
    let mut queue = RunQueue::new(order, Width::All, QUANTUM_NS, 1);
    for n in 0..jobs {
        let request = Request {
            units: (1 << 40) + n % 1000,
            chunk: 1000,
            tickets: (n % 16) as u32 + 1,
            currency: Currency::BASE,
        };
        queue.submit(&request).expect("there is room");
    }
    let round = |queue: &mut RunQueue| {
        let began_ns = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        for _ in 0..CHOICES {
            let chunk = queue.pick().expect("much is left");
            queue.settle(&chunk, QUANTUM_NS, false);
        }
        (cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID) - began_ns) as f64 / CHOICES as f64
    };
    (0..ROUNDS)
        .map(|_| round(&mut queue))
        .fold(f64::MAX, f64::min)
}

fn overhead_percent(order: Order) -> f64 {
    let began_ns = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    let pool = Pool::builder().order(order).build().expect("threads");
    let inside_ns = Arc::new(AtomicU64::new(0));
    for _ in 0..4 {
        let inside_ns = inside_ns.clone();
        let job = Job::new(CHUNKS / 4, move |_, _| {
            let began_ns = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            let mut now_ns = began_ns;
            while now_ns < began_ns + QUANTUM_NS {
                now_ns = cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
            }
            inside_ns.fetch_add(now_ns - began_ns, Ordering::Relaxed);
            Continue::<()>(())
        });
        pool.submit(&job.chunk(1), |_| ()).expect("it is open");
    }
    pool.close();
    let all_ns = cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - began_ns;
    100.0 * (1.0 - inside_ns.load(Ordering::Relaxed) as f64 / all_ns as f64)
}

fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut used = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time lives through the call, and the clocks are there on every Linux.
    unsafe { libc::clock_gettime(clock, &raw mut used) };
    used.tv_sec.cast_unsigned() * 1_000_000_000 + used.tv_nsec.cast_unsigned()
}
