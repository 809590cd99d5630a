//! The age λ: how hard a sample may be and still be used, and how λ grows from round to round.

use curricle_sdk::{Error, Result, Round};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Default initial λ, as a share of λ_∞. The paper gives no value.
const START: f64 = 0.5;
/// Default share of the rounds after which λ stops growing.
const REACHED: f64 = 0.5;

/// How λ grows, geometrically, from λ⁰ to λ_∞.
///
/// With `max`, λ_∞ is given in units of ξ. These do not transfer: ξ⁺ grows like `ln(N^c)/α`, so
/// another data set, α or embedding needs another `max`. With `target_maw`, the mean average weight
/// (MAW) is given or estimated, and λ_∞ is fitted to it in every round, because ξ falls as the
/// embedding learns and a λ_∞ fitted once would soon keep every sample; λ⁰ is then half of λ_∞.
///
/// `reached` is the share of the rounds after which λ is λ_∞, so short and long runs behave alike.
/// `growth` is a factor per round instead, as in the paper: 1.1 doubles λ in nine rounds, however many
/// there are.
///
/// By default `target_maw` is `"estimated"`: the share of correct labels, estimated in every round without
/// knowing the noise. A number such as 0.8 means that about a fifth of the data may be doubted; use the
/// same number for all noise ratios that are compared, because users do not know the ratio.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "LambdaInput", into = "LambdaTable")]
pub struct Lambda {
    /// Where λ ends.
    pub limit: Limit,
    /// How fast it gets there.
    pub pace: Pace,
}

/// How λ_∞ is found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// It is given.
    Given {
        /// λ⁰; half of `max` if absent.
        start: Option<f64>,
        /// λ_∞.
        max: f64,
    },
    /// It is fitted to a mean average weight.
    Target(TargetMaw),
}

/// The mean average weight that λ_∞ is fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetMaw {
    /// The share of correctly labelled samples, [estimated](crate::clean_share) in every round.
    Estimated,
    /// A fixed share.
    #[serde(untagged)]
    Share(f64),
}

/// How fast λ grows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// λ_∞ is reached after this share of the rounds.
    Reached(f64),
    /// λ grows by this factor per round.
    Growth(f64),
}

/// The weights of the first epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum First {
    /// All are 1, as in the paper: the first epoch learns every label.
    #[default]
    Ones,
    /// They are solved for before training, with λ⁰, from the embeddings of the initial network, which
    /// should be a pretrained one.
    Embeddings,
}

impl First {
    /// The number of the round that solves for weights first; it uses λ⁰.
    fn round(self) -> u64 {
        match self {
            First::Ones => 1,
            First::Embeddings => 0,
        }
    }
}

impl Default for Lambda {
    fn default() -> Self {
        Lambda { limit: Limit::Target(TargetMaw::Estimated), pace: Pace::Reached(REACHED) }
    }
}

impl Lambda {
    /// Refuses invalid values.
    pub fn check(&self) -> Result<()> {
        let refuse = |path: &str, message: &str| Err(Error::setting(format!("lambda.{path}"), message));
        match self.limit {
            Limit::Target(TargetMaw::Share(maw)) if !(maw > 0.0 && maw <= 1.0) => {
                return refuse("target_maw", "must be above 0 and at most 1, or `\"estimated\"`");
            }
            Limit::Given { max, .. } if !(max > 0.0 && max.is_finite()) => return refuse("max", "must be above 0"),
            Limit::Given { start: Some(start), max } if !(start > 0.0 && start <= max) => {
                return refuse("start", "must be above 0 and at most `lambda.max`");
            }
            _ => {}
        }
        match self.pace {
            Pace::Reached(share) if !(0.0..=1.0).contains(&share) => refuse("reached", "must be between 0 and 1"),
            Pace::Growth(factor) if !(factor >= 1.0 && factor.is_finite()) => {
                refuse("growth", "must be at least 1, because λ never decreases")
            }
            _ => Ok(()),
        }
    }

    /// λ of a round under this λ_∞.
    pub fn in_round(&self, round: &Round, first: First, max: f64) -> f64 {
        let start = match self.limit {
            Limit::Given { start: Some(start), .. } => start,
            _ => START * max,
        };
        let grown = round.round.saturating_sub(first.round()) as f64;
        match self.pace {
            Pace::Growth(factor) => {
                // Capped even if the power overflows.
                let lambda = start * factor.powf(grown);
                if lambda < max { lambda } else { max }
            }
            Pace::Reached(share) => {
                let last = (share * round.rounds as f64).round() - first.round() as f64;
                if grown >= last { max } else { start * (max / start).powf(grown / last) }
            }
        }
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
            LambdaInput::Number(max) => {
                Ok(Lambda { limit: Limit::Given { start: Some(max), max }, pace: Pace::Reached(0.0) })
            }
            LambdaInput::LambdaTable(table) => table.try_into(),
        }
    }
}

/// The alternatives as a recipe writes them.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LambdaTable {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_maw: Option<TargetMaw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<f64>,
}

impl TryFrom<LambdaTable> for Lambda {
    type Error = &'static str;

    fn try_from(table: LambdaTable) -> Result<Self, Self::Error> {
        let limit = match table {
            LambdaTable { max: Some(max), start, target_maw: None, .. } => Limit::Given { start, max },
            LambdaTable { max: None, start: None, target_maw: Some(target), .. } => Limit::Target(target),
            _ => return Err("`lambda` takes either `target_maw`, or `max` and optionally `start`"),
        };
        let pace = match (table.reached, table.growth) {
            (Some(_), Some(_)) => return Err("`lambda` takes either `reached` or `growth`"),
            (None, Some(growth)) => Pace::Growth(growth),
            (reached, None) => Pace::Reached(reached.unwrap_or(REACHED)),
        };
        Ok(Lambda { limit, pace })
    }
}

impl From<Lambda> for LambdaTable {
    fn from(lambda: Lambda) -> Self {
        let mut table = LambdaTable::default();
        match lambda.limit {
            Limit::Given { start, max } => (table.start, table.max) = (start, Some(max)),
            Limit::Target(target) => table.target_maw = Some(target),
        }
        match lambda.pace {
            Pace::Reached(share) => table.reached = Some(share),
            Pace::Growth(factor) => table.growth = Some(factor),
        }
        table
    }
}

impl JsonSchema for Lambda {
    fn schema_name() -> Cow<'static, str> {
        "Lambda".into()
    }

    fn inline_schema() -> bool {
        true
    }

    // LambdaInput by hand: the alternatives differ in the keys they require, which serde calls untagged and
    // reports poorly.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let target = json_schema!({
            "description": "Target for the mean over classes of the average weight (MAW); `\"estimated\"` is the share of \
                            correctly labelled samples, estimated in every round.",
            "anyOf": [{ "type": "number", "exclusiveMinimum": 0.0, "maximum": 1.0 }, { "const": "estimated" }]
        });
        let start = json_schema!({
            "type": ["number", "null"], "exclusiveMinimum": 0.0,
            "description": "λ of the first round that solves for weights. Default: half of `max`."
        });
        let max = json_schema!({
            "type": "number", "exclusiveMinimum": 0.0, "description": "λ_∞, where λ stops growing."
        });
        let reached = json_schema!({
            "type": "number", "minimum": 0.0, "maximum": 1.0, "default": REACHED,
            "description": "Share of the rounds after which λ is λ_∞; 0 for λ_∞ from the first round."
        });
        let growth = json_schema!({
            "type": "number", "minimum": 1.0,
            "description": "Growth factor per round instead of `reached`, as in the paper."
        });
        let table = |description: &str, required: &[&str], properties: &[(&str, &Schema)]| {
            let properties: std::collections::BTreeMap<_, _> = properties.iter().copied().collect();
            json_schema!({
                "type": "object", "description": description, "required": required,
                "additionalProperties": false, "properties": properties
            })
        };
        let (fitted, given) =
            ("λ_∞ is fitted to a mean average weight.", "λ_∞ is given, in units of ξ, which depend on the data set.");
        json_schema!({
            "anyOf": [
                { "type": "number", "description": "A constant λ.", "exclusiveMinimum": 0.0 },
                table(fitted, &["target_maw"], &[("target_maw", &target), ("reached", &reached)]),
                table(fitted, &["target_maw", "growth"], &[("target_maw", &target), ("growth", &growth)]),
                table(given, &["max"], &[("start", &start), ("max", &max), ("reached", &reached)]),
                table(given, &["max", "growth"], &[("start", &start), ("max", &max), ("growth", &growth)])
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balanced::tests::round;
    use curricle_sdk::Tensors;
    use serde_json::{Value, from_value, json, to_value};

    fn lambda(table: Value) -> Lambda {
        from_value(table).unwrap()
    }

    /// λ in the given round.
    fn at(lambda: &Lambda, number: u64, rounds: u64, first: First, max: f64) -> f64 {
        let tensors = Tensors::default();
        lambda.in_round(&Round { round: number, rounds, ..round(None, &[], &[], &tensors) }, first, max)
    }

    #[test]
    fn a_number_is_a_constant_lambda() {
        let constant = lambda(json!(2.5));
        for (round, first) in [(0, First::Embeddings), (1, First::Ones), (9, First::Ones)] {
            assert_eq!(at(&constant, round, 20, first, 2.5), 2.5);
        }
    }

    #[test]
    fn lambda_grows_from_half_and_reaches_its_limit_after_a_share_of_the_rounds() {
        for (table, max) in [(json!({ "target_maw": 0.8 }), 3.0), (json!({ "max": 4.0, "reached": 0.5 }), 4.0)] {
            for rounds in [4, 10, 100] {
                for (first, start) in [(First::Ones, 1), (First::Embeddings, 0)] {
                    let in_round = |number| at(&lambda(table.clone()), number, rounds, first, max);
                    assert_eq!(in_round(start), 0.5 * max);
                    assert!(in_round(rounds / 2 - 1) < max);
                    assert_eq!((in_round(rounds / 2), in_round(rounds)), (max, max));
                    let ratios: Vec<f64> = (start..rounds / 2).map(|t| in_round(t + 1) / in_round(t)).collect();
                    assert!(ratios.iter().all(|ratio| (ratio - ratios[0]).abs() < 1e-12), "{ratios:?}");
                }
            }
        }
    }

    #[test]
    fn very_short_runs_and_a_share_of_0_use_the_limit_from_the_first_round() {
        assert_eq!(at(&Lambda::default(), 1, 1, First::Ones, 3.0), 3.0);
        assert_eq!(at(&Lambda::default(), 1, 2, First::Ones, 3.0), 3.0);
        assert_eq!(at(&lambda(json!({ "target_maw": 0.8, "reached": 0 })), 0, 50, First::Embeddings, 3.0), 3.0);
    }

    #[test]
    fn a_factor_per_round_ignores_the_number_of_rounds() {
        for table in [json!({ "max": 4.0, "growth": 1.1 }), json!({ "target_maw": 0.8, "growth": 1.1 })] {
            for rounds in [4, 100] {
                let in_round = |number| at(&lambda(table.clone()), number, rounds, First::Ones, 4.0);
                assert_eq!(in_round(1), 2.0);
                assert!((in_round(2) - 2.2).abs() < 1e-12);
                assert!(in_round(8) < 4.0);
                assert_eq!((in_round(9), in_round(u64::MAX)), (4.0, 4.0));
            }
        }
    }

    #[test]
    fn all_alternatives_are_written_as_they_are_read() {
        for table in [
            json!({ "target_maw": 0.7, "reached": 0.25 }),
            json!({ "target_maw": "estimated", "growth": 1.1 }),
            json!({ "start": 1.0, "max": 3.0, "growth": 1.2 }),
            json!({ "max": 3.0, "reached": 1.0 }),
        ] {
            assert_eq!(to_value(lambda(table.clone())).unwrap(), table);
        }
    }

    #[test]
    fn a_mixture_of_alternatives_is_refused() {
        let refused = |table| from_value::<Lambda>(table).unwrap_err().to_string();
        for table in [json!({}), json!({ "start": 1.0 }), json!({ "max": 1.0, "target_maw": 0.5 })] {
            assert!(refused(table).contains("either `target_maw`"));
        }
        assert!(refused(json!({ "max": 1.0, "growth": 1.1, "reached": 0.5 })).contains("either `reached`"));
        assert!(from_value::<Lambda>(json!({ "target_maw": "guessed" })).is_err());
    }

    #[test]
    fn invalid_values_are_refused_with_their_setting() {
        let refused = |table| lambda(table).check().unwrap_err().to_string();
        assert!(refused(json!({ "max": -1.0 })).contains("lambda.max"));
        assert!(refused(json!({ "max": 1.0, "growth": 0.9 })).contains("lambda.growth"));
        assert!(refused(json!({ "max": 1.0, "start": 2.0 })).contains("lambda.start"));
        assert!(refused(json!({ "target_maw": 1.1 })).contains("lambda.target_maw"));
        assert!(refused(json!({ "target_maw": 0.5, "reached": 1.1 })).contains("lambda.reached"));
    }
}
