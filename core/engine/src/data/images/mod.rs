//! From a file to the pixels a network sees.

mod crop;
mod decode;
mod jitter;
mod resize;
mod scaled;

pub use decode::Pixels;

use crate::{Error, Result};
use crop::Window;
use curricle_recipe::{CropRecipe, ImagesRecipe, Interpolation};
use curricle_rng as rng;
use decode::Read;
use rand::RngExt;
use resize::Scaler;
use std::path::Path;

/// How a batch looks at pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Augmented at random.
    Train {
        /// The run's seed.
        seed: u64,
        /// The epoch, counted from 0.
        epoch: u64,
    },
    /// The same every time.
    Eval,
}

/// A sample among the batches of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The sample.
    pub sample: usize,
    /// How often it came before in this epoch.
    pub occurrence: u64,
}

/// Turns files into pixels, with buffers that are used again and again; one for each thread.
#[derive(Debug, Default)]
pub struct Pipeline {
    read: Read,
    scaler: Scaler,
    /// A picture that was reduced right after decoding.
    reduced: Vec<u8>,
    /// Pixels after resizing, channels last.
    resized: Vec<u8>,
}

impl Pipeline {
    /// Fills `out` with a picture of `[3, size, size]`, from its file unless it is at hand already.
    pub fn load(
        &mut self,
        path: &Path,
        at_hand: Option<Pixels>,
        settings: &ImagesRecipe,
        view: View,
        visit: Visit,
        out: &mut [u8],
    ) -> Result<()> {
        let Self { read, scaler, reduced, resized } = self;
        let picture = match at_hand {
            Some(picture) => picture,
            None => picture(read, scaler, reduced, path, settings.shrink)?,
        };
        let bounds = (picture.width, picture.height);
        let (size, resize) = (settings.size, settings.resize());
        let mut rng = match view {
            View::Train { seed, epoch } => {
                Some(rng::stream(seed, &format!("image {}", visit.occurrence), epoch, visit.sample as u64))
            }
            View::Eval => None,
        };
        let window = match (&mut rng, &settings.crop) {
            (Some(rng), CropRecipe::RandomResized { scale, ratio }) => {
                Window::random_resized(bounds, *scale, *ratio, size, rng)
            }
            (Some(rng), CropRecipe::Random) => Window::random(bounds, resize, size, rng),
            (Some(_), CropRecipe::Center) | (None, _) => Window::central(bounds, resize, size),
        };
        let scaled = scaler.scale(&picture, &window, settings.interpolation, resized);
        scaled.map_err(|message| Error::format(path, message))?;
        let mut mirrored = false;
        if let Some(rng) = &mut rng {
            jitter::apply(&settings.jitter, resized, rng);
            mirrored = rng.random::<f64>() < settings.flip;
        }
        planar(resized, size, mirrored, out);
        Ok(())
    }

    /// A whole picture, reduced so that its shorter side is at most `shrink`.
    pub fn picture(&mut self, path: &Path, shrink: Option<usize>) -> Result<Pixels<'_>> {
        picture(&mut self.read, &mut self.scaler, &mut self.reduced, path, shrink)
    }

    /// Hash of a file's contents, and what is wrong if they cannot be decoded.
    pub fn examine(&mut self, path: &Path) -> Result<(blake3::Hash, Result<(), String>)> {
        self.read.examine(path)
    }

    /// The central square of a picture as `[3, side, side]`, for people to look at.
    pub fn thumbnail(&mut self, path: &Path, side: usize, out: &mut [u8]) -> Result<()> {
        let picture = self.read.decode(path, Some(side))?;
        let window = Window::central((picture.width, picture.height), side, side);
        let scaled = self.scaler.scale(&picture, &window, Interpolation::Bilinear, &mut self.resized);
        scaled.map_err(|message| Error::format(path, message))?;
        planar(&self.resized, side, false, out);
        Ok(())
    }
}

fn picture<'a>(
    read: &'a mut Read,
    scaler: &mut Scaler,
    reduced: &'a mut Vec<u8>,
    path: &Path,
    shrink: Option<usize>,
) -> Result<Pixels<'a>> {
    let picture = read.decode(path, shrink)?;
    match shrink.filter(|shrink| picture.width.min(picture.height) > *shrink) {
        Some(shrink) => scaler.reduce(&picture, shrink, reduced).map_err(|message| Error::format(path, message)),
        None => Ok(picture),
    }
}

/// Sorts pixels into one plane for each channel, mirrored left to right if asked for.
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
