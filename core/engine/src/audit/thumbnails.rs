//! Images of samples on the page, embedded as data URIs.

use crate::Result;
use crate::data::{Inputs, Layout};
use crate::track::rgb_image::RgbImage;

/// Thumbnails of these samples, or `None` if the data set has no images.
pub(super) fn thumbnails(inputs: &Inputs, rows: &[usize], side: usize) -> Result<Option<Vec<RgbImage>>> {
    if matches!(inputs.layout(), Layout::Features { .. }) {
        return Ok(None);
    }
    if rows.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let Some(images) = inputs.thumbnails(rows, inputs.thumbnail_side(side as i64))? else { return Ok(None) };
    // Small images are enlarged by integer factors, so that pixels stay sharp.
    Ok(Some(RgbImage::from_batch(&images)?.iter().map(|image| image.scaled(side, side)).collect()))
}

/// An image as a data URI: PNG or JPEG, whichever is smaller.
pub(super) fn data_uri(image: &RgbImage) -> Result<String> {
    use base64::Engine;
    let (png, jpeg) = (image.to_png()?, image.to_jpeg()?);
    let (kind, bytes) = if jpeg.len() < png.len() { ("jpeg", jpeg) } else { ("png", png) };
    Ok(format!("data:image/{kind};base64,{}", base64::engine::general_purpose::STANDARD.encode(bytes)))
}
