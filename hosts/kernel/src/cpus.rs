//! The CPUs of the machine, and which of them share a run queue.

use crate::error::{Error, Result};
use std::fs;

/// CPUs that are online now, at least 1. An offline CPU does not count in shares.
pub fn online_cpus() -> u32 {
    // SAFETY: the call takes no pointer.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    u32::try_from(cpus).unwrap_or(1).max(1)
}

/// Run queues of which the scheduler has the state (NR_QUEUES in bpf/state.h).
pub const QUEUES_MAX: usize = 64;

/// Up to so many CPUs `RunQueue::Auto` is one queue, whose shares are most exact. With more, its lock would be waited for.
const ONE_QUEUE_CPUS_MAX: usize = 16;

/// The level of the cache by which CPUs are grouped. CPUs with a smaller one only are not near one another by it.
const LAST_LEVEL: &str = "3";

/// Which CPUs share a run queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunQueue {
    /// One queue; or one for each last-level cache, if there are more CPUs than share one well (`ONE_QUEUE_CPUS_MAX`), and the
    /// machine has several such caches, but not too many.
    #[default]
    Auto,
    /// All CPUs.
    Machine,
    /// Those of a last-level cache.
    Llc,
    /// None: each CPU has a queue of its own.
    Cpu,
}

/// The CPUs of each run queue, on a machine that may have so many CPUs.
pub(crate) fn run_queues(wanted: RunQueue, cpus: usize) -> Result<Vec<Vec<usize>>> {
    let all = || vec![(0..cpus).collect()];
    let queues = match wanted {
        RunQueue::Machine => all(),
        RunQueue::Cpu => (0..cpus).map(|cpu| vec![cpu]).collect(),
        RunQueue::Auto if cpus <= ONE_QUEUE_CPUS_MAX => all(),
        RunQueue::Auto => by_cache(cpus, cache_of)
            .filter(|queues| queues.len() <= QUEUES_MAX)
            .unwrap_or_else(all),
        RunQueue::Llc => by_cache(cpus, cache_of).ok_or(Error::NoCaches)?,
    };
    if queues.len() > QUEUES_MAX {
        return Err(Error::TooManyQueues {
            queues: queues.len() as u64,
            max: QUEUES_MAX as u64,
        });
    }
    Ok(queues)
}

/// CPUs that share a cache are together, in ascending order of their first CPU. CPUs of which none is known are with the first
/// ones. `None`: no cache is known.
fn by_cache(cpus: usize, cache_of: impl Fn(usize) -> Option<String>) -> Option<Vec<Vec<usize>>> {
    let mut caches: Vec<(String, Vec<usize>)> = Vec::new();
    let mut unknown = Vec::new();
    for cpu in 0..cpus {
        let Some(cache) = cache_of(cpu) else {
            unknown.push(cpu);
            continue;
        };
        match caches.iter_mut().find(|(of, _)| *of == cache) {
            Some((_, members)) => members.push(cpu),
            None => caches.push((cache, vec![cpu])),
        }
    }
    caches.first_mut()?.1.extend(unknown);
    Some(caches.into_iter().map(|(_, members)| members).collect())
}

/// A name of a CPU's last-level cache: the list of the CPUs that share it.
fn cache_of(cpu: usize) -> Option<String> {
    let of_cpu = format!("/sys/devices/system/cpu/cpu{cpu}/cache");
    let level = |index: &usize| fs::read_to_string(format!("{of_cpu}/index{index}/level"));
    let index = (0..8).find(|index| level(index).is_ok_and(|level| level.trim() == LAST_LEVEL))?;
    fs::read_to_string(format!("{of_cpu}/index{index}/shared_cpu_list")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_of_a_cache_share_a_queue() {
        let cache = |cpu| match cpu {
            0 | 2 => Some("0,2".into()),
            1 | 3 => Some("1,3".into()),
            _ => None,
        };
        assert_eq!(by_cache(5, cache), Some(vec![vec![0, 2, 4], vec![1, 3]]));
        assert_eq!(by_cache(4, |_| None), None);
    }

    #[test]
    fn there_are_no_more_queues_than_the_scheduler_has() {
        assert!(run_queues(RunQueue::Cpu, QUEUES_MAX).is_ok());
        assert!(run_queues(RunQueue::Cpu, QUEUES_MAX + 1).is_err());
        assert_eq!(
            run_queues(RunQueue::Auto, ONE_QUEUE_CPUS_MAX)
                .map(|queues| queues.len())
                .ok(),
            Some(1)
        );
        assert_eq!(
            run_queues(RunQueue::Machine, 3).ok(),
            Some(vec![vec![0, 1, 2]])
        );
    }
}
