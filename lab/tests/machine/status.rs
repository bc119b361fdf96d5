//! What `tombola status --json --all` says of one window of time.

use serde_json::Value;

pub fn received(of: &Value) -> f64 {
    of["received_cpus"].as_f64().expect("a number")
}

pub fn users<'a>(status: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let users = status["tombola"]["users"].as_array();
    let users = users.expect("users are a list");
    users.iter().filter(move |user| user["user"] == name)
}

/// CPUs that a user received.
pub fn user(status: &Value, name: &str) -> f64 {
    users(status, name).map(received).sum()
}

fn processes_of<'a>(status: &'a Value, user: &'a str) -> impl Iterator<Item = &'a Value> {
    users(status, user).flat_map(|user| user["processes"].as_array().expect("processes are a list"))
}

/// CPUs that a user's processes called `name` received, each, in ascending order.
pub fn processes(status: &Value, user: &str, name: &str) -> Vec<f64> {
    let mut cpus: Vec<f64> = processes_of(status, user)
        .filter(|process| process["name"] == name)
        .map(received)
        .collect();
    cpus.sort_by(f64::total_cmp);
    cpus
}

/// What others used on the tickets of a user's processes.
pub fn lent(status: &Value, name: &str) -> f64 {
    users(status, name).map(lent_cpus).sum()
}

/// The same of those with so many tickets.
pub fn lent_by(status: &Value, name: &str, tickets: u64) -> f64 {
    processes_of(status, name)
        .filter(|process| process["tickets"] == tickets)
        .map(lent_cpus)
        .sum()
}

fn lent_cpus(of: &Value) -> f64 {
    of["lent_cpus"].as_f64().expect("a number")
}

pub fn counter(status: &Value, name: &str) -> f64 {
    let counters = &status["tombola"]["counters"];
    counters[name].as_f64().expect("a number")
}
