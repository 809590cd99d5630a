//! Resizing with Pillow's filters.

use super::crop::{CropWindow, resized};
use super::decode::Pixels;
use curricle_recipe::Interpolation;
use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

/// Resizes images and crops.
#[derive(Debug, Default)]
pub(super) struct Scaler {
    resizer: Resizer,
}

impl Scaler {
    /// Resizes a region of an image into `out`, channels last.
    pub(super) fn scale(
        &mut self,
        image: &Pixels,
        window: &CropWindow,
        filter: Interpolation,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let size = window.size;
        let [left, top, width, height] = window.part;
        let mut options = options(filter);
        if window.whole {
            // Rounding must not push the region over the edge.
            let width = width.min(image.width as f64 - left);
            let height = height.min(image.height as f64 - top);
            options = options.crop(left, top, width, height);
        }
        let (source, mut target) = (source(image)?, target(size, size, out)?);
        if window.whole {
            self.resizer.resize(&source, &mut target, &options).map_err(text)
        } else {
            let [left, top, width, height] = [left, top, width, height].map(|v| v as u32);
            let part = CroppedImage::new(&source, left, top, width, height).map_err(text)?;
            self.resizer.resize(&part, &mut target, &options).map_err(text)
        }
    }

    /// Shrinks a whole image so that its shorter side has this length.
    pub(super) fn reduce<'a>(
        &mut self,
        image: &Pixels,
        shorter: usize,
        out: &'a mut Vec<u8>,
    ) -> Result<Pixels<'a>, String> {
        let (width, height) = resized((image.width, image.height), shorter);
        let (source, mut target) = (source(image)?, target(width, height, out)?);
        self.resizer.resize(&source, &mut target, &options(Interpolation::Bilinear)).map_err(text)?;
        Ok(Pixels { width, height, rgb: out })
    }
}

fn options(filter: Interpolation) -> ResizeOptions {
    let filter = match filter {
        Interpolation::Bilinear => FilterType::Bilinear,
        Interpolation::Bicubic => FilterType::CatmullRom,
    };
    ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter))
}

fn source<'a>(image: &Pixels<'a>) -> Result<ImageRef<'a>, String> {
    ImageRef::new(image.width as u32, image.height as u32, image.rgb, PixelType::U8x3).map_err(text)
}

fn target(width: usize, height: usize, out: &mut Vec<u8>) -> Result<Image<'_>, String> {
    out.clear();
    out.resize(3 * width * height, 0);
    Image::from_slice_u8(width as u32, height as u32, out, PixelType::U8x3).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    format!("cannot be resized: {error}")
}
