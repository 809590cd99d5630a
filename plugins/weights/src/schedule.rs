//! The age λ: how hard a sample may be and still be used, and how λ grows from round to round.

use curricle_sdk::{Error, Result};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Default initial λ, as a share of λ_∞. The paper gives no value.
const START: f64 = 0.5;
/// Default growth factor per round. The paper gives no value.
const GROWTH: f64 = 1.1;
/// Default target for the mean average weight: one value for every noise ratio, because users do not
/// know the ratio.
const TARGET_MAW: f64 = 0.8;

/// How λ grows: in round t it is `min(start · growth^(t-1), λ_∞)`.
///
/// With `max`, λ_∞ is given in units of ξ. These do not transfer: ξ⁺ grows like `ln(N^c)/α`, so
/// another data set, α or embedding needs another `max`. With `target_maw`, the mean average weight
/// (MAW) is given, and λ_∞ is fitted to it in every round, because ξ falls as the embedding learns and
/// a λ_∞ fitted once would soon keep every sample. λ is then `λ_∞ · min(1, 0.5 · 1.1^(t-1))` and
/// reaches λ_∞ in round 9, so no state is kept between rounds.
///
/// A `target_maw` of 0.8 means that about a fifth of the data may be doubted. It is not the share of
/// clean samples, which is unknown; use the same value for all noise ratios that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "LambdaInput", into = "LambdaTable")]
pub enum Lambda {
    /// A given λ_∞.
    Schedule {
        /// λ of the first round; half of `max` if absent.
        start: Option<f64>,
        /// Growth factor per round.
        growth: f64,
        /// λ_∞.
        max: f64,
    },
    /// λ_∞ fitted to a mean average weight.
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
    /// Refuses invalid values.
    pub fn check(&self) -> Result<()> {
        match *self {
            Lambda::Target { target_maw } if !(target_maw > 0.0 && target_maw <= 1.0) => {
                Err(Error::setting("lambda.target_maw", "must be above 0 and at most 1"))
            }
            Lambda::Schedule { max, .. } if !(max > 0.0 && max.is_finite()) => {
                Err(Error::setting("lambda.max", "must be above 0"))
            }
            Lambda::Schedule { growth, .. } if !(growth >= 1.0 && growth.is_finite()) => {
                Err(Error::setting("lambda.growth", "must be at least 1, because λ never decreases"))
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
        // Capped even if the power overflows.
        let grown = start * growth.powf(round.saturating_sub(1) as f64);
        if grown < max { grown } else { max }
    }
}

/// The forms a recipe may use: a number is a constant λ.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum LambdaInput {
    Number(f64),
    LambdaTable(LambdaTable),
}

impl TryFrom<LambdaInput> for Lambda {
    type Error = &'static str;

    fn try_from(written: LambdaInput) -> Result<Self, Self::Error> {
        match written {
            LambdaInput::Number(max) => Ok(Lambda::Schedule { start: Some(max), growth: 1.0, max }),
            LambdaInput::LambdaTable(table) => table.try_into(),
        }
    }
}

/// The two alternatives as a recipe writes them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LambdaTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_maw: Option<f64>,
}

impl TryFrom<LambdaTable> for Lambda {
    type Error = &'static str;

    fn try_from(table: LambdaTable) -> Result<Self, Self::Error> {
        match table {
            LambdaTable { start: None, growth: None, max: None, target_maw: Some(target_maw) } => {
                Ok(Lambda::Target { target_maw })
            }
            LambdaTable { start, growth, max: Some(max), target_maw: None } => {
                Ok(Lambda::Schedule { start, growth: growth.unwrap_or(GROWTH), max })
            }
            _ => Err("`lambda` takes either `max`, optionally with `start` and `growth`, or `target_maw` alone"),
        }
    }
}

impl From<Lambda> for LambdaTable {
    fn from(lambda: Lambda) -> Self {
        match lambda {
            Lambda::Schedule { start, growth, max } => {
                LambdaTable { start, growth: Some(growth), max: Some(max), target_maw: None }
            }
            Lambda::Target { target_maw } => {
                LambdaTable { start: None, growth: None, max: None, target_maw: Some(target_maw) }
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

    // LambdaInput by hand: the alternatives differ in the key they require, which serde calls untagged and
    // reports poorly.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                { "type": "number", "description": "A constant λ.", "exclusiveMinimum": 0.0 },
                {
                    "type": "object",
                    "description": "λ_∞ is fitted to a mean average weight.",
                    "required": ["target_maw"],
                    "additionalProperties": false,
                    "properties": {
                        "target_maw": {
                            "type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0,
                            "description": "Target for the mean over classes of the average weight (MAW)."
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
                            "description": "Growth factor per round."
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
    fn a_number_is_a_constant_lambda() {
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
    fn both_alternatives_are_written_as_they_are_read() {
        for table in [json!({ "target_maw": 0.7 }), json!({ "start": 1.0, "growth": 1.2, "max": 3.0 })] {
            let lambda: Lambda = from_value(table.clone()).unwrap();
            assert_eq!(to_value(lambda).unwrap(), table);
        }
    }

    #[test]
    fn a_mixture_of_both_alternatives_is_refused() {
        for table in [json!({}), json!({ "start": 1.0 }), json!({ "max": 1.0, "target_maw": 0.5 })] {
            let message = from_value::<Lambda>(table).unwrap_err().to_string();
            assert!(message.contains("either `max`"), "{message}");
        }
    }

    #[test]
    fn invalid_values_are_refused_with_their_setting() {
        let refused = |table| from_value::<Lambda>(table).unwrap().check().unwrap_err().to_string();
        assert!(refused(json!({ "max": -1.0 })).contains("lambda.max"));
        assert!(refused(json!({ "max": 1.0, "growth": 0.9 })).contains("lambda.growth"));
        assert!(refused(json!({ "max": 1.0, "start": 2.0 })).contains("lambda.start"));
        assert!(refused(json!({ "target_maw": 1.1 })).contains("lambda.target_maw"));
    }
}
