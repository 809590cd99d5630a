//! Small multiples: a small chart for each loss, where the lines of all methods would hide each other in one.
//!
//! All of them have the same axes. Each shows the methods with its loss in colour, and all other methods in grey.

use super::axis::ChartAxis;
use super::chart::{Chart, Legend, Series, axes, band, heading, tooltip};
use super::svg::{Anchor, Svg, number, path};

/// Lines that one chart can show: as many as there are colours.
const LINES: usize = 8;

const WIDTH: f64 = 1040.0;
const COLUMNS: usize = 4;
const LEFT: f64 = 62.0;
const TOP: f64 = 66.0;
const PLOT: (f64, f64) = (228.0, 140.0);
const STEP: (f64, f64) = (PLOT.0 + 18.0, PLOT.1 + 62.0);

/// A chart divided into small ones.
pub(super) struct SmallMultiples<'a> {
    chart: &'a Chart,
    /// The losses, one for each small chart.
    losses: Vec<&'a str>,
    /// The variants of losses with their styles.
    variants: Vec<(&'a str, usize)>,
}

impl<'a> SmallMultiples<'a> {
    /// Divides a chart that has too many lines, if they belong to several losses.
    pub(super) fn of(chart: &'a Chart) -> Option<Self> {
        let (mut losses, mut variants) = (Vec::new(), Vec::new());
        for Series { family, .. } in &chart.series {
            if !losses.contains(&family.loss.as_str()) {
                losses.push(family.loss.as_str());
            }
            if !variants.contains(&(family.variant.as_str(), family.style)) {
                variants.push((family.variant.as_str(), family.style));
            }
        }
        (chart.series.len() > LINES && losses.len() > 1).then_some(Self { chart, losses, variants })
    }

    /// Width and height.
    pub(super) fn size(&self) -> (f64, f64) {
        (WIDTH, self.bottom() + 34.0 + self.legend().height())
    }

    /// Draws the small charts.
    pub(super) fn svg(&self) -> String {
        let Chart { name, title, x_label, y_label, series, .. } = self.chart;
        // The interval of one method would leave little room for the values of all others.
        let (x, y) = (self.chart.x_axis((0.0, PLOT.0)), self.chart.y_axis((PLOT.1, 0.0), false));
        let mut svg = Svg::default();
        heading(&mut svg, title, WIDTH);
        self.definitions(&mut svg, &x, &y);
        for (i, loss) in self.losses.iter().enumerate() {
            let (column, row) = (i % COLUMNS, i / COLUMNS);
            let (left, top) = (LEFT + STEP.0 * column as f64, TOP + STEP.1 * row as f64);
            svg.raw(&format!("<g transform=\"translate({} {})\">", number(left), number(top)));
            svg.styled_text(0.0, -8.0, Anchor::Start, loss, "font-weight=\"bold\"");
            axes(&mut svg, &x, &y, ((0.0, PLOT.0), (PLOT.1, 0.0)), column == 0);
            svg.raw(&format!("<g clip-path=\"url(#{name}-clip)\"><use href=\"#{name}-others\"/></g>"));
            for own in series.iter().filter(|series| series.family.loss == *loss) {
                self.line(&mut svg, own, &x, &y);
            }
            svg.end();
        }
        let bottom = self.bottom();
        svg.text(LEFT + (WIDTH - LEFT) / 2.0, bottom, Anchor::Middle, x_label);
        let middle = (TOP + bottom) / 2.0 - 20.0;
        let turned = format!("transform=\"rotate(-90 14 {})\"", number(middle));
        svg.styled_text(14.0, middle, Anchor::Middle, y_label, &turned);
        self.legend().draw(&mut svg, bottom + 30.0, |svg, i, (x, y)| {
            let (_, style) = self.variants[i];
            svg.begin_series(style);
            svg.line(&[(x, y), (x + 26.0, y)], style);
            svg.marker((x + 13.0, y), style, "");
            svg.end();
        });
        svg.document(name, self.size(), title, &self.chart.description(&x))
    }

    /// The area of the small charts, and all lines in grey for the background of each.
    fn definitions(&self, svg: &mut Svg, x: &ChartAxis, y: &ChartAxis) {
        let Chart { name, series, .. } = self.chart;
        svg.raw(&format!(
            "<defs>\n<clipPath id=\"{name}-clip\"><rect width=\"{}\" height=\"{}\"/></clipPath>\n\
             <g id=\"{name}-others\" class=\"others\" fill=\"none\" stroke=\"#aab2bb\" stroke-opacity=\"0.5\" \
             stroke-linecap=\"round\">",
            PLOT.0, PLOT.1
        ));
        for series in series {
            let mut points: Vec<(f64, f64)> =
                series.points.iter().map(|point| (x.place(point.x), y.place(point.y))).collect();
            // With round ends, a line to the same place is a dot.
            points.extend((points.len() == 1).then(|| points[0]));
            let width = if series.points.len() == 1 { " stroke-width=\"4\"" } else { "" };
            svg.raw(&format!("<path d=\"{}\"{width}/>", path(&points)));
        }
        svg.raw("</g>\n</defs>");
    }

    fn line(&self, svg: &mut Svg, series: &Series, x: &ChartAxis, y: &ChartAxis) {
        let style = series.family.style;
        let points: Vec<(f64, f64)> = series.points.iter().map(|point| (x.place(point.x), y.place(point.y))).collect();
        svg.begin_series(style);
        svg.raw(&format!("<g clip-path=\"url(#{}-clip)\">", self.chart.name));
        band(svg, series, &points, y);
        svg.line(&points, style);
        svg.end();
        let every = points.len().div_ceil(8);
        for (i, (point, (left, top))) in series.points.iter().zip(&points).enumerate() {
            if i.is_multiple_of(every) || i + 1 == points.len() {
                svg.raw(&format!("<g transform=\"translate({} {}) scale(0.7)\">", number(*left), number(*top)));
                svg.marker((0.0, 0.0), style, &tooltip(&series.name, x, point));
                svg.end();
            }
        }
        svg.end();
    }

    fn legend(&self) -> Legend {
        Legend::new(self.variants.iter().map(|(variant, _)| *variant), WIDTH)
    }

    fn bottom(&self) -> f64 {
        TOP + STEP.1 * self.losses.len().div_ceil(COLUMNS) as f64 - 10.0
    }
}
