//! The recipe that `curricle init` writes.

use crate::output;
use curricle_engine::data::{ImageSurvey, Survey};
use curricle_recipe::SplitRecipe;
use std::path::{Path, PathBuf};

/// Data of the user.
pub(super) struct OwnData {
    /// `data.source`.
    pub source: &'static str,
    /// `data.path`, as seen from the recipe.
    pub path: PathBuf,
    /// `data.root` of a CSV file, as seen from the recipe.
    pub root: Option<PathBuf>,
    /// `data.split`.
    pub split: SplitRecipe,
}

impl OwnData {
    /// The table `[data]`.
    fn table(&self) -> String {
        let quoted = |path: &Path| toml::Value::String(path.display().to_string());
        let mut table = format!("[data]\nsource = \"{}\"\npath = {}\n", self.source, quoted(&self.path));
        if let Some(root) = &self.root {
            table += &format!("root = {}\n", quoted(root));
        }
        if self.split == SplitRecipe::None {
            table += "split = \"none\"          # too few classes to keep some for testing: the training samples are \
                      evaluated\n";
        }
        table
    }
}

/// More test classes than this take minutes to cluster on a CPU, because k-means looks for as many clusters.
const MANY_CLASSES: usize = 2000;

/// The recipe for the built-in data set.
pub(super) const BUILT_IN_DATA: &str = r#"#:schema recipes/schema.json
# A first recipe: balanced self-paced metric learning on generated characters, of which 20 % have a wrong label.
#
#   curricle run recipe.toml                        trains and evaluates; the results go to `runs`
#   curricle run recipe.toml --set train.epochs=2   overrides a setting
#   curricle explain recipe.toml                    shows every setting and where it comes from
#   curricle list loss                              shows what else there is
extends = "recipes/methods/bspml.toml"

# What is set here wins over the recipe above.
[noise]
name = "uniform"        # `curricle list noise`
ratio = 0.2

[train]
epochs = 10

# To compare methods on the same data, remove the `#` and use `curricle bench recipe.toml`:
# [sweep]
# methods = ["recipes/methods/ms.toml", "recipes/methods/proxy_anchor.toml", "recipes/methods/bspml.toml"]
# seeds = 3
"#;

/// A recipe that fits own data.
pub(super) fn for_own_data(own: &OwnData, survey: &Survey) -> String {
    let train = &survey.splits[0];
    let (classes, per_class) = (train.classes.clamp(2, 16), train.smallest_class.clamp(2, 4));
    let network = survey.images.map_or_else(|| FEATURES.to_string(), network);
    let many = survey.splits[1..].iter().any(|split| split.classes > MANY_CLASSES);
    let cluster = if many { NO_CLUSTERING } else { "" };
    let size = if survey.images.is_some() { 128 } else { 64 };
    format!(
        "#:schema recipes/schema.json\n# {found}.\n\
         # Labels are used as they are: no label noise is injected.\n\n\
         {data}\n{network}\n\
         [embedding]\nsize = {size}\n\n\
         [sampler]               # each batch: `classes` classes with `per_class` samples each\n\
         name = \"pk\"\nclasses = {classes}\nper_class = {per_class}\n\n{TRAINING}{cluster}{SWEEP}",
        found = found(survey),
        data = own.table()
    )
}

/// What the survey found, in one line.
pub(super) fn found(survey: &Survey) -> String {
    let split = |split: &curricle_engine::data::SplitReport| {
        let (smallest, largest) = (split.smallest_class, split.largest_class);
        let each = if smallest == largest { smallest.to_string() } else { format!("{smallest} to {largest}") };
        let classes = output::counted(split.classes, "class", "classes");
        format!(
            "{}: {classes}, {} ({each} per class)",
            split.split,
            output::counted(split.samples, "sample", "samples")
        )
    };
    let splits: Vec<_> = survey.splits.iter().map(split).collect();
    let images = survey.images.map_or("features".to_string(), |ImageSurvey { width, height, grey }| {
        format!("{} images of about {width} x {height} pixels", if grey { "grey" } else { "colour" })
    });
    format!("{images}; {}", splits.join("; "))
}

fn network(images: ImageSurvey) -> String {
    let side = images.width.min(images.height);
    if side < 96 {
        return SMALL.replace("SIZE", &if side < 48 { 32 } else { 64 }.to_string());
    }
    let large = "224\nshrink = 256            # decodes large photographs faster";
    PHOTOGRAPHS.replace("SIZE", if side < 192 { "128" } else { large })
}

const FEATURES: &str = "\
[backbone]
name = \"mlp\"
";

const SMALL: &str = "\
[images]
size = SIZE
crop = { name = \"random_resized\", scale = [0.6, 1.0] }
flip = 0.0              # mirroring would change characters and signs; 0.5 suits photographs

[backbone]
name = \"conv4\"
";

const PHOTOGRAPHS: &str = "\
[images]
size = SIZE
flip = 0.5

[backbone]
name = \"mobilenet_v2\"
# Pretrained weights help most. Get them once in Python, then remove the `#`:
#   torch.save(torchvision.models.mobilenet_v2(weights=\"DEFAULT\").state_dict(), \"mobilenet_v2.pth\")
# weights = \"mobilenet_v2.pth\"
# frozen_norm = true
";

const TRAINING: &str = "\
[loss]
name = \"ms\"             # `curricle list loss`

# If some labels may be wrong, use these two tables instead, so that training decides how much each sample counts:
# [loss]
# name = \"bspml\"
# [weights]
# name = \"balanced_self_paced\"

[optimizer]
name = \"adamw\"
lr = 3e-4

[train]
epochs = 20

[eval]
every = 5
";

const NO_CLUSTERING: &str = "\
cluster = \"never\"       # \"ends\" also computes NMI and AMI, which takes minutes for so many classes
";

const SWEEP: &str = "
# To compare methods on the same data, remove the `#` and use `curricle bench recipe.toml`:
# [sweep]
# methods = [\"recipes/methods/ms.toml\", \"recipes/methods/proxy_anchor.toml\", \"recipes/methods/bspml.toml\"]
# seeds = 3
";

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_engine::data::SplitReport;

    fn survey(side: Option<u32>, classes: usize, smallest: usize) -> Survey {
        let split = |split| SplitReport { split, classes, samples: 40, smallest_class: smallest, largest_class: 9 };
        let images = side.map(|side| ImageSurvey { width: side, height: side + 10, grey: false });
        Survey { splits: vec![split("train"), split("test")], images }
    }

    #[test]
    fn the_recipe_fits_the_data() {
        let path = "my \"best\" photos".into();
        let own = OwnData { source: "folder", path, root: None, split: SplitRecipe::Classes };
        for (side, backbone, size) in
            [(28, "conv4", 32), (64, "conv4", 64), (128, "mobilenet_v2", 128), (640, "mobilenet_v2", 224)]
        {
            let text = for_own_data(&own, &survey(Some(side), 5, 3));
            let recipe: toml::Table = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
            assert_eq!(recipe["data"]["path"].as_str(), Some("my \"best\" photos"));
            assert_eq!(recipe["backbone"]["name"].as_str(), Some(backbone), "{side}");
            assert_eq!(recipe["images"]["size"].as_integer(), Some(size), "{side}");
            assert_eq!(recipe["sampler"]["classes"].as_integer(), Some(5));
            assert_eq!(recipe["sampler"]["per_class"].as_integer(), Some(3));
            assert!(recipe.get("noise").is_none());
        }
        let text = for_own_data(&own, &survey(None, 100, 40));
        let recipe: toml::Table = text.parse().unwrap();
        assert_eq!(recipe["sampler"]["classes"].as_integer(), Some(16));
        assert!(recipe.get("images").is_none());
    }

    #[test]
    fn few_and_many_classes_are_no_trouble() {
        let own = |split| OwnData { source: "csv", path: "list.csv".into(), root: Some("images".into()), split };
        let table =
            |split, classes| -> toml::Table { for_own_data(&own(split), &survey(None, classes, 2)).parse().unwrap() };
        let few = table(SplitRecipe::None, 2);
        assert_eq!((few["data"]["split"].as_str(), few["data"]["root"].as_str()), (Some("none"), Some("images")));
        assert!(few["eval"].get("cluster").is_none());
        let many = table(SplitRecipe::Classes, 10_000);
        assert_eq!((many["data"].get("split"), many["eval"]["cluster"].as_str()), (None, Some("never")));
    }

    #[test]
    fn what_was_found_is_said_in_one_line() {
        assert_eq!(
            found(&survey(Some(28), 5, 3)),
            "colour images of about 28 x 38 pixels; train: 5 classes, 40 samples (3 to 9 per class); test: 5 classes, \
             40 samples (3 to 9 per class)"
        );
    }
}
