//! Three web servers of three users, asked for a small file over more and more connections (Zepp 2012, 5.6).
//!
//! The thesis had Apache, and httperf on three other computers, which asked at a rate that rose. Here they are nginx and wrk, all
//! on one CPU, in counted time. wrk asks again as soon as it has an answer, so its rate rises until the server is saturated and
//! no further: the published servers lost time to requests that they could not answer any more.

use super::rows::{compared_row, within_row};
use crate::bench::boot::{self, Boot, own_programs};
use crate::bench::figures;
use crate::bench::programs::{NGINX_CONF, fetched_programs};
use crate::bench::scheduler::{EEVDF, LOTTERY, STRIDE, Scheduler};
use crate::experiment::{Bench, Experiment, Method};
use crate::result::Row;
use crate::vm::{Image, Kernel, Mode, find_program};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use tombola_plot::{self as plot, Curve, Panel, SeriesLabelPosition};

pub const WEB: Experiment = Experiment {
    name: "web",
    about: "three nginx of three users with 400:200:200 base tickets, asked by wrk over 1 to 16 connections each",
    source: "Lottery scheduling in Linux, 2012",
    method: Method::Own(run),
};

struct Setting {
    name: &'static str,
    scheduler: &'static Scheduler,
    /// How the servers get their parts: BY in web.sh.
    by: &'static str,
}

const SETTINGS: [Setting; 4] = [
    Setting {
        name: "stride",
        scheduler: STRIDE,
        by: "tickets",
    },
    Setting {
        name: "lottery",
        scheduler: LOTTERY,
        by: "tickets",
    },
    Setting {
        name: "cpu.weight",
        scheduler: EEVDF,
        by: "weight",
    },
    Setting {
        name: "nice",
        scheduler: EEVDF,
        by: "nice",
    },
];

const USERS: [&str; 3] = ["alice", "bob", "carol"];
const TICKETS: [f64; 3] = [400.0, 200.0, 200.0];
/// Replies a second, read from figures 43 to 45.
const PUBLISHED: [f64; 3] = [1500.0, 800.0, 800.0];
const CONNECTIONS: [u32; 5] = [1, 2, 4, 8, 16];
/// From here on more connections bring no more replies.
const SATURATED: u32 = 4;
const SECONDS: u32 = 10;
const ERROR_MAX: f64 = 0.03;

/// What the servers did while they were asked over so many connections.
struct Load {
    connections: u32,
    /// A second, of each. wrk may go on for a tenth of a second more, by which it divides, too: each by another time.
    replies: [f64; 3],
    /// Requests that were not answered within 2 s.
    errors: [f64; 3],
}

fn run(bench: &Bench) -> Result<Vec<Row>> {
    let boots: Vec<Boot> = SETTINGS.iter().map(boot).collect();
    let printed = boot::run_all(&boots, &own_programs()?)?;
    let mut measured: Vec<Vec<Load>> = Vec::new();
    for texts in &printed {
        // After what runs before the start, and the start of the servers.
        let loads = CONNECTIONS.iter().zip(texts.iter().skip(2));
        let loads = loads.map(|(&connections, text)| {
            let text = text.as_deref().context("the scheduler was ejected")?;
            Load::read(connections, text)
                .with_context(|| format!("wrk did not print its figures: {text}"))
        });
        measured.push(loads.collect::<Result<_>>()?);
    }
    bench.write("series.csv", &series(&measured))?;
    let panels: Vec<Panel> = SETTINGS.iter().zip(&measured).map(panel).collect();
    plot::write(&bench.out, WEB.name, |area| plot::panels(area, &panels))?;
    Ok(SETTINGS.iter().zip(&measured).flat_map(rows).collect())
}

fn boot(setting: &Setting) -> Boot {
    let loads = CONNECTIONS.iter();
    let loads = loads.map(|connections| format!("load {SECONDS} {connections}"));
    Boot {
        scheduler: setting.scheduler,
        kernel: Kernel::Newest,
        cpus: 1,
        caches: 1,
        memory_mib: 1024,
        mode: Mode::seeded(0),
        timed: false,
        tools,
        before: vec![format!("BY={}; . /lab/web.sh", setting.by)],
        commands: ["serve_all".to_owned()].into_iter().chain(loads).collect(),
    }
}

fn tools(image: &mut Image) -> Result<()> {
    fetched_programs(image, &["/usr/bin/wrk", "/usr/sbin/nginx"])?;
    image.program(&find_program("nice")?)?;
    image.file("/lab/web.sh", include_str!("web.sh"), 0o644);
    image.file("/lab/nginx.conf", NGINX_CONF, 0o644);
    Ok(())
}

impl Load {
    /// From lines that begin with the server's number.
    fn read(connections: u32, text: &str) -> Option<Self> {
        let of = |server: usize| {
            let label = format!("server {server}: ");
            let lines = text.lines().filter_map(|line| line.strip_prefix(&label));
            lines.collect::<Vec<_>>().join("\n")
        };
        let all = [of(1), of(2), of(3)];
        let each = |read: figures::Read| -> Option<[f64; 3]> {
            let figures: Option<Vec<f64>> = all.iter().map(|text| read(text)).collect();
            figures?.try_into().ok()
        };
        Some(Self {
            connections,
            replies: each(figures::wrk_answers)?.map(|answers| answers / f64::from(SECONDS)),
            errors: each(figures::wrk_errors)?,
        })
    }
}

fn series(measured: &[Vec<Load>]) -> String {
    let mut text = String::from("scheduler,connections,user,replies_per_s,errors\n");
    for (setting, loads) in SETTINGS.iter().zip(measured) {
        for load in loads {
            for ((user, replies), errors) in USERS.iter().zip(load.replies).zip(load.errors) {
                let (name, connections) = (setting.name, load.connections);
                writeln!(text, "{name},{connections},{user},{replies:.2},{errors}")
                    .expect("strings take all");
            }
        }
    }
    text
}

fn rows((setting, loads): (&Setting, &Vec<Load>)) -> Vec<Row> {
    let saturated: Vec<&Load> = loads
        .iter()
        .filter(|load| load.connections >= SATURATED)
        .collect();
    let count = saturated.len();
    // The load that is furthest from what is due counts.
    let ratio = |a: usize, b: usize| {
        let due = TICKETS[a] / TICKETS[b];
        let off = |ratio: &f64| (ratio / due - 1.0).abs();
        let ratios = saturated
            .iter()
            .map(|load| load.replies[a] / load.replies[b]);
        let furthest = ratios.max_by(|x, y| off(x).total_cmp(&off(y)));
        let measured = furthest.unwrap_or(f64::NAN);
        let (one, other) = (USERS[a], USERS[b]);
        let name = format!(
            "{}: {one}'s replies to {other}'s, furthest of {count} loads",
            setting.name
        );
        let row = match setting.name {
            "stride" => within_row(name, measured, due, ERROR_MAX, None),
            _ => compared_row(name, measured, due),
        };
        Row {
            published: Some(PUBLISHED[a] / PUBLISHED[b]),
            ..row
        }
    };
    let replies = saturated.iter().flat_map(|load| load.replies).sum::<f64>();
    let errors = saturated.iter().flat_map(|load| load.errors).sum::<f64>();
    let told = |what: &str, measured| Row {
        name: format!("{}: {what}", setting.name),
        measured,
        published: None,
        bar: String::new(),
        pass: None,
    };
    vec![
        ratio(0, 1),
        ratio(0, 2),
        ratio(1, 2),
        told("replies/s of all three", replies / count as f64),
        told("requests not answered within 2 s", errors),
    ]
}

fn panel((setting, loads): (&Setting, &Vec<Load>)) -> Panel {
    let curve = |user: usize| {
        let points = loads.iter();
        let points = points.map(|load| (f64::from(load.connections), load.replies[user]));
        Curve::line(
            &format!("{}: {}", USERS[user], TICKETS[user]),
            points.collect(),
        )
    };
    Panel {
        title: setting.name.to_owned(),
        x: "connections to each server".to_owned(),
        y: "replies/s".to_owned(),
        legend: SeriesLabelPosition::MiddleRight,
        curves: (0..USERS.len()).map(curve).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_servers_figures_are_read() {
        let text = "server 1: 8910 requests in 10.01s, 2.35MB read\n\
                    server 2: 4500 requests in 10.1s, 1MB read\n\
                    server 2: Socket errors: connect 0, read 0, write 0, timeout 26\n\
                    server 3: 4490 requests in 10.1s, 1MB read\n";
        let load = Load::read(4, text).unwrap();
        assert_eq!(load.replies, [891.0, 450.0, 449.0]);
        assert_eq!(load.errors, [0.0, 26.0, 0.0]);
        assert!(Load::read(4, &text.replace("server 3", "server 2")).is_none());
    }

    #[test]
    fn the_furthest_ratio_of_saturated_servers_counts() {
        let load = |connections, replies| Load {
            connections,
            replies,
            errors: [0.0; 3],
        };
        let verdicts = |last: [f64; 3]| -> Vec<_> {
            let loads = vec![
                load(1, [100.0; 3]),
                load(SATURATED, [800.0, 400.0, 400.0]),
                load(16, last),
            ];
            let rows = rows((&SETTINGS[0], &loads));
            rows.iter().map(|row| row.pass).collect()
        };
        assert_eq!(verdicts([800.0, 400.0, 405.0])[..3], [Some(true); 3]);
        assert_eq!(
            verdicts([800.0, 400.0, 380.0])[..3],
            [Some(true), Some(false), Some(false)]
        );
    }
}
