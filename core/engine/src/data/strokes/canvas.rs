//! A small grey canvas and a round pen.

/// A point, or a difference of two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct StrokePoint {
    /// To the right.
    pub x: f32,
    /// Downwards.
    pub y: f32,
}

/// A square canvas, black where nothing was drawn.
#[derive(Debug)]
pub(super) struct Canvas {
    size: usize,
    pixels: Vec<f32>,
}

impl Canvas {
    /// An empty canvas of `size` × `size` pixels.
    pub(super) fn new(size: usize) -> Self {
        Self { size, pixels: vec![0.0; size * size] }
    }

    /// Draws a straight line with round ends; `width` is in pixels.
    ///
    /// Coverage falls off linearly over one pixel at the edge of the line. Where lines overlap, the
    /// larger coverage counts, so that the pieces of a curve join smoothly.
    pub(super) fn line(&mut self, from: StrokePoint, to: StrokePoint, width: f32) {
        let reach = width / 2.0 + 0.5;
        let rows = self.span(from.y.min(to.y) - reach, from.y.max(to.y) + reach);
        let columns = self.span(from.x.min(to.x) - reach, from.x.max(to.x) + reach);
        let along = StrokePoint { x: to.x - from.x, y: to.y - from.y };
        let per_length = 1.0 / (along.x * along.x + along.y * along.y).max(1e-12);
        for row in rows {
            for column in columns.clone() {
                // Pixel centres are at half coordinates.
                let x = column as f32 + 0.5 - from.x;
                let y = row as f32 + 0.5 - from.y;
                let t = ((x * along.x + y * along.y) * per_length).clamp(0.0, 1.0);
                let (dx, dy) = (x - t * along.x, y - t * along.y);
                let coverage = (reach - (dx * dx + dy * dy).sqrt()).clamp(0.0, 1.0);
                let pixel = &mut self.pixels[row * self.size + column];
                *pixel = pixel.max(coverage);
            }
        }
    }

    /// The pixels as u8; fully covered ones have the value `ink`.
    pub(crate) fn to_grey(&self, ink: f32) -> impl Iterator<Item = u8> {
        self.pixels.iter().map(move |coverage| (coverage * ink + 0.5) as u8)
    }

    /// The pixels whose centres may be between two coordinates.
    fn span(&self, from: f32, to: f32) -> std::ops::Range<usize> {
        // Casts from float to integer saturate, which clips to the canvas.
        (from.floor() as usize).min(self.size)..(to.ceil() as usize).min(self.size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(from: (f32, f32), to: (f32, f32), width: f32) -> Vec<u8> {
        let mut canvas = Canvas::new(8);
        canvas.line(StrokePoint { x: from.0, y: from.1 }, StrokePoint { x: to.0, y: to.1 }, width);
        canvas.to_grey(255.0).collect()
    }

    #[test]
    fn a_line_covers_its_width_and_fades_over_a_pixel() {
        // Along the border between rows 3 and 4, two pixels wide: both rows are covered fully.
        let image = drawn((0.0, 4.0), (8.0, 4.0), 2.0);
        let column: Vec<u8> = (0..8).map(|row| image[row * 8 + 4]).collect();
        assert_eq!(column, [0, 0, 0, 255, 255, 0, 0, 0]);
        // Three pixels wide: the adjacent rows are half covered as well.
        let image = drawn((0.0, 4.0), (8.0, 4.0), 3.0);
        let column: Vec<u8> = (0..8).map(|row| image[row * 8 + 4]).collect();
        assert_eq!(column, [0, 0, 128, 255, 255, 128, 0, 0]);
    }

    #[test]
    fn lines_off_the_canvas_or_of_zero_length_are_handled() {
        assert!(drawn((-90.0, -90.0), (-70.0, -80.0), 2.0).iter().all(|p| *p == 0));
        assert!(drawn((70.0, 80.0), (90.0, 90.0), 2.0).iter().all(|p| *p == 0));
        assert_eq!(drawn((4.5, 4.5), (4.5, 4.5), 2.0)[4 * 8 + 4], 255);
    }
}
