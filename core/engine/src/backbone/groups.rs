//! The names by which `[groups]` can refer to a network's parameters.

use super::{BACKBONE, vit};
use curricle_recipe::{BackboneRecipe, nearest};
use std::collections::BTreeSet;

/// Every prefix by which tensors with these names can be grouped.
pub(crate) fn parameter_groups<'n>(names: impl Iterator<Item = &'n str>) -> BTreeSet<String> {
    let of = |name: &'n str| name.match_indices('.').map(move |(at, _)| &name[..at]).chain([name]);
    names.flat_map(of).map(str::to_string).collect()
}

/// The factor of layer-wise decay on the learning rate of a tensor, and the group it holds for; `None` without
/// decay.
pub(crate) fn layer_decay<'n>(backbone: &BackboneRecipe, name: &'n str) -> Option<(&'n str, f64)> {
    let (part, factor) = vit::decay(backbone, name.strip_prefix(BACKBONE)?)?;
    Some((&name[..BACKBONE.len() + part.len()], factor))
}

/// Suggests known groups for an unknown one.
pub(crate) fn suggest_group(unknown: &str, known: &BTreeSet<String>) -> String {
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
    fn an_unknown_group_gets_a_suggestion() {
        let known = parameter_groups(["backbone.layer4.0.weight", "embedding.bias"].into_iter());
        assert!(known.contains("backbone.layer4.0") && !known.contains("backbone.layer"));
        let said = suggest_group("backbone.layr4", &known);
        assert!(
            said.starts_with("did you mean `backbone.layer4`? available groups: `backbone`, `backbone.layer4`,"),
            "{said}"
        );
    }
}
