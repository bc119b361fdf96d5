//! What the programs of the experiments share: work that is measured in CPU time, clocks, fork, a lock, a count that other
//! processes read, and an end at a signal.

mod fork;
mod mutex;
mod numbers;
mod progress;
mod shared;
mod stop;

pub use fork::fork;
pub use mutex::Mutex;
pub use numbers::{Numbers, Times};
pub use progress::Progress;
pub use stop::{is_stopped, stop_on_request};

use std::time::Duration;

/// CPU time that the calling process (all of its threads) has used.
#[must_use]
pub fn process_cpu_time() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time that the calling thread has used.
#[must_use]
pub fn thread_cpu_time() -> Duration {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The clock that the kernel's ticks are counted on.
#[must_use]
pub fn monotonic() -> Duration {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime writes one timespec, and `now` is one.
    let failed = unsafe { libc::clock_gettime(id, &raw mut now) };
    assert_eq!(failed, 0, "these clocks exist on every Linux");
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Sleep until a time of the clock [`monotonic`], or until a signal comes.
pub fn sleep_until(time: Duration) {
    let until = libc::timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    };
    let (clock, absolute) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
    // SAFETY: it reads one timespec; null means that the remaining time is not wanted.
    let failed =
        unsafe { libc::clock_nanosleep(clock, absolute, &raw const until, std::ptr::null_mut()) };
    assert!(
        [0, libc::EINTR].contains(&failed),
        "the time is one of this clock's"
    );
}

/// One unit of work: arithmetic that the compiler can neither omit nor compute in advance.
pub fn work_unit(seed: u64) -> u64 {
    (0..20_000u64).fold(seed, |sum, i| {
        std::hint::black_box(sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i))
    })
}

/// Work until the calling thread has used `duration` of CPU time more.
pub fn work_for(duration: Duration) {
    let end = thread_cpu_time() + duration;
    let mut sum = 1;
    while thread_cpu_time() < end {
        sum = work_unit(sum);
    }
    std::hint::black_box(sum);
}
