//! Line charts with markers, one line per series.

use super::axis::{ChartAxis, Scale};
use super::family::Family;
use super::multiples::SmallMultiples;
use super::svg::{Anchor, Svg, number, path, width};
use std::fmt::Write;

/// Width of a drawing.
pub(super) const WIDTH: f64 = 520.0;
const PLOT: (f64, f64) = (64.0, 506.0);
const TOP: f64 = 40.0;
const BOTTOM: f64 = 300.0;
const LEGEND_ROW: f64 = 22.0;

/// One value of a series.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChartPoint {
    /// Horizontal position.
    pub x: f64,
    /// Value.
    pub y: f64,
    /// Confidence interval, if known.
    pub interval: Option<[f64; 2]>,
}

/// The values of one method.
#[derive(Debug, Clone)]
pub(super) struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Index of its colour, marker and dash pattern.
    pub style: usize,
    /// Where small multiples show it.
    pub family: Family,
    /// Its values, sorted by `x`.
    pub points: Vec<ChartPoint>,
}

/// A line chart.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    /// Name of its file and prefix of its element ids.
    pub name: String,
    /// Heading.
    pub title: String,
    /// Label of the horizontal axis.
    pub x_label: String,
    /// Scale of the horizontal axis.
    pub x_scale: Scale,
    /// Whether ticks are at the values themselves, rather than at integers as for epochs.
    pub x_discrete: bool,
    /// Label of the vertical axis.
    pub y_label: String,
    /// Scale of the vertical axis.
    pub y_scale: Scale,
    /// Limits of the vertical axis.
    pub y_limits: (f64, f64),
    /// The lines.
    pub series: Vec<Series>,
    /// What the intervals are, for the description.
    pub interval: &'static str,
}

impl Chart {
    /// Draws the chart.
    pub(super) fn svg(&self) -> String {
        if let Some(multiples) = SmallMultiples::of(self) {
            return multiples.svg();
        }
        let legend = self.legend();
        let (x, y) = (self.x_axis(PLOT), self.y_axis((BOTTOM, TOP), true));
        let mut svg = Svg::default();
        heading(&mut svg, &self.title, WIDTH);
        frame(&mut svg, &x, &y, &self.x_label, &self.y_label);
        let clip = format!("{}-clip", self.name);
        svg.raw(&format!(
            "<clipPath id=\"{clip}\"><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath>",
            PLOT.0,
            TOP,
            PLOT.1 - PLOT.0,
            BOTTOM - TOP
        ));
        // Error bars would hide many points: use a band instead.
        let crowded = self.series.iter().any(|series| series.points.len() > 8);
        for (index, series) in self.series.iter().enumerate() {
            let place = |point: &ChartPoint| (x.place(point.x), y.place(point.y));
            let points: Vec<(f64, f64)> = series.points.iter().map(place).collect();
            svg.begin_series(series.style);
            svg.raw(&format!("<g clip-path=\"url(#{clip})\">"));
            if crowded {
                band(&mut svg, series, &points, &y);
            } else {
                bars(&mut svg, series, &points, &y, 2.0 + 1.5 * (index % 4) as f64);
            }
            svg.line(&points, series.style);
            svg.end();
            let few = |i: usize| {
                !crowded || i.is_multiple_of(series.points.len().div_ceil(8)) || i + 1 == series.points.len()
            };
            for (i, (point, place)) in series.points.iter().zip(&points).enumerate() {
                if few(i) {
                    svg.marker(*place, series.style, &tooltip(&series.name, &x, point));
                }
            }
            svg.end();
        }
        legend.draw(&mut svg, BOTTOM + 64.0, |svg, i, (x, y)| {
            let series = &self.series[i];
            svg.begin_series(series.style);
            svg.line(&[(x, y), (x + 26.0, y)], series.style);
            svg.marker((x + 13.0, y), series.style, "");
            svg.end();
        });
        svg.document(&self.name, self.size(), &self.title, &self.description(&x))
    }

    /// Width and height.
    pub(super) fn size(&self) -> (f64, f64) {
        match SmallMultiples::of(self) {
            Some(multiples) => multiples.size(),
            None => (WIDTH, BOTTOM + 62.0 + self.legend().height()),
        }
    }

    /// Whether it needs the width of a page.
    pub(super) fn is_wide(&self) -> bool {
        self.size().0 > WIDTH
    }

    fn legend(&self) -> Legend {
        Legend::new(self.series.iter().map(|series| series.name.as_str()), WIDTH)
    }

    pub(super) fn x_axis(&self, pixels: (f64, f64)) -> ChartAxis {
        let mut values: Vec<f64> = self.points().map(|point| point.x).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        if self.x_discrete {
            return ChartAxis::at(self.x_scale, &values, pixels);
        }
        let (low, high) = (values.first().copied().unwrap_or(0.0), values.last().copied().unwrap_or(1.0));
        ChartAxis::integers((low, high), pixels)
    }

    /// Covers all values and, if asked to and as far as that does not squeeze them, their intervals.
    pub(super) fn y_axis(&self, pixels: (f64, f64), intervals: bool) -> ChartAxis {
        let ends = |values: &mut dyn Iterator<Item = f64>| {
            values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (low, high) = ends(&mut self.points().map(|point| point.y));
        if self.y_scale == Scale::Log {
            return ChartAxis::over(Scale::Log, (low, high), pixels);
        }
        let of = |point: &ChartPoint| point.interval.filter(|_| intervals).unwrap_or([point.y; 2]);
        let (lowest, highest) = ends(&mut self.points().flat_map(of));
        let span = (high - low).max(0.02 * high.abs()).max(1e-9);
        let low = lowest.max(low - span) - 0.05 * span;
        let high = highest.min(high + span) + 0.05 * span;
        ChartAxis::over(Scale::Linear, (low.max(self.y_limits.0), high.min(self.y_limits.1)), pixels)
    }

    fn points(&self) -> impl Iterator<Item = &ChartPoint> {
        self.series.iter().flat_map(|series| &series.points)
    }

    /// The values as text, for screen readers.
    pub(super) fn description(&self, x: &ChartAxis) -> String {
        let mut text = format!("{} against {}.", self.y_label, self.x_label);
        if self.points().any(|point| point.interval.is_some()) {
            let _ = write!(text, " {}.", self.interval);
        }
        for series in &self.series {
            let values: Vec<String> =
                series.points.iter().map(|point| format!("{} at {}", short(point.y), x.label(point.x))).collect();
            let _ = write!(text, " {}: {}.", series.name, values.join(", "));
        }
        text
    }
}

/// Error bars. Those of several series may lie on top of each other, since no value is moved along its axis;
/// ends of different widths and transparency keep them apart.
fn bars(svg: &mut Svg, series: &Series, points: &[(f64, f64)], y: &ChartAxis, end: f64) {
    for (point, (x, _)) in series.points.iter().zip(points) {
        if let Some([low, high]) = point.interval {
            let (low, high) = (number(y.place(low)), number(y.place(high)));
            let (x, left, right) = (number(*x), number(x - end), number(x + end));
            svg.raw(&format!(
                "<path d=\"M{x} {low}L{x} {high}M{left} {low}L{right} {low}M{left} {high}L{right} {high}\" \
                 stroke=\"currentColor\" stroke-opacity=\"0.5\" fill=\"none\"/>"
            ));
        }
    }
}

/// The intervals as an area.
pub(super) fn band(svg: &mut Svg, series: &Series, points: &[(f64, f64)], y: &ChartAxis) {
    let with: Vec<_> = series.points.iter().zip(points).filter_map(|(p, (x, _))| Some((*x, p.interval?))).collect();
    if with.len() > 1 {
        let upper = with.iter().map(|(x, [_, high])| (*x, y.place(*high)));
        let lower = with.iter().rev().map(|(x, [low, _])| (*x, y.place(*low)));
        let outline = path(&upper.chain(lower).collect::<Vec<_>>());
        svg.raw(&format!("<path d=\"{outline}z\" fill=\"currentColor\" fill-opacity=\"0.12\"/>"));
    }
}

/// A point's value in words.
pub(super) fn tooltip(name: &str, x: &ChartAxis, point: &ChartPoint) -> String {
    let interval =
        point.interval.map_or_else(String::new, |[low, high]| format!(" ({} – {})", short(low), short(high)));
    format!("{name} at {}: {}{interval}", x.label(point.x), short(point.y))
}

/// A number with few digits.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) {
        return format!("{value:.2e}").replace('-', "−");
    }
    let decimals = if size >= 10.0 { 1 } else { 3 };
    format!("{value:.decimals$}").replace('-', "−")
}

/// The title, smaller if it would be cut off.
pub(super) fn heading(svg: &mut Svg, title: &str, page: f64) {
    const LEFT: f64 = 12.0;
    // Bold letters of size 15 are about 1.35 times as wide as those of ordinary labels.
    let size = 15.0 * ((page - 2.0 * LEFT) / (1.35 * width(title))).min(1.0);
    svg.styled_text(LEFT, 22.0, Anchor::Start, title, &format!("font-size=\"{}\" font-weight=\"bold\"", number(size)));
}

/// Axes, ticks, grid and labels.
pub(super) fn frame(svg: &mut Svg, x: &ChartAxis, y: &ChartAxis, x_label: &str, y_label: &str) {
    axes(svg, x, y, AREA, true);
    svg.text((PLOT.0 + PLOT.1) / 2.0, BOTTOM + 40.0, Anchor::Middle, x_label);
    let middle = (TOP + BOTTOM) / 2.0;
    let turned = format!("transform=\"rotate(-90 14 {})\"", number(middle));
    svg.styled_text(14.0, middle, Anchor::Middle, y_label, &turned);
}

/// An area of the drawing: left and right, bottom and top.
type Area = ((f64, f64), (f64, f64));

/// Axes, ticks and grid of an area; the values on the vertical axis are optional.
pub(super) fn axes(svg: &mut Svg, x: &ChartAxis, y: &ChartAxis, ((left, right), (bottom, _)): Area, values: bool) {
    for tick in &y.ticks {
        let at = y.place(*tick);
        svg.rule((left, at), (right, at), false);
        if values {
            svg.text(left - 8.0, at + 4.5, Anchor::End, &y.label(*tick));
        }
    }
    let mut free_from = f64::NEG_INFINITY;
    for tick in &x.ticks {
        let (at, label) = (x.place(*tick), x.label(*tick));
        svg.rule((at, bottom), (at, bottom + 5.0), true);
        let half = width(&label) / 2.0;
        if at - half > free_from {
            svg.text(at, bottom + 20.0, Anchor::Middle, &label);
            free_from = at + half + 4.0;
        }
    }
    svg.rule((left, bottom), (right, bottom), true);
}

/// The plot area, for charts of other kinds.
pub(super) const AREA: Area = (PLOT, (BOTTOM, TOP));

/// A legend in rows below the plot.
pub(super) struct Legend {
    names: Vec<String>,
    /// Position of each entry: row and left edge.
    places: Vec<(usize, f64)>,
}

impl Legend {
    const LEFT: f64 = 16.0;
    const SAMPLE: f64 = 34.0;
    const GAP: f64 = 22.0;

    pub(super) fn new<'a>(names: impl Iterator<Item = &'a str>, page: f64) -> Self {
        let names: Vec<String> = names.map(str::to_string).collect();
        let (mut row, mut left) = (0, Self::LEFT);
        let places = names.iter().map(|name| {
            let wide = Self::SAMPLE + width(name);
            if left > Self::LEFT && left + wide > page - 8.0 {
                (row, left) = (row + 1, Self::LEFT);
            }
            let place = (row, left);
            left += wide + Self::GAP;
            place
        });
        let places = places.collect();
        Self { names, places }
    }

    /// The height of its rows.
    pub(super) fn height(&self) -> f64 {
        LEGEND_ROW * self.places.last().map_or(0.0, |(row, _)| *row as f64 + 1.0)
    }

    /// Draws it; `sample` draws what stands before a name.
    pub(super) fn draw(&self, svg: &mut Svg, top: f64, sample: impl Fn(&mut Svg, usize, (f64, f64))) {
        for (i, ((row, left), name)) in self.places.iter().zip(&self.names).enumerate() {
            let y = top + LEGEND_ROW * *row as f64;
            sample(svg, i, (*left, y - 4.5));
            svg.text(left + Self::SAMPLE, y, Anchor::Start, name);
        }
    }

    /// Completes the document with this legend below the plot.
    pub(super) fn finish(
        &self,
        mut svg: Svg,
        name: &str,
        title: &str,
        description: &str,
        sample: impl Fn(&mut Svg, usize, (f64, f64)),
    ) -> String {
        heading(&mut svg, title, WIDTH);
        self.draw(&mut svg, BOTTOM + 64.0, sample);
        svg.document(name, (WIDTH, BOTTOM + 62.0 + self.height()), title, description)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_title_is_smaller_instead_of_cut_off() {
        let size = |title: &str| -> f64 {
            let mut svg = Svg::default();
            heading(&mut svg, title, WIDTH);
            let text = svg.document("name", (WIDTH, 100.0), "", "");
            text.split("font-size=\"").filter_map(|part| part.split('"').next()?.parse().ok()).last().unwrap()
        };
        assert_eq!(size("R@1 during training (clean labels)"), 15.0);
        let long = "Projected gradient when the solver stopped (20 % uniform noise)";
        assert!(size(long) * long.chars().count() as f64 * 0.62 < WIDTH - 24.0 && size(long) > 10.0, "{}", size(long));
    }

    /// The chart of a number of methods, three for each loss, over four epochs.
    fn chart(methods: i32) -> Chart {
        let point = |x: f64, y: f64| ChartPoint { x, y, interval: Some([y - 0.1, y + 0.1]) };
        let family = |i: i32| Family {
            loss: format!("loss {}", i / 3),
            variant: format!("scheme {}", i % 3),
            style: i as usize % 3,
        };
        let series = (0..methods).map(|i| Series {
            name: format!("method {i}"),
            style: i as usize,
            family: family(i),
            points: (0..=4).map(|epoch| point(f64::from(epoch), 0.1 * f64::from(i))).collect(),
        });
        Chart {
            name: "curve".into(),
            title: "R@1 during training".into(),
            x_label: "epoch".into(),
            x_scale: Scale::Linear,
            x_discrete: false,
            y_label: "R@1 (%)".into(),
            y_scale: Scale::Linear,
            y_limits: (0.0, 100.0),
            series: series.collect(),
            interval: "",
        }
    }

    /// Where the lines of a drawing start.
    fn starts(svg: &str) -> Vec<f64> {
        svg.lines()
            .filter(|line| line.contains("stroke-width=\"1.8\""))
            .filter_map(|line| line.split("d=\"M").nth(1)?.split(' ').next()?.parse().ok())
            .collect()
    }

    #[test]
    fn points_lie_at_their_epoch_whatever_the_number_of_series() {
        for (methods, left) in [(8, PLOT.0), (24, 0.0)] {
            // Without the legend, which has such lines too.
            let starts: Vec<f64> = starts(&chart(methods).svg()).into_iter().take(methods as usize).collect();
            assert_eq!(starts.len(), methods as usize);
            assert!(starts.iter().all(|x| *x == starts[0] && *x > left), "{starts:?}");
        }
    }

    #[test]
    fn many_methods_become_a_small_chart_for_each_loss_with_one_legend() {
        assert!(!chart(8).is_wide() && chart(9).is_wide());
        let svg = chart(24).svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let texts: Vec<&str> =
            document.descendants().filter(|n| n.has_tag_name("text")).filter_map(|n| n.text()).collect();
        let count = |text: &str| texts.iter().filter(|own| **own == text).count();
        assert!((0..8).all(|loss| count(&format!("loss {loss}")) == 1), "{texts:?}");
        assert!((0..3).all(|scheme| count(&format!("scheme {scheme}")) == 1), "{texts:?}");
        assert_eq!(document.descendants().filter(|n| n.has_tag_name("use")).count(), 8, "all lines behind each chart");
        assert!(texts.iter().all(|text| !text.starts_with("method")), "{texts:?}");
        let tooltips = document.descendants().filter(|n| n.has_tag_name("title") && !n.has_attribute("id"));
        assert_eq!(tooltips.count(), 24 * 5, "each value once");
        // Methods of one loss have nothing to be divided by.
        let mut one_loss = chart(24);
        one_loss.series.iter_mut().for_each(|series| series.family.loss = "ms".into());
        assert!(!one_loss.is_wide());
    }
}
