//! The programs of a plan.

use super::checks;
use super::file::{self, File, Name, Step as FileStep};
use super::values::{COUNT, TIMES, Values};
use crate::faults::Fault;
use std::collections::BTreeMap;
use std::ops::Range;
use tombola_sim::plan::{Phase, Program, Step};
use toml::Spanned;

/// The programs that tasks share, and after them those of single tasks.
pub(super) struct Programs {
    by_name: BTreeMap<String, usize>,
    locks: BTreeMap<String, usize>,
    programs: Vec<(Program, Range<usize>)>,
}

impl Programs {
    pub fn new(values: &mut Values, file: &File) -> Self {
        let mut programs = Self {
            by_name: BTreeMap::new(),
            locks: BTreeMap::new(),
            programs: Vec::new(),
        };
        for (index, program) in file.programs.iter().enumerate() {
            let name = program.name.get_ref().clone();
            if programs.by_name.insert(name, index).is_some() {
                values.twice("program", &program.name);
            }
        }
        for program in &file.programs {
            programs.add(
                values,
                &program.steps,
                program.times.as_ref(),
                program.name.span(),
            );
        }
        programs
    }

    /// The program of a task; `None`: it computes for ever.
    pub fn of_task(&mut self, values: &mut Values, task: &file::Task) -> Option<usize> {
        match (&task.program, &task.steps) {
            (Some(name), None) if task.times.is_none() => self.find(values, name),
            (None, Some(steps)) => Some(self.add(values, steps, task.times.as_ref(), steps.span())),
            (Some(name), _) => {
                values.faults.push(Fault::at(
                    name.span(),
                    "the task has a program, and steps or times of its own",
                    "its steps, and how often they are repeated, are its program",
                    "remove one of them",
                ));
                None
            }
            (None, None) => {
                if let Some(times) = &task.times {
                    values.faults.push(Fault::at(
                        times.span(),
                        "the task has no steps to repeat",
                        "a task without steps computes for ever",
                        "add steps, or remove this line",
                    ));
                }
                None
            }
        }
    }

    fn find(&mut self, values: &mut Values, name: &Name) -> Option<usize> {
        (self.by_name.get(name.get_ref()).copied()).or_else(|| values.unknown("program", name))
    }

    fn add(
        &mut self,
        values: &mut Values,
        steps: &Spanned<Vec<FileStep>>,
        times: Option<&Spanned<i64>>,
        span: Range<usize>,
    ) -> usize {
        let times = times.and_then(|times| values.number("times", times, TIMES));
        let mut phases: Vec<Phase> = Vec::new();
        let mut plain: Vec<Step> = Vec::new();
        for step in steps.get_ref() {
            if let FileStep::Repeat(repeat) = step {
                add_phase(&mut phases, 1, std::mem::take(&mut plain));
                let times = values.number("times", &repeat.times, TIMES).unwrap_or(1);
                let steps = self.steps_of(values, repeat);
                add_phase(&mut phases, times as u64, steps);
            } else {
                plain.extend(self.step(values, step));
            }
        }
        add_phase(&mut phases, 1, plain);
        let times = times.map(|times| times as u64);
        self.programs.push((Program { phases, times }, span));
        self.programs.len() - 1
    }

    fn steps_of(&mut self, values: &mut Values, repeat: &file::Repeat) -> Vec<Step> {
        let mut steps = Vec::new();
        for step in repeat.steps.get_ref() {
            if let FileStep::Repeat(inner) = step {
                values.faults.push(Fault::at(
                    inner.times.span(),
                    "a repeat is inside a repeat",
                    "steps are repeated on one level",
                    "write the inner steps as often as they are repeated, or make them a program to fork",
                ));
            } else {
                steps.extend(self.step(values, step));
            }
        }
        steps
    }

    fn step(&mut self, values: &mut Values, step: &FileStep) -> Option<Step> {
        Some(match step {
            FileStep::Run(time) => Step::Run(values.time(time)),
            FileStep::Sleep(time) => Step::Sleep(values.time(time)),
            FileStep::Timer(time) => Step::Timer(values.time(time)),
            FileStep::Lock(name) => Step::Lock(self.lock(name)),
            FileStep::Unlock(name) => Step::Unlock(self.lock(name)),
            FileStep::Fork(name) => Step::Fork(self.find(values, name)?),
            FileStep::Yield => Step::Yield,
            FileStep::Await => Step::Await,
            FileStep::AwaitFewer(children) => {
                let children = values.number("await-fewer", children, COUNT)?;
                Step::AwaitFewer(children as u32)
            }
            FileStep::Repeat(_) => return None,
        })
    }

    fn lock(&mut self, name: &str) -> usize {
        let next = self.locks.len();
        *self.locks.entry(name.to_owned()).or_insert(next)
    }

    /// All programs, checked.
    pub fn finish(self, values: &mut Values) -> Vec<Program> {
        let (programs, spans): (Vec<Program>, Vec<Range<usize>>) =
            self.programs.into_iter().unzip();
        for (index, span) in spans.into_iter().enumerate() {
            let fault = checks::program(&programs, index);
            values.faults.extend(fault.map(|fault| fault.placed(span)));
        }
        programs
    }
}

fn add_phase(phases: &mut Vec<Phase>, times: u64, steps: Vec<Step>) {
    if !steps.is_empty() {
        phases.push(Phase { times, steps });
    }
}
