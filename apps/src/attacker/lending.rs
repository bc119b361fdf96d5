//! Loans of tickets to processes that abuse them. All of these processes have one user, but for `serve` and those that ask it.

use crate::crowd::small_thread;
use crate::setup::{Never, announce, announced, burn, helper, ready, sleep_for_ever};
use anyhow::Result;
use clap::ValueEnum;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{Signal, kill};
use nix::sys::time::TimeSpec;
use nix::sys::wait::{wait, waitpid};
use nix::unistd::Pid;
use std::fs::{self, Permissions};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process;
use std::thread;
use std::time::Duration;
use tombola_apps::work_for;
use tombola_kernel::calls::Client;

#[derive(Clone, Copy, ValueEnum)]
enum Way {
    /// Clients wait for a server that computes and never answers
    NeverAnswers,
    /// Ten thousand clients, each a thread with a socket of its own, ask one server
    Crowd,
    /// A client asks over a thousand sockets, one after the other
    ManySockets,
    /// Processes pass on bytes in a ring, and compute while they have one; each waits for the one before it
    Ring,
    /// The same, and each lends to the next one by a call
    RingOfCalls,
    /// The server forks a process for each request, which computes, and waits in epoll: loans pass to that process
    Forks,
    /// The clients of a server that computes are killed while they wait, and new ones come
    Killed,
    /// One thread answers clients of all users
    Serve,
    /// Ask it, with as many clients as are said, each with 100 tickets more than the one before
    Ask,
    /// Ask it, and wake up every 50 us while waiting for the answer
    AskImpatiently,
    /// Ask it, with two clients to each of which a busy process lends tickets by as many calls as a server has places
    AskWithLoans,
}

#[derive(clap::Args)]
pub struct Lend {
    #[arg(value_enum)]
    way: Way,
    #[arg(long, default_value_t = CLIENTS)]
    clients: u32,
}

/// More than can lend at once.
const CLIENTS: u32 = 12;
const SOCKETS: usize = 1000;
/// Of the server for all users.
const SOCKET: &str = "/tmp/attacker.socket";
const CROWD: usize = 10_000;
/// For a request, or of a process in the ring.
const WORK: Duration = Duration::from_millis(3);

pub fn lend(args: &Lend) -> Never {
    match args.way {
        Way::NeverAnswers => never_answers(),
        Way::Crowd => crowd(),
        Way::ManySockets => many_sockets(),
        Way::Ring => ring(false),
        Way::RingOfCalls => ring(true),
        Way::Forks => forks(),
        Way::Killed => killed(),
        Way::Serve => serve_all_users(),
        Way::Ask => ask_with(args.clients),
        Way::AskImpatiently => ask_impatiently(),
        Way::AskWithLoans => ask_with_loans(),
    }
}

/// Asks, and waits for the answer. Nobody lends to a server that has never answered.
fn ask(socket: &mut UnixStream) -> std::io::Result<()> {
    socket.write_all(&[0])?;
    socket.read_exact(&mut [0])
}

fn ask_with_tickets(tombola: &Client, tickets: u32, socket: UnixStream) -> Never {
    tombola.set_tickets(process::id(), tickets)?;
    ask_for_ever(socket)
}

fn answer(socket: &mut UnixStream) -> std::io::Result<()> {
    socket.read_exact(&mut [0])?;
    socket.write_all(&[0])
}

fn ask_for_ever(mut socket: UnixStream) -> Never {
    loop {
        ask(&mut socket)?;
    }
}

/// Starts clients, each with 100 tickets more than the one before; returns the server's ends of their sockets.
fn clients() -> Result<Vec<UnixStream>> {
    let tombola = Client::open()?;
    let mut sockets = Vec::new();
    for number in 1..=CLIENTS {
        let (own, theirs) = UnixStream::pair()?;
        if helper()? {
            drop(own);
            match ask_with_tickets(&tombola, 100 * number, theirs)? {}
        }
        sockets.push(own);
    }
    Ok(sockets)
}

/// They have one answer, and ask again: this process does not sleep meanwhile, as nobody lends to a sleeping server.
fn answered_clients() -> Result<Vec<UnixStream>> {
    let mut sockets = clients()?;
    for socket in &mut sockets {
        socket.read_exact(&mut [0])?;
    }
    for socket in &mut sockets {
        socket.write_all(&[0])?;
    }
    Ok(sockets)
}

fn never_answers() -> Never {
    let _sockets = answered_clients()?;
    ready();
    burn()
}

fn pairs(count: usize) -> Result<(Vec<UnixStream>, Vec<UnixStream>)> {
    let pairs = (0..count).map(|_| UnixStream::pair());
    let pairs: Vec<_> = pairs.collect::<std::io::Result<_>>()?;
    Ok(pairs.into_iter().unzip())
}

fn many_sockets() -> Never {
    let (mut of_client, of_server) = pairs(SOCKETS)?;
    if helper()? {
        drop(of_server);
        loop {
            for socket in &mut of_client {
                ask(socket)?;
            }
        }
    }
    drop(of_client);
    serve(of_server)
}

fn crowd() -> Never {
    let (of_clients, of_server) = pairs(CROWD)?;
    if helper()? {
        drop(of_server);
        for mut socket in of_clients {
            small_thread(move || while ask(&mut socket).is_ok() {})?;
        }
        sleep_for_ever()
    }
    drop(of_clients);
    serve(of_server)
}

/// Answers whoever asks, after some work; at first each client without work, so that it is known who answers.
fn serve(mut sockets: Vec<UnixStream>) -> Never {
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    for (number, socket) in sockets.iter().enumerate() {
        epoll.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, number as u64))?;
    }
    let mut events = vec![EpollEvent::empty(); sockets.len()];
    let mut answered = 0;
    loop {
        let count = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..count] {
            if answered >= sockets.len() {
                work_for(WORK);
            }
            answer(&mut sockets[event.data() as usize])?;
            answered += 1;
            if answered == sockets.len() {
                ready();
            }
        }
    }
}

const RING: usize = 4;
const LENT: u32 = 50;
/// As many lenders count.
const PLACES: usize = 8;

/// One of the ring: a byte comes, and goes on.
fn pass_on(mut from: PipeReader, mut to: PipeWriter) -> Never {
    loop {
        from.read_exact(&mut [0])?;
        work_for(WORK);
        to.write_all(&[0])?;
    }
}

fn ring(calls: bool) -> Never {
    let pipes = (0..RING).map(|_| pipe());
    let mut pipes: Vec<_> = pipes.collect::<std::io::Result<_>>()?;
    let mut pids = Vec::new();
    for number in 0..RING {
        let (reader, writer) = pipe()?;
        if helper()? {
            let from = pipes[number].0.try_clone()?;
            let to = pipes[(number + 1) % RING].1.try_clone()?;
            drop(pipes);
            announce(writer)?;
            match pass_on(from, to)? {}
        }
        pids.push(announced(reader)?);
    }
    if calls {
        let client = Client::open()?;
        for (number, &from) in pids.iter().enumerate() {
            client.lend(from, pids[(number + 1) % RING], LENT, None)?;
        }
    }
    // Two bytes: with one, a process might always wait for one that sleeps, too, and nobody lends to that.
    for number in [0, RING / 2] {
        pipes[number].1.write_all(&[0])?;
    }
    ready();
    sleep_for_ever()
}

fn forks() -> Never {
    let mut sockets = answered_clients()?;
    ready();
    loop {
        let (reader, writer) = pipe()?;
        if helper()? {
            work_for(WORK);
            process::exit(0);
        }
        drop(writer);
        // Until the child has exited, and so closed the pipe.
        let epoll = Epoll::new(EpollCreateFlags::empty())?;
        epoll.add(&reader, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        epoll.wait(&mut [EpollEvent::empty()], EpollTimeout::NONE)?;
        wait()?;
        answer(&mut sockets[0])?;
        sockets.rotate_left(1);
    }
}

/// A process that does this and exits.
fn spawn_child(work: impl FnOnce()) -> Result<Pid> {
    let (reader, writer) = pipe()?;
    if helper()? {
        announce(writer)?;
        work();
        process::exit(0);
    }
    Ok(Pid::from_raw(announced(reader)?.cast_signed()))
}

fn killed() -> Never {
    // The parent replaces clients; its child serves them.
    let (mut of_clients, mut of_server) = pairs(CLIENTS as usize)?;
    if helper()? {
        drop(of_clients);
        for socket in &of_server {
            socket.set_nonblocking(true)?;
        }
        loop {
            for socket in &mut of_server {
                work_for(WORK);
                // A client may have been killed before it asked.
                let _ = answer(socket);
            }
        }
    }
    drop(of_server);
    ready();
    loop {
        for socket in &mut of_clients {
            let child = spawn_child(|| while ask(socket).is_ok() {})?;
            thread::sleep(WORK);
            kill(child, Signal::SIGKILL)?;
            waitpid(child, None)?;
        }
    }
}

/// Clients come while it serves others.
fn serve_all_users() -> Never {
    let listener = UnixListener::bind(SOCKET)?;
    fs::set_permissions(SOCKET, Permissions::from_mode(0o777))?;
    let epoll = Epoll::new(EpollCreateFlags::empty())?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    let mut sockets: Vec<UnixStream> = Vec::new();
    ready();
    loop {
        let mut events = [EpollEvent::empty(); 64];
        let count = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..count] {
            if event.data() == 0 {
                let socket = listener.accept()?.0;
                sockets.push(socket);
                let number = sockets.len() as u64;
                let last = EpollEvent::new(EpollFlags::EPOLLIN, number);
                epoll.add(&sockets[sockets.len() - 1], last)?;
            } else {
                work_for(WORK);
                answer(&mut sockets[event.data() as usize - 1])?;
            }
        }
    }
}

fn ask_with(clients: u32) -> Never {
    let tombola = Client::open()?;
    for number in 1..=clients {
        if helper()? {
            match ask_with_tickets(&tombola, 100 * number, UnixStream::connect(SOCKET)?)? {}
        }
    }
    ready();
    sleep_for_ever()
}

fn ask_impatiently() -> Never {
    let mut socket = UnixStream::connect(SOCKET)?;
    let wait = TimeSpec::from_duration(Duration::from_micros(50));
    ready();
    loop {
        socket.write_all(&[0])?;
        while ppoll(
            &mut [PollFd::new(socket.as_fd(), PollFlags::POLLIN)],
            Some(wait),
            None,
        )? == 0
        {}
        socket.read_exact(&mut [0])?;
    }
}

fn ask_with_loans() -> Never {
    let client = Client::open()?;
    for _ in 0..2 {
        let (reader, writer) = pipe()?;
        if helper()? {
            announce(writer)?;
            match ask_for_ever(UnixStream::connect(SOCKET)?)? {}
        }
        let asking = announced(reader)?;
        for _ in 1..PLACES {
            client.lend(process::id(), asking, 1, None)?;
        }
    }
    ready();
    burn()
}
