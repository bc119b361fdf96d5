//! The experiments, by what they are about.

mod cost;
mod cost_economy;
mod error_by_window;
mod film;
mod insulation;
mod inversion;
mod monte_carlo;
mod multi_queue;
mod overhead;
mod programs;
mod query;
mod rate;
mod relative;
mod reservation;
mod rows;
mod scale;
mod short_run;
mod transfer;
mod unhash;
mod web;

use crate::experiment::Experiment;

pub const EXPERIMENTS: &[Experiment] = &[
    rate::RATE,
    rate::RATE_OVER_TIME,
    relative::RELATIVE_RATE,
    relative::RELATIVE_RATE_CHANGE,
    relative::RELATIVE_RATE_LOAD,
    short_run::SHORT_RUN,
    insulation::INSULATION_USER,
    insulation::INSULATION_CURRENCY,
    reservation::PROPORTIONAL,
    reservation::RESERVATION,
    reservation::BEST_EFFORT,
    monte_carlo::MONTE_CARLO,
    query::QUERY,
    transfer::TRANSFER,
    inversion::INVERSION,
    film::VIDEO,
    film::PLAYER,
    web::WEB,
    overhead::OVERHEAD,
    overhead::OVERHEAD_LOOP,
    error_by_window::ERROR_BY_WINDOW,
    error_by_window::ERROR_BY_WINDOW_QUEUES,
    cost::COST,
    cost_economy::COST_ECONOMY,
    multi_queue::MULTI_QUEUE,
    multi_queue::MULTI_QUEUE_REAL,
    scale::SCALE,
    programs::PROGRAMS,
    unhash::THREADS,
    unhash::ORDER,
    unhash::PROCESSES,
    unhash::CACHE,
];

pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
}
