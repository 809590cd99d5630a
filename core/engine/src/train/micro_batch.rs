//! Gradients of a large batch with the memory of a small one (GradCache; Gao et al., RepL4NLP 2021).
//!
//! A loss compares all samples of a batch, so its gradients are not the mean of those of smaller batches. But the network
//! treats every sample on its own, apart from batch norm. So it embeds one micro-batch after the other without a graph,
//! the loss gives its derivative by the embeddings of the whole batch, and each micro-batch then passes through the
//! network a second time, with a graph, which carries its part of that derivative on to the parameters.

use crate::backbone::Model;
use curricle_sdk::Result;
use tch::Tensor;

/// The inputs of a batch in parts that are computed one at a time.
#[derive(Debug)]
pub(super) struct MicroBatches {
    inputs: Vec<Tensor>,
    /// Seeds of libtorch's generator, so that both passes drop the same units and paths.
    seeds: Vec<i64>,
}

impl MicroBatches {
    /// The fewest parts of at most `size` samples. Their sizes differ by at most 1, because batch norm needs several
    /// samples. `None` if the whole batch is small enough.
    pub(super) fn split(inputs: &Tensor, size: Option<usize>, seed: impl Fn(usize) -> i64) -> Option<Self> {
        let samples = inputs.size()[0] as usize;
        let parts = samples.div_ceil(size?.max(1));
        (parts > 1)
            .then(|| Self { inputs: inputs.tensor_split(parts as i64, 0), seeds: (0..parts).map(seed).collect() })
    }

    /// Embeddings of the whole batch as in training, without the network's graph. They are where the derivative of a
    /// loss ends. Running statistics stay as they are until [`Self::backward`].
    pub(super) fn embed(&self, model: &Model) -> Result<Tensor> {
        let statistics = model.buffers();
        let before: Vec<Tensor> = statistics.iter().map(Tensor::copy).collect();
        let embedded = self.each(|part| Ok(tch::no_grad(|| model.forward(part, true))))?;
        if !statistics.is_empty() {
            let _no_grad = tch::no_grad_guard();
            curricle_torch::copy(&statistics.iter().collect::<Vec<_>>(), &before.iter().collect::<Vec<_>>())?;
        }
        Ok(Tensor::f_cat(&embedded, 0)?.set_requires_grad(true))
    }

    /// Adds the gradients of the model's parameters, given the derivative by the embeddings of the whole batch.
    pub(super) fn backward(&self, model: &Model, derivative: &Tensor) -> Result<()> {
        let mut row = 0;
        self.each(|part| {
            let embeddings = model.forward(part, true);
            let rows = embeddings.size()[0];
            let own = derivative.f_narrow(0, row, rows)?;
            row += rows;
            // The derivative of this sum by the embeddings is exactly the one given.
            Ok((embeddings * own).sum(derivative.kind()).f_backward()?)
        })?;
        Ok(())
    }

    /// Calls a function with each part, with the generator in the same state every time.
    fn each<T>(&self, mut work: impl FnMut(&Tensor) -> Result<T>) -> Result<Vec<T>> {
        let parts = self.inputs.iter().zip(&self.seeds);
        parts
            .map(|(part, &seed)| {
                curricle_torch::seed(seed)?;
                work(part)
            })
            .collect()
    }

    /// Applies a function without gradients and random numbers to every part.
    pub(super) fn map(&self, work: impl Fn(&Tensor) -> Tensor) -> Tensor {
        Tensor::cat(&self.inputs.iter().map(work).collect::<Vec<_>>(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Layout;
    use curricle_recipe::{BackboneRecipe, EmbeddingRecipe};
    use serde_json::json;
    use tch::{Device, Kind};

    fn model(backbone: serde_json::Value) -> Model {
        let backbone: BackboneRecipe = serde_json::from_value(backbone).unwrap();
        let layout = Layout::Images { channels: 3, height: 32, width: 32 };
        Model::build(&backbone, &EmbeddingRecipe { size: 8 }, layout, 1, Device::Cpu).unwrap()
    }

    fn images() -> Tensor {
        curricle_torch::seed(3).unwrap();
        Tensor::randint(256, [7, 3, 32, 32], (Kind::Uint8, Device::Cpu))
    }

    /// Any function of all embeddings that is not a sum over samples.
    fn loss(embeddings: &Tensor) -> Tensor {
        let weights = Tensor::arange(49, (Kind::Float, Device::Cpu)).sin().view([7, 7]);
        ((embeddings.matmul(&embeddings.tr()) * 3.0).exp() * weights).sum(Kind::Float)
    }

    fn gradients(model: &Model) -> Vec<(String, Tensor)> {
        let trained = model.tensors().into_iter().filter(|named| named.tensor.requires_grad());
        trained.map(|named| (named.name, curricle_torch::take_gradient(&named.tensor).unwrap().unwrap())).collect()
    }

    fn micro_batched(model: &Model, images: &Tensor) -> Vec<(String, Tensor)> {
        let parts = MicroBatches::split(images, Some(3), |part| part as i64).unwrap();
        let embeddings = parts.embed(model).unwrap();
        loss(&embeddings).backward();
        parts.backward(model, &curricle_torch::take_gradient(&embeddings).unwrap().unwrap()).unwrap();
        gradients(model)
    }

    fn assert_same(found: &[(String, Tensor)], wanted: &[(String, Tensor)]) {
        let all =
            |tensors: &[(String, Tensor)]| -> Vec<String> { tensors.iter().map(|(name, _)| name.clone()).collect() };
        assert_eq!(all(found), all(wanted));
        let largest = |tensor: &Tensor| tensor.abs().max().double_value(&[]);
        let scale = wanted.iter().map(|(_, gradient)| largest(gradient)).fold(0.0, f64::max);
        for ((name, found), (_, wanted)) in found.iter().zip(wanted) {
            let difference = largest(&(found - wanted));
            assert!(difference <= 1e-5 * scale, "{name}: {difference} of {scale}");
        }
        assert!(scale > 1e-3);
    }

    const VIT: &str = r#"{"name": "vit_small_16", "patch": 8, "width": 16, "depth": 3, "heads": 2}"#;

    #[test]
    fn gradients_are_those_of_the_whole_batch() {
        let frozen_norm = json!({ "name": "resnet18", "frozen_norm": true });
        for backbone in [frozen_norm, serde_json::from_str(VIT).unwrap()] {
            let (model, images) = (model(backbone), images());
            loss(&model.forward(&images, true)).backward();
            let wanted = gradients(&model);
            assert_same(&micro_batched(&model, &images), &wanted);
        }
    }

    #[test]
    fn both_passes_drop_the_same_paths() {
        let mut backbone: serde_json::Value = serde_json::from_str(VIT).unwrap();
        backbone["drop_path"] = json!(0.5);
        let (model, images) = (model(backbone), images());
        let parts = MicroBatches::split(&images, Some(3), |part| part as i64).unwrap();
        let close = |((_, a), (_, b)): (&(String, Tensor), &(String, Tensor))| a.allclose(b, 1e-4, 1e-5, false);
        let once = || {
            // The same parts with the same random numbers in one graph.
            let embedded = parts.each(|part| Ok(model.forward(part, true))).unwrap();
            loss(&Tensor::cat(&embedded, 0)).backward();
            let wanted = gradients(&model);
            micro_batched(&model, &images).iter().zip(&wanted).all(close).then_some(wanted)
        };
        // Other tests of this process draw from the same generator, now and then between a seed and its numbers.
        let wanted = (0..50).find_map(|_| once()).expect("both passes drop the same paths");
        loss(&model.forward(&images, false)).backward();
        let undropped = gradients(&model);
        let differ = |((_, a), (_, b)): (&(String, Tensor), &(String, Tensor))| !a.allclose(b, 1e-3, 1e-5, false);
        assert!(wanted.iter().zip(&undropped).any(differ), "paths were dropped");
    }

    #[test]
    fn running_statistics_are_updated_once_for_each_micro_batch() {
        let (micro, once) =
            (model(json!({ "name": "conv4", "width": 4 })), model(json!({ "name": "conv4", "width": 4 })));
        let images = images();
        micro_batched(&micro, &images);
        for part in images.tensor_split(3, 0) {
            let _ = once.forward(&part, true);
        }
        for (found, wanted) in micro.tensors().iter().zip(once.tensors()) {
            assert_eq!(found.tensor, wanted.tensor, "{}", found.name);
        }
    }

    #[test]
    fn parts_are_even_and_a_small_batch_has_none() {
        let sizes = |size| {
            let parts = MicroBatches::split(&images(), size, |_| 0);
            parts.map(|parts| parts.inputs.iter().map(|part| part.size()[0]).collect::<Vec<_>>())
        };
        assert_eq!(sizes(Some(6)), Some(vec![4, 3]));
        assert_eq!(sizes(Some(3)), Some(vec![3, 2, 2]));
        assert_eq!(sizes(Some(1)), Some(vec![1; 7]));
        assert_eq!((sizes(Some(7)), sizes(Some(100)), sizes(None)), (None, None, None));
    }
}
