//! Files for TensorBoard's embedding projector.
//!
//! `projector_config.pbtxt` in the log folder points to `projector/tensors.tsv` (the embeddings),
//! `projector/metadata.tsv` (labels and other metadata) and `projector/sprite.png` (thumbnails).

use crate::data::Inputs;
use crate::track::RgbImage;
use crate::{Error, Result};
use curricle_record::files;
use std::fmt::Write as _;
use std::path::Path;
use tch::{Device, Kind, Tensor};

/// Default maximum number of points: enough to see structure, few enough for a browser.
pub const DEFAULT_LIMIT: usize = 5000;

/// Maximum side of a sprite: TensorBoard rejects larger ones.
const SPRITE_SIDE: usize = 8192;
/// Maximum side of a thumbnail: among thousands, larger ones do not help.
const THUMBNAIL: usize = 64;

/// The points to show.
#[derive(Debug)]
pub struct Points<'a> {
    /// Name in the projector's list, e.g. `test embeddings`.
    pub name: &'a str,
    /// `[N, D]`, on any device.
    pub embeddings: &'a Tensor,
    /// Metadata columns: a title and N values each, e.g. the classes.
    pub columns: &'a [(&'a str, &'a [String])],
    /// The samples, to show thumbnails if they are images.
    pub inputs: Option<&'a Inputs>,
}

/// Writes the projector's files into a log folder and returns the number of points.
///
/// At most `limit` points are written, evenly spaced over all samples, and never more than fit into a
/// sprite with thumbnails of eight pixels.
pub fn write(folder: &Path, points: &Points, limit: usize) -> Result<usize> {
    let shape = points.embeddings.size();
    let &[total, _] = shape.as_slice() else {
        return Err(Error::Failed(format!("cannot project embeddings {shape:?}: expected `[N, D]`")));
    };
    let total = total as usize;
    let inputs = points.inputs.map_or(total, Inputs::len);
    if points.columns.iter().any(|(_, values)| values.len() != total) || inputs != total {
        return Err(Error::Failed(format!("cannot project {total} embeddings: columns and images differ in number")));
    }
    let count = total.min(limit).min((SPRITE_SIDE / 8).pow(2));
    let chosen: Vec<usize> = (0..count).map(|i| i * total / count).collect();

    let subfolder = folder.join("projector");
    std::fs::create_dir_all(&subfolder).map_err(Error::file("create", &subfolder))?;
    let rows = rows_of(points.embeddings, &chosen)?;
    files::write(&subfolder.join("tensors.tsv"), tensors(&rows).as_bytes())?;
    files::write(&subfolder.join("metadata.tsv"), metadata(points.columns, &chosen).as_bytes())?;
    let side = |inputs: &Inputs| inputs.thumbnail_side(THUMBNAIL as i64);
    let images = points.inputs.map(|inputs| inputs.thumbnails(&chosen, side(inputs))).transpose()?.flatten();
    let thumbnail = match images {
        Some(images) => {
            let thumbnails = RgbImage::from_batch(&images)?;
            let (sprite, width, height) = sprite(&thumbnails);
            files::write(&subfolder.join("sprite.png"), &sprite.to_png()?)?;
            Some((width, height))
        }
        None => None,
    };
    files::write(&folder.join("projector_config.pbtxt"), config(points.name, thumbnail).as_bytes())?;
    Ok(count)
}

fn torch(error: tch::TchError) -> Error {
    Error::Torch { during: "writing the projector's files", source: error.into() }
}

fn select(tensor: &Tensor, chosen: &[usize]) -> Result<Tensor> {
    let indices: Vec<i64> = chosen.iter().map(|&i| i as i64).collect();
    let indices = Tensor::f_from_slice(&indices).and_then(|t| t.f_to_device(tensor.device())).map_err(torch)?;
    tensor.f_index_select(0, &indices).map_err(torch)
}

fn rows_of(embeddings: &Tensor, chosen: &[usize]) -> Result<Vec<Vec<f32>>> {
    let rows = select(embeddings, chosen)?;
    let rows = rows.f_to_kind(Kind::Float).and_then(|t| t.f_to_device(Device::Cpu)).map_err(torch)?;
    Vec::<Vec<f32>>::try_from(rows).map_err(torch)
}

fn tensors(rows: &[Vec<f32>]) -> String {
    let mut text = String::new();
    for row in rows {
        for (i, value) in row.iter().enumerate() {
            // Five decimals are finer than any screen. Writing to a string cannot fail.
            let _ = write!(text, "{}{value:.5}", if i == 0 { "" } else { "\t" });
        }
        text.push('\n');
    }
    text
}

fn metadata(columns: &[(&str, &[String])], chosen: &[usize]) -> String {
    let clean = |text: &str| text.replace(['\t', '\n', '\r'], " ");
    let line = |cells: Vec<String>| format!("{}\n", cells.join("\t"));
    let mut text = String::new();
    // TensorBoard expects titles if, and only if, there are several columns.
    if columns.len() > 1 {
        text += &line(columns.iter().map(|(title, _)| clean(title)).collect());
    }
    for &i in chosen {
        text += &line(columns.iter().map(|(_, values)| clean(&values[i])).collect());
    }
    text
}

/// All images in a square grid, and the size of each.
fn sprite(images: &[RgbImage]) -> (RgbImage, usize, usize) {
    let side = (1..).find(|side| side * side >= images.len()).unwrap_or(1);
    let largest = THUMBNAIL.min(SPRITE_SIDE / side);
    let thumbnails: Vec<RgbImage> = images.iter().map(|image| image.scaled(1, largest)).collect();
    let (width, height) = thumbnails.first().map_or((1, 1), |t| (t.width(), t.height()));
    let mut sprite = RgbImage::new(side * width, side * height, [255; 3]);
    for (i, thumbnail) in thumbnails.iter().enumerate() {
        sprite.paste(i % side * width, i / side * height, thumbnail);
    }
    (sprite, width, height)
}

fn config(name: &str, thumbnail: Option<(usize, usize)>) -> String {
    let sprite = thumbnail.map_or(String::new(), |(width, height)| {
        format!(
            "  sprite {{\n    image_path: \"projector/sprite.png\"\n    single_image_dim: {width}\n    single_image_dim: {height}\n  }}\n"
        )
    });
    let name = name.replace(['"', '\\', '\n'], " ");
    format!(
        "embeddings {{\n  tensor_name: \"{name}\"\n  tensor_path: \"projector/tensors.tsv\"\n  metadata_path: \"projector/metadata.tsv\"\n{sprite}}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("sample\t{i}")).collect()
    }

    #[test]
    fn points_are_evenly_spaced() {
        let folder = tempfile::tempdir().unwrap();
        let embeddings = Tensor::arange(40, (Kind::Float, Device::Cpu)).view([20, 2]);
        let images = Inputs::Images(Tensor::arange(20 * 6, (Kind::Uint8, Device::Cpu)).view([20, 1, 2, 3]));
        let (classes, paths) = (names(20), names(20));
        let columns = [("class", &classes[..]), ("path", &paths[..])];
        let points = Points { name: "test", embeddings: &embeddings, columns: &columns, inputs: Some(&images) };
        assert_eq!(write(folder.path(), &points, 5).unwrap(), 5);
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("projector/tensors.tsv").lines().nth(1), Some("8.00000\t9.00000"));
        assert_eq!(read("projector/tensors.tsv").lines().count(), 5);
        assert_eq!(read("projector/metadata.tsv").lines().next(), Some("class\tpath"));
        assert_eq!(read("projector/metadata.tsv").lines().last(), Some("sample 16\tsample 16"));
        assert!(read("projector_config.pbtxt").contains("single_image_dim: 2\n    single_image_dim: 2\n"));
    }

    #[test]
    fn sprites_stay_within_the_limit_of_tensorboard() {
        let images = vec![RgbImage::new(64, 48, [9; 3]); 150 * 150];
        let (sprite, width, height) = sprite(&images);
        assert!(sprite.width() <= SPRITE_SIDE && sprite.height() <= SPRITE_SIDE);
        assert_eq!((sprite.width(), sprite.height()), (150 * width, 150 * height));
    }

    #[test]
    fn columns_of_a_different_length_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let embeddings = Tensor::zeros([3, 2], (Kind::Float, Device::Cpu));
        let short = names(2);
        let points = Points { name: "test", embeddings: &embeddings, columns: &[("class", &short)], inputs: None };
        assert!(write(folder.path(), &points, 5).is_err());
    }
}
