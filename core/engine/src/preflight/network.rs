//! Networks that cannot be used: images of a size that they do not take, files that are not modules.

use crate::backbone::{self, ImageSize};
use curricle_recipe::{DataRecipe, Problem, Written};

/// The problem with an image size that the network does not take.
pub(super) fn problems(written: Written) -> Vec<Problem> {
    let recipe = written.recipe;
    let (path, size) = match &recipe.data {
        DataRecipe::Strokes(strokes) => ("data.size", strokes.size),
        DataRecipe::Features(_) => return Vec::new(),
        _ => ("images.size", recipe.images.size),
    };
    let Some(needed) = backbone::image_size(&recipe.backbone) else { return Vec::new() };
    let fitting = needed.fitting(size as i64);
    if size as i64 == fitting {
        return Vec::new();
    }
    let network = recipe.backbone.name();
    let message = format!("backbone `{network}` needs images of {needed}, but `{path}` is {size}");
    let label = match needed {
        ImageSize::AtLeast(_) => "too small for the network",
        ImageSize::MultipleOf(_) => "not a multiple of the patch size",
    };
    vec![written.problem(path, message).label(label).help(format!("set `{path} = {fitting}`"))]
}

/// The problem with a file that exists but is not a TorchScript module, or another one than the recipe means.
pub(super) fn unusable_script(written: Written) -> Option<Problem> {
    let script = written.recipe.backbone.torchscript().filter(|script| script.path.is_file())?;
    let error = backbone::check_script(script).err()?;
    Some(written.problem("backbone.path", error.to_string()).label("cannot be used"))
}
