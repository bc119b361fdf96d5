//! Starting QEMU, and following it to its end.

use super::image::{Image, find_program};
use super::log::{last_lines, read_lossy, telling_part};
use super::machine::{Kernel, Machine, Mode, Outcome, Progress};
use crate::cpu;
use crate::explain::explain;
use crate::workspace::build_dir;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const RUN: &str = include_str!("run.sh");
/// With parallel virtual CPUs the emulation sometimes fails when the kernel patches itself: once in some twenty boots, and when a
/// scheduler is loaded or unloaded. If the guest never reached the command, or its log shows what only a fault of the emulation
/// explains (`emulation_tripped`), the boot says nothing about the command, and is repeated.
const BOOTS_MAX: u32 = 3;
/// A breakpoint of the kernel's own patching that was gone when it was met.
const LOST_BREAKPOINT: &str = "Oops: int3";
/// Bits 22 to 31 of an x86 processor's flags are reserved, and zero (Intel's manual, volume 1, 3.4.3).
const RESERVED_FLAGS: u32 = !0 << 22;
/// A kernel that KVM runs reaches the command in two or three seconds.
const KVM_BEGIN_MAX: Duration = Duration::from_secs(30);
/// What QEMU prints when KVM gives up a guest; the guest then stands still.
const KVM_GAVE_UP: &str = "KVM internal error";
/// How often a guest that prints nothing is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// With a full pipe QEMU would wait for this process, and the guest's time would show it.
const OUTPUT_PIPE_BYTES: i32 = 1 << 20;
/// A modest processor. It has no random numbers of its own, and none of the fast
/// string instructions: the emulation counts one instruction per byte of these,
/// so that clearing a page would seem to take eight times as long. It boots
/// faster than `max`, too.
const CPU_MODEL: &str = "Nehalem";
/// For each step of the seed, this much more of the guest's memory is taken at boot.
const SEED_PADDING_BYTES: u64 = 4096;

impl Machine {
    /// Boots, runs `command` as root in `/root` and shuts down. A status other than 0 is not an error; a machine that crashed
    /// or took too long is.
    ///
    /// `watch` gets each line of output as it comes, to show it. A boot may fail and be repeated, so results are read from
    /// [`Outcome::output`]; `watch` is no `FnMut`, so that they are not collected there.
    pub fn run(
        &self,
        image: &Image,
        command: &[&str],
        watch: impl Fn(Progress),
    ) -> Result<Outcome> {
        run(self, image, command, watch)
    }

    /// The same for a line of shell.
    pub fn shell(&self, image: &Image, line: &str, watch: impl Fn(Progress)) -> Result<Outcome> {
        self.run(image, &["sh", "-c", line], watch)
    }
}

fn run(
    machine: &Machine,
    image: &Image,
    command: &[&str],
    watch: impl Fn(Progress),
) -> Result<Outcome> {
    let started = Instant::now();
    let deadline = started + machine.timeout;
    let kernel = KernelFiles::find(machine.kernel)?;
    let scratch = Scratch::new()?;
    write_initrd(
        &scratch.initrd(),
        &complete(image, &kernel, machine.mode, command)?,
    )?;

    let mut boot = Boot::first(machine.mode);
    let (output, ending) = loop {
        watch(Progress::Boot {
            number: boot.number,
            how: &boot.how,
        });
        let command = qemu_command(machine, &kernel, &scratch, &boot)?;
        let mut guest = Guest::start(command, machine.mode, &scratch)?;
        let on_line = |line: &str| watch(Progress::Line(line));
        let (output, ending) = guest.follow(deadline, on_line, || boot.stands_still(&scratch))?;
        match boot.next(ending, machine.mode, &scratch)? {
            Some(next) => boot = next,
            None => break (output, ending),
        }
    };
    let said = read_lossy(&scratch.status())?;
    let end = End {
        status: said
            .lines()
            .nth(1)
            .and_then(|line| line.trim().parse().ok()),
        kernel_log: read_lossy(&scratch.kernel_log())?,
        qemu_errors: read_lossy(&scratch.qemu_errors())?,
        output,
    };
    if ending == Ending::TimeIsUp {
        return Err(end.timed_out(machine.timeout));
    }
    match end.status {
        None => Err(end.crashed()),
        Some(status) => Ok(Outcome {
            status,
            output: end.output,
            kernel_log: end.kernel_log,
            host_seconds: started.elapsed().as_secs_f64(),
        }),
    }
}

/// One boot of possibly several.
struct Boot {
    number: u32,
    kvm: bool,
    how: String,
    started: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Off,
    StandsStill,
    TimeIsUp,
}

impl Boot {
    fn first(mode: Mode) -> Self {
        let kvm = mode == Mode::Kvm;
        Self {
            number: 1,
            kvm,
            how: if kvm { "KVM" } else { "emulated CPUs" }.to_owned(),
            started: Instant::now(),
        }
    }

    /// On some hosts KVM can be opened but runs no kernel. So it is tried with this machine.
    fn stands_still(&self, scratch: &Scratch) -> Result<bool> {
        Ok(self.kvm
            && (read_lossy(&scratch.qemu_errors())?.contains(KVM_GAVE_UP)
                || (self.started.elapsed() > KVM_BEGIN_MAX && !begun(scratch)?)))
    }

    /// The boot that has to follow, if this one says nothing about the command.
    fn next(&self, ending: Ending, mode: Mode, scratch: &Scratch) -> Result<Option<Self>> {
        let useless = match ending {
            Ending::TimeIsUp => false,
            Ending::StandsStill => true,
            Ending::Off if self.kvm => !begun(scratch)?,
            Ending::Off => tripped(scratch)?,
        };
        if !useless || self.number == BOOTS_MAX || matches!(mode, Mode::Measured { .. }) {
            return Ok(None);
        }
        let how = if self.kvm {
            let errors = read_lossy(&scratch.qemu_errors())?;
            format!(
                "emulated CPUs, since KVM cannot be used here: {}",
                why_not_kvm(&errors)
            )
        } else {
            "emulated CPUs, once more, since the emulation tripped over the kernel patching itself"
                .to_owned()
        };
        Ok(Some(Self {
            number: self.number + 1,
            kvm: false,
            how,
            started: Instant::now(),
        }))
    }
}

fn begun(scratch: &Scratch) -> Result<bool> {
    Ok(read_lossy(&scratch.status())?.starts_with("begun"))
}

fn tripped(scratch: &Scratch) -> Result<bool> {
    let done = read_lossy(&scratch.status())?.lines().nth(1).is_some();
    Ok(!begun(scratch)? || !done && emulation_tripped(&read_lossy(&scratch.kernel_log())?))
}

/// QEMU computes the flags late, from the last operation's result. If the kernel patches code and QEMU discards its translation
/// just then, QEMU can take that result itself for the flags: bits are set that no processor sets, and with the trap flag among
/// them the kernel crashes on an unexpected single step.
fn emulation_tripped(kernel_log: &str) -> bool {
    let mut after = kernel_log.split("EFLAGS: ").skip(1);
    kernel_log.contains(LOST_BREAKPOINT)
        || after.any(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
            u32::from_str_radix(&digits, 16).is_ok_and(|flags| flags & RESERVED_FLAGS != 0)
        })
}

fn why_not_kvm(qemu_errors: &str) -> &str {
    let telling = qemu_errors.lines().find(|line| line.contains("KVM"));
    let telling = telling.or(qemu_errors.lines().last());
    telling.unwrap_or("the kernel did not reach the command")
}

struct KernelFiles {
    dir: PathBuf,
    release: String,
}

impl KernelFiles {
    fn find(kernel: Kernel) -> Result<Self> {
        let name = match kernel {
            Kernel::Newest => "newest",
            Kernel::Oldest => "oldest",
            Kernel::Peers => "peers",
        };
        let dir = build_dir()?.join("kernel").join(name);
        let Ok(version) = std::fs::read_to_string(dir.join("version")) else {
            return Err(explain(
                &format!("there is no kernel in {}", dir.display()),
                "it has not been fetched yet",
                &format!("lab/vm/fetch-kernel.sh {name}"),
            ));
        };
        Ok(Self {
            dir,
            release: version.trim().to_owned(),
        })
    }
}

/// The image, with the files that depend on the machine and the command.
fn complete(image: &Image, kernel: &KernelFiles, mode: Mode, command: &[&str]) -> Result<Image> {
    let mut image = image.clone();
    image.file("/lab/run", RUN, 0o755);
    image.file("/lab/command", command_script(command), 0o755);
    // libbpf looks up CONFIG_HZ and the like here; without it, loading a
    // scheduler fails with a bare EINVAL.
    image.file_from(
        &kernel.dir.join("config"),
        &format!("/boot/config-{}", kernel.release),
    )?;
    if let Mode::Measured { seed, .. } = mode {
        image.file("/lab/seed", seed_padding(seed), 0o644);
    }
    Ok(image)
}

fn command_script(command: &[&str]) -> String {
    let words: Vec<_> = command.iter().map(|word| quote(word)).collect();
    format!("#!/bin/sh\nexec {}\n", words.join(" "))
}

fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

// With other content and another size the guest's memory is laid out differently.
fn seed_padding(seed: u64) -> Vec<u8> {
    let mut padding = format!("{seed}\n").into_bytes();
    padding.resize(
        padding.len() + (seed % 256 * SEED_PADDING_BYTES) as usize,
        b'.',
    );
    padding
}

fn write_initrd(path: &Path, image: &Image) -> Result<()> {
    let file = File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
    image.write_to(BufWriter::new(file)).with_context(|| {
        format!(
            "cannot write the guest's {}; is the file system full?",
            path.display()
        )
    })
}

/// The CPUs of a socket share a last-level cache.
fn topology(machine: &Machine) -> Result<String> {
    let Machine { cpus, caches, .. } = machine;
    if *caches == 0 || cpus % caches != 0 {
        return Err(explain(
            &format!("{cpus} CPUs cannot be divided evenly among {caches} caches"),
            "--cpus is not a multiple of --caches",
            "choose one that is, for instance --cpus 4 --caches 2",
        ));
    }
    Ok(format!("{cpus},sockets={caches}"))
}

fn qemu_command(
    machine: &Machine,
    kernel: &KernelFiles,
    scratch: &Scratch,
    boot: &Boot,
) -> Result<Command> {
    let mut qemu = Command::new(qemu_program(machine)?);
    qemu.args([
        "-machine",
        "pc,hpet=off",
        "-nodefaults",
        "-nic",
        "none",
        "-display",
        "none",
        "-no-reboot",
    ])
    .args([
        "-smp",
        &topology(machine)?,
        "-m",
        &machine.memory_mib.to_string(),
    ])
    .args(["-cpu", if boot.kvm { "host" } else { CPU_MODEL }])
    .args(accelerator_options(machine.mode, boot.kvm))
    .arg("-kernel")
    .arg(kernel.dir.join("vmlinuz"))
    .arg("-initrd")
    .arg(scratch.initrd())
    .args(["-append", &kernel_line(machine.mode, boot.number)])
    .args(disk_options(machine.disk_mib));
    // Without an event descriptor QEMU handles the guest's writes at once, not
    // when its main loop next runs: under -icount that would be chance.
    qemu.args(["-device", "virtio-serial-pci,ioeventfd=off"])
        .args(["-chardev", "file,id=output,path=/dev/fd/1"])
        .args(["-device", "virtconsole,chardev=output,nr=0"])
        .args([
            "-chardev",
            &format!("file,id=status,path={}", scratch.status().display()),
        ])
        .args(["-device", "virtserialport,chardev=status,nr=1"])
        .args([
            "-serial",
            &format!("file:{}", scratch.kernel_log().display()),
        ]);
    Ok(qemu)
}

fn disk_options(mib: u32) -> Vec<String> {
    if mib == 0 {
        return Vec::new();
    }
    let bytes = u64::from(mib) << 20;
    let nothing = format!("driver=null-co,node-name=disk,size={bytes},read-zeroes=on");
    let device = "nvme,drive=disk,serial=scratch";
    vec!["-blockdev".into(), nothing, "-device".into(), device.into()]
}

/// QEMU 10 if it is there. 7.2 starves virtual CPUs under -icount as soon as there are two, and without -icount its emulation
/// trips now and then (`emulation_tripped`).
fn qemu_program(machine: &Machine) -> Result<PathBuf> {
    let fetched = build_dir()?.join("qemu10/run");
    if fetched.is_file() {
        return Ok(fetched);
    }
    if !matches!(machine.mode, Mode::Measured { .. }) || machine.cpus == 1 {
        return find_program("qemu-system-x86_64");
    }
    Err(explain(
        &format!(
            "QEMU 10 is needed to measure on {} CPUs, and {} is not there",
            machine.cpus,
            fetched.display()
        ),
        "it has not been fetched yet; the system's own QEMU may starve virtual CPUs in this mode",
        "lab/vm/fetch-qemu.sh",
    ))
}

fn accelerator_options(mode: Mode, kvm: bool) -> Vec<String> {
    let Mode::Measured { shift, seed } = mode else {
        let accelerator = if kvm { "kvm" } else { "tcg,thread=multi" };
        return ["-accel", accelerator].map(str::to_owned).to_vec();
    };
    // No clock and no entropy from outside. With sleep=off an idle guest's time
    // jumps to its next timer.
    vec![
        "-icount".into(),
        format!("shift={shift},sleep=off"),
        "-rtc".into(),
        "base=2026-01-01,clock=vm".into(),
        "-seed".into(),
        seed.to_string(),
    ]
}

/// The kernel's self-tests would take half of each CPU early on; autogroups
/// would distort what the kernel's own scheduler does; and the kernel's thread
/// that samples which memory is in use (DAMON) now and then takes 6 % of a CPU
/// for ten seconds once thousands of processes have run, which is then missing
/// from the shares.
fn kernel_line(mode: Mode, boot: u32) -> String {
    let common = "console=ttyS0 loglevel=4 panic=-1 oops=panic cryptomgr.notests=1 tsc=reliable \
                  mitigations=off nokaslr noautogroup damon_stat.enabled=N";
    match mode {
        // So that the guest can tell a repeated boot from the first, as tests do.
        Mode::Parallel | Mode::Kvm => format!("{common} tombola.boot={boot}"),
        Mode::Measured { seed, .. } => format!("{common} tombola.seed={seed}"),
    }
}

struct Guest {
    qemu: Child,
    _cpu: Option<HostCpu>,
}

impl Guest {
    fn start(mut command: Command, mode: Mode, scratch: &Scratch) -> Result<Self> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(scratch.qemu_errors())?);
        let cpu = match mode {
            Mode::Measured { .. } => Some(HostCpu::take()?),
            Mode::Parallel | Mode::Kvm => None,
        };
        let number = cpu.as_ref().map(|cpu| cpu.number);
        unsafe {
            command.pre_exec(move || {
                // QEMU must not outlive this process, however that ends.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                number.map_or(Ok(()), keep_in_step)
            });
        }
        let program = PathBuf::from(command.get_program());
        let qemu = command.spawn().map_err(|error| {
            explain(
                &format!("cannot start {}: {error}", program.display()),
                "QEMU is not installed",
                "lab/vm/deps.sh, as root",
            )
        })?;
        Ok(Self { qemu, _cpu: cpu })
    }

    /// Passes on the output line by line until the machine is off, stands still or the time is up; returns all of it.
    fn follow(
        &mut self,
        deadline: Instant,
        on_line: impl Fn(&str),
        stands_still: impl Fn() -> Result<bool>,
    ) -> Result<(String, Ending)> {
        let lines = read_lines(self.qemu.stdout.take().expect("stdout is piped"));
        let mut output = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match lines.recv_timeout(left.min(LOOK_EVERY)) {
                Ok(line) => {
                    on_line(line.trim_end_matches('\n'));
                    output.push_str(&line);
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() => {
                    return Ok((output, Ending::TimeIsUp));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if stands_still()? => {
                    return Ok((output, Ending::StandsStill));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
        self.qemu.wait()?;
        Ok((output, Ending::Off))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// QEMU's main loop and the thread of the virtual CPUs both run timers, and
/// whether an interrupt ends a CPU's turn depends on which of them does. So the
/// main loop must handle whatever woke it before the guest goes on: all threads
/// share one host CPU, and the main loop, the first thread, is real-time.
fn keep_in_step(cpu: usize) -> std::io::Result<()> {
    cpu::keep_to([cpu])?;
    // Without the right to it, runs are alike but for rare cases.
    let _ = cpu::become_real_time(1);
    Ok(())
}

/// A CPU of the host for one measured machine: a free one if there is any.
struct HostCpu {
    number: usize,
    _lock: Option<File>,
}

impl HostCpu {
    fn take() -> Result<Self> {
        let allowed = cpu::allowed()?;
        for &number in &allowed {
            let path = build_dir()?.join(format!("host-cpu-{number}.lock"));
            let file =
                File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
            if file.try_lock().is_ok() {
                return Ok(Self {
                    number,
                    _lock: Some(file),
                });
            }
        }
        // More machines than CPUs share them by turns.
        static TURN: AtomicU32 = AtomicU32::new(0);
        let turn = std::process::id().wrapping_add(TURN.fetch_add(1, Ordering::Relaxed));
        Ok(Self {
            number: allowed[turn as usize % allowed.len()],
            _lock: None,
        })
    }
}

// A separate thread empties the pipe at once, however long `on_line` takes.
fn read_lines(stdout: ChildStdout) -> mpsc::Receiver<String> {
    unsafe { libc::fcntl(stdout.as_raw_fd(), libc::F_SETPIPE_SZ, OUTPUT_PIPE_BYTES) };
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        let mut line = Vec::new();
        while reader
            .read_until(b'\n', &mut line)
            .is_ok_and(|count| count > 0)
        {
            if sender
                .send(String::from_utf8_lossy(&line).into_owned())
                .is_err()
            {
                break;
            }
            line.clear();
        }
    });
    receiver
}

/// The output and logs of a machine that is off.
struct End {
    status: Option<i32>,
    output: String,
    kernel_log: String,
    qemu_errors: String,
}

impl End {
    fn timed_out(&self, timeout: Duration) -> anyhow::Error {
        explain(
            &format!(
                "the machine was not done after {} s and was switched off",
                timeout.as_secs_f64()
            ),
            &format!("the command hangs or needs longer; {}", self.traces()),
            "allow more time, or run the command by hand: tombola-lab vm --timeout SECONDS -- COMMAND",
        )
    }

    fn crashed(&self) -> anyhow::Error {
        explain(
            "the machine went off before the command ended",
            &format!(
                "the kernel crashed, or QEMU did not start; {}",
                self.traces()
            ),
            "run the command by hand: tombola-lab vm --kernel-log -- COMMAND",
        )
    }

    fn traces(&self) -> String {
        let parts = [
            ("the output ends:", last_lines(&self.output, 10)),
            ("the kernel said:", telling_part(&self.kernel_log)),
            ("QEMU said:", last_lines(&self.qemu_errors, 10)),
        ];
        let said = parts.iter().filter(|(_, text)| !text.trim().is_empty());
        let traces: Vec<_> = said.map(|(label, text)| format!("{label}{text}")).collect();
        if traces.is_empty() {
            "nothing was printed".to_owned()
        } else {
            traces.join("\n  ")
        }
    }
}

/// A directory for one run, removed at its end.
struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    fn new() -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("tombola-vm-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&dir)
            .with_context(|| format!("cannot create {}", dir.display()))?;
        let scratch = Self { dir };
        // QEMU creates them only if it starts.
        File::create(scratch.status())?;
        File::create(scratch.kernel_log())?;
        Ok(scratch)
    }

    fn initrd(&self) -> PathBuf {
        self.dir.join("initrd")
    }

    fn status(&self) -> PathBuf {
        self.dir.join("status")
    }

    fn kernel_log(&self) -> PathBuf {
        self.dir.join("kernel-log")
    }

    fn qemu_errors(&self) -> PathBuf {
        self.dir.join("qemu-errors")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_reaches_the_guest_word_by_word() {
        assert_eq!(
            command_script(&["echo", "it's", "$HOME"]),
            "#!/bin/sh\nexec 'echo' 'it'\\''s' '$HOME'\n"
        );
    }

    #[test]
    fn only_what_no_processor_does_is_the_emulations_fault() {
        assert!(emulation_tripped("[ 1.5] Oops: int3: 0000 [#1] SMP\n"));
        let line = |flags| format!("RSP: 0018:ffffc90001ddb960 EFLAGS: {flags}\nRAX: 0\n");
        assert!(!emulation_tripped(&line("00000246")));
        assert!(!emulation_tripped(&line("003f7fd7")));
        assert!(emulation_tripped(&(line("00000246") + &line("7d1c1702"))));
        assert!(!emulation_tripped("BUG: unable to handle page fault\n"));
    }

    #[test]
    fn why_kvm_cannot_be_used_is_said_in_one_line() {
        let none = "Could not access KVM kernel module: No such file or directory\n\
                    qemu-system-x86_64: failed to initialize kvm: No such file or directory\n";
        let expected = "Could not access KVM kernel module: No such file or directory";
        assert_eq!(why_not_kvm(none), expected);
        let gave_up = "KVM internal error. Suberror: 1\nextra data[0]: 1\nemulation failure\n";
        assert_eq!(why_not_kvm(gave_up), "KVM internal error. Suberror: 1");
        let silent = "the kernel did not reach the command";
        assert_eq!(why_not_kvm(""), silent);
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(seed_padding(1), seed_padding(2));
        assert_ne!(seed_padding(1), seed_padding(257));
    }
}
