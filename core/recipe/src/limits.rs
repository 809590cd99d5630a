//! Ranges of numbers in a schema.

use serde_json::Value as Json;

/// The smallest and the largest value a schema allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    low: Option<Bound>,
    high: Option<Bound>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Bound {
    value: f64,
    inclusive: bool,
}

impl Limits {
    /// The limits of a schema.
    pub(crate) fn of(rule: &Json) -> Self {
        let bound = |inclusive: &str, exclusive: &str| {
            let read = |key: &str, inclusive| rule[key].as_f64().map(|value| Bound { value, inclusive });
            read(exclusive, false).or_else(|| read(inclusive, true))
        };
        Self { low: bound("minimum", "exclusiveMinimum"), high: bound("maximum", "exclusiveMaximum") }
    }

    /// Whether a number is within the limits.
    pub(crate) fn allow(self, value: f64) -> bool {
        let above = self.low.is_none_or(|low| value > low.value || (low.inclusive && value == low.value));
        let below = self.high.is_none_or(|high| value < high.value || (high.inclusive && value == high.value));
        above && below
    }

    /// A description to follow "must be": "at least 0 and less than 1".
    pub(crate) fn describe(self) -> Option<String> {
        let low = self.low.map(|b| format!("{} {}", if b.inclusive { "at least" } else { "greater than" }, b.value));
        let high = self.high.map(|b| format!("{} {}", if b.inclusive { "at most" } else { "less than" }, b.value));
        match (low, high) {
            (Some(low), Some(high)) => Some(format!("{low} and {high}")),
            (low, high) => low.or(high),
        }
    }
}

/// The range of integers of a schema's `format`; that of JSON for unknown formats.
pub(crate) fn whole_numbers(format: Option<&str>) -> (i128, i128) {
    match format {
        Some("int8") => (i8::MIN.into(), i8::MAX.into()),
        Some("int16") => (i16::MIN.into(), i16::MAX.into()),
        Some("int32") => (i32::MIN.into(), i32::MAX.into()),
        Some("int" | "int64") => (i64::MIN.into(), i64::MAX.into()),
        Some("uint8") => (0, u8::MAX.into()),
        Some("uint16") => (0, u16::MAX.into()),
        Some("uint32") => (0, u32::MAX.into()),
        Some("uint" | "uint64") => (0, u64::MAX.into()),
        _ => (i64::MIN.into(), u64::MAX.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_are_checked_and_described() {
        let limits = Limits::of(&json!({ "minimum": 0.0, "exclusiveMaximum": 1 }));
        assert!(limits.allow(0.0) && limits.allow(0.99) && !limits.allow(1.0) && !limits.allow(-0.1));
        assert_eq!(limits.describe().unwrap(), "at least 0 and less than 1");
        assert_eq!(Limits::of(&json!({ "exclusiveMinimum": 0.5 })).describe().unwrap(), "greater than 0.5");
        assert_eq!(Limits::of(&json!({})).describe(), None);
    }

    #[test]
    fn formats_limit_integers() {
        assert_eq!(whole_numbers(Some("uint8")), (0, 255));
        assert_eq!(whole_numbers(Some("uint")).1, u64::MAX.into());
    }
}
