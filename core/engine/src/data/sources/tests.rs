//! Tests of the readers on small files in the published formats.

use super::mat5::write;
use super::*;
use crate::data::file_list::FileEntry;
use curricle_recipe::{CsvRecipe, FolderRecipe, PublishedRecipe, SplitRecipe};
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        put(&folder, name, text.as_bytes());
    }
    folder
}

fn put(folder: &TempDir, name: &str, bytes: &[u8]) {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

fn published(folder: &TempDir, check_counts: bool) -> PublishedRecipe {
    PublishedRecipe { path: folder.path().into(), check_counts }
}

fn shown(entries: &[FileEntry]) -> Vec<(&str, usize)> {
    entries.iter().map(|entry| (entry.path.as_str(), entry.class)).collect()
}

fn message(result: Result<FileList>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn cub_is_read_and_split_by_class_number() {
    let files = [
        ("CUB_200_2011/images.txt", "1 001.A/x.jpg\n2 101.B/y.jpg\n3 100.C/z.jpg\n"),
        ("CUB_200_2011/image_class_labels.txt", "1 1\n2 101\n3 100\n"),
        ("CUB_200_2011/classes.txt", "1 001.A\n100 100.C\n101 101.B\n"),
    ];
    let folder = folder(&files);
    let list = cub200::list(&published(&folder, false)).unwrap();
    assert_eq!(list.root, folder.path().join("CUB_200_2011/images"));
    assert_eq!(list.class_names, ["001.A", "100.C", "101.B"]);
    assert_eq!(shown(&list.train), [("001.A/x.jpg", 0), ("100.C/z.jpg", 1)]);
    assert_eq!(shown(&list.test), [("101.B/y.jpg", 2)]);

    let refused = message(cub200::list(&published(&folder, true)));
    let expected = "is not the complete CUB-200-2011 (training classes: 2 instead of 100, training images: 2 instead \
                    of 5864, test classes: 1 instead of 100, test images: 1 instead of 5924).";
    assert!(refused.contains(expected) && refused.contains("`data.check_counts = false`"), "{refused}");

    put(&folder, "CUB_200_2011/images.txt", b"1 001.A/x.jpg\n");
    let refused = message(cub200::list(&published(&folder, false)));
    assert!(refused.contains("lacks 2 of the images in `image_class_labels.txt`, first image 2"), "{refused}");
    put(&folder, "CUB_200_2011/images.txt", b"1 001.A/x.jpg\n4\n");
    let refused = message(cub200::list(&published(&folder, false)));
    assert!(refused.contains("images.txt`: line 2: has fewer than 2 fields: `4`"), "{refused}");
    for (classes, expected) in [
        ("1 Bird\n100 Other\n101 Bird\n", "classes.txt`: line 3: `Bird` is already in line 1"),
        ("1 Bird\n1 Other\n", "classes.txt`: line 2: class 1 already has a name"),
    ] {
        put(&folder, "CUB_200_2011/classes.txt", classes.as_bytes());
        let refused = message(cub200::list(&published(&folder, false)));
        assert!(refused.contains(expected), "{refused}");
    }
}

#[test]
fn cars_are_read_in_both_layouts() {
    let sample = |path: &str, class: u8| vec![write::text(path), write::number(class)];
    let names = write::cells(&(1..=100).map(|n| write::text(&format!("car {n}"))).collect::<Vec<_>>());
    let folder = tempfile::tempdir().unwrap();
    let annotations = write::records(&["fname", "class"], &[sample("00001.jpg", 99), sample("00002.jpg", 1)]);
    put(&folder, "devkit/cars_train_annos.mat", &write::file(&[("annotations", annotations)]));
    put(&folder, "devkit/cars_meta.mat", &write::file(&[("class_names", names.clone())]));
    let refused = message(cars196::list(&published(&folder, false)));
    assert!(refused.contains("has no `cars_test_annos_withlabels.mat` or `devkit/cars_test"), "{refused}");

    let annotations = write::records(&["fname", "class"], &[sample("00001.jpg", 98)]);
    put(&folder, "cars_test_annos_withlabels.mat", &write::file(&[("annotations", annotations)]));
    let list = cars196::list(&published(&folder, false)).unwrap();
    assert_eq!(shown(&list.train), [("cars_train/00002.jpg", 0), ("cars_test/00001.jpg", 97)]);
    assert_eq!(shown(&list.test), [("cars_train/00001.jpg", 98)]);
    assert_eq!(list.class_names[98], "car 99");

    let fields = ["relative_im_path", "class"];
    let annotations = write::records(&fields, &[sample("car_ims/000001.jpg", 1), sample("car_ims/000002.jpg", 100)]);
    let single = write::file(&[("annotations", annotations), ("class_names", names)]);
    put(&folder, "cars_annos.mat", &single);
    let list = cars196::list(&published(&folder, false)).unwrap();
    assert_eq!(shown(&list.train), [("car_ims/000001.jpg", 0)]);
    assert_eq!(shown(&list.test), [("car_ims/000002.jpg", 99)]);
    assert!(message(cars196::list(&published(&folder, true))).contains("training images: 1 instead of 8054"));

    let names = write::cells(&["car", "van", "car"].map(write::text));
    let annotations = write::records(&fields, &[sample("car_ims/000001.jpg", 1)]);
    put(&folder, "cars_annos.mat", &write::file(&[("annotations", annotations), ("class_names", names)]));
    let refused = message(cars196::list(&published(&folder, false)));
    assert!(refused.contains("cars_annos.mat`: classes 1 and 3 are both named `car`"), "{refused}");
}

#[test]
fn sop_is_read_from_its_two_lists() {
    let header = "image_id class_id super_class_id path\n";
    let folder = folder(&[
        ("Ebay_train.txt", &format!("{header}1 1 1 bicycle_final/1_0.JPG\n2 2 1 bicycle_final/2_0.JPG\n")),
        ("Ebay_test.txt", &format!("{header}3 11319 1 sofa_final/3_0.JPG\r\n")),
    ]);
    let list = sop::list(&published(&folder, false)).unwrap();
    assert_eq!(shown(&list.train), [("bicycle_final/1_0.JPG", 0), ("bicycle_final/2_0.JPG", 1)]);
    assert_eq!((shown(&list.test), &list.class_names[2]), (vec![("sofa_final/3_0.JPG", 2)], &"11319".to_string()));
    assert!(message(sop::list(&published(&folder, true))).contains("test images: 1 instead of 60502"));
}

#[test]
fn inshop_has_queries_and_a_gallery() {
    let text = "4\nimage_name item_id evaluation_status\nimg/A/1.jpg        id_2 train      \nimg/A/2.jpg   id_7 query\n\
                img/A/3.jpg   id_7 gallery \nimg/B/4.jpg  id_1 train\n";
    let folder = folder(&[("Eval/list_eval_partition.txt", text)]);
    let list = inshop::list(&published(&folder, false)).unwrap();
    assert_eq!(list.class_names, ["id_1", "id_2", "id_7"]);
    assert_eq!(shown(&list.train), [("img/A/1.jpg", 1), ("img/B/4.jpg", 0)]);
    assert_eq!(list.test.iter().map(|entry| entry.query).collect::<Vec<_>>(), [true, false]);
    assert!(message(inshop::list(&published(&folder, true))).contains("query images: 1 instead of 14218"));
    put(&folder, "Eval/list_eval_partition.txt", text.replacen('4', "52712", 1).as_bytes());
    let refused = message(inshop::list(&published(&folder, true)));
    assert!(refused.contains("announces 52712 images but lists 4"), "{refused}");
}

#[test]
fn folders_are_classes_and_files_that_are_not_images_are_ignored() {
    let folder = folder(&[
        ("b/2.PNG", ""),
        ("b/1.jpg", ""),
        ("a/more/3.webp", ""),
        ("a/notes.txt", ""),
        (".hidden/4.jpg", ""),
        ("empty/readme", ""),
        ("5.jpg", ""),
        ("c/6.jpeg", ""),
        ("d/7.gif", ""),
    ]);
    let recipe = |split| FolderRecipe { path: folder.path().into(), split };
    let list = folder::list(&recipe(SplitRecipe::Classes)).unwrap();
    assert_eq!(list.class_names, ["a", "b", "c", "d"]);
    assert_eq!(shown(&list.train), [("a/more/3.webp", 0), ("b/1.jpg", 1), ("b/2.PNG", 1)]);
    assert_eq!(list.test.len(), 2);
    let all = folder::list(&recipe(SplitRecipe::None)).unwrap();
    assert_eq!((all.train.len(), &all.train), (5, &all.test));
}

#[test]
fn links_between_folders_are_followed_once_per_class() {
    let folder = folder(&[("a/1.jpg", ""), ("a/more/2.jpg", ""), ("b/3.jpg", "")]);
    for (to, at) in [(".", "a/here"), (".", "a/more/here"), ("..", "a/up"), ("a", "c")] {
        std::os::unix::fs::symlink(to, folder.path().join(at)).unwrap();
    }
    let list = folder::list(&FolderRecipe { path: folder.path().into(), split: SplitRecipe::None }).unwrap();
    let found = [("a/1.jpg", 0), ("a/more/2.jpg", 0), ("b/3.jpg", 1), ("c/1.jpg", 2), ("c/more/2.jpg", 2)];
    assert_eq!(shown(&list.train), found);
}

#[test]
fn a_source_that_lists_a_file_twice_is_refused() {
    let lists = [
        ("list.csv", "imgs/0.png,a\n./imgs/0.png,b\n"),
        ("Eval/list_eval_partition.txt", "2\nheader\nimg/1.jpg id_1 query\nimg/1.jpg id_1 gallery\n"),
    ];
    let folder = folder(&lists);
    let csv = CsvRecipe { path: folder.path().join("list.csv"), root: None, split: SplitRecipe::None };
    let refused = list(&DataRecipe::Csv(csv)).unwrap_err().to_string();
    assert!(refused.contains("`imgs/0.png` and `./imgs/0.png` are the same file"), "{refused}");
    let refused = list(&DataRecipe::Inshop(published(&folder, false))).unwrap_err().to_string();
    assert!(refused.contains("`img/1.jpg` is listed twice"), "{refused}");
}

#[test]
fn a_missing_folder_is_named() {
    let recipe = PublishedRecipe { path: "no/such".into(), check_counts: true };
    assert_eq!(message(sop::list(&recipe)), "`no/such`: is not a folder; `data.path` is relative to the recipe");
}
