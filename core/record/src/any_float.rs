//! Floats in JSON, for `#[serde(with = …)]`: numbers if finite, else strings, since JSON has no NaN or
//! infinity.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::Value;

/// Writes NaN and ±infinity as `"NaN"`, `"Infinity"` and `"-Infinity"`.
pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    match value {
        v if v.is_finite() => v.serialize(to),
        v if v.is_nan() => "NaN".serialize(to),
        v if *v > 0.0 => "Infinity".serialize(to),
        _ => "-Infinity".serialize(to),
    }
}

/// Reads a number or one of these strings.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    let value = Value::deserialize(from)?;
    match value.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        _ => value.as_f64().ok_or_else(|| D::Error::custom(format!("value {value} is not a number"))),
    }
}

/// The same for lists of named floats.
pub mod named {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Named(String, #[serde(with = "super")] f64);

    /// Writes a list of name-value pairs.
    pub fn serialize<S: Serializer>(values: &[(String, f64)], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(values.iter().map(|(name, value)| Named(name.clone(), *value)))
    }

    /// Reads a list of name-value pairs.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, f64)>, D::Error> {
        let values = Vec::<Named>::deserialize(from)?;
        Ok(values.into_iter().map(|Named(name, value)| (name, value)).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Numbers(#[serde(with = "super::named")] Vec<(String, f64)>);

    #[test]
    fn values_that_are_not_finite_round_trip() {
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.1 + 0.2];
        let text = serde_json::to_string(&Numbers(values.map(|value| ("x".to_string(), value)).into())).unwrap();
        let Numbers(back) = serde_json::from_str(&text).unwrap();
        assert_eq!(back.iter().map(|(_, v)| v.to_bits()).collect::<Vec<_>>(), values.map(f64::to_bits));
        assert!(text.starts_with(r#"[["x","NaN"],["x","Infinity"]"#), "{text}");
    }
}
