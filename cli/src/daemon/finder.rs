//! Finds the processes of programs and units that the rules name, and names the currencies of reservations.

use super::pace::Pace;
use crate::cgroups::{is_of, walk};
use crate::currency::is_of_name;
use crate::names::ROOT;
use crate::rules::What;
use libc::statx;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use tombola_kernel::abi::NAME;

/// The kernel's suffix to the path of a deleted file.
const DELETED: &str = " (deleted)";

/// The currency's name. If a program is given by path, or a name is too long or has other characters, a hash of it follows.
pub fn currency_name(what: &What) -> String {
    let (kind, of, text) = match what {
        What::Program(name) => ("prog", name, name.rsplit('/').next().unwrap_or(name)),
        What::Unit(name) => ("unit", name, name.as_str()),
    };
    let plain = format!("{kind}.{text}");
    if text == of {
        valid(plain, of)
    } else {
        marked(&plain, of)
    }
}

/// The name of the currency inside that one for a user's processes. No other rule's name begins with a digit.
pub fn currency_of_user(what: &What, uid: u32) -> String {
    let name = format!("{uid}.{}", currency_name(what));
    valid(name.clone(), &name)
}

fn valid(name: String, of: &str) -> String {
    if name.len() < NAME && name.chars().all(is_of_name) {
        name
    } else {
        marked(&name, of)
    }
}

fn marked(name: &str, of: &str) -> String {
    let mark = format!("-{:06x}", fingerprint(of) & 0xff_ffff);
    let mut name: String = name.chars().filter(|c| is_of_name(*c)).collect();
    name.truncate(NAME - 1 - mark.len());
    name + &mark
}

// FNV-1a.
fn fingerprint(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// Which of `named` the executable at `path` is: the one with its path, if it is the file there, before one with its name.
pub fn program<'a>(
    named: &'a [What],
    path: &str,
    is_file_at: impl Fn(&str) -> bool,
) -> Option<&'a What> {
    let path = path.strip_suffix(DELETED).unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_for = |wanted: &str| {
        let is_it = |what: &&What| matches!(what, What::Program(program) if program == wanted);
        named.iter().find(is_it)
    };
    is_for(path)
        .filter(|_| is_file_at(path))
        .or_else(|| is_for(name))
}

/// Does a process execute the file that the daemon sees at this path? In a user's own mount namespace any file can be at any
/// path. A deleted executable, as after an upgrade, cannot be compared; it must belong to root.
fn executes(pid: u32, path: &str) -> bool {
    let Some(own) = status_of(&format!("/proc/{pid}/exe")) else {
        return false;
    };
    let file = |of: &statx| (of.stx_dev_major, of.stx_dev_minor, of.stx_ino);
    status_of(path).is_some_and(|there| file(&there) == file(&own))
        || (own.stx_nlink == 0 && own.stx_uid == ROOT)
}

// As the file system has it at hand (AT_STATX_DONT_SYNC): it may be a user's own (FUSE), and must not keep the daemon waiting.
fn status_of(path: &str) -> Option<statx> {
    let path = CString::new(path).ok()?;
    let mut found = MaybeUninit::zeroed();
    let result = unsafe {
        libc::statx(
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_STATX_DONT_SYNC,
            libc::STATX_BASIC_STATS,
            found.as_mut_ptr(),
        )
    };
    // SAFETY: all its fields are integers, and the kernel has filled them in.
    (result == 0).then(|| unsafe { found.assume_init() })
}

/// Finds the processes of each rule. It remembers the cgroups of units, since searching for them is expensive.
pub struct Finder {
    cgroups: PathBuf,
    units: BTreeMap<String, PathBuf>,
    /// The uid that may name units. Cgroups below another user's cgroup are not searched: that user names them freely.
    owner: u32,
}

impl Finder {
    pub fn new(cgroups: &Path, owner: u32) -> Self {
        Self {
            owner,
            cgroups: cgroups.to_owned(),
            units: BTreeMap::new(),
        }
    }

    /// Those of the processes that are of one of `named`. A program comes before a unit.
    pub fn find(&mut self, named: &[What], pids: &[u32]) -> BTreeMap<What, Vec<u32>> {
        let mut found: BTreeMap<What, Vec<u32>> = BTreeMap::new();
        let mut pace = Pace::new();
        let units = self.of_units(named, &mut pace);
        let is_program = |what: &What| matches!(what, What::Program(_));
        let programs = named.iter().any(is_program);
        for pid in pids {
            pace.rest();
            let of_program = programs
                .then(|| fs::read_link(format!("/proc/{pid}/exe")).ok())
                .flatten()
                .and_then(|path| {
                    let is_file_at = |path: &str| executes(*pid, path);
                    program(named, &path.to_string_lossy(), is_file_at).cloned()
                });
            if let Some(what) = of_program.or_else(|| units.get(pid).cloned()) {
                found.entry(what).or_default().push(*pid);
            }
        }
        found
    }

    fn of_units(&mut self, named: &[What], pace: &mut Pace) -> BTreeMap<u32, What> {
        let wanted: BTreeSet<&String> = named
            .iter()
            .filter_map(|what| match what {
                What::Unit(name) => Some(name),
                What::Program(_) => None,
            })
            .collect();
        self.units
            .retain(|name, path| wanted.contains(name) && path.is_dir());
        if self.units.len() < wanted.len() {
            walk(&self.cgroups, &mut |path| {
                note(&mut self.units, path, &wanted);
                is_of(path, self.owner)
            });
        }
        let mut processes = BTreeMap::new();
        for (name, path) in &self.units {
            walk(path, &mut |path| {
                pace.rest();
                let of_unit = pids(path).into_iter();
                processes.extend(of_unit.map(|pid| (pid, What::Unit(name.clone()))));
                true
            });
        }
        processes
    }
}

fn note(units: &mut BTreeMap<String, PathBuf>, path: &Path, wanted: &BTreeSet<&String>) {
    let name = path.file_name().and_then(|name| name.to_str());
    if let Some(name) = name.map(String::from).filter(|name| wanted.contains(name)) {
        units.entry(name).or_insert_with(|| path.to_owned());
    }
}

fn pids(cgroup: &Path) -> Vec<u32> {
    let text = fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::currency::name;

    fn uid() -> u32 {
        nix::unistd::getuid().as_raw()
    }

    fn program_rule(name: &str) -> What {
        What::Program(name.into())
    }

    #[test]
    fn a_short_name_is_the_currencys() {
        assert_eq!(currency_name(&What::Program("mpv".into())), "prog.mpv");
        let nginx = What::Unit("nginx.service".into());
        assert_eq!(currency_name(&nginx), "unit.nginx.service");
    }

    #[test]
    fn other_names_are_shortened_and_marked_and_still_different() {
        let whats = [
            What::Program("/usr/bin/mpv".into()),
            What::Program("/usr/local/bin/mpv".into()),
            What::Program("a program".into()),
            What::Program("aprogram".into()),
            What::Program("ä".into()),
            What::Unit("a-very-long-name-of-a-unit.service".into()),
            What::Unit("a-very-long-name-of-a-unit.slice".into()),
            What::Unit("getty@tty1.service".into()),
        ];
        let of_users = whats
            .iter()
            .flat_map(|what| [1, 1000].map(|uid| currency_of_user(what, uid)));
        let names: BTreeSet<String> = whats.iter().map(currency_name).chain(of_users).collect();
        assert_eq!(names.len(), 3 * whats.len(), "{names:?}");
        for text in names {
            assert!(name(&text).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_path_beats_a_name() {
        let rules = [program_rule("mpv"), program_rule("/opt/mpv")];
        let found = |path| program(&rules, path, |_| true);
        assert_eq!(found("/usr/bin/mpv"), Some(&rules[0]));
        assert_eq!(found("/opt/mpv"), Some(&rules[1]));
        assert_eq!(found("/opt/mpv (deleted)"), Some(&rules[1]));
        assert_eq!(found("/usr/bin/mpv2"), None);
        assert_eq!(found("/mpv/sh"), None);
        let other = program(&rules, "/opt/mpv", |_| false);
        assert_eq!(other, Some(&rules[0]), "another file of that path");
    }

    #[test]
    fn a_process_is_found_by_its_executable_before_its_unit() {
        let root = std::env::temp_dir().join(format!("tombola-test-who-{}", std::process::id()));
        let unit = root.join("system.slice/web.service");
        let below = unit.join("worker");
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(root.join("other.service")).unwrap();
        let own = std::process::id();
        fs::write(unit.join("cgroup.procs"), "77\n").unwrap();
        fs::write(below.join("cgroup.procs"), format!("78\n{own}\n")).unwrap();
        fs::write(root.join("other.service/cgroup.procs"), "79\n").unwrap();
        let exe = std::env::current_exe().unwrap();
        let rules = [
            What::Unit("web.service".into()),
            program_rule(exe.to_str().unwrap()),
            What::Unit("absent.service".into()),
        ];
        let found = Finder::new(&root, uid()).find(&rules, &[77, 78, 79, own]);
        assert_eq!(found.get(&rules[0]), Some(&vec![77, 78]));
        assert_eq!(found.get(&rules[1]), Some(&vec![own]));
        assert_eq!(found.len(), 2);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_process_executes_the_file_that_is_there() {
        let exe = std::env::current_exe().unwrap();
        assert!(executes(std::process::id(), exe.to_str().unwrap()));
        assert!(!executes(std::process::id(), "/bin/sh"));
    }

    #[test]
    fn units_below_a_users_cgroup_are_not_searched_for() {
        let root = std::env::temp_dir().join(format!("tombola-test-own-{}", std::process::id()));
        let unit = root.join("user@1000.service/web.service");
        fs::create_dir_all(&unit).unwrap();
        fs::write(unit.join("cgroup.procs"), "80\n").unwrap();
        let rules = [What::Unit("web.service".into())];
        assert!(!Finder::new(&root, uid()).find(&rules, &[80]).is_empty());
        let root_is_another = Finder::new(&root, uid() + 1).find(&rules, &[80]);
        assert!(root_is_another.is_empty());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_unit_that_comes_later_is_found_at_the_next_look() {
        let root = std::env::temp_dir().join(format!("tombola-test-late-{}", std::process::id()));
        fs::create_dir_all(&root).unwrap();
        let rules = [What::Unit("late.service".into())];
        let mut finder = Finder::new(&root, uid());
        assert!(finder.find(&rules, &[80]).is_empty());
        let unit = root.join("late.service");
        fs::create_dir_all(&unit).unwrap();
        fs::write(unit.join("cgroup.procs"), "80\n").unwrap();
        assert!(!finder.find(&rules, &[80]).is_empty());
        fs::remove_dir_all(root).unwrap();
    }
}
