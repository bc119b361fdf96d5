//! Subordinate uids: /etc/subuid says which user may use which uids in user namespaces (subuid(5)).

use nix::unistd::User;
use std::fs;
use std::io::{self, ErrorKind};

const FILE: &str = "/etc/subuid";

/// As the scheduler reads it (`struct subordinate` in bpf/state.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Range {
    pub first: u32,
    pub count: u32,
    pub owner: u32,
}

impl Range {
    pub fn bytes(&self) -> [u8; size_of::<Self>()] {
        let mut bytes = [0; size_of::<Self>()];
        for (word, value) in bytes
            .chunks_exact_mut(4)
            .zip([self.first, self.count, self.owner])
        {
            word.copy_from_slice(&value.to_ne_bytes());
        }
        bytes
    }
}

/// The file's ranges, in ascending order and without overlap; none if there is no file.
pub fn read() -> io::Result<Vec<Range>> {
    match fs::read(FILE) {
        Ok(bytes) => Ok(ranges(&String::from_utf8_lossy(&bytes), owner)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn owner(name: &str) -> Option<u32> {
    match User::from_name(name) {
        Ok(Some(user)) => Some(user.uid.as_raw()),
        _ => name.parse().ok(),
    }
}

// Invalid lines, and lines of unknown users, are ignored, as by the programs that make namespaces.
fn ranges(text: &str, owner: impl Fn(&str) -> Option<u32>) -> Vec<Range> {
    let mut ranges: Vec<Range> = text
        .lines()
        .filter_map(|line| range(line, &owner))
        .collect();
    ranges.sort_by_key(|range| range.first);
    // Where two ranges overlap, the uids belong to the one that begins later.
    for i in 1..ranges.len() {
        let next = ranges[i].first;
        let before = &mut ranges[i - 1];
        before.count = before.count.min(next - before.first);
    }
    ranges.retain(|range| range.count > 0);
    ranges
}

fn range(line: &str, owner: impl Fn(&str) -> Option<u32>) -> Option<Range> {
    let mut fields = line.split(':');
    let (name, first, count) = (fields.next()?, fields.next()?, fields.next()?);
    let first: u32 = first.trim().parse().ok()?;
    let count: u32 = count.trim().parse().ok()?;
    // Root is not subordinate to any user, and the largest number is the kernel's "no uid".
    if first == 0 || count == 0 || first.checked_add(count).is_none() {
        return None;
    }
    Some(Range {
        first,
        count,
        owner: owner(name)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(u32, u32, u32)> {
        let owner = |name: &str| match name {
            "alice" => Some(1000),
            "bob" => Some(1001),
            number => number.parse().ok(),
        };
        let tuple = |range: Range| (range.first, range.count, range.owner);
        ranges(text, owner).into_iter().map(tuple).collect()
    }

    #[test]
    fn ranges_are_in_ascending_order() {
        let text = "bob:165536:65536\nalice:100000:65536\n1002:300000:10\n";
        let expected = [
            (100_000, 65_536, 1000),
            (165_536, 65_536, 1001),
            (300_000, 10, 1002),
        ];
        assert_eq!(of(text), expected);
    }

    #[test]
    fn ranges_that_overlap_are_cut() {
        let text = "alice:100:50\nbob:120:10\nalice:120:10\n";
        assert_eq!(of(text), [(100, 20, 1000), (120, 10, 1000)]);
    }

    #[test]
    fn invalid_lines_are_ignored() {
        let text = "# comment\n\nalice\nalice:1\nalice:x:1\nalice:0:10\nalice:5:0\nnobody:5:5\nalice:4294967290:10\n";
        assert_eq!(of(text), []);
    }

    #[test]
    fn bytes_are_the_kernels() {
        let range = Range {
            first: 1,
            count: 2,
            owner: 3,
        };
        let words: Vec<u32> = range
            .bytes()
            .chunks_exact(4)
            .map(|word| u32::from_ne_bytes(word.try_into().expect("four bytes")))
            .collect();
        assert_eq!(words, [1, 2, 3]);
    }
}
