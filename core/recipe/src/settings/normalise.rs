//! `backbone.normalise`

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// Pixel normalisation: a named preset, or explicit numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub enum NormaliseRecipe {
    /// For torchvision's ImageNet weights: from [0, 1], minus mean, over standard deviation.
    Imagenet,
    /// For weights from Caffe: BGR from 0 to 255, minus mean.
    CaffeBgr,
    /// From 0 to 1.
    Unit,
    /// From -1 to 1.
    Symmetric,
    /// For CLIP's weights: from [0, 1], minus mean, over standard deviation.
    Clip,
    /// Explicit numbers.
    Custom(CustomNormalise),
}

/// Pixels scaled to `[0, range]`, minus `mean`, over `std`, per channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CustomNormalise {
    /// Mean per channel, subtracted after scaling to the range.
    pub mean: [f64; 3],
    /// Standard deviation per channel, the divisor.
    pub std: [f64; 3],
    /// Value of white before the mean is subtracted: 1 or 255.
    #[serde(default = "one")]
    pub range: f64,
    /// The channel order is blue, green, red, for `mean` and `std` too.
    #[serde(default)]
    pub bgr: bool,
}

fn one() -> f64 {
    1.0
}

const NAMED: [(&str, NormaliseRecipe); 5] = [
    ("imagenet", NormaliseRecipe::Imagenet),
    ("caffe_bgr", NormaliseRecipe::CaffeBgr),
    ("unit", NormaliseRecipe::Unit),
    ("symmetric", NormaliseRecipe::Symmetric),
    ("clip", NormaliseRecipe::Clip),
];

impl NormaliseRecipe {
    /// The numbers of the preset.
    pub fn numbers(&self) -> CustomNormalise {
        let (mean, std, range, bgr) = match self {
            Self::Imagenet => ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], 1.0, false),
            Self::CaffeBgr => ([104.0, 117.0, 128.0], [1.0; 3], 255.0, true),
            Self::Unit => ([0.0; 3], [1.0; 3], 1.0, false),
            Self::Symmetric => ([0.5; 3], [0.5; 3], 1.0, false),
            Self::Clip => {
                ([0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_58, 0.275_777_11], 1.0, false)
            }
            Self::Custom(numbers) => return numbers.clone(),
        };
        CustomNormalise { mean, std, range, bgr }
    }
}

impl TryFrom<Value> for NormaliseRecipe {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        if let Value::String(word) = &value {
            let found = NAMED.iter().find(|(name, _)| name == word);
            return found.map(|(_, recipe)| recipe.clone()).ok_or_else(|| format!("unknown preset `{word}`"));
        }
        let numbers: CustomNormalise = serde_json::from_value(value).map_err(|e| e.to_string())?;
        if numbers.std.contains(&0.0) {
            return Err("`std` must not be 0".into());
        }
        Ok(Self::Custom(numbers))
    }
}

impl From<NormaliseRecipe> for Value {
    fn from(recipe: NormaliseRecipe) -> Value {
        match (&recipe, NAMED.iter().find(|(_, named)| *named == recipe)) {
            (_, Some((name, _))) => Value::from(*name),
            (NormaliseRecipe::Custom(numbers), None) => serde_json::to_value(numbers).unwrap_or_default(),
            _ => Value::Null,
        }
    }
}

impl JsonSchema for NormaliseRecipe {
    fn schema_name() -> Cow<'static, str> {
        "NormaliseRecipe".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let three = |description: &str, least: Value| {
            json_schema!({
                "description": description,
                "type": "array", "items": { "type": "number", "minimum": least }, "minItems": 3, "maxItems": 3,
            })
        };
        json_schema!({
            "description": "Pixel normalisation.",
            "anyOf": [
                { "type": "string", "enum": NAMED.map(|(name, _)| name) },
                {
                    "type": "object",
                    "properties": {
                        "mean": three("Mean per channel, subtracted after scaling to the range.", (-1e6).into()),
                        "std": three("Standard deviation per channel, the divisor.", 1e-6.into()),
                        "range": {
                            "description": "Value of white before the mean is subtracted: 1 or 255.",
                            "type": "number", "minimum": 0.0, "default": 1.0,
                        },
                        "bgr": {
                            "description": "The channel order is blue, green, red, for `mean` and `std` too.",
                            "type": "boolean", "default": false,
                        },
                    },
                    "required": ["mean", "std"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn presets_and_numbers_survive_serialisation() {
        for written in
            [json!("imagenet"), json!({ "mean": [1.0, 2.0, 3.0], "std": [1.0, 1.0, 1.0], "range": 255.0, "bgr": true })]
        {
            let recipe: NormaliseRecipe = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&recipe).unwrap(), written);
        }
        assert!(serde_json::from_value::<NormaliseRecipe>(json!("imagnet")).is_err());
    }
}
