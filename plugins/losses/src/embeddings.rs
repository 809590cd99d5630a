//! A batch's embeddings, and how a loss's derivative gets back to them.

use curricle_sdk::Batch;
use curricle_torch::with_gradients;
use tch::{Kind, Tensor};

/// Embeddings in the precision losses compute in: f64 stays f64, everything else is f32, since
/// sums of exponentials overflow half precision.
#[derive(Debug)]
pub struct Embeddings {
    /// Connected to the network.
    graph: Tensor,
    /// The same numbers `[B, D]` without a graph: nothing computed from them is recorded.
    pub points: Tensor,
}

impl Embeddings {
    /// The embeddings of a batch.
    pub fn of(batch: &Batch) -> Self {
        let graph = match batch.embeddings.kind() {
            Kind::Float | Kind::Double => batch.embeddings.shallow_clone(),
            _ => batch.embeddings.to_kind(Kind::Float),
        };
        let points = graph.detach();
        Self { graph, points }
    }

    /// Cosine similarities of all pairs `[B, B]`.
    pub fn similarities(&self) -> Tensor {
        self.points.mm(&self.points.tr())
    }

    /// The batch's weights in this precision; `None` if all are 1.
    pub fn weights(&self, batch: &Batch) -> Option<Tensor> {
        batch.weights.map(|w| w.detach().to_kind(self.points.kind()))
    }

    /// A loss of this value and this derivative by the embeddings `[B, D]`.
    pub fn loss(&self, value: &Tensor, gradient: &Tensor) -> Tensor {
        with_gradients(value, &[&self.graph], &[gradient]).expect("a derivative of the embeddings' shape")
    }

    /// The same, also with a derivative by one of the loss's own tensors.
    pub fn loss_with(&self, value: &Tensor, gradient: &Tensor, tensor: &Tensor, by_tensor: &Tensor) -> Tensor {
        let scalar = with_gradients(value, &[&self.graph, tensor], &[gradient, by_tensor]);
        scalar.expect("derivatives of the embeddings' and the tensor's shape")
    }

    /// A loss of this value whose derivative by the similarities is `slope` `[B, B]`.
    ///
    /// From `S = x xᵀ` follows `∂L/∂x = (slope + slopeᵀ) x`.
    pub fn loss_of_similarities(&self, value: &Tensor, slope: &Tensor) -> Tensor {
        self.loss(value, &(slope + slope.tr()).mm(&self.points))
    }

    /// A loss of this value whose derivative by the squared distances is `slope` `[B, B]`.
    pub fn loss_of_squared_distances(&self, value: &Tensor, slope: &Tensor) -> Tensor {
        self.loss(value, &gradient_of_squared_distances(&self.points, slope))
    }
}

/// `∂L/∂x` where `slope = ∂L/∂D²` and `D²_ij = |x_i - x_j|²`.
///
/// `∂L/∂x_i = 2 Σ_j (slope_ij + slope_ji)(x_i - x_j)`, a graph Laplacian times `x`.
pub fn gradient_of_squared_distances(points: &Tensor, slope: &Tensor) -> Tensor {
    let laplacian = (slope + slope.tr()) * -2.0;
    let degrees = laplacian.sum_dim_intlist(1, false, None);
    let _ = laplacian.diagonal(0, 0, 1).g_sub_(&degrees);
    laplacian.mm(points)
}
