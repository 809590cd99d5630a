//! Memorisation under label noise: the main metric and how well the weights find wrong labels, over the
//! epochs, one above the other in one figure.

use super::chart::Chart;
use super::svg::escape;

/// Two charts of the same runs in one drawing.
pub(super) fn stacked(name: &str, title: &str, upper: &Chart, lower: &Chart) -> String {
    let panel = |chart: &Chart, suffix: &str| Chart { name: format!("{name}-{suffix}"), ..chart.clone() };
    let (upper, lower) = (panel(upper, "upper"), panel(lower, "lower"));
    let ((above_width, height), (below_width, below)) = (upper.size(), lower.size());
    let width = above_width.max(below_width);
    let placed = |svg: String, y: f64| svg.replacen("<svg ", &format!("<svg x=\"0\" y=\"{y}\" "), 1);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{total}\" \
         viewBox=\"0 0 {width} {total}\" role=\"img\" aria-labelledby=\"{name}-title {name}-desc\">\n\
         <title id=\"{name}-title\">{}</title>\n<desc id=\"{name}-desc\">{}</desc>\n{}{}</svg>\n",
        escape(title),
        escape(&format!(
            "Above: {}. Below: {}. A metric that falls during training shows that wrong labels are being \
                         learnt by heart.",
            upper.title, lower.title
        )),
        placed(upper.svg(), 0.0),
        placed(lower.svg(), height),
        total = height + below,
    )
}
