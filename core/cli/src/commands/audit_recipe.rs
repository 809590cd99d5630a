//! The recipe that `curricle audit` trains with when it is given images instead of a run.

use curricle_engine::backbone::RecognisedNetwork;
use curricle_record::folder_name;
use std::collections::HashSet;
use std::path::Path;

/// The weight scheme that judges samples: that of the recipe below, and of audits of runs that gave all
/// samples the same weight.
pub(super) const SCHEME: &str = "balanced_self_paced";

/// Labelled images.
#[derive(Debug, Clone, Copy)]
pub(super) enum ImageSource<'a> {
    /// A folder with one subfolder per class.
    Folder(&'a Path),
    /// A CSV file of `path,label`.
    List(&'a Path),
}

/// The text of the recipe. With pretrained weights and the network they are for, the network is frozen and its
/// features are computed once; without, it is a small network trained from scratch.
///
/// Paths should be absolute: relative ones are resolved from the folder of the recipe file.
pub(super) fn recipe_text(images: ImageSource, pretrained: Option<(&Path, &RecognisedNetwork)>) -> String {
    let quoted = |path: &Path| toml::Value::String(path.display().to_string()).to_string();
    let (source, path) = match images {
        ImageSource::Folder(path) => ("folder", path),
        ImageSource::List(path) => ("csv", path),
    };
    let network = match pretrained {
        Some((file, network)) => {
            let settings: String = network.settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
            let lines = format!("name = \"{}\"     # recognised from the file\n{settings}", network.name);
            PRETRAINED.replace("NETWORK\n", &lines).replace("WEIGHTS", &quoted(file))
        }
        None => SMALL.to_string(),
    };
    let shared = SHARED.replace("CLASSES", &classes_in_a_batch(images).to_string());
    let name = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let name = toml::Value::String(folder_name(&["audit", &name]));
    format!(
        "# Finds mislabelled images: all of them train, with lower weights where the label does not fit.\n\
         name = {name}\n\
         description = \"Find mislabelled images\"\n\n\
         [data]\nsource = \"{source}\"\npath = {}\nsplit = \"none\"\n\n{network}\n{shared}",
        quoted(path)
    )
}

/// Classes per batch: 16, or all of them if there are fewer.
fn classes_in_a_batch(images: ImageSource) -> usize {
    let classes = match images {
        // Empty folders are not classes.
        ImageSource::Folder(path) => std::fs::read_dir(path).ok().map(|entries| {
            let has_entries = |folder: &Path| std::fs::read_dir(folder).is_ok_and(|mut inside| inside.next().is_some());
            entries.flatten().filter(|entry| has_entries(&entry.path())).count()
        }),
        ImageSource::List(path) => std::fs::read_to_string(path).ok().map(|text| {
            let labels = text.lines().skip(1).filter_map(|line| Some(line.rsplit_once(',')?.1.trim()));
            labels.collect::<HashSet<_>>().len()
        }),
    };
    classes.map_or(16, |classes| classes.clamp(2, 16))
}

const PRETRAINED: &str = "\
[images]
size = 224
on_bad_image = \"skip\"     # names and counts them
shrink = 256              # decodes large photographs faster

[backbone]
NETWORK
weights = WEIGHTS
frozen = true             # features are computed once; only the embedding is trained

[optimizer]
name = \"adam\"
lr = 1e-3

[train]
epochs = 10
";

const SMALL: &str = "\
[images]
size = 64
on_bad_image = \"skip\"     # names and counts them
shrink = 128              # decodes large photographs faster
crop = { name = \"random_resized\", scale = [0.6, 1.0] }
flip = 0.0                # mirroring would change characters and signs

[backbone]
name = \"conv4\"

[optimizer]
name = \"adam\"
lr = 1e-3

[train]
epochs = 20
";

const SHARED: &str = "\
[embedding]
size = 128

[sampler]
name = \"pk\"
classes = CLASSES
per_class = 4

[loss]
name = \"bspml\"

[weights]
name = \"balanced_self_paced\"

[eval]                    # on the training images and labels themselves: only shows that training works
every = 5
cluster = \"never\"

[track]
images = false
projector = false
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_at_most_as_many_classes_as_the_data() {
        let folder = tempfile::tempdir().unwrap();
        for class in ["a", "b", "c"] {
            std::fs::create_dir(folder.path().join(class)).unwrap();
            std::fs::write(folder.path().join(class).join("1.png"), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        let list = folder.path().join("list.csv");
        std::fs::write(&list, "path,label\r\na/1.png,a\r\nb/1.png,b\r\na/2.png,a\r\n").unwrap();
        let classes = |images| {
            let recipe: toml::Table = recipe_text(images, None).parse().unwrap();
            recipe["sampler"]["classes"].as_integer().unwrap()
        };
        assert_eq!(classes(ImageSource::Folder(folder.path())), 3);
        assert_eq!(classes(ImageSource::List(&list)), 2);
        assert_eq!(classes(ImageSource::List(Path::new("missing.csv"))), 16);
    }

    #[test]
    fn the_text_is_valid_toml_for_any_path() {
        let path = Path::new("/data/my \"best\" images");
        for images in [ImageSource::Folder(path), ImageSource::List(path)] {
            let network = RecognisedNetwork { name: "vit_small_16", settings: vec![("patch", 8)] };
            for pretrained in [None, Some((Path::new("/data/it's.pth"), &network))] {
                let text = recipe_text(images, pretrained);
                let recipe: toml::Table = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
                assert_eq!(recipe["data"]["path"].as_str(), path.to_str());
                assert_eq!(recipe["name"].as_str(), Some("audit-my-best-images"));
                let weights = recipe["backbone"].get("weights").and_then(toml::Value::as_str);
                assert_eq!(weights, pretrained.map(|_| "/data/it's.pth"));
                assert_eq!(recipe["backbone"].get("patch").is_some(), pretrained.is_some());
            }
        }
    }
}
