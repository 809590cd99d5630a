//! Histograms of the weights of correctly labelled and of mislabelled samples.

use super::axis::{ChartAxis, Scale};
use super::chart::{AREA, Legend, WIDTH, frame};
use super::svg::{Svg, escape, number};

const BINS: usize = 20;

/// Weights of training samples, by whether their label was flipped.
#[derive(Debug, Clone, Default)]
pub(super) struct WeightHistogram {
    /// Weights of samples with the right label.
    pub clean: Vec<f64>,
    /// Weights of samples with a wrong label.
    pub noisy: Vec<f64>,
}

impl WeightHistogram {
    /// Draws each group relative to its own size, so that the larger does not hide the smaller.
    pub(super) fn svg(&self, name: &str, title: &str) -> String {
        let kinds = [("right label", &self.clean), ("wrong label", &self.noisy)];
        let shares: Vec<(&str, [f64; BINS])> =
            kinds.iter().filter(|(_, values)| !values.is_empty()).map(|(kind, v)| (*kind, shares(v))).collect();
        let highest = shares.iter().flat_map(|(_, shares)| shares).copied().fold(1.0, f64::max);
        let x = ChartAxis::over(Scale::Linear, (0.0, 1.0), AREA.0);
        let y = ChartAxis::over(Scale::Linear, (0.0, 1.05 * highest), AREA.1);
        let mut svg = Svg::default();
        let hatch = format!("{name}-hatch");
        svg.raw(&format!(
            "<defs><pattern id=\"{hatch}\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><path class=\"c1\" d=\"M0 0V5\" stroke=\"#c8500a\" \
             stroke-width=\"4\"/></pattern></defs>"
        ));
        frame(&mut svg, &x, &y, "weight", "share within group (%)");
        let count = shares.len();
        for (i, (kind, shares)) in shares.iter().enumerate() {
            svg.begin_series(i);
            for (bin, share) in shares.iter().enumerate().filter(|(_, share)| **share > 0.0) {
                let edge = |bin: usize| bin as f64 / BINS as f64;
                let (left, right) = (x.place(edge(bin)), x.place(edge(bin + 1)));
                let half = (right - left) / count as f64;
                let start = left + half * i as f64;
                let tooltip = format!("{kind}, weight {:.2} – {:.2}: {share:.1} %", edge(bin), edge(bin + 1));
                svg.raw(&bar((start + 0.5, half - 1.0), (y.place(*share), y.place(0.0)), &fill(i, &hatch), &tooltip));
            }
            svg.end();
        }
        let words: Vec<String> = kinds.iter().map(|(kind, values)| summary(kind, values)).collect();
        let legend = Legend::new(shares.iter().map(|(kind, _)| *kind), WIDTH);
        legend.finish(
            svg,
            name,
            title,
            &format!("Weights of training samples. {}", words.join(" ")),
            |svg, i, (x, y)| {
                svg.begin_series(i);
                svg.raw(&bar((x, 26.0), (y - 6.0, y + 6.0), &fill(i, &hatch), ""));
                svg.end();
            },
        )
    }
}

/// Plain for right labels, hatched for wrong ones.
fn fill(kind: usize, hatch: &str) -> String {
    if kind == 0 { "fill=\"currentColor\" fill-opacity=\"0.75\"".into() } else { format!("fill=\"url(#{hatch})\"") }
}

fn bar((left, width): (f64, f64), (top, bottom): (f64, f64), fill: &str, tooltip: &str) -> String {
    let (x, y, width, height) = (number(left), number(top), number(width), number(bottom - top));
    let rect = format!(
        "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {fill} stroke=\"currentColor\" \
         stroke-width=\"0.8\""
    );
    if tooltip.is_empty() { format!("{rect}/>") } else { format!("{rect}><title>{}</title></rect>", escape(tooltip)) }
}

/// Percent of the values in each bin of [0, 1].
fn shares(values: &[f64]) -> [f64; BINS] {
    let mut shares = [0.0; BINS];
    for value in values {
        let bin = ((value * BINS as f64) as usize).min(BINS - 1);
        shares[bin] += 100.0 / values.len() as f64;
    }
    shares
}

fn summary(kind: &str, values: &[f64]) -> String {
    if values.is_empty() {
        return format!("No sample has a {kind}.");
    }
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let low = 100.0 * values.iter().filter(|w| **w < 0.5).count() as f64 / values.len() as f64;
    format!("{} samples have a {kind}: mean weight {mean:.3}, {low:.1} % below 0.5.", values.len())
}
