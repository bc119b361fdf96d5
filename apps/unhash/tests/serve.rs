//! The server as a program, over its sockets: whatever a client sends, it gets what serve.rs says.

use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tombola_pool::Order;
use unhash::kernel::Kernel;
use unhash::load::{self, Pace, Report};
use unhash::protocol::{ANSWER_BYTES, NOT_FOUND, Request};
use unhash::status::{self, Status};
use unhash::stream::{Secret, Settings, requests};

const PROGRAM: &str = env!("CARGO_BIN_EXE_unhash");

/// What has not happened by then never will.
const HANGS: Duration = Duration::from_secs(120);

struct Server {
    child: Child,
    address: SocketAddr,
    status: SocketAddr,
}

impl Server {
    fn start(arguments: &[&str]) -> Self {
        Self::started(Command::new(PROGRAM), arguments)
    }

    fn started(mut program: Command, arguments: &[&str]) -> Self {
        let mut child = program
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--status",
                "127.0.0.1:0",
            ])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut address = |before: &str| -> SocketAddr {
            let line = said.next().expect("it says where it listens").unwrap();
            line.strip_prefix(before).unwrap().parse().unwrap()
        };
        Self {
            address: address("listening on "),
            status: address("status on "),
            child,
        }
    }

    fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.address).unwrap();
        client.set_read_timeout(Some(HANGS)).unwrap();
        client
    }

    /// Sends a request, and waits for no answer.
    fn send(&self, request: &Request) -> TcpStream {
        let mut client = self.connect();
        client.write_all(&request.to_bytes()).unwrap();
        client
    }

    fn ask(&self, request: &Request) -> u64 {
        answer(&mut self.send(request))
    }

    fn status(&self) -> Status {
        status::ask(self.status).unwrap()
    }

    /// Until that is so: what the server does, it does in its own time.
    fn wait_until(&self, is_so: impl Fn(&Status) -> bool) {
        until(|| {
            let status = self.status();
            match is_so(&status) {
                true => Ok(()),
                false => Err(format!("it will never be so: {status:?}")),
            }
        });
    }

    fn signal(&self, signal: i32) {
        kill(self.child.id(), signal);
    }

    fn ended(mut self) -> ExitStatus {
        until(|| {
            let status = self.child.try_wait().unwrap();
            status.ok_or("it does not end".to_owned())
        })
    }

    /// The processes that search for it.
    fn searchers(&self) -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let of_thread = |thread: io::Result<fs::DirEntry>| {
            let text = fs::read_to_string(thread.unwrap().path().join("children")).unwrap();
            let ids = text.split_whitespace().map(|id| id.parse().unwrap());
            ids.collect::<Vec<u32>>()
        };
        threads.flat_map(of_thread).collect()
    }
}

/// Until that has happened; what is so instead is said if it never does.
fn until<T>(mut happened: impl FnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match happened() {
            Ok(what) => return what,
            Err(instead) => assert!(began.elapsed() < HANGS, "{instead}"),
        }
        thread::yield_now();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn kill(process: u32, signal: i32) {
    // SAFETY: a system call without pointers.
    let failed = unsafe { libc::kill(process.cast_signed(), signal) };
    assert_eq!(failed, 0, "process {process} is there");
}

/// One that has ended but that nobody has asked about is not.
fn is_there(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|text| !text.contains(") Z "))
}

fn answer(client: &mut TcpStream) -> u64 {
    let mut bytes = [0; ANSWER_BYTES];
    client.read_exact(&mut bytes).unwrap();
    u64::from_be_bytes(bytes)
}

fn digest_of(number: u64) -> [u8; 32] {
    Sha256::digest(number.to_le_bytes()).into()
}

fn request(number: u64, range: Range<u64>) -> Request {
    Request {
        digest: digest_of(number),
        range,
        priority: 1,
    }
}

/// For what is in no range.
fn hopeless(range: Range<u64>) -> Request {
    Request {
        digest: [7; 32],
        ..request(0, range)
    }
}

fn load(server: &Server, settings: &Settings, seed: u8) -> Report {
    let asked = requests(settings, &mut Secret::new([seed; 32]));
    let pace = Pace {
        delay: Duration::from_micros(settings.delay_us),
        patience: Duration::from_secs(600),
    };
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    Report::of(&runtime.block_on(load::run(server.address, &asked, pace, |_| ())))
}

/// Room for all tests' files at once, and for the servers', who inherit it.
fn many_files() {
    const FILES: u64 = 20_000;
    if rlimit::increase_nofile_limit(u64::MAX).unwrap() < FILES {
        rlimit::setrlimit(rlimit::Resource::NOFILE, FILES, FILES)
            .expect("too few open files are allowed here: ulimit -Hn");
    }
}

#[test]
fn five_thousand_requests_and_every_answer_right() {
    many_files();
    let server = Server::start(&["--time-max", "600"]);
    let settings = Settings {
        total: 5_000,
        difficulty: 200_000,
        delay_us: 100,
        ..Settings::FINAL
    };
    let report = load(&server, &settings, 1);
    assert_eq!((report.right, report.waits.0.len()), (5_000, 5_000));
    let status = server.status();
    assert!(status.remembered + status.joined > 900, "{status:?}");
    assert_eq!((status.answered, status.in_vain), (5_000, 0));
}

#[test]
fn every_variant_answers_rightly() {
    let mut variants: Vec<Vec<String>> = Vec::new();
    for order in Order::ALL {
        for width in ["one", "all"] {
            for chunk in ["0", "1000", "65536"] {
                let words = ["--order", order.name(), "--width", width, "--chunk", chunk];
                variants.push(words.map(str::to_owned).to_vec());
            }
        }
    }
    for kernel in Kernel::ALL
        .into_iter()
        .filter(|kernel| kernel.is_available())
    {
        variants.push(vec!["--kernel".into(), kernel.name().into()]);
    }
    for words in [
        "--cache=0",
        "--cache=1",
        "--processes",
        "--workers=4",
        "--queue-max=1",
    ] {
        variants.push(vec![words.into(), "--workers=4".into()][..1].to_vec());
    }
    for order in ["fifo", "priority", "smith"] {
        let words = [
            "--processes",
            "--workers=5",
            "--order",
            order,
            "--width",
            "one",
        ];
        variants.push(words.map(str::to_owned).to_vec());
    }
    for (seed, variant) in variants.iter().enumerate() {
        let arguments: Vec<&str> = variant.iter().map(String::as_str).collect();
        let server = Server::start(&arguments);
        let settings = Settings {
            total: 60,
            difficulty: 100_000,
            delay_us: 100,
            repeat_percent: 40,
            ..Settings::FINAL
        };
        let report = load(&server, &settings, seed as u8);
        assert_eq!(report.right, 60, "{variant:?}");
    }
}

#[test]
fn ranges_may_be_anything() {
    let server = Server::start(&[]);
    let end = u64::MAX;
    for (request, right) in [
        (request(5, Range { start: 9, end: 3 }), NOT_FOUND),
        (request(5, 5..5), NOT_FOUND),
        (request(5, 0..end), NOT_FOUND), // longer than is allowed
        (request(5, 6..1_000), NOT_FOUND),
        (request(1_000, 6..1_000), NOT_FOUND),
        (hopeless(0..100_000), NOT_FOUND),
        (hopeless(end - 100_000..end), NOT_FOUND),
        (request(0, 0..1), 0),
        (request(5, 5..6), 5),
        (request(end - 1, end - 70_000..end), end - 1),
        (
            request((1 << 32) + 3, (1 << 32) - 70_000..(1 << 32) + 70_000),
            (1 << 32) + 3,
        ),
    ] {
        for priority in [0, 1, 16, 255] {
            let request = Request {
                priority,
                ..request.clone()
            };
            assert_eq!(server.ask(&request), right, "{request:?}");
        }
    }
}

#[test]
fn a_search_in_vain_has_an_end() {
    for arguments in [
        &[][..],
        &["--processes"],
        &["--chunk", "10000000", "--width", "one"],
    ] {
        let limit = ["--time-max", "0.1", "--range-max", "1000000000000000"];
        let server = Server::start(&[&limit, arguments].concat());
        let range = 0..1_000_000_000_000_000;
        let mut clients: Vec<_> = (0..20)
            .map(|n| server.send(&hopeless(n..range.end)))
            .collect();
        for client in &mut clients {
            assert_eq!(answer(client), NOT_FOUND, "{arguments:?}");
        }
        server.wait_until(|status| status.jobs == 0);
        assert_eq!(server.ask(&request(5, 0..100)), 5);
    }
}

#[test]
fn clients_may_be_slow_or_half_closed_or_say_too_much() {
    let server = Server::start(&[]);
    let request = request(77, 0..100);

    let mut slow = server.connect();
    slow.set_nodelay(true).unwrap();
    for byte in request.to_bytes() {
        slow.write_all(&[byte]).unwrap();
    }
    assert_eq!(answer(&mut slow), 77);

    let mut half_closed = server.send(&request);
    half_closed.shutdown(Shutdown::Write).unwrap();
    assert_eq!(answer(&mut half_closed), 77);

    let mut talks = server.connect();
    let bytes = [&request.to_bytes()[..], &[0xff; 20_000]].concat();
    talks.write_all(&bytes).unwrap();
    assert_eq!(answer(&mut talks), 77);
    let mut rest = Vec::new();
    talks.shutdown(Shutdown::Write).unwrap();
    talks.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "one answer and the end");

    let garbage = [0x5a; 49];
    let mut client = server.connect();
    client.write_all(&garbage).unwrap();
    assert_eq!(answer(&mut client), NOT_FOUND);
}

#[test]
fn who_does_not_send_a_request_is_shut_out() {
    let server = Server::start(&["--read-max", "1"]);
    let bytes = request(77, 0..100).to_bytes();
    for sent in [0, 1, 48] {
        for closes in [true, false] {
            let mut client = server.connect();
            client.write_all(&bytes[..sent]).unwrap();
            if closes {
                client.shutdown(Shutdown::Write).unwrap();
            }
            let mut all = Vec::new();
            client.read_to_end(&mut all).unwrap();
            assert!(all.is_empty(), "{sent} bytes: {all:?}");
        }
    }
    assert_eq!(server.ask(&request(77, 0..100)), 77);
}

/// Not only closed, which looks like half-closed from the other side.
fn reset(client: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let size = size_of_val(&linger) as libc::socklen_t;
    // SAFETY: the structure lives through the call.
    let failed = unsafe {
        let (file, linger) = (client.as_raw_fd(), (&raw const linger).cast());
        libc::setsockopt(file, libc::SOL_SOCKET, libc::SO_LINGER, linger, size)
    };
    assert_eq!(failed, 0);
}

#[test]
fn nothing_is_done_for_who_has_gone() {
    let server = Server::start(&["--range-max", "1000000000000000"]);
    let clients: Vec<_> = (0..10)
        .map(|n| server.send(&hopeless(n..1_000_000_000_000_000)))
        .collect();
    server.wait_until(|status| status.jobs == 10);
    clients.into_iter().for_each(reset);
    server.wait_until(|status| status.jobs == 0 && status.gone == 10);
    assert_eq!(server.ask(&request(77, 0..100)), 77);
}

#[test]
fn ten_thousand_at_once() {
    const CLIENTS: u64 = 10_000;
    many_files();
    let server = Server::start(&["--read-max", "600"]);
    let mut clients: Vec<TcpStream> = (0..CLIENTS).map(|_| server.connect()).collect();
    server.wait_until(|status| status.connections == CLIENTS);
    for (number, client) in (0..).zip(&mut clients) {
        let request = request(number, number.saturating_sub(500)..number + 500);
        client.write_all(&request.to_bytes()).unwrap();
    }
    for (number, client) in (0..).zip(&mut clients) {
        assert_eq!(answer(client), number);
    }
}

/// A server of one worker, which is in a search without end until its client is reset.
fn blocked(arguments: &[&str]) -> (Server, TcpStream) {
    let options = [
        "--workers=1",
        "--order=priority",
        "--range-max=1000000000000000",
    ];
    let server = Server::start(&[&options, arguments].concat());
    let blocker = server.send(&Request {
        priority: 255,
        ..hopeless(0..1_000_000_000_000_000)
    });
    server.wait_until(|status| status.tried > 0);
    (server, blocker)
}

#[test]
fn who_has_asked_is_answered_though_the_server_is_stopped() {
    let (server, blocker) = blocked(&["--time-max", "600"]);
    let request = |n| request(20_000 + n, n..40_000);
    let mut clients: Vec<_> = (0..20).map(|n| server.send(&request(n))).collect();
    let mut silent = server.connect();
    server.wait_until(|status| status.jobs == 21 && status.connections == 22);
    server.signal(libc::SIGTERM);
    let mut nothing = Vec::new();
    silent.read_to_end(&mut nothing).unwrap();
    assert!(nothing.is_empty(), "it had not asked");
    assert!(TcpStream::connect(server.address).is_err());
    reset(blocker);
    for (n, client) in (0..).zip(&mut clients) {
        assert_eq!(answer(client), 20_000 + n);
    }
    drop((clients, silent));
    assert!(server.ended().success());
}

/// Whom the server has not even seen when it is told to stop, but the system has let in.
#[test]
fn who_has_connected_is_answered_though_the_server_is_stopped() {
    let server = Server::start(&[]);
    server.signal(libc::SIGSTOP);
    let mut clients: Vec<_> = (0..500)
        .map(|n| server.send(&request(n, n..n + 100)))
        .collect();
    server.signal(libc::SIGTERM);
    server.signal(libc::SIGCONT);
    for (n, client) in (0..).zip(&mut clients) {
        assert_eq!(answer(client), n);
    }
    drop(clients);
    assert!(server.ended().success());
}

/// Whole ranges are not interrupted, and a process may not answer at all.
#[test]
fn a_stop_does_not_wait_for_a_search() {
    for arguments in [
        &["--chunk=0"][..],
        &["--chunk=0", "--processes"],
        &["--processes"],
    ] {
        let patience = ["--grace=0.1", "--time-max=600"];
        let (server, mut blocker) = blocked(&[arguments, &patience].concat());
        let searchers = server.searchers();
        if arguments == ["--processes"] {
            searchers.iter().for_each(|id| kill(*id, libc::SIGSTOP));
        }
        server.signal(libc::SIGTERM);
        assert_eq!(answer(&mut blocker), NOT_FOUND);
        drop(blocker);
        assert!(server.ended().success());
        until(|| match searchers.iter().any(|id| is_there(*id)) {
            true => Err(format!("processes are left: {searchers:?}")),
            false => Ok(()),
        });
    }
}

#[test]
fn who_has_gone_leaves_the_worker_free_even_in_a_whole_range() {
    for arguments in [&["--chunk=0"][..], &["--chunk=0", "--processes"]] {
        let (server, blocker) = blocked(&[arguments, &["--time-max=600"]].concat());
        let mut next = server.send(&request(77, 0..100));
        reset(blocker);
        assert_eq!(answer(&mut next), 77);
    }
}

#[test]
fn a_stop_does_not_wait_for_ever() {
    for (grace, signals) in [("0.1", 1), ("600", 2)] {
        let (server, blocker) = blocked(&["--grace", grace, "--time-max", "600"]);
        let mut clients: Vec<_> = (0..20)
            .map(|n| server.send(&hopeless(n..9_000_000_000)))
            .collect();
        clients.push(blocker);
        server.wait_until(|status| status.jobs == 21);
        server.signal(libc::SIGTERM);
        if signals == 2 {
            // Two that come at once are one.
            while TcpStream::connect(server.address).is_ok() {}
            server.signal(libc::SIGINT);
        }
        for client in &mut clients {
            assert_eq!(answer(client), NOT_FOUND);
        }
        drop(clients);
        assert!(server.ended().success());
    }
}

#[test]
fn equal_requests_are_worked_on_once_and_remembered() {
    let (server, blocker) = blocked(&["--time-max", "600"]);
    let same = request(20_000, 0..40_000);
    let mut clients: Vec<_> = (0..10).map(|_| server.send(&same)).collect();
    server.wait_until(|status| status.joined == 9);
    let status = server.status();
    assert_eq!(status.jobs, 2);
    let [first, second] = &status.in_work[..] else {
        panic!("the blocker and what waits: {status:?}");
    };
    assert!(first.tried > 0 && first.priority == 255);
    assert_eq!((second.tried, &second.range), (0, &same.range));
    reset(blocker);
    for client in &mut clients {
        assert_eq!(answer(client), 20_000);
    }
    assert_eq!(server.ask(&same), 20_000);
    assert_eq!(server.ask(&request(20_000, 19_999..20_001)), 20_000);
    assert_eq!(server.ask(&request(20_000, 0..5)), NOT_FOUND);
    let status = server.status();
    let counts = (
        status.remembered,
        status.answered,
        status.in_vain,
        status.gone,
    );
    assert_eq!(counts, (2, 12, 1, 1));
}

#[test]
fn what_needs_no_work_waits_for_no_place() {
    let server = Server::start(&[
        "--workers=1",
        "--queue-max=1",
        "--range-max=1000000000000000",
    ]);
    assert_eq!(server.ask(&request(77, 0..100)), 77);
    let blocker = server.send(&hopeless(0..1_000_000_000_000_000));
    server.wait_until(|status| status.jobs == 1);
    let mut waits = server.send(&request(78, 0..100));
    assert_eq!(server.ask(&request(77, 0..100)), 77);
    assert_eq!(server.ask(&request(77, 77..77)), NOT_FOUND);
    assert_eq!(server.status().jobs, 1);
    reset(blocker);
    assert_eq!(answer(&mut waits), 78);
}

/// And nobody reads what it says of that.
#[test]
fn too_few_files_make_wait_and_no_more() {
    let mut shell = Command::new("sh");
    let few = format!("ulimit -n 40; exec {PROGRAM} \"$@\"");
    shell.args(["-c", &few, "sh"]).stderr(Stdio::piped());
    let mut server = Server::started(shell, &[]);
    drop(server.child.stderr.take());
    let silent: Vec<_> = (0..60).map(|_| server.connect()).collect();
    let mut waits = server.send(&request(77, 0..100));
    waits.set_nonblocking(true).unwrap();
    assert!(waits.read(&mut [0]).is_err(), "it has to wait");
    waits.set_nonblocking(false).unwrap();
    drop(silent);
    assert_eq!(answer(&mut waits), 77);
    assert!(server.status().not_taken > 0);
    server.signal(libc::SIGTERM);
    drop(waits);
    assert!(server.ended().success());
}

#[test]
fn only_so_many_answers_are_remembered() {
    let server = Server::start(&["--cache", "2"]);
    let ask = |number| assert_eq!(server.ask(&request(number, 0..100)), number);
    for number in [1, 2, 1, 3, 1, 2] {
        ask(number);
    }
    assert_eq!(
        server.status().remembered,
        2,
        "1 both times; 2 had to go for 3"
    );
}

#[test]
fn search_processes_that_end_are_replaced_and_none_is_left() {
    let (server, blocker) = blocked(&["--processes"]);
    let [first] = server.searchers()[..] else {
        panic!("one worker has one process");
    };
    kill(first, libc::SIGKILL);
    reset(blocker);
    assert_eq!(server.ask(&request(77, 0..100)), 77);
    let [second] = server.searchers()[..] else {
        panic!("another has taken its place");
    };
    assert_ne!(first, second);
    server.signal(libc::SIGTERM);
    assert!(server.ended().success());
    assert!(!is_there(second));

    // All that wait, as when they are told to end with the server.
    let server = Server::start(&["--processes", "--workers=4"]);
    server
        .searchers()
        .into_iter()
        .for_each(|id| kill(id, libc::SIGTERM));
    for number in 0..100 {
        assert_eq!(server.ask(&request(number, 0..100)), number);
    }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

#[test]
fn bad_options_are_refused_with_what_is_wrong() {
    let server = Server::start(&[]);
    let taken = server.address.to_string();
    for (status, arguments, said) in [
        (
            2,
            "serve --order best",
            "not one of fifo, priority, smith, gittins, lottery, stride",
        ),
        (
            2,
            "serve --kernel gpu",
            "there are portable, sha-ni, avx2, avx512",
        ),
        (2, "serve --width two", "not one of one, all"),
        (2, "serve --workers 0", "0 is not in 1..=4096"),
        (2, "serve --queue-max 0", "0 is not in"),
        (2, "serve --range-max 0", "0 is not in"),
        (2, "serve --chunk=-1", "invalid digit"),
        (2, "serve --time-max never", "not a number"),
        (2, "serve --grace=-1", "negative"),
        (2, "serve --listen nowhere", "nowhere"),
        (
            2,
            "serve --processes --order stride",
            "use threads, or another order",
        ),
        (
            1,
            &format!("serve --listen {taken}"),
            "is another server there already?",
        ),
        (
            1,
            &format!("serve --listen 127.0.0.1:0 --status {taken}"),
            "cannot listen on",
        ),
        (2, "load --total 0", "0 is not in"),
        (2, "load --repeat 101", "101 is not in"),
        (2, "load --lambda=-1", "must be a number, 0 or more"),
        (2, "load --start 18446744073709551615", "goes beyond 2^64"),
        (
            1,
            "load 127.0.0.1:1 --settings initial --delay 60000000",
            "is `unhash serve` running at 127.0.0.1:1?",
        ),
        (2, "simulate --rate 0", "0.001 to 1000000"),
        (
            2,
            "simulate --load 1 --repeat 100",
            "requests would come 0 us apart",
        ),
        (2, "simulate --delay 18446744073709551", "is not in"),
        (2, "serve --cache 10000000000000", "is not in"),
        (2, "simulate --cores 0", "0 is not in"),
        (
            1,
            "status 127.0.0.1:1",
            "was it started with --status 127.0.0.1:1?",
        ),
        (2, "", "Usage: unhash <COMMAND>"),
    ] {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        let output = run(&arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn load_says_what_the_official_client_says() {
    let server = Server::start(&[]);
    let address = server.address.to_string();
    let quick = ["load", &address, "--delay", "0"];
    let output = run(&[
        &quick[..],
        &["--settings", "initial", "--seed", "1234", "--each"],
    ]
    .concat());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: BTreeSet<&str> = text
        .lines()
        .map(|line| line.split(']').next().unwrap())
        .collect();
    // As the official client asks with this seed.
    assert!(
        lines.contains("[ok 5 5 1") && lines.contains("[ok 6 6 1"),
        "{text}"
    );
    assert!(text.contains("\nResults: 100.00 "), "{text}");

    let wrong = [
        "--total",
        "3",
        "--difficulty",
        "2000000000",
        "--patience",
        "0",
    ];
    let output = run(&[&quick[..], &wrong].concat());
    assert_eq!(output.status.code(), Some(1), "no answer is no success");
}

#[test]
fn a_simulation_is_always_the_same() {
    let arguments = ["simulate", "--cores", "2", "--rate", "12", "--streams", "2"];
    let first = run(&arguments);
    assert!(first.status.success());
    let text = String::from_utf8(first.stdout.clone()).unwrap();
    assert!(text.starts_with("load 0.82\n"), "{text}");
    assert_eq!(text.lines().count(), 3 + 2 * Order::ALL.len());
    assert_eq!(first.stdout, run(&arguments).stdout);
}
