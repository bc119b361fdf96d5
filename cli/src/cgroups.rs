//! Finds the limits and weights of CPU time of cgroups: the kernel's own scheduler enforces them, Tombola does not.

use crate::names::ROOT;
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tombola_kernel::printable;

pub const CGROUPS: &str = "/sys/fs/cgroup";

/// The files that hold limits and weights, and their contents by default.
const SETTINGS: [(&str, &str); 3] = [
    ("cpu.max", "max 100000"),
    ("cpu.weight", "100"),
    ("cpu.idle", "0"),
];
/// At most so many settings are listed; the others are counted.
const NAMED_MAX: usize = 5;

/// A limit or a weight that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The cgroup's path, from the root of the cgroups.
    pub cgroup: String,
    pub file: &'static str,
    pub value: String,
}

/// All settings of the machine, in the order of the paths; not those inside cgroups that are delegated to a user, who may make
/// any number of them. Cgroups may be made and removed meanwhile.
pub fn without_effect() -> Vec<Setting> {
    found_below(Path::new(CGROUPS), ROOT)
}

fn found_below(cgroups: &Path, owner: u32) -> Vec<Setting> {
    let mut found = Vec::new();
    walk(cgroups, &mut |cgroup| {
        found.extend(settings(cgroups, cgroup));
        is_of(cgroup, owner)
    });
    found.sort_by(|a, b| a.cgroup.cmp(&b.cgroup));
    found
}

fn settings(cgroups: &Path, cgroup: &Path) -> impl Iterator<Item = Setting> {
    SETTINGS.iter().filter_map(move |(file, unset)| {
        let value = fs::read_to_string(cgroup.join(file)).ok()?;
        let value = value.trim_end();
        // "max" is no limit, whatever the period after it.
        let is_set = value != *unset && !value.starts_with("max ");
        let path = cgroup.strip_prefix(cgroups).unwrap_or(cgroup);
        is_set.then(|| Setting {
            cgroup: format!("/{}", path.display()),
            file,
            value: value.to_owned(),
        })
    })
}

/// Visits a cgroup and, if `visit` returns true, all cgroups directly below it in the same way.
pub fn walk(cgroup: &Path, visit: &mut impl FnMut(&Path) -> bool) {
    if !visit(cgroup) {
        return;
    }
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
}

pub fn is_of(cgroup: &Path, owner: u32) -> bool {
    fs::metadata(cgroup).is_ok_and(|metadata| metadata.uid() == owner)
}

/// A line for each of the first settings, and one for the number of the others.
pub fn lines(settings: &[Setting]) -> Vec<String> {
    let mut lines: Vec<String> = settings
        .iter()
        .take(NAMED_MAX)
        .map(|of| format!("{}: {} {}", printable(&of.cgroup), of.file, of.value))
        .collect();
    if settings.len() > NAMED_MAX {
        lines.push(format!("and {} more", settings.len() - NAMED_MAX));
    }
    lines
}

/// The warning at the scheduler's start; None without such settings.
pub fn warning(settings: &[Setting]) -> Option<String> {
    if settings.is_empty() {
        return None;
    }
    Some(format!(
        "these limits and weights of cgroups have no effect while Tombola runs:\n    {}\n  \
         cause: Tombola shares CPU time by tickets, not by cgroups (CPUQuota=, CPUWeight= and docker --cpus set cgroups)\n  \
         next:  set the users' base tickets (lsetbase), or put the processes into a currency (tombola currency)",
        lines(settings).join("\n    ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(cgroup: &str, file: &'static str, value: &str) -> Setting {
        Setting {
            cgroup: cgroup.into(),
            file,
            value: value.into(),
        }
    }

    #[test]
    fn settings_are_found_at_any_depth() {
        let root = std::env::temp_dir().join(format!("tombola-cgroups-{}", std::process::id()));
        let (slice, unit) = (root.join("a.slice"), root.join("a.slice/b.service"));
        fs::create_dir_all(&unit).unwrap();
        for folder in [&slice, &unit] {
            fs::write(folder.join("cpu.weight"), "100\n").unwrap();
            fs::write(folder.join("cpu.idle"), "0\n").unwrap();
        }
        fs::write(slice.join("cpu.max"), "max 50000\n").unwrap();
        let own = nix::unistd::getuid().as_raw();
        assert_eq!(found_below(&root, own), []);
        fs::write(unit.join("cpu.max"), "50000 100000\n").unwrap();
        fs::write(slice.join("cpu.weight"), "200\n").unwrap();
        assert_eq!(
            found_below(&root, own),
            [
                setting("/a.slice", "cpu.weight", "200"),
                setting("/a.slice/b.service", "cpu.max", "50000 100000"),
            ]
        );
        fs::write(root.join("cpu.weight"), "50\n").unwrap();
        let delegated = found_below(&root, own + 1);
        assert_eq!(delegated, [setting("/", "cpu.weight", "50")]);
        fs::remove_dir_all(root).unwrap();
    }

    /// Users name the cgroups that are delegated to them.
    #[test]
    fn a_name_cannot_write_to_the_terminal() {
        let lines = lines(&[setting("/\x1b]0;x\x07", "cpu.weight", "50")]);
        assert_eq!(lines, ["/\\u{1b}]0;x\\u{7}: cpu.weight 50"]);
    }

    #[test]
    fn settings_beyond_the_first_are_counted() {
        let settings = vec![setting("/a", "cpu.idle", "1"); NAMED_MAX + 2];
        let warning = warning(&settings).unwrap();
        assert!(warning.contains("\n    /a: cpu.idle 1\n"), "{warning}");
        assert!(warning.contains("\n    and 2 more\n"), "{warning}");
        assert_eq!(super::warning(&[]), None);
    }
}
