//! Learning-rate scales that a loss declares for its own tensors, as part of the recipe.

use super::source::Origin;
use super::tree::{Entry, Node, Value};
use curricle_sdk::{Loss, Shape, TensorSpec, guard};

/// The trainable tensors that a loss declares; none if the loss fails here.
pub(super) fn trainable(loss: &dyn Loss, shape: &Shape) -> Vec<TensorSpec> {
    let specs = guard(|| Ok(loss.tensors(shape))).unwrap_or_default();
    specs.into_iter().filter(|spec| spec.trainable).collect()
}

/// Fills in the learning-rate scales of these tensors where the recipe does not set them, so that a
/// stored recipe keeps its meaning if the loss later declares others.
pub(super) fn fill_in_scales(tree: &mut Node, loss: &dyn Loss, embedding: i64) {
    // Groups and scales do not depend on the sizes, so placeholders will do.
    let specs = trainable(loss, &Shape { classes: 2, samples: 4, embedding });
    let Value::Table(recipe) = &mut tree.value else { return };
    let Some(groups) = recipe.below("groups") else { return };
    for spec in specs {
        let Some(group) = groups.below(&spec.group) else { continue };
        if group.get("lr_scale").is_none() {
            let node = Node { value: Value::Float(spec.lr_scale), origin: Origin::Default };
            group.insert(Entry { key: "lr_scale".into(), key_origin: Origin::Default, node });
        }
    }
}
