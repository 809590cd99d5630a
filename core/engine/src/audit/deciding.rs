//! What the page needs to let a person decide: every sample with its label, and an identity for the progress that
//! a browser keeps.

use super::Audit;
use crate::data::{add_labels, add_texts};
use crate::{Error, Result};
use serde_json::json;

/// The samples as JSON that is safe inside a page.
///
/// Progress belongs to samples and labels: it is found again when the same data are audited with another network or
/// with other settings, and not after labels have changed.
pub(super) fn samples_json(audit: &Audit) -> Result<String> {
    let mut in_order: Vec<_> = audit.ranked.iter().collect();
    in_order.sort_by_key(|e| e.row);
    let mut hasher = blake3::Hasher::new();
    add_texts(&mut hasher, &audit.class_names);
    add_texts(&mut hasher, &in_order.iter().map(|e| e.path.clone()).collect::<Vec<_>>());
    add_labels(&mut hasher, &in_order.iter().map(|e| e.label).collect::<Vec<_>>());
    let data = json!({
        "audit": &hasher.finalize().to_hex().as_str()[..16],
        "classes": audit.class_names,
        "samples": in_order.iter().map(|e| (&e.path, e.label)).collect::<Vec<_>>(),
    });
    let text = serde_json::to_string(&data).map_err(|e| Error::encode("the samples of the page")(e.to_string()))?;
    Ok(escaped(&text))
}

/// JSON without characters that mean something in HTML or XML; they only occur in strings.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_cannot_end_the_script() {
        let path = "a</script><b>&amp;.jpg";
        let text = escaped(&json!([path]).to_string());
        assert!(!text.contains(['<', '>', '&']), "{text}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap(), [path]);
    }
}
