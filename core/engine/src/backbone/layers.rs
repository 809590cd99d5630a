//! Building blocks of the networks: convolutions, batch norm that can be frozen, activations.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use tch::Tensor;
use tch::nn::{self, Module, ModuleT};

/// Keeps batch norm from dividing by zero; the same value as in torchvision.
const EPSILON: f64 = 1e-5;

/// A prefix of parameter names, and the settings of all layers below it.
#[derive(Debug, Clone)]
pub(super) struct Scope<'a> {
    path: nn::Path<'a>,
    frozen_norm: bool,
}

/// A square convolution.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conv {
    pub input: i64,
    pub output: i64,
    pub kernel: i64,
    pub stride: i64,
    pub padding: i64,
    pub groups: i64,
    pub bias: bool,
}

/// A convolution without bias that preserves the map size, unless changed.
pub(super) fn conv(input: i64, output: i64, kernel: i64) -> Conv {
    Conv { input, output, kernel, stride: 1, padding: (kernel - 1) / 2, groups: 1, bias: false }
}

impl Conv {
    pub(crate) fn with_stride(self, stride: i64) -> Self {
        Self { stride, ..self }
    }

    pub(crate) fn with_padding(self, padding: i64) -> Self {
        Self { padding, ..self }
    }

    pub(crate) fn with_bias(self) -> Self {
        Self { bias: true, ..self }
    }

    /// One group per channel.
    pub(crate) fn depthwise(self) -> Self {
        Self { groups: self.input, ..self }
    }
}

impl<'a> Scope<'a> {
    pub(super) fn new(path: nn::Path<'a>, frozen_norm: bool) -> Self {
        Self { path, frozen_norm }
    }

    /// A nested scope, e.g. `features.0`.
    pub(super) fn at(&self, name: impl Display) -> Self {
        // tch takes the components one by one.
        let path = name.to_string().split('.').fold(self.path.clone(), |path, part| path / part);
        Self { path, ..self.clone() }
    }

    /// A convolution with its tensors in this scope. They are initialised later, see `init`.
    pub(crate) fn conv(&self, conv: Conv) -> nn::Conv2D {
        let config = nn::ConvConfig {
            stride: conv.stride,
            padding: conv.padding,
            groups: conv.groups,
            bias: conv.bias,
            ws_init: nn::Init::Const(0.0),
            ..Default::default()
        };
        nn::conv2d(&self.path, conv.input, conv.output, conv.kernel, config)
    }

    /// Batch norm with its tensors in this scope.
    pub(super) fn norm(&self, channels: i64) -> Norm {
        // tch initialises the scale to random numbers in [0, 1], PyTorch to 1.
        let config = nn::BatchNormConfig { ws_init: nn::Init::Const(1.0), eps: EPSILON, ..Default::default() };
        let inner = nn::batch_norm2d(&self.path, channels, config);
        if self.frozen_norm {
            inner.ws.iter().chain(&inner.bs).for_each(|tensor| {
                let _ = tensor.set_requires_grad(false);
            });
        }
        Norm { inner, frozen: self.frozen_norm, cached: Mutex::default() }
    }

    /// Convolution, batch norm and activation; `names` are those of the first two.
    pub(super) fn block(&self, names: (&str, &str), layer: Conv, activation: Activation) -> Block {
        let (conv, norm) = (self.at(names.0).conv(layer), self.at(names.1).norm(layer.output));
        Block { layer, conv, norm, activation }
    }
}

/// Batch norm. If frozen, it uses its running statistics in training too, and neither they nor scale
/// and shift change.
#[derive(Debug)]
pub(super) struct Norm {
    inner: nn::BatchNorm,
    frozen: bool,
    /// Scale and shift, if frozen, and the state of the tensors that they were computed from.
    cached: Mutex<Option<(Vec<TensorState>, ScaleAndShift)>>,
}

/// Where a tensor is and how often it was changed in place.
type TensorState = (usize, i64);
type ScaleAndShift = (Tensor, Tensor);

impl ModuleT for Norm {
    fn forward_t(&self, x: &Tensor, train: bool) -> Tensor {
        self.inner.forward_t(x, train && !self.frozen)
    }
}

impl Norm {
    /// Whether it is a fixed scale and shift per channel.
    fn is_fixed(&self, train: bool) -> bool {
        self.frozen || !train
    }

    /// That scale and shift. Nothing changes those of a frozen norm, except loading weights.
    fn scale_and_shift(&self) -> ScaleAndShift {
        if !self.frozen {
            return self.computed();
        }
        let inner = &self.inner;
        let tensors = [Some(&inner.running_mean), Some(&inner.running_var), inner.ws.as_ref(), inner.bs.as_ref()];
        let state = |tensor: &Tensor| (tensor.data_ptr() as usize, tensor.internal_version());
        let now: Vec<TensorState> = tensors.into_iter().flatten().map(state).collect();
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, (scale, shift)) = match cached.take() {
            Some(kept) if kept.0 == now => cached.insert(kept),
            _ => cached.insert((now, self.computed())),
        };
        (scale.shallow_clone(), shift.shallow_clone())
    }

    fn computed(&self) -> ScaleAndShift {
        let inner = &self.inner;
        let scale = (&inner.running_var + EPSILON).rsqrt();
        let scale = inner.ws.as_ref().map_or_else(|| scale.shallow_clone(), |ws| ws * &scale);
        let shift = -(&inner.running_mean * &scale);
        (scale, inner.bs.as_ref().map_or_else(|| shift.shallow_clone(), |bs| bs + &shift))
    }
}

/// The activation after a batch norm.
#[derive(Debug, Clone, Copy)]
pub(super) enum Activation {
    None,
    Relu,
    Relu6,
    Silu,
}

impl Activation {
    /// Works in place where possible.
    pub(super) fn apply(self, mut x: Tensor) -> Tensor {
        match self {
            Activation::None => x,
            Activation::Relu => x.relu_(),
            Activation::Relu6 => x.relu6_(),
            Activation::Silu => x.silu(),
        }
    }
}

/// Convolution, batch norm, activation.
#[derive(Debug)]
pub(super) struct Block {
    layer: Conv,
    conv: nn::Conv2D,
    norm: Norm,
    activation: Activation,
}

impl ModuleT for Block {
    fn forward_t(&self, x: &Tensor, train: bool) -> Tensor {
        // On CUDA, folding takes more kernel launches than it saves: a plain batch norm is one.
        let folded = self.norm.is_fixed(train) && !x.device().is_cuda();
        let normed = if folded { self.folded(x) } else { self.norm.forward_t(&self.conv.forward(x), train) };
        self.activation.apply(normed)
    }
}

impl Block {
    /// Folds a fixed norm into the convolution: the kernels are scaled instead of the maps, which are far
    /// larger. The function and its gradients are the same.
    fn folded(&self, x: &Tensor) -> Tensor {
        let (scale, shift) = self.norm.scale_and_shift();
        let shift = self.conv.bs.as_ref().map_or_else(|| shift.shallow_clone(), |bs| bs * &scale + &shift);
        let kernels = &self.conv.ws * scale.view([-1, 1, 1, 1]);
        let Conv { stride, padding, groups, .. } = self.layer;
        x.conv2d(&kernels, Some(&shift), [stride; 2], [padding; 2], [1, 1], groups)
    }
}

/// Max-pooling of 3×3 with stride 2.
pub(super) fn halve(x: &Tensor, padding: i64, ceil: bool) -> Tensor {
    x.max_pool2d(3, 2, padding, 1, ceil)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tch::{Device, Kind};

    #[test]
    fn folding_a_norm_changes_neither_outputs_nor_gradients() {
        curricle_torch::seed(0).unwrap();
        let variables = nn::VarStore::new(Device::Cpu);
        let layer = conv(4, 6, 3).with_stride(2).with_bias();
        let block = Scope::new(variables.root(), false).block(("conv", "norm"), layer, Activation::Silu);
        let mut variables = variables;
        variables.double();
        tch::no_grad(|| variables.variables().values_mut().for_each(|t| drop(t.uniform_(0.5, 1.5))));
        let x = Tensor::randn([2, 4, 9, 9], (Kind::Double, Device::Cpu)).set_requires_grad(true);
        let apart = block.activation.apply(block.norm.forward_t(&block.conv.forward(&x), false));
        let folded = block.forward_t(&x, false);
        assert!(folded.allclose(&apart, 1e-12, 1e-12, false));

        let inner = &block.norm.inner;
        let leaves = [
            &x,
            &block.conv.ws,
            block.conv.bs.as_ref().unwrap(),
            inner.ws.as_ref().unwrap(),
            inner.bs.as_ref().unwrap(),
        ];
        let direction = Tensor::randn_like(&folded);
        let gradients = |y: &Tensor| Tensor::run_backward(&[(y * &direction).sum(Kind::Double)], &leaves, false, false);
        for (a, b) in gradients(&apart).iter().zip(gradients(&folded)) {
            assert!(a.abs().max().double_value(&[]) > 1e-3 && a.allclose(&b, 1e-10, 1e-10, false));
        }
    }

    #[test]
    fn scale_and_shift_of_a_frozen_norm_follow_loaded_weights() {
        let variables = nn::VarStore::new(Device::Cpu);
        let norm = Scope::new(variables.root(), true).norm(2);
        let first = norm.scale_and_shift();
        let again = norm.scale_and_shift();
        assert_eq!(first.0.data_ptr(), again.0.data_ptr(), "computed once");
        tch::no_grad(|| drop(norm.inner.running_mean.shallow_clone().fill_(3.0)));
        let changed = norm.scale_and_shift();
        assert!(changed.1.allclose(&(-(&changed.0 * 3.0)), 1e-6, 1e-6, false));
        let mut moved = norm.inner.running_mean.shallow_clone();
        moved.set_data(&Tensor::from_slice(&[5.0f32, 5.0]));
        assert!(norm.scale_and_shift().1.allclose(&(-(&changed.0 * 5.0)), 1e-6, 1e-6, false));
    }
}
