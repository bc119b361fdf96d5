//! Who hashes: the workers of the pool themselves, or a process for each.

use crate::kernel::{Kernel, Target};
use crate::output::warn;
use crate::protocol::{ANSWER_BYTES, NOT_FOUND, REQUEST_BYTES, Request};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::env;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

/// Numbers after which a thread looks whether its job is over.
pub const LOOK: u64 = 4_096;
const LOOK_OF_PROCESSES: u64 = 1 << 18;
/// How often a chunk is tried with processes that end in the middle of it.
const ATTEMPTS: u32 = 3;

pub enum Engine {
    Threads(Kernel),
    Processes(Processes),
}

impl Engine {
    /// After how many numbers a worker looks whether what it does is still wanted. To ask a process takes longer.
    #[must_use]
    pub fn look(&self) -> u64 {
        match self {
            Self::Threads(_) => LOOK,
            Self::Processes(_) => LOOK_OF_PROCESSES,
        }
    }

    /// Some number of the range that has the target's digest. Panics if there is no process to search in.
    pub fn search(&self, target: &Target, digest: &[u8; 32], range: Range<u64>) -> Option<u64> {
        match self {
            Self::Threads(kernel) => kernel.search(target, range),
            Self::Processes(processes) => processes.search(digest, range),
        }
    }
}

/// Processes that search, as many as there are workers that ask at once. One that ends is replaced.
pub struct Processes {
    kernel: Kernel,
    program: PathBuf,
    idle: Mutex<Vec<Searcher>>,
}

impl Processes {
    /// Starts so many, each this very program. Fails if that cannot be started again.
    pub fn start(kernel: Kernel, count: usize) -> io::Result<Self> {
        let program = env::current_exe()?;
        let idle = (0..count).map(|_| Searcher::start(&program, kernel));
        Ok(Self {
            kernel,
            idle: Mutex::new(idle.collect::<io::Result<_>>()?),
            program,
        })
    }

    fn search(&self, digest: &[u8; 32], range: Range<u64>) -> Option<u64> {
        let request = Request {
            digest: *digest,
            range,
            priority: 1,
        };
        let idle = || self.idle.lock().expect("nothing panics under the lock");
        // If one of those that wait has ended, so may have the others.
        let mut waiting = idle().pop();
        for _ in 0..ATTEMPTS {
            let fresh = || Searcher::start(&self.program, self.kernel);
            let searcher = waiting.take().map_or_else(fresh, Ok);
            let mut searcher = searcher.unwrap_or_else(|error| {
                panic!("cannot start {}: {error}", self.program.display());
            });
            match searcher.ask(&request) {
                Ok(number) => {
                    idle().push(searcher);
                    return (number != NOT_FOUND).then_some(number);
                }
                Err(error) => warn(format_args!(
                    "search process {} has ended ({error}); another takes its place",
                    searcher.child.id()
                )),
            }
        }
        panic!("{ATTEMPTS} search processes have ended in the middle of one chunk");
    }
}

/// `unhash search`, with a pipe to it and one back.
struct Searcher {
    child: Child,
    requests: ChildStdin,
    answers: ChildStdout,
}

impl Searcher {
    fn start(program: &PathBuf, kernel: Kernel) -> io::Result<Self> {
        let mut child = Command::new(program)
            .args(["search", "--kernel", kernel.name()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What the terminal tells the server it is to tell them by closing their pipes.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            requests: child.stdin.take().expect("it is piped"),
            answers: child.stdout.take().expect("it is piped"),
            child,
        })
    }

    fn ask(&mut self, request: &Request) -> io::Result<u64> {
        self.requests.write_all(&request.to_bytes())?;
        let mut answer = [0; ANSWER_BYTES];
        self.answers.read_exact(&mut answer)?;
        Ok(u64::from_be_bytes(answer))
    }
}

impl Drop for Searcher {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A search process: requests come in and answers go out as between a client and the server, until no more come.
pub fn search(kernel: Kernel, mut requests: impl Read, mut answers: impl Write) -> io::Result<()> {
    // Even in the middle of a search, or stopped, it does not outlive its server.
    set_pdeathsig(Signal::SIGKILL)?;
    let mut bytes = [0; REQUEST_BYTES];
    loop {
        match requests.read_exact(&mut bytes) {
            Ok(()) => {}
            Err(end) if end.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        let request = Request::from_bytes(&bytes);
        let found = kernel.search(&Target::new(request.digest), request.range);
        answers.write_all(&found.unwrap_or(NOT_FOUND).to_be_bytes())?;
        answers.flush()?;
    }
}
