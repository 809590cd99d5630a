//! ArcFace (Deng et al., CVPR 2019) with sub-centres (Deng et al., ECCV 2020).

use crate::positive;
use crate::proxies::{Proxies, cross_entropy, reference_cross_entropy};
use crate::triplets::one_hot;
use curricle_sdk::gradients::Embeddings;
use curricle_sdk::prelude::*;

/// Cross-entropy of the cosines to the classes' proxies, with a margin on the angle.
///
/// The cosine to class c is the largest of those to its sub-centres, `s_c = max_k s(x,p_ck) = cos θ_c`.
/// The loss is the mean over the samples of `-log( e^{sφ} / (e^{sφ} + Σ_{c≠y} e^{s s_c}) )` with scale s and
/// `φ = cos(θ_y + m)` for `θ_y ≤ π - m`, else `cos θ_y - m sin m`, so that φ always falls with θ; weighted
/// by `w_i`. With several sub-centres, samples with wrong labels may gather around one that is not the
/// dominant one of their class.
///
/// Equals `ArcFaceLoss` and `SubCenterArcFaceLoss` of pytorch-metric-learning.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArcFace {
    /// Margin m on the angle, in degrees. 28.6 is the 0.5 radians of the paper.
    #[schemars(range(min = 0.0, max = 180.0))]
    pub margin: f64,
    /// Scale s of the cosines.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    pub scale: f64,
    /// Number of sub-centres of each class; the paper on noisy labels uses 3.
    #[schemars(range(min = 1, max = 1000))]
    pub sub_centers: i64,
}

impl Default for ArcFace {
    fn default() -> Self {
        Self { margin: 28.6, scale: 64.0, sub_centers: 1 }
    }
}

/// A smaller squared sine is rounding error; the derivative of the angle has a pole at 0.
const MIN_SQUARED_SINE: f64 = 1e-12;

impl ArcFace {
    /// The formula in plain tensor operations, which [`Loss::forward`] must equal.
    #[doc(hidden)]
    pub fn reference(&self, batch: &Batch) -> Tensor {
        let cosines = Proxies::reference_cosines(batch).max_dim(2, false).0;
        let m = self.margin.to_radians();
        let sines = (1.0f64 - cosines.square()).clamp_min(MIN_SQUARED_SINE).sqrt();
        let beyond = cosines.lt(-m.cos());
        let with_margin = (&cosines - m * m.sin()).where_self(&beyond, &(&cosines * m.cos() - sines * m.sin()));
        let own = one_hot(batch.labels, cosines.size()[1]);
        reference_cross_entropy(&(with_margin.where_self(&own, &cosines) * self.scale), batch)
    }

    /// φ and its derivative by the cosine.
    fn with_margin(&self, cosines: &Tensor) -> (Tensor, Tensor) {
        let (sin, cos) = self.margin.to_radians().sin_cos();
        let squared: Tensor = 1.0 - cosines.square();
        let sines = squared.clamp_min(MIN_SQUARED_SINE).sqrt_();
        // cos(θ+m) = cos θ cos m - sin θ sin m, and ∂ sin θ/∂ cos θ = -cos θ/sin θ.
        let slope = (cosines / &sines) * squared.ge(MIN_SQUARED_SINE) * sin + cos;
        let shifted = cosines * cos - sines * sin;
        let beyond = cosines.lt(-cos);
        let lowered = cosines - self.margin.to_radians() * sin;
        (lowered.where_self(&beyond, &shifted), slope.masked_fill(&beyond, 1.0))
    }
}

impl Loss for ArcFace {
    fn forward(&self, batch: &Batch, log: &mut Log) -> Result<Tensor> {
        let embeddings = Embeddings::of(batch);
        let proxies = Proxies::of(batch, &embeddings);
        let (cosines, nearest) = match self.sub_centers {
            1 => (proxies.cosines.shallow_clone(), None),
            count => {
                let (cosines, nearest) = proxies.cosines.view([batch.size(), -1, count]).max_dim(2, true);
                (cosines.squeeze_dim(2), Some(nearest))
            }
        };
        let labels = batch.labels.unsqueeze(1);
        let (own, slope) = self.with_margin(&cosines.gather(1, &labels, false));
        let logits = cosines.scatter(1, &labels, &own) * self.scale;
        let (value, grad) = cross_entropy(&logits, batch, embeddings.weights(batch), log);
        let grad = grad * self.scale;
        let grad = grad.scatter(1, &labels, &(grad.gather(1, &labels, false) * slope));
        let grad = match nearest {
            None => grad,
            Some(nearest) => {
                let all =
                    grad.new_zeros([batch.size(), grad.size()[1], self.sub_centers], (grad.kind(), grad.device()));
                all.scatter(2, &nearest, &grad.unsqueeze(2)).flatten(1, 2)
            }
        };
        proxies.loss(&embeddings, &value, &grad)
    }

    fn tensors(&self, shape: &Shape) -> Vec<TensorSpec> {
        let size = [shape.classes, self.sub_centers, shape.embedding];
        // As in the authors' code.
        vec![TensorSpec::trainable("proxies", size, Init::Normal { std: 0.01 })]
    }

    fn check(&self) -> Result<()> {
        if !(0.0..=180.0).contains(&self.margin) {
            let message = format!("must be between 0 and 180 degrees, but is {}", self.margin);
            return Err(Error::setting("margin", message));
        }
        if !(1..=1000).contains(&self.sub_centers) {
            return Err(Error::setting(
                "sub_centers",
                format!("must be between 1 and 1000, but is {}", self.sub_centers),
            ));
        }
        positive("scale", self.scale)
    }

    fn advice(&self, _data: &DataFacts) -> Vec<Advice> {
        if self.margin == 0.0 || self.margin >= 2.0 {
            return Vec::new();
        }
        let message = format!(
            "the margin is in degrees, and {} hardly differs from 0; use 28.6, which is 0.5 radians",
            self.margin
        );
        vec![Advice::new("margin", message)]
    }
}

register_loss!("arcface", ArcFace, "softmax with a margin on the angle to the class, with sub-centres");
