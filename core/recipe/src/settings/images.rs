//! `[images]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How image files are turned into network input. All terms have torchvision's meaning for Pillow
/// images: resizing is antialiased (the filter widens with the reduction factor) and rounds to
/// integers after the horizontal and after the vertical pass. Grey, palette, CMYK and 16-bit images
/// become 8-bit RGB, transparency is ignored, and the EXIF orientation is applied. Data sources
/// without image files ignore this table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImagesRecipe {
    /// Width and height of the network input, in pixels.
    #[schemars(range(min = 8, max = 4096))]
    pub size: usize,
    /// Length of an image's shorter side before the central crop of `size` pixels for evaluation.
    /// Default: 8/7 of `size`, i.e. 256 for 224.
    #[schemars(range(min = 8, max = 8192))]
    pub resize: Option<usize>,
    /// Downscale images right after decoding, before any crop, so that their shorter side is at
    /// most this. Large JPEG files decode faster, and a cache of decoded images (`--image-cache`)
    /// takes less space. Default: no downscaling.
    #[schemars(range(min = 8, max = 8192))]
    pub shrink: Option<usize>,
    /// The crop used in training.
    pub crop: CropRecipe,
    /// Probability of a horizontal flip in training.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub flip: f64,
    /// Colour jitter in training.
    pub jitter: JitterRecipe,
    /// The resampling filter of all resizing.
    pub interpolation: Interpolation,
    /// What to do with an image file that cannot be decoded.
    pub on_bad_image: OnBadImage,
}

impl Default for ImagesRecipe {
    fn default() -> Self {
        Self {
            size: 224,
            resize: None,
            shrink: None,
            crop: CropRecipe::default(),
            flip: 0.5,
            jitter: JitterRecipe::default(),
            interpolation: Interpolation::Bilinear,
            on_bad_image: OnBadImage::Error,
        }
    }
}

impl ImagesRecipe {
    /// The shorter side before the central crop.
    pub fn resize(&self) -> usize {
        self.resize.unwrap_or((self.size * 8).div_ceil(7))
    }
}

/// The crop used in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum CropRecipe {
    /// A crop of random area and aspect ratio, resized to `size`: torchvision's `RandomResizedCrop`.
    RandomResized {
        /// Smallest and largest area of the crop, as a fraction of the image's area.
        #[serde(default = "scale")]
        #[schemars(inner(range(min = 0.0, max = 1.0)))]
        scale: [f64; 2],
        /// Smallest and largest aspect ratio of the crop (width / height).
        #[serde(default = "ratio")]
        #[schemars(inner(range(min = 0.01, max = 100.0)))]
        ratio: [f64; 2],
    },
    /// A random crop of `size` pixels after the shorter side is resized to `resize`.
    Random,
    /// The central crop, as in evaluation.
    Center,
}

impl Default for CropRecipe {
    fn default() -> Self {
        Self::RandomResized { scale: scale(), ratio: ratio() }
    }
}

fn scale() -> [f64; 2] {
    [0.08, 1.0]
}

fn ratio() -> [f64; 2] {
    [3.0 / 4.0, 4.0 / 3.0]
}

/// Colour jitter in training, applied in random order: torchvision's `ColorJitter`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JitterRecipe {
    /// Brightness is multiplied by a random factor between 1 - this (at least 0) and 1 + this.
    #[schemars(range(min = 0.0))]
    pub brightness: f64,
    /// The same for contrast.
    #[schemars(range(min = 0.0))]
    pub contrast: f64,
    /// The same for saturation.
    #[schemars(range(min = 0.0))]
    pub saturation: f64,
    /// Largest hue shift, as a fraction of the colour circle.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub hue: f64,
}

/// The resampling filter of all resizing; both are antialiased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// Bilinear (triangle filter).
    #[default]
    Bilinear,
    /// Bicubic with a = -0.5.
    Bicubic,
}

/// What to do with an image file that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBadImage {
    /// Stop and name the file.
    #[default]
    Error,
    /// Check all files before training, exclude bad ones everywhere, and list them in the run's
    /// manifest and log.
    Skip,
}
