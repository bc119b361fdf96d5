//! A client with many tickets that waits for a server with next to none, in the ways in which programs wait for one another.
//! Neither knows of tickets that are lent.

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use std::fs::File;
use std::io::{Read, Write, pipe};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::process;
use std::thread;
use std::time::Duration;
use tombola_apps::{Mutex, fork, work_for};
use tombola_kernel::calls::Client;

/// Send requests to a server, a process of its own, one after the other, and wait for each answer
#[derive(Parser)]
#[command(version)]
struct Args {
    /// How the client waits for the server
    #[arg(long, value_enum)]
    through: Way,
    /// What the server works for each request
    #[arg(long, value_name = "MS", default_value_t = 3)]
    work: u64,
    /// The client's tickets
    #[arg(long, default_value_t = 800)]
    client: u32,
    /// The server's tickets
    #[arg(long, default_value_t = 1)]
    server: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    /// Two pipes
    Pipe,
    /// A pair of Unix stream sockets
    Stream,
    /// A pair of Unix datagram sockets
    Datagram,
    /// A TCP connection on the loopback device; the server waits with poll
    Tcp,
    /// Two eventfds
    Eventfd,
    /// A mutex that the server holds while it works
    Mutex,
    /// A mutex with priority inheritance
    InheritingMutex,
    /// A new Unix stream connection for each request, which the server gives to a new thread
    Connections,
}

/// 8 bytes, as an eventfd wants.
const MESSAGE: [u8; 8] = [1, 0, 0, 0, 0, 0, 0, 0];

/// One end of a connection: what it sends to, and receives from.
struct End(File, File);

impl End {
    fn of(to: impl Into<OwnedFd>, from: impl Into<OwnedFd>) -> Self {
        Self(File::from(to.into()), File::from(from.into()))
    }

    fn send(&mut self) -> Result<()> {
        self.0.write_all(&MESSAGE).context("the other end is gone")
    }

    fn receive(&mut self) -> Result<()> {
        let mut message = MESSAGE;
        (self.1.read_exact(&mut message)).context("the other end is gone")
    }
}

fn eventfd() -> Result<File> {
    // SAFETY: the call takes no pointer; the descriptor that it returns is new.
    unsafe {
        let fd = libc::eventfd(0, 0);
        anyhow::ensure!(fd >= 0, "cannot make an eventfd");
        Ok(File::from_raw_fd(fd))
    }
}

/// The client's end, and the server's.
fn connection(way: Way) -> Result<(End, End)> {
    Ok(match way {
        Way::Pipe | Way::Mutex | Way::InheritingMutex => {
            let ((request, to), (answer, back)) = (pipe()?, pipe()?);
            (End::of(to, answer), End::of(back, request))
        }
        Way::Stream => {
            let (a, b) = UnixStream::pair()?;
            (End::of(a.try_clone()?, a), End::of(b.try_clone()?, b))
        }
        Way::Datagram => {
            let (a, b) = UnixDatagram::pair()?;
            (End::of(a.try_clone()?, a), End::of(b.try_clone()?, b))
        }
        Way::Tcp => {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let a = TcpStream::connect(listener.local_addr()?)?;
            let (b, _) = listener.accept()?;
            a.set_nodelay(true)?;
            b.set_nodelay(true)?;
            (End::of(a.try_clone()?, a), End::of(b.try_clone()?, b))
        }
        Way::Eventfd => {
            let (request, answer) = (eventfd()?, eventfd()?);
            let client = End::of(request.try_clone()?, answer.try_clone()?);
            (client, End::of(answer, request))
        }
        Way::Connections => unreachable!("each request has its own"),
    })
}

/// Waits in poll for several descriptors, as a server of many clients does.
fn poll(end: &End) {
    let one = |file: &File| libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let mut files = [one(&end.1), one(&end.0)];
    // SAFETY: the array lives through the call, and has as many elements.
    unsafe { libc::poll(files.as_mut_ptr(), files.len() as libc::nfds_t, -1) };
}

fn is_named(name: &std::ffi::CStr, tickets: u32) -> Result<()> {
    // SAFETY: the name ends with a NUL, and lives through the call.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    Client::open()?.set_tickets(process::id(), tickets)?;
    Ok(())
}

/// The connection of a request is new, and so is the thread that answers: neither has waited for the other before.
fn connections(args: &Args, work: Duration) -> Result<()> {
    let name = format!("requests-{}", process::id());
    let address = SocketAddr::from_abstract_name(name)?;
    let listener = UnixListener::bind_addr(&address)?;
    if fork()? {
        is_named(c"server", args.server)?;
        for stream in listener.incoming() {
            let stream = stream?;
            thread::spawn(move || {
                let mut end = End::of(stream.try_clone()?, stream);
                end.receive()?;
                work_for(work);
                end.send()
            });
        }
    }
    is_named(c"client", args.client)?;
    loop {
        let stream = UnixStream::connect_addr(&address)?;
        let mut end = End::of(stream.try_clone()?, stream);
        end.send()?;
        end.receive()?;
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let work = Duration::from_millis(args.work);
    if args.through == Way::Connections {
        return connections(&args, work);
    }
    let locks = matches!(args.through, Way::Mutex | Way::InheritingMutex);
    let mutex = Mutex::new(args.through == Way::InheritingMutex)?;
    let (mut client, mut server) = connection(args.through)?;
    if fork()? {
        is_named(c"server", args.server)?;
        loop {
            if args.through == Way::Tcp {
                poll(&server);
            }
            server.receive()?;
            if locks {
                // The client asks for the lock when it is held.
                mutex.hold(|| {
                    server.send()?;
                    work_for(work);
                    anyhow::Ok(())
                })?;
            } else {
                work_for(work);
                server.send()?;
            }
        }
    }
    is_named(c"client", args.client)?;
    loop {
        client.send()?;
        client.receive()?;
        if locks {
            mutex.hold(|| ());
        }
    }
}
