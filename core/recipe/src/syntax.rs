//! Help for mistakes in TOML that come from other languages: Python's `True` and `None`, YAML's `key: value`.

use std::ops::Range;

/// The line that contains a place in a text.
pub(crate) fn line_at(text: &str, place: usize) -> Range<usize> {
    let place = place.min(text.len());
    let start = text[..place].rfind('\n').map_or(0, |end| end + 1);
    let end = text[place..].find('\n').map_or(text.len(), |length| place + length);
    start..end
}

/// How to write a line that is not valid TOML, if it looks like a known mistake.
pub(crate) fn help(line: &str) -> Option<String> {
    let Some((key, value)) = line.split_once('=') else { return yaml(line) };
    // A `#` in a string is no comment, but no advice below is about a string that contains one.
    let (key, value) = (key.trim(), value.split('#').next().unwrap_or_default().trim());
    match value {
        "" => Some("write a value after the `=`".into()),
        "None" | "null" | "nil" | "~" => Some(format!("TOML has no null; for the default, leave `{key}` out")),
        _ if value.starts_with('"') && value.contains('\\') => {
            Some("a backslash in double quotes starts an escape; put the text in single quotes: '…'".into())
        }
        _ => corrected(value).map(|value| format!("write `{key} = {value}`")),
    }
}

/// A value that is not valid TOML, as TOML writes it.
fn corrected(value: &str) -> Option<String> {
    match value {
        "True" | "False" => Some(value.to_lowercase()),
        _ if value.starts_with('(') && value.ends_with(')') => {
            Some(format!("[{}]", value[1..value.len() - 1].trim_end_matches(',')))
        }
        _ => number(value).or_else(|| bare_word(value)),
    }
}

/// A number as TOML writes it: with digits on both sides of a decimal point, and no percent.
pub(crate) fn number(value: &str) -> Option<String> {
    if let Some(percent) = value.strip_suffix('%') {
        return percent.trim().parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| (n / 100.0).to_string());
    }
    let (sign, digits) = value.split_at(usize::from(value.starts_with(['-', '+'])));
    let (whole, rest) = digits.split_once(['.', ','])?;
    let end = rest.find(['e', 'E']).unwrap_or(rest.len());
    let (fraction, exponent) = rest.split_at(end);
    let or_zero = |part: &str| if part.is_empty() { "0".to_string() } else { part.to_string() };
    let number = format!("{sign}{}.{}{exponent}", or_zero(whole), or_zero(fraction));
    (digits.len() > 1 && number != value && number.parse::<f64>().is_ok()).then_some(number)
}

/// A word without quotes.
fn bare_word(value: &str) -> Option<String> {
    let is_word = value.starts_with(|c: char| c.is_alphabetic() || matches!(c, '/' | '.' | '~'))
        && value.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '~' | '+'))
        && !matches!(value, "true" | "false" | "nan" | "inf");
    is_word.then(|| format!("\"{value}\""))
}

/// `key: value`
fn yaml(line: &str) -> Option<String> {
    let (key, value) = line.trim().split_once(':')?;
    let (key, value) = (key.trim(), value.split('#').next().unwrap_or_default().trim());
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    let toml = match value {
        "" => format!("[{key}]"),
        _ => format!("{key} = {}", corrected(value).unwrap_or_else(|| value.into())),
    };
    is_key.then(|| format!("recipes are TOML, not YAML; write `{toml}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_from_python_and_yaml_have_a_correction() {
        for (line, wanted) in [
            ("flip = True  # mirror", "write `flip = true`"),
            ("seed = None", "for the default, leave `seed` out"),
            ("ratio = .2", "write `ratio = 0.2`"),
            ("lr = -1.", "write `lr = -1.0`"),
            ("lr = 1.e-3", "write `lr = 1.0e-3`"),
            ("ratio = 20 %", "write `ratio = 0.2`"),
            ("ratio = 0,2", "write `ratio = 0.2`"),
            ("name = bspml", "write `name = \"bspml\"`"),
            ("path = ../data/cub", "write `path = \"../data/cub\"`"),
            ("betas = (0.9, 0.999)", "write `betas = [0.9, 0.999]`"),
            ("path = \"C:\\Users\"", "single quotes"),
            ("epochs =", "write a value after the `=`"),
            ("data:", "not YAML; write `[data]`"),
            ("  ratio: 0.2", "not YAML; write `ratio = 0.2`"),
            ("source: strokes", "not YAML; write `source = \"strokes\"`"),
        ] {
            let help = help(line).unwrap_or_else(|| panic!("no help for `{line}`"));
            assert!(help.contains(wanted), "`{line}`: {help}");
        }
    }

    #[test]
    fn other_lines_get_no_advice() {
        for line in ["[loss", "epochs = 1", "name = true", "x = [1, 2", "it's", "a = 'it's'", "lr = 1e", "lr = 0x"] {
            assert_eq!(help(line), None, "{line}");
        }
    }

    #[test]
    fn the_line_of_a_place_ends_before_the_line_break() {
        let text = "a = 1\nb = \nc";
        assert_eq!(&text[line_at(text, 8)], "b = ");
        assert_eq!(&text[line_at(text, 10)], "b = ");
        assert_eq!(&text[line_at(text, 12)], "c");
    }
}
