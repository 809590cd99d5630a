//! Resizing with Pillow's filters.

use super::crop::Window;
use super::decode::Pixels;
use crate::recipe::Interpolation;
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
        out.clear();
        out.resize(3 * size * size, 0);
        let filter = match filter {
            Interpolation::Bilinear => FilterType::Bilinear,
            Interpolation::Bicubic => FilterType::CatmullRom,
        };
        let [left, top, width, height] = window.part;
        let mut options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter));
        if window.whole {
            // Rounding must not push the part over the edge.
            let width = width.min(picture.width as f64 - left);
            let height = height.min(picture.height as f64 - top);
            options = options.crop(left, top, width, height);
        }
        let side = size as u32;
        let text = |e: &dyn std::fmt::Display| format!("cannot be resized: {e}");
        let source = ImageRef::new(picture.width as u32, picture.height as u32, picture.rgb, PixelType::U8x3);
        let source = source.map_err(|e| text(&e))?;
        let mut target = Image::from_slice_u8(side, side, out, PixelType::U8x3).map_err(|e| text(&e))?;
        if window.whole {
            self.resizer.resize(&source, &mut target, &options).map_err(|e| text(&e))
        } else {
            let [left, top, width, height] = [left, top, width, height].map(|v| v as u32);
            let part = CroppedImage::new(&source, left, top, width, height).map_err(|e| text(&e))?;
            self.resizer.resize(&part, &mut target, &options).map_err(|e| text(&e))
        }
    }
}
