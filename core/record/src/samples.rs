//! `samples.csv`: what a run found out about each training sample, one row per sample.
//!
//! Columns: `sample` (index in the data set), `path`, `label`, `weight`, then the columns of the weight scheme
//! such as `xi_pos`, then `suspected`, `nearest_class` and `flipped`.

use crate::{Error, Result, files};
use std::path::{Path, PathBuf};

/// Names of columns that every table has.
pub const RESERVED: [&str; 7] = ["sample", "path", "label", "weight", "suspected", "nearest_class", "flipped"];

/// One row without the columns of the weight scheme.
#[derive(Debug, Clone, PartialEq)]
pub struct SampleRow {
    /// Index of the sample in the data set.
    pub sample: usize,
    /// Its path, or another name.
    pub path: String,
    /// The class it was trained with.
    pub label: String,
    /// Its final weight.
    pub weight: f64,
    /// Whether its weight says that the label is probably wrong.
    pub suspected: bool,
    /// The class with the most similar mean.
    pub nearest_class: String,
    /// Whether label noise changed its label.
    pub flipped: bool,
}

/// A `samples.csv` that was read.
#[derive(Debug)]
pub struct SampleTable {
    file: PathBuf,
    header: csv::StringRecord,
    rows: Vec<csv::StringRecord>,
}

/// Writes one row per sample; `columns` are those of the weight scheme, one value per row each.
pub fn write(path: &Path, rows: &[SampleRow], columns: &[(String, Vec<f64>)]) -> Result<()> {
    let failed = |e: csv::Error| Error::file("write", path)(e.into());
    let mut table = csv::Writer::from_writer(Vec::new());
    let mut header = vec!["sample", "path", "label", "weight"];
    header.extend(columns.iter().map(|(name, _)| name.as_str()));
    header.extend(["suspected", "nearest_class", "flipped"]);
    table.write_record(&header).map_err(failed)?;
    for (index, row) in rows.iter().enumerate() {
        let mut record = vec![row.sample.to_string(), row.path.clone(), row.label.clone(), row.weight.to_string()];
        record.extend(columns.iter().map(|(_, values)| values[index].to_string()));
        record.extend([row.suspected.to_string(), row.nearest_class.clone(), row.flipped.to_string()]);
        table.write_record(&record).map_err(failed)?;
    }
    let bytes = table.into_inner().map_err(|e| Error::file("write", path)(e.into_error()))?;
    files::write(path, &bytes)
}

impl SampleTable {
    /// Reads a `samples.csv`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read(path).map_err(Error::file("read", path))?;
        let broken = |e: csv::Error| Error::format(path, format!("is not a table of samples: {e}"));
        let mut reader = csv::Reader::from_reader(text.as_slice());
        let header = reader.headers().map_err(broken)?.clone();
        let rows = reader.records().collect::<Result<_, _>>().map_err(broken)?;
        Ok(Self { file: path.to_path_buf(), header, rows })
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether there is a column of this name.
    pub fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name == column)
    }

    /// An error about the contents of this file.
    pub fn wrong(&self, message: String) -> Error {
        Error::format(&self.file, format!("{message}; if the file was changed or damaged, use `curricle run --force`"))
    }

    /// A column as text.
    pub fn text(&self, column: &str) -> Result<Vec<&str>> {
        let index = self.header.iter().position(|name| name == column);
        let index = index.ok_or_else(|| self.wrong(format!("has no column `{column}`")))?;
        Ok(self.rows.iter().map(|row| row.get(index).unwrap_or_default()).collect())
    }

    /// A column of numbers.
    pub fn numbers(&self, column: &str) -> Result<Vec<f64>> {
        let number = |(row, text): (usize, &&str)| {
            text.parse().map_err(|_| self.wrong(format!("line {}: `{column}` is not a number", row + 2)))
        };
        self.text(column)?.iter().enumerate().map(number).collect()
    }

    /// A column of `true` and `false`.
    pub fn flags(&self, column: &str) -> Result<Vec<bool>> {
        Ok(self.text(column)?.into_iter().map(|text| text == "true").collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.csv");
        let row = |sample, weight, flipped| SampleRow {
            sample,
            path: format!("a, {sample}.jpg"),
            label: "cat".into(),
            weight,
            suspected: weight < 0.5,
            nearest_class: "dog".into(),
            flipped,
        };
        write(&path, &[row(3, 1.0, false), row(5, 0.25, true)], &[("xi_pos".into(), vec![0.5, 2.0])]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with(
                "sample,path,label,weight,xi_pos,suspected,nearest_class,flipped\n3,\"a, 3.jpg\",cat,1,0.5,"
            )
        );
        let table = SampleTable::read(&path).unwrap();
        assert_eq!((table.len(), table.has("xi_pos"), table.has("xi_neg")), (2, true, false));
        assert_eq!(table.text("path").unwrap(), ["a, 3.jpg", "a, 5.jpg"]);
        assert_eq!(table.numbers("xi_pos").unwrap(), [0.5, 2.0]);
        assert_eq!(table.flags("flipped").unwrap(), [false, true]);
        assert!(table.numbers("label").unwrap_err().to_string().contains("line 2: `label` is not a number"));
        assert!(table.text("age").unwrap_err().to_string().contains("has no column `age`"));
    }
}
