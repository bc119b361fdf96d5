//! Users with base tickets and their busy processes: what a test chooses and the sampler starts.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Economy {
    pub users: Vec<User>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct User {
    pub base_tickets: u32,
    pub processes: Vec<Process>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub tickets: u32,
    pub threads: u32,
    /// A bit for each CPU that the threads may use.
    pub cpus: u64,
}

impl Economy {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("numbers have a form in JSON")
    }
}

impl FromStr for Economy {
    type Err = serde_json::Error;

    fn from_str(json: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(json)
    }
}
