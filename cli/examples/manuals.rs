//! Writes the manual pages and the shells' completions of all programs, from the descriptions of their arguments:
//!
//! ```text
//!   manuals FOLDER DATE    FOLDER/man1/*.1, FOLDER/completions/{bash,zsh,fish}/*
//! ```
//!
//! It is an example, so that the programs themselves need not link clap_mangen and clap_complete.

use clap::Command;
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::fs;
use std::io;
use std::path::Path;
use tombola_cli::commands;

const SEE_ALSO: &str = "tombola(1), lnice(1), lrenice(1), lsetbase(1), ltix(1), tombola.toml(5)";

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, date] = &arguments[..] else {
        panic!("usage: manuals FOLDER DATE");
    };
    let folder = Path::new(folder);
    for command in commands::all() {
        completions(&folder.join("completions"), command.clone())?;
        let mut command = command.disable_help_subcommand(true);
        command.build();
        pages(made(&folder.join("man1"))?, date, &command)?;
    }
    Ok(())
}

fn made(folder: &Path) -> io::Result<&Path> {
    fs::create_dir_all(folder).map(|()| folder)
}

fn completions(folder: &Path, mut command: Command) -> io::Result<()> {
    let program = command.get_name().to_owned();
    for (shell, name) in [
        (Shell::Bash, "bash"),
        (Shell::Zsh, "zsh"),
        (Shell::Fish, "fish"),
    ] {
        generate_to(shell, &mut command, &program, made(&folder.join(name))?)?;
    }
    Ok(())
}

/// Writes the pages of a command and of all its subcommands.
fn pages(folder: &Path, date: &str, command: &Command) -> io::Result<()> {
    let man = Man::new(command.clone())
        .date(date)
        .manual("Tombola")
        .source(concat!("Tombola ", env!("CARGO_PKG_VERSION")));
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut page)?;
    }
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    closing_sections(command).to_writer(&mut page)?;
    fs::write(folder.join(man.get_filename()), page)?;
    command
        .get_subcommands()
        .try_for_each(|below| pages(folder, date, below))
}

/// The end of the help text. "Exit status: 0 done" becomes a section of that name, "Examples:" one whose lines stay as they are.
fn closing_sections(command: &Command) -> Roff {
    let mut roff = Roff::new();
    let text = command
        .get_after_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    for paragraph in text.split("\n\n").filter(|text| !text.is_empty()) {
        match paragraph.split_once(':') {
            Some((heading, text)) if is_heading(heading) => {
                roff.control("SH", [&*heading.to_uppercase()]);
                add_lines(&mut roff, text.trim_start(), is_prose(paragraph));
            }
            _ => {
                roff.control("PP", []);
                add_lines(&mut roff, paragraph, is_prose(paragraph));
            }
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    roff.text([roman(SEE_ALSO)]);
    roff
}

fn is_heading(text: &str) -> bool {
    is_prose(text) && text.split(' ').count() <= 6
}

fn is_prose(text: &str) -> bool {
    text.starts_with(|first: char| first.is_uppercase()) && !text.contains("  ")
}

fn add_lines(roff: &mut Roff, text: &str, filled: bool) {
    if !filled {
        roff.control("EX", []);
    }
    for line in text.lines() {
        roff.text([roman(line.trim_start())]);
    }
    if !filled {
        roff.control("EE", []);
    }
}
