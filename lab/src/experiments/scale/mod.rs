//! Run queues of different sizes on simulated machines of 4 to 4096 CPUs: how exact shares are, how often tasks move, and how
//! long locks are held.

mod economy;
mod locks;
mod pairs;
mod picture;
mod shares;

use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use anyhow::Result;

pub const SCALE: Experiment = Experiment {
    name: "scale",
    about: "Shares, moves and locks on simulated machines of 4 to 4096 CPUs, by which CPUs share a run queue",
    source: "docs/scale.md",
    method: Method::Simulation(run),
};

fn run(bench: &Bench) -> Result<Vec<Row>> {
    let locks = locks::measure(&locks::places())?;
    bench.write("locks.csv", &locks::series(&locks))?;
    let shares = shares::measure(&shares::places(), shares::SECONDS)?;
    bench.write("series.csv", &shares::series(&shares))?;
    picture::write(&bench.out, SCALE.name, &shares, &locks)?;
    let mut rows = shares::rows(&shares);
    rows.extend(locks::rows(&locks));
    Ok(rows)
}
