//! Colour jitter, computed as Pillow does for torchvision's `ColorJitter`.

use curricle_recipe::JitterRecipe;
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

/// One change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Change {
    Brightness(f32),
    Contrast(f32),
    Saturation(f32),
    Hue(f64),
}

/// Applies random colour jitter to RGB pixels.
pub(super) fn apply(recipe: &JitterRecipe, pixels: &mut [u8], rng: &mut impl Rng) {
    for change in draw(recipe, rng) {
        change.apply(pixels);
    }
}

/// The changes in random order; properties with a range of 0 are skipped.
fn draw(recipe: &JitterRecipe, rng: &mut impl Rng) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut factor = |spread: f64| {
        let (low, high) = ((1.0 - spread).max(0.0), 1.0 + spread);
        (spread > 0.0).then(|| (low + (high - low) * rng.random::<f64>()) as f32)
    };
    changes.extend(factor(recipe.brightness).map(Change::Brightness));
    changes.extend(factor(recipe.contrast).map(Change::Contrast));
    changes.extend(factor(recipe.saturation).map(Change::Saturation));
    if recipe.hue > 0.0 {
        changes.push(Change::Hue(recipe.hue * (2.0 * rng.random::<f64>() - 1.0)));
    }
    changes.shuffle(rng);
    changes
}

impl Change {
    pub(super) fn apply(self, pixels: &mut [u8]) {
        match self {
            Change::Brightness(factor) => pixels.iter_mut().for_each(|value| *value = blend(0, *value, factor)),
            Change::Contrast(factor) => {
                let sum: u64 = pixels.chunks_exact(3).map(|pixel| u64::from(grey(pixel))).sum();
                let mean = (sum as f64 / (pixels.len() / 3).max(1) as f64 + 0.5) as u8;
                pixels.iter_mut().for_each(|value| *value = blend(mean, *value, factor));
            }
            Change::Saturation(factor) => {
                for pixel in pixels.chunks_exact_mut(3) {
                    let grey = grey(pixel);
                    pixel.iter_mut().for_each(|value| *value = blend(grey, *value, factor));
                }
            }
            Change::Hue(turn) => {
                // As in torchvision, the shift is truncated to an integer and wraps around.
                let turn = (turn * 255.0) as i32 as u8;
                for pixel in pixels.chunks_exact_mut(3) {
                    let [hue, saturation, value] = to_hsv([pixel[0], pixel[1], pixel[2]]);
                    pixel.copy_from_slice(&to_rgb([hue.wrapping_add(turn), saturation, value]));
                }
            }
        }
    }
}

/// Interpolates from `from` to `to`, and extrapolates if `factor` is more than 1.
fn blend(from: u8, to: u8, factor: f32) -> u8 {
    // The cast truncates, and clips to 0 to 255.
    (f32::from(from) + factor * (f32::from(to) - f32::from(from))) as u8
}

/// ITU-R 601-2 luma in Pillow's fixed-point arithmetic.
fn grey(pixel: &[u8]) -> u8 {
    let [r, g, b] = [pixel[0], pixel[1], pixel[2]].map(u32::from);
    ((r * 19595 + g * 38470 + b * 7471 + 0x8000) >> 16) as u8
}

fn to_hsv([r, g, b]: [u8; 3]) -> [u8; 3] {
    let (high, low) = (r.max(g).max(b), r.min(g).min(b));
    if high == low {
        return [0, 0, high];
    }
    let range = f32::from(high - low);
    let saturation = range / f32::from(high);
    let distance = |c: u8| f32::from(high - c) / range;
    // Single and double precision alternate as in Pillow's C, or hues would differ by one.
    let hue = if r == high {
        distance(b) - distance(g)
    } else if g == high {
        (2.0 + f64::from(distance(r)) - f64::from(distance(b))) as f32
    } else {
        (4.0 + f64::from(distance(g)) - f64::from(distance(r))) as f32
    };
    let hue = ((f64::from(hue) / 6.0 + 1.0) % 1.0) as f32;
    let [hue, saturation] = [hue, saturation].map(|share| (f64::from(share) * 255.0) as u8);
    [hue, saturation, high]
}

fn to_rgb([hue, saturation, value]: [u8; 3]) -> [u8; 3] {
    if saturation == 0 {
        return [value; 3];
    }
    let hue = f64::from(hue) * 6.0 / 255.0;
    let sector = hue.floor();
    let (rest, saturation) = (f64::from((hue - sector) as f32), f64::from(f32::from(saturation) / 255.0));
    let mixed = |share: f64| (f64::from(value) * share).round() as u8;
    let p = mixed(1.0 - saturation);
    let q = mixed(1.0 - saturation * rest);
    let t = mixed(1.0 - saturation * (1.0 - rest));
    match sector as i32 % 6 {
        0 => [value, t, p],
        1 => [q, value, p],
        2 => [p, value, t],
        3 => [p, q, value],
        4 => [t, p, value],
        _ => [value, p, q],
    }
}
