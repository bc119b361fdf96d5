//! Reads the task descriptions of rt-app (its doc/tutorial.txt), the load generator of the kernel's scheduler developers.
//!
//! A task becomes so many tasks as it has instances, with 100 tickets each. A task group becomes a user with 1000 base tickets;
//! tasks without a group belong to the user `rt-app`. `run` and `runtime` both compute: the simulated CPUs have one speed. Each
//! task has one timer of its own, whatever its name.

use super::checks;
use super::example::EXAMPLE_COMMAND;
use super::file::Plan9;
use super::schedulers::{Loaded, Settings, nanos};
use super::values::{COUNT, CPUS, NICE, QUANTUM, TIMES};
use crate::faults::{Fault, Faults};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;
use tombola_sim::limits::{BASE_TICKETS_DEFAULT, TICKETS_DEFAULT};
use tombola_sim::plan::{Currency, Phase, Plan, Program, Step, Task};
use tombola_sim::{ANYWHERE, Costs, Topology};

const USER: &str = "rt-app";
/// If the file says that it is endless, or nothing.
const DURATION: Duration = Duration::from_secs(10);
const EVENTS: &str = "run, runtime, sleep, timer, lock, unlock, fork, yield";
/// Keys of a task or phase that are no events. A phase has no more than `loop` of its own.
const PROPERTIES: [&str; 11] = [
    "loop",
    "instance",
    "policy",
    "priority",
    "cpus",
    "taskgroup",
    "delay",
    "phases",
    "nodes_membind",
    "util_min",
    "util_max",
];
const MICROSECONDS: RangeInclusive<i64> = 0..=3_600_000_000;

type Found<T> = Result<T, Fault>;

pub(super) fn parse(file: &str, text: &str, settings: &Settings) -> Result<Loaded, Faults> {
    let text = without_comments(text);
    let faults = |fault| Faults::new(file, &text, vec![fault]);
    let value: Value =
        serde_json::from_str(&text).map_err(|error| faults(not_json(&text, &error)))?;
    plan(&value, settings).map_err(faults)
}

/// rt-app allows comments in its JSON. Blanks replace them, so that positions stay.
fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => end_of_string(rest),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ => c.len_utf8(),
        };
        let (part, after) = rest.split_at(length);
        if c == '/' && length > 1 {
            kept.extend(part.chars().map(|c| if c == '\n' { c } else { ' ' }));
        } else {
            kept.push_str(part);
        }
        rest = after;
    }
    kept
}

/// The length of the string with which the text begins.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 2)
}

fn not_json(text: &str, error: &serde_json::Error) -> Fault {
    let lines = text.split_inclusive('\n').take(error.line() - 1);
    let at = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    Fault::at(
        at..at,
        format!("this is not JSON: {error}"),
        "a file whose name ends in .json is rt-app's",
        format!("correct it, or write a plan in TOML; {EXAMPLE_COMMAND} shows one"),
    )
}

fn plan(value: &Value, settings: &Settings) -> Found<Loaded> {
    let top = object("the file", value)?;
    let global = match top.get("global") {
        Some(global) => object("global", global)?.clone(),
        None => Map::new(),
    };
    let span = match global.get("duration") {
        Some(seconds) => number("global.duration", seconds, -1..=86_400)?,
        None => -1,
    };
    let span = u64::try_from(span).ok().filter(|&seconds| seconds > 0);
    check_policy("global.default_policy", global.get("default_policy"))?;
    let tasks = top.get("tasks").ok_or_else(|| {
        fault(
            "there are no tasks",
            "rt-app's files have a section \"tasks\"",
            "add it",
        )
    })?;
    let mut reader = Reader::new(object("tasks", tasks)?)?;
    for (name, task) in object("tasks", tasks)? {
        reader.task(name, task)?;
    }
    let scheduler = settings.scheduler.unwrap_or_default();
    let cpus = settings.cpus.unwrap_or(reader.cpus_named());
    checks::scheduler(scheduler, cpus).map_or(Ok(()), Err)?;
    let topology = Topology::from(cpus);
    let run_queue = settings.run_queue.unwrap_or_default();
    let balance = settings.balance;
    let run_queues = checks::run_queues(scheduler, run_queue, balance, topology, false)?;
    let fault = balance.and_then(|balance| checks::balance(scheduler, balance, run_queues));
    fault.map_or(Ok(()), Err)?;
    let plan = Plan {
        topology,
        costs: Costs::default(),
        scheduler: scheduler.kind(QUANTUM, run_queues, &Plan9::default()),
        span_ns: nanos(span.map_or(DURATION, Duration::from_secs)),
        seed: settings.seed.unwrap_or(1),
        tasks: reader.tasks(cpus)?,
        currencies: reader.users.into_iter().map(user).collect(),
        programs: reader.programs,
        changes: Vec::new(),
    };
    for (index, name) in reader.names.iter().enumerate() {
        let fault = checks::program(&plan.programs, index);
        fault.map_or(Ok(()), |fault| Err(fault.about(&format!("tasks.{name}"))))?;
    }
    checks::number_of_clients(&plan).map_or(Ok(()), Err)?;
    checks::sums_of_tickets(&plan).map_or(Ok(()), Err)?;
    Ok(Loaded { scheduler, plan })
}

fn check_policy(place: &str, policy: Option<&Value>) -> Found<()> {
    match policy.and_then(Value::as_str) {
        None | Some("SCHED_OTHER" | "SCHED_BATCH") => Ok(()),
        Some(policy) => Err(fault(
            format!("{place} is {policy}"),
            "the simulated machine has no real-time, deadline or idle tasks",
            "remove the task, or its policy",
        )),
    }
}

fn user(name: String) -> Currency {
    Currency {
        name,
        parent: None,
        tickets: BASE_TICKETS_DEFAULT,
    }
}

struct Reader {
    users: Vec<String>,
    /// Of each task, in the order of the file.
    names: Vec<String>,
    programs: Vec<Program>,
    locks: BTreeMap<String, usize>,
    /// With the CPUs that each names.
    tasks: Vec<(Task, Option<Vec<i64>>)>,
}

impl Reader {
    fn new(tasks: &Map<String, Value>) -> Found<Self> {
        if tasks.is_empty() {
            let next = "describe one";
            return Err(fault("there are no tasks", "the section is empty", next));
        }
        Ok(Self {
            users: Vec::new(),
            names: tasks.keys().cloned().collect(),
            programs: Vec::new(),
            locks: BTreeMap::new(),
            tasks: Vec::new(),
        })
    }

    fn task(&mut self, name: &str, value: &Value) -> Found<()> {
        let place = format!("tasks.{name}");
        let task = object(&place, value)?;
        let get = |key: &str, range: RangeInclusive<i64>| match task.get(key) {
            Some(value) => number(&format!("{place}.{key}"), value, range).map(Some),
            None => Ok(None),
        };
        check_policy(&format!("{place}.policy"), task.get("policy"))?;
        let cpus = (task.get("cpus"))
            .map(|cpus| numbers(&format!("{place}.cpus"), cpus))
            .transpose()?;
        let times = get("loop", -1..=*TIMES.end())?;
        let program = self.program(&place, task, times)?;
        self.programs.push(program);
        let group = task.get("taskgroup").and_then(Value::as_str);
        let currency = self.user(group.unwrap_or(USER));
        // An instance of 0 is a task that others fork.
        let count = get("instance", 0..=*COUNT.end())?.unwrap_or(1) as usize;
        if count > 0 {
            let task = Task {
                name: name.to_owned(),
                count,
                currency,
                tickets: TICKETS_DEFAULT,
                nice: get("priority", NICE)?.unwrap_or(0) as i32,
                mask: ANYWHERE,
                starts_ns: 1000 * get("delay", MICROSECONDS)?.unwrap_or(0) as u64,
                ends_ns: None,
                program: Some(self.programs.len() - 1),
            };
            self.tasks.push((task, cpus));
        }
        Ok(())
    }

    /// As many CPUs as the tasks name.
    fn cpus_named(&self) -> usize {
        let lists = self.tasks.iter().filter_map(|(_, cpus)| cpus.as_ref());
        lists.flatten().max().map_or(1, |&last| last as usize + 1)
    }

    /// The tasks on a machine of so many CPUs.
    fn tasks(&mut self, cpus: usize) -> Found<Vec<Task>> {
        let tasks = std::mem::take(&mut self.tasks).into_iter();
        let placed = tasks.map(|(task, list)| {
            let mask = list.map_or(Ok(ANYWHERE), |list| checks::mask(&list, cpus));
            match mask {
                Ok(mask) => Ok(Task { mask, ..task }),
                Err(fault) => Err(fault.about(&format!("tasks.{}.cpus", task.name))),
            }
        });
        placed.collect()
    }

    fn user(&mut self, name: &str) -> usize {
        let known = self.users.iter().position(|user| user == name);
        known.unwrap_or_else(|| {
            self.users.push(name.to_owned());
            self.users.len() - 1
        })
    }

    fn program(
        &mut self,
        place: &str,
        task: &Map<String, Value>,
        times: Option<i64>,
    ) -> Found<Program> {
        let phases = match task.get("phases") {
            None => vec![self.phase(place, task, 1)?],
            Some(phases) => {
                let mut read = Vec::new();
                for (name, value) in object(&format!("{place}.phases"), phases)? {
                    let place = format!("{place}.phases.{name}");
                    let phase = object(&place, value)?;
                    let foreign = PROPERTIES
                        .iter()
                        .find(|key| **key != "loop" && phase.contains_key(**key));
                    if let Some(key) = foreign {
                        return Err(fault(
                            format!("{place}.{key} is not simulated"),
                            "in the simulation a phase has only \"loop\"; the rest is set for the whole task",
                            "move it to the task, or remove it",
                        ));
                    }
                    let times = match phase.get("loop") {
                        Some(value) => number(&format!("{place}.loop"), value, TIMES)?,
                        None => 1,
                    };
                    read.push(self.phase(&place, phase, times as u64)?);
                }
                read
            }
        };
        Ok(Program {
            phases,
            times: times.and_then(|times| u64::try_from(times).ok()),
        })
    }

    /// The events among the keys: those that are no properties of a task or phase.
    fn phase(&mut self, place: &str, keys: &Map<String, Value>, times: u64) -> Found<Phase> {
        let mut steps = Vec::new();
        for (key, value) in keys {
            let place = format!("{place}.{key}");
            if !PROPERTIES.contains(&key.as_str()) {
                steps.push(self.step(&place, key, value)?);
            }
        }
        Ok(Phase { times, steps })
    }

    /// Events may have a suffix, which makes their names unique.
    fn step(&mut self, place: &str, key: &str, value: &Value) -> Found<Step> {
        let time = |value| Ok(1000 * number(place, value, MICROSECONDS)? as u64);
        let is = |event: &str| key.starts_with(event);
        if is("runtime") || is("run") {
            return time(value).map(Step::Run);
        }
        if is("sleep") {
            return time(value).map(Step::Sleep);
        }
        if is("timer") {
            let timer = object(place, value)?;
            if let Some(mode) = timer.get("mode").filter(|mode| *mode != "relative") {
                return Err(fault(
                    format!("{place}.mode is {mode}"),
                    "simulated timers are relative: a period that was missed is not made up for",
                    "remove the mode",
                ));
            }
            let period = timer.get("period").ok_or_else(|| {
                let next = "add one, in microseconds";
                fault(format!("{place} has no period"), "it is periodic", next)
            })?;
            return time(period).map(Step::Timer);
        }
        if is("lock") {
            return Ok(Step::Lock(self.lock(text(place, value)?)));
        }
        if is("unlock") {
            return Ok(Step::Unlock(self.lock(text(place, value)?)));
        }
        if is("yield") {
            return Ok(Step::Yield);
        }
        if is("fork") {
            let child = text(place, value)?;
            let index = self.names.iter().position(|name| name == child);
            return index.map(Step::Fork).ok_or_else(|| {
                let fact = format!("{place}: there is no task {child:?}");
                fault(fact, "it is misspelt", "correct the name")
            });
        }
        Err(fault(
            format!("{place} is not simulated"),
            format!("the simulated machine has {EVENTS}"),
            "replace the event by some of these",
        ))
    }

    fn lock(&mut self, name: &str) -> usize {
        let next = self.locks.len();
        *self.locks.entry(name.to_owned()).or_insert(next)
    }
}

fn numbers(place: &str, value: &Value) -> Found<Vec<i64>> {
    let list = value.as_array();
    let list = list.ok_or_else(|| wrong(place, "a list of CPUs"))?;
    (list.iter())
        .map(|cpu| number(place, cpu, 0..=*CPUS.end() - 1))
        .collect()
}

fn object<'a>(place: &str, value: &'a Value) -> Found<&'a Map<String, Value>> {
    value
        .as_object()
        .ok_or_else(|| wrong(place, "an object: { NAME: VALUE, ... }"))
}

fn text<'a>(place: &str, value: &'a Value) -> Found<&'a str> {
    value
        .as_str()
        .ok_or_else(|| wrong(place, "a name in quotes"))
}

fn number(place: &str, value: &Value, range: RangeInclusive<i64>) -> Found<i64> {
    let (least, most) = (*range.start(), *range.end());
    let number = value.as_i64().filter(|number| range.contains(number));
    number.ok_or_else(|| wrong(place, &format!("a whole number from {least} to {most}")))
}

fn wrong(place: &str, wanted: &str) -> Fault {
    fault(
        format!("{place} has a wrong value"),
        format!("it must be {wanted}"),
        format!("write {wanted}"),
    )
}

fn fault(fact: impl Into<String>, cause: impl Into<String>, next: impl Into<String>) -> Fault {
    Fault::of_file(fact, cause, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_replace_comments() {
        for (text, kept) in [
            ("{/* a\nb */}", "{    \n    }"),
            ("1 // a \"b\n2", "1        \n2"),
            ("\"/* a */ // \\\" b\" /**/", "\"/* a */ // \\\" b\"     "),
            ("/* not closed", "             "),
            ("\"not closed /* */", "\"not closed /* */"),
            ("ü / /*ü*/", "ü /      "),
        ] {
            assert_eq!(without_comments(text), kept, "{text}");
        }
    }
}
