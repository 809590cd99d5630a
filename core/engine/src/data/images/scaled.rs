//! JPEG files decoded at a quarter or an eighth of their size.
//!
//! JPEG stores blocks of 8 × 8 pixels by their frequencies. Of a picture that will be reduced anyway
//! only the low ones are needed, which saves time and most of the memory. The other decoder has no
//! such mode, but is faster at everything else: halving a picture here takes as long as decoding all
//! of it there.

use super::decode::check_size;
use image::metadata::Orientation;
use jpeg_decoder::{Decoder, PixelFormat};

/// A picture smaller than its file says.
#[derive(Debug)]
pub struct Scaled {
    /// Pixels across.
    pub width: usize,
    /// Pixels down.
    pub height: usize,
    /// Red, green and blue of each pixel.
    pub rgb: Vec<u8>,
    /// How it has to be turned.
    pub orientation: Option<Orientation>,
}

/// Decodes a file so that its shorter side keeps at least 2¾ times `shorter` pixels, which leaves the
/// filter of the resizing that follows enough to work on, also of colours, which most files store at
/// half the resolution.
///
/// `None` if that would not be faster, and for whatever is unusual or damaged: the decoder of whole
/// pictures knows more kinds of files, and says what is wrong.
pub fn decode(file: &[u8], shorter: usize) -> Option<Scaled> {
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

/// Pictures of cameras are multiples of 8 pixels. Others would come out with a fraction of a pixel at
/// their edges that is not theirs.
fn divisor(width: u16, height: u16, shorter: usize) -> Option<u16> {
    let enough = |divisor: u16| 4 * usize::from(width.min(height) / divisor) >= 11 * shorter;
    let fits = |divisor: u16| width.is_multiple_of(divisor) && height.is_multiple_of(divisor) && enough(divisor);
    [8, 4].into_iter().find(|divisor| fits(*divisor))
}
