//! A look at own data, from which `curricle init` chooses settings.

use super::check::{SplitReport, splits};
use super::sources::{self, Listed};
use super::{Layout, class_split};
use crate::{Error, Result};
use curricle_recipe::DataRecipe;

/// Number of images that are opened.
const OPENED: usize = 64;

/// What a data set looks like.
#[derive(Debug)]
pub struct Survey {
    /// The splits that training and evaluation would use.
    pub splits: Vec<SplitReport>,
    /// The images, or `None` for features.
    pub images: Option<ImageSurvey>,
}

/// What the images look like, judged by some of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageSurvey {
    /// Median width in pixels.
    pub width: u32,
    /// Median height in pixels.
    pub height: u32,
    /// Whether they are grey, even if they are stored in colour.
    pub grey: bool,
}

/// Lists a data set and opens some of its images.
pub fn survey(recipe: &DataRecipe) -> Result<Survey> {
    match sources::list(recipe)? {
        Listed::Files(list) => {
            let paths = list.files();
            let every = paths.len().div_ceil(OPENED).max(1);
            let opened: Vec<_> = paths
                .iter()
                .step_by(every)
                // Bad files are `data check`'s business.
                .filter_map(|path| image::open(list.root.join(path)).ok())
                .collect();
            let median = |mut sizes: Vec<u32>| {
                sizes.sort_unstable();
                sizes.get(sizes.len() / 2).copied()
            };
            let width = median(opened.iter().map(image::DynamicImage::width).collect());
            let height = median(opened.iter().map(image::DynamicImage::height).collect());
            let grey = opened.iter().all(|image| image.to_rgb8().pixels().all(|p| p[0] == p[1] && p[1] == p[2]));
            let Some((width, height)) = width.zip(height) else {
                let message = format!("none of its {} files can be decoded as an image", paths.len());
                return Err(Error::format(&list.root, message));
            };
            Ok(Survey { splits: splits(&list), images: Some(ImageSurvey { width, height, grey }) })
        }
        Listed::Memory(whole) => {
            let (train, test) = class_split::by_class(&whole)?;
            let images = match whole.inputs.layout() {
                Layout::Images { channels, height, width } => {
                    Some(ImageSurvey { width: width as u32, height: height as u32, grey: channels == 1 })
                }
                Layout::Features { .. } => None,
            };
            let splits = [("train", &train), ("test", &test)];
            let splits = splits.map(|(name, split)| super::check::report(name, &split.class_sizes()));
            Ok(Survey { splits: splits.into(), images })
        }
    }
}
