//! Decodes files to 8-bit RGB.
//!
//! The result is that of Pillow's `convert("RGB")`, except that 16-bit grey is scaled (Pillow clips it)
//! and that images are rotated according to their EXIF orientation.

use super::scaled;
use crate::data::inspect::refuse_irregular;
use crate::{Error, Result};
use curricle_sdk::guard;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, RgbImage};
use std::io::{Cursor, Read as _};
use std::path::Path;
use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;

/// More pixels than this are a mistake or an attack, not a training image.
const MOST_PIXELS: usize = 1 << 28;

/// A decoded image: three bytes per pixel, row by row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pixels<'a> {
    /// Width in pixels.
    pub width: usize,
    /// Height in pixels.
    pub height: usize,
    /// Red, green and blue of each pixel.
    pub rgb: &'a [u8],
}

/// Reads and decodes files into reused buffers.
#[derive(Debug, Default)]
pub(super) struct Read {
    file: Vec<u8>,
    rgb: Vec<u8>,
}

impl Read {
    /// Decodes a file; errors name it.
    ///
    /// If the shorter side will be reduced to `shorter`, the result may be smaller than the image in the
    /// file, but always much larger than needed.
    pub(super) fn decode(&mut self, path: &Path, shorter: Option<usize>) -> Result<Pixels<'_>> {
        self.read(path)?;
        self.decode_bytes(shorter).map_err(|message| Error::format(path, message))
    }

    /// Hash of a file's contents, and whether they can be decoded.
    pub(super) fn examine(&mut self, path: &Path) -> Result<(blake3::Hash, Result<(), String>)> {
        self.read(path)?;
        let hash = blake3::hash(&self.file);
        Ok((hash, self.decode_bytes(None).map(|_| ())))
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        self.file.clear();
        refuse_irregular(path)?;
        let mut file = std::fs::File::open(path).map_err(Error::file("read", path))?;
        file.read_to_end(&mut self.file).map_err(Error::file("read", path))?;
        Ok(())
    }

    fn decode_bytes(&mut self, shorter: Option<usize>) -> Result<Pixels<'_>, String> {
        // Decoders may panic on damaged files.
        let is_jpeg = self.file.starts_with(&[0xff, 0xd8]);
        let decoded = guard(|| Ok(if is_jpeg { self.jpeg(shorter) } else { self.other() }));
        let decoded = decoded.unwrap_or_else(|e| Err(format!("cannot be decoded: {e}")));
        let (width, height) = decoded?;
        Ok(Pixels { width, height, rgb: &self.rgb[..3 * width * height] })
    }

    fn jpeg(&mut self, shorter: Option<usize>) -> Result<(usize, usize), String> {
        if is_truncated(&self.file) {
            return Err(format!("is truncated after {} bytes", self.file.len()));
        }
        if let Some(scaled) = shorter.and_then(|shorter| scaled::decode(&self.file, shorter)) {
            self.rgb = scaled.rgb;
            return self.upright((scaled.width, scaled.height), scaled.orientation);
        }
        // Strict, or damaged files would silently decode to partly grey images.
        let size = match self.jpeg_as(true) {
            // Harmless, and common in files from old cameras and editors.
            Err(message) if message.contains("Extra bytes between headers") => self.jpeg_as(false),
            decoded => decoded,
        };
        size.map_err(|message| format!("cannot be decoded as JPEG: {message}"))
    }

    fn jpeg_as(&mut self, strict: bool) -> Result<(usize, usize), String> {
        let options = DecoderOptions::new_fast()
            .set_strict_mode(strict)
            .set_max_width(1 << 16)
            .set_max_height(1 << 16)
            .jpeg_set_out_colorspace(ColorSpace::RGB);
        let mut decoder = JpegDecoder::new_with_options(ZCursor::new(&self.file), options);
        let failed = |e: zune_jpeg::errors::DecodeErrors| e.to_string();
        decoder.decode_headers().map_err(failed)?;
        let (width, height) = decoder.info().map_or((0, 0), |i| (usize::from(i.width), usize::from(i.height)));
        check_size(width, height)?;
        let orientation = decoder.exif().and_then(|chunk| Orientation::from_exif_chunk(chunk));
        if decoder.input_colorspace() == Some(ColorSpace::CMYK) && !has_adobe_marker(&self.file) {
            // The decoder expects inverted inks, which only Adobe programs store.
            decoder.set_options(options.jpeg_set_out_colorspace(ColorSpace::CMYK));
            let inks = decoder.decode().map_err(failed)?;
            self.rgb.clear();
            self.rgb.extend(inks.chunks_exact(4).flat_map(|ink| {
                let light = |ink: u8, key: u8| (u32::from(255 - ink) * u32::from(255 - key) + 127) / 255;
                [ink[0], ink[1], ink[2]].map(|c| light(c, ink[3]) as u8)
            }));
        } else {
            self.rgb.resize((3 * width * height).max(self.rgb.len()), 0);
            decoder.decode_into(&mut self.rgb[..3 * width * height]).map_err(failed)?;
        }
        self.upright((width, height), orientation)
    }

    fn other(&mut self) -> Result<(usize, usize), String> {
        let reader = ImageReader::new(Cursor::new(&self.file)).with_guessed_format().map_err(|e| e.to_string())?;
        let Some(format) = reader.format() else {
            return Err(match self.file.len() {
                0 => "is empty".into(),
                _ => "is not an image in a supported format (JPEG, PNG, WebP, BMP, GIF, TIFF, PNM)".into(),
            });
        };
        let name = format!("{format:?}").to_uppercase();
        let failed = |e: image::ImageError| format!("cannot be decoded as {name}: {e}");
        let mut decoder = reader.into_decoder().map_err(failed)?;
        let (width, height) = decoder.dimensions();
        check_size(width as usize, height as usize)?;
        let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
        let image = DynamicImage::from_decoder(decoder).map_err(failed)?;
        Ok(self.keep(image, orientation))
    }

    fn upright(
        &mut self,
        (width, height): (usize, usize),
        orientation: Option<Orientation>,
    ) -> Result<(usize, usize), String> {
        let Some(orientation) = orientation.filter(|o| *o != Orientation::NoTransforms) else {
            return Ok((width, height));
        };
        self.rgb.truncate(3 * width * height);
        let rgb = RgbImage::from_raw(width as u32, height as u32, std::mem::take(&mut self.rgb));
        let image = rgb.ok_or("has fewer pixels than its header says")?;
        Ok(self.keep(image.into(), orientation))
    }

    fn keep(&mut self, mut image: DynamicImage, orientation: Orientation) -> (usize, usize) {
        image.apply_orientation(orientation);
        let image = image.into_rgb8();
        let size = (image.width() as usize, image.height() as usize);
        self.rgb = image.into_raw();
        size
    }
}

/// Refuses empty and excessively large images.
pub(crate) fn check_size(width: usize, height: usize) -> Result<(), String> {
    match width * height {
        0 => Err("has no pixels".into()),
        pixels if pixels > MOST_PIXELS => {
            Err(format!("has {width} × {height} pixels, more than the limit of {MOST_PIXELS}"))
        }
        _ => Ok(()),
    }
}

/// Whether the end-of-image marker is missing. Compressed data never contains the markers searched for, and
/// thumbnails come before the last start-of-scan marker.
fn is_truncated(file: &[u8]) -> bool {
    if file.ends_with(&[0xff, 0xd9]) {
        return false;
    }
    let last = |mark: u8| file.windows(2).rposition(|pair| pair == [0xff, mark]);
    match (last(0xda), last(0xd9)) {
        (Some(start), Some(end)) => end < start,
        (_, end) => end.is_none(),
    }
}

/// Whether there is an Adobe segment before the compressed data.
fn has_adobe_marker(file: &[u8]) -> bool {
    let mut rest = file.get(2..).unwrap_or_default();
    while let &[0xff, mark, high, low, ..] = rest {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if mark == 0xee && rest.get(4..9) == Some(b"Adobe") {
            return true;
        }
        if mark == 0xda {
            return false;
        }
        rest = rest.get(2 + length..).unwrap_or_default();
    }
    false
}
