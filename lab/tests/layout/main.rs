//! The shape of the sources: which package may depend on which, and what no file may hold.

mod modules;

use modules::Modules;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

/// Longest line of a source, in characters.
const COLUMNS_MAX: usize = 130;
/// Longest function, in lines: it fits on a screen, and its part of the verifier's log can be read.
const FUNCTION_LINES_MAX: usize = 70;

/// Of the project's own packages, those that each may link. Of Tombola the lab uses commands and their JSON, the applications the
/// library that any program may use.
const MAY_DEPEND_ON: [(&str, &[&str]); 9] = [
    ("tombola-core", &[]),
    ("tombola-kernel", &["tombola-core"]),
    ("tombola-pool", &["tombola-core"]),
    ("tombola-sim", &["tombola-core"]),
    ("tombola-plot", &[]),
    (
        "tombola-cli",
        &["tombola-kernel", "tombola-sim", "tombola-plot"],
    ),
    ("tombola-apps", &["tombola-kernel"]),
    ("tombola-unhash", &["tombola-pool"]),
    ("tombola-lab", &["tombola-plot"]),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Sources with one of these extensions: name and text.
fn sources(extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder of the project") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root()).expect("below the root");
            let name = name.to_str().expect("UTF-8").to_string();
            let made = name.starts_with('.') || ["target", "build", "out"].contains(&&*name);
            let extension = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() && !made {
                folders.push(path);
            } else if extension.is_some_and(|extension| extensions.contains(&extension)) {
                found.push((name, std::fs::read_to_string(&path).expect("a source")));
            }
        }
    }
    assert!(!found.is_empty(), "no sources: {extensions:?}");
    found
}

#[test]
fn dependencies_point_down() {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    let metadata: Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let allowed: BTreeMap<&str, &[&str]> = MAY_DEPEND_ON.into_iter().collect();
    let packages = metadata["packages"].as_array().expect("packages");
    assert_eq!(packages.len(), allowed.len(), "name each in MAY_DEPEND_ON");
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let may = allowed.get(name).copied().unwrap_or_default();
        for dependency in package["dependencies"].as_array().expect("a list") {
            let on = dependency["name"].as_str().expect("a name");
            assert!(
                !allowed.contains_key(on) || may.contains(&on),
                "{name} depends on {on}: use its commands, or move what is shared down"
            );
        }
    }
}

/// A module may be read, and changed, with what it uses and without what uses it.
#[test]
fn modules_form_no_circle() {
    let mut modules = Modules(sources(&["rs"]).into_iter().collect());
    modules.0.retain(|name, _| name.contains("/src/"));
    if let Some(circle) = modules.circle() {
        panic!(
            "move what is shared to a file of its own: {}",
            circle.join(" uses ")
        );
    }
}

#[test]
fn a_circle_of_modules_is_found() {
    let file = |name: &str, text: &str| (format!("a/src/{name}"), text.to_string());
    let modules = |b: &str, c: &str| {
        let root = file("lib.rs", "mod b; mod c; pub use b::B;");
        Modules(
            [
                root,
                file("b.rs", b),
                file("c/mod.rs", "mod d;"),
                file("c/d.rs", c),
            ]
            .into(),
        )
    };
    for (b, d) in [
        ("use crate::c;", "use crate::b::B;"),
        (
            "use crate::c::{d::{D, E}};",
            "fn f(b: super::super::b::B) {}",
        ),
        ("", "use super::D;"),
    ] {
        let circle = modules(b, d).circle();
        assert_eq!(circle.is_some(), !b.is_empty(), "{circle:?}");
    }
    assert_eq!(
        modules("use crate::B;", "")
            .circle()
            .map(|circle| circle.len()),
        Some(3)
    );
    assert_eq!(
        modules(
            "use crate::c;",
            "#[cfg(test)] mod tests { use crate::b::B; }"
        )
        .circle(),
        None
    );
    assert_eq!(
        modules("mod x { use super::Y; } use crate::c::D;", "use self::D;").circle(),
        None
    );
}

/// The core's headers include each other and nothing else, so they mean the same to every compiler.
#[test]
fn the_core_includes_nothing_but_itself() {
    for (name, text) in sources(&["h"]) {
        if !name.starts_with("core/include/") {
            continue;
        }
        for line in text.lines().filter(|line| line.starts_with("#include")) {
            let included = line.split('"').nth(1);
            let beside = included.map(|file| root().join(&name).with_file_name(file));
            assert!(
                beside.is_some_and(|file| file.exists()),
                "{name}: {line}: the host gives what the core needs (types.h)"
            );
        }
    }
}

#[test]
fn lines_are_short_and_finished() {
    // Split, so that this file does not hold them.
    let unfinished = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("db", "g!("),
    ];
    for (name, text) in sources(&["rs", "c", "h", "sh", "mk", "toml"]) {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            let columns = line.replace('\t', "        ").chars().count();
            assert!(columns <= COLUMNS_MAX, "{place}: {columns} columns");
            assert_eq!(line, line.trim_end(), "{place}: blanks at the end");
            for word in unfinished {
                assert!(!line.contains(word), "{place}: {word}: do it, or file it");
            }
        }
    }
}

#[test]
fn functions_fit_on_a_screen() {
    let mut functions = 0;
    for (name, text) in sources(&["c", "h", "rs"]) {
        let lines: Vec<&str> = text.lines().collect();
        let lengths = match name.ends_with(".rs") {
            true => rust_functions(&lines),
            false => c_functions(&lines),
        };
        functions += lengths.len();
        for (begun, length) in lengths {
            assert!(
                length <= FUNCTION_LINES_MAX,
                "{name}:{begun}: {length} lines: move a part of it into another function"
            );
        }
    }
    assert!(functions > 2000, "only {functions} functions were seen");
}

/// The line in which each function begins, and how many lines follow up to its last brace.
fn c_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let begun = (0..lines.len()).filter(|number| lines[*number] == "{");
    begun
        .filter_map(|number| lasts(lines, number, ""))
        .collect()
}

/// As rustfmt lays them out.
fn rust_functions(lines: &[&str]) -> Vec<(usize, usize)> {
    let begun = (0..lines.len()).filter(|number| begins_function(lines[*number].trim_start()));
    begun
        .filter_map(|number| lasts(lines, number, &lines[number][..indent(lines[number])]))
        .collect()
}

fn begins_function(line: &str) -> bool {
    let before = [
        "pub ",
        "pub(crate) ",
        "pub(super) ",
        "const ",
        "async ",
        "unsafe ",
        "extern \"C\" ",
    ];
    match before.iter().find_map(|word| line.strip_prefix(word)) {
        Some(rest) => begins_function(rest),
        None => line.starts_with("fn "),
    }
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// `None` for a declaration without a body.
fn lasts(lines: &[&str], begun: usize, indented: &str) -> Option<(usize, usize)> {
    let of_it = lines[begun..].iter();
    let length = of_it
        .clone()
        .position(|line| line.strip_prefix(indented) == Some("}"))?;
    let declared = of_it.clone().position(|line| {
        indent(line) == indented.len() && (line.ends_with(";") || line.ends_with("{}"))
    });
    declared
        .is_none_or(|declared| declared > length)
        .then_some((begun + 1, length.saturating_sub(1)))
}
