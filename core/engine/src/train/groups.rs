//! Parameter groups: learning-rate factors and weight decay by tensor name.
//!
//! The keys of `[groups]` are prefixes of tensor names (`backbone`, `embedding`,
//! `"backbone.layer4"`) or the group that a loss declared for its own tensors. The longest matching
//! prefix wins.

use super::components::Components;
use super::optimizer::Parameter;
use crate::backbone::Model;
use crate::recipe::{GroupRecipe, Recipe, nearest};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use tch::Tensor;

/// Everything the optimiser updates: backbone, embedding layer, and the loss's trainable tensors.
pub(super) fn parameters(recipe: &Recipe, model: &Model, components: &Components) -> Result<Vec<Parameter>> {
    let declared = &components.loss_tensors;
    let tensors = model.tensors();
    let mut known = beginnings(tensors.iter().map(|named| named.name.as_str()));
    known.extend(declared.specs.iter().filter(|spec| spec.trainable).map(|spec| spec.group.to_string()));
    if let Some(unknown) = recipe.groups.keys().find(|group| !known.contains(*group)) {
        return Err(Error::Usage(format!(
            "`groups.\"{unknown}\"` does not match any parameter; {}",
            suggestion(unknown, &known)
        )));
    }
    let mut parameters = Vec::new();
    let mut add = |name: String, group: &str, tensor: &Tensor, declared_scale: f64| {
        let settings = recipe.groups.get(group).cloned().unwrap_or_default();
        parameters.push(Parameter {
            name,
            tensor: tensor.shallow_clone(),
            group: group.to_string(),
            lr_scale: settings.lr_scale.unwrap_or(declared_scale),
            weight_decay: settings.weight_decay,
        });
    };
    for named in tensors.iter().filter(|named| named.tensor.requires_grad()) {
        add(named.name.clone(), group_of(&named.name, &recipe.groups), &named.tensor, 1.0);
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

/// Every prefix by which tensors with these names can be grouped.
pub(crate) fn beginnings<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let of = |name: &'n str| name.match_indices('.').map(move |(at, _)| &name[..at]).chain([name]);
    names.flat_map(of).map(str::to_string).collect()
}

/// Suggests known groups for an unknown one.
pub(crate) fn suggestion(unknown: &str, known: &BTreeSet<String>) -> String {
    let near = nearest(unknown, known.iter().map(String::as_str));
    let meant = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    // All prefixes of all names would be hundreds.
    let depth = |name: &str| name.matches('.').count();
    let short: Vec<_> = known.iter().filter(|name| depth(name) <= 1).map(|name| format!("`{name}`")).collect();
    format!("{meant}available groups: {}, and the groups below them", short.join(", "))
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

    #[test]
    fn an_unknown_group_gets_a_suggestion() {
        let known = beginnings(["backbone.layer4.0.weight", "embedding.bias"].into_iter());
        assert!(known.contains("backbone.layer4.0") && !known.contains("backbone.layer"));
        let said = suggestion("backbone.layr4", &known);
        assert!(
            said.starts_with("did you mean `backbone.layer4`? available groups: `backbone`, `backbone.layer4`,"),
            "{said}"
        );
    }
}
