//! For losses that compute their own gradient.
//!
//! Most losses are functions of pairwise similarities or distances, and their gradient has a short closed form.
//! Computing it next to the value, without recording a graph, takes about a third of the operations of automatic
//! differentiation. At common batch sizes the cost of launching operations dominates a loss, so this is worth it.
//! Write the loss with plain tensor operations first: that version is the reference the fast one is tested against.
//!
//! ```
//! use curricle_sdk::gradients::{Embeddings, mean_of_active};
//! use curricle_sdk::prelude::*;
//!
//! /// The mean of `relu(m - S)` over the positive pairs where it is not 0.
//! fn fast(batch: &Batch, m: f64) -> Result<Tensor> {
//!     let embeddings = Embeddings::of(batch);
//!     let pairs = batch.pairs();
//!     let (value, grad) = mean_of_active(&(m - embeddings.similarities()), &pairs.positive, None);
//!     embeddings.loss_of_similarities(&value, &-grad)
//! }
//!
//! fn reference(batch: &Batch, m: f64) -> Tensor {
//!     let gap = (m - batch.similarities()).relu();
//!     weighted_mean(&gap, &(gap.sign() * batch.pairs().positive))
//! }
//! # let embeddings = Tensor::from_slice2(&[[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]).set_requires_grad(true);
//! # let (labels, ids) = (Tensor::from_slice(&[0i64, 0, 0]), Tensor::from_slice(&[0i64, 1, 2]));
//! # let tensors = Tensors::default();
//! # let batch = Batch::new(&embeddings, &labels, &ids, &tensors);
//! # let gradient = |loss: Tensor| Tensor::run_backward(&[loss], &[&embeddings], false, false).remove(0);
//! # let (ours, expected) = (fast(&batch, 0.9).unwrap(), reference(&batch, 0.9));
//! # assert!((ours.double_value(&[]) - expected.double_value(&[])).abs() < 1e-12);
//! # assert!((gradient(ours) - gradient(expected)).abs().max().double_value(&[]) < 1e-12);
//! ```
//!
//! The value and the gradient may come from anywhere, also from operations of your own: [`with_gradients()`] joins
//! them into one differentiable scalar. C++ plugins have the same function as `curricle::with_gradients`.

mod distances;
mod embeddings;
mod means;
mod with_gradients;

pub use distances::{Distances, gradient_of_squared_distances, squared_distances};
pub use embeddings::Embeddings;
pub use means::{log_one_plus_sum_exp, mean_of_active, not_zero, weighted_mean};
pub use with_gradients::with_gradients;
