//! The plots of the report, as SVG text.

use super::data::{Search, Spot, along};
use crate::search::Goal;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;

const GREY: RGBColor = RGBColor(150, 150, 150);
const BLUE: RGBColor = RGBColor(20, 90, 180);
const ORANGE: RGBColor = RGBColor(210, 95, 0);
/// Colours of named series; distinguishable with the common colour-vision deficiencies (Okabe and Ito).
const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
];

type Chart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// What an axis shows.
pub struct Labels<'a> {
    /// Above the plot.
    pub title: &'a str,
    /// Below it.
    pub x: &'a str,
    /// Beside it.
    pub y: &'a str,
}

/// A plot with the names of its series, which stand below it where they hide no point.
pub struct Plot {
    /// The plot itself.
    pub svg: String,
    /// Name and colour (CSS) of each series.
    pub legend: Vec<(String, String)>,
}

/// Latency against energy: every combination measured, the default governors, the budget and the choice.
/// `None` when there is no energy to draw.
pub fn scatter(search: &Search) -> Option<Plot> {
    let place = |s: &Spot| Some((s.latency, s.energy?));
    let spots: Vec<_> = search.spots.iter().filter_map(place).collect();
    let baseline = search.baseline.as_ref().and_then(place);
    let chosen = search.spots.iter().find(|s| Some(s.point) == search.best).and_then(place);
    let all = || spots.iter().chain(&baseline);
    let (xs, ys) = (span(all().map(|p| p.0))?, span(all().map(|p| p.1).chain(bound_energy(search)))?);
    let labels = Labels { title: "energy over latency", x: "latency, ms", y: "mJ per token" };
    let svg = draw((940, 320), &labels, xs.clone(), ys.clone(), |chart| {
        let budget: Vec<_> = match search.goal {
            Some(Goal::LowestLatency { within }) => vec![(xs.start, within.0), (xs.end, within.0)],
            Some(Goal::LowestEnergy { within }) => vec![(within.0, ys.start), (within.0, ys.end)],
            None => Vec::new(),
        };
        chart.draw_series(DashedLineSeries::new(budget, 6, 4, ORANGE.stroke_width(1)))?;
        for (places, size, colour) in
            [(&spots[..], 3, GREY), (baseline.as_slice(), 5, ORANGE), (chosen.as_slice(), 5, BLUE)]
        {
            chart.draw_series(places.iter().map(|&place| Circle::new(place, size, colour.filled())))?;
        }
        Ok(())
    })?;
    let names =
        [("measured", GREY), ("default governors, and the budget (dashed)", ORANGE), ("chosen", BLUE)];
    Some(Plot { svg, legend: names.into_iter().map(|(name, colour)| (name.into(), css(colour))).collect() })
}

fn css(colour: RGBColor) -> String {
    let RGBColor(r, g, b) = colour;
    format!("rgb({r},{g},{b})")
}

fn bound_energy(search: &Search) -> Option<f64> {
    match search.goal {
        Some(Goal::LowestLatency { within }) => Some(within.0),
        _ => None,
    }
}

/// Latency and energy over the operating points of one axis; lines join points with the same other axis, and
/// the line of the choice stands out.
pub fn curves(search: &Search, gpu: bool, unit_label: &str) -> Vec<String> {
    let value = |energy: bool| move |s: &Spot| if energy { s.energy } else { Some(s.latency) };
    let chosen_line = search.best.map(|best| along(best, gpu).1);
    let one = |energy: bool, title: &str, y: &str| {
        let lines = lines(&search.spots, gpu, value(energy));
        let labels = Labels { title, x: unit_label, y };
        let all = || lines.values().flatten();
        let (xs, ys) = (span(all().map(|p| p.0))?, span(all().map(|p| p.1))?);
        draw((460, 260), &labels, xs, ys, |chart| {
            let (front, back): (Vec<_>, Vec<_>) =
                lines.iter().partition(|(other, _)| Some(**other) == chosen_line);
            for (colour, (_, line)) in back.iter().map(|l| (GREY, l)).chain(front.iter().map(|l| (BLUE, l))) {
                chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(1)))?;
                chart.draw_series(line.iter().map(|&place| Circle::new(place, 2, colour.filled())))?;
            }
            Ok(())
        })
    };
    [one(false, "latency", "ms"), one(true, "energy", "mJ per token")].into_iter().flatten().collect()
}

type Lines = BTreeMap<Option<crate::units::Opp>, Vec<(f64, f64)>>;

/// Lines with at least two points: those that say something about the axis.
fn lines(spots: &[Spot], gpu: bool, value: impl Fn(&Spot) -> Option<f64>) -> Lines {
    let mut lines = Lines::new();
    for spot in spots {
        if let ((Some(at), other), Some(value)) = (along(spot.point, gpu), value(spot)) {
            lines.entry(other).or_default().push((at.0 as f64 / 1e3, value));
        }
    }
    lines.retain(|_, line| line.len() > 1);
    lines.values_mut().for_each(|line| line.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}

/// Named series over the number of the trial.
pub fn over_run(labels: &Labels, series: &[(String, Vec<(f64, f64)>)]) -> Option<Plot> {
    let all = || series.iter().flat_map(|(_, line)| line);
    let (xs, ys) = (span(all().map(|p| p.0))?, span(all().map(|p| p.1))?);
    let coloured = || series.iter().zip(PALETTE.iter().cycle());
    let svg = draw((940, 260), labels, xs, ys, |chart| {
        for ((_, line), colour) in coloured() {
            chart.draw_series(LineSeries::new(line.iter().copied(), colour.stroke_width(1)))?;
        }
        Ok(())
    })?;
    let legend = coloured().map(|((name, _), colour)| (name.clone(), css(*colour))).collect();
    Some(Plot { svg, legend })
}

/// The range of the values with a margin; `None` for no values.
fn span(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let margin = ((high - low) * 0.06).max(high.abs() * 0.01).max(1e-9);
    (low <= high).then_some(low - margin..high + margin)
}

/// A plot; `None` when it cannot be drawn, which leaves a gap and not a failed report.
fn draw(
    size: (u32, u32),
    labels: &Labels,
    xs: Range<f64>,
    ys: Range<f64>,
    content: impl FnOnce(&mut Chart) -> Drawn,
) -> Option<String> {
    let mut svg = String::new();
    let done = frame(&SVGBackend::with_string(&mut svg, size).into_drawing_area(), labels, xs, ys, content);
    done.ok().map(|()| svg)
}

fn frame(
    area: &DrawingArea<SVGBackend, Shift>,
    labels: &Labels,
    xs: Range<f64>,
    ys: Range<f64>,
    content: impl FnOnce(&mut Chart) -> Drawn,
) -> Drawn {
    let (x_digits, y_digits) = (digits(&xs), digits(&ys));
    let mut chart = ChartBuilder::on(area)
        .caption(labels.title, ("sans-serif", 14))
        .margin(6)
        .margin_right(14)
        .x_label_area_size(38)
        .y_label_area_size(58)
        .build_cartesian_2d(xs, ys)?;
    chart
        .configure_mesh()
        .x_desc(labels.x)
        .y_desc(labels.y)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|x| format!("{x:.x_digits$}"))
        .y_label_formatter(&|y| format!("{y:.y_digits$}"))
        .bold_line_style(BLACK.mix(0.08))
        .light_line_style(TRANSPARENT)
        .label_style(("sans-serif", 11))
        .axis_desc_style(("sans-serif", 12))
        .draw()?;
    content(&mut chart)?;
    area.present()?;
    Ok(())
}

/// Decimals that tell six labels of a range apart.
fn digits(range: &Range<f64>) -> usize {
    match range.end - range.start {
        wide if wide > 20.0 => 0,
        middle if middle > 2.0 => 1,
        _ => 2,
    }
}
