//! The components that a recipe names, created from their settings.

use crate::call::call;
use crate::last_words::running;
use crate::registry::Registry;
use curricle_recipe::Recipe;
use curricle_sdk::{ComponentKind, Error, Loss, Sampler, WeightScheme};
use std::fmt;
use std::sync::Arc;

/// Loss, sampler and weight scheme of a recipe.
#[derive(Clone)]
pub struct Method {
    /// The loss function.
    pub loss: Arc<dyn Loss>,
    /// The batch sampler.
    pub sampler: Arc<dyn Sampler>,
    /// The weight scheme.
    pub weights: Arc<dyn WeightScheme>,
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
            call(running(ComponentKind::Loss, &loss.name), &[], || registry.loss(&loss.name, &loss.settings))
                .map_err(|e| refuse(ComponentKind::Loss, &loss.name, e)),
            call(running(ComponentKind::Sampler, &sampler.name), &[], || {
                registry.sampler(&sampler.name, &sampler.settings)
            })
            .map_err(|e| refuse(ComponentKind::Sampler, &sampler.name, e)),
            call(running(ComponentKind::Weights, &weights.name), &[], || {
                registry.weights(&weights.name, &weights.settings)
            })
            .map_err(|e| refuse(ComponentKind::Weights, &weights.name, e)),
        );
        match made {
            (Ok(loss), Ok(sampler), Ok(weights)) => {
                Ok(Self { loss: loss.into(), sampler: sampler.into(), weights: weights.into() })
            }
            _ => Err(refused),
        }
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Method")
    }
}
