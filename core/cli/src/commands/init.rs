//! `curricle init`

use super::init_recipe::{self, OwnData};
use crate::error::{Error, Result};
use crate::output;
use curricle_engine::Registry;
use curricle_engine::data::{self, Survey};
use curricle_recipe::{BuiltIn, Catalogue, CsvRecipe, DataRecipe, FeaturesRecipe, FolderRecipe, Schema, SplitRecipe};
use std::path::{Path, PathBuf};

/// Write a first recipe, with the base and method recipes it can extend.
///
/// With `--images`, `--csv` or `--features`, looks at the data and writes a recipe that fits: no label noise, a
/// network for the size of the images, batches for the number of classes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write to; it is created if needed.
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Own images, one folder per class.
    #[arg(long, value_name = "FOLDER", value_parser = class_folders, group = "own")]
    images: Option<PathBuf>,
    /// Own images, listed in a CSV file of `path,label` or `path,label,split`.
    #[arg(long, value_name = "FILE", value_parser = file, group = "own")]
    csv: Option<PathBuf>,
    /// Folder that the paths in the CSV file are relative to [default: the folder of the file].
    #[arg(long, value_name = "FOLDER", value_parser = super::existing, requires = "csv")]
    root: Option<PathBuf>,
    /// Own features, in a safetensors file with `features` and `labels`.
    #[arg(long, value_name = "FILE", value_parser = file, group = "own")]
    features: Option<PathBuf>,
}

fn class_folders(path: &str) -> Result<PathBuf, String> {
    match super::existing(path)? {
        path if path.is_dir() => Ok(path),
        _ => Err("it is a file; use `--csv` for a list of images, `--features` for features".into()),
    }
}

fn file(path: &str) -> Result<PathBuf, String> {
    match super::existing(path)? {
        path if path.is_dir() => Err("it is a folder; use `--images` for a folder of images".into()),
        path => Ok(path),
    }
}

/// Writes the files; existing ones are never overwritten.
pub(crate) fn run(args: &Args) -> Result<()> {
    let own = args.own_data()?;
    let recipe = match &own {
        None => init_recipe::BUILT_IN_DATA.to_string(),
        Some((own, survey)) => init_recipe::for_own_data(own, survey),
    };
    let schema = Schema::of_recipes(&Registry::built_in().components()).for_editors();
    let schema = serde_json::to_string_pretty(&schema).map_err(|e| Error::failed(e.to_string()))?;
    let mut files = vec![(PathBuf::from("recipe.toml"), recipe), ("recipes/schema.json".into(), schema + "\n")];
    let wanted = |recipe: &&BuiltIn| recipe.name.starts_with("base/") || recipe.name.starts_with("methods/");
    let recipes = curricle_recipe::built_in().iter().filter(wanted);
    files.extend(recipes.map(|recipe| (format!("recipes/{}.toml", recipe.name).into(), recipe.text.to_string())));
    write_all(&args.folder, &files)?;
    let path = args.folder.join("recipe.toml");
    if let Some((_, survey)) = &own {
        output::note(&init_recipe::found(survey));
    }
    output::print(&format!(
        "created `{}` and {} recipes in `{}`; next:\n  curricle check {next}\n  curricle run {next}\n",
        path.display(),
        files.len() - 2,
        args.folder.join("recipes").display(),
        next = output::in_shell(&path)
    ))
}

fn write_all(folder: &Path, files: &[(PathBuf, String)]) -> Result<()> {
    if let Some((taken, _)) = files.iter().find(|(path, _)| folder.join(path).exists()) {
        let taken = folder.join(taken);
        let message = format!("`{}` already exists; choose another folder: `curricle init FOLDER`", taken.display());
        return Err(Error::usage(message));
    }
    for (path, text) in files {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(folder);
        fs_err::create_dir_all(parent).map_err(Error::file("create", parent))?;
        fs_err::write(&path, text).map_err(Error::file("write", &path))?;
    }
    Ok(())
}

impl Args {
    fn own_data(&self) -> Result<Option<(OwnData, Survey)>> {
        let (source, path) = match (&self.images, &self.csv, &self.features) {
            (Some(path), ..) => ("folder", path),
            (_, Some(path), _) => ("csv", path),
            (.., Some(path)) => ("features", path),
            _ => return Ok(None),
        };
        let recipe = |split| match source {
            "folder" => DataRecipe::Folder(FolderRecipe { path: path.clone(), split }),
            "csv" => DataRecipe::Csv(CsvRecipe { path: path.clone(), root: self.root.clone(), split }),
            _ => DataRecipe::Features(FeaturesRecipe { path: path.clone() }),
        };
        let mut split = SplitRecipe::Classes;
        let mut survey = data::survey(&recipe(split))?;
        // A single class cannot train, so none can be left for testing.
        if survey.splits[0].classes < 2 {
            split = SplitRecipe::None;
            survey = data::survey(&recipe(split))?;
        }
        if survey.splits[0].classes < 2 {
            let shown = path.display();
            return Err(Error::usage(format!(
                "`{shown}` has a single class; losses compare classes, so give two or more"
            )));
        }
        let root = self.root.as_deref().map(|root| self.seen_from_recipe(root)).transpose()?;
        Ok(Some((OwnData { source, path: self.seen_from_recipe(path)?, root, split }, survey)))
    }

    /// Paths in a recipe are relative to it.
    fn seen_from_recipe(&self, path: &Path) -> Result<PathBuf> {
        match self.folder == Path::new(".") {
            true => Ok(path.to_path_buf()),
            false => fs_err::canonicalize(path).map_err(Error::file("find", path)),
        }
    }
}
