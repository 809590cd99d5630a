//! Settings that are valid one by one but not together.

use crate::catalogue::Written;
use crate::problems::Problem;
use crate::settings::{BackboneRecipe, DataRecipe, EvalNetwork};

/// Settings that contradict each other.
pub(crate) fn contradictions(written: Written) -> Vec<Problem> {
    let recipe = written.recipe;
    let mut problems = Vec::new();
    let name = recipe.name.as_str();
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\', '\0', '\n']) {
        let problem = written.problem("name", format!("`{name}` is not a valid folder name"));
        problems.push(problem.label("names the runs' folder").help("use letters, digits, `-` and `_`"));
    }
    let takes_features = matches!(recipe.backbone, BackboneRecipe::Linear | BackboneRecipe::Mlp { .. });
    let has_features = matches!(recipe.data, DataRecipe::Features(_));
    let network = recipe.backbone.name();
    if has_features && !takes_features {
        let problem =
            written.problem("backbone.name", format!("backbone `{network}` needs images, but `features` has none"));
        problems.push(problem.label("only for images").help("use `linear` or `mlp` for features"));
    }
    if takes_features && !has_features {
        let message = format!("backbone `{network}` needs features, but the data source has images");
        let problem = written.problem("backbone.name", message);
        problems.push(
            problem.label("only for features").help("use `conv4`, `mobilenet_v2` or another backbone for images"),
        );
    }
    if recipe.eval.network == EvalNetwork::Ema && recipe.train.ema.is_none() {
        let problem = written.problem("eval.network", "there is no moving average of the network to evaluate");
        problems.push(problem.label("needs `train.ema`").help("set its decay, e.g. `train.ema = 0.999`"));
    }
    let has_files = !has_features && !matches!(recipe.data, DataRecipe::Strokes(_));
    if has_files {
        problems.extend(image_sizes(written));
    }
    problems
}

/// Sizes of `[images]` that contradict each other.
fn image_sizes(written: Written) -> Vec<Problem> {
    let images = &written.recipe.images;
    let (size, resize) = (images.size, images.resize());
    let mut problems = Vec::new();
    if let Some(shrink) = images.shrink.filter(|shrink| *shrink < size) {
        let message = format!("`images.shrink` is {shrink}, less than `images.size`, {size}");
        let problem = written.problem("images.shrink", message).label("smaller than what the network sees");
        problems.push(problem.help(format!("images would be reduced and enlarged again; use at least {size}")));
    }
    if resize < size {
        let message = format!("`images.resize` is {resize}, less than `images.size`, {size}");
        let problem = written.problem("images.resize", message).label("smaller than the crop");
        problems.push(problem.help(format!("the crop must fit into the resized image; use at least {size}")));
    }
    problems
}
