//! The components of a run and the tensors they declare.

use super::declared::Declared;
use crate::call::call;
use crate::held::Held;
use crate::last_words::running;
use crate::method::Method;
use crate::{Error, Result};
use curricle_recipe::Recipe;
use curricle_sdk::{ComponentKind, Loss, Sampler, Shape, WeightScheme};
use tch::Device;

/// The components that a recipe's `[loss]`, `[sampler]` and `[weights]` name.
pub struct Components {
    /// The loss.
    pub loss: Held<dyn Loss>,
    /// The tensors declared by the loss.
    pub loss_tensors: Declared,
    /// The sampler.
    pub sampler: Held<dyn Sampler>,
    /// The weight scheme.
    pub weights: Held<dyn WeightScheme>,
    /// The tensors declared by the weight scheme.
    pub weights_tensors: Declared,
}

impl Components {
    /// Creates the tensors that the recipe's components declare.
    pub fn new(recipe: &Recipe, method: &Method, shape: &Shape, device: Device) -> Result<Self> {
        let made = method.clone();
        let (loss, weights) = (&recipe.loss.name, &recipe.weights.name);
        let seed = recipe.seed;
        let loss_tensors =
            call(running(ComponentKind::Loss, loss), &[], || Declared::of_loss(&*made.loss, shape, seed, device))
                .map_err(named(ComponentKind::Loss, loss))?;
        let weights_tensors = call(running(ComponentKind::Weights, weights), &[], || {
            Declared::of_scheme(&*made.weights, shape, seed, device)
        })
        .map_err(named(ComponentKind::Weights, weights))?;
        Ok(Self { loss: made.loss, loss_tensors, sampler: made.sampler, weights: made.weights, weights_tensors })
    }
}

impl Components {
    /// Whether the loss or the weight scheme needs the moving average of the network.
    pub(super) fn need_ema(&self) -> bool {
        self.loss.needs_ema() || self.weights.needs_ema()
    }
}

/// Adds the component to an error, for use with `map_err`.
pub(crate) fn named(kind: ComponentKind, name: &str) -> impl FnOnce(curricle_sdk::Error) -> Error + use<> {
    let name = name.to_string();
    move |source| Error::Component { kind, name, source }
}
