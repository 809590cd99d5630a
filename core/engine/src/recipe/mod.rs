//! Recipes: what is to be computed.

mod settings;

pub use settings::{
    BackboneRecipe, ClusterWhen, ComponentRecipe, DataRecipe, EmbeddingRecipe, EvalRecipe, FeaturesRecipe, GroupRecipe,
    ListLabels, NoiseRecipe, OptimizerRecipe, Recipe, ScheduleRecipe, StrokesRecipe, TrackRecipe, TrainRecipe,
    UnknownLabels,
};

/// All problems of a recipe. (Placeholder until the loader is here.)
#[derive(Debug, thiserror::Error)]
#[error("the recipe has problems")]
pub struct Problems;
