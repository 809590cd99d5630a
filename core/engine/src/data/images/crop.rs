//! Crops of images.
//!
//! The arithmetic is torchvision's, rounding included, so that the same random numbers would give the
//! same crop.

use rand::{Rng, RngExt};

/// A region of an image and the size it is resized to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CropWindow {
    /// Left edge, top edge, width and height in pixels of the image.
    pub part: [f64; 4],
    /// Whether the whole image is resized and cropped afterwards, so that pixels outside the region affect
    /// its edge. Otherwise the region is cropped first.
    pub whole: bool,
    /// Width and height after resizing.
    pub size: usize,
}

impl CropWindow {
    /// A centre crop of `size` pixels after the shorter side is resized to `resize`.
    pub(super) fn central(bounds: (usize, usize), resize: usize, size: usize) -> Self {
        let after = resized(bounds, resize);
        // Python's `round`, which torchvision uses here, prefers even numbers.
        let start = |length: usize| ((length as f64 - size as f64) / 2.0).round_ties_even();
        Self::after_resizing(bounds, after, (start(after.0), start(after.1)), size)
    }

    /// A random crop of `size` pixels after the shorter side is resized to `resize`.
    pub(super) fn random(bounds: (usize, usize), resize: usize, size: usize, rng: &mut impl Rng) -> Self {
        let after = resized(bounds, resize);
        let top = rng.random_range(0..=after.1.saturating_sub(size));
        let left = rng.random_range(0..=after.0.saturating_sub(size));
        Self::after_resizing(bounds, after, (left as f64, top as f64), size)
    }

    /// A region of random area and aspect ratio; if none of ten attempts fits, the largest central region
    /// of an allowed aspect ratio.
    pub(super) fn random_resized(
        (width, height): (usize, usize),
        scale: [f64; 2],
        ratio: [f64; 2],
        size: usize,
        rng: &mut impl Rng,
    ) -> Self {
        let area = (width * height) as f64;
        let [low, high] = ratio.map(f64::ln);
        for _ in 0..10 {
            let area = area * uniform(scale[0], scale[1], rng);
            let shape = uniform(low, high, rng).exp();
            let across = (area * shape).sqrt().round_ties_even() as usize;
            let down = (area / shape).sqrt().round_ties_even() as usize;
            if (1..=width).contains(&across) && (1..=height).contains(&down) {
                let top = rng.random_range(0..=height - down);
                let left = rng.random_range(0..=width - across);
                return Self::cut(left, top, across, down, size);
            }
        }
        let shape = width as f64 / height as f64;
        let (across, down) = if shape < ratio[0] {
            (width, (width as f64 / ratio[0]).round_ties_even() as usize)
        } else if shape > ratio[1] {
            ((height as f64 * ratio[1]).round_ties_even() as usize, height)
        } else {
            (width, height)
        };
        let (across, down) = (across.clamp(1, width), down.clamp(1, height));
        Self::cut((width - across) / 2, (height - down) / 2, across, down, size)
    }

    /// A region that is cropped before resizing.
    pub(super) fn cut(left: usize, top: usize, width: usize, height: usize, size: usize) -> Self {
        Self { part: [left, top, width, height].map(|v| v as f64), whole: false, size }
    }

    /// Cropping `size` pixels at `corner` from the image resized to `after` is the same as resizing the
    /// region they come from.
    fn after_resizing(bounds: (usize, usize), after: (usize, usize), corner: (f64, f64), size: usize) -> Self {
        let (x, y) = (bounds.0 as f64 / after.0 as f64, bounds.1 as f64 / after.1 as f64);
        Self { part: [corner.0 * x, corner.1 * y, size as f64 * x, size as f64 * y], whole: true, size }
    }
}

/// Width and height with the shorter side resized; the longer one is rounded down.
pub(super) fn resized((width, height): (usize, usize), shorter: usize) -> (usize, usize) {
    if width <= height { (shorter, shorter * height / width) } else { (shorter * width / height, shorter) }
}

fn uniform(low: f64, high: f64, rng: &mut impl Rng) -> f64 {
    low + (high - low) * rng.random::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::rng::stream;

    #[test]
    fn the_centre_is_cropped_after_resizing() {
        let window = CropWindow::central((500, 250), 250, 200);
        assert_eq!((window.part, window.size), ([150.0, 25.0, 200.0, 200.0], 200));
        // 375 becomes 256, 500 becomes 341: 58 or 59 pixels are cropped on each side; torchvision
        // starts at 58.
        let window = CropWindow::central((500, 375), 256, 224);
        assert!((window.part[0] - 58.0 * 500.0 / 341.0).abs() < 1e-12, "{window:?}");
    }

    #[test]
    fn random_crops_are_inside_the_image_and_within_area_and_aspect_limits() {
        for index in 0..500 {
            let mut rng = stream(1, "test", 0, index);
            let (width, height) = (300 + index as usize, 200);
            let CropWindow { part: [left, top, across, down], .. } =
                CropWindow::random_resized((width, height), [0.1, 0.6], [0.5, 2.0], 64, &mut rng);
            assert!(left + across <= width as f64 && top + down <= height as f64);
            let (area, shape) = (across * down / (width * height) as f64, across / down);
            assert!((0.09..=0.61).contains(&area) && (0.49..=2.05).contains(&shape), "{area} {shape}");
        }
    }

    #[test]
    fn an_aspect_ratio_that_never_fits_gives_a_central_crop() {
        let mut rng = stream(1, "test", 0, 0);
        let window = CropWindow::random_resized((1000, 10), [1.0, 1.0], [0.75, 1.25], 64, &mut rng);
        assert_eq!(window.part, [494.0, 0.0, 12.0, 10.0]);
        let window = CropWindow::random_resized((10, 1000), [1.0, 1.0], [0.5, 1.25], 64, &mut rng);
        assert_eq!(window.part, [0.0, 490.0, 10.0, 20.0]);
    }
}
