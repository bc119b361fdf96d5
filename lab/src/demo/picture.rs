//! What each user received over time, beside what the tickets give.

use super::phase::{Phase, Sample, USERS};
use anyhow::{Context, Result, anyhow};
use tombola_plot::plotters::prelude::*;
use tombola_plot::{Area, COLOURS};

/// Consecutive samples of one policy form one course, whose time begins at 0.
fn courses(phases: &[Phase]) -> Vec<(String, Vec<Phase>)> {
    let mut courses: Vec<(String, Vec<Phase>)> = Vec::new();
    for phase in phases {
        match courses.last_mut() {
            Some((policy, course)) if *policy == phase.policy => course.push(phase.clone()),
            _ => courses.push((phase.policy.clone(), vec![phase.clone()])),
        }
    }
    courses
}

pub(super) fn draw(area: &Area, phases: &[Phase]) -> Result<()> {
    let courses = courses(phases);
    for ((policy, course), panel) in courses.iter().zip(area.split_evenly((1, courses.len()))) {
        draw_course(&panel, policy, course)?;
    }
    Ok(())
}

fn draw_course(area: &Area, policy: &str, course: &[Phase]) -> Result<()> {
    let failed = |error: DrawingAreaErrorKind<_>| anyhow!("cannot draw: {error}");
    let samples: Vec<Sample> = course
        .iter()
        .flat_map(|phase| phase.samples.clone())
        .collect();
    let (first, last) = (
        *samples.first().context("nothing was sampled")?,
        *samples.last().context("nothing was sampled")?,
    );
    let top = (0..USERS.len())
        .map(|user| last.used_s[user] - first.used_s[user])
        .fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(policy, ("sans-serif", 22))
        .margin(14)
        .x_label_area_size(42)
        .y_label_area_size(48)
        .build_cartesian_2d(0.0..(last.at_s - first.at_s) * 1.22, 0.0..top * 1.06)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("seconds")
        .y_desc("CPU seconds received")
        .label_style(("sans-serif", 14))
        .draw()
        .map_err(failed)?;
    for (user, name) in USERS.iter().enumerate() {
        let colour = COLOURS[user];
        let points = samples
            .iter()
            .map(|s| (s.at_s - first.at_s, s.used_s[user] - first.used_s[user]));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(3)))
            .map_err(failed)?;
        for phase in course {
            chart
                .draw_series(DashedLineSeries::new(
                    due(phase, user, &first),
                    4,
                    5,
                    BLACK.stroke_width(1),
                ))
                .map_err(failed)?;
        }
        let end = (
            last.at_s - first.at_s,
            last.used_s[user] - first.used_s[user],
        );
        chart
            .draw_series([Text::new(
                format!(" {name}"),
                end,
                ("sans-serif", 15).into_font().color(&colour),
            )])
            .map_err(failed)?;
    }
    Ok(())
}

/// What the tickets give, from the beginning of a phase.
fn due(phase: &Phase, user: usize, origin: &Sample) -> Vec<(f64, f64)> {
    let (Some(first), Some(last)) = (phase.samples.first(), phase.samples.last()) else {
        return Vec::new();
    };
    let start = first.used_s[user] - origin.used_s[user];
    vec![
        (first.at_s - origin.at_s, start),
        (
            last.at_s - origin.at_s,
            start + phase.entitled(user) * phase.total_s(),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::phase::tests::phase;
    use super::*;

    #[test]
    fn a_course_joins_phases_of_one_policy() {
        let phases = [
            phase("stride", [1.0; 3]),
            phase("stride", [1.0; 3]),
            phase("lottery", [1.0; 3]),
        ];
        let lengths: Vec<usize> = courses(&phases)
            .iter()
            .map(|(_, course)| course.len())
            .collect();
        assert_eq!(lengths, [2, 1]);
    }
}
