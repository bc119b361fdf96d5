//! The table of `tombola simulate`.

use crate::plan::Loaded;
use crate::table;
use tombola_sim::plan::{Plan, Report, Row};
use tombola_sim::{QueueLock, RunQueueCounts};

const HEADINGS: [&str; 11] = [
    "USER / CURRENCY / TASK",
    "COUNT",
    "TICKETS",
    "ENTITLED %",
    "RECEIVED %",
    "WORST ms",
    "WAKE-UPS",
    "P99 ms",
    "MAX ms",
    "SWITCHES",
    "MIGRATIONS",
];

pub fn text(loaded: &Loaded, report: &Report) -> String {
    let mut lines = Lines {
        plan: &loaded.plan,
        report,
        rows: vec![HEADINGS.map(String::from).to_vec()],
    };
    lines.add_currencies(None, 0);
    let (cpus, seconds) = (report.cpus, report.span_ns as f64 / 1e9);
    format!(
        "scheduler   {}, seed {}\nswitches    {}, of which migrations {}\n{}{}\n{}\n\
         % of {cpus} CPUs over {seconds:.3} s; entitled: what the tickets give, as far as it can be used\n",
        loaded.scheduler.name(),
        report.seed,
        report.switches,
        report.migrations,
        (report.run_queues.filter(|of| of.count > 1))
            .map_or(String::new(), |of| run_queues(report, of)),
        (report.busiest_lock).map_or(String::new(), |lock| busiest_lock(report, lock)),
        table::format(&lines.rows),
    )
}

fn run_queues(report: &Report, of: RunQueueCounts) -> String {
    let seconds = report.span_ns as f64 / 1e9 * report.cpus as f64;
    format!(
        "run queues  {}, moves {:.2} a second and CPU, slices {}\n",
        of.count,
        of.moves as f64 / seconds,
        of.slices
    )
}

fn busiest_lock(report: &Report, lock: QueueLock) -> String {
    format!(
        "busy lock   of run queue {}, held {:.2} % of the time, mean wait {:.3} us\n",
        lock.queue,
        100.0 * lock.held_ns as f64 / report.span_ns as f64,
        lock.waited_ns as f64 / 1e3 / lock.takes as f64
    )
}

struct Lines<'a> {
    plan: &'a Plan,
    report: &'a Report,
    rows: Vec<Vec<String>>,
}

impl Lines<'_> {
    /// The currencies of one parent, each with its tasks and the currencies in it.
    fn add_currencies(&mut self, parent: Option<usize>, depth: usize) {
        let (plan, report) = (self.plan, self.report);
        let currencies = plan.currencies.iter().zip(&report.currencies);
        for (index, (currency, row)) in currencies.enumerate() {
            if currency.parent != parent {
                continue;
            }
            self.add(depth, None, currency.tickets, row);
            let tasks = plan.tasks.iter().zip(&report.tasks);
            for (task, row) in tasks.filter(|(task, _)| task.currency == index) {
                self.add(depth + 1, Some(task.count), task.tickets, row);
            }
            self.add_currencies(Some(index), depth + 1);
        }
    }

    fn add(&mut self, depth: usize, count: Option<usize>, tickets: u32, row: &Row) {
        let whole_ns = self.report.span_ns as f64 * self.report.cpus as f64;
        let percent = |ns: u64| format!("{:.2}", 100.0 * ns as f64 / whole_ns);
        let ms = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
        let after_wakeups = |ns: u64| match row.latency.wakeups {
            0 => "-".to_owned(),
            _ => ms(ns),
        };
        self.rows.push(vec![
            format!("{:1$}{2}", "", 2 * depth, row.name),
            count.map_or(String::new(), |count| count.to_string()),
            tickets.to_string(),
            percent(row.entitled_ns),
            percent(row.received_ns),
            ms(row.worst_ns),
            row.latency.wakeups.to_string(),
            after_wakeups(row.latency.p99_ns),
            after_wakeups(row.latency.max_ns),
            row.switches.to_string(),
            row.migrations.to_string(),
        ]);
    }
}
