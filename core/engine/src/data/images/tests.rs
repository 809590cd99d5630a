//! Compares decoding and transforms with Pillow and torchvision; golden data from `tests/golden/images.py`.

use super::jitter::Change;
use super::*;
use safetensors::SafeTensors;
use std::path::PathBuf;
use tempfile::TempDir;

fn golden() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/images.safetensors")).unwrap()
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

/// The largest and the mean difference of two images.
fn difference(ours: &[u8], theirs: &[u8]) -> (u8, f64) {
    assert_eq!(ours.len(), theirs.len());
    let differences: Vec<u8> = ours.iter().zip(theirs).map(|(a, b)| a.abs_diff(*b)).collect();
    let sum: f64 = differences.iter().map(|d| f64::from(*d)).sum();
    (differences.iter().copied().max().unwrap(), sum / differences.len() as f64)
}

/// The source image of all transforms, and its size.
fn source_image(golden: &SafeTensors) -> (Vec<u8>, usize, usize) {
    let rgb = golden.tensor("rgb.png").unwrap();
    (rgb.data().to_vec(), rgb.shape()[1], rgb.shape()[0])
}

#[test]
fn files_are_decoded_as_by_pillow() {
    let (bytes, folder) = (golden(), tempfile::tempdir().unwrap());
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let mut read = Read::default();
    let mut seen = 0;
    for name in golden.names().into_iter().filter_map(|name| name.strip_prefix("file.")) {
        let expected = golden.tensor(&format!("rgb.{name}")).unwrap();
        let path = file(&folder, name, golden.tensor(&format!("file.{name}")).unwrap().data());
        let pixels = read.decode(&path, None).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!([pixels.height, pixels.width, 3], expected.shape(), "{name}");
        let (largest, mean) = difference(pixels.rgb, expected.data());
        // JPEG decoders may round differently, and CMYK is rounded twice.
        let allowed = if name.starts_with("jpeg") { (4, 0.7) } else { (0, 0.0) };
        assert!(largest <= allowed.0 && mean <= allowed.1, "{name}: at most {largest}, {mean} on average");
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn images_that_will_be_shrunk_are_decoded_at_reduced_size() {
    let (bytes, folder) = (golden(), tempfile::tempdir().unwrap());
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let mut seen = 0;
    for name in golden.names().into_iter().filter_map(|name| name.strip_prefix("large.")) {
        let path = file(&folder, name, golden.tensor(&format!("large.{name}")).unwrap().data());
        for (shorter, divisor) in [(12, 1), (11, 4), (6, 4), (5, 8), (1, 8)] {
            let mut read = Read::default();
            let scaled = read.decode(&path, Some(shorter)).unwrap();
            // CMYK is decoded at full size.
            let divisor = if name == "cmyk" { 1 } else { divisor };
            let size = if name == "rotated" { [128, 192] } else { [192, 128] };
            assert_eq!([scaled.width, scaled.height], size.map(|side| side / divisor), "{name} {shorter}");
        }
        let mut pipeline = Pipeline::default();
        let ours = pipeline.whole_image(&path, Some(11)).unwrap();
        let expected = golden.tensor(&format!("reduced.{name}")).unwrap();
        assert_eq!([ours.height, ours.width, 3], expected.shape(), "{name}");
        let (largest, mean) = difference(ours.rgb, expected.data());
        assert!(largest <= 10 && mean <= 2.5, "{name}: at most {largest}, {mean} on average");
        seen += 1;
    }
    assert_eq!(seen, 5);
}

#[test]
fn the_same_damaged_files_are_refused_at_full_and_reduced_size() {
    let folder = tempfile::tempdir().unwrap();
    let image = image::RgbImage::from_fn(320, 240, |x, y| {
        image::Rgb([(x * y / 97) as u8, (x + 2 * y) as u8, ((x ^ y) * 3) as u8])
    });
    let path = folder.path().join("a.jpg");
    image.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut rng = rng::stream(0, "damage", 0, 0);
    let (mut refused, mut read) = (0, Read::default());
    for round in 0..200 {
        let mut damaged = whole.clone();
        let at = rng.random_range(2..damaged.len() - 300);
        match round % 3 {
            0 => damaged[at] ^= 1 << rng.random_range(0..8),
            1 => damaged[at..at + 40].iter_mut().for_each(|byte| *byte = rng.random()),
            _ => drop(damaged.drain(at..at + 300)),
        }
        std::fs::write(&path, damaged).unwrap();
        let full = read.decode(&path, None).is_ok();
        assert_eq!(full, read.decode(&path, Some(16)).is_ok(), "round {round}, at {at}");
        refused += usize::from(!full);
    }
    assert!((5..195).contains(&refused), "{refused}");
}

#[test]
fn damaged_files_are_refused_by_name() {
    let (bytes, folder) = (golden(), tempfile::tempdir().unwrap());
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let truncated = |name: &str, share: f64| {
        let bytes = golden.tensor(&format!("file.{name}")).unwrap().data();
        bytes[..(bytes.len() as f64 * share) as usize].to_vec()
    };
    let mut garbage = truncated("jpeg", 1.0);
    garbage[2..].fill(7);
    for (name, bytes, expected) in [
        ("half.jpg", truncated("jpeg", 0.5), "is truncated after"),
        ("almost.jpg", truncated("jpeg_progressive", 0.98), "is truncated after"),
        ("half.png", truncated("png", 0.5), "cannot be decoded as PNG"),
        ("half.webp", truncated("webp", 0.5), "cannot be decoded as WEBP"),
        ("half.gif", truncated("gif", 0.3), "cannot be decoded as GIF"),
        ("empty.jpg", Vec::new(), "is empty"),
        ("page.jpg", b"<html>not found</html>".to_vec(), "is not an image in a supported format"),
        ("rubbish.jpg", [&garbage[..], &[0xff, 0xd9]].concat(), "cannot be decoded as JPEG"),
    ] {
        let message = Read::default().decode(&file(&folder, name, &bytes), None).unwrap_err().to_string();
        assert!(message.contains(&format!("{name}`: {expected}")), "{message}");
    }
    let message = Read::default().decode(&folder.path().join("none.jpg"), None).unwrap_err().to_string();
    assert!(message.starts_with("cannot read `"), "{message}");
}

#[test]
fn crops_are_resized_as_by_torchvision() {
    let bytes = golden();
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let (rgb, width, height) = source_image(&golden);
    let pixels = Pixels { width, height, rgb: &rgb };
    let (mut scaler, mut out, mut seen) = (Scaler::default(), Vec::new(), 0);
    for name in golden.names() {
        let parts: Vec<&str> = name.split('.').collect();
        let numbers: Vec<usize> = parts.iter().filter_map(|part| part.parse().ok()).collect();
        let window = match (parts[0], &numbers[..]) {
            ("center", &[resize, size]) => CropWindow::central((width, height), resize, size),
            ("crop", &[left, top, across, down, size]) => CropWindow::cut(left, top, across, down, size),
            _ => continue,
        };
        let filter = if parts[1] == "bicubic" { Interpolation::Bicubic } else { Interpolation::Bilinear };
        scaler.scale(&pixels, &window, filter, &mut out).unwrap();
        let (largest, mean) = difference(&out, golden.tensor(name).unwrap().data());
        // Both round to whole levels between the two passes, not always in the same direction.
        assert!(largest <= 1 && mean < 0.3, "{name}: at most {largest}, {mean} on average");
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn colour_jitter_matches_torchvision() {
    let bytes = golden();
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let mut seen = 0;
    for name in golden.names() {
        let Some((kind, factor)) = name.strip_prefix("jitter.").and_then(|rest| rest.split_once('.')) else { continue };
        let factor: f64 = factor.parse().unwrap();
        let change = match kind {
            "brightness" => Change::Brightness(factor as f32),
            "contrast" => Change::Contrast(factor as f32),
            "saturation" => Change::Saturation(factor as f32),
            _ => Change::Hue(factor),
        };
        let mut rgb = source_image(&golden).0;
        change.apply(&mut rgb);
        let (largest, mean) = difference(&rgb, golden.tensor(name).unwrap().data());
        assert!(largest <= 1 && mean < 0.02, "{name}: at most {largest}, {mean} on average");
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn augmentation_depends_only_on_seed_epoch_sample_and_occurrence() {
    let (bytes, folder) = (golden(), tempfile::tempdir().unwrap());
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let path = file(&folder, "a.jpg", golden.tensor("file.jpeg").unwrap().data());
    let jitter = curricle_recipe::JitterRecipe { brightness: 0.3, hue: 0.2, ..Default::default() };
    let settings = ImagesRecipe { size: 24, jitter, ..ImagesRecipe::default() };
    let mut used = Pipeline::default();
    let mut load = |view, sample, occurrence| {
        let mut out = vec![0; 3 * 24 * 24];
        used.load(&path, None, &settings, view, Occurrence { sample, occurrence }, &mut out).unwrap();
        out
    };
    let view = |seed, epoch| View::Train { seed, epoch };
    let first = load(view(1, 2), 3, 0);
    let others = [(view(2, 2), 3, 0), (view(1, 3), 3, 0), (view(1, 2), 4, 0), (view(1, 2), 3, 1), (View::Eval, 3, 0)];
    for (view, sample, occurrence) in others {
        assert_ne!(first, load(view, sample, occurrence));
    }
    assert_eq!(load(View::Eval, 3, 0), load(View::Eval, 4, 5));
    assert_eq!(first, load(view(1, 2), 3, 0));
}

#[test]
fn flipping_reverses_every_row() {
    let pixels: Vec<u8> = (0..12).collect();
    let (mut straight, mut mirrored) = (vec![0; 12], vec![0; 12]);
    planar(&pixels, 2, false, &mut straight);
    planar(&pixels, 2, true, &mut mirrored);
    assert_eq!(straight, [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
    assert_eq!(mirrored, [3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8]);
}
