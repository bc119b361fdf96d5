//! What `make install` installs. The tests need what `make` has built, so `make test` runs them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tombola_cli::commands;

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("it is installed: make deps");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn make(target: &str, folder: &Path) {
    run(Command::new("make")
        .current_dir(source())
        .args(["--silent", target, "PREFIX=/usr"])
        .arg(format!("DESTDIR={}", folder.display())));
}

/// All paths below a folder, without its own; folders end with a slash.
fn all_below(folder: &Path) -> BTreeSet<String> {
    let found = run(Command::new("find").current_dir(folder).args([
        "-mindepth",
        "1",
        "-type",
        "d",
        "-printf",
        "%P/\n",
        "-o",
        "-printf",
        "%P\n",
    ]));
    found.lines().map(str::to_owned).collect()
}

/// The names of the manual pages of a command and all its subcommands.
fn names(command: &clap::Command, above: &str) -> Vec<String> {
    let name = format!("{above}{}", command.get_name());
    let below = command
        .get_subcommands()
        .filter(|of| of.get_name() != "help");
    let mut all: Vec<String> = below
        .flat_map(|command| names(command, &format!("{name}-")))
        .collect();
    all.push(name);
    all
}

#[test]
#[ignore = "needs what make has built: make test"]
fn installed_programs_work_and_can_be_removed() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("installed");
    let _ = fs::remove_dir_all(&folder);
    make("install", &folder);
    let files = all_below(&folder);
    for command in commands::all() {
        let name = command.get_name();
        let places = [
            format!("usr/bin/{name}"),
            format!("usr/share/bash-completion/completions/{name}.bash"),
            format!("usr/share/zsh/site-functions/_{name}"),
            format!("usr/share/fish/vendor_completions.d/{name}.fish"),
        ];
        let pages = names(&command, "").into_iter();
        let pages = pages.map(|name| format!("usr/share/man/man1/{name}.1"));
        for place in places.into_iter().chain(pages) {
            assert!(files.contains(&place), "{place} is not in {files:?}");
        }
        let version = run(Command::new(folder.join("usr/bin").join(name)).arg("--version"));
        assert_eq!(version, format!("{name} {}\n", env!("CARGO_PKG_VERSION")));
    }
    // `tombola status` names it after an ejection.
    assert!(files.contains("usr/share/doc/tombola/docs/troubleshooting.md"));
    make("uninstall", &folder);
    // Folders that other packages use are left.
    let left = all_below(&folder);
    let ours = |place: &&String| !place.ends_with('/') || place.contains("tombola");
    assert_eq!(left.iter().find(ours), None);
}

/// The text as a terminal shows it: a bold character is the character, a backspace, and the character again.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for char in text.chars() {
        match char {
            '\u{8}' => drop(plain.pop()),
            char => plain.push(char),
        }
    }
    plain
}

#[test]
#[ignore = "needs what make has built: make test"]
fn manual_pages_are_well_formed_and_contain_the_help() {
    let pages = source().join("target/manuals");
    let files = run(Command::new("find").arg(&pages).args(["-name", "*.[15]"]));
    run(Command::new("mandoc")
        .args(["-Tlint", "-Werror"])
        .args(files.lines()));
    let text = |page: &str| {
        plain(&run(Command::new("mandoc")
            .args(["-Tascii", "-Owidth=1000"])
            .arg(pages.join(page))))
    };
    let start = text("man1/tombola-start.1");
    for words in [
        "--quantum",
        "The slice",
        "100us to 100ms",
        "notifies systemd",
    ] {
        assert!(start.contains(words), "{words}: {start}");
    }
    let lnice = text("man1/lnice.1");
    for words in [
        "lnice -t 500 make -j4     five times",
        "127 if there is no such command",
    ] {
        assert!(lnice.contains(words), "{words}: {lnice}");
    }
    let rules = text("man5/tombola.toml.5");
    for words in ["alice = 3000", "base-tickets"] {
        assert!(rules.contains(words), "{words}: {rules}");
    }
}

#[test]
#[ignore = "needs what make has built: make test"]
fn bash_completes_commands_and_options() {
    let file = source().join("target/manuals/completions/bash/tombola.bash");
    let completed = |words: &str| {
        let script = format!(
            r#". "$1"; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _tombola tombola "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"; echo "${{COMPREPLY[*]}}""#
        );
        run(Command::new("bash")
            .args(["-c", &script, "bash"])
            .arg(&file))
    };
    assert_eq!(completed("tombola sta"), "start status\n");
    assert_eq!(completed("tombola start --pol"), "--policy\n");
    assert_eq!(completed("tombola start --policy ''"), "stride lottery\n");
}

#[test]
fn the_debian_package_has_the_programs_version() {
    let changelog =
        fs::read_to_string(source().join("packaging/debian/changelog")).expect("a file");
    let version = format!("tombola ({}) ", env!("CARGO_PKG_VERSION"));
    assert!(changelog.starts_with(&version), "{changelog}");
}
