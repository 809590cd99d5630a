//! The components of a run and the tensors they declare.

use crate::backbone::standard_normal;
use crate::method::Method;
use crate::{Error, Result};
use curricle_recipe::Recipe;
use curricle_sdk::{ComponentKind, Init, Loss, Sampler, Shape, TensorSpec, Tensors, WeightScheme, guard, rng};
use std::sync::Arc;
use tch::{Device, Tensor};

/// The components that a recipe's `[loss]`, `[sampler]` and `[weights]` name.
pub struct Components {
    /// The loss.
    pub loss: Arc<dyn Loss>,
    /// The tensors declared by the loss.
    pub loss_tensors: Declared,
    /// The sampler.
    pub sampler: Arc<dyn Sampler>,
    /// The weight scheme.
    pub weights: Arc<dyn WeightScheme>,
    /// The tensors declared by the weight scheme.
    pub weights_tensors: Declared,
}

/// Declared tensors with their declarations.
#[derive(Debug, Default)]
pub struct Declared {
    /// The declarations.
    pub specs: Vec<TensorSpec>,
    /// One tensor per declaration.
    pub tensors: Tensors,
}

impl Components {
    /// Creates the tensors that the recipe's components declare.
    pub fn new(recipe: &Recipe, method: &Method, shape: &Shape, device: Device) -> Result<Self> {
        let made = method.clone();
        let (loss, weights) = (&recipe.loss.name, &recipe.weights.name);
        let seed = recipe.seed;
        let declare = |specs: &dyn Fn() -> Vec<TensorSpec>, kind| {
            guard(|| {
                let specs = specs();
                check_specs(&specs)?;
                Ok(Declared::create(specs, seed, kind, device))
            })
        };
        let loss_tensors =
            declare(&|| made.loss.tensors(shape), ComponentKind::Loss).map_err(named(ComponentKind::Loss, loss))?;
        let weights_tensors = declare(&|| made.weights.tensors(shape), ComponentKind::Weights)
            .map_err(named(ComponentKind::Weights, weights))?;
        Ok(Self { loss: made.loss, loss_tensors, sampler: made.sampler, weights: made.weights, weights_tensors })
    }
}

/// Adds the component to an error, for use with `map_err`.
pub(crate) fn named(kind: ComponentKind, name: &str) -> impl FnOnce(curricle_sdk::Error) -> Error + use<> {
    let name = name.to_string();
    move |source| Error::Component { kind, name, source }
}

/// Checks that declarations have unique names and valid shapes.
pub(crate) fn check_specs(specs: &[TensorSpec]) -> curricle_sdk::Result<()> {
    // 200 GB of f32: more is a mistake, and allocating it would abort the program.
    const MOST: i64 = 50_000_000_000;
    for (index, TensorSpec { name, shape, .. }) in specs.iter().enumerate() {
        let elements =
            shape.iter().try_fold(1i64, |product, &size| if size < 0 { None } else { product.checked_mul(size) });
        if elements.is_none_or(|elements| elements > MOST) {
            return Err(curricle_sdk::Error::other(format!(
                "declared tensor `{name}` with the invalid shape {shape:?}"
            )));
        }
        if specs[..index].iter().any(|other| other.name == *name) {
            return Err(curricle_sdk::Error::other(format!("declared tensor `{name}` twice")));
        }
    }
    Ok(())
}

impl Declared {
    /// Creates the declared tensors. Each has a separate random stream, so its initial values depend
    /// only on the seed and its name.
    pub fn create(specs: Vec<TensorSpec>, seed: u64, kind: ComponentKind, device: Device) -> Self {
        let mut tensors = Tensors::default();
        for spec in &specs {
            let count = spec.shape.iter().product::<i64>();
            let values: Vec<f32> = match spec.init {
                Init::Constant(value) => vec![value as f32; usize::try_from(count).unwrap_or(0)],
                Init::Normal { std } => {
                    let mut stream = rng::stream(seed, &format!("declared tensor {kind}.{}", spec.name), 0, 0);
                    (0..count).map(|_| (standard_normal(&mut stream) * std) as f32).collect()
                }
            };
            let tensor = Tensor::from_slice(&values).view(spec.shape.as_slice()).to_device(device);
            tensors.insert(spec.name.as_ref(), tensor.set_requires_grad(spec.trainable));
        }
        Self { specs, tensors }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_tensors_are_initialised_as_declared() {
        let specs = vec![
            TensorSpec::trainable("proxies", [50, 40], Init::Normal { std: 0.5 }),
            TensorSpec::state("age", [1], Init::Constant(3.0)),
        ];
        let make = |seed| Declared::create(specs.clone(), seed, ComponentKind::Loss, Device::Cpu).tensors;
        let tensors = make(1);
        let proxies = tensors.get("proxies");
        assert!(proxies.requires_grad() && !tensors.get("age").requires_grad());
        assert!((proxies.std(true).double_value(&[]) - 0.5).abs() < 0.03);
        assert!(proxies.mean(None).double_value(&[]).abs() < 0.04);
        assert_eq!(tensors.get("age").double_value(&[0]), 3.0);
        assert_eq!(proxies, make(1).get("proxies"));
        assert_ne!(proxies, make(2).get("proxies"));
    }
}
