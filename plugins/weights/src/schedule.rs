//! The age λ: how hard a sample may be and still count, and how it grows from round to round.

use curricle_sdk::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Share of λ_∞ that λ starts from unless said otherwise. The paper names no value.
const START: f64 = 0.5;
/// Factor from round to round unless said otherwise. The paper names no value.
const GROWTH: f64 = 1.1;
/// Average weight aimed at unless said otherwise: one value for every noise ratio, because the
/// ratio is what a user does not know.
const TARGET_MAW: f64 = 0.8;

/// How λ grows: in round t it is `min(start · growth^(t-1), λ_∞)`.
///
/// Either λ_∞ is given as `max`, in units of ξ. Those do not transfer: ξ⁺ grows like
/// `ln(N^c)/α`, so another data set, another α or another embedding wants another `max`. Or the
/// mean average weight (MAW) that λ_∞ shall lead to is given as `target_maw`; then λ_∞ is fitted
/// anew in every round, because ξ falls as the embedding learns and a λ_∞ fitted once would soon
/// let everything in. λ is then `λ_∞ · min(1, 0.5 · 1.1^(t-1))`: it reaches λ_∞ in round 9. So
/// nothing has to be remembered from round to round.
///
/// A `target_maw` of 0.8 says that about a fifth of the data may be doubted. It is not the share
/// of clean samples, which nobody knows; keep one value for all noise ratios that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Table")]
pub enum Lambda {
    /// A given λ_∞.
    Schedule {
        /// λ of the first round; half of `max` where absent.
        start: Option<f64>,
        /// Factor from round to round.
        growth: f64,
        /// λ_∞.
        max: f64,
    },
    /// λ_∞ from the average weight it leads to.
    Target {
        /// The mean over classes of the average weight.
        target_maw: f64,
    },
}

impl Default for Lambda {
    fn default() -> Self {
        Lambda::Target { target_maw: TARGET_MAW }
    }
}

impl Lambda {
    /// Refuses numbers that are no schedule.
    pub fn check(&self) -> Result<()> {
        match *self {
            Lambda::Target { target_maw } if !(target_maw > 0.0 && target_maw <= 1.0) => {
                Err(Error::setting("lambda.target_maw", "must be above 0 and at most 1"))
            }
            Lambda::Schedule { max, .. } if !(max > 0.0 && max.is_finite()) => {
                Err(Error::setting("lambda.max", "must be above 0"))
            }
            Lambda::Schedule { growth, .. } if !(growth >= 1.0 && growth.is_finite()) => {
                Err(Error::setting("lambda.growth", "must be at least 1, since λ never falls"))
            }
            Lambda::Schedule { start: Some(start), max, .. } if !(start > 0.0 && start <= max) => {
                Err(Error::setting("lambda.start", "must be above 0 and at most `lambda.max`"))
            }
            _ => Ok(()),
        }
    }

    /// λ of a round, counted from 1, under this λ_∞.
    pub fn in_round(&self, round: u64, max: f64) -> f64 {
        let (start, growth) = match *self {
            Lambda::Schedule { start, growth, .. } => (start.unwrap_or(START * max), growth),
            Lambda::Target { .. } => (START * max, GROWTH),
        };
        // Capped before the power overflows.
        let grown = start * growth.powf(round.saturating_sub(1) as f64);
        if grown < max { grown } else { max }
    }
}

/// What a recipe may write: a number is a λ that never changes.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Number(f64),
    Table(Table),
}

impl TryFrom<Written> for Lambda {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, Self::Error> {
        match written {
            Written::Number(max) => Ok(Lambda::Schedule { start: Some(max), growth: 1.0, max }),
            Written::Table(table) => table.try_into(),
        }
    }
}

/// The two alternatives as a recipe writes them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_maw: Option<f64>,
}

impl TryFrom<Table> for Lambda {
    type Error = &'static str;

    fn try_from(table: Table) -> Result<Self, Self::Error> {
        match table {
            Table { start: None, growth: None, max: None, target_maw: Some(target_maw) } => {
                Ok(Lambda::Target { target_maw })
            }
            Table { start, growth, max: Some(max), target_maw: None } => {
                Ok(Lambda::Schedule { start, growth: growth.unwrap_or(GROWTH), max })
            }
            _ => Err("`lambda` takes either `max`, with or without `start` and `growth`, or `target_maw` alone"),
        }
    }
}

impl From<Lambda> for Table {
    fn from(lambda: Lambda) -> Self {
        match lambda {
            Lambda::Schedule { start, growth, max } => {
                Table { start, growth: Some(growth), max: Some(max), target_maw: None }
            }
            Lambda::Target { target_maw } => {
                Table { start: None, growth: None, max: None, target_maw: Some(target_maw) }
            }
        }
    }
}

impl JsonSchema for Lambda {
    fn schema_name() -> Cow<'static, str> {
        "Lambda".into()
    }

    fn inline_schema() -> bool {
        true
    }

    // By hand: the alternatives are told apart by the key they require, which serde calls untagged
    // and reports poorly.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "number", "description": "A λ that never changes.", "exclusiveMinimum": 0.0 },
                {
                    "type": "object",
                    "description": "λ_∞ is fitted so that weights average to this.",
                    "required": ["target_maw"],
                    "additionalProperties": false,
                    "properties": {
                        "target_maw": {
                            "type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0,
                            "description": "Mean over classes of the average weight that λ_∞ leads to."
                        }
                    }
                },
                {
                    "type": "object",
                    "description": "λ_∞ is given, in units of ξ, which depend on the data set.",
                    "required": ["max"],
                    "additionalProperties": false,
                    "properties": {
                        "start": {
                            "type": ["number", "null"], "exclusiveMinimum": 0.0,
                            "description": "λ of the first round. Default: half of `max`."
                        },
                        "growth": {
                            "type": "number", "minimum": 1.0, "default": GROWTH,
                            "description": "Factor from round to round."
                        },
                        "max": {
                            "type": "number", "exclusiveMinimum": 0.0,
                            "description": "λ_∞, where λ stops growing."
                        }
                    }
                }
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_a_lambda_that_never_changes() {
        let lambda: Lambda = serde_json::from_str("2.5").unwrap();
        assert_eq!((lambda.in_round(1, 2.5), lambda.in_round(9, 2.5)), (2.5, 2.5));
    }
    use serde_json::{from_value, json, to_value};

    #[test]
    fn lambda_grows_from_half_and_stops_at_max() {
        let lambda: Lambda = from_value(json!({ "max": 4.0 })).unwrap();
        assert_eq!(lambda.in_round(1, 4.0), 2.0);
        assert!((lambda.in_round(2, 4.0) - 2.2).abs() < 1e-12);
        assert!(lambda.in_round(8, 4.0) < 4.0);
        assert_eq!(lambda.in_round(9, 4.0), 4.0);
        assert_eq!(lambda.in_round(u64::MAX, 4.0), 4.0);
        let target = Lambda::default();
        assert_eq!((target.in_round(1, 3.0), target.in_round(9, 3.0)), (1.5, 3.0));
    }

    #[test]
    fn both_alternatives_are_read_and_written_alike() {
        for table in [json!({ "target_maw": 0.7 }), json!({ "start": 1.0, "growth": 1.2, "max": 3.0 })] {
            let lambda: Lambda = from_value(table.clone()).unwrap();
            assert_eq!(to_value(lambda).unwrap(), table);
        }
    }

    #[test]
    fn a_mixture_of_both_says_what_is_allowed() {
        for table in [json!({}), json!({ "start": 1.0 }), json!({ "max": 1.0, "target_maw": 0.5 })] {
            let message = from_value::<Lambda>(table).unwrap_err().to_string();
            assert!(message.contains("either `max`"), "{message}");
        }
    }

    #[test]
    fn impossible_numbers_are_refused_by_name() {
        let refused = |table| from_value::<Lambda>(table).unwrap().check().unwrap_err().to_string();
        assert!(refused(json!({ "max": -1.0 })).contains("lambda.max"));
        assert!(refused(json!({ "max": 1.0, "growth": 0.9 })).contains("lambda.growth"));
        assert!(refused(json!({ "max": 1.0, "start": 2.0 })).contains("lambda.start"));
        assert!(refused(json!({ "target_maw": 1.1 })).contains("lambda.target_maw"));
    }
}
