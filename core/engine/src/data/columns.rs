//! Reads lists of samples from CSV files.
//!
//! If the first line names all the needed columns, it is a header, and the columns may be in any
//! order, among others. Without a header they are the first columns, in order.

/// A line: its number in the file, and a field for each requested column.
pub(crate) type Line = (u64, Vec<Option<String>>);

/// The lines of a file, without its header. Every line has a field for each `needed` column;
/// `optional` columns are found by the header, or follow the needed ones.
pub(crate) fn read(text: &[u8], needed: &[&str], optional: &[&str]) -> Result<Vec<Line>, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(text);
    let mut places: Vec<Option<usize>> = (0..needed.len() + optional.len()).map(Some).collect();
    let mut lines = Vec::new();
    let mut counter = LineCounter { text, counted: 0, line: 1 };
    for (index, record) in reader.records().enumerate() {
        let record = record.map_err(|e| format!("is not a UTF-8 CSV file: {e}"))?;
        let line = counter.line_at(record.position().map_or(0, csv::Position::byte));
        let column = |name: &&str| record.iter().position(|field| field.eq_ignore_ascii_case(name));
        if index == 0 && needed.iter().all(|name| column(name).is_some()) {
            places = needed.iter().chain(optional).map(column).collect();
            continue;
        }
        let field = |place: &Option<usize>| place.and_then(|place| record.get(place)).map(str::to_string);
        let fields: Vec<Option<String>> = places.iter().map(field).collect();
        if fields[..needed.len()].contains(&None) {
            let names = needed.join("` or `");
            let other_separator = record.iter().any(|field| field.contains([';', '\t']));
            let hint = if other_separator { "; separate fields by commas" } else { "" };
            return Err(format!("line {line}: `{names}` is missing; fields found: {}{hint}", record.len()));
        }
        lines.push((line, fields));
    }
    Ok(lines)
}

/// The classes that these labels name, in numerical order if all are integers, else in alphabetical order.
pub(crate) fn classes<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut labels: Vec<&str> = labels.collect();
    labels.sort_unstable();
    labels.dedup();
    if labels.iter().all(|label| label.parse::<i64>().is_ok()) {
        labels.sort_by_key(|label| label.parse::<i64>().ok());
    }
    labels
}

/// Counts lines up to a position. The csv crate's own count is one short in files with CRLF line endings,
/// because there a record begins before the `\n` of the previous line.
struct LineCounter<'a> {
    text: &'a [u8],
    counted: usize,
    line: u64,
}

impl LineCounter<'_> {
    /// The line of a record that begins at or after this byte; positions must not decrease.
    fn line_at(&mut self, byte: u64) -> u64 {
        let from = usize::try_from(byte).unwrap_or(usize::MAX).clamp(self.counted, self.text.len());
        let breaks = self.text[from..].iter().take_while(|c| matches!(c, b'\r' | b'\n')).count();
        let passed = &self.text[self.counted..from + breaks];
        self.line += passed.iter().filter(|c| **c == b'\n').count() as u64;
        self.counted = from + breaks;
        self.line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_as_in_an_editor_whatever_the_line_endings() {
        let unix = "path,label\na,1\n\nb,2\n\"c\nd\",3\ne,4\n";
        for text in [unix.to_string(), unix.replace('\n', "\r\n")] {
            let lines: Vec<u64> = read(text.as_bytes(), &["path", "label"], &[]).unwrap().iter().map(|l| l.0).collect();
            assert_eq!(lines, [2, 4, 5, 7], "{text:?}");
        }
        let message = read(b"path,label\r\na,1\r\nb\r\n", &["path", "label"], &[]).unwrap_err();
        assert!(message.starts_with("line 3: "), "{message}");
    }
}
