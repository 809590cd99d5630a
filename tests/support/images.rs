//! Small images to train on.

use super::{Sandbox, small_recipe};
use image::{Rgb, RgbImage};

/// Classes of coloured stripes in the folder `images`, `per_class` each, as PNG and JPEG files of several
/// sizes. Classes differ in colour and direction, samples in phase.
///
/// # Panics
/// If a file cannot be written.
pub(crate) fn write_images(sandbox: &Sandbox, classes: u32, per_class: u32) {
    for class in 0..classes {
        for sample in 0..per_class {
            let (width, height) = (40 + 3 * sample, 36 + class);
            let image = RgbImage::from_fn(width, height, |x, y| {
                let wave = (x * (1 + class % 3) + y * (1 + class / 3) + 5 * sample) % 24 * 10;
                Rgb([wave as u8, (class * 30 % 256) as u8, 255 - wave as u8])
            });
            let ending = if sample % 2 == 0 { "png" } else { "jpg" };
            let path = sandbox.path(format!("images/class {class}/{sample}.{ending}"));
            std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
            image.save(path).expect("images can be written");
        }
    }
}

/// A recipe that trains on them in about a second.
pub(crate) fn image_recipe(loss: &str, weights: &str) -> String {
    let strokes = small_recipe(loss, weights);
    let (_, rest) = strokes.split_once("[noise]").expect("the recipe has noise");
    format!(
        "[data]\nsource = \"folder\"\npath = \"images\"\n[images]\nsize = 16\njitter = {{ brightness = 0.2, hue = 0.1 }}\n\
         [noise]{rest}"
    )
}
