//! `tombola trace`: one row for each run of a thread.

use crate::names::{self, Names};
use serde::Serialize;
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use tombola_kernel::abi::TracedRun;

#[derive(Serialize)]
struct Row<'a> {
    at_ns: u64,
    cpu: u32,
    user: &'a str,
    uid: u32,
    process: &'a str,
    pid: u32,
    tid: u32,
    /// The process that paid for the run.
    payer: u32,
    ran_ns: u64,
    tickets: u32,
    draw_tickets: u32,
    base_value: f64,
    compensation: f64,
    kept: bool,
    preempted: bool,
}

pub struct Printer {
    json: bool,
    /// Rows still to be printed; None: without limit.
    left: Option<u64>,
    began_ns: Option<u64>,
    users: Names,
    processes: HashMap<u32, String>,
}

impl Printer {
    pub fn new(json: bool, rows: Option<u64>) -> Self {
        Self {
            json,
            left: rows,
            began_ns: None,
            users: Names::default(),
            processes: HashMap::new(),
        }
    }

    fn heading(out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{:>12} {:>3} {:>10} {:>16} {:>7} {:>7} {:>9} {:>7} {:>7} {:>7} {:>7}  END",
            "TIME s",
            "CPU",
            "USER",
            "PROCESS",
            "TID",
            "PAYER",
            "RAN ms",
            "TICKETS",
            "OF",
            "VALUE %",
            "COMP %"
        )
    }

    /// Breaks after the last row requested, or when the output's reader has exited.
    pub fn print(&mut self, run: &TracedRun, out: &mut impl Write) -> ControlFlow<()> {
        if self.left == Some(0) || self.write(run, out).is_err() {
            return ControlFlow::Break(());
        }
        self.left = self.left.map(|left| left - 1);
        match self.left {
            Some(0) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn write(&mut self, run: &TracedRun, out: &mut impl Write) -> io::Result<()> {
        if self.began_ns.is_none() && !self.json {
            Self::heading(out)?;
        }
        let began_ns = *self.began_ns.get_or_insert(run.at_ns);
        let process = self
            .processes
            .entry(run.tgid)
            .or_insert_with(|| names::process(run.tgid));
        let row = row(run, self.users.user(run.uid), process);
        if self.json {
            serde_json::to_writer(&mut *out, &row)?;
            return writeln!(out);
        }
        writeln!(
            out,
            "{:>12.6} {:>3} {:>10} {:>16} {:>7} {:>7} {:>9.3} {:>7} {:>7} {:>7.2} {:>7.1}  {}",
            run.at_ns.saturating_sub(began_ns) as f64 / 1e9,
            row.cpu,
            row.user,
            row.process,
            row.tid,
            payer(&row),
            row.ran_ns as f64 / 1e6,
            row.tickets,
            row.draw_tickets,
            row.base_value * 100.0,
            row.compensation * 100.0,
            end(&row),
        )
    }
}

fn row<'a>(run: &TracedRun, user: &'a str, process: &'a str) -> Row<'a> {
    const PPM: f64 = 1e6;
    Row {
        at_ns: run.at_ns,
        cpu: run.cpu,
        user,
        uid: run.uid,
        process,
        pid: run.tgid,
        tid: run.tid,
        payer: run.payer,
        ran_ns: run.ran_ns,
        tickets: run.tickets,
        draw_tickets: run.draw_tickets,
        base_value: f64::from(run.base_value_ppm) / PPM,
        compensation: f64::from(run.compensation_ppm) / PPM,
        kept: run.kept != 0,
        preempted: run.preempted != 0,
    }
}

// Mostly the process itself: then nothing is shown.
fn payer(row: &Row) -> String {
    match row.payer == row.pid {
        true => "-".into(),
        false => row.payer.to_string(),
    }
}

// How the run ended: the thread was drawn again, or a wake-up or a yield ended the slice early.
fn end(row: &Row) -> &'static str {
    match (row.kept, row.preempted) {
        (true, _) => "kept",
        (false, true) => "preempted",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: TracedRun = TracedRun {
        at_ns: 1_000_000_000,
        ran_ns: 1_500_000,
        cpu: 1,
        tid: 7,
        tgid: 7,
        uid: 0,
        payer: 7,
        tickets: 100,
        draw_tickets: 400,
        base_value_ppm: 125_000,
        compensation_ppm: 1_000_000,
        kept: 1,
        preempted: 0,
    };

    #[test]
    fn a_row_of_json_has_ratios_and_a_name() {
        let mut out = Vec::new();
        let _ = Printer::new(true, None).print(&RUN, &mut out);
        let row: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(row["user"], "root");
        assert_eq!(row["base_value"], 0.125);
        assert_eq!(row["compensation"], 1.0);
        assert_eq!(row["kept"], true);
    }

    #[test]
    fn it_ends_with_the_last_row_requested() {
        let mut printer = Printer::new(false, Some(2));
        let mut out = Vec::new();
        assert!(printer.print(&RUN, &mut out).is_continue());
        assert!(printer.print(&RUN, &mut out).is_break());
        assert!(printer.print(&RUN, &mut out).is_break());
        let heading_and_rows = out.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(heading_and_rows, 1 + 2);
    }
}
