//! What a loss declares about its own tensors, as part of the recipe.

use super::source::Origin;
use super::tree::{Entry, Node, Value};
use curricle_sdk::{Loss, Shape, TensorSpec, guard};

/// The tensors that a loss declares and the optimiser moves; none if the loss fails to say so here.
pub(super) fn trainable(loss: &dyn Loss, shape: &Shape) -> Vec<TensorSpec> {
    let specs = guard(|| Ok(loss.tensors(shape))).unwrap_or_default();
    specs.into_iter().filter(|spec| spec.trainable).collect()
}

/// Fills in how fast these tensors learn where the recipe does not say it, so that a stored recipe
/// keeps its meaning if a loss changes its mind.
pub(super) fn fill_in_scales(tree: &mut Node, loss: &dyn Loss, embedding: i64) {
    // Groups and scales do not depend on the sizes, so stand-ins will do.
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
