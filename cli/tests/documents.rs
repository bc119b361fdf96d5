//! Each literal heading of docs/troubleshooting.md is a text that a program prints, and each error of the library has a heading.

use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../../docs/troubleshooting.md");
const ERRORS: &str = include_str!("../../hosts/kernel/src/error.rs");

/// Stands for the part that varies.
const ELLIPSIS: char = '…';

/// The literal headings, each split into the parts that do not vary.
fn headings() -> Vec<Vec<&'static str>> {
    let literal = DOCUMENT.lines().filter_map(|line| {
        line.strip_prefix("### `")
            .and_then(|line| line.strip_suffix('`'))
    });
    literal
        .map(|heading| {
            let parts = heading.split(ELLIPSIS);
            parts.filter(|part| !part.is_empty()).collect()
        })
        .collect()
}

fn in_source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The programs' sources without their tests, and with \" replaced by a quotation mark.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let program = text.split("#[cfg(test)]").next().unwrap_or_default();
            found.push(program.replace("\\\"", "\""));
        }
    }
}

#[test]
fn each_heading_is_printed_by_a_program() {
    let mut texts = Vec::new();
    sources(&in_source("cli/src"), &mut texts);
    sources(&in_source("hosts/kernel/src"), &mut texts);
    let headings = headings();
    assert!(headings.len() > 30, "{}", headings.len());
    for parts in headings {
        let is_printed = |text: &String| parts.iter().all(|part| text.contains(part.trim()));
        assert!(texts.iter().any(is_printed), "nothing prints {parts:?}");
    }
}

/// The first line of each error, in its parts between `{` and `}`.
fn facts() -> impl Iterator<Item = Vec<&'static str>> {
    ERRORS.split("#[error(").skip(1).map(|error| {
        let (_, text) = error.split_once('"').unwrap();
        let (fact, _) = text.split_once("\\n").unwrap();
        fact.split('{')
            .map(|part| part.split_once('}').map_or(part, |(_, rest)| rest))
            .filter(|part| !part.is_empty())
            .collect()
    })
}

#[test]
fn each_error_has_its_heading() {
    let headings: Vec<String> = headings().iter().map(|parts| parts.join("…")).collect();
    assert!(facts().count() > 25);
    for parts in facts() {
        let fits = |heading: &String| {
            let mut rest = heading.as_str();
            parts.iter().all(|part| match rest.split_once(part) {
                Some((_, after)) => {
                    rest = after;
                    true
                }
                None => false,
            })
        };
        assert!(headings.iter().any(fits), "no heading for {parts:?}");
    }
}
