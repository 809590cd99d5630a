//! A block of a vision transformer: attention and MLP, each behind a layer norm and added to its input.

use super::shape::VitShape;
use curricle_recipe::MlpActivation;
use tch::nn::{self, Init};
use tch::{Kind, Tensor};

/// Layer norm over the channels.
#[derive(Debug)]
pub(super) struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl LayerNorm {
    pub(super) fn new(path: &nn::Path, width: i64, eps: f64) -> Self {
        let weight = path.var("weight", &[width], Init::Const(1.0));
        Self { weight, bias: path.var("bias", &[width], Init::Const(0.0)), eps }
    }

    pub(super) fn forward(&self, x: &Tensor) -> Tensor {
        x.layer_norm([*self.weight.size().last().unwrap_or(&1)], Some(&self.weight), Some(&self.bias), self.eps, true)
    }

    fn share(&self) -> Self {
        Self { weight: self.weight.shallow_clone(), bias: self.bias.shallow_clone(), eps: self.eps }
    }
}

/// A linear layer, initialised later, see `init`.
#[derive(Debug)]
struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn new(path: &nn::Path, input: i64, output: i64) -> Self {
        let weight = path.var("weight", &[output, input], Init::Const(0.0));
        Self { weight, bias: path.var("bias", &[output], Init::Const(0.0)) }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        x.linear(&self.weight, Some(&self.bias))
    }

    fn share(&self) -> Self {
        Self { weight: self.weight.shallow_clone(), bias: self.bias.shallow_clone() }
    }
}

/// One block.
#[derive(Debug)]
pub(super) struct VitBlock {
    norm1: LayerNorm,
    qkv: Linear,
    proj: Linear,
    norm2: LayerNorm,
    fc1: Linear,
    fc2: Linear,
    /// LayerScale of attention and MLP.
    scales: Option<[Tensor; 2]>,
    heads: i64,
    activation: MlpActivation,
}

/// Factors `[B, 1, 1]` on the outputs of attention and MLP: 0 for samples that skip them.
pub(super) type DropPath = Option<[Tensor; 2]>;

impl VitBlock {
    pub(super) fn new(path: &nn::Path, shape: &VitShape) -> Self {
        let width = shape.width;
        let norm = |name| LayerNorm::new(&(path / name), width, shape.norm_eps);
        let (attention, mlp) = (path / "attn", path / "mlp");
        let gamma = |name, start| (path / name).var("gamma", &[width], Init::Const(start));
        Self {
            norm1: norm("norm1"),
            qkv: Linear::new(&(&attention / "qkv"), width, 3 * width),
            proj: Linear::new(&(&attention / "proj"), width, width),
            norm2: norm("norm2"),
            fc1: Linear::new(&(&mlp / "fc1"), width, shape.hidden),
            fc2: Linear::new(&(&mlp / "fc2"), shape.hidden, width),
            scales: shape.layer_scale.map(|start| ["ls1", "ls2"].map(|name| gamma(name, start))),
            heads: shape.heads,
            activation: shape.activation,
        }
    }

    /// Tokens `[B, N, D]` to tokens of the same shape.
    pub(super) fn forward(&self, x: &Tensor, drop: &DropPath) -> Tensor {
        let x = x + self.branch(0, self.attention(&self.norm1.forward(x)), drop);
        &x + self.branch(1, self.mlp(&self.norm2.forward(&x)), drop)
    }

    fn branch(&self, number: usize, y: Tensor, drop: &DropPath) -> Tensor {
        let factors = [self.scales.as_ref(), drop.as_ref()];
        factors.into_iter().flatten().fold(y, |y, factor| y * &factor[number])
    }

    fn attention(&self, x: &Tensor) -> Tensor {
        let (tokens, width) = (x.size()[1], x.size()[2]);
        // [B, N, 3, H, D/H] to 3 × [B, H, N, D/H]; tracing would make the size of the batch a constant.
        let qkv = self.qkv.forward(x).reshape([-1, tokens, 3, self.heads, width / self.heads]);
        let qkv = qkv.permute([2, 0, 3, 1, 4]).unbind(0);
        let none = None::<&Tensor>;
        let y = Tensor::scaled_dot_product_attention(&qkv[0], &qkv[1], &qkv[2], none, 0.0, false, None, false);
        self.proj.forward(&y.transpose(1, 2).flatten(2, 3))
    }

    fn mlp(&self, x: &Tensor) -> Tensor {
        let hidden = self.fc1.forward(x);
        let active = match self.activation {
            MlpActivation::Gelu => hidden.gelu("none"),
            MlpActivation::QuickGelu => &hidden * (&hidden * 1.702).sigmoid(),
        };
        self.fc2.forward(&active)
    }

    /// The same block, with the same tensors.
    pub(super) fn share(&self) -> Self {
        Self {
            norm1: self.norm1.share(),
            qkv: self.qkv.share(),
            proj: self.proj.share(),
            norm2: self.norm2.share(),
            fc1: self.fc1.share(),
            fc2: self.fc2.share(),
            scales: self.scales.as_ref().map(|scales| scales.each_ref().map(Tensor::shallow_clone)),
            heads: self.heads,
            activation: self.activation,
        }
    }
}

/// Draws which samples of a batch skip a block's branches. The others are scaled up, to preserve the mean.
pub(super) fn draw_drop_path(x: &Tensor, dropped: f64) -> DropPath {
    let kept = 1.0 - dropped;
    let draw = || {
        let mut mask = Tensor::empty([x.size()[0], 1, 1], (Kind::Float, x.device()));
        (mask.bernoulli_float_(kept) / kept).to_kind(x.kind())
    };
    (dropped > 0.0).then(|| [draw(), draw()])
}
