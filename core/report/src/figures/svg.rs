//! A minimal SVG writer.
//!
//! It uses plain presentation attributes, so that every SVG viewer shows the same; classes let a page
//! with a dark mode recolour embedded figures. Colour is never the only cue: series also differ in
//! marker and dash pattern.

use std::fmt::Write;

/// Text colour.
const INK: &str = "#1f2328";
/// Colours that stay distinct with most kinds of colour blindness and in greyscale print.
const COLOURS: [&str; 8] = ["#0067a8", "#c8500a", "#00805c", "#b3468a", "#946300", "#3b8fc4", "#7a3fa0", "#5c6068"];
const DASHES: [&str; 4] = ["", "7 3", "2 3", "9 3 2 3"];
const MARKERS: usize = 8;

/// A drawing under construction.
#[derive(Debug, Default)]
pub(super) struct Svg {
    body: String,
}

/// Where a text is anchored.
#[derive(Debug, Clone, Copy)]
pub(super) enum Anchor {
    /// Its start.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

impl Svg {
    /// The whole document. `id` must be unique on a page.
    pub(super) fn document(&self, id: &str, size: (f64, f64), title: &str, description: &str) -> String {
        let (width, height) = (number(size.0), number(size.1));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" \
             font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\">\n\
             <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n{}</svg>\n",
            escape(title),
            escape(description),
            self.body
        )
    }

    /// Appends raw markup.
    pub(super) fn raw(&mut self, markup: &str) {
        self.body.push_str(markup);
        self.body.push('\n');
    }

    /// A line of text.
    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.styled_text(x, y, anchor, text, "");
    }

    /// A line of text with further attributes.
    pub(crate) fn styled_text(&mut self, x: f64, y: f64, anchor: Anchor, text: &str, attributes: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text class=\"ink\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" fill=\"{INK}\" {attributes}>{}</text>",
            number(x),
            number(y),
            escape(text)
        );
    }

    /// A line of the grid, or of an axis if `strong`.
    pub(super) fn rule(&mut self, from: (f64, f64), to: (f64, f64), strong: bool) {
        let (class, colour) = if strong { ("axis", "#6e7781") } else { ("grid", "#dfe3e8") };
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" d=\"M{} {}L{} {}\" stroke=\"{colour}\" fill=\"none\"/>",
            number(from.0),
            number(from.1),
            number(to.0),
            number(to.1)
        );
    }

    /// Opens a group in the colour of a series.
    pub(crate) fn begin_series(&mut self, style: usize) {
        let colour = style % COLOURS.len();
        let _ = writeln!(self.body, "<g class=\"c{colour}\" color=\"{}\">", COLOURS[colour]);
    }

    /// Closes a group.
    pub(super) fn end(&mut self) {
        self.raw("</g>");
    }

    /// A line through points in the dash pattern of a series.
    pub(super) fn line(&mut self, points: &[(f64, f64)], style: usize) {
        let dash = match DASHES[style / COLOURS.len() % DASHES.len()] {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        let _ = writeln!(
            self.body,
            "<path d=\"{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.8\" stroke-opacity=\"0.85\" stroke-linejoin=\"round\"{dash}/>",
            path(points)
        );
    }

    /// The marker of a series at a position, with a tooltip unless it is empty.
    pub(super) fn marker(&mut self, (x, y): (f64, f64), style: usize, tooltip: &str) {
        let p = |dx: f64, dy: f64| format!("{} {}", number(x + dx), number(y + dy));
        let filled = |d: String| format!("<path d=\"{d}\" fill=\"currentColor\"");
        let stroked = |d: String| format!("<path d=\"{d}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"");
        let shape = match style % MARKERS {
            0 => format!("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"currentColor\"", number(x), number(y)),
            1 => filled(format!("M{}h7v7h-7z", p(-3.5, -3.5))),
            2 => filled(format!("M{}L{}L{}z", p(0.0, -5.0), p(4.8, 3.6), p(-4.8, 3.6))),
            3 => filled(format!("M{}L{}L{}L{}z", p(0.0, -5.2), p(5.2, 0.0), p(0.0, 5.2), p(-5.2, 0.0))),
            4 => filled(format!("M{}L{}L{}z", p(0.0, 5.0), p(4.8, -3.6), p(-4.8, -3.6))),
            5 => stroked(format!("M{}L{}M{}L{}", p(-4.0, -4.0), p(4.0, 4.0), p(-4.0, 4.0), p(4.0, -4.0))),
            6 => stroked(format!("M{}L{}M{}L{}", p(-5.0, 0.0), p(5.0, 0.0), p(0.0, -5.0), p(0.0, 5.0))),
            _ => stroked(format!("M{}h7v7h-7z", p(-3.5, -3.5))),
        };
        if tooltip.is_empty() {
            let _ = writeln!(self.body, "{shape}/>");
        } else {
            let tag = if shape.starts_with("<circle") { "circle" } else { "path" };
            let _ = writeln!(self.body, "{shape}><title>{}</title></{tag}>", escape(tooltip));
        }
    }
}

/// A path through points.
pub(super) fn path(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (i, (x, y)) in points.iter().enumerate() {
        let _ = write!(d, "{}{} {}", if i == 0 { 'M' } else { 'L' }, number(*x), number(*y));
    }
    d
}

/// A coordinate with two decimals, which is finer than any screen or printer.
pub(super) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Escapes text for XML. Control characters, which XML does not allow, become spaces.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Approximate width of a text.
pub(super) fn width(text: &str) -> f64 {
    6.9 * text.chars().count() as f64
}
