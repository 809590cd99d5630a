//! Parameter groups: learning-rate factors and weight decay by tensor name.
//!
//! The keys of `[groups]` are prefixes of tensor names (`backbone`, `embedding`,
//! `"backbone.layer4"`) or the group that a loss declared for its own tensors. The longest matching
//! prefix wins.

use super::components::Components;
use super::optimizer::Parameter;
use crate::backbone::{self, Model};
use crate::{Error, Result};
use curricle_recipe::{GroupRecipe, Recipe};
use std::collections::BTreeMap;
use tch::Tensor;

/// Everything the optimiser updates: backbone, embedding layer, and the loss's trainable tensors. Parameters of the
/// network with `lr_scale = 0` are frozen.
pub(super) fn parameters(recipe: &Recipe, model: &Model, components: &Components) -> Result<Vec<Parameter>> {
    let declared = &components.loss_tensors;
    let tensors = model.tensors();
    let mut known = backbone::parameter_groups(tensors.iter().map(|named| named.name.as_str()));
    known.extend(declared.specs.iter().filter(|spec| spec.trainable).map(|spec| spec.group.to_string()));
    if let Some(unknown) = recipe.groups.keys().find(|group| !known.contains(*group)) {
        return Err(Error::Usage(format!(
            "`groups.\"{unknown}\"` does not match any parameter; {}",
            backbone::suggest_group(unknown, &known)
        )));
    }
    let mut parameters = Vec::new();
    let mut add = |name: String, group: &str, tensor: &Tensor, declared_scale: f64| {
        let settings = recipe.groups.get(group).cloned().unwrap_or_default();
        let decay = backbone::layer_decay(model.backbone(), &name);
        // With a decay, each layer is shown with its own learning rate.
        let shown = decay.map(|(layer, _)| layer).filter(|layer| layer.len() > group.len()).unwrap_or(group);
        parameters.push(Parameter {
            tensor: tensor.shallow_clone(),
            group: shown.to_string(),
            lr_scale: settings.lr_scale.unwrap_or(declared_scale) * decay.map_or(1.0, |(_, factor)| factor),
            weight_decay: settings.weight_decay,
            name,
        });
    };
    for named in tensors.iter().filter(|named| named.tensor.requires_grad()) {
        let group = group_of(&named.name, &recipe.groups);
        if recipe.groups.get(group).is_some_and(|settings| settings.lr_scale == Some(0.0)) {
            // Frozen: without gradients, the backward pass ends above the first layers.
            let _ = named.tensor.set_requires_grad(false);
        } else {
            add(named.name.clone(), group, &named.tensor, 1.0);
        }
    }
    for spec in declared.specs.iter().filter(|spec| spec.trainable) {
        add(format!("loss.{}", spec.name), &spec.group, declared.tensors.get(&spec.name), spec.lr_scale);
    }
    Ok(parameters)
}

/// The longest group that is a prefix of a tensor's name; by default the name's first component.
fn group_of<'n>(name: &'n str, groups: &'n BTreeMap<String, GroupRecipe>) -> &'n str {
    let own = name.split('.').next().unwrap_or(name);
    let fits = |group: &&str| name == *group || name.strip_prefix(*group).is_some_and(|rest| rest.starts_with('.'));
    groups.keys().map(String::as_str).filter(fits).max_by_key(|group| group.len()).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_matching_prefix_wins() {
        let names = ["backbone", "backbone.layer1", "backbone.layer1.0.conv1"];
        let groups = names.map(|name| (name.to_string(), GroupRecipe::default())).into();
        assert_eq!(group_of("backbone.layer1.0.conv1.weight", &groups), "backbone.layer1.0.conv1");
        assert_eq!(group_of("backbone.layer1.0.bn1.weight", &groups), "backbone.layer1");
        assert_eq!(group_of("backbone.layer11.weight", &groups), "backbone", "prefixes end at a dot");
        assert_eq!(group_of("embedding.weight", &groups), "embedding");
    }
}
