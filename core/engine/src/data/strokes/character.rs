//! Random characters and their variations.
//!
//! A character is a few curved strokes, each a cubic Bézier curve; many start on an earlier stroke, as
//! in real scripts. A variation moves every control point a little, then slants, rotates, stretches and
//! shifts the whole character.
//!
//! Only arithmetic and square roots are used, which are bit-exact everywhere, so that the data set is
//! the same on every machine; sines and logarithms may differ in the last digit.

use super::canvas::{Canvas, StrokePoint};
use rand::{Rng, RngExt};

/// A stroke: start, two control points, end.
type Stroke = [StrokePoint; 4];

/// Line segments per curve.
const PIECES: usize = 12;

/// A character in the square [-1, 1]².
#[derive(Debug, Clone)]
pub(super) struct Character {
    strokes: Vec<Stroke>,
}

impl Character {
    /// Draws a random character of two to four strokes.
    pub(crate) fn invent(rng: &mut impl Rng) -> Self {
        let count = rng.random_range(2..=4);
        let mut strokes: Vec<Stroke> = Vec::with_capacity(count);
        for _ in 0..count {
            let start = match strokes.len() {
                0 => anywhere(rng),
                n if rng.random_bool(0.6) => {
                    let earlier = strokes[rng.random_range(0..n)];
                    point_on(&earlier, rng.random_range(0.0..1.0))
                }
                _ => anywhere(rng),
            };
            strokes.push(stroke_from(start, rng));
        }
        let mut character = Self { strokes };
        character.fill_square();
        character
    }

    /// Draws the character with random variations; jitter 0 always gives the same image.
    ///
    /// The deviations at jitter 1 were chosen for difficulty only: a small convolutional network
    /// trained on 50 characters finds a correct nearest neighbour for about three quarters of the
    /// drawings of 50 others, an untrained one for less than a third.
    pub(crate) fn redraw(&self, size: usize, jitter: f32, rng: &mut impl Rng) -> Vec<u8> {
        let mut wobble = |deviation: f32| normal(rng) * deviation * jitter;
        let hand = Hand {
            turn: wobble(0.21),
            slant: wobble(0.28),
            width: (1.0 + wobble(0.14)).max(0.4),
            height: (1.0 + wobble(0.14)).max(0.4),
            shift: StrokePoint { x: wobble(0.14), y: wobble(0.14) },
        };
        let pen = (2.2 + wobble(0.5)).clamp(1.2, 3.6) * size as f32 / 32.0;
        let ink = (230.0 + wobble(28.0)).clamp(150.0, 255.0);

        let mut canvas = Canvas::new(size);
        for stroke in &self.strokes {
            let shift = StrokePoint { x: wobble(0.085), y: wobble(0.085) };
            let stroke = stroke.map(|p| {
                let moved = StrokePoint { x: p.x + shift.x + wobble(0.14), y: p.y + shift.y + wobble(0.14) };
                on_canvas(hand.apply(moved), size)
            });
            let mut from = stroke[0];
            for piece in 1..=PIECES {
                let to = point_on(&stroke, piece as f32 / PIECES as f32);
                canvas.line(from, to, pen);
                from = to;
            }
        }
        canvas.to_grey(ink).collect()
    }

    /// Scales and shifts the character to fill the square without changing its proportions, so
    /// that size and position carry no information about the class.
    fn fill_square(&mut self) {
        let outline = || {
            let points = self.strokes.iter().flat_map(|s| (0..=PIECES).map(|i| point_on(s, i as f32 / PIECES as f32)));
            points.map(|p| (p.x, p.y))
        };
        let range = |values: &mut dyn Iterator<Item = f32>| {
            values.fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
        };
        let (left, right) = range(&mut outline().map(|(x, _)| x));
        let (top, bottom) = range(&mut outline().map(|(_, y)| y));
        let scale = 2.0 / (right - left).max(bottom - top).max(1e-3);
        let centre = StrokePoint { x: (left + right) / 2.0, y: (top + bottom) / 2.0 };
        for point in self.strokes.iter_mut().flatten() {
            *point = StrokePoint { x: (point.x - centre.x) * scale, y: (point.y - centre.y) * scale };
        }
    }
}

/// The random affine transform of a whole character.
struct Hand {
    turn: f32,
    slant: f32,
    width: f32,
    height: f32,
    shift: StrokePoint,
}

impl Hand {
    fn apply(&self, p: StrokePoint) -> StrokePoint {
        let x = (p.x + self.slant * p.y) * self.width;
        let y = p.y * self.height;
        // A rotation with rational sine and cosine; `turn` is close to the angle.
        let half = self.turn / 2.0;
        let length = 1.0 + half * half;
        let (cos, sin) = ((1.0 - half * half) / length, 2.0 * half / length);
        StrokePoint { x: cos * x - sin * y + self.shift.x, y: sin * x + cos * y + self.shift.y }
    }
}

/// Maps [-1, 1]² to pixels, with a margin of a seventh.
fn on_canvas(p: StrokePoint, size: usize) -> StrokePoint {
    let half = size as f32 / 2.0;
    StrokePoint { x: half + p.x * half * 0.72, y: half + p.y * half * 0.72 }
}

fn anywhere(rng: &mut impl Rng) -> StrokePoint {
    StrokePoint { x: rng.random_range(-1.0..1.0), y: rng.random_range(-1.0..1.0) }
}

/// A stroke of a minimum length from a point, curved to one side or S-shaped.
fn stroke_from(start: StrokePoint, rng: &mut impl Rng) -> Stroke {
    let end = loop {
        let end = anywhere(rng);
        let (dx, dy) = (end.x - start.x, end.y - start.y);
        if dx * dx + dy * dy > 0.36 {
            break end;
        }
    };
    let mut control = |share: f32| {
        let bend = rng.random_range(-0.9..0.9);
        StrokePoint {
            x: start.x + (end.x - start.x) * share - (end.y - start.y) * bend,
            y: start.y + (end.y - start.y) * share + (end.x - start.x) * bend,
        }
    };
    [start, control(0.33), control(0.67), end]
}

/// The point of a cubic Bézier curve at parameter `t` in [0, 1].
fn point_on(stroke: &Stroke, t: f32) -> StrokePoint {
    let s = 1.0 - t;
    let share = [s * s * s, 3.0 * s * s * t, 3.0 * s * t * t, t * t * t];
    let sum = |coordinate: fn(&StrokePoint) -> f32| stroke.iter().zip(share).map(|(p, w)| coordinate(p) * w).sum();
    StrokePoint { x: sum(|p| p.x), y: sum(|p| p.y) }
}

/// An approximately normal number with mean 0 and standard deviation 1, at most 3.5 in magnitude: a scaled sum
/// of four uniform numbers.
fn normal(rng: &mut impl Rng) -> f32 {
    let sum: f32 = (0..4).map(|_| rng.random_range(-1.0f32..1.0)).sum();
    sum * 0.866_025_4
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::rng::stream;

    #[test]
    fn a_character_fills_its_square() {
        for class in 0..50 {
            let character = Character::invent(&mut stream(1, "test", class, 0));
            let points = character.strokes.iter().flat_map(|s| (0..=PIECES).map(|i| point_on(s, i as f32 / 12.0)));
            let reach = points.map(|p| p.x.abs().max(p.y.abs())).fold(0.0, f32::max);
            assert!((reach - 1.0).abs() < 1e-4, "class {class} reaches {reach}");
        }
    }

    #[test]
    fn without_jitter_all_drawings_are_the_same() {
        let character = Character::invent(&mut stream(1, "test", 0, 0));
        let draw = |jitter, sample| character.redraw(32, jitter, &mut stream(1, "test", 0, sample));
        assert_eq!(draw(0.0, 1), draw(0.0, 2));
        assert_ne!(draw(1.0, 1), draw(1.0, 2));
    }

    #[test]
    fn the_approximately_normal_numbers_have_unit_variance() {
        let mut rng = stream(1, "test", 0, 0);
        let numbers: Vec<f32> = (0..20_000).map(|_| normal(&mut rng)).collect();
        let mean = numbers.iter().sum::<f32>() / 20_000.0;
        let variance = numbers.iter().map(|n| (n - mean).powi(2)).sum::<f32>() / 20_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
