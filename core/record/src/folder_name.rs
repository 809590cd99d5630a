//! Names of folders.

/// A folder name: letters, digits and `._=` are kept, everything else becomes a dash.
///
/// TensorBoard's projector puts names of runs into addresses as they are, where a `+` would be read as a space.
pub fn folder_name(parts: &[&str]) -> String {
    let mut name = String::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if !name.is_empty() {
            name.push('-');
        }
        for c in part.chars() {
            match c {
                c if c.is_alphanumeric() || matches!(c, '.' | '_' | '=') => name.push(c),
                _ if name.ends_with('-') => {}
                _ => name.push('-'),
            }
        }
    }
    // File systems limit names to 255 bytes.
    let end = name.char_indices().map(|(start, c)| start + c.len_utf8()).take_while(|end| *end <= 160).last();
    name.truncate(end.unwrap_or(0));
    name.trim_matches(['-', '.']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_names_need_no_quotes() {
        assert_eq!(folder_name(&["many", "ms", "noisy, ratio=0.2"]), "many-ms-noisy-ratio=0.2");
        assert_eq!(folder_name(&["..", "a/b c", ""]), "a-b-c");
        assert_eq!(folder_name(&["ms + knn", "a+b"]), "ms-knn-a-b", "`+` in an address is a space");
        assert!(folder_name(&["ä".repeat(300).as_str()]).len() <= 160);
    }
}
