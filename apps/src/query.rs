//! A text-search server and its clients (Waldspurger & Weihl 1994, 5.3). The server has a thread for each client; neither knows
//! of tickets that are lent.

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use fastrand::Rng;
use std::fs::remove_file;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tombola_apps::{Progress, Times, is_stopped, monotonic, sleep_until, stop_on_request};

/// Search a text for a word, as a server, or ask the server again and again
#[derive(Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    what: What,
    /// The server's socket
    #[arg(long, global = true, default_value = "/tmp/query.socket")]
    socket: PathBuf,
    /// While a client runs, keep the number of its answers in this file: 8 bytes, little endian
    #[arg(long, global = true)]
    progress: Option<PathBuf>,
}

#[derive(Subcommand)]
enum What {
    /// Answer queries, each client's in a thread of its own, until all clients are gone
    ///
    /// When all clients have connected, they begin at the same time.
    Serve {
        #[arg(long, default_value_t = 3)]
        clients: usize,
        /// Search the text so many times for each query, to choose how much CPU time a query needs
        #[arg(long, default_value_t = 3)]
        passes: u32,
    },
    /// Send a query, wait for the answer, and so on
    Ask {
        /// Exit after this many queries; 0: never
        #[arg(long, default_value_t = 0)]
        queries: u64,
        /// At the end, write each query's response time to this file: a line each, in microseconds
        #[arg(long)]
        times: Option<PathBuf>,
    },
}

const TEXT_BYTES: usize = 4_600_000;
const WORD: &str = "lottery";
/// Shakespeare's plays, which the published server searched, have the word as often.
const OCCURRENCES: usize = 8;
/// From when all have connected until they begin.
const BEGIN_AFTER: Duration = Duration::from_millis(500);

/// Words of random letters, the same in each run. None of them is the word that is looked for, except where it is put.
fn text() -> Vec<u8> {
    let mut random = Rng::with_seed(1);
    let mut text = Vec::with_capacity(TEXT_BYTES);
    while text.len() < TEXT_BYTES {
        let letters = random.usize(2..9);
        text.extend((0..letters).map(|_| b"etaoinshrdlu"[random.usize(..12)]));
        text.push(b' ');
    }
    text.truncate(TEXT_BYTES);
    for number in 0..OCCURRENCES {
        let at = (2 * number + 1) * TEXT_BYTES / (2 * OCCURRENCES);
        text[at..at + WORD.len()].copy_from_slice(WORD.as_bytes());
    }
    text
}

/// Letter case does not matter; the text has lower-case letters only.
fn occurrences(text: &[u8], word: &[u8]) -> usize {
    let word = word.to_ascii_lowercase();
    let Some((first, rest)) = word.split_first() else {
        return 0;
    };
    let starts = text
        .iter()
        .enumerate()
        .filter(|(_, letter)| *letter == first);
    starts
        .filter(|(at, _)| text[at + 1..].starts_with(rest))
        .count()
}

fn serve(socket: &Path, clients: usize, passes: u32) -> Result<()> {
    let text = Arc::new(text());
    let _ = remove_file(socket);
    let listener = UnixListener::bind(socket)
        .with_context(|| format!("cannot make the socket {}", socket.display()))?;
    let streams = (0..clients).map(|_| Ok(listener.accept()?.0));
    let streams: Vec<UnixStream> = streams.collect::<Result<_>>()?;
    let begin = monotonic() + BEGIN_AFTER;
    let threads = streams.into_iter().map(|stream| {
        let text = Arc::clone(&text);
        thread::spawn(move || answer(&text, stream, begin, passes))
    });
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        thread.join().expect("no thread panics")?;
    }
    Ok(())
}

/// Tells the client when to begin, and answers until it closes the connection.
fn answer(text: &[u8], mut stream: UnixStream, begin: Duration, passes: u32) -> Result<()> {
    let from = BufReader::new(stream.try_clone()?);
    send(&mut stream, &begin.as_nanos().to_string())?;
    for word in from.lines() {
        let word = word?;
        let mut found = 0;
        for _ in 0..passes {
            found = occurrences(std::hint::black_box(text), word.as_bytes());
        }
        send(&mut stream, &found.to_string())?;
    }
    Ok(())
}

/// A line, at once.
fn send(to: &mut UnixStream, line: &str) -> std::io::Result<()> {
    to.write_all(format!("{line}\n").as_bytes())
}

fn connect(socket: &Path) -> Result<UnixStream> {
    loop {
        match UnixStream::connect(socket) {
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::ConnectionRefused].contains(&error.kind()) =>
            {
                ensure!(!is_stopped(), "there was no server at {}", socket.display());
                sleep_until(monotonic() + Duration::from_millis(10));
            }
            other => {
                return other.with_context(|| format!("cannot connect to {}", socket.display()));
            }
        }
    }
}

/// None: the server is gone.
fn receive(from: &mut BufReader<UnixStream>) -> Result<Option<String>> {
    let mut line = String::new();
    let bytes = from.read_line(&mut line)?;
    Ok((bytes > 0).then(|| line.trim_end().to_owned()))
}

fn ask(socket: &Path, queries: u64, times: &mut Times) -> Result<()> {
    let mut to = connect(socket)?;
    let mut from = BufReader::new(to.try_clone()?);
    let begin_ns = receive(&mut from)?.context("the server is gone")?;
    let mut asked = Duration::from_nanos(begin_ns.parse()?);
    sleep_until(asked);
    while !is_stopped() && (queries == 0 || times.count() < queries) {
        if send(&mut to, WORD).is_err() {
            break;
        }
        let Some(found) = receive(&mut from)? else {
            break;
        };
        ensure!(found == OCCURRENCES.to_string(), "a wrong answer: {found}");
        let answered = monotonic();
        times.add(answered - asked);
        asked = answered;
    }
    Ok(())
}

fn main() -> Result<()> {
    let args = Args::parse();
    let progress = Progress::new(args.progress.as_deref())?;
    match args.what {
        What::Serve { clients, passes } => serve(&args.socket, clients, passes),
        What::Ask { queries, times } => {
            stop_on_request();
            let mut times = Times::new(progress, times.as_deref())?;
            ask(&args.socket, queries, &mut times)?;
            times.write()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_the_word_as_often_as_it_should() {
        let text = text();
        assert_eq!(text.len(), TEXT_BYTES);
        assert_eq!(occurrences(&text, WORD.as_bytes()), OCCURRENCES);
        assert_eq!(occurrences(&text, b"Lottery"), OCCURRENCES);
        assert_eq!(occurrences(&text, b"lotteries"), 0);
    }
}
