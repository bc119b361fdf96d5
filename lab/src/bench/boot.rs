//! Measuring programs run one after the other under one scheduler, in a machine; several machines at once in counted time.

use super::figures::HOST_SECONDS;
use super::scheduler::Scheduler;
use crate::explain::explain;
use crate::vm::{Image, Kernel, Machine, Mode, Outcome, Progress};
use crate::workspace::source_root;
use anyhow::{Context, Result};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct Boot {
    pub scheduler: &'static Scheduler,
    pub kernel: Kernel,
    pub cpus: u32,
    /// Last-level caches, among which the CPUs are divided evenly.
    pub caches: u32,
    pub memory_mib: u32,
    pub mode: Mode,
    /// Adds to what each command but the first prints how long it took by the host's clock (`figures::host_s`).
    pub timed: bool,
    /// Adds what the commands need to the guest.
    pub tools: fn(&mut Image) -> Result<()>,
    /// Lines of shell, run under the kernel's own scheduler before the one to measure starts.
    pub before: Vec<String>,
    /// Lines of shell.
    pub commands: Vec<String>,
}

/// What a command printed; `None` if the scheduler was ejected before it ended. Commands before the start come first.
pub type Printed = Option<String>;

/// In host time; for a slow host that is busy with other things, too.
const TIMEOUT: Duration = Duration::from_secs(3600);
/// A machine in counted time takes a whole CPU of the host. One in real time has the host to itself.
const MACHINES_AT_ONCE: usize = 2;
/// The kernel's monitor of memory accesses (DAMON) samples at a varying rate, and would be taken for scheduling.
const QUIET: &str = "echo N >/sys/module/damon_stat/parameters/enabled\n";
const MARK: &str = "END";

/// The directory with the programs of this workspace.
pub fn own_programs() -> Result<PathBuf> {
    Ok(source_root()?.join("target/release"))
}

/// The programs of this workspace that measure from within the guest.
pub fn probes(image: &mut Image) -> Result<()> {
    for name in ["share-sampler", "cost-probe"] {
        image.program(&own_programs()?.join(name))?;
    }
    Ok(())
}

/// For each boot, what its commands printed. `programs` is the directory of Tombola's programs.
pub fn run_all(boots: &[Boot], programs: &Path) -> Result<Vec<Vec<Printed>>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(boots.iter().map(|_| None).collect::<Vec<_>>());
    let in_real_time = boots.iter().any(|boot| boot.mode == Mode::Parallel);
    let at_once = if in_real_time { 1 } else { MACHINES_AT_ONCE };
    std::thread::scope(|scope| {
        for _ in 0..at_once.min(boots.len()) {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed))
                    && let Some(boot) = boots.get(number)
                {
                    let result = boot.run(programs);
                    if result.is_err() {
                        next.store(boots.len(), Ordering::Relaxed); // start no more
                    }
                    results.lock().expect("no thread panics")[number] = Some(result);
                }
            });
        }
    });
    let results = results.into_inner().expect("no thread panics");
    let (failed, done): (Vec<_>, Vec<_>) = results
        .into_iter()
        .flatten()
        .partition(|result| result.is_err());
    failed.into_iter().chain(done).collect()
}

impl Boot {
    pub fn run(&self, programs: &Path) -> Result<Vec<Printed>> {
        let machine = Machine {
            cpus: self.cpus,
            caches: self.caches,
            memory_mib: self.memory_mib,
            kernel: self.kernel,
            mode: self.mode,
            timeout: TIMEOUT,
            ..Machine::default()
        };
        let what = self.to_string();
        let ends = RefCell::new(Vec::new());
        let outcome = machine
            .shell(&self.image(programs)?, &self.script(), |progress| {
                if let Progress::Line(line) = progress
                    && line.starts_with(MARK)
                {
                    ends.borrow_mut().push(Instant::now());
                }
            })
            .with_context(|| what.clone())?;
        eprintln!("{what}: {:.0} s", outcome.host_seconds);
        let mut printed = self.take(outcome).with_context(|| what)?;
        if self.timed {
            add_seconds(&mut printed, &ends.into_inner());
        }
        Ok(printed)
    }

    /// Only what is needed, so that figures do not change with what else is in the workspace.
    fn image(&self, programs: &Path) -> Result<Image> {
        let mut image = Image::base()?;
        (self.tools)(&mut image)?;
        self.scheduler.add_to(&mut image, programs)?;
        Ok(image)
    }

    fn script(&self) -> String {
        let functions = r#"
state() { cat /sys/kernel/sched_ext/state; }
started() {
    until [ "$(state)" = enabled ] && grep -q "^$1" /sys/kernel/sched_ext/root/ops; do
        kill -0 $! || { cat /tmp/log; exit 1; }
        sleep 0.1
    done
    sleep 2
}
"#;
        let measured = |commands: &[String]| -> String {
            commands
                .iter()
                .map(|command| format!("{command} || exit 1\necho {MARK} $(state)\n"))
                .collect()
        };
        let start = self.scheduler.start();
        let (before, after) = (measured(&self.before), measured(&self.commands));
        format!("{functions}{QUIET}{before}{start}\n{after}")
    }

    fn take(&self, outcome: Outcome) -> Result<Vec<Printed>> {
        let trouble = outcome.kernel_trouble().join("\n");
        let output = outcome.success()?;
        let printed = self.split(&output);
        if printed.len() != self.before.len() + self.commands.len() {
            return Err(explain(
                &format!("the guest printed {} results", printed.len()),
                "its script and this program do not fit together",
                &format!("the output: {output}"),
            ));
        }
        if printed.contains(&None) {
            eprintln!("{self}: ejected by the kernel\n{trouble}");
        }
        Ok(printed)
    }

    fn split(&self, output: &str) -> Vec<Printed> {
        let mut printed = Vec::new();
        let mut lines = String::new();
        for line in output.lines() {
            match line.strip_prefix(MARK) {
                Some(state) => {
                    let before = printed.len() < self.before.len();
                    let alive = before || state.trim() == self.scheduler.state();
                    printed.push(alive.then(|| std::mem::take(&mut lines)));
                    lines.clear();
                }
                None => lines += &format!("{line}\n"),
            }
        }
        printed
    }
}

/// In real time, the guest's clock can be wrong by a factor if the host was busy when the guest calibrated it.
fn add_seconds(printed: &mut [Printed], ends: &[Instant]) {
    for (text, times) in printed.iter_mut().skip(1).zip(ends.windows(2)) {
        if let Some(text) = text {
            let seconds = (times[1] - times[0]).as_secs_f64();
            *text += &format!("{HOST_SECONDS} {seconds:.3}\n");
        }
    }
}

impl std::fmt::Display for Boot {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let kernel = format!("{:?}", self.kernel).to_lowercase();
        let time = match self.mode {
            Mode::Measured { seed, .. } => format!("seed {seed}"),
            Mode::Parallel | Mode::Kvm => "real time".into(),
        };
        write!(
            f,
            "{}, {} CPUs, kernel {kernel}, {time}, {} measurements",
            self.scheduler.name,
            self.cpus,
            self.commands.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::scheduler::FLASH;
    use super::*;

    #[test]
    fn commands_after_the_first_have_their_time() {
        let start = Instant::now();
        let ends = [0, 1500, 4000].map(|ms| start + Duration::from_millis(ms));
        let mut printed = [Some("a\n".into()), None, Some("c\n".into())];
        add_seconds(&mut printed, &ends);
        let expected = [
            Some("a\n".into()),
            None,
            Some("c\nhost seconds: 2.500\n".into()),
        ];
        assert_eq!(printed, expected);
        assert_eq!(
            super::super::figures::host_s(printed[2].as_ref().unwrap()),
            Some(2.5)
        );
    }

    #[test]
    fn what_an_ejected_scheduler_printed_does_not_count() {
        let boot = Boot {
            scheduler: FLASH,
            kernel: Kernel::Peers,
            cpus: 4,
            caches: 1,
            memory_mib: 1024,
            mode: Mode::measured(),
            timed: false,
            tools: probes,
            before: vec!["true".into()],
            commands: vec!["true".into(); 2],
        };
        let printed =
            boot.split("zero\nEND disabled\none\ntwo\nEND enabled\nthree\nEND disabled\n");
        let expected = [Some("zero\n".into()), Some("one\ntwo\n".into()), None];
        assert_eq!(printed, expected);
    }
}
