//! Decoding and transforms next to Pillow's and torchvision's, from `tests/golden/images.py`.

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

/// The largest and the mean difference of two pictures.
fn difference(ours: &[u8], theirs: &[u8]) -> (u8, f64) {
    assert_eq!(ours.len(), theirs.len());
    let differences: Vec<u8> = ours.iter().zip(theirs).map(|(a, b)| a.abs_diff(*b)).collect();
    let sum: f64 = differences.iter().map(|d| f64::from(*d)).sum();
    (differences.iter().copied().max().unwrap(), sum / differences.len() as f64)
}

/// The picture all transforms were made from, and its size.
fn picture(golden: &SafeTensors) -> (Vec<u8>, usize, usize) {
    let rgb = golden.tensor("rgb.png").unwrap();
    (rgb.data().to_vec(), rgb.shape()[1], rgb.shape()[0])
}

#[test]
fn files_are_decoded_as_pillow_decodes_them() {
    let (bytes, folder) = (golden(), tempfile::tempdir().unwrap());
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let mut read = Read::default();
    let mut seen = 0;
    for name in golden.names().into_iter().filter_map(|name| name.strip_prefix("file.")) {
        let expected = golden.tensor(&format!("rgb.{name}")).unwrap();
        let path = file(&folder, name, golden.tensor(&format!("file.{name}")).unwrap().data());
        let pixels = read.decode(&path).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!([pixels.height, pixels.width, 3], expected.shape(), "{name}");
        let (largest, mean) = difference(pixels.rgb, expected.data());
        // JPEG decoders may round differently, and CMYK is rounded once more.
        let allowed = if name.starts_with("jpeg") { (4, 0.7) } else { (0, 0.0) };
        assert!(largest <= allowed.0 && mean <= allowed.1, "{name}: at most {largest}, {mean} on average");
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn damaged_files_are_refused_by_name() {
    let (bytes, folder) = (golden(), tempfile::tempdir().unwrap());
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let part = |name: &str, share: f64| {
        let bytes = golden.tensor(&format!("file.{name}")).unwrap().data();
        bytes[..(bytes.len() as f64 * share) as usize].to_vec()
    };
    let mut no_picture = part("jpeg", 1.0);
    no_picture[2..].fill(7);
    for (name, bytes, said) in [
        ("half.jpg", part("jpeg", 0.5), "is cut off after"),
        ("almost.jpg", part("jpeg_progressive", 0.98), "is cut off after"),
        ("half.png", part("png", 0.5), "is no Png file that can be decoded"),
        ("half.webp", part("webp", 0.5), "is no WebP file that can be decoded"),
        ("half.gif", part("gif", 0.3), "is no Gif file that can be decoded"),
        ("empty.jpg", Vec::new(), "is empty"),
        ("page.jpg", b"<html>not found</html>".to_vec(), "is no picture in a format that is known"),
        ("rubbish.jpg", [&no_picture[..], &[0xff, 0xd9]].concat(), "is no JPEG file that can be decoded"),
    ] {
        let message = Read::default().decode(&file(&folder, name, &bytes)).unwrap_err().to_string();
        assert!(message.contains(&format!("{name}`: {said}")), "{message}");
    }
    let message = Read::default().decode(&folder.path().join("none.jpg")).unwrap_err().to_string();
    assert!(message.starts_with("cannot read `"), "{message}");
}

#[test]
fn parts_are_resized_as_torchvision_resizes_them() {
    let bytes = golden();
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let (rgb, width, height) = picture(&golden);
    let pixels = Pixels { width, height, rgb: &rgb };
    let (mut scaler, mut out, mut seen) = (Scaler::default(), Vec::new(), 0);
    for name in golden.names() {
        let parts: Vec<&str> = name.split('.').collect();
        let numbers: Vec<usize> = parts.iter().filter_map(|part| part.parse().ok()).collect();
        let window = match (parts[0], &numbers[..]) {
            ("center", &[resize, size]) => Window::central((width, height), resize, size),
            ("crop", &[left, top, across, down, size]) => Window::cut(left, top, across, down, size),
            _ => continue,
        };
        let filter = if parts[1] == "bicubic" { Interpolation::Bicubic } else { Interpolation::Bilinear };
        scaler.scale(&pixels, &window, filter, &mut out).unwrap();
        let (largest, mean) = difference(&out, golden.tensor(name).unwrap().data());
        // Both round to whole levels between the two passes, not always to the same side.
        assert!(largest <= 1 && mean < 0.3, "{name}: at most {largest}, {mean} on average");
        seen += 1;
    }
    assert_eq!(seen, 11);
}

#[test]
fn colours_change_as_in_torchvision() {
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
        let mut rgb = picture(&golden).0;
        change.apply(&mut rgb);
        let (largest, mean) = difference(&rgb, golden.tensor(name).unwrap().data());
        assert!(largest <= 1 && mean < 0.02, "{name}: at most {largest}, {mean} on average");
        seen += 1;
    }
    assert_eq!(seen, 16);
}

#[test]
fn augmentation_depends_on_seed_epoch_sample_and_occurrence_alone() {
    let (bytes, folder) = (golden(), tempfile::tempdir().unwrap());
    let golden = SafeTensors::deserialize(&bytes).unwrap();
    let path = file(&folder, "a.jpg", golden.tensor("file.jpeg").unwrap().data());
    let jitter = crate::recipe::JitterRecipe { brightness: 0.3, hue: 0.2, ..Default::default() };
    let settings = ImagesRecipe { size: 24, jitter, ..ImagesRecipe::default() };
    let mut used = Pipeline::default();
    let mut load = |view, sample, occurrence| {
        let mut out = vec![0; 3 * 24 * 24];
        used.load(&path, None, &settings, view, Visit { sample, occurrence }, &mut out).unwrap();
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
fn mirrored_pictures_are_the_same_from_right_to_left() {
    let pixels: Vec<u8> = (0..12).collect();
    let (mut straight, mut mirrored) = (vec![0; 12], vec![0; 12]);
    planar(&pixels, 2, false, &mut straight);
    planar(&pixels, 2, true, &mut mirrored);
    assert_eq!(straight, [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);
    assert_eq!(mirrored, [3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8]);
}
