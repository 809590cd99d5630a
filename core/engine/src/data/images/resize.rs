//! Resizing with Pillow's filters.

use super::crop::{Window, resized};
use super::decode::Pixels;
use curricle_recipe::Interpolation;
use fast_image_resize::images::{CroppedImage, Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

/// Resizes parts of pictures.
#[derive(Debug, Default)]
pub struct Scaler {
    resizer: Resizer,
}

impl Scaler {
    /// Resizes a part of a picture to `out`, channels last.
    pub fn scale(
        &mut self,
        picture: &Pixels,
        window: &Window,
        filter: Interpolation,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let size = window.size;
        let [left, top, width, height] = window.part;
        let mut options = options(filter);
        if window.whole {
            // Rounding must not push the part over the edge.
            let width = width.min(picture.width as f64 - left);
            let height = height.min(picture.height as f64 - top);
            options = options.crop(left, top, width, height);
        }
        let (source, mut target) = (source(picture)?, target(size, size, out)?);
        if window.whole {
            self.resizer.resize(&source, &mut target, &options).map_err(text)
        } else {
            let [left, top, width, height] = [left, top, width, height].map(|v| v as u32);
            let part = CroppedImage::new(&source, left, top, width, height).map_err(text)?;
            self.resizer.resize(&part, &mut target, &options).map_err(text)
        }
    }

    /// Reduces a whole picture so that its shorter side has this length.
    pub fn reduce<'a>(&mut self, picture: &Pixels, shorter: usize, out: &'a mut Vec<u8>) -> Result<Pixels<'a>, String> {
        let (width, height) = resized((picture.width, picture.height), shorter);
        let (source, mut target) = (source(picture)?, target(width, height, out)?);
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

fn source<'a>(picture: &Pixels<'a>) -> Result<ImageRef<'a>, String> {
    ImageRef::new(picture.width as u32, picture.height as u32, picture.rgb, PixelType::U8x3).map_err(text)
}

fn target(width: usize, height: usize, out: &mut Vec<u8>) -> Result<Image<'_>, String> {
    out.clear();
    out.resize(3 * width * height, 0);
    Image::from_slice_u8(width as u32, height as u32, out, PixelType::U8x3).map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    format!("cannot be resized: {error}")
}
