//! Reads lists of samples from CSV files.
//!
//! If the first line names all the needed columns, it is a header, and the columns may be in any
//! order, among others. Without a header they are the first columns, in order.

/// A line: its number in the file, and a field for each requested column.
pub(super) type Line = (u64, Vec<Option<String>>);

/// The lines of a file, without its header. Every line has a field for each `needed` column;
/// `optional` columns are found by the header, or follow the needed ones.
pub(super) fn read(text: &[u8], needed: &[&str], optional: &[&str]) -> Result<Vec<Line>, String> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(text);
    let mut places: Vec<Option<usize>> = (0..needed.len() + optional.len()).map(Some).collect();
    let mut lines = Vec::new();
    for (index, record) in reader.records().enumerate() {
        let record = record.map_err(|e| format!("is not a UTF-8 CSV file: {e}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        let column = |name: &&str| record.iter().position(|field| field.eq_ignore_ascii_case(name));
        if index == 0 && needed.iter().all(|name| column(name).is_some()) {
            places = needed.iter().chain(optional).map(column).collect();
            continue;
        }
        let field = |place: &Option<usize>| place.and_then(|place| record.get(place)).map(str::to_string);
        let fields: Vec<Option<String>> = places.iter().map(field).collect();
        if fields[..needed.len()].contains(&None) {
            let names = needed.join("` or `");
            return Err(format!("line {line}: `{names}` is missing; fields found: {}", record.len()));
        }
        lines.push((line, fields));
    }
    Ok(lines)
}
