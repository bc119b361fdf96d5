//! What goes over the wire: a request of 49 bytes, an answer of 8.
//!
//! ```text
//!   request   0..32 digest | 32..40 start | 40..48 end | 48 priority          numbers big endian, end not in the range
//!   answer    0..8 number, big endian
//! ```

use std::ops::Range;

pub const REQUEST_BYTES: usize = 49;
pub const ANSWER_BYTES: usize = 8;

/// The answer when no number of the range has the digest, or none was found in time. It is never one: a range ends before it.
pub const NOT_FOUND: u64 = u64::MAX;

/// The highest priority that the client of the challenge gives; a byte holds more.
pub const PRIORITY_MAX: u8 = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub digest: [u8; 32],
    /// Empty if it is reversed.
    pub range: Range<u64>,
    pub priority: u8,
}

impl Request {
    #[must_use]
    pub fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Self {
        let number = |at: usize| {
            let eight = bytes[at..at + 8].try_into().expect("8 bytes");
            u64::from_be_bytes(eight)
        };
        Self {
            digest: bytes[..32].try_into().expect("32 bytes"),
            range: number(32)..number(40),
            priority: bytes[48],
        }
    }

    #[must_use]
    pub fn to_bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..32].copy_from_slice(&self.digest);
        bytes[32..40].copy_from_slice(&self.range.start.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.range.end.to_be_bytes());
        bytes[48] = self.priority;
        bytes
    }

    /// How many numbers are to be tried at most.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.range.end.saturating_sub(self.range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_are_where_the_challenge_has_them() {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..32].copy_from_slice(&std::array::from_fn::<u8, 32, _>(|i| i as u8));
        bytes[39] = 1;
        bytes[46] = 2;
        bytes[48] = 3;
        let request = Request::from_bytes(&bytes);
        assert_eq!(request.digest[31], 31);
        assert_eq!((request.range.clone(), request.priority), (1..512, 3));
        assert_eq!(request.units(), 511);
        assert_eq!(request.to_bytes(), bytes);
    }

    #[test]
    fn a_reversed_range_is_empty() {
        let request = Request {
            digest: [0; 32],
            range: Range { start: 5, end: 3 },
            priority: 1,
        };
        assert_eq!(request.units(), 0);
        assert_eq!(Request::from_bytes(&request.to_bytes()), request);
    }
}
