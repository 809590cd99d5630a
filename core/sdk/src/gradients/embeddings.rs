//! A batch's embeddings detached from the graph, and the way back for a loss's gradient.

use super::{gradient_of_squared_distances, with_gradients};
use crate::{Batch, Result, mm};
use tch::{Kind, Tensor};

/// Embeddings in the precision a loss computes in: f64 stays f64, everything else is f32, because sums of
/// exponentials overflow in half precision.
#[derive(Debug)]
pub struct Embeddings {
    /// Connected to the network.
    graph: Tensor,
    /// The same numbers `[B, D]`, detached: nothing computed from them is recorded.
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
        mm(&self.points, &self.points.tr())
    }

    /// The batch's weights in this precision; `None` if all are 1.
    pub fn weights(&self, batch: &Batch) -> Option<Tensor> {
        batch.weights.map(|w| w.detach().to_kind(self.points.kind()))
    }

    /// `w_i w_j` for all pairs `[B, B]`; `None` if all are 1.
    pub fn pair_weights(&self, batch: &Batch) -> Option<Tensor> {
        self.weights(batch).map(|w| w.unsqueeze(1) * w)
    }

    /// A loss with this value and this gradient with respect to the embeddings `[B, D]`.
    pub fn loss(&self, value: &Tensor, gradient: &Tensor) -> Result<Tensor> {
        with_gradients(value, &[&self.graph], &[gradient])
    }

    /// As [`loss`](Self::loss), with a second gradient with respect to a tensor the loss declared, e.g. its proxies.
    pub fn loss_with(&self, value: &Tensor, gradient: &Tensor, tensor: &Tensor, by_tensor: &Tensor) -> Result<Tensor> {
        with_gradients(value, &[&self.graph, tensor], &[gradient, by_tensor])
    }

    /// A loss with this value and the gradient `grad` `[B, B]` with respect to the similarities.
    ///
    /// `S = x xᵀ` gives `∂L/∂x = (grad + gradᵀ) x`.
    pub fn loss_of_similarities(&self, value: &Tensor, grad: &Tensor) -> Result<Tensor> {
        self.loss(value, &mm(&(grad + grad.tr()), &self.points))
    }

    /// A loss with this value and the gradient `grad` `[B, B]` with respect to the squared distances.
    pub fn loss_of_squared_distances(&self, value: &Tensor, grad: &Tensor) -> Result<Tensor> {
        self.loss(value, &gradient_of_squared_distances(&self.points, grad))
    }
}
