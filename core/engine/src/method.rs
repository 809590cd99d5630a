//! The components that a recipe names, created from their settings.

use crate::held::Held;
use crate::registry::Registry;
use curricle_recipe::Recipe;
use curricle_sdk::{ComponentKind, Error, Loss, Sampler, WeightScheme};
use std::fmt;

/// Loss, sampler and weight scheme of a recipe.
#[derive(Clone)]
pub struct Method {
    /// The loss function.
    pub loss: Held<dyn Loss>,
    /// The batch sampler.
    pub sampler: Held<dyn Sampler>,
    /// The weight scheme.
    pub weights: Held<dyn WeightScheme>,
}

/// A component that refused its settings.
#[derive(Debug)]
pub struct RefusedSettings {
    /// Its kind.
    pub kind: ComponentKind,
    /// Its name.
    pub name: String,
    /// The component's error.
    pub error: Error,
}

impl Method {
    /// Creates the components of a recipe, or returns all refusals.
    pub fn new(recipe: &Recipe, registry: &Registry) -> Result<Self, Vec<RefusedSettings>> {
        let mut refused = Vec::new();
        let mut refuse = |kind: ComponentKind, name: &str, error| {
            refused.push(RefusedSettings { kind, name: name.to_string(), error });
        };
        let Recipe { loss, sampler, weights, .. } = recipe;
        let made = (
            registry.loss(&loss.name, &loss.settings).map_err(|e| refuse(ComponentKind::Loss, &loss.name, e)),
            registry
                .sampler(&sampler.name, &sampler.settings)
                .map_err(|e| refuse(ComponentKind::Sampler, &sampler.name, e)),
            registry
                .weights(&weights.name, &weights.settings)
                .map_err(|e| refuse(ComponentKind::Weights, &weights.name, e)),
        );
        match made {
            (Ok(loss), Ok(sampler), Ok(weights)) => Ok(Self { loss, sampler, weights }),
            _ => Err(refused),
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Method")
    }
}
