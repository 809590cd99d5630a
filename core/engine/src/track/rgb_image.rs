//! Small 8-bit RGB images for display, drawn on the CPU.

use super::font;
use crate::{Error, Result};
use tch::{Device, Kind, Tensor};

/// A colour.
pub type Rgb = [u8; 3];

/// An RGB image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RgbImage {
    width: usize,
    height: usize,
    pixels: Vec<Rgb>,
}

impl RgbImage {
    /// An image of one colour.
    pub fn new(width: usize, height: usize, colour: Rgb) -> Self {
        Self { width, height, pixels: vec![colour; width * height] }
    }

    /// The images of a tensor `[N, C, H, W]`, u8, with one (grey) or three channels.
    pub(crate) fn from_batch(images: &Tensor) -> Result<Vec<Self>> {
        let shape = images.size();
        let &[n, channels @ (1 | 3), height, width] = shape.as_slice() else {
            return Err(Error::encode("images")(format!("shape {shape:?}, expected `[N, 1 or 3, H, W]`")));
        };
        if images.kind() != Kind::Uint8 {
            return Err(Error::encode("images")(format!("type {:?}, expected u8", images.kind())));
        }
        let torch = |e: tch::TchError| Error::Torch { during: "drawing images", source: e.into() };
        // One copy to the host, channels last.
        let flat =
            images.f_permute([0, 2, 3, 1]).and_then(|t| t.f_reshape(-1)).and_then(|t| t.f_to_device(Device::Cpu));
        let bytes = Vec::<u8>::try_from(flat.map_err(torch)?).map_err(torch)?;
        let (n, width, height) = (n as usize, width as usize, height as usize);
        let pixels: Vec<Rgb> = match channels {
            1 => bytes.iter().map(|&v| [v; 3]).collect(),
            _ => bytes.chunks_exact(3).map(|p| [p[0], p[1], p[2]]).collect(),
        };
        let one = |i: usize| pixels[i * width * height..(i + 1) * width * height].to_vec();
        Ok((0..n).map(|i| Self { width, height, pixels: one(i) }).collect())
    }

    /// Width in pixels.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Height in pixels.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The colour of a pixel; black outside the image.
    pub fn pixel(&self, x: usize, y: usize) -> Rgb {
        if x < self.width && y < self.height { self.pixels[y * self.width + x] } else { [0; 3] }
    }

    /// Sets one pixel. Pixels outside the image are clipped, here and in all drawing methods.
    pub fn set(&mut self, x: usize, y: usize, colour: Rgb) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = colour;
        }
    }

    /// Draws another image with its upper left corner at `(x, y)`.
    pub(crate) fn paste(&mut self, x: usize, y: usize, other: &RgbImage) {
        let width = other.width.min(self.width.saturating_sub(x));
        for row in 0..other.height.min(self.height.saturating_sub(y)) {
            let (to, from) = ((y + row) * self.width + x, row * other.width);
            self.pixels[to..to + width].copy_from_slice(&other.pixels[from..from + width]);
        }
    }

    /// Writes a line of text 7 pixels high.
    pub fn write(&mut self, x: usize, y: usize, text: &str, colour: Rgb) {
        for (i, character) in text.chars().enumerate() {
            for (row, bits) in font::glyph(character).into_iter().enumerate() {
                for column in (0..font::WIDTH).filter(|column| bits >> (font::WIDTH - 1 - column) & 1 == 1) {
                    self.set(x + i * font::ADVANCE + column, y + row, colour);
                }
            }
        }
    }

    /// The image with its longer side between `min` and `max` pixels, as far as integer factors allow:
    /// small images are enlarged by repeating pixels, large ones shrunk by averaging blocks.
    pub fn scaled(&self, min: usize, max: usize) -> Self {
        let longer = self.width.max(self.height).max(1);
        if longer > max {
            self.shrunk(longer.div_ceil(max.max(1)))
        } else {
            self.enlarged(min.div_ceil(longer).min(max / longer).max(1))
        }
    }

    fn enlarged(&self, factor: usize) -> Self {
        let (width, height) = (self.width * factor, self.height * factor);
        let pixel = |i: usize| self.pixel(i % width / factor, i / width / factor);
        Self { width, height, pixels: (0..width * height).map(pixel).collect() }
    }

    fn shrunk(&self, factor: usize) -> Self {
        // A side shorter than the factor keeps one pixel.
        let (width, height) = ((self.width / factor).max(1), (self.height / factor).max(1));
        let mean = |i: usize| {
            let (x, y) = (i % width * factor, i / width * factor);
            let (right, bottom) = ((x + factor).min(self.width), (y + factor).min(self.height));
            let count = ((right - x) * (bottom - y)).max(1);
            [0, 1, 2].map(|channel| {
                let rows = (y..bottom).flat_map(|y| (x..right).map(move |x| (x, y)));
                let sum: usize = rows.map(|(x, y)| usize::from(self.pixel(x, y)[channel])).sum();
                ((sum + count / 2) / count) as u8
            })
        };
        Self { width, height, pixels: (0..width * height).map(mean).collect() }
    }

    /// Whether all pixels are grey.
    pub(crate) fn is_grey(&self) -> bool {
        self.pixels.iter().all(|[r, g, b]| r == g && g == b)
    }

    /// The image as a JPEG file, which is smaller than PNG for photographs.
    pub(crate) fn to_jpeg(&self) -> Result<Vec<u8>> {
        let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut file = Vec::new();
        let mut encoder = image::codecs::jpeg::JpegEncoder::new_with_quality(&mut file, 85);
        let pixels = self.pixels.concat();
        encoder
            .encode(&pixels, side(self.width), side(self.height), image::ExtendedColorType::Rgb8)
            .map_err(Error::encode("an image as JPEG"))?;
        Ok(file)
    }

    /// The image as a PNG file, with one channel if it is grey.
    pub(crate) fn to_png(&self) -> Result<Vec<u8>> {
        let (colour, data) = match self.is_grey() {
            true => (png::ColorType::Grayscale, self.pixels.iter().map(|p| p[0]).collect()),
            false => (png::ColorType::Rgb, self.pixels.concat()),
        };
        let encode = || -> std::result::Result<Vec<u8>, png::EncodingError> {
            let side = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
            let mut file = Vec::new();
            let mut encoder = png::Encoder::new(&mut file, side(self.width), side(self.height));
            encoder.set_color(colour);
            encoder.set_depth(png::BitDepth::Eight);
            encoder.write_header()?.write_image_data(&data)?;
            Ok(file)
        };
        encode().map_err(Error::encode("an image as PNG"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ramp(shape: [i64; 4]) -> Tensor {
        Tensor::arange(shape.iter().product::<i64>(), (Kind::Uint8, Device::Cpu)).view(shape)
    }

    #[test]
    fn tensors_are_channels_first_and_images_channels_last() {
        let images = RgbImage::from_batch(&ramp([2, 3, 2, 4])).unwrap();
        assert_eq!((images.len(), images[1].width(), images[1].height()), (2, 4, 2));
        assert_eq!(images[1].pixel(3, 1), [24 + 7, 24 + 15, 24 + 23]);
        let grey = RgbImage::from_batch(&ramp([1, 1, 2, 2])).unwrap();
        assert_eq!(grey[0].pixel(1, 1), [3; 3]);
    }

    #[test]
    fn other_tensors_are_refused_with_the_expected_shape() {
        let message = RgbImage::from_batch(&ramp([1, 2, 2, 2])).unwrap_err().to_string();
        assert_eq!(message, "cannot encode images: shape [1, 2, 2, 2], expected `[N, 1 or 3, H, W]`");
        assert!(RgbImage::from_batch(&ramp([1, 1, 2, 2]).to_kind(Kind::Float)).is_err());
    }

    #[test]
    fn scaling_repeats_or_averages_pixels() {
        let small = &RgbImage::from_batch(&ramp([1, 1, 2, 2])).unwrap()[0];
        let large = small.scaled(5, 100);
        assert_eq!((large.width(), large.pixel(2, 2), large.pixel(3, 2)), (6, [0; 3], [1; 3]));
        let back = large.scaled(1, 2);
        assert_eq!(&back, small);
        let wide = RgbImage::new(300, 1, [7; 3]).scaled(1, 100);
        assert_eq!((wide.width(), wide.height(), wide.pixel(99, 0)), (100, 1, [7; 3]));
    }

    #[test]
    fn an_image_pasted_over_the_edge_is_clipped() {
        let mut image = RgbImage::new(3, 3, [0; 3]);
        image.paste(2, 1, &RgbImage::new(5, 1, [9; 3]));
        image.paste(7, 7, &RgbImage::new(2, 2, [9; 3]));
        let set: Vec<usize> = (0..9).filter(|&i| image.pixel(i % 3, i / 3) == [9; 3]).collect();
        assert_eq!(set, [5]);
    }

    #[test]
    fn png_round_trips_in_grey_and_in_colour() {
        for channels in [1, 3] {
            let image = &RgbImage::from_batch(&ramp([1, channels, 5, 3])).unwrap()[0];
            let file = image.to_png().unwrap();
            let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().unwrap();
            let mut data = vec![0; reader.output_buffer_size().unwrap()];
            let info = reader.next_frame(&mut data).unwrap();
            assert_eq!((info.width, info.height, info.color_type.samples()), (3, 5, channels as usize));
            let expected: Vec<u8> = image.pixels.iter().flat_map(|p| &p[..channels as usize]).copied().collect();
            assert_eq!(data, expected);
        }
    }
}
