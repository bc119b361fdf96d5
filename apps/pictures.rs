//! The film that `player` shows: pictures computed and compressed one by one, and the frames one after another (Motion
//! JPEG). All arithmetic is with integers, so that every machine makes the same bytes.
//!
//! Discs swing over a background that passes by from right to left. What moves goes a whole number of times round in the
//! film, so its end fits its beginning.

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

// To decode a frame takes 950,000 instructions. In the virtual machine, at 8 ns each, that is 7.6 ms of the 33 that there are
// for it at 30 frames a second: 23 % of a CPU, and twice as much with `player --passes 2`. A frame of 320x240 takes 46 ms.
pub const WIDTH: u32 = 128;
pub const HEIGHT: u32 = 96;
pub const FRAMES: u32 = 90;

/// Of 100: losses that are not seen at once.
const QUALITY: u8 = 75;

struct Disc {
    radius: u32,
    colour: [u32; 3],
    /// How often it swings from side to side and back in the film, and how often up and down.
    swings: [u32; 2],
}

const DISCS: [Disc; 4] = [
    Disc {
        radius: 18,
        colour: [230, 60, 40],
        swings: [1, 2],
    },
    Disc {
        radius: 13,
        colour: [40, 90, 220],
        swings: [2, 1],
    },
    Disc {
        radius: 10,
        colour: [250, 210, 60],
        swings: [2, 3],
    },
    Disc {
        radius: 6,
        colour: [245, 245, 245],
        swings: [3, 2],
    },
];

/// The whole film.
pub fn film() -> Vec<u8> {
    (0..FRAMES)
        .flat_map(|frame| compress(&picture(frame)))
        .collect()
}

fn compress(picture: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let mut encoder = Encoder::new(&mut frame, QUALITY);
    // Colours at half the resolution, as in almost every film.
    encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
    encoder
        .encode(picture, WIDTH as u16, HEIGHT as u16, ColorType::Rgb)
        .expect("the picture has the size given, and memory takes all of it");
    frame
}

/// Red, green and blue of each point, row by row.
fn picture(frame: u32) -> Vec<u8> {
    let points = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
    points.flat_map(|(x, y)| point(x, y, frame)).collect()
}

fn point(x: u32, y: u32, frame: u32) -> [u8; 3] {
    let colour = DISCS
        .iter()
        .rev()
        .find_map(|disc| on_disc(disc, x, y, frame))
        .unwrap_or_else(|| background(x + WIDTH * frame / FRAMES, y));
    colour.map(|part| part.min(255) as u8)
}

/// Gradients, and a grain that makes them cost the decoder something.
fn background(x: u32, y: u32) -> [u32; 3] {
    let x = x % WIDTH;
    let grain = ((x * 7) ^ (y * 5)) % 16;
    [
        40 + swing(x, WIDTH / 2) / 2 + grain,
        60 + swing(2 * y, HEIGHT) / 2 + grain,
        140 - swing(x + y, WIDTH / 2) / 3 + grain,
    ]
}

/// The disc's colour if the point is on it, darker towards its edge.
fn on_disc(disc: &Disc, x: u32, y: u32, frame: u32) -> Option<[u32; 3]> {
    let centre = |side: u32, swings: u32| {
        let way = side - 2 * disc.radius;
        disc.radius + swing(2 * way * swings * frame / FRAMES, way)
    };
    let from_x = x.abs_diff(centre(WIDTH, disc.swings[0]));
    let from_y = y.abs_diff(centre(HEIGHT, disc.swings[1]));
    let full = disc.radius * disc.radius;
    let from = from_x * from_x + from_y * from_y;
    (from < full).then(|| {
        disc.colour
            .map(|part| part * (2 * full - from) / (2 * full))
    })
}

/// There and back between 0 and `way`.
fn swing(at: u32, way: u32) -> u32 {
    let at = at % (2 * way);
    at.min(2 * way - at)
}
