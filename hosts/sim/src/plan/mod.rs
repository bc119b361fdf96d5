//! Plans: which tasks run on a simulated machine, with which tickets, and what they would get.

mod accounts;
mod latencies;
mod model;
mod report;
mod run;

pub use model::{CLIENTS_MAX, Change, Currency, Kind, Phase, Plan, Program, Step, Task};
pub use report::{Latency, Report, Row, Sample};
pub use run::{TooManyTasks, run};
