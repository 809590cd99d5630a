//! Decodes JPEG files at a quarter or an eighth of their size.
//!
//! JPEG stores the frequencies of 8 × 8 pixel blocks. For an image that will be shrunk anyway, only the
//! low frequencies are needed, which saves time and most of the memory. The main decoder has no such
//! mode, but is otherwise faster: decoding at half size here takes as long as decoding the whole image
//! there.

use super::decode::check_size;
use image::metadata::Orientation;
use jpeg_decoder::{Decoder, PixelFormat};

/// An image decoded at reduced size.
#[derive(Debug)]
pub(super) struct Scaled {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Red, green and blue of each pixel.
    pub rgb: Vec<u8>,
    /// The EXIF orientation, not yet applied.
    pub orientation: Option<Orientation>,
}

/// Decodes a file so that its shorter side keeps at least 2¾ times `shorter` pixels, which is enough for
/// the filter of the later resize, even for colour, which most files store at half the resolution.
///
/// `None` if that would not be faster, and for unusual or damaged files: the main decoder supports more
/// formats and reports what is wrong.
pub(super) fn decode(file: &[u8], shorter: usize) -> Option<Scaled> {
    let mut decoder = Decoder::new(file);
    decoder.read_info().ok()?;
    let info = decoder.info()?;
    check_size(info.width.into(), info.height.into()).ok()?;
    let divisor = divisor(info.width, info.height, shorter)?;
    let (width, height) = decoder.scale(info.width / divisor, info.height / divisor).ok()?;
    let pixels = decoder.decode().ok()?;
    let rgb = match info.pixel_format {
        PixelFormat::RGB24 => pixels,
        PixelFormat::L8 => pixels.into_iter().flat_map(|grey| [grey; 3]).collect(),
        PixelFormat::L16 | PixelFormat::CMYK32 => return None,
    };
    let (width, height) = (usize::from(width), usize::from(height));
    let orientation = decoder.exif_data().and_then(Orientation::from_exif_chunk);
    (rgb.len() == 3 * width * height).then_some(Scaled { width, height, rgb, orientation })
}

/// Only sizes that divide evenly: others would get a partial pixel at their edges. Camera images are
/// multiples of 8 pixels.
fn divisor(width: u16, height: u16, shorter: usize) -> Option<u16> {
    let enough = |divisor: u16| 4 * usize::from(width.min(height) / divisor) >= 11 * shorter;
    let fits = |divisor: u16| width.is_multiple_of(divisor) && height.is_multiple_of(divisor) && enough(divisor);
    [8, 4].into_iter().find(|divisor| fits(*divisor))
}
