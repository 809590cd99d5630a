//! The weights of correctly labelled and of mislabelled samples in one chart.
//!
//! TensorBoard shows each histogram in a separate chart, where the two groups cannot be compared.

use super::font;
use super::rgb_image::{Rgb, RgbImage};

const BINS: usize = 20;
// The image is about as wide as TensorBoard shows it, so that its text stays readable.
const BAR: usize = 5;
const BIN: usize = 2 * BAR + 3;
const LEFT: usize = 34;
const TOP: usize = 30;
const HEIGHT: usize = 160;
const PAPER: Rgb = [255; 3];
const INK: Rgb = [40; 3];
const GRID: Rgb = [223, 227, 232];
/// As in reports: blue for correct labels, orange for flipped ones.
const CLEAN: Rgb = [0, 103, 168];
const FLIPPED: Rgb = [200, 80, 10];

/// Draws both groups as bars over the weight, each relative to the size of its group.
pub(crate) fn weight_chart(weights: &[f64], flipped: &[bool]) -> RgbImage {
    let of = |wanted: bool| -> Vec<f64> {
        weights.iter().zip(flipped).filter(|(_, flipped)| **flipped == wanted).map(|(weight, _)| *weight).collect()
    };
    let bottom = TOP + HEIGHT;
    let mut image = RgbImage::new(LEFT + BINS * BIN + 10, bottom + 34, PAPER);
    let right = image.width() - 6;
    for percent in [0, 25, 50, 75, 100] {
        let y = bottom - HEIGHT * percent / 100;
        fill(&mut image, (LEFT, right), (y, y + 1), GRID);
        let label = format!("{percent} %");
        image.write(LEFT - 4 - font::ADVANCE * label.len(), y - 3, &label, INK);
    }
    for (group, (title, colour)) in [("clean", CLEAN), ("flipped", FLIPPED)].into_iter().enumerate() {
        let values = of(group == 1);
        for (bin, share) in shares(&values).into_iter().enumerate() {
            let x = LEFT + bin * BIN + 2 + group * BAR;
            let y = bottom - (share * HEIGHT as f64).round() as usize;
            fill(&mut image, (x, x + BAR - 1), (y, bottom), colour);
        }
        let x = LEFT + group * 135;
        fill(&mut image, (x, x + 8), (8, 16), colour);
        image.write(x + 12, 9, &format!("{title}: {} samples", values.len()), INK);
    }
    for tenths in [0, 5, 10] {
        let label = format!("{}.{}", tenths / 10, tenths % 10);
        image.write(LEFT + BINS * BIN * tenths / 10 - if tenths == 0 { 0 } else { 9 }, bottom + 6, &label, INK);
    }
    image.write(LEFT + BINS * BIN / 2 - 18, bottom + 20, "weight", INK);
    image
}

/// The share of the values in each bin of [0, 1].
fn shares(values: &[f64]) -> [f64; BINS] {
    let mut shares = [0.0; BINS];
    for value in values {
        shares[((value * BINS as f64) as usize).min(BINS - 1)] += 1.0 / values.len() as f64;
    }
    shares
}

fn fill(image: &mut RgbImage, x: (usize, usize), y: (usize, usize), colour: Rgb) {
    for row in y.0..y.1 {
        (x.0..x.1).for_each(|column| image.set(column, row, colour));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_drawn_relative_to_its_own_size() {
        let mut weights = vec![1.0; 90];
        weights.extend([0.0; 10]);
        let flipped: Vec<bool> = (0..100).map(|i| i >= 90).collect();
        let image = weight_chart(&weights, &flipped);
        let height =
            |colour: Rgb, column: usize| (TOP..TOP + HEIGHT).filter(|y| image.pixel(column, *y) == colour).count();
        assert_eq!(height(CLEAN, LEFT + 19 * BIN + 4), HEIGHT, "all clean samples have weight 1");
        assert_eq!(height(FLIPPED, LEFT + 4 + BAR), HEIGHT, "all flipped samples have weight 0");
        assert_eq!(height(CLEAN, LEFT + 4), 0);
    }
}
