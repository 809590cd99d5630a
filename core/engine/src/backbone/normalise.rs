//! Pixel normalisation.

use curricle_recipe::{CustomNormalise, NormaliseRecipe};
use tch::{Device, Kind, Tensor};

/// The scale and shift of each channel, and the channel order.
#[derive(Debug)]
pub(super) enum Normalise {
    /// Pixels to [-1, 1], for any number of channels.
    Symmetric,
    /// Three channels, each with its own scale and shift. Grey images become three equal channels.
    Channels {
        /// Applies to images in [0, 1].
        scale: Tensor,
        shift: Tensor,
        bgr: bool,
    },
}

impl Normalise {
    pub(super) fn new(recipe: &NormaliseRecipe) -> Self {
        let CustomNormalise { mean, std, range, bgr } = recipe.numbers();
        let channels = |number: &dyn Fn(usize) -> f64| {
            let numbers: Vec<f32> = (0..3).map(|channel| number(channel) as f32).collect();
            Tensor::from_slice(&numbers).view([1, 3, 1, 1])
        };
        let scale = channels(&|c| range / std[c]);
        let shift = channels(&|c| -mean[c] / std[c]);
        Self::Channels { scale, shift, bgr }
    }

    pub(crate) fn move_to(&mut self, device: Device) {
        if let Self::Channels { scale, shift, .. } = self {
            (*scale, *shift) = (scale.to_device(device), shift.to_device(device));
        }
    }

    /// Normalises u8 images.
    pub(super) fn pixels(&self, pixels: &Tensor) -> Tensor {
        match self {
            Self::Symmetric => pixels.to_kind(Kind::Float) / 127.5 - 1.0,
            Self::Channels { .. } => self.unit(&(pixels.to_kind(Kind::Float) / 255.0)),
        }
    }

    /// Normalises images in [0, 1].
    pub(super) fn unit(&self, images: &Tensor) -> Tensor {
        match self {
            Self::Symmetric => images * 2.0 - 1.0,
            Self::Channels { scale, shift, bgr } => {
                let ordered = if *bgr { images.flip([1]) } else { images.shallow_clone() };
                ordered * scale + shift
            }
        }
    }
}

impl Normalise {
    /// The beginning of a TorchScript method that normalises images in [0, 1] to `x`; [`Self::tensors`] are its
    /// attributes.
    pub(super) fn source(&self) -> String {
        let normalised = match self {
            Self::Symmetric => "images * 2.0 - 1.0",
            Self::Channels { bgr: false, .. } => "images * self.scale + self.shift",
            Self::Channels { bgr: true, .. } => "torch.flip(images, [1]) * self.scale + self.shift",
        };
        format!("def forward(self, images):\n    x = {normalised}\n")
    }

    /// The attributes of [`Self::source`].
    pub(super) fn tensors(&self) -> Vec<(&'static str, &Tensor)> {
        match self {
            Self::Symmetric => Vec::new(),
            Self::Channels { scale, shift, .. } => vec![("scale", scale), ("shift", shift)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(recipe: &NormaliseRecipe, pixels: &[u8]) -> Vec<f32> {
        let pixels = Tensor::from_slice(pixels).view([1, -1, 1, 1]);
        Vec::try_from(Normalise::new(recipe).pixels(&pixels).flatten(0, -1)).unwrap()
    }

    fn assert_close(found: &[f32], wanted: [f32; 3]) {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?} is not {wanted:?}");
    }

    #[test]
    fn pixels_are_normalised_as_the_weights_expect() {
        let pixels = [255, 0, 51];
        assert_close(&numbers(&NormaliseRecipe::Unit, &pixels), [1.0, 0.0, 0.2]);
        assert_close(&numbers(&NormaliseRecipe::Symmetric, &pixels), [1.0, -1.0, -0.6]);
        assert_close(&numbers(&NormaliseRecipe::CaffeBgr, &pixels), [51.0 - 104.0, -117.0, 255.0 - 128.0]);
        let imagenet = [(1.0 - 0.485) / 0.229, -0.456 / 0.224, (0.2 - 0.406) / 0.225];
        assert_close(&numbers(&NormaliseRecipe::Imagenet, &pixels), imagenet);
    }

    #[test]
    fn grey_images_become_three_equal_channels() {
        assert_close(&numbers(&NormaliseRecipe::Unit, &[51]), [0.2; 3]);
    }
}
