//! A look at own data, from which `curricle init` chooses settings.

use super::check::{SplitReport, splits};
use super::file_list::FileList;
use super::sources::{self, Listed};
use super::{Layout, class_split};
use crate::{Error, Result};
use curricle_recipe::DataRecipe;
use image::DynamicImage;
use std::path::Path;

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

/// Lists a data set and opens some of its images. Refuses data without pairs of one class, from which no metric can
/// be learnt.
pub fn survey(recipe: &DataRecipe) -> Result<Survey> {
    let survey = match sources::list(recipe)? {
        Listed::Files(list) => {
            let images = match recipe {
                DataRecipe::Folder(folder) => {
                    refuse_split_folders(&folder.path, &list.class_names)?;
                    look(&folder.path, &list)
                }
                DataRecipe::Csv(csv) => look(&csv.path, &list),
                _ => look(&list.root, &list),
            };
            Survey { splits: splits(&list), images: Some(images?) }
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
            Survey { splits: splits.into(), images }
        }
    };
    let train = &survey.splits[0];
    if train.classes > 1 && train.largest_class < 2 {
        let message = "no training class has more than one sample; losses compare samples of one class, so give two \
                       or more of each";
        return Err(Error::Usage(message.into()));
    }
    Ok(survey)
}

/// Opens some of the images that `source` lists.
fn look(source: &Path, list: &FileList) -> Result<ImageSurvey> {
    let paths = list.files();
    if paths.is_empty() {
        return Err(Error::format(source, "lists no images; it needs a line of `path,label` for each"));
    }
    let (mut opened, mut problem, mut none_exists) = (Vec::new(), None, true);
    for path in paths.iter().step_by(paths.len().div_ceil(OPENED).max(1)) {
        let path = list.root.join(path);
        none_exists &= !path.exists();
        // Single bad files are `data check`'s business.
        match image::open(&path) {
            Ok(image) => opened.push(image),
            Err(error) => problem = problem.or(Some(format!("; the first: `{}`: {error}", path.display()))),
        }
    }
    let median = |size: fn(&DynamicImage) -> u32| {
        let mut sizes: Vec<u32> = opened.iter().map(size).collect();
        sizes.sort_unstable();
        sizes.get(sizes.len() / 2).copied()
    };
    let Some((width, height)) = median(DynamicImage::width).zip(median(DynamicImage::height)) else {
        let (files, problem) = (paths.len(), problem.unwrap_or_default());
        let help = match none_exists {
            // An absolute path of another machine, to which `root` does not apply.
            true if paths.iter().any(|path| Path::new(path).is_absolute()) => {
                "\nhelp: the paths in the list are absolute; write them relative to the folder of the list or to `root`"
            }
            true => "\nhelp: the paths are relative to the folder of the list, unless `root` names another folder",
            false => "",
        };
        let message = format!("none of its {files} files can be decoded as an image{problem}{help}");
        return Err(Error::format(source, message));
    };
    let grey = opened.iter().all(|image| image.to_rgb8().pixels().all(|p| p[0] == p[1] && p[1] == p[2]));
    Ok(ImageSurvey { width, height, grey })
}

/// Names of folders that are splits, each with class folders of its own, as for torchvision's `ImageFolder`.
const SPLIT_FOLDERS: [&str; 9] =
    ["train", "training", "val", "valid", "validation", "test", "testing", "query", "gallery"];

/// Refuses folders that would be taken for classes.
fn refuse_split_folders(root: &Path, names: &[String]) -> Result<()> {
    if !names.iter().all(|name| SPLIT_FOLDERS.contains(&name.to_lowercase().as_str())) {
        return Ok(());
    }
    let message = format!(
        "its folders `{}` look like splits, not classes; give one that has a folder per class, such as `{}`, or list \
         the images in a CSV file with the columns `path`, `label` and `split`",
        names.join("`, `"),
        root.join(&names[names.len() - 1]).display()
    );
    Err(Error::format(root, message))
}
