//! The processes of a compile as they were traced, and the file that keeps them.

use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;

/// Traced with `tombola-lab trace-compile`; its first line says where.
const RECORDED: &str = include_str!("libelf.csv");
const HEAD: &str = "parent,program,reads,cpu_us of each repeat";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its index among those of the compile.
    pub parent: Option<usize>,
    pub name: String,
    /// Calls that read.
    pub reads: u32,
    /// CPU time in each repeat.
    pub cpu_us: Vec<u64>,
}

/// A process for each line, in the order in which they began; the first is make, whose children compile one file each. The last
/// one of these makes the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compile {
    pub processes: Vec<Process>,
}

impl Compile {
    /// The compile that was traced once, for all experiments.
    pub fn recorded() -> Result<Self> {
        Self::parse(RECORDED)
    }

    /// Repeats of the same compile: the same processes each time.
    pub fn of(repeats: &[Vec<Process>]) -> Result<Self> {
        let (first, others) = repeats.split_first().context("there are no repeats")?;
        let mut processes = first.clone();
        for repeat in others {
            ensure!(
                repeat.len() == processes.len(),
                "one repeat has {} processes, another {}",
                processes.len(),
                repeat.len()
            );
            for (process, again) in processes.iter_mut().zip(repeat) {
                ensure!(
                    (process.parent, &process.name) == (again.parent, &again.name),
                    "where {process:?} ran, there was {again:?} in another repeat"
                );
                process.cpu_us.extend(&again.cpu_us);
            }
        }
        Ok(Self { processes })
    }

    /// Children of a process, in order.
    pub fn children(&self, parent: usize) -> impl Iterator<Item = usize> {
        let all = self.processes.iter().enumerate();
        all.filter(move |(_, process)| process.parent == Some(parent))
            .map(|(number, _)| number)
    }

    /// All CPU time of a repeat, s.
    pub fn cpu_s(&self, repeat: usize) -> f64 {
        let us: u64 = self.processes.iter().map(|of| of.cpu_us[repeat]).sum();
        us as f64 / 1e6
    }

    pub fn reads(&self) -> u32 {
        self.processes.iter().map(|process| process.reads).sum()
    }

    pub fn repeats(&self) -> usize {
        self.processes[0].cpu_us.len()
    }

    /// As `parse` reads it, after a line of where it was traced.
    pub fn to_csv(&self, place: &str) -> String {
        let mut text = format!("# {place}\n{HEAD}\n");
        for process in &self.processes {
            let parent = process.parent.map_or(String::new(), |it| it.to_string());
            let (name, reads) = (&process.name, process.reads);
            write!(text, "{parent},{name},{reads}").expect("strings take all");
            for us in &process.cpu_us {
                write!(text, ",{us}").expect("strings take all");
            }
            text.push('\n');
        }
        text
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().skip_while(|line| line.starts_with('#'));
        ensure!(
            lines.next() == Some(HEAD),
            "the file does not begin with {HEAD}"
        );
        let mut processes: Vec<Process> = Vec::new();
        for line in lines {
            let process = parse_line(line).with_context(|| format!("the line {line:?}"))?;
            let is_known = match process.parent {
                None => processes.is_empty(),
                Some(parent) => parent < processes.len(),
            };
            let repeats = processes.first().map(|first| first.cpu_us.len());
            if !is_known
                || process.cpu_us.is_empty()
                || repeats.is_some_and(|n| n != process.cpu_us.len())
            {
                bail!("{line:?}: its parent comes later, or it has not as many repeats as others");
            }
            processes.push(process);
        }
        ensure!(!processes.is_empty(), "the file has no processes");
        Ok(Self { processes })
    }
}

fn parse_line(line: &str) -> Result<Process> {
    let mut words = line.split(',');
    let mut next = || words.next().context("too few columns");
    let parent = match next()? {
        "" => None,
        number => Some(number.parse()?),
    };
    let (name, reads) = (next()?.to_owned(), next()?.parse()?);
    let cpu_us = words.map(str::parse).collect::<Result<_, _>>()?;
    Ok(Process {
        parent,
        name,
        reads,
        cpu_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: Option<usize>, name: &str, us: u64) -> Process {
        Process {
            parent,
            name: name.to_owned(),
            reads: 3,
            cpu_us: vec![us],
        }
    }

    #[test]
    fn repeats_are_put_together_and_kept_in_a_file() {
        let repeat = |us| vec![process(None, "make", 5), process(Some(0), "gcc", us)];
        let compile = Compile::of(&[repeat(100), repeat(120)]).unwrap();
        assert_eq!(compile.processes[1].cpu_us, [100, 120]);
        assert!((compile.cpu_s(1) - 125e-6).abs() < 1e-12);
        assert_eq!(compile.children(0).collect::<Vec<_>>(), [1]);
        assert_eq!(Compile::parse(&compile.to_csv("here")).unwrap(), compile);
        let other = vec![process(None, "make", 5), process(Some(0), "ar", 7)];
        assert!(Compile::of(&[repeat(100), other]).is_err());
        assert!(Compile::of(&[repeat(100), vec![process(None, "make", 5)]]).is_err());
    }

    #[test]
    fn a_file_with_faults_is_refused() {
        for lines in [
            "",
            "0,make,1,5",
            ",make,1",
            ",make,x,5",
            ",make,1,5\n2,gcc,1,5",
            ",make,1,5\n0,gcc,1,5,6",
        ] {
            assert!(
                Compile::parse(&format!("{HEAD}\n{lines}\n")).is_err(),
                "{lines}"
            );
        }
    }

    /// make, and for each file gcc, the compiler proper and the assembler; and ar.
    #[test]
    fn the_recorded_compile_is_one_of_116_files() {
        let compile = Compile::recorded().unwrap();
        let count = |name| {
            compile
                .processes
                .iter()
                .filter(|of| of.name == name)
                .count()
        };
        assert_eq!(
            ["make", "gcc", "cc1", "as", "ar"].map(count),
            [1, 116, 116, 116, 1]
        );
        assert_eq!(compile.processes.len(), 350);
        assert!(compile.repeats() >= 10);
    }
}
