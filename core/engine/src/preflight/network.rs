//! Images that are too small for the network.

use crate::backbone;
use curricle_recipe::{DataRecipe, Problem, Written};

/// The problem with an image size that is too small for the network.
pub(super) fn problems(written: Written) -> Vec<Problem> {
    let recipe = written.recipe;
    let (path, size) = match &recipe.data {
        DataRecipe::Strokes(strokes) => ("data.size", strokes.size),
        DataRecipe::Features(_) => return Vec::new(),
        _ => ("images.size", recipe.images.size),
    };
    let Some(needed) = backbone::smallest_image(&recipe.backbone) else { return Vec::new() };
    if size as i64 >= needed {
        return Vec::new();
    }
    let network = recipe.backbone.name();
    let message = format!("backbone `{network}` needs images of at least {needed} pixels, but `{path}` is {size}");
    vec![written.problem(path, message).label("too small for the network").help(format!("set `{path} = {needed}`"))]
}
