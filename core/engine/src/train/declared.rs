//! The tensors that components declare.

use crate::backbone::standard_normal;
use crate::device::memory;
use curricle_sdk::rand::RngExt;
use curricle_sdk::rand_chacha::ChaCha8Rng;
use curricle_sdk::{ComponentKind, Error, Init, Loss, Result, Shape, TensorSpec, Tensors, guard, rng};
use tch::{Device, Kind, Tensor};

/// Types a declared tensor may have.
const KINDS: [Kind; 6] = [Kind::Float, Kind::Double, Kind::Int64, Kind::Int, Kind::Uint8, Kind::Bool];

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
            let declared = Self::create(specs, seed, ComponentKind::Loss, device);
            if !declared.specs.is_empty() {
                let seed = rng::seed_for(seed, "declared tensors loss", 0, 0) as u64;
                tch::no_grad(|| loss.initialise(&declared.tensors, shape, seed))?;
                check_declared(&declared)?;
            }
            Ok(declared)
        })
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

    /// The tensors that only the optimiser changes, by name.
    pub(crate) fn trainable(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.specs.iter().filter(|spec| spec.trainable).map(|spec| (&*spec.name, self.tensors.get(&spec.name)))
    }
}

/// Checks declarations: unique names, and shapes, types, initial values and learning rates that can be created.
pub(crate) fn check_specs(specs: &[TensorSpec]) -> Result<()> {
    let mut bytes = 0u64;
    for (index, spec) in specs.iter().enumerate() {
        if specs[..index].iter().any(|other| other.name == spec.name) {
            return Err(Error::other(format!("declared tensor `{}` twice", spec.name)));
        }
        let wrong = |what: String| Error::other(format!("declared tensor `{}` with {what}", spec.name));
        check_spec(spec).map_err(wrong)?;
        let size = spec.shape.iter().try_fold(spec.kind.elt_size_in_bytes() as u64, |product, &size| {
            u64::try_from(size).ok().and_then(|size| product.checked_mul(size))
        });
        let size = size.ok_or_else(|| wrong(format!("the invalid shape {:?}", spec.shape)))?;
        bytes = bytes.saturating_add(size);
        if let Some(available) = memory::available().filter(|&available| bytes > available) {
            let with_others = if index > 0 { " together with those before it" } else { "" };
            return Err(wrong(format!(
                "the shape {:?}, which needs {} GB{with_others}; {} GB of memory are free",
                spec.shape,
                gigabytes(bytes),
                gigabytes(available)
            )));
        }
    }
    Ok(())
}

fn check_spec(spec: &TensorSpec) -> Result<(), String> {
    let TensorSpec { kind, init, trainable, lr_scale, .. } = spec;
    if spec.name.is_empty() {
        return Err("an empty name".into());
    }
    if *trainable && spec.group.is_empty() {
        return Err("an empty parameter group, which recipes could not name".into());
    }
    if !KINDS.contains(kind) {
        return Err(format!("the type {kind:?}, which declared tensors cannot have"));
    }
    if *trainable && *kind != Kind::Float {
        return Err(format!("the type {kind:?}; trainable tensors are Float"));
    }
    let is_float = matches!(kind, Kind::Float | Kind::Double);
    let valid = match *init {
        Init::Constant(value) if is_float => value.is_finite(),
        Init::Constant(value) => value.fract() == 0.0 && value.abs() < 1e15,
        Init::Normal { std } => is_float && std.is_finite() && std >= 0.0,
        Init::Uniform { low, high } => is_float && low.is_finite() && high.is_finite() && low <= high,
    };
    if !valid {
        return Err(format!("the initial value {init:?}, which is not valid for the type {kind:?}"));
    }
    if !(lr_scale.is_finite() && *lr_scale >= 0.0) {
        return Err(format!("a learning-rate scale of {lr_scale}; it must be 0 or more"));
    }
    Ok(())
}

/// Checks that a component left its declared tensors with the shapes, types and gradients they were declared with.
pub(crate) fn check_declared(declared: &Declared) -> Result<()> {
    for spec in &declared.specs {
        let (name, tensor) = (&spec.name, declared.tensors.get(&spec.name));
        if tensor.size() != spec.shape || tensor.kind() != spec.kind {
            return Err(Error::other(format!(
                "declared tensor `{name}` as {:?} {:?} and changed it to {:?} {:?}",
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

fn gigabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(specs: &[TensorSpec], seed: u64) -> Tensors {
        check_specs(specs).unwrap();
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

    #[test]
    fn impossible_declarations_are_refused_by_name() {
        let float = |init| TensorSpec::state("x", [2], init);
        let refused = [
            (float(Init::Constant(f64::NAN)), "the initial value"),
            (float(Init::Normal { std: -1.0 }), "the initial value"),
            (float(Init::Uniform { low: 1.0, high: 0.0 }), "the initial value"),
            (float(Init::Constant(0.5)).kind(Kind::Int64), "not valid for the type Int64"),
            (float(Init::Normal { std: 1.0 }).kind(Kind::Int64), "not valid for the type Int64"),
            (float(Init::Constant(0.0)).kind(Kind::ComplexFloat), "declared tensors cannot have"),
            (TensorSpec::trainable("x", [2], Init::Constant(0.0)).kind(Kind::Double), "trainable tensors are Float"),
            (TensorSpec::trainable("x", [2], Init::Constant(0.0)).lr_scale(f64::NAN), "0 or more"),
            (TensorSpec::trainable("x", [2], Init::Constant(0.0)).lr_scale(-1.0), "0 or more"),
            (TensorSpec { trainable: true, ..float(Init::Constant(0.0)) }, "an empty parameter group"),
            (TensorSpec::state("x", [-1], Init::Constant(0.0)), "invalid shape"),
            (TensorSpec::state("x", [i64::MAX, i64::MAX], Init::Constant(0.0)), "invalid shape"),
            (TensorSpec::state("x", [1 << 50], Init::Constant(0.0)), "of memory are free"),
        ];
        for (spec, reason) in refused {
            let message = check_specs(&[spec]).unwrap_err().to_string();
            assert!(message.starts_with("declared tensor `x` with") && message.contains(reason), "{message}");
        }
        let twice = [float(Init::Constant(0.0)), float(Init::Constant(0.0))];
        assert_eq!(check_specs(&twice).unwrap_err().to_string(), "declared tensor `x` twice");
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
