//! The tensors that components declare.

use crate::backbone::standard_normal;
use crate::declarations::{check_memory, check_specs, check_state};
use curricle_sdk::rand::RngExt;
use curricle_sdk::rand_chacha::ChaCha8Rng;
use curricle_sdk::{ComponentKind, Error, Init, Loss, Result, Shape, TensorSpec, Tensors, WeightScheme, guard, rng};
use tch::{Device, Tensor};

/// Declared tensors with their declarations.
#[derive(Debug, Default)]
pub struct Declared {
    /// The declarations.
    pub specs: Vec<TensorSpec>,
    /// One tensor per declaration.
    pub tensors: Tensors,
}

impl Declared {
    /// Declares, creates and initialises the tensors of a loss.
    pub(crate) fn of_loss(loss: &dyn Loss, shape: &Shape, seed: u64, device: Device) -> Result<Self> {
        guard(|| {
            let specs = loss.tensors(shape);
            check_specs(&specs)?;
            check_memory(&specs)?;
            let declared = Self::create(specs, seed, ComponentKind::Loss, device);
            if !declared.specs.is_empty() {
                let seed = rng::seed_for(seed, "declared tensors loss", 0, 0) as u64;
                tch::no_grad(|| loss.initialise(&declared.tensors, shape, seed))?;
                check_declared(&declared)?;
                declared.check_finite()?;
            }
            Ok(declared)
        })
    }

    /// Declares and creates the tensors of a weight scheme.
    pub(crate) fn of_scheme(scheme: &dyn WeightScheme, shape: &Shape, seed: u64, device: Device) -> Result<Self> {
        guard(|| {
            let specs = scheme.tensors(shape);
            check_state(&specs)?;
            check_memory(&specs)?;
            Ok(Self::create(specs, seed, ComponentKind::Weights, device))
        })
    }

    /// Checks the values that a loss gave its trainable tensors. Those of state may be infinite on purpose.
    fn check_finite(&self) -> Result<()> {
        for (name, tensor) in self.trainable() {
            if tensor.isfinite().all().int64_value(&[]) == 0 {
                return Err(Error::other(format!(
                    "initialised its tensor `{name}` with values that are not finite; check its `initialise`"
                )));
            }
        }
        Ok(())
    }

    /// Creates the declared tensors. Each has a separate random stream, so its initial values depend
    /// only on the seed and its name.
    pub fn create(specs: Vec<TensorSpec>, seed: u64, kind: ComponentKind, device: Device) -> Self {
        let mut tensors = Tensors::default();
        for spec in &specs {
            let mut stream = rng::stream(seed, &format!("declared tensor {kind}.{}", spec.name), 0, 0);
            let shape = spec.shape.as_slice();
            let mut random = |draw: &dyn Fn(&mut ChaCha8Rng) -> f64| {
                let count = shape.iter().product::<i64>();
                let values: Vec<f32> = (0..count).map(|_| draw(&mut stream) as f32).collect();
                Tensor::from_slice(&values).view(shape).to_kind(spec.kind).to_device(device)
            };
            let tensor = match spec.init {
                Init::Constant(value) => Tensor::full(shape, value, (spec.kind, device)),
                Init::Normal { std } => random(&|stream| standard_normal(stream) * std),
                Init::Uniform { low, high } => random(&|stream| low + (high - low) * stream.random::<f64>()),
            };
            tensors.insert(spec.name.as_ref(), tensor.set_requires_grad(spec.trainable));
        }
        Self { specs, tensors }
    }

    /// How often each tensor was changed in place, as libtorch counts it.
    pub(crate) fn versions(&self) -> Vec<i64> {
        self.specs.iter().map(|spec| self.tensors.get(&spec.name).f_internal_version().unwrap_or_default()).collect()
    }

    /// The names of the tensors that changed since [`Self::versions`] returned `before`.
    pub(crate) fn changed_since(&self, before: &[i64]) -> Vec<&str> {
        let changed = self.specs.iter().zip(self.versions()).zip(before).filter(|((_, now), before)| now != *before);
        changed.map(|((spec, _), _)| &*spec.name).collect()
    }

    /// The tensors that only the optimiser changes, by name.
    pub(crate) fn trainable(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.specs.iter().filter(|spec| spec.trainable).map(|spec| (&*spec.name, self.tensors.get(&spec.name)))
    }
}

/// Checks that a component left its declared tensors with the shapes, types and gradients they were declared with.
pub(crate) fn check_declared(declared: &Declared) -> Result<()> {
    for spec in &declared.specs {
        let (name, tensor) = (&spec.name, declared.tensors.get(&spec.name));
        if tensor.size() != spec.shape || tensor.kind() != spec.kind {
            return Err(Error::other(format!(
                "declared tensor `{name}` as {:?} {:?} and changed it to {:?} {:?}; change its values in place",
                spec.kind,
                spec.shape,
                tensor.kind(),
                tensor.size()
            )));
        }
        if !spec.trainable && tensor.requires_grad() {
            return Err(Error::other(format!(
                "wrote values with a gradient into its tensor `{name}`; write them without gradients, e.g. with \
                 `tch::no_grad` or `curricle::NoGradGuard`, or detach them"
            )));
        }
        if spec.trainable && !(tensor.requires_grad() && tensor.is_leaf()) {
            return Err(Error::other(format!("replaced its trainable tensor `{name}`; change its values in place")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use curricle_sdk::{Batch, Log};
    use tch::Kind;

    fn make(specs: &[TensorSpec], seed: u64) -> Tensors {
        Declared::create(specs.to_vec(), seed, ComponentKind::Loss, Device::Cpu).tensors
    }

    #[test]
    fn declared_tensors_are_initialised_as_declared() {
        let specs = [
            TensorSpec::trainable("proxies", [50, 40], Init::Normal { std: 0.5 }),
            TensorSpec::state("age", [1], Init::Constant(3.0)),
            TensorSpec::state("spread", [2000], Init::Uniform { low: -1.0, high: 3.0 }),
            TensorSpec::state("ids", [4], Init::Constant(-1.0)).kind(Kind::Int64),
            TensorSpec::state("seen", [4], Init::Constant(0.0)).kind(Kind::Bool),
        ];
        let tensors = make(&specs, 1);
        let proxies = tensors.get("proxies");
        assert!(proxies.requires_grad() && !tensors.get("age").requires_grad());
        assert!((proxies.std(true).double_value(&[]) - 0.5).abs() < 0.03);
        assert!(proxies.mean(None).double_value(&[]).abs() < 0.04);
        assert_eq!(tensors.get("age").double_value(&[0]), 3.0);
        let spread = tensors.get("spread");
        assert!(spread.min().double_value(&[]) >= -1.0 && spread.max().double_value(&[]) <= 3.0);
        assert!((spread.mean(None).double_value(&[]) - 1.0).abs() < 0.1);
        assert_eq!(tensors.get("ids"), &Tensor::from_slice(&[-1i64; 4]));
        assert_eq!(tensors.get("seen").kind(), Kind::Bool);
        assert_eq!(proxies, make(&specs, 1).get("proxies"));
        assert_ne!(proxies, make(&specs, 2).get("proxies"));
    }

    /// Initialises its proxies with this value.
    struct Initialised(f64);

    impl Loss for Initialised {
        fn forward(&self, batch: &Batch, _log: &mut Log) -> Result<Tensor> {
            Ok(batch.embeddings.sum(None))
        }

        fn tensors(&self, _shape: &Shape) -> Vec<TensorSpec> {
            vec![TensorSpec::trainable("proxies", [2], Init::Constant(0.0))]
        }

        fn initialise(&self, tensors: &Tensors, _shape: &Shape, _seed: u64) -> Result<()> {
            let _ = tensors.get("proxies").shallow_clone().fill_(self.0);
            Ok(())
        }
    }

    #[test]
    fn a_loss_cannot_start_with_nan() {
        let shape = Shape { classes: 2, samples: 4, embedding: 2 };
        let of = |value| Declared::of_loss(&Initialised(value), &shape, 0, Device::Cpu);
        assert_eq!(of(2.0).unwrap().tensors.get("proxies").double_value(&[1]), 2.0);
        let message = of(f64::NAN).unwrap_err().to_string();
        assert_eq!(message, "initialised its tensor `proxies` with values that are not finite; check its `initialise`");
    }

    #[test]
    fn declared_tensors_keep_shape_type_and_gradients() {
        let specs = || {
            vec![TensorSpec::state("s", [2], Init::Constant(0.0)), TensorSpec::trainable("t", [2], Init::Constant(0.0))]
        };
        let declare = || Declared::create(specs(), 0, ComponentKind::Loss, Device::Cpu);
        let message = |declared: &Declared| check_declared(declared).unwrap_err().to_string();
        assert!(check_declared(&declare()).is_ok());

        let declared = declare();
        let _ = declared.tensors.get("s").shallow_clone().resize_([3]);
        assert!(message(&declared).contains("and changed it to Float [3]"));
        let declared = declare();
        let _ = declared
            .tensors
            .get("s")
            .shallow_clone()
            .f_add_(&Tensor::ones([2], (Kind::Float, Device::Cpu)).set_requires_grad(true))
            .unwrap();
        assert!(message(&declared).starts_with("wrote values with a gradient into its tensor `s`"));
    }
}
