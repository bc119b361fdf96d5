//! The film, and how it is decoded.

use anyhow::{Context, Result};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Motion JPEG: whole JPEG pictures, one after another. Made by build.rs.
static FILM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/film.mjpeg"));

/// A film that begins anew when it is over.
pub struct Film {
    frames: Vec<&'static [u8]>,
}

impl Film {
    pub fn new() -> Self {
        Self {
            frames: frames(FILM),
        }
    }

    /// Red, green and blue of each point of a frame.
    pub fn decode(&self, number: u64) -> Result<Vec<u8>> {
        let frame = self.frames[(number % self.frames.len() as u64) as usize];
        JpegDecoder::new_with_options(ZCursor::new(frame), DecoderOptions::new_safe())
            .decode()
            .with_context(|| format!("frame {number} is damaged: build this program again"))
    }
}

fn frames(mut film: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while !film.is_empty() {
        let (frame, rest) = film.split_at(frame_bytes(film));
        frames.push(frame);
        film = rest;
    }
    frames
}

const END: u8 = 0xd9;
const SCAN: u8 = 0xda;

/// Length of the frame that the film begins with. A frame is a row of segments, each of 0xff, its kind and, but for the first
/// and the last, its length. A scan's header is followed by data without a length. In it 0xff is followed by 0 or by a restart
/// marker; with anything else the next segment begins.
fn frame_bytes(film: &[u8]) -> usize {
    let mut at = 2;
    while film[at + 1] != END {
        let is_scan = film[at + 1] == SCAN;
        at += 2 + usize::from(u16::from_be_bytes([film[at + 2], film[at + 3]]));
        while is_scan && (film[at] != 0xff || matches!(film[at + 1], 0 | 0xd0..=0xd7)) {
            at += 1;
        }
    }
    at + 2
}

#[cfg(test)]
#[path = "../pictures.rs"]
pub mod pictures;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_a_picture_of_its_own() {
        let film = Film::new();
        let count = u64::from(pictures::FRAMES);
        assert_eq!(film.frames.len() as u64, count);
        let mut before = film.decode(count - 1).unwrap();
        for number in 0..count {
            let picture = film.decode(number).unwrap();
            assert_eq!(picture.len() as u32, pictures::WIDTH * pictures::HEIGHT * 3);
            assert!(picture != before, "frame {number} is the one before");
            before = picture;
        }
    }

    #[test]
    fn the_film_begins_anew() {
        let film = Film::new();
        let again = 10 * u64::from(pictures::FRAMES);
        assert!(film.decode(3).unwrap() == film.decode(again + 3).unwrap());
    }

    /// build.rs makes the film without optimization, this test with it: the bytes are the same.
    #[test]
    fn the_film_is_made_the_same_again() {
        assert!(pictures::film() == FILM);
        assert!(FILM.len() < 1_000_000, "{} bytes", FILM.len());
    }
}
