//! Small pictures to train on.

use crate::Sandbox;
use image::{Rgb, RgbImage};

/// Classes of coloured stripes below `pictures`, `per_class` each, as PNG and JPEG files of several
/// sizes. Classes differ in colour and direction, samples in phase.
///
/// # Panics
/// If a file cannot be written.
pub fn write_pictures(sandbox: &Sandbox, classes: u32, per_class: u32) {
    for class in 0..classes {
        for sample in 0..per_class {
            let (width, height) = (40 + 3 * sample, 36 + class);
            let picture = RgbImage::from_fn(width, height, |x, y| {
                let wave = (x * (1 + class % 3) + y * (1 + class / 3) + 5 * sample) % 24 * 10;
                Rgb([wave as u8, (class * 30 % 256) as u8, 255 - wave as u8])
            });
            let ending = if sample % 2 == 0 { "png" } else { "jpg" };
            let path = sandbox.path(format!("pictures/class {class}/{sample}.{ending}"));
            std::fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("folders can be made");
            picture.save(path).expect("pictures can be written");
        }
    }
}

/// A recipe that trains on them in about a second.
pub fn picture_recipe(loss: &str, weights: &str) -> String {
    let strokes = crate::small_recipe(loss, weights);
    let (_, rest) = strokes.split_once("[noise]").expect("the recipe has noise");
    format!(
        "[data]\nsource = \"folder\"\npath = \"pictures\"\n[images]\nsize = 16\njitter = {{ brightness = 0.2, hue = 0.1 }}\n\
         [noise]{rest}"
    )
}
