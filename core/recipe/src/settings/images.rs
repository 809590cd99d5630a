//! `[images]`

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How pictures in files become what the network sees. Every word has torchvision's meaning for
/// Pillow images: resizing is antialiased (the filter widens with the factor of reduction) and
/// rounds to whole numbers after each direction. Grey, palette, CMYK and 16-bit pictures become
/// 8-bit RGB, transparency is ignored, and pictures that say how they were rotated (EXIF) are put
/// upright. Sources without files ignore this table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ImagesRecipe {
    /// Width and height of what the network sees, in pixels.
    #[schemars(range(min = 8, max = 4096))]
    pub size: usize,
    /// The shorter side of a picture before the central `size` pixels are cut out for evaluation.
    /// Default: 8/7 of `size`, so 256 for 224.
    #[schemars(range(min = 8, max = 8192))]
    pub resize: Option<usize>,
    /// Reduce pictures right after decoding, before anything is cut out of them, so that their
    /// shorter side is at most this. Default: leave them as they are. Large JPEG files are decoded
    /// faster, and a cache of decoded pictures (`--image-cache`) becomes small.
    #[schemars(range(min = 8, max = 8192))]
    pub shrink: Option<usize>,
    /// What is cut out of a picture for training.
    pub crop: CropRecipe,
    /// Share of training pictures that are mirrored left to right.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub flip: f64,
    /// How much colours vary in training.
    pub jitter: JitterRecipe,
    /// The filter of all resizing.
    pub interpolation: Interpolation,
    /// What to do with a file that cannot be decoded.
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

/// What is cut out of a picture for training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum CropRecipe {
    /// A part of random area and shape, resized to `size`: torchvision's `RandomResizedCrop`.
    RandomResized {
        /// Smallest and largest share of the picture's area.
        #[serde(default = "scale")]
        #[schemars(inner(range(min = 0.0, max = 1.0)))]
        scale: [f64; 2],
        /// Smallest and largest width divided by height.
        #[serde(default = "ratio")]
        #[schemars(inner(range(min = 0.01, max = 100.0)))]
        ratio: [f64; 2],
    },
    /// A random part of `size` pixels after the shorter side is resized to `resize`.
    Random,
    /// The same part as in evaluation.
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

/// How much colours vary in training, in a random order: torchvision's `ColorJitter`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JitterRecipe {
    /// Brightness is multiplied by a number between 1 - this and 1 + this, but at least 0.
    #[schemars(range(min = 0.0))]
    pub brightness: f64,
    /// The same for contrast.
    #[schemars(range(min = 0.0))]
    pub contrast: f64,
    /// The same for saturation.
    #[schemars(range(min = 0.0))]
    pub saturation: f64,
    /// The hue turns by at most this share of the colour circle.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub hue: f64,
}

/// The filter of all resizing; both are antialiased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interpolation {
    /// A triangle.
    #[default]
    Bilinear,
    /// Cubic with a = -0.5.
    Bicubic,
}

/// What to do with a file that cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnBadImage {
    /// Stop and name it.
    #[default]
    Error,
    /// Look at all files before training, leave bad ones out everywhere, and write into the run's
    /// manifest and log which these are.
    Skip,
}
