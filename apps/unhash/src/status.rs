//! What a server is about, for whoever asks: one line of JSON to each connection.

use crate::dispatcher::Progress;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::io::Read;
use std::net::{SocketAddr, TcpStream as BlockingStream};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The rate is taken over this time.
pub const SAMPLE: Duration = Duration::from_millis(250);
/// Of more jobs only the number is said.
pub const JOBS_SHOWN: usize = 100;
const READ_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Since it was started.
    pub seconds: u64,
    pub workers: usize,
    pub order: String,
    /// Open now.
    pub connections: u64,
    /// That have not ended.
    pub jobs: usize,
    pub tried_each_second: u64,
    /// Numbers, since it was started.
    pub tried: u64,
    /// Requests that got their number, of which so many from the cache, and so many by joining another's job.
    pub answered: u64,
    pub remembered: u64,
    pub joined: u64,
    /// Requests that were told that nothing was found.
    pub in_vain: u64,
    /// Clients that were reset while they waited.
    pub gone: u64,
    /// Attempts to take a connection that failed, for want of file descriptors mostly.
    pub not_taken: u64,
    pub in_work: Vec<Progress>,
}

pub(crate) async fn send(mut client: TcpStream, status: &Status) {
    let mut text = serde_json::to_string(status).expect("it has no maps");
    text.push('\n');
    // Who asked may have gone.
    let _ = client.write_all(text.as_bytes()).await;
    let _ = client.shutdown().await;
}

/// Asks a server.
pub fn ask(address: SocketAddr) -> anyhow::Result<Status> {
    let mut server = BlockingStream::connect(address)?;
    server.set_read_timeout(Some(READ_MAX))?;
    let mut text = String::new();
    server.read_to_string(&mut text)?;
    Ok(serde_json::from_str(&text)?)
}

impl Display for Status {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let million = |numbers: u64| numbers as f64 / 1e6;
        writeln!(
            f,
            "up {} s, {} workers, order {}; {:.1} million numbers/s, {:.1} million so far",
            self.seconds,
            self.workers,
            self.order,
            million(self.tried_each_second),
            million(self.tried)
        )?;
        write!(
            f,
            "{} connections, {} jobs; {} answered ({} from the cache, {} joined), {} in vain, {} gone, {} not taken",
            self.connections,
            self.jobs,
            self.answered,
            self.remembered,
            self.joined,
            self.in_vain,
            self.gone,
            self.not_taken
        )?;
        for job in &self.in_work {
            let units = job.range.end - job.range.start;
            write!(
                f,
                "\n{:.16}  priority {:3}  {:5.1} % of {units} tried, from {}",
                job.digest,
                job.priority,
                job.tried as f64 / units as f64 * 100.0,
                job.range.start
            )?;
        }
        Ok(())
    }
}
