//! Recipes, which describe runs.
//!
//! TOML text is parsed into a tree with the origin of every value (`parse`). The trees of extended
//! recipes and `--set` arguments are merged (`merge`) and validated against the JSON Schema
//! (`validate`), which reports all problems and fills in the defaults. A valid tree is turned into
//! typed settings and components (`resolve`).

mod advice;
mod declared;
mod editors;
mod files;
mod form;
mod hash;
mod limits;
mod listing;
mod merge;
mod parse;
mod plugins;
mod problems;
mod render;
mod resolve;
mod resolver;
mod schema;
mod sets;
mod settings;
mod source;
mod suggest;
mod sweep;
mod tree;
mod tune;
mod validate;

pub use advice::advice;
pub use listing::{Choice, Listing, Setting, listings};
pub use problems::{Problem, Problems, render};
pub use resolve::{Components, Resolved, component_settings, load, settings_of};
pub use schema::Schema;
pub use settings::{
    BackboneRecipe, ClusterWhen, ComponentRecipe, CropRecipe, CsvRecipe, CustomNormalise, DataRecipe, EmbeddingRecipe,
    EvalOn, EvalRecipe, FeaturesRecipe, FolderRecipe, GroupRecipe, ImagesRecipe, Interpolation, JitterRecipe,
    ListLabels, NoiseRecipe, NormaliseRecipe, OnBadImage, OptimizerRecipe, PluginFile, PluginsRecipe, PoolingRecipe,
    Precision, PublishedRecipe, Recipe, ScheduleRecipe, SplitRecipe, StrokesRecipe, TrackRecipe, TrainRecipe,
    UnknownLabels, VisionRecipe,
};
pub use source::{Origin, Place, Source};
pub use suggest::nearest;
pub use sweep::{Plan, SweepRun, load_sweep};
pub use tree::{Entry, Node, Replaced, Table, Value};
pub use tune::{Search, Trial};
