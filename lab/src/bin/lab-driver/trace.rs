//! `tombola trace` beside the clients; real-time like the driver that starts it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command};
use tombola_lab::bench::guest::{now_ns, sleep_until};
use tombola_lab::plan::Draw;

pub struct Trace {
    child: Child,
    clients: HashMap<i64, usize>,
    file: String,
}

impl Trace {
    pub fn start(pids: &[i32]) -> io::Result<Self> {
        let file = "/tmp/trace".to_owned();
        let child = Command::new("tombola")
            .args(["trace", "--json"])
            .stdout(File::create(&file)?)
            .spawn()?;
        sleep_until(now_ns() + 500_000_000);
        let clients = pids
            .iter()
            .enumerate()
            .map(|(i, &pid)| (i64::from(pid), i))
            .collect();
        Ok(Self {
            child,
            clients,
            file,
        })
    }

    pub fn stop(mut self) -> io::Result<Vec<Draw>> {
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        self.child.wait()?;
        let mut draws = Vec::new();
        for line in BufReader::new(File::open(&self.file)?).lines() {
            let row: serde_json::Value = serde_json::from_str(&line?)?;
            let Some(&client) = row["pid"].as_i64().and_then(|pid| self.clients.get(&pid)) else {
                continue;
            };
            let mut draw: Draw = serde_json::from_value(row)?;
            draw.client = client;
            draws.push(draw);
        }
        Ok(draws)
    }
}
