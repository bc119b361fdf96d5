//! Connections: one request each, one answer, and the end.
//!
//! Whatever a client sends, it gets an answer or a closed connection:
//!
//! | the client | gets |
//! |---|---|
//! | sends a request | the number, or [`NOT_FOUND`] |
//! | sends a request and closes its half | the same |
//! | asks for an empty, a reversed or too long a range | [`NOT_FOUND`] at once |
//! | asks for what is not found within `time_max` | [`NOT_FOUND`] then |
//! | sends more than a request | the answer; the rest is thrown away |
//! | sends less, and closes, or takes longer than `read_max` | a closed connection |
//! | resets the connection | nothing; nothing more is done for it |
//! | closes it without a reset | the same as who closes its half, which looks alike |
//! | comes when there are no more file descriptors | to wait, until another has gone |
//! | has connected when the server is told to stop | its answer, if it asks within a second; after `grace` [`NOT_FOUND`] |

use crate::dispatcher::{Dispatcher, Reply};
use crate::output::warn;
use crate::protocol::{NOT_FOUND, REQUEST_BYTES, Request};
use crate::status::{self, Status};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tombola_pool::Refused;

/// Connections that the system keeps for us until we take them, if it may keep so many (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;
/// When no connection can be taken, for want of file descriptors mostly, another attempt is made after so long.
const AGAIN: Duration = Duration::from_millis(10);
/// When the server is told to stop, how long it waits for requests of those who have connected already.
const LAST_ORDERS: Duration = Duration::from_secs(1);
/// And how long for workers, which look whether they are wanted after milliseconds; a process might not answer.
const CLOSING_MAX: Duration = Duration::from_secs(5);
/// How long and for how much a client that was answered is listened to: closing with something unread takes the answer back.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 1 << 16;

#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a client may take to send its request.
    pub read_max: Duration,
    /// How long a request may take.
    pub time_max: Duration,
    /// How long those that are being served may take when the server stops.
    pub grace: Duration,
}

pub struct Server {
    dispatcher: Dispatcher,
    patience: Patience,
    /// Places at the dispatcher: who finds none waits for one.
    places: Semaphore,
    began: Instant,
    connections: AtomicU64,
    answered: AtomicU64,
    in_vain: AtomicU64,
    gone: AtomicU64,
    not_taken: AtomicU64,
}

/// Listens where it is told; port 0 is any that is free.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Those whom the system has let in already. They may have sent their requests.
fn waiting(listener: TcpListener) -> Vec<TcpStream> {
    let accept = |listener: std::net::TcpListener| {
        let taken = std::iter::from_fn(move || listener.accept().ok());
        let taken = taken.map(|(client, _)| {
            client.set_nonblocking(true)?;
            TcpStream::from_std(client)
        });
        taken.flatten().collect()
    };
    listener.into_std().map(accept).unwrap_or_default()
}

impl Server {
    #[must_use]
    pub fn new(dispatcher: Dispatcher, patience: Patience) -> Self {
        Self {
            places: Semaphore::new(dispatcher.settings().jobs_max.min(Semaphore::MAX_PERMITS)),
            dispatcher,
            patience,
            began: Instant::now(),
            connections: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            in_vain: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            not_taken: AtomicU64::new(0),
        }
    }

    /// Serves until it is told to stop, or nobody is left to tell it. Then nothing new is taken; whoever has sent its request is
    /// answered, in vain after the grace or when told to stop once more.
    pub async fn run(
        self: Arc<Self>,
        listener: TcpListener,
        status: Option<TcpListener>,
        mut stop: mpsc::Receiver<()>,
    ) {
        let (stopping, stopped) = watch::channel(false);
        let status = status.map(|status| tokio::spawn(self.clone().report(status)));
        let mut clients = JoinSet::new();
        let mut takes = true;
        loop {
            tokio::select! {
                _ = stop.recv() => break,
                Some(_) = clients.join_next() => {}
                taken = listener.accept() => match taken {
                    Ok((client, _)) => {
                        takes = true;
                        clients.spawn(self.clone().attend(client, stopped.clone()));
                    }
                    Err(error) => {
                        self.not_taken.fetch_add(1, Relaxed);
                        if takes {
                            warn(format_args!("cannot take a connection: {error}; trying on"));
                        }
                        takes = false;
                        sleep(AGAIN).await;
                    }
                },
            }
        }
        for client in waiting(listener) {
            clients.spawn(self.clone().attend(client, stopped.clone()));
        }
        stopping.send_replace(true);
        let all_answered = async { while clients.join_next().await.is_some() {} };
        tokio::select! {
            () = all_answered => {}
            () = sleep(self.patience.grace) => {}
            Some(()) = stop.recv() => {}
        }
        let server = self.clone();
        let closing = tokio::task::spawn_blocking(move || server.dispatcher.close());
        while clients.join_next().await.is_some() {}
        if timeout(CLOSING_MAX, closing).await.is_err() {
            warn("a search does not end; it is left alone");
        }
        status.inspect(|status| status.abort());
    }

    async fn attend(self: Arc<Self>, client: TcpStream, mut stopped: watch::Receiver<bool>) {
        self.connections.fetch_add(1, Relaxed);
        let stopped = async move {
            // It fails when there is nobody left to stop us.
            let _ = stopped.wait_for(|stopped| *stopped).await;
            sleep(LAST_ORDERS).await;
        };
        // An error here is the client's: it has gone.
        let _ = self.converse(client, stopped).await;
        self.connections.fetch_sub(1, Relaxed);
    }

    async fn converse(
        &self,
        mut client: TcpStream,
        stopped: impl Future<Output = ()>,
    ) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut bytes = [0; REQUEST_BYTES];
        tokio::select! {
            biased;
            read = timeout(self.patience.read_max, client.read_exact(&mut bytes)) => read??,
            () = stopped => return Ok(()),
        };
        let request = Request::from_bytes(&bytes);
        let answer = tokio::select! {
            answer = timeout(self.patience.time_max, self.answer(&request)) => {
                answer.unwrap_or(NOT_FOUND)
            }
            error = client.ready(Interest::ERROR) => {
                self.gone.fetch_add(1, Relaxed);
                error?;
                return Ok(());
            }
        };
        match answer {
            NOT_FOUND => self.in_vain.fetch_add(1, Relaxed),
            _ => self.answered.fetch_add(1, Relaxed),
        };
        client.write_all(&answer.to_be_bytes()).await?;
        client.shutdown().await?;
        let unread = async {
            let mut rest = [0; 1024];
            let mut bytes = 0;
            while bytes < LINGER_BYTES {
                match client.read(&mut rest).await? {
                    0 => break,
                    more => bytes += more,
                }
            }
            io::Result::Ok(())
        };
        timeout(LINGER, unread).await?
    }

    async fn answer(&self, request: &Request) -> u64 {
        if let Some(number) = self.dispatcher.known(request) {
            return number;
        }
        // There are no more jobs than places.
        let _place = self.places.acquire().await;
        match self.dispatcher.ask(request) {
            Ok(Reply::Now(number)) => number,
            Ok(Reply::Later(mut later)) => later.answer().await,
            Err(Refused::Closed) => NOT_FOUND,
            Err(refused) => {
                warn(format_args!(
                    "a request is answered as if in vain: {refused}"
                ));
                NOT_FOUND
            }
        }
    }

    /// To whoever connects, what the server is about.
    async fn report(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((client, _)) => {
                    let server = self.clone();
                    tokio::spawn(async move { status::send(client, &server.status().await).await });
                }
                Err(_) => sleep(AGAIN).await,
            }
        }
    }

    async fn status(&self) -> Status {
        let (began, before) = (Instant::now(), self.dispatcher.counts().tried);
        sleep(status::SAMPLE).await;
        let counts = self.dispatcher.counts();
        let tried = (counts.tried - before) as f64;
        let settings = self.dispatcher.settings();
        Status {
            seconds: self.began.elapsed().as_secs(),
            workers: settings.workers,
            order: settings.order.name().to_owned(),
            connections: self.connections.load(Relaxed),
            jobs: self.dispatcher.jobs(),
            tried_each_second: (tried / began.elapsed().as_secs_f64()) as u64,
            tried: counts.tried,
            answered: self.answered.load(Relaxed),
            remembered: counts.remembered,
            joined: counts.joined,
            in_vain: self.in_vain.load(Relaxed),
            gone: self.gone.load(Relaxed),
            not_taken: self.not_taken.load(Relaxed),
            in_work: self.dispatcher.progress(status::JOBS_SHOWN),
        }
    }
}
