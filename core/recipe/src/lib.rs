//! Recipes, which describe runs.
//!
//! TOML text is parsed into a tree with the origin of every value (`parse`). The trees of extended
//! recipes and `--set` arguments are merged (`merge`) and validated against the JSON Schema
//! (`validate`), which reports all problems and fills in the defaults. A valid tree is turned into
//! typed settings and checked as a whole (`resolver`).

mod advice;
mod arguments;
mod assignments;
mod built_in;
mod catalogue;
mod contradictions;
mod editor_schema;
mod files;
mod form;
mod grid;
mod hash;
mod keywords;
mod limits;
mod listing;
mod load;
mod merge;
mod parse;
mod paths;
mod plan;
mod plugins;
mod problems;
mod refusal;
mod render;
mod resolved;
mod resolver;
mod schema;
mod settings;
mod source;
mod suggest;
mod sweep;
mod sweep_schema;
mod syntax;
mod tree;
mod tune;
mod validate;

pub use assignments::assignments;
pub use built_in::{BuiltIn, built_in};
pub use catalogue::{Catalogue, ComponentSchema, Written};
pub use hash::identity;
pub use keywords::unsupported_keyword;
pub use listing::{Choice, Listing, Setting, listings};
pub use load::{load, settings_of};
pub use plan::{Plan, Search, SweepRun, Trial};
pub use problems::{Problem, Problems, render};
pub use refusal::Refusal;
pub use resolved::Resolved;
pub use schema::Schema;
pub use settings::{
    BackboneRecipe, ClusterWhen, ComponentRecipe, CropRecipe, CsvRecipe, CustomNormalise, DataRecipe, EmbeddingRecipe,
    EvalNetwork, EvalOn, EvalRecipe, FeaturesRecipe, FolderRecipe, GroupRecipe, ImagesRecipe, Interpolation,
    JitterRecipe, ListLabels, MlpActivation, NoiseRecipe, NormaliseRecipe, OnBadImage, OptimizerRecipe, PluginFile,
    PluginsRecipe, PoolingRecipe, Precision, PublishedRecipe, Recipe, ScheduleRecipe, SplitRecipe, StrokesRecipe,
    TokenPooling, TorchscriptRecipe, TrackRecipe, TrainRecipe, UnknownLabels, VisionRecipe, VitRecipe,
};
pub use source::{Origin, Place, Source};
pub use suggest::{help as suggestion, nearest};
pub use sweep::load_sweep;
pub use tree::{Entry, Node, Replaced, Table, Value};
