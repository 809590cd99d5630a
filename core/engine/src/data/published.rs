//! Published data sets: what to download, and whether a folder has it.
//!
//! Sizes and hashes are those of the original distributions as far as they are known; `None` means not known.

use super::sources::{self, Listed};
use crate::{Error, Result};
use curricle_recipe::{DataRecipe, PublishedRecipe};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::Path;

/// A published data set.
#[derive(Debug, Serialize)]
pub struct PublishedSet {
    /// Its name in `data.source`.
    pub name: &'static str,
    /// What it contains.
    pub summary: &'static str,
    /// Where to get it.
    pub from: &'static str,
    /// What to download.
    pub archives: &'static [Archive],
    /// What the unpacked folder must have besides the images.
    pub files: &'static [PublishedFile],
    /// The folders of the images.
    pub images: &'static str,
}

/// A file to download.
#[derive(Debug, Serialize)]
pub struct Archive {
    /// Its name.
    pub name: &'static str,
    /// Size in bytes.
    pub bytes: Option<u64>,
    /// Its MD5, as its publishers and torchvision give it.
    pub md5: Option<&'static str>,
}

/// A file in the unpacked folder.
#[derive(Debug, Serialize)]
pub struct PublishedFile {
    /// Its possible paths below the folder.
    pub paths: &'static [&'static str],
    /// Size in bytes.
    pub bytes: Option<u64>,
    /// SHA-256.
    pub sha256: Option<&'static str>,
}

const fn archive(name: &'static str, known: Option<(u64, &'static str)>) -> Archive {
    match known {
        Some((bytes, md5)) => Archive { name, bytes: Some(bytes), md5: Some(md5) },
        None => Archive { name, bytes: None, md5: None },
    }
}

const fn file(paths: &'static [&'static str], known: Option<(u64, &'static str)>) -> PublishedFile {
    match known {
        Some((bytes, sha256)) => PublishedFile { paths, bytes: Some(bytes), sha256: Some(sha256) },
        None => PublishedFile { paths, bytes: None, sha256: None },
    }
}

/// All published data sets that recipes can name.
pub const PUBLISHED: [PublishedSet; 4] = [
    PublishedSet {
        name: "cub200",
        summary: "CUB-200-2011: 200 bird species; 5864 training and 5924 test images of 100 classes each",
        from: "https://data.caltech.edu/records/65de6-vp158",
        archives: &[archive("CUB_200_2011.tgz", Some((1_150_585_339, "97eceeb196236b17998738112f37df78")))],
        files: &[
            file(
                &["images.txt", "CUB_200_2011/images.txt"],
                Some((682_287, "e1cfc5ed1f4bd1b838040784b6f75c44f7a25d9b31707a3adab49ec694618c1f")),
            ),
            file(
                &["image_class_labels.txt", "CUB_200_2011/image_class_labels.txt"],
                Some((100_487, "e9df8c96d897994a245746fe2c98914b9b31f5342bddc6e8b06bdfbf45e49b02")),
            ),
            file(
                &["classes.txt", "CUB_200_2011/classes.txt"],
                Some((4_825, "d65f8bac3ca070a44f4b860436cbcc8302289ee715b7a6a641d4db9bdc6fcd31")),
            ),
        ],
        images: "images/",
    },
    PublishedSet {
        name: "cars196",
        summary: "Cars-196: 196 car models; 8054 training and 8131 test images of 98 classes each",
        from: "https://ai.stanford.edu/~jkrause/cars/car_dataset.html (no longer online; mirrors have the same files)",
        archives: &[
            archive("cars_train.tgz", Some((979_269_282, "065e5b463ae28d29e77c1b4b166cfe61"))),
            archive("cars_test.tgz", Some((977_350_468, "4ce7ebf6a94d07f1952d94dd34c4d501"))),
            archive("car_devkit.tgz", Some((330_960, "c3b158d763b6e2245038c8ad08e45376"))),
            archive("cars_test_annos_withlabels.mat", Some((185_758, "b0a2b23655a3edd16d84508592a98d10"))),
        ],
        files: &[
            file(
                &["cars_train_annos.mat", "devkit/cars_train_annos.mat", "car_devkit/devkit/cars_train_annos.mat"],
                Some((187_916, "1c1973dd828a2964060b0bbc0e423466393fe3001a3f8e303f41fbf22067dfb1")),
            ),
            file(
                &[
                    "cars_test_annos_withlabels.mat",
                    "devkit/cars_test_annos_withlabels.mat",
                    "car_devkit/devkit/cars_test_annos_withlabels.mat",
                ],
                Some((185_758, "790f75be8ea34eeded134cc559332baf23e30e91367e9ddca97d26ed9b895f05")),
            ),
            file(
                &["cars_meta.mat", "devkit/cars_meta.mat", "car_devkit/devkit/cars_meta.mat"],
                Some((3_177, "fe43dfda289448f97c25b09e09fafc0414e22fc4143831537780884a0a5f4a1a")),
            ),
        ],
        images: "cars_train/ and cars_test/; or `cars_annos.mat` with car_ims/",
    },
    PublishedSet {
        name: "sop",
        summary: "Stanford Online Products: 59,551 training images of 11,318 and 60,502 test images of 11,316 products",
        from: "https://cvgl.stanford.edu/projects/lifted_struct",
        archives: &[archive("Stanford_Online_Products.zip", Some((3_083_860_082, "7f73d41a2f44250d4779881525aea32e")))],
        files: &[
            file(&["Ebay_train.txt", "Stanford_Online_Products/Ebay_train.txt"], None),
            file(&["Ebay_test.txt", "Stanford_Online_Products/Ebay_test.txt"], None),
        ],
        images: "bicycle_final/, cabinet_final/ and so on",
    },
    PublishedSet {
        name: "inshop",
        summary: "In-Shop Clothes Retrieval: 25,882 training images of 3,997 items; 14,218 queries, gallery of 12,612",
        from: "https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html (needs an agreement)",
        archives: &[archive("img.zip", None), archive("list_eval_partition.txt", None)],
        files: &[file(
            &["list_eval_partition.txt", "Eval/list_eval_partition.txt", "Anno/list_eval_partition.txt"],
            None,
        )],
        images: "img/ or Img/img/",
    },
];

/// What is wrong with a folder that should have a published data set; nothing if it is complete.
#[derive(Debug, Serialize)]
pub struct FolderReport {
    /// Problems, one line each.
    pub problems: Vec<String>,
    /// Number of images that the lists name.
    pub images: usize,
}

impl PublishedSet {
    /// The data set with this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PUBLISHED.iter().find(|set| set.name == name)
    }

    /// Compares a folder with the published files: sizes and hashes of the lists, and that all images are there.
    pub fn verify(&self, folder: &Path) -> Result<FolderReport> {
        let single = self.name == "cars196" && folder.join("cars_annos.mat").is_file();
        let files = if single { &[] } else { self.files };
        let mut problems = Vec::new();
        for file in files {
            problems.extend(file.problem(folder)?);
        }
        let images = match sources::list(&self.recipe(folder)) {
            Ok(Listed::Files(list)) => {
                let paths = list.files();
                let missing: Vec<_> = paths.iter().filter(|path| !list.root.join(path).is_file()).collect();
                if let Some(first) = missing.first() {
                    problems.push(format!(
                        "{} of {} images are missing, first `{}`",
                        missing.len(),
                        paths.len(),
                        list.root.join(first).display()
                    ));
                }
                paths.len()
            }
            Ok(Listed::Memory(_)) => 0,
            // A missing list has been reported above.
            Err(_) if !problems.is_empty() => 0,
            Err(error) => {
                problems.push(error.to_string());
                0
            }
        };
        Ok(FolderReport { problems, images })
    }

    fn recipe(&self, folder: &Path) -> DataRecipe {
        let recipe = PublishedRecipe { path: folder.to_path_buf(), check_counts: true };
        match self.name {
            "cub200" => DataRecipe::Cub200(recipe),
            "cars196" => DataRecipe::Cars196(recipe),
            "sop" => DataRecipe::Sop(recipe),
            _ => DataRecipe::Inshop(recipe),
        }
    }
}

impl PublishedFile {
    fn problem(&self, folder: &Path) -> Result<Option<String>> {
        let Some(path) = self.paths.iter().map(|path| folder.join(path)).find(|path| path.is_file()) else {
            return Ok(Some(format!("`{}` is missing", folder.join(self.paths[0]).display())));
        };
        let contents = std::fs::read(&path).map_err(Error::file("read", &path))?;
        let found: String = Sha256::digest(&contents).iter().map(|byte| format!("{byte:02x}")).collect();
        let differs = |wanted: &str| wanted != found;
        Ok(self.sha256.is_some_and(differs).then(|| {
            let wanted = self.bytes.unwrap_or_default();
            format!("`{}` differs from the published file: {} bytes, not {wanted}", path.display(), contents.len())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_source_is_described() {
        let names: Vec<_> = PUBLISHED.iter().map(|set| set.name).collect();
        assert_eq!(names, ["cub200", "cars196", "sop", "inshop"]);
        for digest in PUBLISHED.iter().flat_map(|set| set.files).filter_map(|file| file.sha256) {
            assert!(digest.len() == 64 && digest.chars().all(|c| c.is_ascii_hexdigit()), "{digest}");
        }
    }

    #[test]
    fn missing_and_changed_files_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("classes.txt"), "1 a\n").unwrap();
        let report = PublishedSet::find("cub200").unwrap().verify(folder.path()).unwrap();
        assert_eq!(report.problems.len(), 3, "{:?}", report.problems);
        assert!(report.problems[0].contains("images.txt` is missing"), "{:?}", report.problems);
        assert!(report.problems[2].contains("classes.txt` differs from the published file: 4 bytes, not 4825"));
    }
}
