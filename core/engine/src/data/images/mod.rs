//! Turns image files into network inputs: decoding, cropping, resizing, augmentation.

mod crop;
mod decode;
mod jitter;
mod resize;
mod scaled;

pub(super) use decode::Pixels;

use crate::{Error, Result};
use crop::CropWindow;
use curricle_recipe::{CropRecipe, ImagesRecipe, Interpolation};
use curricle_rng as rng;
use decode::Read;
use rand::RngExt;
use resize::Scaler;
use std::path::Path;

/// Whether images are augmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Random augmentation.
    Train {
        /// The run's seed.
        seed: u64,
        /// The epoch, counted from 0.
        epoch: u64,
    },
    /// Deterministic.
    Eval,
}

/// One occurrence of a sample in an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrence {
    /// The sample.
    pub sample: usize,
    /// How often it occurred before in this epoch.
    pub occurrence: u64,
}

/// Turns files into pixels with reused buffers; one per thread.
#[derive(Debug, Default)]
pub(super) struct Pipeline {
    read: Read,
    scaler: Scaler,
    /// The image after shrinking.
    reduced: Vec<u8>,
    /// Pixels after resizing, channels last.
    resized: Vec<u8>,
}

impl Pipeline {
    /// Fills `out` with an image `[3, size, size]`, read from its file unless it is cached.
    pub(super) fn load(
        &mut self,
        path: &Path,
        cached: Option<Pixels>,
        settings: &ImagesRecipe,
        view: View,
        visit: Occurrence,
        out: &mut [u8],
    ) -> Result<()> {
        let Self { read, scaler, reduced, resized } = self;
        let image = match cached {
            Some(image) => image,
            None => decode_shrunk(read, scaler, reduced, path, settings.shrink)?,
        };
        let bounds = (image.width, image.height);
        let (size, resize) = (settings.size, settings.resize());
        let mut rng = match view {
            View::Train { seed, epoch } => {
                Some(rng::stream(seed, &format!("image {}", visit.occurrence), epoch, visit.sample as u64))
            }
            View::Eval => None,
        };
        let window = match (&mut rng, &settings.crop) {
            (Some(rng), CropRecipe::RandomResized { scale, ratio }) => {
                CropWindow::random_resized(bounds, *scale, *ratio, size, rng)
            }
            (Some(rng), CropRecipe::Random) => CropWindow::random(bounds, resize, size, rng),
            (Some(_), CropRecipe::Center) | (None, _) => CropWindow::central(bounds, resize, size),
        };
        let scaled = scaler.scale(&image, &window, settings.interpolation, resized);
        scaled.map_err(|message| Error::format(path, message))?;
        let mut mirrored = false;
        if let Some(rng) = &mut rng {
            jitter::apply(&settings.jitter, resized, rng);
            mirrored = rng.random::<f64>() < settings.flip;
        }
        planar(resized, size, mirrored, out);
        Ok(())
    }

    /// A whole image, shrunk so that its shorter side is at most `shrink`.
    pub(crate) fn whole_image(&mut self, path: &Path, shrink: Option<usize>) -> Result<Pixels<'_>> {
        decode_shrunk(&mut self.read, &mut self.scaler, &mut self.reduced, path, shrink)
    }

    /// Hash of a file's contents, and whether they can be decoded.
    pub(super) fn examine(&mut self, path: &Path) -> Result<(blake3::Hash, Result<(), String>)> {
        self.read.examine(path)
    }

    /// A thumbnail: the central square of an image as `[3, side, side]`.
    pub(crate) fn thumbnail(&mut self, path: &Path, side: usize, out: &mut [u8]) -> Result<()> {
        let image = self.read.decode(path, Some(side))?;
        let window = CropWindow::central((image.width, image.height), side, side);
        let scaled = self.scaler.scale(&image, &window, Interpolation::Bilinear, &mut self.resized);
        scaled.map_err(|message| Error::format(path, message))?;
        planar(&self.resized, side, false, out);
        Ok(())
    }
}

fn decode_shrunk<'a>(
    read: &'a mut Read,
    scaler: &mut Scaler,
    reduced: &'a mut Vec<u8>,
    path: &Path,
    shrink: Option<usize>,
) -> Result<Pixels<'a>> {
    let image = read.decode(path, shrink)?;
    match shrink.filter(|shrink| image.width.min(image.height) > *shrink) {
        Some(shrink) => scaler.reduce(&image, shrink, reduced).map_err(|message| Error::format(path, message)),
        None => Ok(image),
    }
}

/// Converts interleaved pixels to one plane per channel, optionally flipped horizontally.
fn planar(pixels: &[u8], size: usize, mirrored: bool, out: &mut [u8]) {
    let (red, rest) = out.split_at_mut(size * size);
    let (green, blue) = rest.split_at_mut(size * size);
    let rows = pixels.chunks_exact(3 * size).zip(red.chunks_exact_mut(size));
    let rows = rows.zip(green.chunks_exact_mut(size)).zip(blue.chunks_exact_mut(size));
    for (((row, red), green), blue) in rows {
        for (((pixel, r), g), b) in row.chunks_exact(3).zip(red.iter_mut()).zip(green.iter_mut()).zip(blue.iter_mut()) {
            (*r, *g, *b) = (pixel[0], pixel[1], pixel[2]);
        }
        if mirrored {
            red.reverse();
            green.reverse();
            blue.reverse();
        }
    }
}

#[cfg(test)]
mod tests;
