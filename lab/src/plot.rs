//! Pictures of results, as SVG and, made from it, PNG.

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use resvg::{tiny_skia, usvg};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub const SIZE: (u32, u32) = (960, 600);

/// Colours that stay apart for colour-blind readers (Okabe and Ito).
pub const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
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

/// A curve in a panel.
pub struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
    style: Style,
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Line,
    Dots,
    /// What should be: thin, dashed and black.
    Due,
}

impl Curve {
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points,
            style: Style::Line,
        }
    }

    pub fn dots(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points,
            style: Style::Dots,
        }
    }

    pub fn due(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points,
            style: Style::Due,
        }
    }
}

/// Nothing, so far above the curves that a legend has room between.
pub fn room_above(curves: &[Curve]) -> Curve {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let high = points()
        .map(|point| point.1)
        .fold(f64::NEG_INFINITY, f64::max);
    let low = points().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let left = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    Curve::due("", vec![(left, high + 0.85 * (high - low))])
}

/// One of several charts beside one another.
pub struct Panel {
    pub title: String,
    pub x: String,
    pub y: String,
    pub curves: Vec<Curve>,
    /// Where no curve is.
    pub legend: SeriesLabelPosition,
}

/// The curves' points, a row each.
pub fn csv(panels: &[Panel]) -> String {
    let mut text = String::from("panel,curve,x,y\n");
    for panel in panels {
        for curve in &panel.curves {
            for (x, y) in &curve.points {
                let (title, name) = (&panel.title, &curve.name);
                writeln!(text, "\"{title}\",\"{name}\",{x},{y}").expect("text takes all");
            }
        }
    }
    text
}

/// Draws panels, two in a row.
pub fn panels(area: &Area, panels: &[Panel]) -> Result<()> {
    let columns = if panels.len() == 1 { 1 } else { 2 };
    let rows = panels.len().div_ceil(columns);
    for (panel, area) in panels.iter().zip(area.split_evenly((rows, columns))) {
        draw_panel(&area, panel).map_err(|error| anyhow!("{}: {error}", panel.title))?;
    }
    Ok(())
}

type DrawResult = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw_panel(area: &Area, panel: &Panel) -> DrawResult {
    let all = || panel.curves.iter().flat_map(|curve| &curve.points);
    let range = |of: fn(&(f64, f64)) -> f64| {
        let low = all().map(of).fold(f64::INFINITY, f64::min);
        let high = all().map(of).fold(f64::NEG_INFINITY, f64::max);
        let room = ((high - low) * 0.05).max(high.abs() * 0.005).max(1e-6);
        (low - room)..(high + room)
    };
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(range(|point| point.0), range(|point| point.1))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .label_style(("sans-serif", 12))
        .draw()?;
    let mut colours = COLOURS.iter().cycle();
    for curve in &panel.curves {
        let points = curve.points.iter().copied();
        let style = match curve.style {
            Style::Due => BLACK.stroke_width(1),
            _ => colours
                .next()
                .expect("a cycle does not end")
                .stroke_width(2),
        };
        let drawn = match curve.style {
            Style::Line => chart.draw_series(LineSeries::new(points, style))?,
            Style::Dots => {
                let dot = |point| Circle::new(point, 3, style.color.filled());
                chart.draw_series(points.map(dot))?
            }
            Style::Due => chart.draw_series(DashedLineSeries::new(points, 4, 5, style))?,
        };
        if !curve.name.is_empty() {
            let sample = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style);
            drawn.label(&curve.name).legend(sample);
        }
    }
    chart
        .configure_series_labels()
        .position(panel.legend.clone())
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok(())
}
