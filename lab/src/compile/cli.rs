//! `tombola-lab trace-compile`: traces the compile on this machine, and writes the file that the experiments use.

use super::processes::Compile;
use super::source;
use super::trace::trace;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub struct TraceArgs {
    /// How often to compile, one job at a time
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// The file to write
    #[arg(long, default_value = "lab/src/compile/libelf.csv")]
    out: PathBuf,
}

impl TraceArgs {
    pub fn run(&self) -> Result<u8> {
        let elfutils = source::elfutils()?;
        let work = std::env::temp_dir().join(format!("tombola-compile-{}", std::process::id()));
        std::fs::create_dir(&work).with_context(|| format!("cannot make {}", work.display()))?;
        source::prepare(&work)?;
        let repeats = (1..=self.repeats).map(|repeat| {
            eprintln!("compile {repeat} of {}", self.repeats);
            trace(&mut source::make(&work, &elfutils, 1))
        });
        let repeats = repeats.collect::<Result<Vec<_>>>();
        std::fs::remove_dir_all(&work)
            .with_context(|| format!("cannot remove {}", work.display()))?;
        let compile = Compile::of(&repeats?)?;
        std::fs::write(&self.out, compile.to_csv(&place(&elfutils)?))
            .with_context(|| format!("cannot write {}", self.out.display()))?;
        for repeat in 0..compile.repeats() {
            println!("CPU time {:.3} s", compile.cpu_s(repeat));
        }
        println!(
            "{} processes, {} reads",
            compile.processes.len(),
            compile.reads()
        );
        Ok(0)
    }
}

/// The sources, the compiler and the machine.
fn place(elfutils: &Path) -> Result<String> {
    let version = Command::new("gcc").arg("--version").output()?.stdout;
    let version = String::from_utf8_lossy(&version)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned();
    let cpus = std::fs::read_to_string("/proc/cpuinfo")?;
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model
        .unwrap_or_default()
        .trim_start_matches(['\t', ' ', ':']);
    let package = elfutils.parent().and_then(Path::file_name);
    let package = package.unwrap_or_default().to_string_lossy();
    Ok(format!(
        "elfutils' libelf as in {package}, compiled by `tombola-lab trace-compile` with {version} on {model}"
    ))
}
