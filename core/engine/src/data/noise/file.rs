//! The CSV file of noisy labels that is saved with a run.
//!
//! The columns are `sample,path,original,label,flipped`. Classes are written by name, so that the file
//! is readable and can be used as a `list` with `labels = "names"`.

use super::NoisyLabels;
use crate::data::Split;
use crate::{Error, Result};
use curricle_record::files;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;

#[derive(Debug, Serialize, Deserialize)]
struct LabelRow {
    sample: usize,
    path: String,
    original: String,
    label: String,
    flipped: bool,
}

/// Writes the noisy labels of a training set, atomically.
pub fn save(path: &Path, split: &Split, noisy: &NoisyLabels) -> Result<()> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for sample in 0..split.len() {
        let row = LabelRow {
            sample,
            path: split.paths[sample].clone(),
            original: split.class_names[split.labels[sample] as usize].clone(),
            label: noisy.class_names[noisy.labels[sample] as usize].clone(),
            flipped: noisy.flipped[sample],
        };
        writer.serialize(row).map_err(Error::encode("the noisy labels"))?;
    }
    let text = writer.into_inner().map_err(|e| Error::file("write", path)(e.into_error()))?;
    Ok(files::write(path, &text)?)
}

/// Reads what [`save`] wrote for the same training set; any mismatch is an error.
pub fn load(path: &Path, split: &Split) -> Result<NoisyLabels> {
    let text = std::fs::read(path).map_err(Error::file("read", path))?;
    let damaged = |message| format!("{message}; if the file was changed or damaged, use `curricle run --force`");
    parse(&text, split).map_err(|message| Error::format(path, damaged(message)))
}

fn parse(text: &[u8], split: &Split) -> Result<NoisyLabels, String> {
    let rows: Vec<LabelRow> = csv::Reader::from_reader(text)
        .deserialize()
        .collect::<Result<_, _>>()
        .map_err(|e| format!("is not a file of noisy labels: {e}"))?;
    if rows.len() != split.len() {
        return Err(format!("has labels for {} samples, but the training set has {}", rows.len(), split.len()));
    }
    let mut names = split.class_names.clone();
    let mut numbers: HashMap<String, i64> = names.iter().cloned().zip(0..).collect();
    let mut extra: Vec<&str> =
        rows.iter().map(|row| row.label.as_str()).filter(|l| !numbers.contains_key(*l)).collect();
    extra.sort_unstable();
    extra.dedup();
    let extra: Vec<String> = extra.into_iter().map(String::from).collect();
    for name in extra {
        numbers.insert(name.clone(), names.len() as i64);
        names.push(name);
    }
    let labels: Vec<i64> = rows.iter().map(|row| numbers[&row.label]).collect();
    let noisy = NoisyLabels::new(split, &labels, &names);
    for (sample, row) in rows.iter().enumerate() {
        let original = &split.class_names[split.labels[sample] as usize];
        if row.sample != sample || row.path != split.paths[sample] || row.original != *original {
            let found = format!("sample {} `{}` of class `{}`", row.sample, row.path, row.original);
            let wanted = format!("sample {sample} `{}` of class `{original}`", split.paths[sample]);
            return Err(format!("belongs to different data: found {found}, expected {wanted}"));
        }
        if row.flipped != noisy.flipped[sample] {
            return Err(format!("sample {sample}: `flipped` is {}, which contradicts its labels", row.flipped));
        }
    }
    Ok(noisy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::noise::apply;
    use crate::data::noise::tests::no_network;
    use crate::data::split::numbered;
    use curricle_recipe::{ListLabels, NoiseRecipe, UnknownLabels};

    fn flipped_part() -> (Split, NoisyLabels) {
        let mut split = numbered(&[0, 1, 2, 3].repeat(6));
        split.paths[3] = "with, comma and \"quotes\".jpg".into();
        let recipe = NoiseRecipe::SmallCluster { ratio: 0.25, cluster_size: 2, seed: Some(4), remove_flipped: false };
        let noisy = apply(&recipe, &split, 0, no_network).unwrap();
        (split, noisy)
    }

    #[test]
    fn saved_labels_are_loaded_unchanged() {
        let (split, noisy) = flipped_part();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("labels.csv");
        save(&path, &split, &noisy).unwrap();
        assert_eq!(load(&path, &split).unwrap(), noisy);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("sample,path,original,label,flipped\n0,folder/0.jpg,class 0,"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_saved_file_can_be_used_as_a_list() {
        let (split, noisy) = flipped_part();
        let file = tempfile::NamedTempFile::new().unwrap();
        save(file.path(), &split, &noisy).unwrap();
        let recipe = NoiseRecipe::List {
            path: file.path().to_path_buf(),
            first_label: 0,
            labels: ListLabels::Names,
            unknown_labels: UnknownLabels::Error,
            remove_flipped: false,
        };
        assert_eq!(apply(&recipe, &split, 0, no_network).unwrap(), noisy);
    }

    #[test]
    fn labels_of_different_data_are_refused() {
        let split = numbered(&[0, 0, 1]);
        let header = "sample,path,original,label,flipped\n";
        let rows = ["0,folder/0.jpg,class 0,class 0,false\n", "1,folder/1.jpg,class 0,class 1,true\n"];
        let with = |last: &str| parse(format!("{header}{}{}{last}", rows[0], rows[1]).as_bytes(), &split);
        assert_eq!(with("2,folder/2.jpg,class 1,class 1,false\n").unwrap().labels, [0, 1, 1]);
        for (last, expected) in [
            ("", "has labels for 2 samples, but the training set has 3"),
            ("2,folder/3.jpg,class 1,class 1,false\n", "belongs to different data: found sample 2 `folder/3.jpg`"),
            ("2,folder/2.jpg,class 1,class 1,true\n", "sample 2: `flipped` is true, which contradicts its labels"),
            ("2,folder/2.jpg,class 1\n", "is not a file of noisy labels"),
        ] {
            let message = with(last).unwrap_err();
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
