//! Pictures of results, as SVG and, made from it, PNG.

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use resvg::{tiny_skia, usvg};
use std::fs;
use std::path::Path;

pub const SIZE: (u32, u32) = (960, 600);

/// Colours that stay apart for colour-blind readers (Okabe and Ito).
pub const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];

pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws with `draw` and writes NAME.svg and NAME.png into `dir`.
pub fn write(dir: &Path, name: &str, draw: impl FnOnce(&Area) -> Result<()>) -> Result<()> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
        draw(&area)?;
        area.present().map_err(|error| anyhow!("{error}"))?;
    }
    let path = dir.join(name).with_extension("svg");
    fs::write(&path, &svg).with_context(|| format!("cannot write {}", path.display()))?;
    let path = dir.join(name).with_extension("png");
    fs::write(&path, png(&svg)?).with_context(|| format!("cannot write {}", path.display()))
}

fn png(svg: &str) -> Result<Vec<u8>> {
    let mut options = usvg::Options::default();
    options.fontdb_mut().load_system_fonts();
    // The generic names must stand for the same font everywhere; deps.sh installs this one.
    options.fontdb_mut().set_sans_serif_family("DejaVu Sans");
    let tree = usvg::Tree::from_str(svg, &options).context("the plot is not valid SVG")?;
    let mut pixels = tiny_skia::Pixmap::new(SIZE.0, SIZE.1).context("the plot has no size")?;
    resvg::render(&tree, tiny_skia::Transform::default(), &mut pixels.as_mut());
    pixels.encode_png().context("cannot encode the plot as PNG")
}
