//! Plots of results, as SVG and, made from it, PNG.

use anyhow::{Context, Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use resvg::{tiny_skia, usvg};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

pub use plotters;
pub use plotters::prelude::SeriesLabelPosition;

/// Width and height of a plot, in pixels.
pub const SIZE: (u32, u32) = (960, 600);

/// The font of texts, if it is installed.
const FONT: &str = "DejaVu Sans";

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

/// A part of a plot.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Draws with `draw` and writes NAME.svg and NAME.png into `dir`.
///
/// # Errors
///
/// If `draw` fails, a file cannot be written, or no font is installed.
pub fn write(dir: &Path, name: &str, draw: impl FnOnce(&Area) -> Result<()>) -> Result<()> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(|error| anyhow!("{error}"))?;
        draw(&area)?;
        area.present().map_err(|error| anyhow!("{error}"))?;
    }
    for (ending, bytes) in [("svg", svg.as_bytes()), ("png", &png(&svg)?)] {
        let path = dir.join(format!("{name}.{ending}"));
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn png(svg: &str) -> Result<Vec<u8>> {
    let mut options = usvg::Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    let family =
        sans_serif(fonts).with_context(|| format!("no font is installed, as {FONT} is"))?;
    fonts.set_sans_serif_family(family);
    let tree = usvg::Tree::from_str(svg, &options).context("the plot is not valid SVG")?;
    let mut pixels = tiny_skia::Pixmap::new(SIZE.0, SIZE.1).context("the plot has no size")?;
    resvg::render(&tree, tiny_skia::Transform::default(), &mut pixels.as_mut());
    pixels.encode_png().context("cannot encode the plot as PNG")
}

/// The generic name should stand for the same font everywhere.
fn sans_serif(fonts: &usvg::fontdb::Database) -> Option<String> {
    let families = || fonts.faces().flat_map(|face| &face.families);
    let preferred = families().find(|(name, _)| name == FONT);
    let (name, _) = preferred.or_else(|| families().next())?;
    Some(name.clone())
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
    /// What is due: thin, dashed and black.
    Due,
}

impl Curve {
    /// Points joined by a line of a colour of its own.
    pub fn line(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points,
            style: Style::Line,
        }
    }

    /// Points as dots of a colour of their own.
    pub fn dots(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points,
            style: Style::Dots,
        }
    }

    /// What is due, as a dashed black line; without a name it is not in the legend.
    pub fn due(name: &str, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.to_owned(),
            points,
            style: Style::Due,
        }
    }
}

/// A curve of one point, so far above the others that there is room for a legend.
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
    /// In a corner without curves.
    pub legend: SeriesLabelPosition,
}

/// A chart of ratios, a row for each name, on a logarithmic scale.
pub struct Ratios {
    pub title: String,
    pub x: String,
    pub names: Vec<String>,
    /// What each should reach, a mark for each name.
    pub due: Vec<f64>,
    /// Dots: a ratio for each name, where there is one.
    pub dots: Vec<(String, Vec<Option<f64>>)>,
}

/// Draws charts of the same names beside one another, on the same scale.
pub fn ratios(area: &Area, charts: &[Ratios]) -> Result<()> {
    const NAMES: u32 = 190;
    let (names, rest) = area.split_horizontally(NAMES);
    let style = ("sans-serif", 12)
        .into_font()
        .color(&BLACK)
        .pos(Pos::new(HPos::Right, VPos::Center));
    let areas = rest.split_evenly((1, charts.len()));
    for (number, (chart, area)) in charts.iter().zip(areas).enumerate() {
        let rows = draw_ratios(&area, chart, charts)
            .map_err(|error| anyhow!("{}: {error}", chart.title))?;
        for (name, row) in chart.names.iter().zip(rows).filter(|_| number == 0) {
            names
                .draw_text(name, &style, (NAMES as i32 - 2, row))
                .map_err(|error| anyhow!("{error}"))?;
        }
    }
    Ok(())
}

/// Returns the rows' vertical positions on the picture.
fn draw_ratios(
    area: &Area,
    ratios: &Ratios,
    all: &[Ratios],
) -> std::result::Result<Vec<i32>, Box<dyn std::error::Error>> {
    let values = || {
        all.iter()
            .flat_map(|chart| &chart.dots)
            .flat_map(|(_, values)| values.iter().flatten())
    };
    let low = values().fold(0.5, |low: f64, &value| low.min(value)).log2() - 0.2;
    let high = values()
        .fold(1.5, |high: f64, &value| high.max(value))
        .log2()
        + 0.2;
    let count = ratios.names.len();
    let row = |number: usize| (count - number) as f64 - 0.5;
    // Room for the legend, where no dot is.
    let bottom = -(ratios.dots.len() as f64) - 1.0;
    let mut chart = ChartBuilder::on(area)
        .caption(&ratios.title, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(36)
        .build_cartesian_2d(low..high, bottom..count as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(5)
        .x_desc(&ratios.x)
        .x_label_formatter(&|log| format!("{:.2}", log.exp2()))
        .label_style(("sans-serif", 12))
        .draw()?;
    for number in 0..count {
        let line = vec![(low, row(number)), (high, row(number))];
        chart.draw_series(LineSeries::new(line, BLACK.mix(0.12)))?;
    }
    chart.draw_series(LineSeries::new(
        vec![(0.0, 0.0), (0.0, count as f64)],
        BLACK,
    ))?;
    let mark = |(number, due): (usize, &f64)| {
        let at = due.log2();
        PathElement::new(
            vec![(at, row(number) - 0.4), (at, row(number) + 0.4)],
            BLACK,
        )
    };
    chart.draw_series(ratios.due.iter().enumerate().map(mark))?;
    for ((name, values), colour) in ratios.dots.iter().zip(COLOURS) {
        let places = values
            .iter()
            .enumerate()
            .filter_map(|(number, value)| Some(((*value)?.log2(), row(number))));
        let dots = places.map(|place| Circle::new(place, 4, colour.filled()));
        chart
            .draw_series(dots)?
            .label(name)
            .legend(move |place| Circle::new(place, 4, colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.8))
        .label_font(("sans-serif", 12))
        .draw()?;
    Ok((0..count)
        .map(|number| chart.backend_coord(&(low, row(number))).1)
        .collect())
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
///
/// # Errors
///
/// If one cannot be drawn.
pub fn panels(area: &Area, panels: &[Panel]) -> Result<()> {
    draw_panels(area, panels, draw_panel)
}

/// Draws panels whose axes are logarithmic, two in a row. All numbers are above 0.
///
/// # Errors
///
/// If one cannot be drawn.
pub fn log_panels(area: &Area, panels: &[Panel]) -> Result<()> {
    draw_panels(area, panels, draw_log_panel)
}

fn draw_panels(area: &Area, panels: &[Panel], draw: fn(&Area, &Panel) -> DrawResult) -> Result<()> {
    let columns = if panels.len() == 1 { 1 } else { 2 };
    let rows = panels.len().div_ceil(columns);
    for (panel, area) in panels.iter().zip(area.split_evenly((rows, columns))) {
        draw(&area, panel).map_err(|error| anyhow!("{}: {error}", panel.title))?;
    }
    Ok(())
}

/// As short as it may be.
fn number(value: &f64) -> String {
    let digits = format!("{:.6}", value + 0.0);
    let short = digits.trim_end_matches('0').trim_end_matches('.');
    short.to_owned()
}

/// Labels of an axis at most.
const LABELS: usize = 11;
const LOG_LABELS: usize = 6;

type DrawResult = std::result::Result<(), Box<dyn std::error::Error>>;

/// The least and the largest number of a panel's points.
fn extremes(panel: &Panel, of: fn(&(f64, f64)) -> f64) -> (f64, f64) {
    let all = || panel.curves.iter().flat_map(|curve| &curve.points).map(of);
    let high = all().fold(f64::NEG_INFINITY, f64::max);
    (all().fold(f64::INFINITY, f64::min), high)
}

fn draw_panel(area: &Area, panel: &Panel) -> DrawResult {
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) = extremes(panel, of);
        let room = ((high - low) * 0.05).max(high.abs() * 0.005).max(1e-6);
        (low - room)..(high + room)
    };
    let (x, y) = (range(|point| point.0), range(|point| point.1));
    draw_within(area, panel, x, y, LABELS)
}

fn draw_log_panel(area: &Area, panel: &Panel) -> DrawResult {
    let range = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) = extremes(panel, of);
        let room = (high / low).powf(0.05).max(1.05);
        ((low / room)..(high * room)).log_scale()
    };
    let (x, y) = (range(|point| point.0), range(|point| point.1));
    draw_within(area, panel, x, y, LOG_LABELS)
}

fn draw_within<X, Y>(area: &Area, panel: &Panel, x: X, y: Y, labels: usize) -> DrawResult
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y: AsRangedCoord<Value = f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(labels)
        .y_labels(labels)
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .x_label_formatter(&number)
        .y_label_formatter(&number)
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
            // Dashed if the curve is.
            let gap = if curve.style == Style::Due { 5 } else { 0 };
            drawn
                .label(&curve.name)
                .legend(move |(x, y)| DashedPathElement::new([(x, y), (x + 18, y)], 4, gap, style));
        }
    }
    if panel.curves.iter().any(|curve| !curve.name.is_empty()) {
        chart
            .configure_series_labels()
            .position(panel.legend.clone())
            .background_style(WHITE.mix(0.8))
            .label_font(("sans-serif", 12))
            .draw()?;
    }
    Ok(())
}
